/* SPDX-License-Identifier: MIT
 * Owns the meanings of ops that move elements between channels, batch and space, and of crops, windows, flattening,
 * reversed sequences and slice updates.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* ---- channels and space ------------------------------------------------------------------------------------------------ */

/* Walks [n, c, h*f, w*f]; `deep` is the offset in [n, c*f*f, h, w]. If block_major, the position inside the block is
 * the slow part of the deep channel (depth_to_space), otherwise the fast part (pixel_shuffle). */
static void eval_space_shuffle(const mil_type *wide, int64_t f, bool block_major, bool to_wide, const double *from,
                               double *to) {
    const int64_t c_count = wide->dim[1], h = wide->dim[2], w = wide->dim[3], small_h = h / f, small_w = w / f;
    int64_t i = 0;
    for (int64_t n = 0; n < wide->dim[0]; n++)
        for (int64_t c = 0; c < c_count; c++)
            for (int64_t y = 0; y < h; y++)
                for (int64_t x = 0; x < w; x++, i++) {
                    const int64_t block = y % f * f + x % f;
                    const int64_t channel = block_major ? block * c_count + c : c * f * f + block;
                    const int64_t deep = ((n * c_count * f * f + channel) * small_h + y / f) * small_w + x / f;
                    to[to_wide ? i : deep] = from[to_wide ? deep : i];
                }
}

static propane_status eval_space_to_space(const mil_eval_args *a, const char *param, bool block_major,
                                          propane_error *err) {
    int64_t f = 0;
    PROPANE_TRY(mil_attr_int(a->op, param, &f, err));
    eval_space_shuffle(&a->out[0].type, f, block_major, true, mil_eval_in(a, "x")->data, a->out[0].data);
    return PROPANE_OK;
}

static propane_status eval_space_to_depth(const mil_eval_args *a, const char *param, bool block_major,
                                          propane_error *err) {
    int64_t f = 0;
    PROPANE_TRY(mil_attr_int(a->op, param, &f, err));
    eval_space_shuffle(&mil_eval_in(a, "x")->type, f, block_major, false, mil_eval_in(a, "x")->data, a->out[0].data);
    return PROPANE_OK;
}

propane_status mil_eval_depth_to_space(const mil_eval_args *a, propane_error *err) {
    return eval_space_to_space(a, "block_size", true, err);
}
propane_status mil_eval_pixel_shuffle(const mil_eval_args *a, propane_error *err) {
    return eval_space_to_space(a, "upscale_factor", false, err);
}
propane_status mil_eval_space_to_depth(const mil_eval_args *a, propane_error *err) {
    return eval_space_to_depth(a, "block_size", true, err);
}
propane_status mil_eval_pixel_unshuffle(const mil_eval_args *a, propane_error *err) {
    return eval_space_to_depth(a, "downscale_factor", false, err);
}

/* ---- batch and space ------------------------------------------------------------------------------------------------------ */

/* Walks the spread-out side [n, c, h, w]. After padding by `before`, element (y, x) belongs to block (y % b0) * b1 + x
 * % b1 of the batch, at position (y / b0, x / b1). */
static void eval_space_blocks(const mil_type *wide, const mil_type *many, const mil_blocks *b, bool to_wide,
                              const double *from, double *to) {
    const int64_t batch = wide->dim[0];
    int64_t i = 0;
    for (int64_t n = 0; n < batch; n++)
        for (int64_t c = 0; c < wide->dim[1]; c++)
            for (int64_t y = 0; y < wide->dim[2]; y++)
                for (int64_t x = 0; x < wide->dim[3]; x++, i++) {
                    const int64_t py = y + b->before[0], px = x + b->before[1];
                    const int64_t image = (py % b->block[0] * b->block[1] + px % b->block[1]) * batch + n;
                    const int64_t at = ((image * many->dim[1] + c) * many->dim[2] + py / b->block[0]) * many->dim[3] +
                                       px / b->block[1];
                    to[to_wide ? i : at] = from[to_wide ? at : i];
                }
}

propane_status mil_eval_space_to_batch(const mil_eval_args *a, propane_error *err) {
    mil_blocks b;
    PROPANE_TRY(mil_blocks_read(a->op, "paddings", &b, err));
    eval_space_blocks(&mil_eval_in(a, "x")->type, &a->out[0].type, &b, false, mil_eval_in(a, "x")->data,
                      a->out[0].data);
    return PROPANE_OK;
}

propane_status mil_eval_batch_to_space(const mil_eval_args *a, propane_error *err) {
    mil_blocks b;
    PROPANE_TRY(mil_blocks_read(a->op, "crops", &b, err));
    eval_space_blocks(&a->out[0].type, &mil_eval_in(a, "x")->type, &b, true, mil_eval_in(a, "x")->data, a->out[0].data);
    return PROPANE_OK;
}

/* ---- crops and windows ------------------------------------------------------------------------------------------------------ */

/* Copies elements of x, starting at offset `begin`, with the strides `step`. */
static void eval_space_strided(const mil_eval_args *a, int64_t begin, const int64_t *step) {
    const mil_type *type = &a->out[0].type;
    const double *x = mil_eval_in(a, "x")->data + begin;
    const int64_t count = mil_type_count(type);
    mil_walk w;
    mil_walk_begin(&w, type->rank, type->dim);
    mil_walk_add(&w, step);
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) a->out[0].data[i] = x[w.at[0]];
}

propane_status mil_eval_crop(const mil_eval_args *a, propane_error *err) {
    int64_t begin[MIL_MAX_RANK], step[MIL_MAX_RANK], offset = 0;
    mil_type type;
    PROPANE_TRY(mil_crop_read(a->op, begin, &type, err));
    mil_strides(&mil_eval_in(a, "x")->type, step);
    for (int d = 0; d < type.rank; d++) offset += begin[d] * step[d];
    eval_space_strided(a, offset, step);
    return PROPANE_OK;
}

propane_status mil_eval_sliding_windows(const mil_eval_args *a, propane_error *err) {
    const mil_type *x = &mil_eval_in(a, "x")->type;
    int64_t step[MIL_MAX_RANK], wide[MIL_MAX_RANK + 1];
    mil_windows w;
    PROPANE_TRY(mil_windows_read(a->op, &w, err));
    mil_strides(x, step);
    for (int d = 0, to = 0; d < x->rank; d++) {
        wide[to++] = d == w.axis ? step[d] * w.stride : step[d];
        if (d == w.axis) wide[to++] = step[d];
    }
    eval_space_strided(a, 0, wide);
    return PROPANE_OK;
}

/* ---- sequences and slices ---------------------------------------------------------------------------------------------------- */

propane_status mil_eval_reverse_sequence(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *lengths = mil_eval_in(a, "lengths");
    const int64_t count = mil_type_count(&x->type);
    int64_t step[MIL_MAX_RANK];
    int seq = 0, batch = 0;
    mil_walk w;
    PROPANE_TRY(mil_attr_axis(a->op, "seq_axis", x->type.rank, &seq, err));
    PROPANE_TRY(mil_attr_axis(a->op, "batch_axis", x->type.rank, &batch, err));
    mil_strides(&x->type, step);
    for (int64_t b = 0; b < x->type.dim[batch]; b++)
        if (lengths->data[b] < 0 || lengths->data[b] > (double)x->type.dim[seq])
            return mil_op_fail(a->op, err, PROPANE_ERR_INVALID,
                               "lengths[%lld] is %.0f, but dimension %d of x has %lld elements", (long long)b,
                               lengths->data[b], seq, (long long)x->type.dim[seq]);
    mil_walk_begin(&w, x->type.rank, x->type.dim);
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) {
        const int64_t length = (int64_t)lengths->data[w.index[batch]], at = w.index[seq];
        const int64_t from = at < length ? length - 1 - at : at;
        a->out[0].data[i] = x->data[i + (from - at) * step[seq]];
    }
    return PROPANE_OK;
}

propane_status mil_eval_slice_update(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *update = mil_eval_in(a, "update"), *begin = mil_eval_in(a, "begin"),
                     *end = mil_eval_in(a, "end");
    int64_t step[MIL_MAX_RANK], last[MIL_MAX_RANK], offset = 0, count = 1;
    mil_slice s = {.rank = x->type.rank};
    mil_walk w;
    for (int d = 0; d < s.rank; d++) s.begin[d] = (int64_t)begin->data[d], last[d] = (int64_t)end->data[d];
    PROPANE_TRY(mil_slice_resolve(a->op, last, &s, err));
    mil_strides(&x->type, step);
    mil_type want = {.dtype = x->type.dtype};
    for (int d = 0; d < s.rank; d++) {
        offset += s.begin[d] * step[d];
        step[d] *= s.step[d];
        count *= s.count[d];
        if (!s.squeeze[d]) want.dim[want.rank++] = s.count[d];
    }
    char have[160], wanted[160];
    if (!mil_shape_equal(&want, &update->type))
        return mil_op_fail(a->op, err, PROPANE_ERR_INVALID, "update is %s, but begin and end make the slice %s",
                           mil_shape_print(have, &update->type), mil_shape_print(wanted, &want));
    memcpy(a->out[0].data, x->data, (size_t)mil_type_count(&x->type) * sizeof(double));
    mil_walk_begin(&w, s.rank, s.count);
    mil_walk_add(&w, step);
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) a->out[0].data[offset + w.at[0]] = update->data[i];
    return PROPANE_OK;
}
