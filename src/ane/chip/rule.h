/* SPDX-License-Identifier: MIT
 * Declares the checks that limits.def names, and their common helpers. For use inside src/ane/chip only.
 */
#ifndef ANE_CHIP_RULE_H
#define ANE_CHIP_RULE_H

#include "ane/chip/limit.h"
#include "core/base/status.h"

#define LIMIT(id, site, ops, check, direct, coreml, seen, chips, also, os_min, os_max, value, evidence, sentence,      \
              source, fix)                                                                                             \
    bool chip_rule_##check(const chip_view *view, char out[CHIP_TEXT_BYTES]);
#include "ane/chip/limits.def"

/* Writes the message. Returns true, so that a check can end in `return chip_found(...)`. */
bool chip_found(char out[CHIP_TEXT_BYTES], const char *format, ...) BASE_PRINTF(2, 3);
const char *chip_value_name(const mil_value *v); /* "the literal" if it has no name */

/* A package's version is the number of its opset plus CHIP_VERSION_OF_NONE: version 6 is ios15, 9 is ios18. */
enum { CHIP_VERSION_OF_NONE = 5 };

#define CHIP_BLOB_SENTINEL 0xDEADBEEFu
#define CHIP_BLOB_ALIGN    64

#endif
