/* SPDX-License-Identifier: MIT
 * Owns splitting text into words. The words are those of GPT-2's pattern
 *
 *     '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * written as a scanner, which needs one pass and no memory. A byte that is not UTF-8 has a separate class, so that it
 * never shares a word with text.
 */
#include <string.h>
#include <utf8proc.h>

#include "lm/text/tokenizer_internal.h"

typedef enum sign { SIGN_SPACE, SIGN_LETTER, SIGN_NUMBER, SIGN_OTHER, SIGN_BROKEN } sign;

int utf8_length(const char *bytes, size_t left) {
    const unsigned char *p = (const unsigned char *)bytes;
    if (left == 0) return 0;
    if (p[0] < 0x80) return 1;
    int n = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    if (n == 0 || left < (size_t)n) return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0; /* overlong, a surrogate, or beyond U+10FFFF */
    return n;
}

static sign gpt2_words_sign_of_code(int32_t code) {
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return SIGN_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return SIGN_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return SIGN_SPACE;
    default: return code == 0x85 ? SIGN_SPACE : SIGN_OTHER;
    }
}

/* Returns the class of the first character and sets its length in bytes. */
static sign gpt2_words_sign_at(const char *p, size_t left, size_t *length) {
    unsigned char c = (unsigned char)p[0];
    *length = 1;
    if (c < 0x80) {
        if (c == ' ' || (c >= '\t' && c <= '\r')) return SIGN_SPACE;
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return SIGN_LETTER;
        return c >= '0' && c <= '9' ? SIGN_NUMBER : SIGN_OTHER;
    }
    int n = utf8_length(p, left);
    utf8proc_int32_t code;
    if (n == 0 || utf8proc_iterate((const utf8proc_uint8_t *)p, n, &code) != n) return SIGN_BROKEN;
    *length = (size_t)n;
    return gpt2_words_sign_of_code(code);
}

void splitter_init(splitter *s, const char *data, size_t length) { *s = (splitter){data, length, 0}; }

/* Returns the end of the run of characters of one class that begins at `at`, at most TOKENIZER_WORD_MAX bytes after
 * `begin`. */
static size_t gpt2_words_run_end(const splitter *s, size_t begin, size_t at, sign class) {
    size_t n;
    while (at < s->length && gpt2_words_sign_at(s->data + at, s->length - at, &n) == class &&
           at + n - begin <= TOKENIZER_WORD_MAX)
        at += n;
    return at;
}

static size_t gpt2_words_contraction(const char *p, size_t left) {
    if (left < 2 || p[0] != '\'') return 0;
    if (p[1] == 's' || p[1] == 'd' || p[1] == 'm' || p[1] == 't') return 2;
    if (left < 3) return 0;
    return memcmp(p + 1, "ll", 2) == 0 || memcmp(p + 1, "ve", 2) == 0 || memcmp(p + 1, "re", 2) == 0 ? 3 : 0;
}

/* Returns the end of a run of white space. The run leaves its last character to the next word, unless it has only one
 * character or ends the text. */
static size_t gpt2_words_space_end(const splitter *s, size_t begin) {
    size_t end = gpt2_words_run_end(s, begin, begin, SIGN_SPACE), n;
    if (end == s->length || gpt2_words_sign_at(s->data + end, s->length - end, &n) == SIGN_SPACE) return end;
    size_t last = end - 1;
    while (last > begin && ((unsigned char)s->data[last] & 0xc0) == 0x80) last--;
    return last > begin ? last : end;
}

bool splitter_next(splitter *s, const char **word, size_t *length) {
    if (s->at >= s->length) return false;
    size_t begin = s->at, n, next, end = begin + gpt2_words_contraction(s->data + begin, s->length - begin);
    if (end == begin) {
        sign class = gpt2_words_sign_at(s->data + begin, s->length - begin, &n);
        size_t at = begin;
        if (s->data[begin] == ' ' && begin + 1 < s->length) {
            sign behind = gpt2_words_sign_at(s->data + begin + 1, s->length - begin - 1, &next);
            if (behind != SIGN_SPACE && behind != SIGN_BROKEN) class = behind, at++;
        }
        end = class == SIGN_SPACE ? gpt2_words_space_end(s, begin) : gpt2_words_run_end(s, begin, at, class);
    }
    *word = s->data + begin;
    *length = end - begin;
    s->at = end;
    return true;
}
