/* SPDX-License-Identifier: MIT
 * What the oracle knows of one program under one choice of kernels: the plan as lines, and a hash of each output's
 * bytes for inputs that are the same on every machine.
 */
#ifndef TESTS_ORACLE_TAKE_H
#define TESTS_ORACLE_TAKE_H

#include "core/mil/ops.h"
#include "oracle/plan_dump.h"

/* Where inputs come from: raw bytes of all of them in their order, else tensors, else random numbers. */
typedef struct oracle_inputs {
    const char *raw; /* NULL: none */
    size_t raw_bytes;
    const mil_tensor *tensors; /* one a parameter; NULL: none */
} oracle_inputs;

/* Lines "STAGE<tab>TEXT" each: the plan's, and "output" and "threads" ones. A refusal is a line as well. */
typedef struct oracle_taken {
    text plan, outputs;
} oracle_taken;

/* `f` has no states (oracle_load takes care). `twice`: once more on one thread; outputs that differ are told. */
void oracle_take(const mil_function *f, const oracle_choice *choice, const oracle_inputs *in, bool twice,
                 oracle_taken *out);
void oracle_taken_deinit(oracle_taken *t);

/* Any form that a program comes in. In MIL text, "(random)" in the place of a literal's elements stands for random
 * ones, so that small texts have large weights; states become inputs and outputs. The module is the caller's. */
PROPANE_CHECK propane_status oracle_load(const char *path, mil_module **out, propane_error *err);
PROPANE_CHECK propane_status oracle_parse(const char *source, size_t length, const char *path, mil_module **out,
                                          propane_error *err);

/* What a file's name asks for: -nofuse, -bf16, -round at its end. */
oracle_choice oracle_choice_of(const char *path);

/* The first `digits` (at most 64) of a SHA-256 in hex; `out` has room for one more. */
void oracle_hash(const void *data, size_t bytes, int digits, char *out);

#endif
