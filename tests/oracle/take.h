/* SPDX-License-Identifier: MIT
 * The oracle's result for one program under one choice of kernels: the plan as lines, and a hash of each output's bytes
 * for inputs that are the same on every machine.
 */
#ifndef TESTS_ORACLE_TAKE_H
#define TESTS_ORACLE_TAKE_H

#include "core/mil/ops.h"
#include "oracle/plan_dump.h"

/* The source of inputs: raw bytes of all of them in their order, else tensors, else random numbers. */
typedef struct oracle_inputs {
    const char *raw; /* NULL if none */
    size_t raw_bytes;
    const mil_tensor *tensors; /* one per parameter; NULL if none */
} oracle_inputs;

/* Lines "STAGE<tab>TEXT": those of the plan, and "output" and "threads" lines. A refusal is a line as well. */
typedef struct oracle_taken {
    text plan, outputs;
} oracle_taken;

/* Plans and runs `f`, which must not have states (oracle_load removes them). With `twice` it runs once more on one
 * thread and reports outputs that differ. */
void oracle_take(const mil_function *f, const oracle_choice *choice, const oracle_inputs *in, bool twice,
                 oracle_taken *out);
void oracle_taken_deinit(oracle_taken *t);

/* Reads a program in any form. In MIL text, "(random)" instead of a literal's elements means random ones, so that
 * small texts can have large weights. States become inputs and outputs. The caller owns the module. */
PROPANE_CHECK propane_status oracle_load(const char *path, mil_module **out, propane_error *err);
PROPANE_CHECK propane_status oracle_parse(const char *source, size_t length, const char *path, mil_module **out,
                                          propane_error *err);

/* Returns the choice in a file's name: -nofuse, -bf16 or -round at its end. */
oracle_choice oracle_choice_of(const char *path);

/* Writes the first `digits` (at most 64) of a SHA-256 in hex; `out` has room for one more. */
void oracle_hash(const void *data, size_t bytes, int digits, char *out);

#endif
