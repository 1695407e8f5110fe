/* SPDX-License-Identifier: MIT
 * Builds the MIL program of a published program from its description. It uses its authors' names of inputs and results,
 * because base registers follow names (joshuaswarren/mil-hwx-compiler research/mint_oracles.py, mint_rrmm_probes.py).
 */
#ifndef TESTS_ENGINE_ORACLE_PROGRAM_H
#define TESTS_ENGINE_ORACLE_PROGRAM_H

#include "core/mil/mil.h"
#include "oracle.h"

/* Returns "binary", "conv dense", ...: the class under which results are counted. */
const char *oracle_class(const oracle *o);
/* Returns NULL with the reason in *err on failure: an operation that MIL does not have, or a shape that does not fit
 * it. The module has only this function. */
mil_module *oracle_program(const oracle *o, propane_error *err);

#endif
