/* SPDX-License-Identifier: MIT
 * Owns looking up words in lists stored as one string.
 */
#include "core/base/words.h"

#include <stdio.h>
#include <string.h>

bool words_have(const char *list, char separator, const char *word) {
    const char ends[] = {separator, 0};
    const size_t n = strlen(word);
    for (const char *at = list;;) {
        const size_t length = strcspn(at, ends);
        if (length == n && memcmp(at, word, n) == 0) return true;
        if (!at[length]) return false;
        at += length + 1;
    }
}

bool words_match(const char *pattern, const char *name) {
    const char *star = NULL, *held = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            held = name;
        } else if (*pattern == *name) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name = ++held;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

bool words_match_any(const char *list, const char *name) {
    char pattern[300];
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ",");
        const bool open = !memchr(at, '*', n);
        snprintf(pattern, sizeof pattern, "%s%.*s%s", open ? "*" : "", (int)(n < 290 ? n : 290), at, open ? "*" : "");
        if (n > 0 && words_match(pattern, name)) return true;
        at += n + (at[n] == ',');
    }
    return false;
}
