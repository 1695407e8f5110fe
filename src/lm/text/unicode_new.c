/* SPDX-License-Identifier: MIT
 * Owns UTF-8 characters and general categories that do not depend on the system's libraries. The Unicode version of
 * PCRE2 and utf8proc varies, so ids would differ on newer characters. Newer characters are therefore looked up in a
 * table (unicode_new.def). Patterns are matched on a text in which an older character of the same category and number
 * of bytes replaces each newer one. The libraries must support Unicode 14.
 */
#include <utf8proc.h>

#include "lm/text/tokenizer_hf.h"

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
#include "lm/text/unicode_new.def"
#undef UNICODE_NEW
#undef UNICODE_LOWER
};

static const struct {
    int32_t first, last, distance;
} unicode_new_capitals[] = {
#define UNICODE_NEW(first, last, name)
#define UNICODE_LOWER(first, last, distance) {first, last, distance},
#include "lm/text/unicode_new.def"
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

/* Marks of Unicode 10 to 14. `tokenizers` strips accents with a table of Unicode 9, so these marks stay. */
static const struct {
    int32_t first, last;
} unicode_later_marks[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xafa, 0xaff},
    {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},     {0xd00, 0xd00},     {0xd3b, 0xd3c},
    {0xd81, 0xd81},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x180f, 0x180f},   {0x1abf, 0x1ace},
    {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},   {0x10d24, 0x10d27},
    {0x10eab, 0x10eac}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074},
    {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x1133b, 0x1133b},
    {0x1145e, 0x1145e}, {0x1182c, 0x1183a}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193b, 0x1193e},
    {0x11940, 0x11940}, {0x11942, 0x11943}, {0x119d1, 0x119d7}, {0x119da, 0x119e0}, {0x119e4, 0x119e4},
    {0x11a01, 0x11a0a}, {0x11a33, 0x11a39}, {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47}, {0x11a51, 0x11a5b},
    {0x11a8a, 0x11a99}, {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a}, {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d45},
    {0x11d47, 0x11d47}, {0x11d8a, 0x11d8e}, {0x11d90, 0x11d91}, {0x11d93, 0x11d97}, {0x11ef3, 0x11ef6},
    {0x16f4f, 0x16f4f}, {0x16f7f, 0x16f87}, {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x1cf00, 0x1cf2d},
    {0x1cf30, 0x1cf46}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
};

bool hf_is_accent(int32_t code) {
    if (code < 0x300 || unicode_new_find(code)) return false;
    if (code == 0x1cf2 || code == 0x1cf3) return true; /* marks in that table, but no longer in current versions */
    const utf8proc_category_t c = utf8proc_category(code);
    if (c != UTF8PROC_CATEGORY_MN && c != UTF8PROC_CATEGORY_MC && c != UTF8PROC_CATEGORY_ME) return false;
    for (size_t i = 0; i < sizeof unicode_later_marks / sizeof unicode_later_marks[0]; i++)
        if (code >= unicode_later_marks[i].first && code <= unicode_later_marks[i].last) return false;
    return true;
}

/* Older characters for each category, one of three bytes and one of four. None is a letter of a script that patterns
 * name, except Han. */
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
