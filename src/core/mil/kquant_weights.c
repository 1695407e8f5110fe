/* SPDX-License-Identifier: MIT
 * Owns the operations that reconstruct weights from blocks of 256. Bytes are split with floor, so the codes are exact
 * on every device that rounds products of small integers correctly.
 */
#include "core/mil/kquant_weights.h"

mil_type kquant_data_type(kquant kind, int64_t out, int64_t in) {
    const int64_t dim[] = {out, in / KQUANT_BLOCK, kquant_bytes(kquant_forms[kind])};
    return mil_type_tensor(MIL_uint8, 3, dim);
}

mil_type kquant_supers_type(kquant kind, int64_t out, int64_t in) {
    const int64_t dim[] = {out, in / KQUANT_BLOCK, kquant_supers(kquant_forms[kind])};
    return mil_type_tensor(MIL_fp16, 3, dim);
}

/* Takes [O, N, count] from [O, N, ..], starting at `first`, and reshapes it to [O, N, rows, count / rows]. Takes
 * everything if there is no more than that. */
static mil_value *kquant_part(mil_builder *b, mil_value *v, int64_t first, int64_t count, int64_t rows) {
    if (!v) return NULL;
    const int64_t *dim = v->type.dim, begin[] = {0, 0, first}, size[] = {dim[0], dim[1], count},
                  shape[] = {dim[0], dim[1], rows, count / rows};
    if (count < dim[2]) v = mil_build_slice(b, v, begin, size);
    return mil_build_reshape(b, v, shape, 4);
}

/* Returns a plane's codes in the shape [O, N, subs, sub]: strips the lowest bits, then the next, until the highest
 * remain. */
static mil_value *kquant_plane(mil_builder *b, mil_value *bytes, int64_t first, int bits, const int64_t *shape) {
    mil_value *rest = kquant_part(b, bytes, first, KQUANT_RUN * bits, bits), *runs[KQUANT_RUNS];
    const int count = 8 / bits;
    for (int i = 0; i < count - 1; i++) {
        mil_value *next =
            mil_build_unary(b, MIL_OP_floor, mil_build_binary_scalar(b, MIL_OP_mul, rest, 1.0 / (1 << bits)));
        runs[i] = mil_build_binary(b, MIL_OP_sub, rest, mil_build_binary_scalar(b, MIL_OP_mul, next, 1 << bits));
        rest = next;
    }
    runs[count - 1] = rest;
    return mil_build_reshape(b, mil_build_concat(b, runs, count, 3), shape, 4);
}

mil_value *kquant_build(mil_builder *b, kquant kind, mil_dtype dtype, mil_value *data, mil_value *supers) {
    const kquant_form f = kquant_forms[kind];
    if (!data || !supers) return NULL;
    const int64_t *dim = data->type.dim, subs = kquant_subs(f), fine[] = {dim[0], dim[1], subs, f.sub},
                  shape[] = {dim[0], dim[1] * KQUANT_BLOCK};
    mil_value *bytes = mil_build_cast(b, data, dtype),
              *d = dtype == MIL_fp16 ? supers : mil_build_cast(b, supers, dtype);
    mil_value *code = kquant_plane(b, bytes, 0, f.low, fine);
    if (f.high)
        code =
            mil_build_binary(b, MIL_OP_add, code,
                             mil_build_binary_scalar(
                                 b, MIL_OP_mul, kquant_plane(b, bytes, KQUANT_RUN * f.low, f.high, fine), 1 << f.low));
    if (f.bias) code = mil_build_binary_scalar(b, MIL_OP_sub, code, f.bias);
    mil_value *scale = kquant_part(b, bytes, kquant_scales_at(f), subs, subs);
    if (!f.minimum) scale = mil_build_binary_scalar(b, MIL_OP_sub, scale, KQUANT_SCALE_BIAS);
    mil_value *w =
        mil_build_binary(b, MIL_OP_mul, code, mil_build_binary(b, MIL_OP_mul, scale, kquant_part(b, d, 0, 1, 1)));
    if (f.minimum) {
        mil_value *minimum = kquant_part(b, bytes, kquant_scales_at(f) + subs, subs, subs);
        w = mil_build_binary(b, MIL_OP_sub, w, mil_build_binary(b, MIL_OP_mul, minimum, kquant_part(b, d, 1, 1, 1)));
    }
    return mil_build_reshape(b, w, shape, 2);
}
