/* SPDX-License-Identifier: MIT
 * Owns the helpers that several checks of limits.def share. They write what was found, and compute the bytes of a
 * surface.
 */
#include "ane/chip/rule.h"

#include <stdarg.h>
#include <stdio.h>

#include "ane/chip/check.h"
#include "core/base/int_math.h"

bool chip_found(char out[CHIP_TEXT_BYTES], const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(out, CHIP_TEXT_BYTES, format, args);
    va_end(args);
    return true;
}

const char *chip_value_name(const mil_value *v) { return v->name ? v->name : "the literal"; }

size_t chip_row_bytes(void) { return (size_t)chip_limit_value("C13"); }

size_t chip_surface_bytes(const mil_type *type, size_t row_bytes) {
    size_t bits = (size_t)mil_dtype_get(type->dtype)->bits, rows = 1;
    for (int i = 0; i + 1 < type->rank; i++) rows *= (size_t)type->dim[i];
    size_t width = type->rank ? (size_t)type->dim[type->rank - 1] : 1;
    size_t step = row_bytes ? row_bytes : chip_row_bytes();
    return rows * (size_t)round_up((int64_t)((width * bits + 7) / 8), (int64_t)step);
}
