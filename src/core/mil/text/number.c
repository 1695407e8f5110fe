/* SPDX-License-Identifier: MIT
 * Owns the spelling of numbers. Hex floats are read and written by hand, since strtod and printf follow the locale.
 * Decimals are passed to strtod after the locale's decimal point has been substituted.
 */
#include "core/mil/text/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number_hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool number_has_hex_prefix(const char *s, const char *end) {
    return end - s > 2 && s[0] == '0' && (s[1] | 32) == 'x';
}

bool mil_number_whole(const char *text, size_t length, mil_whole *out) {
    const char *s = text, *end = text + length;
    *out = (mil_whole){0};
    if (s < end && (*s == '-' || *s == '+')) out->negative = *s++ == '-';
    if (s == end) return false;
    unsigned base = 10;
    if (number_has_hex_prefix(s, end)) {
        base = 16;
        s += 2;
    }
    for (; s < end; s++) {
        int digit = number_hex_digit(*s);
        if (digit < 0 || (unsigned)digit >= base) return false;
        if (out->magnitude > (UINT64_MAX - (unsigned)digit) / base) return false;
        out->magnitude = out->magnitude * base + (unsigned)digit;
    }
    return true;
}

/* Reads [+-] digits. The value is clamped, since no double needs a larger exponent. */
static bool number_read_exponent(const char *s, const char *end, int *out) {
    bool negative = false;
    if (s < end && (*s == '-' || *s == '+')) negative = *s++ == '-';
    if (s == end) return false;
    int value = 0;
    for (; s < end; s++) {
        if (*s < '0' || *s > '9') return false;
        if (value < 100000) value = value * 10 + (*s - '0');
    }
    *out = negative ? -value : value;
    return true;
}

/* Reads digits [. digits] [p exponent] after "0x". */
static bool number_read_hex(const char *s, const char *end, double *out) {
    uint64_t mantissa = 0;
    int exponent = 0, digits = 0;
    bool point = false, sticky = false;
    for (; s < end && (*s | 32) != 'p'; s++) {
        if (*s == '.') {
            if (point) return false;
            point = true;
            continue;
        }
        int digit = number_hex_digit(*s);
        if (digit < 0) return false;
        digits++;
        if (mantissa >> 60 == 0) {
            mantissa = mantissa << 4 | (unsigned)digit;
            if (point) exponent -= 4;
        } else {
            sticky |= digit != 0;
            if (!point) exponent += 4;
        }
    }
    if (!digits) return false;
    if (s < end) {
        int power;
        if (!number_read_exponent(s + 1, end, &power)) return false;
        exponent += power;
    }
    if (sticky) mantissa |= 1; /* below the last bit of a double, so it affects only the rounding */
    *out = ldexp((double)mantissa, exponent);
    return true;
}

static bool number_read_decimal(const char *s, const char *end, double *out) {
    char buffer[MIL_NUMBER_MAX + 20];
    const char *dot = localeconv()->decimal_point;
    size_t used = 0;
    uint64_t mantissa = 0;
    bool digits = false, point = false, small = true;
    for (const char *p = s; p < end; p++) {
        char c = *p;
        if (c >= '0' && c <= '9') {
            digits = true;
            if (mantissa < 100000000000000)
                mantissa = mantissa * 10 + (unsigned)(c - '0');
            else
                small = false;
        } else if (c == '.') {
            if (point) return false;
            point = true;
            small = false;
            for (const char *d = dot; *d && used < sizeof buffer - 8; d++) buffer[used++] = *d;
            continue;
        } else if ((c == 'e' || c == 'E') && digits) {
            int power;
            if (!number_read_exponent(p + 1, end, &power)) return false;
            small = false;
            size_t rest = (size_t)(end - p);
            if (rest >= sizeof buffer - used) return false;
            memcpy(buffer + used, p, rest);
            used += rest;
            break;
        } else {
            return false;
        }
        if (used >= sizeof buffer - 8) return false;
        buffer[used++] = c;
    }
    if (!digits) return false;
    if (small) {
        *out = (double)mantissa;
        return true;
    }
    buffer[used] = 0;
    *out = strtod(buffer, NULL);
    return true;
}

bool mil_number_real(const char *text, size_t length, double *out) {
    const char *s = text, *end = text + length;
    bool negative = false;
    if (length > MIL_NUMBER_MAX) return false;
    if (s < end && (*s == '-' || *s == '+')) negative = *s++ == '-';
    size_t rest = (size_t)(end - s);
    double value;
    if ((rest == 3 && memcmp(s, "inf", 3) == 0) || (rest == 8 && memcmp(s, "infinity", 8) == 0))
        value = INFINITY;
    else if (rest == 3 && memcmp(s, "nan", 3) == 0)
        value = NAN;
    else if (number_has_hex_prefix(s, end)) {
        if (!number_read_hex(s + 2, end, &value)) return false;
    } else if (!number_read_decimal(s, end, &value)) {
        return false;
    }
    *out = negative ? -value : value;
    return true;
}

const char *mil_number_print(char out[40], double value) {
    const char *sign = signbit(value) ? "-" : "";
    if (isnan(value))
        snprintf(out, 40, "%snan", sign);
    else if (isinf(value))
        snprintf(out, 40, "%sinf", sign);
    else if (value == 0)
        snprintf(out, 40, "%s0x0p+0", sign);
    else {
        int exponent;
        double half = frexp(fabs(value), &exponent); /* [0.5, 1) */
        uint64_t bits = (uint64_t)ldexp(half, 53);   /* the leading one is bit 52 */
        char digits[16];
        snprintf(digits, sizeof digits, "%013llx", (unsigned long long)(bits & ((UINT64_C(1) << 52) - 1)));
        size_t used = 13;
        while (used && digits[used - 1] == '0') used--;
        digits[used] = 0;
        snprintf(out, 40, "%s0x1%s%sp%+d", sign, used ? "." : "", digits, exponent - 1);
    }
    return out;
}
