/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of compressed constants: palettes, masks, blocks of scales, and their combinations.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_constexpr_type_of(const mil_op *op, const char *param) { return &mil_in(op, param)->type; }

static bool shape_constexpr_is_palette(mil_dtype d) {
    return d == MIL_int8 || d == MIL_uint8 || d == MIL_fp16 || d == MIL_fp32;
}
static bool shape_constexpr_is_small(mil_dtype d) {
    return shape_constexpr_is_palette(d) || d == MIL_int4 || d == MIL_uint4;
}

static propane_status shape_constexpr_refuse_dtype(const mil_op *op, const char *param, const char *wanted,
                                                   propane_error *err) {
    return BAD("%s is %s; it must be %s", param, mil_dtype_get(shape_constexpr_type_of(op, param)->dtype)->name,
               wanted);
}

/* ---- shapes given as a list (ios16) ------------------------------------------------------------------------------ */

static propane_status shape_constexpr_given_shape(const mil_op *op, mil_dtype dtype, mil_type *out,
                                                  propane_error *err) {
    mil_type result = {.dtype = dtype};
    int64_t count = 1;
    PROPANE_TRY(mil_attr_vector(op, "shape", MIL_MAX_RANK, result.dim, &result.rank, err));
    for (int d = 0; d < result.rank; d++) {
        if (result.dim[d] < 1 || result.dim[d] > MIL_MAX_COUNT / count)
            return BAD("shape[%d] is %lld", d, (long long)result.dim[d]);
        count *= result.dim[d];
    }
    *out = result;
    return PROPANE_OK;
}

/* Returns how many elements a mask keeps, or -1 if the mask's content is not known. */
static int64_t shape_constexpr_set_bits(const mil_const *mask, int64_t count, bool packed) {
    int64_t found = 0;
    if (!mask || !mask->data) return -1;
    for (int64_t i = 0; i < count; i++)
        found += packed ? mil_const_i64(mask, i / 8) >> (i % 8) & 1 : mil_const_i64(mask, i) != 0;
    return found;
}

static propane_status shape_constexpr_kept(const mil_op *op, const char *mask, int64_t bits, bool packed,
                                           const char *data, propane_error *err) {
    const mil_type *type = shape_constexpr_type_of(op, data);
    char text[160];
    if (type->rank != 1) return BAD("%s is %s; it must be a vector", data, mil_shape_print(text, type));
    const int64_t found = shape_constexpr_set_bits(mil_in(op, mask)->constant, bits, packed);
    if (found >= 0 && found != type->dim[0])
        return BAD("%s has %lld bits set, but %s has %lld elements", mask, (long long)found, data,
                   (long long)type->dim[0]);
    return PROPANE_OK;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

propane_status mil_shape_rule_constexpr_cast(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const char *name = NULL;
    PROPANE_TRY(mil_attr_text(op, "output_dtype", &name, err));
    if (shape_constexpr_type_of(op, "source_val")->dtype != MIL_fp16)
        return shape_constexpr_refuse_dtype(op, "source_val", "fp16", err);
    if (strcmp(name, "fp32") != 0) return BAD("output_dtype is \"%.40s\"; it must be fp32", name);
    out[0] = *shape_constexpr_type_of(op, "source_val");
    out->dtype = MIL_fp32;
    *out_count = 1;
    return PROPANE_OK;
}

/* Reads palettes in the form since ios18, one per block of the indices. The form of ios16 is one plain vector
 * (mil_palette_bits). */
propane_status mil_palette_read(const mil_op *op, const char *indices, const mil_type *shape, mil_palette *out,
                                propane_error *err) {
    const mil_type *lut = shape_constexpr_type_of(op, "lut"), *index = shape_constexpr_type_of(op, indices);
    const int bits = mil_dtype_get(index->dtype)->bits;
    char a[160], b[160];
    *out = (mil_palette){.entries = 1, .vector = 1};
    if (!shape_constexpr_is_palette(lut->dtype))
        return shape_constexpr_refuse_dtype(op, "lut", "int8, uint8, fp16 or fp32", err);
    if (mil_dtype_get(index->dtype)->kind != MIL_KIND_UINT || bits > 8)
        return shape_constexpr_refuse_dtype(op, indices, "uint1, uint2, uint3, uint4, uint6 or uint8", err);
    if (lut->rank != shape->rank + 2)
        return BAD("lut is %s; with %s of %s it must have rank %d", mil_shape_print(a, lut), indices,
                   mil_shape_print(b, shape), shape->rank + 2);
    out->entries = lut->dim[lut->rank - 2], out->vector = lut->dim[lut->rank - 1];
    if (out->entries != (int64_t)1 << bits)
        return BAD("lut has palettes of %lld entries, but %s of %d bits need %lld", (long long)out->entries, indices,
                   bits, (long long)1 << bits);
    if (out->vector > 1 && !mil_in(op, "vector_axis"))
        return BAD("lut holds vectors of %lld, which need vector_axis", (long long)out->vector);
    if (mil_in(op, "vector_axis")) PROPANE_TRY(mil_attr_axis(op, "vector_axis", shape->rank, &out->axis, err));
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] % lut->dim[d])
            return BAD("dimension %d of lut, %lld, does not divide the %lld of %s", d, (long long)lut->dim[d],
                       (long long)shape->dim[d], indices);
        out->block[d] = shape->dim[d] / lut->dim[d];
    }
    return PROPANE_OK;
}

propane_status mil_shape_rule_constexpr_lut_to_dense(const mil_op *op, mil_type *out, int *out_count,
                                                     propane_error *err) {
    const mil_type *lut = shape_constexpr_type_of(op, "lut"), *indices = shape_constexpr_type_of(op, "indices");
    mil_palette p;
    *out_count = 1;
    if (!mil_in(op, "shape")) {
        PROPANE_TRY(mil_palette_read(op, "indices", indices, &p, err));
        out[0] = *indices;
        out->dtype = lut->dtype;
        if (out->rank) out->dim[p.axis] *= p.vector;
        return PROPANE_OK;
    }
    char text[160];
    if (!shape_constexpr_is_palette(lut->dtype))
        return shape_constexpr_refuse_dtype(op, "lut", "int8, uint8, fp16 or fp32", err);
    if (indices->dtype != MIL_uint8 || indices->rank != 1)
        return BAD("indices is %s; with shape it must be a vector of uint8", mil_type_print(text, indices));
    PROPANE_TRY(shape_constexpr_given_shape(op, lut->dtype, out, err));
    const int bits = mil_palette_bits(lut);
    if (!bits) return BAD("lut is %s; it must be a vector of 2, 4, 16, 64 or 256 entries", mil_shape_print(text, lut));
    if (indices->dim[0] != (mil_type_count(out) * bits + 7) / 8)
        return BAD("indices has %lld bytes; %lld elements of %d bits need %lld", (long long)indices->dim[0],
                   (long long)mil_type_count(out), bits, (long long)((mil_type_count(out) * bits + 7) / 8));
    return PROPANE_OK;
}

int mil_palette_bits(const mil_type *lut) {
    static const int possible[] = {1, 2, 4, 6, 8};
    for (size_t k = 0; lut->rank == 1 && k < sizeof possible / sizeof possible[0]; k++)
        if (lut->dim[0] == (int64_t)1 << possible[k]) return possible[k];
    return 0;
}

propane_status mil_shape_rule_constexpr_sparse_to_dense(const mil_op *op, mil_type *out, int *out_count,
                                                        propane_error *err) {
    const mil_type *data = shape_constexpr_type_of(op, "nonzero_data"), *mask = shape_constexpr_type_of(op, "mask");
    char text[160];
    *out_count = 1;
    if (!shape_constexpr_is_small(data->dtype))
        return shape_constexpr_refuse_dtype(op, "nonzero_data", "int4, uint4, int8, uint8, fp16 or fp32", err);
    if (!mil_in(op, "shape")) {
        if (mask->dtype != MIL_uint1)
            return shape_constexpr_refuse_dtype(op, "mask", "uint1 (or uint8 with shape)", err);
        out[0] = *mask;
        out->dtype = data->dtype;
        return shape_constexpr_kept(op, "mask", mil_type_count(mask), false, "nonzero_data", err);
    }
    PROPANE_TRY(shape_constexpr_given_shape(op, data->dtype, out, err));
    if (mask->dtype != MIL_uint8 || mask->rank != 1 || mask->dim[0] != (mil_type_count(out) + 7) / 8)
        return BAD("mask is %s; %lld elements need a vector of %lld uint8", mil_type_print(text, mask),
                   (long long)mil_type_count(out), (long long)((mil_type_count(out) + 7) / 8));
    return shape_constexpr_kept(op, "mask", mil_type_count(out), true, "nonzero_data", err);
}

/* The results are the mask, longer along vector_axis, and the existing values as a vector. */
propane_status mil_shape_rule_constexpr_lut_to_sparse(const mil_op *op, mil_type *out, int *out_count,
                                                      propane_error *err) {
    const mil_type *mask = shape_constexpr_type_of(op, "indices_mask"),
                   *data = shape_constexpr_type_of(op, "indices_nonzero_data");
    mil_palette p;
    if (mask->dtype != MIL_uint1) return shape_constexpr_refuse_dtype(op, "indices_mask", "uint1", err);
    PROPANE_TRY(shape_constexpr_kept(op, "indices_mask", mil_type_count(mask), false, "indices_nonzero_data", err));
    PROPANE_TRY(mil_palette_read(op, "indices_nonzero_data", mask, &p, err));
    out[0] = *mask;
    if (mask->rank) out[0].dim[p.axis] *= p.vector;
    out[1] =
        (mil_type){.dtype = shape_constexpr_type_of(op, "lut")->dtype, .rank = 1, .dim = {data->dim[0] * p.vector}};
    *out_count = 2;
    return PROPANE_OK;
}

/* Checks that scale (and offset) have one number per block of data. */
static propane_status shape_constexpr_block_scales(const mil_op *op, const mil_type *shape, const char *data,
                                                   propane_error *err) {
    const mil_type *scale = shape_constexpr_type_of(op, "scale");
    const mil_value *offset = mil_in(op, "offset");
    char a[160], b[160];
    if (!shape_constexpr_is_small(shape_constexpr_type_of(op, data)->dtype))
        return shape_constexpr_refuse_dtype(op, data, "int4, uint4, int8, uint8, fp16 or fp32", err);
    if (scale->dtype != MIL_fp16 && scale->dtype != MIL_fp32)
        return shape_constexpr_refuse_dtype(op, "scale", "fp16 or fp32", err);
    bool fits = scale->rank == shape->rank;
    for (int d = 0; fits && d < shape->rank; d++) fits = shape->dim[d] % scale->dim[d] == 0;
    if (!fits)
        return BAD("scale is %s; each of its dimensions must divide that of %s", mil_shape_print(a, scale),
                   mil_shape_print(b, shape));
    if (offset && !mil_shape_equal(&offset->type, scale))
        return BAD("offset is %s, but scale is %s", mil_shape_print(a, &offset->type), mil_shape_print(b, scale));
    if (offset && !shape_constexpr_is_small(offset->type.dtype))
        return shape_constexpr_refuse_dtype(op, "offset", "int4, uint4, int8, uint8, fp16 or fp32", err);
    return PROPANE_OK;
}

propane_status mil_shape_rule_constexpr_blockwise(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *data = shape_constexpr_type_of(op, "data");
    PROPANE_TRY(shape_constexpr_block_scales(op, data, "data", err));
    out[0] = *data;
    out->dtype = shape_constexpr_type_of(op, "scale")->dtype;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_constexpr_sparse_blockwise(const mil_op *op, mil_type *out, int *out_count,
                                                         propane_error *err) {
    const mil_type *mask = shape_constexpr_type_of(op, "data_mask");
    if (mask->dtype != MIL_uint1) return shape_constexpr_refuse_dtype(op, "data_mask", "uint1", err);
    PROPANE_TRY(shape_constexpr_kept(op, "data_mask", mil_type_count(mask), false, "nonzero_data", err));
    PROPANE_TRY(shape_constexpr_block_scales(op, mask, "nonzero_data", err));
    out[0] = *mask;
    out[1] = *shape_constexpr_type_of(op, "nonzero_data");
    out[1].dtype = shape_constexpr_type_of(op, "scale")->dtype;
    *out_count = 2;
    return PROPANE_OK;
}
