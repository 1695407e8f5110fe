/* SPDX-License-Identifier: MIT
 * Owns characters of UTF-8 and general categories that do not depend on the system's libraries. PCRE2 and utf8proc know the Unicode of their day, and
 * ids would differ with them on newer characters: those are looked up here (unicode_new.def). For a pattern a newer character
 * is shown as an old one of its category that has as many bytes. Asks for libraries that know Unicode 14.
 */
#include <utf8proc.h>

#include "model/text/tokenizer_hf.h"

int32_t hf_code_at(const char *p, size_t left, size_t *bytes) {
    utf8proc_int32_t code = -1;
    int n = utf8_length(p, left);
    *bytes = n ? (size_t)n : 1;
    if (n == 0 || utf8proc_iterate((const utf8proc_uint8_t *)p, n, &code) != n) return -1;
    return code;
}

size_t hf_utf8_put(int32_t code, char out[4]) { return (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)out); }

typedef struct unicode_range {
    int32_t first, last;
    utf8proc_category_t category;
} unicode_range;

static const unicode_range unicode_new[] = {
#define UNICODE_NEW(first, last, name) {first, last, UTF8PROC_CATEGORY_##name},
#define UNICODE_LOWER(first, last, distance)
#include "model/text/unicode_new.def"
#undef UNICODE_NEW
#undef UNICODE_LOWER
};

static const struct {
    int32_t first, last, distance;
} unicode_new_capitals[] = {
#define UNICODE_NEW(first, last, name)
#define UNICODE_LOWER(first, last, distance) {first, last, distance},
#include "model/text/unicode_new.def"
#undef UNICODE_NEW
#undef UNICODE_LOWER
};

static const unicode_range *unicode_new_find(int32_t code) {
    size_t low = 0, high = sizeof unicode_new / sizeof unicode_new[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > unicode_new[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    bool inside = low < sizeof unicode_new / sizeof unicode_new[0] && code >= unicode_new[low].first;
    return inside ? &unicode_new[low] : NULL;
}

int hf_category(int32_t code) {
    const unicode_range *r = unicode_new_find(code);
    return (int)(r ? r->category : utf8proc_category(code));
}

int32_t hf_lower(int32_t code) {
    for (size_t i = 0; i < sizeof unicode_new_capitals / sizeof unicode_new_capitals[0]; i++)
        if (code >= unicode_new_capitals[i].first && code <= unicode_new_capitals[i].last)
            return code + unicode_new_capitals[i].distance;
    return utf8proc_tolower(code);
}

/* Old characters for each category: of three bytes and of four. No letter of a script that patterns name, but for Han. */
static const struct unicode_stand_in {
    utf8proc_category_t category;
    int32_t three, four;
} unicode_stand_ins[] = {
    {UTF8PROC_CATEGORY_LU, 0x1e00, 0x10400}, {UTF8PROC_CATEGORY_LL, 0x1e01, 0x10428},
    {UTF8PROC_CATEGORY_LM, 0x1d2c, 0x16b40}, {UTF8PROC_CATEGORY_LO, 0x0e01, 0x10000},
    {UTF8PROC_CATEGORY_MN, 0x1dc0, 0x1d167}, {UTF8PROC_CATEGORY_MC, 0x0903, 0x1d165},
    {UTF8PROC_CATEGORY_ND, 0x0966, 0x104a0}, {UTF8PROC_CATEGORY_NO, 0x2460, 0x10107},
    {UTF8PROC_CATEGORY_PD, 0x2010, 0x10100}, {UTF8PROC_CATEGORY_PO, 0x2020, 0x10100},
    {UTF8PROC_CATEGORY_SM, 0x2200, 0x1d6c1}, {UTF8PROC_CATEGORY_SO, 0x2600, 0x1f600},
    {UTF8PROC_CATEGORY_CN, 0xfdd0, 0x1fffe},
};

static int32_t unicode_new_stand_in(const unicode_range *r, int32_t code, size_t bytes) {
    if (bytes == 2) return 0x378; /* none of them is assigned */
    if (r->category == UTF8PROC_CATEGORY_LO && code >= 0x20000) return 0x20000;
    for (size_t i = 0; i < sizeof unicode_stand_ins / sizeof unicode_stand_ins[0]; i++)
        if (unicode_stand_ins[i].category == r->category)
            return bytes == 3 ? unicode_stand_ins[i].three : unicode_stand_ins[i].four;
    return code;
}

bool hf_show_old(const char *data, size_t length, text *out) {
    char bytes[4];
    size_t done = 0;
    for (size_t i = 0, n; i < length; i += n) {
        n = 1;
        if ((unsigned char)data[i] < 0x80) continue;
        int32_t code = hf_code_at(data + i, length - i, &n);
        const unicode_range *r = unicode_new_find(code);
        if (!r) continue;
        text_append_n(out, data + done, i - done);
        size_t size = hf_utf8_put(unicode_new_stand_in(r, code, n), bytes);
        text_append_n(out, size == n ? bytes : data + i, n);
        done = i + n;
    }
    if (!done) return false;
    text_append_n(out, data + done, length - done);
    return true;
}
