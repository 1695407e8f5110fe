/* SPDX-License-Identifier: MIT
 * The MIL program of a published chain of operations, from the texts that describe it.
 */
#ifndef TESTS_ENGINE_ORACLE_CHAIN_H
#define TESTS_ENGINE_ORACLE_CHAIN_H

#include "core/mil/mil.h"
#include "oracle.h"

/* NULL: *err says why. */
mil_module *oracle_chain(const oracle *o, propane_error *err);

#endif
