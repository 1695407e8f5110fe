/* SPDX-License-Identifier: MIT
 * Declares how shapes and the parameters of an op are read: defaults, negative axes, masks and padding modes are
 * resolved. The shape rules, the reference evaluation (core/mil/eval/eval_*.c), kernels and gradients all use these
 * functions, so they cannot disagree.
 *
 * A _read function checks everything that it reads and fails with a message about the op. For an op that the verifier
 * has accepted it succeeds unless memory runs out.
 */
#ifndef CORE_MIL_OPS_SHAPE_UTIL_H
#define CORE_MIL_OPS_SHAPE_UTIL_H

#include "core/mil/ops.h"

#define MIL_MAX_COUNT ((int64_t)1 << 40) /* elements of one tensor */

/* ---- strides, in elements ---------------------------------------------------------------------------------------- */

void mil_strides(const mil_type *type, int64_t out[MIL_MAX_RANK]); /* dense, row major */
/* Sets the strides that read `from` as if it had the shape `to` (numpy broadcasting: aligned at the right, 0 where
 * repeated). */
void mil_broadcast_strides(const mil_type *from, const mil_type *to, int64_t out[MIL_MAX_RANK]);
/* Sets *out to the common shape, with the element type of `a`. Returns false if the sizes do not match in dimension
 * *bad of the result (counted from the left). */
bool mil_broadcast(const mil_type *a, const mil_type *b, mil_type *out, int *bad);
/* Prints a shape as "[2, 3]" or "[]" and returns `out`. */
const char *mil_shape_print(char out[160], const mil_type *type);

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* Converts `value` to an axis of a tensor of `rank`; negative values count from the end. */
PROPANE_CHECK propane_status mil_axis(const mil_op *op, const char *param, int64_t value, int rank, int *out,
                                      propane_error *err);
PROPANE_CHECK propane_status mil_attr_axis(const mil_op *op, const char *param, int rank, int *out, propane_error *err);
/* Sets member[d] if d is one of the axes, or for every dimension if the axes are left out. Refuses duplicates. */
PROPANE_CHECK propane_status mil_attr_axes(const mil_op *op, const char *param, int rank, bool member[MIL_MAX_RANK],
                                           propane_error *err);
/* Reads an integer vector of up to `limit` elements (mil_attr_ints stops at 16). *count is -1 if the vector was left
 * out. */
PROPANE_CHECK propane_status mil_attr_vector(const mil_op *op, const char *param, int limit, int64_t *out, int *count,
                                             propane_error *err);
/* Reads one bool per dimension, all false if left out. */
PROPANE_CHECK propane_status mil_attr_bools(const mil_op *op, const char *param, int rank, bool out[MIL_MAX_RANK],
                                            propane_error *err);
/* Reads the permutation of a transpose, with axes made positive. */
PROPANE_CHECK propane_status mil_attr_perm(const mil_op *op, int perm[MIL_MAX_RANK], propane_error *err);

/* ---- geometry of the larger ops ---------------------------------------------------------------------------------- */

/* matmul: for every batch index, result(i,j) = sum over k of x(i,k) y(k,j). Steps are in elements. If x is a vector, m
 * is 1 and missing from the result; likewise n if y is a vector. */
typedef struct mil_matmul {
    int64_t m, n, k;
    int64_t x_row, x_col, y_row, y_col; /* x(i,k) at i*x_row + k*x_col; y(k,j) at k*y_row + j*y_col */
    int batch_rank;
    int64_t batch[MIL_MAX_RANK], x_step[MIL_MAX_RANK], y_step[MIL_MAX_RANK];
    mil_type result;
} mil_matmul;
PROPANE_CHECK propane_status mil_matmul_read(const mil_op *op, mil_matmul *out, propane_error *err);

/* conv: x [n, c_in, *in] and weight [c_out, c_in/groups, *kernel] produce [n, c_out, *out], with up to three spatial
 * dimensions. */
typedef struct mil_conv {
    int spatial;
    int64_t n, c_in, c_out, groups;
    int64_t in[3], kernel[3], out[3], stride[3], dilation[3], before[3], after[3]; /* before, after: padding */
} mil_conv;
PROPANE_CHECK propane_status mil_conv_read(const mil_op *op, mil_conv *out, propane_error *err);
/* Reads a pooling op; c_in = c_out, and the dilation is 1. In ceil mode the last window may reach beyond in + after. */
PROPANE_CHECK propane_status mil_pool_read(const mil_op *op, mil_conv *out, propane_error *err);
/* Reads a conv_transpose as the convolution that it transposes: c.out has x's dimensions and c.in the result's. c_in
 * and c_out are the numbers of channels of x and of the result; the weight is [c_in, c_out/groups, *kernel]. after may
 * be negative. */
PROPANE_CHECK propane_status mil_conv_transpose_read(const mil_op *op, mil_conv *out, propane_error *err);
/* Read parts of a convolution or pooling op: one positive number per spatial dimension (1 if left out), and before,
 * after and out from pad_type and pad. */
PROPANE_CHECK propane_status mil_spatial_vector(const mil_op *op, const char *param, int spatial, int64_t out[3],
                                                propane_error *err);
PROPANE_CHECK propane_status mil_conv_padding(const mil_op *op, mil_conv *c, propane_error *err);

/* slice_by_index and slice_by_size: element i of dimension d is at begin[d] + i*step[d] in x, for i < count[d]. */
typedef struct mil_slice {
    int rank; /* of x */
    int64_t begin[MIL_MAX_RANK], step[MIL_MAX_RANK], count[MIL_MAX_RANK];
    bool squeeze[MIL_MAX_RANK]; /* the dimension (count 1) is missing from the result */
} mil_slice;
PROPANE_CHECK propane_status mil_slice_read(const mil_op *op, mil_slice *out, propane_error *err);
/* Resolves slice_by_index and similar ops once begin and end are known. `end` and out->begin have one number per
 * dimension of x. */
PROPANE_CHECK propane_status mil_slice_resolve(const mil_op *op, const int64_t *end, mil_slice *out,
                                               propane_error *err);

/* space_to_batch and batch_to_space: the blocks of images, and the padding or cropping of height and width. */
typedef struct mil_blocks {
    int64_t block[2], before[2], after[2];
} mil_blocks;
PROPANE_CHECK propane_status mil_blocks_read(const mil_op *op, const char *edges, mil_blocks *out, propane_error *err);
/* Sets where the result of a crop begins in x, and the type of the result. */
PROPANE_CHECK propane_status mil_crop_read(const mil_op *op, int64_t begin[MIL_MAX_RANK], mil_type *out,
                                           propane_error *err);
/* sliding_windows: `count` windows of `size` elements along `axis`. */
typedef struct mil_windows {
    int axis;
    int64_t size, stride, count;
} mil_windows;
PROPANE_CHECK propane_status mil_windows_read(const mil_op *op, mil_windows *out, propane_error *err);

typedef enum mil_pad_mode { MIL_PAD_CONSTANT, MIL_PAD_REFLECT, MIL_PAD_REPLICATE } mil_pad_mode;
typedef struct mil_pad {
    mil_pad_mode mode;
    double value;
    int64_t before[MIL_MAX_RANK], after[MIL_MAX_RANK]; /* one per dimension of x, 0 if there is none */
} mil_pad;
PROPANE_CHECK propane_status mil_pad_read(const mil_op *op, mil_pad *out, propane_error *err);

/* split: part k covers begin[k] .. begin[k]+size[k]-1 of `axis`. */
typedef struct mil_split {
    int axis, count;
    int64_t begin[MIL_MAX_RESULTS], size[MIL_MAX_RESULTS];
} mil_split;
PROPANE_CHECK propane_status mil_split_read(const mil_op *op, mil_split *out, propane_error *err);

/* gather: the result's dimensions are x[:axis], indices[batch_dims:], x[axis+1:]. The first batch_dims dimensions of x
 * and indices correspond. */
typedef struct mil_gather {
    int axis, batch_dims;
    int64_t batch, outer, size, inner, picks; /* x as [batch, outer, size, inner], indices as [batch, picks],
                                               * result as [batch, outer, picks, inner] */
} mil_gather;
PROPANE_CHECK propane_status mil_gather_read(const mil_op *op, mil_gather *out, propane_error *err);
/* Returns whether a gather or scatter validates its indices. If so, negative indices are out of range, too. */
bool mil_index_strict(const mil_op *op);

/* Reads gather_along_axis or scatter_along_axis: x as [outer, size, inner], the other tensors as [outer, picks,
 * inner]. */
PROPANE_CHECK propane_status mil_along_read(const mil_op *op, const char *data, mil_gather *out, propane_error *err);

/* gather_nd, scatter_nd: x as [batch, *size[depth], inner], indices as [batch, picks, depth]. */
typedef struct mil_gather_nd {
    int batch_dims, depth;
    int64_t batch, picks, inner, image; /* image: elements of x per batch entry */
    int64_t size[MIL_MAX_RANK], step[MIL_MAX_RANK];
    mil_type result; /* of the gather; a scatter's updates have this type */
} mil_gather_nd;
PROPANE_CHECK propane_status mil_gather_nd_read(const mil_op *op, const char *data, mil_gather_nd *out,
                                                propane_error *err);

typedef enum mil_scatter_mode {
    MIL_SCATTER_UPDATE,
    MIL_SCATTER_ADD,
    MIL_SCATTER_SUB,
    MIL_SCATTER_MUL,
    MIL_SCATTER_DIV,
    MIL_SCATTER_MAX,
    MIL_SCATTER_MIN
} mil_scatter_mode;
PROPANE_CHECK propane_status mil_scatter_mode_read(const mil_op *op, mil_scatter_mode *out, propane_error *err);

/* non_maximum_suppression. If boxes_last (since ios17), boxes are [n, 4, boxes] and scores [n, classes, boxes];
 * otherwise the last two dimensions are swapped. A box is centre x, centre y, width, height. */
typedef struct mil_nms {
    int64_t batch, boxes, classes, most;
    double iou_threshold, score_threshold;
    bool per_class, boxes_last;
} mil_nms;
PROPANE_CHECK propane_status mil_nms_read(const mil_op *op, mil_nms *out, propane_error *err);

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* The grids that map each of `out` elements to a position among `in` elements. */
typedef enum mil_grid {
    MIL_GRID_DEFAULT,
    MIL_GRID_STRICT_ALIGN,
    MIL_GRID_ALIGN,
    MIL_GRID_OFFSET,
    MIL_GRID_UNALIGN
} mil_grid;
double mil_grid_point(mil_grid grid, double in, int64_t out, int64_t i);

/* upsample_*, resize_*, resize: change any number of the last dimensions. With `nearest`, elements are copied as
 * mil_resize_nearest determines. */
typedef struct mil_resize {
    mil_type result;
    int first; /* first resized dimension */
    mil_grid grid;
    bool nearest, below; /* below: the grid of upsample_nearest_neighbor */
} mil_resize;
/* Element i of `out` copies one of `in` elements; returns that element's index. With `below`, the index is floor(i * in
 * / out). Otherwise, for DEFAULT and UNALIGN_CORNERS, it is floor((i + 0.5) * in / out). In the other modes it is the
 * index nearest to the grid point, or the upper of two equally near ones. The index is computed in integers, so no
 * factor is rounded. */
int64_t mil_resize_nearest(const mil_resize *r, int64_t in, int64_t out, int64_t i);
PROPANE_CHECK propane_status mil_resize_read(const mil_op *op, mil_resize *out, propane_error *err);

typedef struct mil_crop_resize {
    int64_t boxes, images_each, box_step; /* images_each: results per box; box_step: numbers per box */
    int64_t target[2];
    /* If indexed, a box begins with the number of its image. If flat, the result has no dimension for images_each. */
    bool indexed, flat;
    bool normalized, centred, width_first;
    double scale, pad_value;
    mil_grid grid;
} mil_crop_resize;
PROPANE_CHECK propane_status mil_crop_resize_read(const mil_op *op, mil_crop_resize *out, propane_error *err);
/* Sets the start and end of a box along height (0) and width (1), in elements of an image of that size. */
void mil_crop_range(const mil_crop_resize *c, const double box[4], const int64_t size[2], double start[2],
                    double end[2]);
/* Returns the position in the image at which element i along d of a result is read. A box whose end precedes its start
 * is read backwards. */
double mil_crop_point(const mil_crop_resize *c, const double start[2], const double end[2], int d, int64_t i);

/* The padding modes of resample and affine. */
typedef enum mil_sampling_pad {
    MIL_SAMPLING_CONSTANT,
    MIL_SAMPLING_BORDER,
    MIL_SAMPLING_REFLECTION, /* about the centres of the outermost elements */
    MIL_SAMPLING_SYMMETRIC   /* about the outer edges of these elements */
} mil_sampling_pad;
typedef struct mil_sampling {
    bool nearest, normalized, centred, align; /* normalized coordinates: -1 .. 1 if centred, else 0 .. 1 */
    mil_sampling_pad pad;
    double pad_value;
} mil_sampling;
PROPANE_CHECK propane_status mil_sampling_read(const mil_op *op, mil_sampling *out, propane_error *err);
/* Converts coordinate `at` to a position along `size` elements, brought into 0 .. size-1 unless the padding is
 * constant. */
double mil_sampling_place(const mil_sampling *s, double at, int64_t size);
/* Returns the coordinate of element i of `size`. */
double mil_sampling_coordinate(const mil_sampling *s, int64_t i, int64_t size);

/* einsum. Labels are letters, in order of appearance in the result and then in the operands. A label that occurs twice
 * in one operand selects the operand's diagonal. A dimension of size 1 is repeated. */
#define MIL_MAX_EINSUM 8 /* operands */
typedef struct mil_einsum {
    int label_count, result_rank; /* labels 0 .. result_rank-1 are the dimensions of the result */
    char letter[52];
    int64_t size[52];
    int operand_count;
    int64_t step[MIL_MAX_EINSUM][52]; /* elements to advance in operand k when the label's index grows by one */
} mil_einsum;
PROPANE_CHECK propane_status mil_einsum_read(const mil_op *op, mil_einsum *out, propane_error *err);

/* scaled_dot_product_attention: query [*b, l, e], key [*b, s, e], value [*b, s, v], result [*b, l, v]. */
typedef struct mil_sdpa {
    int64_t batch, l, s, e, v;
    mil_type scores; /* [*b, l, s], the shape to which the mask is broadcast */
} mil_sdpa;
PROPANE_CHECK propane_status mil_sdpa_read(const mil_op *op, mil_sdpa *out, propane_error *err);

/* ---- recurrent --------------------------------------------------------------------------------------------------- */

typedef enum mil_recurrent_activation {
    MIL_RECURRENT_SIGMOID,
    MIL_RECURRENT_TANH,
    MIL_RECURRENT_RELU,
    MIL_RECURRENT_LINEAR,
    MIL_RECURRENT_SIGMOID_HARD /* min(max(0.2 x + 0.5, 0), 1) */
} mil_recurrent_activation;

/* lstm (4 gates), gru (3), rnn (1): x [steps, batch, inputs], states [batch, directions * hidden]. */
typedef struct mil_recurrent {
    int64_t steps, batch, inputs, hidden, directions, gates;
    bool reverse, sequence, reset_after, clipped;
    double clip;
    mil_recurrent_activation gate, cell, output;
} mil_recurrent;
PROPANE_CHECK propane_status mil_recurrent_read(const mil_op *op, mil_recurrent *out, propane_error *err);
/* Returns where the first result holds the hidden state of step number `step`, which read x[t]. */
int64_t mil_recurrent_place(const mil_recurrent *r, int64_t t, int64_t step);

/* ---- compressed constants ---------------------------------------------------------------------------------------- */

/* For each block of the indices, a palette of `entries` vectors. The indices have the shape `shape`. */
typedef struct mil_palette {
    int64_t entries, vector, block[MIL_MAX_RANK];
    int axis; /* the axis along which a vector extends */
} mil_palette;
PROPANE_CHECK propane_status mil_palette_read(const mil_op *op, const char *indices, const mil_type *shape,
                                              mil_palette *out, propane_error *err);
/* Returns the bits per index of a palette that is a plain vector (ios16), or 0 for other palettes. */
int mil_palette_bits(const mil_type *lut);

#endif
