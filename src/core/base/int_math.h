/* SPDX-License-Identifier: MIT
 * Integer division rounded up, the next multiple, minimum and maximum, for counts and sizes that are not negative and
 * far from the limits of their type.
 */
#ifndef CORE_BASE_INT_MATH_H
#define CORE_BASE_INT_MATH_H

#include <stdint.h>

static inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }
static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
