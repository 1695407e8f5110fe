/* SPDX-License-Identifier: MIT
 * Random programs: about thirty smooth operations on small tensors, values used several times, some of them needless
 * (identities, doubled transposes, products with 1, equal expressions, constants of constants), so that gradients and
 * passes have something to find.
 */
#ifndef TESTS_SUPPORT_RANDOM_PROGRAM_H
#define TESTS_SUPPORT_RANDOM_PROGRAM_H

#include "core/mil/build.h"

/* Parameters p0 .. p3, up to three results; values stay of moderate size. */
mil_function *random_program(mil_module *m, const char *name, uint64_t seed, int ops);

#endif
