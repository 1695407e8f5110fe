/* SPDX-License-Identifier: MIT
 * Random programs: about thirty smooth operations on small tensors, with values used several times. Some are redundant
 * (identities, doubled transposes, multiplications by 1, equal expressions, constants of constants), so that gradients
 * and passes have something to find.
 */
#ifndef TESTS_SUPPORT_RANDOM_PROGRAM_H
#define TESTS_SUPPORT_RANDOM_PROGRAM_H

#include "core/mil/build.h"

/* Builds a function with parameters p0 .. p3 and up to three results. Values stay of moderate size. */
mil_function *random_program(mil_module *m, const char *name, uint64_t seed, int ops);

#endif
