/* SPDX-License-Identifier: MIT
 * Owns the operations that reconstruct weights from blocks. Bytes are split with floor, so the codes are exact
 * on every device that rounds products of small integers correctly.
 */
#include "core/mil/kquant_weights.h"

mil_type kquant_data_type(kquant kind, int64_t out, int64_t in) {
    const int64_t dim[] = {out, in / kquant_forms[kind].block, kquant_bytes(kquant_forms[kind])};
    return mil_type_tensor(MIL_uint8, 3, dim);
}

mil_type kquant_supers_type(kquant kind, int64_t out, int64_t in) {
    const int64_t dim[] = {out, in / kquant_forms[kind].block, kquant_supers(kquant_forms[kind])};
    return mil_type_tensor(MIL_fp16, 3, dim);
}

/* Reshapes `v` unless it already has the shape. Drivers drop such a reshape and would not recognise the rest. */
static mil_value *kquant_reshaped(mil_builder *b, mil_value *v, const int64_t *shape) {
    const mil_type same = mil_type_tensor(v ? v->type.dtype : MIL_fp32, 4, shape);
    return v && mil_type_equal(&same, &v->type) ? v : mil_build_reshape(b, v, shape, 4);
}

/* Returns [O, N, count] of [O, N, ..], starting at `first`, in the shape [O, N, rows, count / rows]. Skips the slice if
 * the last dimension has no more than `count` elements. */
static mil_value *kquant_part(mil_builder *b, mil_value *v, int64_t first, int64_t count, int64_t rows) {
    if (!v) return NULL;
    const int64_t *dim = v->type.dim, begin[] = {0, 0, first}, size[] = {dim[0], dim[1], count},
                  shape[] = {dim[0], dim[1], rows, count / rows};
    if (count < dim[2]) v = mil_build_slice(b, v, begin, size);
    return mil_build_reshape(b, v, shape, 4);
}

/* Returns a plane's codes in the shape [O, N, subs, sub]. Splits off the lowest bits of each byte, then the next, until
 * only the highest remain. */
static mil_value *kquant_plane(mil_builder *b, kquant_form f, mil_value *bytes, int64_t first, int bits,
                               const int64_t *shape) {
    const int64_t count = kquant_plane_bytes(f, bits);
    mil_value *rest = kquant_part(b, bytes, first, count, count / kquant_width(f, bits)), *parts[8];
    const int last = 8 / bits - 1;
    for (int i = 0; i < last; i++) {
        mil_value *next =
            mil_build_unary(b, MIL_OP_floor, mil_build_binary_scalar(b, MIL_OP_mul, rest, 1.0 / (1 << bits)));
        parts[i] = mil_build_binary(b, MIL_OP_sub, rest, mil_build_binary_scalar(b, MIL_OP_mul, next, 1 << bits));
        rest = next;
    }
    parts[last] = rest;
    return kquant_reshaped(b, mil_build_concat(b, parts, last + 1, 3), shape);
}

/* Returns the steps that the codes select, minus KQUANT_STEP_BIAS. */
static mil_value *kquant_chosen(mil_builder *b, mil_dtype dtype, mil_value *code) {
    double steps[16];
    const int64_t dim[] = {16};
    const mil_type type = mil_type_tensor(dtype, 1, dim);
    for (int i = 0; i < 16; i++) steps[i] = kquant_steps[i] - KQUANT_STEP_BIAS;
    mil_value *table = mil_build_const_f64(b, "steps", &type, steps), *which = mil_build_cast(b, code, MIL_int32),
              *axis = mil_build_int(b, 0);
    const mil_argument arguments[] = {{"x", 1, &table}, {"indices", 1, &which}, {"axis", 1, &axis}};
    mil_op *op = mil_build_op(b, MIL_OP_gather, NULL, arguments, 3);
    return op ? op->results[0] : NULL;
}

/* Returns the codes, or the steps that the codes select, minus the bias of the form. The shape is [O, N, subs, sub]. */
static mil_value *kquant_codes(mil_builder *b, kquant_form f, mil_dtype dtype, mil_value *bytes, const int64_t *shape) {
    mil_value *code = kquant_plane(b, f, bytes, 0, f.low, shape);
    if (f.high) {
        mil_value *high = kquant_plane(b, f, bytes, kquant_plane_bytes(f, f.low), f.high, shape);
        code = mil_build_binary(b, MIL_OP_add, code, mil_build_binary_scalar(b, MIL_OP_mul, high, 1 << f.low));
    }
    if (f.steps) return kquant_chosen(b, dtype, code);
    return f.bias ? mil_build_binary_scalar(b, MIL_OP_sub, code, f.bias) : code;
}

mil_value *kquant_build(mil_builder *b, kquant kind, mil_dtype dtype, mil_value *data, mil_value *supers) {
    const kquant_form f = kquant_forms[kind];
    if (!data || !supers) return NULL;
    const int64_t *dim = data->type.dim, subs = kquant_subs(f), fine[] = {dim[0], dim[1], subs, f.sub},
                  shape[] = {dim[0], dim[1] * f.block};
    mil_value *bytes = mil_build_cast(b, data, dtype),
              *d = dtype == MIL_fp16 ? supers : mil_build_cast(b, supers, dtype);
    mil_value *code = kquant_codes(b, f, dtype, bytes, fine), *factor = kquant_part(b, d, 0, 1, 1),
              *minimum = f.minimum ? kquant_part(b, d, 1, 1, 1) : NULL;
    if (kquant_has_scales(f)) {
        mil_value *scale = kquant_part(b, bytes, kquant_scales_at(f), subs, subs);
        if (!f.minimum) scale = mil_build_binary_scalar(b, MIL_OP_sub, scale, KQUANT_SCALE_BIAS);
        factor = mil_build_binary(b, MIL_OP_mul, scale, factor);
        if (f.minimum)
            minimum =
                mil_build_binary(b, MIL_OP_mul, kquant_part(b, bytes, kquant_scales_at(f) + subs, subs, subs), minimum);
    }
    mil_value *w = mil_build_binary(b, MIL_OP_mul, code, factor);
    if (f.minimum) w = mil_build_binary(b, MIL_OP_sub, w, minimum);
    return mil_build_reshape(b, w, shape, 2);
}
