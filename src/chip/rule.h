/* SPDX-License-Identifier: MIT
 * The checks that limits.def names, and what they share. Inside src/chip only.
 */
#ifndef CHIP_RULE_H
#define CHIP_RULE_H

#include "base/status.h"
#include "chip/limit.h"

#define LIMIT(id, site, ops, check, direct, coreml, seen, chips, also, os_min, os_max, value, evidence, sentence,      \
              source, fix)                                                                                             \
    bool chip_rule_##check(const chip_view *view, char out[CHIP_TEXT_BYTES]);
#include "chip/limits.def"

/* Writes the message; true, so that a check ends in `return chip_found(...)`. */
bool chip_found(char out[CHIP_TEXT_BYTES], const char *format, ...) BASE_PRINTF(2, 3);
const char *chip_value_name(const mil_value *v); /* "the literal" where it has none */

#define CHIP_BLOB_SENTINEL 0xDEADBEEFu
#define CHIP_BLOB_ALIGN    64

#endif
