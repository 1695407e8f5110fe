/* SPDX-License-Identifier: MIT
 * Numbers as text, the same in every locale: decimals, hex floats, inf, nan, integers with their sign kept apart.
 */
#ifndef CORE_MIL_TEXT_NUMBER_H
#define CORE_MIL_TEXT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIL_NUMBER_MAX 400 /* longer spellings are refused */

typedef struct mil_whole {
    bool negative;
    uint64_t magnitude;
} mil_whole;

/* [+-] digits or 0x digits; false: not that, or beyond 64 bits. */
bool mil_number_whole(const char *text, size_t length, mil_whole *out);
/* Decimal, hex float, "inf", "nan", with a sign; false: not that. Too large becomes infinity. */
bool mil_number_real(const char *text, size_t length, double *out);
/* The hex float that reads back to the same bits ("0x1.8p-3", "-inf", "nan"); returns `out`. */
const char *mil_number_print(char out[40], double value);

#endif
