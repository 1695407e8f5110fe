/* SPDX-License-Identifier: MIT
 * Reads and writes numbers as text, in the same way in every locale: decimals, hex floats, inf, nan, and integers with
 * a separate sign.
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

/* Reads digits or 0x and hex digits, with an optional sign. Returns false for anything else or for values beyond 64
 * bits. */
bool mil_number_whole(const char *text, size_t length, mil_whole *out);
/* Reads a decimal, a hex float, "inf", "infinity" or "nan", with an optional sign. Returns false for anything else. A
 * number that is too large becomes infinity. */
bool mil_number_real(const char *text, size_t length, double *out);
/* Writes the hex float, "inf" or "nan" that reads back to the same value ("0x1.8p-3", "-inf") and returns `out`. The
 * payload of a NaN is lost. */
const char *mil_number_print(char out[40], double value);

#endif
