/* SPDX-License-Identifier: MIT
 * Owns the meanings of compressed constants: palettes, masks, blocks of scales, and their combinations.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

propane_status mil_eval_constexpr_cast(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "source_val");
    memcpy(a->out[0].data, x->data, (size_t)mil_type_count(&x->type) * sizeof(double));
    return PROPANE_OK;
}

/* ---- palettes --------------------------------------------------------------------------------------------------------------- */

/* Returns the index of the palette that an element of the indices uses. Blocks are numbered row by row. */
static int64_t eval_constexpr_palette_of(const mil_palette *p, const mil_type *lut, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < lut->rank - 2; d++) at = at * lut->dim[d] + index[d] / p->block[d];
    return at;
}

/* Returns the i-th integer of `bits` bits in a vector of bytes, from the low bits up. */
static int64_t eval_constexpr_packed_index(const double *bytes, int64_t i, int bits) {
    int64_t value = 0;
    for (int b = 0; b < bits; b++) {
        const int64_t at = i * bits + b;
        value |= (int64_t)((uint64_t)bytes[at / 8] >> (at % 8) & 1) << b;
    }
    return value;
}

propane_status mil_eval_constexpr_lut_to_dense(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *indices = mil_eval_in(a, "indices"), *lut = mil_eval_in(a, "lut");
    mil_palette p;
    mil_walk w;
    if (mil_in(a->op, "shape")) {
        const int bits = mil_palette_bits(&lut->type);
        const int64_t count = mil_type_count(&a->out[0].type);
        for (int64_t i = 0; i < count; i++)
            a->out[0].data[i] = lut->data[eval_constexpr_packed_index(indices->data, i, bits)];
        return PROPANE_OK;
    }
    PROPANE_TRY(mil_palette_read(a->op, "indices", &indices->type, &p, err));
    int64_t inner = 1;
    for (int d = p.axis + 1; d < indices->type.rank; d++) inner *= indices->type.dim[d];
    mil_walk_begin(&w, indices->type.rank, indices->type.dim);
    for (int64_t i = 0; i < mil_type_count(&indices->type); i++, mil_walk_next(&w)) {
        const int64_t entry =
            eval_constexpr_palette_of(&p, &lut->type, w.index) * p.entries + (int64_t)indices->data[i];
        for (int64_t v = 0; v < p.vector; v++)
            a->out[0].data[(i / inner * p.vector + v) * inner + i % inner] = lut->data[entry * p.vector + v];
    }
    return PROPANE_OK;
}

/* Reports a mask with more set elements than there are values. A computed mask has not been checked before, and the
 * evaluation would read past the values. */
static propane_status eval_constexpr_short(const mil_eval_args *a, const char *param, int64_t count,
                                           propane_error *err) {
    return mil_op_fail(a->op, err, PROPANE_ERR_INVALID, "the mask has more bits set than the %lld elements of %s",
                       (long long)count, param);
}

/* The values of a sparse tensor are in the row-major order of the dense one, so the elements of a vector along an axis
 * are not neighbours. Therefore walks each row of the mask once per element of the vectors. */
propane_status mil_eval_constexpr_lut_to_sparse(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *mask = mil_eval_in(a, "indices_mask"), *indices = mil_eval_in(a, "indices_nonzero_data"),
                     *lut = mil_eval_in(a, "lut");
    const mil_type *type = &mask->type;
    int64_t inner = 1, to = 0, row_begin = 0;
    mil_palette p;
    mil_walk w;
    PROPANE_TRY(mil_palette_read(a->op, "indices_nonzero_data", type, &p, err));
    for (int d = p.axis + 1; d < type->rank; d++) inner *= type->dim[d];
    const int64_t rows = mil_type_count(type) / inner;
    mil_walk_begin(&w, type->rank, type->dim);
    for (int64_t row = 0; row < rows; row++) {
        const mil_walk begin = w;
        int64_t from = row_begin;
        for (int64_t v = 0; v < p.vector; v++) {
            w = begin;
            from = row_begin;
            for (int64_t i = 0; i < inner; i++, mil_walk_next(&w)) {
                const bool there = mask->data[row * inner + i] != 0.0;
                a->out[0].data[(row * p.vector + v) * inner + i] = there;
                if (!there) continue;
                if (from >= mil_type_count(&indices->type))
                    return eval_constexpr_short(a, "indices_nonzero_data", mil_type_count(&indices->type), err);
                const int64_t entry =
                    eval_constexpr_palette_of(&p, &lut->type, w.index) * p.entries + (int64_t)indices->data[from++];
                a->out[1].data[to++] = lut->data[entry * p.vector + v];
            }
        }
        row_begin = from;
    }
    return PROPANE_OK;
}

/* ---- masks and blocks --------------------------------------------------------------------------------------------------------- */

propane_status mil_eval_constexpr_sparse_to_dense(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *data = mil_eval_in(a, "nonzero_data"), *mask = mil_eval_in(a, "mask");
    const int64_t count = mil_type_count(&a->out[0].type);
    const bool packed = mil_in(a->op, "shape") != NULL;
    for (int64_t i = 0, from = 0; i < count; i++) {
        const bool there = packed ? eval_constexpr_packed_index(mask->data, i, 1) != 0 : mask->data[i] != 0.0;
        if (there && from >= mil_type_count(&data->type))
            return eval_constexpr_short(a, "nonzero_data", mil_type_count(&data->type), err);
        if (there) a->out[0].data[i] = data->data[from++];
    }
    return PROPANE_OK;
}

/* Applies the scale and offset of the block that contains element `index` of `shape`. */
static double eval_constexpr_shifted(const mil_eval_args *a, const mil_type *shape, const int64_t *index,
                                     double value) {
    const mil_tensor *scale = mil_eval_in(a, "scale"), *offset = mil_eval_in(a, "offset");
    int64_t at = 0;
    for (int d = 0; d < shape->rank; d++)
        at = at * scale->type.dim[d] + index[d] / (shape->dim[d] / scale->type.dim[d]);
    return scale->data[at] * (value - (offset ? offset->data[at] : 0.0));
}

propane_status mil_eval_constexpr_blockwise(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *data = mil_eval_in(a, "data");
    mil_walk w;
    mil_walk_begin(&w, data->type.rank, data->type.dim);
    for (int64_t i = 0; i < mil_type_count(&data->type); i++, mil_walk_next(&w))
        a->out[0].data[i] = eval_constexpr_shifted(a, &data->type, w.index, data->data[i]);
    return PROPANE_OK;
}

propane_status mil_eval_constexpr_sparse_blockwise(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *mask = mil_eval_in(a, "data_mask"), *data = mil_eval_in(a, "nonzero_data");
    mil_walk w;
    mil_walk_begin(&w, mask->type.rank, mask->type.dim);
    for (int64_t i = 0, from = 0; i < mil_type_count(&mask->type); i++, mil_walk_next(&w)) {
        a->out[0].data[i] = mask->data[i];
        if (mask->data[i] != 0.0) {
            if (from >= mil_type_count(&data->type))
                return eval_constexpr_short(a, "nonzero_data", mil_type_count(&data->type), err);
            a->out[1].data[from] = eval_constexpr_shifted(a, &mask->type, w.index, data->data[from]);
            from++;
        }
    }
    return PROPANE_OK;
}
