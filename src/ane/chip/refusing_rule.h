/* SPDX-License-Identifier: MIT
 * Which known rule covers a program that an engine refuses, as drivers of engines say it (core/device/driver.h).
 */
#ifndef ANE_CHIP_REFUSING_RULE_H
#define ANE_CHIP_REFUSING_RULE_H

#include "core/mil/mil.h"

/* The rule that refuses most surely what is in the program, of any chip, in words; "no rule knows this" where none
 * does. */
PROPANE_CHECK propane_status chip_refusing_rule(const mil_module *m, char *out, size_t room, propane_error *err);

#endif
