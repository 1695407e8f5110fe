/* SPDX-License-Identifier: MIT
 * Lists in one string: "a|b|c", "a b c", and patterns of names separated by commas. Nothing is allocated.
 */
#ifndef CORE_BASE_WORDS_H
#define CORE_BASE_WORDS_H

#include <stdbool.h>

/* Is `word` one of `list`, whose words are separated by `separator`? */
bool words_have(const char *list, char separator, const char *word);
/* Does a name match a pattern, in which * stands for any characters? */
bool words_match(const char *pattern, const char *name);
/* Does one of the patterns of `list`, separated by commas, match? "layers.0.": a pattern without * may be anywhere. */
bool words_match_any(const char *list, const char *name);

#endif
