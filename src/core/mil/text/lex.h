/* SPDX-License-Identifier: MIT
 * Tokens of MIL text, one at a time, with line and column (from 1, in bytes). For the parser alone.
 */
#ifndef CORE_MIL_TEXT_LEX_H
#define CORE_MIL_TEXT_LEX_H

#include "core/base/arena.h"
#include "core/base/status.h"

typedef enum lex_kind {
    LEX_END,
    LEX_NAME,
    LEX_NUMBER, /* with its sign */
    LEX_STRING, /* with its quotes */
    LEX_ARROW,  /* -> */
    LEX_SIGN,   /* one of ()[]{}<>,;=? */
    LEX_BAD     /* a byte, or an open string, that begins no token */
} lex_kind;

typedef struct lex_token {
    lex_kind kind;
    const char *start;
    size_t length;
    int line, column;
} lex_token;

typedef struct lexer {
    const char *at, *end, *line_start;
    int line;
    lex_token token; /* the current one */
} lexer;

/* Stands on the first token. */
void lex_begin(lexer *l, const char *text, size_t length);
void lex_next(lexer *l);
bool lex_is(const lex_token *t, const char *text); /* a sign or a name */
/* The bytes of a string token; NULL with `why` set (a static text), or NULL alone for no memory. */
char *lex_string(arena *a, const lex_token *t, const char **why);

#endif
