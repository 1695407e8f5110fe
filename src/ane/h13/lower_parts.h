/* SPDX-License-Identifier: MIT
 * Lowers operations to tasks, one function per family. Operands are tensors in memory (surfaces or scratch). Values
 * between the tasks of one operation stay in the on-chip buffer if the buffer's rules are known for them. Shapes are
 * [c, h, w].
 *
 * Every function appends its tasks to the emitter. If it cannot lay out an operation, it returns
 * PROPANE_ERR_UNSUPPORTED with the reason, and the caller adds the operation's place in the program.
 */
#ifndef ANE_H13_LOWER_PARTS_H
#define ANE_H13_LOWER_PARTS_H

#include "ane/h13/activation.h"
#include "ane/h13/kernel.h"
#include "ane/h13/task_emit.h"

/* Words of the planar engine's configuration. */
enum {
    LOWER_ADD = 0x80000,
    LOWER_MUL = 0x80004,
    LOWER_MAX = 0x80008,
    LOWER_MIN = 0x8000c,
    LOWER_SUB = 0xc0000,
    LOWER_COPY = 0,
    LOWER_ABS = 0x40,
    LOWER_POOL_MAX = 2,
    LOWER_RECIPROCAL = 0x1000
};

/* Configuration words of results on chip, and of planar tasks that hand values to each other. */
enum {
    LOWER_KEEP = 0x500170,
    LOWER_KEEP_LATER = 0x140,
    LOWER_STREAM_LATER = 0x14a,
    LOWER_HAND_ON = 0x1080,
    LOWER_HAND_OVER = 0x5080,
    LOWER_TAKE_OVER = 0x4080
};

/* y = a op b, all of one shape. With `relu2`, negative values of b count as 0. */
propane_status lower_binary(emitter *e, uint32_t op, const emit_tensor *a, const emit_tensor *b, bool relu2,
                            const emit_tensor *y, propane_error *err);
/* y = op(x) * scale + bias, where `op` is LOWER_COPY or LOWER_ABS; scale and bias are fp16 bits. */
propane_status lower_scaled(emitter *e, uint32_t op, const emit_tensor *x, uint16_t scale, uint16_t bias,
                            const emit_tensor *y, propane_error *err);
/* y = x op b, or x op table(b) if `table` is not NULL. b is repeated along its dimensions of 1. */
propane_status lower_broadcast(emitter *e, uint32_t op, const emit_tensor *x, const emit_tensor *b,
                               const engine_table *table, const emit_tensor *y, propane_error *err);
/* y = (x + bias[c]) * scale[c], with constants per channel. */
propane_status lower_channels(emitter *e, const emit_tensor *x, const uint16_t *bias, const uint16_t *scale,
                              const emit_tensor *y, propane_error *err);
/* y = table(x), after the table's bias and scale have been applied to x, or max(0, x) if the table is NULL. */
propane_status lower_activation(emitter *e, const emit_tensor *x, const engine_table *table, const emit_tensor *y,
                                propane_error *err);
/* y = x. Both tensors have the same shape and may have any strides. */
propane_status lower_copy(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err);
/* y[w, h, c] = x[c, h, w]. */
propane_status lower_transpose(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err);

/* The origin of a constant operand of a kernel [outputs, inputs x taps]. Element (output, i) of the operand is element
 * start + output * row + i * column of the tensor `name`. A NULL name means that the operand is never overwritten. */
typedef struct lower_origin {
    const char *name;
    int64_t elements, start, row, column;
} lower_origin;

typedef struct lower_conv {
    int64_t outputs, groups, kh, kw, stride, pad_h, pad_w;
    const uint16_t *weight; /* [outputs, inputs / groups, kh, kw] */
    const uint16_t *bias;   /* [outputs]; NULL if none */
    const engine_table *table;
    bool relu;
    uint16_t scale; /* fp16 bits; factor of the sum, which includes the bias */
    lower_origin weight_from, bias_from;
} lower_conv;
propane_status lower_convolution(emitter *e, const lower_conv *k, const emit_tensor *x, const emit_tensor *y,
                                 propane_error *err);

typedef struct lower_product {
    int64_t m, k, n;
    bool transpose_x, transpose_y;
    const uint16_t *weight; /* [n, k] for either value of transpose_y; NULL if the second operand is computed */
    const uint16_t *kernel; /* a constant first operand, addressed by kernel_from; NULL if it is computed */
    lower_origin kernel_from, weight_from, bias_from;
    const uint16_t *bias; /* [n], only with a weight; NULL if none */
    const engine_table *table;
    bool relu;
    uint16_t scale;
} lower_product;
/* y[m, n] = x * b. Matrices are tensors [1, rows, columns]; computed operands may be [batches, rows, columns], or a
 * single matrix for all batches. */
propane_status lower_matmul(emitter *e, const lower_product *p, const emit_tensor *x, const emit_tensor *b,
                            const emit_tensor *y, propane_error *err);

/* y = (x * p) * q: two products with constant operands, including the operations that the products absorb. The
 * intermediate value stays on chip in the form that the second product needs, so it is not transposed
 * (joshuaswarren/mil-hwx-compiler research/oracles/h13/chain_ffn_d256_s128.json). */
bool lower_matmul_two_fit(const lower_product *p, const lower_product *q);
propane_status lower_matmul_two(emitter *e, const lower_product *p, const lower_product *q, const emit_tensor *x,
                                const emit_tensor *y, propane_error *err);

/* Lower the chain softmax(q * k) * v, with the softmax over the width, in nine tasks (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/chain_attn_s64_dh64.json). The scores are on chip at `to`, after the statistics. The
 * probabilities are stored in scratch memory starting at e->scratch, where they replace the q that lower_scores
 * staged. */
/* Returns the rows per lane if the planar engine can lay them side by side and one task can process all m rows;
 * otherwise 0. */
int lower_scores_interleave(int64_t m);
/* Returns the on-chip bytes of a product's second operand. */
int64_t lower_scores_room(const lower_product *p);
void lower_scores(emitter *e, const lower_product *p, const emit_tensor *q, const emit_tensor *k, const emit_l2 *to);
/* Computes the softmax of the value on chip at `at`, which has to->c channels of one row of to->w pixels. Stores the
 * result at `to` with `il` channels side by side. */
void lower_softmax_on_chip(emitter *e, const emit_l2 *at, const emit_tensor *to, int il);
void lower_context(emitter *e, const lower_product *p, const emit_tensor *v, const emit_tensor *y);

typedef enum lower_reduction { LOWER_SUM, LOWER_MEAN, LOWER_MAXIMUM } lower_reduction;
/* Reduces the axes whose bits are set in `axes`: 1 channels, 2 height, 4 width. */
propane_status lower_reduce(emitter *e, lower_reduction kind, int axes, const emit_tensor *x, const emit_tensor *y,
                            propane_error *err);
/* Computes the softmax over the width. */
propane_status lower_softmax(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err);
/* Normalises channels (of [c, 1, 1]) or the width of one row, without scale and offset. `axes` has the bits of
 * lower_reduce for the original axes, including dimensions of 1. */
propane_status lower_layer_norm(emitter *e, int axes, double epsilon, const emit_tensor *x, const emit_tensor *y,
                                propane_error *err);

/* Returns the offset of a table among the constants. Appends the table, with room for `lanes` lanes, unless the
 * constants contain it. */
int64_t lower_table(emitter *e, const engine_table *table, int lanes);
/* The inputs of engine_kernel_pack (bias and table may be NULL), and their origin. */
typedef struct lower_kernel {
    const uint16_t *weight, *bias;
    const engine_table *table;
    lower_origin weight_from, bias_from;
} lower_kernel;
/* Packs a kernel into the constants and assigns each lane of the task its part. */
propane_status lower_kernel_lanes(emitter *e, emitted *t, const engine_kernel *k, const lower_kernel *from,
                                  propane_error *err);
/* Appends bytes to the constants at the next multiple of 64, and returns their offset. */
int64_t lower_constants(emitter *e, const void *data, size_t bytes);

#endif
