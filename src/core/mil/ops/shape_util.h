/* SPDX-License-Identifier: MIT
 * Shapes: what the parameters of an op come to once defaults, negative axes, masks and padding modes are worked out.
 * The shape rules, the slow meanings (core/mil/eval/eval_*.c), kernels and gradients all ask here, so that they cannot
 * disagree.
 *
 * A _read function checks everything that it reads and fails with a message about the op; after the verifier has passed
 * an op, its _read function succeeds (but for memory).
 */
#ifndef CORE_MIL_OPS_SHAPE_UTIL_H
#define CORE_MIL_OPS_SHAPE_UTIL_H

#include "core/mil/ops.h"

#define MIL_MAX_COUNT ((int64_t)1 << 40) /* elements of one tensor */

/* ---- strides, in elements ---------------------------------------------------------------------------------------- */

void mil_strides(const mil_type *type, int64_t out[MIL_MAX_RANK]); /* dense, row major */
/* Strides that read `from` as if it had the shape `to` (numpy broadcasting: aligned at the right, 0 where repeated). */
void mil_broadcast_strides(const mil_type *from, const mil_type *to, int64_t out[MIL_MAX_RANK]);
/* The common shape; `out->dtype` is a's. False: dimension *bad of the result (from the left) does not fit. */
bool mil_broadcast(const mil_type *a, const mil_type *b, mil_type *out, int *bad);
/* "[2, 3]", "[]"; returns `out`. */
const char *mil_shape_print(char out[160], const mil_type *type);

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* `value` as an axis of a tensor of `rank`: negative ones count from the end. */
PROPANE_CHECK propane_status mil_axis(const mil_op *op, const char *param, int64_t value, int rank, int *out,
                                      propane_error *err);
PROPANE_CHECK propane_status mil_attr_axis(const mil_op *op, const char *param, int rank, int *out, propane_error *err);
/* member[d]: d is one of the axes; left out: all are. Doubles are refused. */
PROPANE_CHECK propane_status mil_attr_axes(const mil_op *op, const char *param, int rank, bool member[MIL_MAX_RANK],
                                           propane_error *err);
/* An integer vector of any length up to `limit` (mil_attr_ints stops at 16); *count -1: left out. */
PROPANE_CHECK propane_status mil_attr_vector(const mil_op *op, const char *param, int limit, int64_t *out, int *count,
                                             propane_error *err);
/* One bool per dimension; left out: all false. */
PROPANE_CHECK propane_status mil_attr_bools(const mil_op *op, const char *param, int rank, bool out[MIL_MAX_RANK],
                                            propane_error *err);
/* transpose: the permutation, axes made positive. */
PROPANE_CHECK propane_status mil_attr_perm(const mil_op *op, int perm[MIL_MAX_RANK], propane_error *err);

/* ---- geometry of the larger ops ---------------------------------------------------------------------------------- */

/* matmul: for every batch index, result(i,j) = sum over k of x(i,k) y(k,j). Steps are in elements; a vector operand has
 * m or n = 1 and its dimension is missing from the result. */
typedef struct mil_matmul {
    int64_t m, n, k;
    int64_t x_row, x_col, y_row, y_col; /* x(i,k) at i*x_row + k*x_col; y(k,j) at k*y_row + j*y_col */
    int batch_rank;
    int64_t batch[MIL_MAX_RANK], x_step[MIL_MAX_RANK], y_step[MIL_MAX_RANK];
    mil_type result;
} mil_matmul;
PROPANE_CHECK propane_status mil_matmul_read(const mil_op *op, mil_matmul *out, propane_error *err);

/* conv: [n, c_in, *in] by [c_out, c_in/groups, *kernel] gives [n, c_out, *out]; up to three spatial dimensions. */
typedef struct mil_conv {
    int spatial;
    int64_t n, c_in, c_out, groups;
    int64_t in[3], kernel[3], out[3], stride[3], dilation[3], before[3], after[3]; /* before, after: padding */
} mil_conv;
PROPANE_CHECK propane_status mil_conv_read(const mil_op *op, mil_conv *out, propane_error *err);
/* Pooling: c_in = c_out, dilation 1. In ceil mode the last window may reach beyond in + after. */
PROPANE_CHECK propane_status mil_pool_read(const mil_op *op, mil_conv *out, propane_error *err);
/* conv_transpose, as the convolution that it transposes: c.out are x's dimensions, c.in the result's; c_in is x's and
 * c_out the result's number of channels, the weight is [c_in, c_out/groups, *kernel]. after may be negative. */
PROPANE_CHECK propane_status mil_conv_transpose_read(const mil_op *op, mil_conv *out, propane_error *err);
/* Parts of these: one positive number per spatial dimension (left out: 1); before, after and out from pad_type and
 * pad. */
PROPANE_CHECK propane_status mil_spatial_vector(const mil_op *op, const char *param, int spatial, int64_t out[3],
                                                propane_error *err);
PROPANE_CHECK propane_status mil_conv_padding(const mil_op *op, mil_conv *c, propane_error *err);

/* slice_by_index and slice_by_size: element i of dimension d comes from begin[d] + i*step[d], i < count[d]. */
typedef struct mil_slice {
    int rank; /* of x */
    int64_t begin[MIL_MAX_RANK], step[MIL_MAX_RANK], count[MIL_MAX_RANK];
    bool squeeze[MIL_MAX_RANK]; /* the dimension (count 1) is missing from the result */
} mil_slice;
PROPANE_CHECK propane_status mil_slice_read(const mil_op *op, mil_slice *out, propane_error *err);
/* slice_by_index and its like from out->begin and `end`, one number per dimension of x, known only now. */
PROPANE_CHECK propane_status mil_slice_resolve(const mil_op *op, const int64_t *end, mil_slice *out,
                                               propane_error *err);

/* space_to_batch and batch_to_space: blocks of images, and what is padded or cropped of height and width. */
typedef struct mil_blocks {
    int64_t block[2], before[2], after[2];
} mil_blocks;
PROPANE_CHECK propane_status mil_blocks_read(const mil_op *op, const char *edges, mil_blocks *out, propane_error *err);
/* crop: where in x the result begins, and its type. */
PROPANE_CHECK propane_status mil_crop_read(const mil_op *op, int64_t begin[MIL_MAX_RANK], mil_type *out,
                                           propane_error *err);
/* sliding_windows: `count` windows of `size` elements of `axis`. */
typedef struct mil_windows {
    int axis;
    int64_t size, stride, count;
} mil_windows;
PROPANE_CHECK propane_status mil_windows_read(const mil_op *op, mil_windows *out, propane_error *err);

typedef enum mil_pad_mode { MIL_PAD_CONSTANT, MIL_PAD_REFLECT, MIL_PAD_REPLICATE } mil_pad_mode;
typedef struct mil_pad {
    mil_pad_mode mode;
    double value;
    int64_t before[MIL_MAX_RANK], after[MIL_MAX_RANK]; /* one per dimension of x, 0 where none is asked for */
} mil_pad;
PROPANE_CHECK propane_status mil_pad_read(const mil_op *op, mil_pad *out, propane_error *err);

/* split: part k covers begin[k] .. begin[k]+size[k]-1 of `axis`. */
typedef struct mil_split {
    int axis, count;
    int64_t begin[MIL_MAX_RESULTS], size[MIL_MAX_RESULTS];
} mil_split;
PROPANE_CHECK propane_status mil_split_read(const mil_op *op, mil_split *out, propane_error *err);

/* gather: result dims are x[:axis], indices[batch_dims:], x[axis+1:]; the first batch_dims dims of x and indices pair
 * up. */
typedef struct mil_gather {
    int axis, batch_dims;
    int64_t batch, outer, size, inner, picks; /* x as [batch, outer, size, inner], indices as [batch, picks],
                                               * result as [batch, outer, picks, inner] */
} mil_gather;
PROPANE_CHECK propane_status mil_gather_read(const mil_op *op, mil_gather *out, propane_error *err);

/* gather_along_axis, scatter_along_axis: x as [outer, size, inner], indices and the rest as [outer, picks, inner]. */
PROPANE_CHECK propane_status mil_along_read(const mil_op *op, const char *data, mil_gather *out, propane_error *err);

/* gather_nd, scatter_nd: x as [batch, *size[depth], inner], indices as [batch, picks, depth]. */
typedef struct mil_gather_nd {
    int batch_dims, depth;
    int64_t batch, picks, inner, image; /* image: elements of x in one batch */
    int64_t size[MIL_MAX_RANK], step[MIL_MAX_RANK];
    mil_type result; /* of the gather: the updates of a scatter */
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

/* non_maximum_suppression. boxes_last: boxes [n, 4, boxes], scores [n, classes, boxes] (from ios17 on); else the last
 * two dimensions are the other way round. A box is centre x, centre y, width, height. */
typedef struct mil_nms {
    int64_t batch, boxes, classes, most;
    double iou_threshold, score_threshold;
    bool per_class, boxes_last;
} mil_nms;
PROPANE_CHECK propane_status mil_nms_read(const mil_op *op, mil_nms *out, propane_error *err);

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Where in `in` elements each of `out` is read. */
typedef enum mil_grid {
    MIL_GRID_DEFAULT,
    MIL_GRID_STRICT_ALIGN,
    MIL_GRID_ALIGN,
    MIL_GRID_OFFSET,
    MIL_GRID_UNALIGN
} mil_grid;
double mil_grid_point(mil_grid grid, double in, int64_t out, int64_t i);

/* upsample_*, resize_*, resize: any number of the last dimensions change. Nearest reads element mil_resize_nearest. */
typedef struct mil_resize {
    mil_type result;
    int first; /* the dimensions from here on are resized */
    mil_grid grid;
    bool nearest, below; /* below: upsample_nearest_neighbor's grid */
} mil_resize;
/* Which of `in` elements result i of `out` is: the one that holds the middle of i's share of x, (i + 0.5) * in / out
 * (DEFAULT and UNALIGN_CORNERS); the one nearest to the grid point in the other modes, the upper one of two that are
 * equally near; the one that i's share begins in, i * in / out, where `below`. In integers: no factor is rounded. */
int64_t mil_resize_nearest(const mil_resize *r, int64_t in, int64_t out, int64_t i);
PROPANE_CHECK propane_status mil_resize_read(const mil_op *op, mil_resize *out, propane_error *err);

typedef struct mil_crop_resize {
    int64_t boxes, images_each, box_step; /* images_each: results of each box; box_step: numbers of one */
    int64_t target[2];
    bool indexed, flat; /* a box begins with its image's number; no dimension for images_each in the result */
    bool normalized, centred, width_first;
    double scale, pad_value;
    mil_grid grid;
} mil_crop_resize;
PROPANE_CHECK propane_status mil_crop_resize_read(const mil_op *op, mil_crop_resize *out, propane_error *err);
/* Start and end of a box along height (0) and width (1), in elements of an image of that size. */
void mil_crop_range(const mil_crop_resize *c, const double box[4], const int64_t size[2], double start[2],
                    double end[2]);
/* Where element i along d of a result is read. A box whose end lies before its start is read backwards. */
double mil_crop_point(const mil_crop_resize *c, const double start[2], const double end[2], int d, int64_t i);

/* resample, affine. */
typedef enum mil_sampling_pad {
    MIL_SAMPLING_CONSTANT,
    MIL_SAMPLING_BORDER,
    MIL_SAMPLING_REFLECTION, /* about the centres of the outer elements */
    MIL_SAMPLING_SYMMETRIC   /* about their outer edges */
} mil_sampling_pad;
typedef struct mil_sampling {
    bool nearest, normalized, centred, align; /* centred: -1 .. 1, else 0 .. 1 */
    mil_sampling_pad pad;
    double pad_value;
} mil_sampling;
PROPANE_CHECK propane_status mil_sampling_read(const mil_op *op, mil_sampling *out, propane_error *err);
/* The place that coordinate `at` names along `size` elements; brought into 0 .. size-1, unless the padding is
 * constant. */
double mil_sampling_place(const mil_sampling *s, double at, int64_t size);
/* The coordinate of element i of `size`. */
double mil_sampling_coordinate(const mil_sampling *s, int64_t i, int64_t size);

/* einsum in full generality: labels are the letters, in order of appearance in the result and then in the operands. A
 * label that occurs twice in one operand takes its diagonal; an operand whose size is 1 is repeated. */
#define MIL_MAX_EINSUM 8 /* operands */
typedef struct mil_einsum {
    int label_count, result_rank; /* labels 0 .. result_rank-1 are the result's dimensions */
    char letter[52];
    int64_t size[52];
    int operand_count;
    int64_t step[MIL_MAX_EINSUM][52]; /* elements to go in operand k when the label's index grows by one */
} mil_einsum;
PROPANE_CHECK propane_status mil_einsum_read(const mil_op *op, mil_einsum *out, propane_error *err);

/* scaled_dot_product_attention: query [*b, l, e], key [*b, s, e], value [*b, s, v], result [*b, l, v]. */
typedef struct mil_sdpa {
    int64_t batch, l, s, e, v;
    mil_type scores; /* [*b, l, s], what the mask is broadcast to */
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
/* Where the first result has the hidden state of step number `step`, which read x[t]. */
int64_t mil_recurrent_place(const mil_recurrent *r, int64_t t, int64_t step);

/* ---- compressed constants ---------------------------------------------------------------------------------------- */

/* A palette of `entries` vectors for each block of the indices, which have `shape`. */
typedef struct mil_palette {
    int64_t entries, vector, block[MIL_MAX_RANK];
    int axis; /* along which a vector lies */
} mil_palette;
PROPANE_CHECK propane_status mil_palette_read(const mil_op *op, const char *indices, const mil_type *shape,
                                              mil_palette *out, propane_error *err);
/* Bits of an index into a palette that is a plain vector (ios16); 0: no such palette. */
int mil_palette_bits(const mil_type *lut);

#endif
