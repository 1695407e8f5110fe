/* SPDX-License-Identifier: MIT
 * Owns division that rounds towards minus infinity, and its remainder, as NumPy defines floor_divide and mod. Both use
 * fmod, which is exact. x - y floor(x / y) is not exact, because x / y may round up to an integer.
 *
 * The remainder has the sign of y, even if it is zero. If y is zero, the quotient is x / y and the remainder is NaN.
 */
#ifndef CORE_BASE_MODULO_H
#define CORE_BASE_MODULO_H

#include <math.h>

static inline double floor_remainder(double x, double y) {
    const double r = fmod(x, y);
    if (r == 0) return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r; /* NaN stays NaN */
}

static inline double floor_quotient(double x, double y) {
    if (y == 0) return x / y;
    const double r = fmod(x, y);
    double q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    q = nearbyint(q);
    return q == 0 ? copysign(0, x / y) : q;
}

#endif
