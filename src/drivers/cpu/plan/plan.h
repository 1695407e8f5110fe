/* SPDX-License-Identifier: MIT
 * The plan of a program: which memory each value lies in, which operations run together, in which order. Made once at
 * compile time (cpu_plan_compile); cpu_program_run then walks an array of steps and allocates nothing.
 *
 * The way of a function through the planner (plan.c lists it):
 *   copy      into a module of the planner's own, passes, composite operations written out in simple ones (lower.c)
 *   picks     products that only pick lines of an operand, in front of what they are multiplied by (lower_permutation.c)
 *   causal    where a causal mask makes zeros that products can leave out (fuse_causal_band.c)
 *   attention the products and the softmax of an attention, forward or backward, to one node (fuse_attention.c)
 *   layers    convolutions and linear layers with constant weights, what is added to them and the function behind it, to one
 *             node, several of them to one (fuse_bottleneck.c), and which images have their channels innermost (fuse_conv.c)
 *   fuse      operations to nodes: chains and trees of elementwise operations, reductions and softmax of one shape become
 *             one tile program; a product and the sum behind it one gemm (fuse.c)
 *   weights   products that read weights as they are stored, in few bits (fuse_quantized_weights.c)
 *   place     where a value must end up (an output, a part of a concat) it is computed in place (plan_place.c)
 *   emit      each node's binding (ops/emit_*.c, named by the CPU column of ops.def) adds steps
 *   memory    lifetimes, in-place, one block for all (plan_memory.c)
 *
 * Rounding: inside one step values are fp32, whatever the program's types say; a value is rounded to its type where it is
 * stored. `round_each` rounds after every operation instead, as a device does that stores each result.
 */
#ifndef CPU_PLAN_PLAN_H
#define CPU_PLAN_PLAN_H

#include "base/arena.h"
#include "device/driver.h"
#include "drivers/cpu/simd/isa.h"
#include "mil/build.h"
#include "mil/mil.h"
#include "mil/ops.h"

/* ---- what runs -------------------------------------------------------------------------------------------------------- */

typedef struct cpu_run {
    unsigned char *const *base;       /* of each buffer of the plan */
    int threads;                      /* at most that many at once; 0: all of the pool */
    const struct cpu_plan_step *next; /* the step behind the one that runs; NULL: it is the last */
} cpu_run;

typedef struct cpu_plan_ref {
    int buffer;
    int64_t byte;
} cpu_plan_ref;

static inline void *cpu_plan_at(const cpu_run *run, cpu_plan_ref r) { return run->base[r.buffer] + r.byte; }

/* pool_run with no more than run->threads tasks at once. */
void cpu_plan_parallel(const cpu_run *run, void (*task)(void *context, int task, int worker), void *context, int count);

typedef propane_status (*cpu_plan_step_run)(const cpu_run *run, const void *args, propane_error *err);

typedef struct cpu_plan_step {
    cpu_plan_step_run run;
    const void *args;
    const char *kind;  /* "gemm", "tile", "copy", "gather", "im2col", "reference" */
    const char *name;  /* of the value that it makes */
    const char *stage; /* of the operation; NULL: none */
    double flops, bytes;
    int64_t runs, ns; /* the profile: counted while cpu_program.profile is on */
} cpu_plan_step;

typedef enum cpu_plan_place { CPU_PLAN_INPUT, CPU_PLAN_OUTPUT, CPU_PLAN_CONST, CPU_PLAN_TEMP } cpu_plan_place;

typedef struct cpu_plan_buffer {
    cpu_plan_place place;
    int index; /* which input or output */
    int64_t bytes;
    const void *data; /* CPU_PLAN_CONST */
    int64_t offset;   /* CPU_PLAN_TEMP: in the block; CPU_PLAN_CONST: in the constants */
    int first, last;  /* the steps that touch it first and last; first > last: none */
    int alias;        /* CPU_PLAN_TEMP: uses that buffer's memory (in place), maybe an output's; -1: its own */
} cpu_plan_buffer;

typedef struct cpu_program {
    arena *arena;
    mil_module *module; /* the planner's copy, kept where reference steps read it; else NULL */
    int buffer_count, step_count;
    cpu_plan_buffer *buffers;
    cpu_plan_step *steps;
    unsigned char **base; /* [buffer_count]; constants are filled in, the rest at each run */
    int64_t block_bytes;  /* what a run needs besides inputs and outputs */
    void *constants;
    size_t constant_bytes;
    int threads;         /* asked for by the options; 0: the pool's */
    int planned_threads; /* for which there is scratch */
    bool profile;
    bool poison; /* tests: fill dead memory with NaN before the run and after each step */
    int tile_count, gemm_count, attention_count, copy_count, reference_count, fused_ops; /* what the plan came to */
    int gemv_count;    /* products of weights and a few vectors */
    int shared_count;  /* products that read B as one before has packed it */
    int squares_count; /* products that add up the squares of what they make */
    int banded_count;  /* products that leave out what a causal mask makes zero */
    int input_count, output_count;
    propane_io *inputs, *outputs;
    bool *in_place;
    void **in, **out;                     /* room for the addresses of one run */
    struct cpu_program *inside, *outside; /* programs of blocks that it runs; the next of those that `outside` runs */
} cpu_program;

typedef struct cpu_plan_options {
    cpu_isa isa;
    int threads;
    bool bf16;
    bool fuse;
    bool round_each;
} cpu_plan_options;

PROPANE_CHECK propane_status cpu_plan_compile(const mil_function *f, const cpu_plan_options *options, arena *a,
                                              cpu_program **out, propane_error *err);
/* Everything but the arena. */
void cpu_program_deinit(cpu_program *program);
/* `block` has block_bytes, 64-byte aligned. One run of a program at a time. */
PROPANE_CHECK propane_status cpu_program_run(cpu_program *program, void *block, void *const *inputs,
                                             void *const *outputs, propane_error *err);
/* Whether two buffers that live at the same time share memory: a broken plan. For tests. */
PROPANE_CHECK propane_status cpu_plan_memory_check(const cpu_program *program, propane_error *err);

/* ---- views: where the elements of a value lie ----------------------------------------------------------------------- */

typedef struct cpu_view {
    int buffer; /* -1: no memory of its own (inside a fused step) */
    mil_dtype dtype;
    int rank;
    int64_t offset; /* in elements, like the strides */
    int64_t dim[MIL_MAX_RANK], stride[MIL_MAX_RANK];
} cpu_view;

cpu_view cpu_view_dense(const mil_type *type, int buffer);
bool cpu_view_is_dense(const cpu_view *v);
bool cpu_view_equal(const cpu_view *a, const cpu_view *b);
int64_t cpu_view_count(const cpu_view *v);
/* The same elements under another shape; false: not without a copy, `out` (which may be `v`) is left alone. */
bool cpu_view_reshape(const cpu_view *v, int rank, const int64_t *dim, cpu_view *out);
cpu_view cpu_view_permute(const cpu_view *v, const int *perm);
cpu_view cpu_view_part(const cpu_view *v, int axis, int64_t begin, int64_t size);
cpu_view cpu_view_drop(const cpu_view *v, int axis);   /* an axis of extent 1 */
cpu_view cpu_view_insert(const cpu_view *v, int axis); /* an axis of extent 1 */
/* Strides of `v` as seen from a shape that it broadcasts to: 0 where it repeats. */
void cpu_view_spread(const cpu_view *v, int rank, const int64_t *dim, int64_t *stride);
cpu_plan_ref cpu_view_ref(const cpu_view *v);
int cpu_plan_dtype_bytes(mil_dtype dtype);

/* ---- planning ----------------------------------------------------------------------------------------------------------- */

typedef struct planner planner;

/* What ops.def's CPU column names. Exactly one way runs an operation. */
typedef struct cpu_plan_binding {
    /* Elementwise, reductions, softmax: may become part of a tile program. */
    bool (*tile)(const mil_op *op);
    /* No work, only another view of its operand; false: needs a dense copy of the operand first. */
    bool (*view)(const mil_op *op, int result, const cpu_view *source, cpu_view *out);
    /* Where the operand must lie so that result 0 lies in `target`; NULL: cannot be turned round. */
    bool (*unview)(const mil_op *op, const cpu_view *target, cpu_view *out);
    /* Adds the steps. */
    propane_status (*emit)(planner *p, const mil_op *op, propane_error *err);
    /* Whether emit takes this very operation; NULL: always. A no goes to the reference. */
    bool (*takes)(const mil_op *op);
    /* Writes the operation out in simpler ones, in front of itself, and replaces its uses. */
    propane_status (*lower)(mil_builder *b, mil_op *op, propane_error *err);
} cpu_plan_binding;

const cpu_plan_binding *cpu_plan_binding_of(const mil_op *op);
const cpu_plan_binding *cpu_plan_lowering_of(const mil_op *op); /* NULL: is not written out */
int cpu_plan_code_of(const mil_op *op);                         /* the second half of the CPU column */

typedef enum cpu_plan_node_kind {
    CPU_PLAN_NODE_OP,
    CPU_PLAN_NODE_TILE,
    CPU_PLAN_NODE_GEMM,
    CPU_PLAN_NODE_ATTENTION,
    CPU_PLAN_NODE_LAYER,
    CPU_PLAN_NODE_ABSORBED
} cpu_plan_node_kind;

typedef struct cpu_plan_node {
    cpu_plan_node_kind kind;
    int op_count;
    mil_op **ops;         /* in the function's order */
    int last;             /* index of the last one: keeps the order of the text where nothing else decides */
    mil_type shape;       /* tile: the iteration space */
    unsigned axes;        /* tile: bit per reduced axis */
    bool dead;            /* merged into another one */
    const mil_op *folded; /* gemm: the reduce_sum over the batch behind the product; NULL: none */
    const mil_op *added;  /* gemm: the sum behind it; NULL: none */
    const mil_op
        *squares; /* gemm: the sum of the squares of all that it makes, which it makes, too; NULL: not asked for */
    const struct cpu_plan_attention *attention;
    const struct cpu_plan_layer *layer; /* fuse_conv.h */
} cpu_plan_node;

/* What fuse_attention.c found: the operations whose operands and results attention has. */
typedef struct cpu_plan_attention {
    bool causal;
    double scale;
    const mil_op *scores; /* Q K' */
    const mil_op *mix;    /* P V; NULL: it is the backward pass, which has these: */
    const mil_op *d_probs, *d_values, *d_query, *d_keys;
    int64_t period;        /* rows of a head */
    const mil_value *mask; /* an input [.., period, keys] that is added to the scores; NULL: the mask is a constant */
} cpu_plan_attention;

/* A line of a product that only picks lines: which one, and 1 or -1 (lower_permutation.c). */
typedef struct cpu_plan_pick {
    int32_t line;
    float sign;
} cpu_plan_pick;

struct planner {
    arena *arena; /* the program's */
    arena *work;  /* the planner's: gone after planning */
    mil_module *module;
    mil_function *f;
    cpu_plan_options options;
    int threads; /* scratch for that many */

    int op_count;
    mil_op **ops;   /* without constants */
    int *op_of;     /* by value id: index of the operation that makes it; -1: parameter or constant */
    int *uses;      /* by value id: operands and results that name it */
    bool *absorbed; /* by value id: a cast that only products read, which convert by themselves */
    /* By value id, for rows i of the last dimension but one: zeros: element j is 0 for j > i % zeros; unasked: nobody
     * reads it there. 0: not known to be so. Both from causal masks (fuse_causal_band.c). */
    int64_t *zeros, *unasked;
    struct cpu_plan_weights *weights; /* by value id: what a product reads in its place (fuse_quantized_weights.c) */

    int node_count;
    cpu_plan_node *nodes;
    int *node_of; /* by op index */
    int *order;   /* nodes in the order of execution */
    int order_count;

    cpu_view *views;  /* by value id; buffer -1 until it has one */
    cpu_view *placed; /* by value id: where it must be computed */
    bool *is_placed;

    cpu_plan_buffer *buffers;
    int buffer_count, buffer_capacity;
    cpu_plan_step *steps;
    int step_count, step_capacity;
    struct cpu_plan_pair *pairs; /* an output that may take over an input's memory */
    int pair_count, pair_capacity;

    cpu_program *program;
    void *last_product;    /* the arguments of the step that is one (emit_matmul.c); NULL: none yet */
    const mil_op *current; /* for names of steps and messages */
};

/* Weights as they are stored; data NULL: not recognised. */
typedef struct cpu_plan_weights {
    const mil_value *data, *scales; /* scales NULL: none */
    int format;                     /* cpu_weights (gemv.h) */
} cpu_plan_weights;

typedef struct cpu_plan_pair {
    int step, from, to; /* buffers */
} cpu_plan_pair;

/* A new buffer; -1: no memory. */
int cpu_plan_buffer_add(planner *p, cpu_plan_place place, int64_t bytes);
/* The memory that the next step needs besides its operands. */
PROPANE_CHECK propane_status cpu_plan_scratch(planner *p, int64_t bytes, cpu_plan_ref *out, propane_error *err);
/* Where the operand lies; constants come to the program's memory. */
PROPANE_CHECK propane_status cpu_plan_operand(planner *p, const mil_value *v, cpu_view *out, propane_error *err);
/* Where a result shall be written: its place, or a new dense buffer. */
PROPANE_CHECK propane_status cpu_plan_result(planner *p, const mil_value *v, cpu_view *out, propane_error *err);
/* Also where a kernel that writes densely shall write: there, or, if `out` is not dense, into memory of its own that the
 * caller copies from. */
PROPANE_CHECK propane_status cpu_plan_result_dense(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                                   propane_error *err);
/* Adds a step; the buffers that it touches are told by cpu_plan_touch before or after, with the step's own number:
 * cpu_plan_touch counts for the step that is added next. */
void cpu_plan_touch(planner *p, int buffer);
PROPANE_CHECK propane_status cpu_plan_emit(planner *p, cpu_plan_step_run run, const void *args, const char *kind,
                                           const mil_value *makes, double flops, double bytes, propane_error *err);
/* Tells that the next step may write `to` over `from` (same layout, element on element). */
PROPANE_CHECK propane_status cpu_plan_may_share(planner *p, const cpu_view *from, const cpu_view *to,
                                                propane_error *err);
/* Copies elements (with conversion where the types differ). */
PROPANE_CHECK propane_status cpu_plan_copy(planner *p, const mil_value *makes, const cpu_view *from, const cpu_view *to,
                                           propane_error *err);
/* `v` dense: itself if it is, else a copy in new memory. */
PROPANE_CHECK propane_status cpu_plan_make_dense(planner *p, const mil_value *makes, const cpu_view *v, cpu_view *out,
                                                 propane_error *err);
propane_status cpu_plan_no_memory(planner *p, propane_error *err);

/* The stages, each in its own file. */
PROPANE_CHECK propane_status cpu_plan_lower(mil_function *f, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_push_picks(mil_function *f, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_causal(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_fuse(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_find_attention(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_find_layers(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_place_channels(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_emit_layer(planner *p, const cpu_plan_node *node, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_emit_attention(planner *p, const cpu_plan_node *node, propane_error *err);
/* The same behind a mask that is an input; `scores_first`: in the mix. */
PROPANE_CHECK propane_status cpu_plan_emit_masked(planner *p, const cpu_plan_node *node, bool scores_first,
                                                  propane_error *err);
PROPANE_CHECK propane_status cpu_plan_take_weights(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_place_values(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_memory(planner *p, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_emit_tile(planner *p, const cpu_plan_node *node, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_emit_gemm(planner *p, const cpu_plan_node *node, propane_error *err);
PROPANE_CHECK propane_status cpu_plan_emit_reference(planner *p, const mil_op *op, propane_error *err);
bool cpu_plan_is_product(const mil_op *op);
/* A product with a constant that picks lines of the other operand: elementwise, but its operand lies outside of its node. */
bool cpu_plan_picks_lines(const mil_op *op);
bool cpu_plan_node_picks(const cpu_plan_node *n);
const cpu_plan_pick *cpu_plan_read_picks(arena *a, const mil_op *op); /* one for each line; NULL: no memory */
bool cpu_plan_is_row_softmax(const mil_op *op);
/* Rows of the causal mask that the sum adds; 0: it adds none. `exact`: what it adds where it does not mask is 0. */
int64_t cpu_plan_adds_mask(const mil_op *op, bool exact);
/* identity, reshape, expand_dims, squeeze: the same elements in the same order. */
bool cpu_plan_keeps_order(const mil_op *op);
/* Elements of a reduction that one tile can hold when what follows needs all of them at once. */
bool cpu_plan_tile_fits(const mil_type *shape, unsigned axes);
/* Elementwise rows of element types that tiles do not have (emit_elementwise_f64.c). */
bool cpu_plan_takes_scalar(const mil_op *op);
/* Bit per axis of a reduction or softmax; 0: elementwise. */
unsigned cpu_plan_tile_axes(const mil_op *op);

extern const cpu_plan_binding cpu_bind_none, cpu_bind_fold, cpu_bind_reference, cpu_bind_map, cpu_bind_select,
    cpu_bind_gelu, cpu_bind_cast, cpu_bind_reduce, cpu_bind_softmax, cpu_bind_view, cpu_bind_concat, cpu_bind_copy,
    cpu_bind_gather, cpu_bind_matmul, cpu_bind_pick, cpu_bind_linear, cpu_bind_conv, cpu_bind_lower_layer_norm,
    cpu_bind_lower_batch_norm, cpu_bind_lower_instance_norm, cpu_bind_lower_l2_norm, cpu_bind_lower_sdpa,
    cpu_bind_lower_activation, cpu_bind_lower_layout, cpu_bind_lower_transposed, cpu_bind_pool, cpu_bind_resize,
    cpu_bind_recurrent, cpu_bind_update, cpu_bind_rows, cpu_bind_scatter, cpu_bind_along, cpu_bind_sort,
    cpu_bind_scalar, cpu_bind_sample, cpu_bind_nms, cpu_bind_spread, cpu_bind_windows, cpu_bind_response, cpu_bind_draw,
    cpu_bind_lower_einsum, cpu_bind_lower_quantized, cpu_bind_control, cpu_bind_list;

/* How a reduction row combines its elements. */
typedef enum cpu_plan_fold {
    CPU_FOLD_sum,
    CPU_FOLD_mean,
    CPU_FOLD_max,
    CPU_FOLD_min,
    CPU_FOLD_prod,
    CPU_FOLD_l1,
    CPU_FOLD_l2,
    CPU_FOLD_sum_square,
    CPU_FOLD_log_sum,
    CPU_FOLD_log_sum_exp
} cpu_plan_fold;

#endif
