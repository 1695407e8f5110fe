/* SPDX-License-Identifier: MIT
 * Owns the tables of tables.def, makes tables of leaky ReLU and clip, and evaluates tables.
 */
#include "ane/h13/activation.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ane/h13/accumulate.h"
#include "core/base/float16.h"
#include "core/mil/ops.h"

enum { LOW, HIGH, BELOW, ABOVE, KNOTS, TAIL_LOW = 37, TAIL_HIGH = 39, STEP = 41, KIND = 42 };
enum { KIND_ZERO = 0, KIND_MIDDLE = 1, KIND_SQRT = 5, KIND_RSQRT = 6, KIND_RECIP = 7, KIND_LOG = 9, KIND_EXP = 10 };

static const engine_table activation_tables[] = {
#define TABLE(name, scale, bias, power, root, ...) {#name, scale, bias, power, root, {__VA_ARGS__}},
#include "ane/h13/tables.def"
};

const engine_table *engine_table_find(const char *name) {
    for (size_t i = 0; i < sizeof activation_tables / sizeof activation_tables[0]; i++)
        if (strcmp(activation_tables[i].name, name) == 0) return &activation_tables[i];
    return NULL;
}

static const char *activation_name(mil_opcode code) {
    switch (code) {
    case MIL_OP_sigmoid: return "sigmoid";
    case MIL_OP_tanh: return "tanh";
    case MIL_OP_gelu: return "gelu";
    case MIL_OP_silu: return "silu";
    case MIL_OP_exp:
    case MIL_OP_exp2: return "exp";
    case MIL_OP_sqrt: return "sqrt";
    case MIL_OP_rsqrt: return "rsqrt";
    case MIL_OP_inverse: return "recip";
    default: return NULL;
    }
}

bool engine_table_of(const mil_op *op, engine_table *out) {
    propane_error err;
    double value = 0;
    const mil_opcode code = op->info->code;
    const char *name = activation_name(code);
    if (!name) return false;
    *out = *engine_table_find(name);
    if (code == MIL_OP_exp2) out->scale = 0x3c00;
    if (code == MIL_OP_rsqrt || code == MIL_OP_inverse) {
        if (mil_attr_float(op, "epsilon", &value, &err) != PROPANE_OK) return false;
        out->bias = fp16_from_f64(value);
    }
    return true;
}

static engine_table activation_lines(double below, double above, double low_slope, double high_slope) {
    engine_table t = {.name = "lines", .scale = 0x3c00};
    t.half[LOW] = 0xfc00;
    t.half[HIGH] = 0x7c00;
    t.half[BELOW] = fp16_from_f64(below);
    t.half[ABOVE] = fp16_from_f64(above);
    t.half[TAIL_LOW] = fp16_from_f64(low_slope);
    t.half[TAIL_HIGH] = fp16_from_f64(high_slope);
    t.half[STEP] = 0x0040;
    t.half[KIND] = KIND_MIDDLE;
    return t;
}

engine_table engine_table_leaky(double slope) { return activation_lines(-INFINITY, INFINITY, slope, 1); }

engine_table engine_table_clip(double low, double high) {
    if (low > high) low = high; /* the upper bound is applied last */
    engine_table t = activation_lines(low, high, 1, 1);
    t.half[LOW] = fp16_from_f64(low);
    t.half[HIGH] = fp16_from_f64(high);
    return t;
}

static double activation_half(const uint16_t *half, int i) { return (double)fp16_to_f32(half[i]); }

/* Returns log2 of the steps per unit, 0 to 63. */
static int activation_step(const uint16_t *half) { return half[STEP] & 0x40 ? 0 : half[STEP] & 0x3f; }

static double activation_knots(const uint16_t *half, double at) {
    int i = at >= 32 ? 31 : (int)at;
    double a = activation_half(half, KNOTS + i), b = activation_half(half, KNOTS + i + 1);
    return a + (double)accumulate_round((b - a) * (at - i));
}

static double activation_line(const uint16_t *half, int tail, double x) {
    return activation_half(half, tail) * x + activation_half(half, tail + 1);
}

/* Evaluates functions whose argument is split into fraction and exponent. x is finite and in [low, high]. */
static double activation_reduced(const uint16_t *half, int kind, double x) {
    double scale = ldexp(1, activation_step(half));
    int exponent;
    if (kind == KIND_EXP) {
        double whole = floor(x);
        return ldexp(activation_knots(half, (x - whole) * scale), (int)whole);
    }
    double fraction = frexp(x, &exponent); /* [0.5, 1) */
    if (kind == KIND_LOG) return activation_knots(half, (fraction - 0.5) * scale) + exponent;
    if (kind == KIND_RECIP) return ldexp(activation_knots(half, (fraction - 0.5) * scale), -exponent);
    if (exponent % 2) fraction *= 2, exponent--; /* [0.5, 2), with an even exponent */
    return ldexp(activation_knots(half, fraction * scale), kind == KIND_SQRT ? exponent / 2 : -exponent / 2);
}

bool engine_table_known(const uint16_t *half) {
    int kind = half[KIND] & 15, sign = half[KIND] >> 4;
    bool known = kind == KIND_ZERO || kind == KIND_MIDDLE || kind == KIND_SQRT || kind == KIND_RSQRT ||
                 kind == KIND_RECIP || kind == KIND_LOG || kind == KIND_EXP;
    return known && (sign == 0 || sign == 6 || sign == 12);
}

double engine_table_value(const uint16_t *half, double x) {
    int kind = half[KIND] & 15, sign = half[KIND] >> 4;
    if (isnan(x)) return x;
    if (sign == 12 && x < 0) return NAN;
    if (sign == 6 && signbit(x)) return -engine_table_value(half, -x);
    if (x < activation_half(half, LOW)) return activation_half(half, BELOW);
    if (x > activation_half(half, HIGH)) return activation_half(half, ABOVE);
    if (kind != KIND_ZERO && kind != KIND_MIDDLE) {
        if (isinf(x)) return activation_half(half, ABOVE);
        if (kind != KIND_EXP && x == 0) return activation_half(half, BELOW);
        return activation_reduced(half, kind, x);
    }
    double at = x * ldexp(1, activation_step(half)) + (kind == KIND_MIDDLE ? 16 : 0);
    if (half[STEP] & 0x40) at = x > 0 ? 33 : x < 0 ? -1 : 16; /* the grid has no width, so the function is two lines */
    if (isinf(x)) return activation_half(half, x > 0 ? ABOVE : BELOW);
    if (at < 0) return activation_line(half, TAIL_LOW, x);
    if (at > 32) return activation_line(half, TAIL_HIGH, x);
    return activation_knots(half, at);
}
