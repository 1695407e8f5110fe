/* SPDX-License-Identifier: MIT
 * Owns the generator of extreme_cases.h. Each tensor has one mood, because its elements together decide what a test
 * can detect: one NaN hides everything else in a sum, and one huge number hides small ones.
 */
#include "support/extreme_cases.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "support/test.h"

enum { LINE = 400 };

typedef enum mood {
    MOOD_ANY,      /* any of the other moods, per element */
    MOOD_BITS,     /* random bits */
    MOOD_EDGES,    /* zeros, denormals, infinities, NaN, the largest */
    MOOD_DECIMALS, /* multiples of 0.1, 0.25, 0.3, ... */
    MOOD_TIES,     /* halves */
    MOOD_HALF,     /* about the largest fp16 value */
    MOOD_DENORMAL,
    MOOD_WHOLE, /* integers, above 2^24 too */
    MOOD_SCALE, /* of one magnitude, which may be huge or tiny */
    MOOD_PLAIN, /* ordinary numbers */
    MOOD_SPECK, /* ordinary numbers and a few edges */
    MOOD_SAME,  /* the same number everywhere */
    MOOD_COUNT
} mood;

typedef struct drawer {
    rng r;
    bool pair; /* another operation follows */
    bool calm; /* weights for drawing: positive and finite */
} drawer;

static int below(drawer *d, int n) { return (int)rng_below(&d->r, (uint64_t)n); }
static double either_sign(drawer *d, double v) { return below(d, 2) ? v : -v; }

/* ---- floats ------------------------------------------------------------------------------------------------------------- */

static double edge_of(drawer *d, bool half) {
    static const double edges[] = {0,           0x1p-149,    0x1p-148, 0x1.fffffcp-127, 0x1p-126,        0x1p-24,
                                   0x1.ff8p-15, 0x1p-14,     65504,    65519,           65520,           65536,
                                   FLT_MAX,     FLT_MAX / 2, 0x1p127,  1.8446742974e19, 1.8446744073e19, 88.5,
                                   88.8,        104,         87.4,     FLT_EPSILON,     FLT_EPSILON / 2, INFINITY,
                                   INFINITY,    NAN,         1,        0x1.fffffep-1,   0x1.000002p0,    2147483520,
                                   2147483648., 4294967296., 0x1p63};
    static const double halves[] = {0,    0x1p-24,    0x1p-23, 0x1.ff8p-15, 0x1p-14,    65504,    65472,    32768,
                                    2048, 2049,       255.875, 256,         11.0859375, INFINITY, INFINITY, NAN,
                                    1,    0x1.ffcp-1, 11.09,   17.33,       0x1p-11,    0x1p-10,  0x1p-12,  0x1.004p0};
    return either_sign(d, half ? halves[below(d, (int)(sizeof halves / sizeof *halves))]
                               : edges[below(d, (int)(sizeof edges / sizeof *edges))]);
}

static double bits_of(drawer *d, bool half) {
    const uint32_t bits = (uint32_t)rng_next(&d->r);
    float f;
    if (half) return either_sign(d, ldexp((double)(bits % 2048), (int)(bits >> 11) % 30 - 24));
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double decimal_of(drawer *d) {
    static const double steps[] = {0.1, 0.25, 0.3, 0.01, 0.7, 1.1, 1.0 / 3, 0.001, 2.5};
    return either_sign(d, below(d, 1000) * steps[below(d, 9)]);
}

static double whole_of(drawer *d) {
    static const double tops[] = {0x1p24, 0x1p25, 0x1p31, 0x1p53, 1e10, 2048, 256, 128, 0x1p23};
    return either_sign(d, tops[below(d, 9)] + below(d, 9) - 4);
}

static double half_limit_of(drawer *d) {
    static const double list[] = {65504, 65519, 65520, 65535, 65488, 65519.99609375, 65472, 65520.00390625};
    return either_sign(d, list[below(d, 8)]);
}

static double float_of(drawer *d, mood m, bool half, double scale) {
    switch (m) {
    case MOOD_BITS: return bits_of(d, half);
    case MOOD_EDGES: return edge_of(d, half);
    case MOOD_DECIMALS: return decimal_of(d);
    case MOOD_TIES: return either_sign(d, below(d, 40) / 2.0 + (below(d, 8) ? 0 : 8388607));
    case MOOD_HALF: return half_limit_of(d);
    case MOOD_DENORMAL: return either_sign(d, ldexp(below(d, 1 << 12), half ? -26 : -149));
    case MOOD_WHOLE: return whole_of(d);
    case MOOD_SCALE: return scale * rng_normal(&d->r);
    case MOOD_SPECK: return below(d, 12) ? rng_normal(&d->r) : edge_of(d, half);
    case MOOD_ANY: return float_of(d, (mood)(1 + below(d, MOOD_SPECK)), half, scale);
    default: return rng_normal(&d->r);
    }
}

/* ---- integers ----------------------------------------------------------------------------------------------------------- */

static double integer_of(drawer *d, mood m, const mil_dtype_info *info) {
    const bool is_signed = info->kind == MIL_KIND_INT;
    const double top = ldexp(1, info->bits - is_signed) - 1, low = is_signed ? -top - 1 : 0;
    const double edges[] = {0,   0,    -1,    1,     low,      low + 1,       top,       top - 1,
                            -2,  2,    3,     7,     -7,       46340,         46341,     -46341,
                            127, 128,  -128,  255,   16777216, 16777217,      -16777217, 33554433,
                            1e9, -1e9, 65535, 32767, top / 2,  floor(low / 2)};
    if (m == MOOD_PLAIN || m == MOOD_TIES || (m == MOOD_SPECK && below(d, 12))) return below(d, 19) - 9;
    if (m == MOOD_BITS || m == MOOD_SCALE) return floor(low + (top - low + 1) * rng_unit(&d->r));
    return edges[below(d, (int)(sizeof edges / sizeof *edges))];
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------ */

static void numbers(const mil_type *type, const char *how, double *data, void *context) {
    drawer *d = context;
    const mil_dtype_info *info = mil_dtype_get(type->dtype);
    const int64_t count = mil_type_count(type);
    const bool real = mil_dtype_is_float(type->dtype), half = type->dtype == MIL_fp16;
    const mood m = (mood)below(d, MOOD_COUNT);
    const double scale = ldexp(1, half ? below(d, 38) - 22 : below(d, 250) - 125);
    double same = 0;
    (void)how;
    for (int64_t i = 0; i < count; i++) {
        const mood now = m == MOOD_SAME ? MOOD_ANY : m;
        double v = real                          ? float_of(d, now, half, scale)
                   : info->kind == MIL_KIND_BOOL ? below(d, 2)
                                                 : integer_of(d, now, info);
        if (d->calm) v = isfinite(v) ? fabs(v) : 1;
        if (i == 0) same = v;
        data[i] = mil_round(type->dtype, m == MOOD_SAME ? same : v);
    }
}

/* ---- operations that round once ---------------------------------------------------------------------------------------- */

/* Those with one rounding of an exact result. Operations without cost move numbers. */
static const mil_opcode once[] = {
    MIL_OP_add,           MIL_OP_sub,           MIL_OP_mul,         MIL_OP_real_div,
    MIL_OP_floor_div,     MIL_OP_mod,           MIL_OP_maximum,     MIL_OP_minimum,
    MIL_OP_equal,         MIL_OP_not_equal,     MIL_OP_less,        MIL_OP_less_equal,
    MIL_OP_greater,       MIL_OP_greater_equal, MIL_OP_logical_and, MIL_OP_logical_or,
    MIL_OP_logical_xor,   MIL_OP_logical_not,   MIL_OP_select,      MIL_OP_abs,
    MIL_OP_sign,          MIL_OP_ceil,          MIL_OP_floor,       MIL_OP_round,
    MIL_OP_square,        MIL_OP_sqrt,          MIL_OP_relu,        MIL_OP_relu6,
    MIL_OP_clip,          MIL_OP_leaky_relu,    MIL_OP_threshold,   MIL_OP_thresholded_relu,
    MIL_OP_cast,          MIL_OP_reduce_max,    MIL_OP_reduce_min,  MIL_OP_reduce_argmax,
    MIL_OP_reduce_argmin, MIL_OP_topk,          MIL_OP_argsort,     MIL_OP_max_pool,
    MIL_OP_quantize,      MIL_OP_dequantize,
};

bool extreme_rounds_once(mil_opcode code) {
    if (mil_op_get(code)->flops_per_element == 0) return true;
    for (size_t k = 0; k < sizeof once / sizeof *once; k++)
        if (once[k] == code) return true;
    return false;
}

/* ---- pairs -------------------------------------------------------------------------------------------------------------- */

/* Builds an operation that rounds once after another one, so that both become one step. */
static mil_value *second(drawer *d, mil_builder *b, mil_value *x) {
    static const mil_opcode one[] = {MIL_OP_abs,  MIL_OP_relu, MIL_OP_floor, MIL_OP_round,
                                     MIL_OP_sqrt, MIL_OP_sign, MIL_OP_square};
    static const mil_opcode two[] = {MIL_OP_add,       MIL_OP_sub, MIL_OP_mul,     MIL_OP_real_div,
                                     MIL_OP_floor_div, MIL_OP_mod, MIL_OP_maximum, MIL_OP_minimum};
    const bool half = x->type.dtype == MIL_fp16;
    mil_type type = x->type;
    double data[1];
    switch (below(d, 4)) {
    case 0: return mil_build_unary(b, one[below(d, 7)], x);
    case 1: return mil_build_cast(b, x, half ? MIL_fp32 : MIL_fp16);
    case 2: return mil_build_binary(b, two[below(d, 5)], x, x);
    default:
        for (int k = 0; k < type.rank; k++) type.dim[k] = 1;
        data[0] = mil_round(type.dtype, float_of(d, MOOD_ANY, half, 1));
        return mil_build_binary(b, two[below(d, 8)], x, mil_build_const_f64(b, NULL, &type, data));
    }
}

/* Returns whether two fp16 operations may keep fp32 in between, as a step does: only if the reference agrees in
 * both forms. */
static bool fits_fp32(const mil_op *op) {
    static const mil_opcode inexact[] = {MIL_OP_add, MIL_OP_sub,  MIL_OP_real_div,
                                         MIL_OP_mod, MIL_OP_sqrt, MIL_OP_leaky_relu};
    for (size_t k = 0; k < sizeof inexact / sizeof *inexact; k++)
        if (op->info->code == inexact[k]) return op->results[0]->type.dtype == MIL_fp32;
    return true;
}

static void after(mil_builder *b, const mil_op *op, void *context) {
    drawer *d = context;
    mil_value *v = op->results[0];
    const bool real = mil_dtype_is_float(v->type.dtype) && v->type.container == MIL_TENSOR;
    if (!d->pair || !extreme_rounds_once(op->info->code) || !fits_fp32(op) || op->result_count != 1 || !real)
        for (int k = 0; k < op->result_count; k++) mil_build_result(b, op->results[k]);
    else
        mil_build_result(b, second(d, b, v));
}

/* ---- lines -------------------------------------------------------------------------------------------------------------- */

static bool is_rule(const op_case_row *row, const char *name) { return !strcmp(op_rule_name(row->code), name); }

/* Draws a size close to those of vectors, usually with a remainder. */
static int size_of(drawer *d) {
    static const int tops[] = {4, 8, 16, 32, 64, 128, 256};
    const int size = tops[below(d, 7)] + below(d, 5) - 2;
    if (below(d, 60) == 0) return 4096 + below(d, 40); /* in several parts */
    return below(d, 4) ? size : 1 + below(d, 20);
}

/* Draws new shapes for rows that accept any. */
static bool reshaped(drawer *d, const op_case_row *row, char *out) {
    static const char *const shapes[] = {"[%d]", "[]", "[%d]!", "[]!", "[3,1]", "[3,%d]", "[1]"};
    const char *rest = strchr(row->line, ' ');
    const int n = size_of(d);
    if (!strncmp(row->line, "for=", 4) || below(d, 2)) return false;
    if (is_rule(row, "broadcast") || is_rule(row, "compare")) {
        char one[40], whole[40];
        const bool swap = below(d, 4) == 0;
        snprintf(one, sizeof one, shapes[below(d, 7)], n);
        snprintf(whole, sizeof whole, "[3,%d]", n);
        snprintf(out, LINE, "x=%s y=%s", swap ? one : whole, swap ? whole : one);
        return true;
    }
    if (is_rule(row, "same") && !strncmp(row->line, "x=[", 3)) {
        snprintf(out, LINE, below(d, 2) ? "x=[%d]%s" : "x=[3,%d]%s", n, rest ? rest : "");
        return true;
    }
    if (is_rule(row, "reduce") || is_rule(row, "softmax") || is_rule(row, "cumsum") || is_rule(row, "reduce_arg")) {
        const int axis = below(d, 3);
        snprintf(out, LINE,
                 axis == 1 ? "x=[2,%d,3] %s1%s"
                 : axis    ? "x=[3,%d] %s-1%s"
                           : "x=[%d,5] %s0%s",
                 n, is_rule(row, "reduce") ? "axes=[" : "axis=", is_rule(row, "reduce") ? "]" : "");
        return true;
    }
    return false;
}

/* Draws matrix products with sizes close to those of blocks, strips and tiles, some with weights of another element
 * type. */
static bool product(drawer *d, const op_case_row *row, char *out) {
    static const char *const types[] = {"", "", "fp32", "fp16"};
    const char *type = types[below(d, 4)], *constant = below(d, 2) ? "!" : "";
    const int n = size_of(d) % 70 + 1, k = size_of(d) % 70 + 1, m = size_of(d) % 40 + 1, side = 1 + below(d, 18);
    if (row->dtype == MIL_int32 || below(d, 2)) return false;
    if (row->code == MIL_OP_matmul)
        snprintf(out, LINE, "x=[%d,%d] y=[%d,%d]%s", m, k, k, n, constant);
    else if (row->code == MIL_OP_linear)
        snprintf(out, LINE, "x=[%d,%d] weight=[%d,%d]%s bias=[%d]", m, k, n, k, constant, n);
    else if (row->code == MIL_OP_scaled_dot_product_attention)
        snprintf(out, LINE, "query=[2,%d,%d] key=[2,%d,%d] value=[2,%d,%d]%s", m, side, n, side, n, k,
                 below(d, 2) ? " attn_mask=bool[1,1]~bits" : "");
    else if (row->code == MIL_OP_conv && below(d, 4) == 0)
        snprintf(out, LINE, "x=[1,%d,%d,%d] weight=%s[%d,1,3,3]%s groups=%d pad_type=same", n, side, side + 1, type, n,
                 constant, n);
    else if (row->code == MIL_OP_conv)
        snprintf(out, LINE, "x=[%d,%d,%d,%d] weight=%s[%d,%d,%d,%d]%s pad_type=%s", 1 + below(d, 2), k % 20 + 1, side,
                 side + 1, type, m, k % 20 + 1, side > 2 ? 3 : 1, side > 2 ? 3 : 1, constant,
                 below(d, 2) ? "same" : "valid");
    else if (row->code == MIL_OP_conv_transpose)
        snprintf(out, LINE, "x=[1,%d,%d,3] weight=%s[%d,5,4,4]%s bias=%s[5] strides=[2,2]", k % 9 + 1, side, type,
                 k % 9 + 1, constant, type);
    else
        return false;
    return true;
}

/* Draws every pair of element types. */
static void casting(drawer *d, char *out) {
    static const char *const types[] = {"fp32", "fp16", "int32", "int8", "uint8", "int16", "uint16", "bool"};
    snprintf(out, LINE, "x=%s[%d] dtype=%s", types[below(d, 8)], size_of(d), types[below(d, 8)]);
}

/* Replaces one number of the line's box or matrix with another one, which may be NaN or infinite. */
static void moved_place(drawer *d, char *out) {
    static const char *const places[] = {"nan", "inf", "-inf", "1e30", "-1e30", "-0.0", "0.5", "1e-40", "65504"};
    char old[LINE], *list = strstr(out, "~=");
    if (!list) return;
    list += 2;
    for (int skip = below(d, 6); skip > 0; skip--) {
        char *comma = list + strcspn(list, ", !");
        if (*comma == ',') list = comma + 1;
    }
    snprintf(old, sizeof old, "%s", list + strcspn(list, ", !"));
    snprintf(list, (size_t)(LINE - (list - out)), "%s%s", places[below(d, 9)], old);
}

/* Draws another element type if any is allowed, and other numbers for named values. */
static void varied(drawer *d, const op_case_row *row, char *out) {
    static const char *const types[] = {"int8", "uint8", "int16", "uint16", "bool"};
    static const char *const values[] = {"0",     "-0.0", "1",    "-1",   "65504", "3e38",
                                         "1e-40", "0.1",  "-2.5", "0.75", "-3e38"};
    static const char *const names[] = {" alpha=", " beta=", " epsilon=", " constant_val="};
    const mil_class first = mil_op_get(row->code)->params[0].type_class;
    char old[LINE];
    const char *equals = strstr(out, "=[");
    if ((first == MIL_CLASS_TENSOR || first == MIL_CLASS_EITHER) && equals && below(d, 3) == 0) {
        snprintf(old, sizeof old, "%s", out);
        snprintf(out, LINE, "%.*s=%s%s", (int)(equals - out), old, types[below(d, 5)], old + (equals - out) + 1);
    }
    for (int k = 0; k < 4; k++) {
        char *at = strstr(out, names[k]);
        if (!at && (below(d, 3) || mil_op_param(mil_op_get(row->code), "alpha") < 0 || k > 1)) continue;
        snprintf(old, sizeof old, "%s", out);
        const char *rest = at ? old + (at - out) + strlen(names[k]) : "";
        if (at && (strchr("[$f", *rest) || below(d, 2))) continue;
        const int length = at ? (int)(at - out) : (int)strlen(old);
        snprintf(out, LINE, "%.*s%s%s%s", length, old, names[k], values[below(d, 11)], rest + strcspn(rest, " "));
    }
}

/* Makes the line's constants inputs instead. */
static void without_constants(char *line) {
    for (char *at = line; (at = strchr(at, '!'));) memmove(at, at + 1, strlen(at));
}

op_case *extreme_case(uint64_t seed, bool constants, propane_error *err) {
    static op_case_row *rows; /* made once per process */
    static int count, first[MIL_OP_COUNT + 1], code_count;
    if (!rows) {
        count = op_cases_list(OP_CASES_ALL, NULL, 0);
        rows = mem_array((size_t)count, sizeof *rows);
        ck_assert(rows != NULL);
        op_cases_list(OP_CASES_ALL, rows, count);
        for (int i = 0; i < count; i++)
            if (i == 0 || rows[i].code != rows[i - 1].code) first[code_count++] = i;
        first[code_count] = count;
    }
    drawer d = {.calm = false};
    char line[LINE];
    rng_init(&d.r, rng_mix(seed));
    const int which = (int)(seed % (uint64_t)code_count);
    const op_case_row *row = &rows[first[which] + below(&d, first[which + 1] - first[which])];
    snprintf(line, sizeof line, "%s", row->line);
    d.calm = row->code == MIL_OP_random_categorical;
    if (row->code == MIL_OP_cast && below(&d, 4))
        casting(&d, line);
    else if (!product(&d, row, line) && (!reshaped(&d, row, line) || below(&d, 2)))
        varied(&d, row, line);
    if ((row->code == MIL_OP_crop_resize || row->code == MIL_OP_affine) && below(&d, 3) == 0) moved_place(&d, line);
    d.pair = below(&d, 4) == 0 && (is_rule(row, "same") || is_rule(row, "broadcast") || is_rule(row, "select"));
    if (!constants) without_constants(line);
    return op_case_make_grown(row->code, row->dtype, line, seed,
                              &(op_case_growth){.numbers = numbers, .after = after, .context = &d}, err);
}
