/* SPDX-License-Identifier: MIT
 * A JSON text that grows byte by byte. The state determines which bytes may come next, and how many bytes are needed to end
 * the text. The whole text is one object. Strings are UTF-8, escapes for half of a surrogate pair are refused, and
 * numbers are limited to a double's range.
 */
#ifndef LM_INFER_JSON_TEXT_H
#define LM_INFER_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_TEXT_DEPTH = 64, JSON_TEXT_BLANKS = 24, JSON_TEXT_NUMBER = 24 };

typedef struct json_text { /* {0} is the initial state; states may be copied */
    uint8_t at;            /* the next expected token */
    uint8_t depth, blanks;
    uint8_t part;   /* position in a literal, an escape, a character of several bytes, or a number */
    uint8_t kind;   /* number of a literal, the lead byte of a character, or the state within a number */
    bool key;       /* the string is a key */
    uint64_t lists; /* bit d: the value at depth d + 1 is a list, otherwise an object */
} json_text;

/* Adds a byte. Returns false if the byte is not allowed; the state is then invalid. */
bool json_text_take(json_text *s, unsigned char byte);
bool json_text_take_all(json_text *s, const char *bytes, size_t length);
bool json_text_is_done(const json_text *s);
/* Returns the smallest number of bytes that completes the text. */
int json_text_left(const json_text *s);

#endif
