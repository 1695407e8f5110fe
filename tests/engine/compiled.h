/* SPDX-License-Identifier: MIT
 * A compiled program run by the interpreter and compared with its meaning: with mil_eval_function, which rounds every
 * value to fp16, and with the cpu driver.
 */
#ifndef TESTS_ENGINE_COMPILED_H
#define TESTS_ENGINE_COMPILED_H

#include "ane/h13/compile.h"
#include "core/base/rng.h"

typedef struct compile_seen {
    uint32_t subtype; /* of the target; 0 means H13 */
    int programs, exact, refused, tasks, cpu_exact, cpu_refused;
    double worst, cpu_worst; /* largest difference relative to the output's largest value */
} compile_seen;

/* Compiles f and runs it on normal inputs times `scale`. Returns the largest difference from the reference, relative to
 * the output's largest value, or -1 if f is refused, with the reason in err. Adds its observations to `seen`. */
double compile_run(const mil_function *f, rng *r, double scale, compile_seen *seen, propane_error *out);

#endif
