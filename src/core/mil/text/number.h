/* SPDX-License-Identifier: MIT
 * Numbers as text, the same in every locale: decimals, hex floats, inf, nan, and integers with a separate sign.
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

/* Reads [+-] digits or 0x digits. Returns false for anything else or for values beyond 64 bits. */
bool mil_number_whole(const char *text, size_t length, mil_whole *out);
/* Reads a decimal, a hex float, "inf" or "nan", with an optional sign. Returns false for anything else. A number that
 * is too large becomes infinity. */
bool mil_number_real(const char *text, size_t length, double *out);
/* Writes the hex float that reads back to the same bits ("0x1.8p-3", "-inf", "nan") and returns `out`. */
const char *mil_number_print(char out[40], double value);

#endif
