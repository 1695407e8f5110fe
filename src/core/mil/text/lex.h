/* SPDX-License-Identifier: MIT
 * Declares the tokens of MIL text, read one at a time, with line and column (from 1, in bytes). For the parser only.
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
    LEX_BAD     /* a byte that begins no token, or an unterminated string */
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
    lex_token token; /* the current token */
} lexer;

/* Moves to the first token. */
void lex_begin(lexer *l, const char *text, size_t length);
void lex_next(lexer *l);
bool lex_is(const lex_token *t, const char *text); /* text is a sign or a name */
/* Returns the bytes of a string token, or NULL with `why` set to a static text. If `why` is NULL too, memory ran
 * out. */
char *lex_string(arena *a, const lex_token *t, const char **why);

#endif
