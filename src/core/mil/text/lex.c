/* SPDX-License-Identifier: MIT
 * Owns the splitting of text into tokens. White space and // comments separate tokens. Anything else becomes LEX_BAD,
 * so that the parser reports it with its position.
 */
#include "core/mil/text/lex.h"

#include <string.h>

static bool lex_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool lex_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool lex_is_inner(char c) { return lex_is_letter(c) || lex_is_digit(c) || c == '@' || c == '.'; }

static void lex_skip_space(lexer *l) {
    for (; l->at < l->end; l->at++) {
        char c = *l->at;
        if (c == '\n') {
            l->line++;
            l->line_start = l->at + 1;
        } else if (c == '/' && l->end - l->at > 1 && l->at[1] == '/') {
            const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
            l->at = (newline ? newline : l->end) - 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            break;
        }
    }
}

/* Returns the place after a string's closing quote, given the place after its opening quote. Returns NULL if the string
 * is not closed on its line. */
static const char *lex_string_end(const char *p, const char *end) {
    for (; p < end && *p != '\n' && *p; p++) {
        if (*p == '"') return p + 1;
        if (*p == '\\' && ++p >= end) break;
    }
    return NULL;
}

/* Returns the end of a run of digits, letters, dots, _ and @, and of signs after the letter of an exponent. Whether the
 * run is a number is decided when it is read. */
static const char *lex_number_end(const char *p, const char *end) {
    if (*p == '-' || *p == '+') p++;
    bool hex = end - p > 1 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    for (; p < end; p++) {
        if (lex_is_inner(*p)) continue;
        char before = p[-1];
        bool exponent = hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
        if (!((*p == '-' || *p == '+') && exponent)) break;
    }
    return p;
}

void lex_next(lexer *l) {
    lex_skip_space(l);
    lex_token *t = &l->token;
    const char *p = l->at, *end = l->end;
    *t = (lex_token){LEX_END, p, 0, l->line, (int)(p - l->line_start) + 1};
    if (p == end) return;
    char next = end - p > 1 ? p[1] : 0;
    const char *stop = p + 1;
    if (lex_is_letter(*p)) {
        t->kind = LEX_NAME;
        while (stop < end && lex_is_inner(*stop)) stop++;
    } else if (*p == '"') {
        stop = lex_string_end(p + 1, end);
        t->kind = stop ? LEX_STRING : LEX_BAD;
        if (!stop) stop = p + 1;
    } else if (*p == '-' && next == '>') {
        t->kind = LEX_ARROW;
        stop = p + 2;
    } else if (lex_is_digit(*p) || *p == '.' || ((*p == '-' || *p == '+') && lex_is_inner(next))) {
        t->kind = LEX_NUMBER;
        stop = lex_number_end(p, end);
    } else {
        t->kind = *p && strchr("()[]{}<>,;=?", *p) ? LEX_SIGN : LEX_BAD;
    }
    t->length = (size_t)(stop - p);
    l->at = stop;
}

void lex_begin(lexer *l, const char *text, size_t length) {
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        length -= 3;
    }
    *l = (lexer){.at = text, .end = text + length, .line_start = text, .line = 1};
    lex_next(l);
}

bool lex_is(const lex_token *t, const char *text) {
    return (t->kind == LEX_SIGN || t->kind == LEX_NAME) && strncmp(text, t->start, t->length) == 0 && !text[t->length];
}

static int lex_hex_digit(char c) {
    if (lex_is_digit(c)) return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *lex_string(arena *a, const lex_token *t, const char **why) {
    const char *p = t->start + 1, *end = t->start + t->length - 1;
    char *out = arena_alloc(a, (size_t)(end - p) + 1), *to = out;
    *why = NULL;
    if (!out) return NULL;
    while (p < end) {
        char c = *p++;
        if (c == '\\') {
            c = *p++;
            if (c == 'x' && end - p >= 2 && lex_hex_digit(p[0]) >= 0 && lex_hex_digit(p[1]) >= 0) {
                c = (char)(lex_hex_digit(p[0]) * 16 + lex_hex_digit(p[1]));
                p += 2;
                if (!c) *why = "a string cannot hold the byte 0";
            } else if (c == 'n' || c == 't' || c == 'r') {
                c = c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
            } else if (c != '"' && c != '\\' && c != '/') {
                *why = "unknown escape; use \\\" \\\\ \\/ \\n \\t \\r or \\xNN";
            }
            if (*why) return NULL;
        }
        *to++ = c;
    }
    *to = 0;
    return out;
}
