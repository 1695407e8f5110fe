/* SPDX-License-Identifier: MIT
 * Text: a growing byte string. After the first failed append all later ones do nothing, so a writer checks once, at the
 * end.
 */
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/printf.h"

typedef struct text {
    char *data; /* terminated; NULL while empty */
    size_t length;
    size_t capacity;
    bool failed; /* out of memory */
} text;

void text_append(text *t, const char *string);
void text_append_n(text *t, const void *bytes, size_t length);
void text_printf(text *t, const char *format, ...) BASE_PRINTF(2, 3);
void text_clear(text *t); /* keeps the memory */
void text_deinit(text *t);

/* Read a decimal number that begins at `from`; leading blanks, infinities and NaN are refused. Return the end of the
 * number, or NULL if there is no number or it does not fit the type. A real below the smallest normal double does not
 * fit. The decimal point is '.' in every locale. */
const char *text_read_whole(const char *from, int64_t *out);
const char *text_read_real(const char *from, double *out);
/* text_strtod is strtod with '.' as the decimal point in every locale. If the locale has another decimal point, numbers
 * longer than 400 characters are truncated. text_point replaces the locale's decimal point in a printed number with
 * '.', in place, and returns its argument. */
double text_strtod(const char *from, char **end);
char *text_point(char *number);
void text_real(text *t, int digits, double value); /* appends "%.*g" with '.' as the decimal point */
/* Ignores case: "MODEL.GGUF" ends with ".gguf". */
bool text_ends_with(const char *string, const char *end);
/* Format values for people: "70.4 KB" (1 KB is 1000 bytes), "1h02m", "3m07s". Return `out`. */
const char *text_bytes(char out[32], double bytes);
const char *text_duration(char out[32], double seconds);
const char *text_shape(char out[160], int rank, const int64_t *dim); /* "[1, 3, 224, 224]" */

/* Formats the string for a message: control bytes become \xNN, and a longer string is cut at 60 bytes, followed by
 * "...". Returns `out`. */
const char *text_quote(char out[80], const char *bytes, size_t length);
/* The same for a string; the result lives as long as the enclosing block. */
#define TEXT_SHOWN(name) text_quote((char[80]){0}, name, strlen(name))

/* Returns the ending of a regular noun after a count: "" for 1, else "s". */
const char *text_plural(int64_t count);

/* Escapes characters that control a terminal. Control bytes (except those in `keep`) become \x1b and the like;
 * Unicode's C1 control characters and those that change the writing direction become \u202e and the like. The text is
 * terminated and cut if `out` is full. Returns its length. */
size_t text_harmless(char *out, size_t room, const char *bytes, size_t length, const char *keep);

/* Returns how many digits identify a finite number: the fewest that read back as the same number, 1 to 17. */
int text_digits(double value);

/* Appends RFC 4648 base64, with '=' padding. */
void text_append_base64(text *t, const void *bytes, size_t length);
/* Decodes base64 with or without '=' and returns the number of bytes, or -1 if it is invalid or longer than `room`. */
int64_t text_from_base64(const char *data, size_t length, void *out, size_t room);

#endif
