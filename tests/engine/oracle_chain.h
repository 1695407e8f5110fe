/* SPDX-License-Identifier: MIT
 * Builds the MIL program of a published chain of operations, from the texts that describe it.
 */
#ifndef TESTS_ENGINE_ORACLE_CHAIN_H
#define TESTS_ENGINE_ORACLE_CHAIN_H

#include "core/mil/mil.h"
#include "oracle.h"

/* Returns NULL with the reason in *err on failure. */
mil_module *oracle_chain(const oracle *o, propane_error *err);

#endif
