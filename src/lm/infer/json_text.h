/* SPDX-License-Identifier: MIT
 * A JSON text as it grows, byte by byte: which byte may come next, and how many it takes at least to end the text. The
 * whole is one object. Strings are UTF-8, escapes that stand for half a character are refused, numbers are kept within
 * a double's range.
 */
#ifndef LM_INFER_JSON_TEXT_H
#define LM_INFER_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_TEXT_DEPTH = 64, JSON_TEXT_BLANKS = 24, JSON_TEXT_NUMBER = 24 };

typedef struct json_text { /* {0} is the beginning; may be copied */
    uint8_t at;            /* what is expected */
    uint8_t depth, blanks;
    uint8_t part;   /* of a literal, an escape, a character of several bytes, a number */
    uint8_t kind;   /* which literal; the lead byte of a character; what a number is in */
    bool key;       /* the string is one */
    uint64_t lists; /* bit d: the value at depth d + 1 is a list, else an object */
} json_text;

/* False: the byte may not come; the state is then of no use. */
bool json_text_take(json_text *s, unsigned char byte);
bool json_text_take_all(json_text *s, const char *bytes, size_t length);
bool json_text_is_done(const json_text *s);
/* Bytes that the text needs at least until it is done. */
int json_text_left(const json_text *s);

#endif
