/* SPDX-License-Identifier: MIT
 * The committed record (record.txt): for every program of the repository and every set of kernels, a hash of the plan
 * and one of the outputs. A row is "PROGRAM<tab>KERNELS<tab>PLAN<tab>OUTPUTS"; outputs that hang on the last bit of the
 * C library's functions are "-". Lines that begin with '#' say where it was recorded.
 */
#ifndef TESTS_ORACLE_RECORD_H
#define TESTS_ORACLE_RECORD_H

#include "core/base/text.h"

#define RECORD_PATH "tests/oracle/record.txt"

/* Appends all rows that this machine can make, "-" for none. Calls Check's assertions: only inside of a test. */
void record_make(text *out);
/* Compares rows of record_make with a record and appends what differs, a line for each; `checked` and `skipped` count
 * rows, skipped ones being those of kernels that only one of them has. Returns how many programs differ. */
int record_compare(const char *record, const char *now, text *out, int *checked, int *skipped);

#endif
