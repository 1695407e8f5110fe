/* SPDX-License-Identifier: MIT
 * The MIL program of a published program, from its description: with the names that its authors gave to inputs and
 * results, because base registers follow names (joshuaswarren/mil-hwx-compiler research/mint_oracles.py,
 * mint_rrmm_probes.py).
 */
#ifndef TESTS_ENGINE_ORACLE_PROGRAM_H
#define TESTS_ENGINE_ORACLE_PROGRAM_H

#include "core/mil/mil.h"
#include "oracle.h"

/* "binary", "conv dense", ...: the class that results are counted by. */
const char *oracle_class(const oracle *o);
/* NULL: *err says why: an operation that MIL does not have, a shape that does not fit it. The function is the only
 * one of the module. */
mil_module *oracle_program(const oracle *o, propane_error *err);

#endif
