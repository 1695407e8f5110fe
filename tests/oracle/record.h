/* SPDX-License-Identifier: MIT
 * The committed record (record.txt): for every program of the repository and every set of kernels, a hash of the plan
 * and one of the outputs. A row is "PROGRAM<tab>KERNELS<tab>PLAN<tab>OUTPUTS". Outputs that depend on the last bit of
 * the C library's functions are "-". Lines that begin with '#' name the machine that recorded it.
 */
#ifndef TESTS_ORACLE_RECORD_H
#define TESTS_ORACLE_RECORD_H

#include "core/base/text.h"

#define RECORD_PATH "tests/oracle/record.txt"

/* Appends all rows that this machine can make, or "-" if none. Uses Check's assertions, so it must be called inside
 * a test. */
void record_make(text *out);
/* Compares rows of record_make with a record and appends one line per difference. `checked` and `skipped` count
 * rows; a row is skipped if only one side has its kernels. Returns the number of programs that differ. */
int record_compare(const char *record, const char *now, text *out, int *checked, int *skipped);

#endif
