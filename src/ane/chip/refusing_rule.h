/* SPDX-License-Identifier: MIT
 * Finds the known rule behind a program that an engine refuses, as engine drivers report it (core/device/driver.h).
 */
#ifndef ANE_CHIP_REFUSING_RULE_H
#define ANE_CHIP_REFUSING_RULE_H

#include "core/mil/mil.h"

/* Describes the most severe finding of the rules in the program on any M chip. Writes "no rule covers this" if there is
 * none. */
PROPANE_CHECK propane_status chip_refusing_rule(const mil_module *m, char *out, size_t room, propane_error *err);

#endif
