/* SPDX-License-Identifier: MIT
 * The graph of a function: its operations, the maker and readers of each value, and the nodes into which they are
 * grouped. A node becomes one step (or a few). Fusions (fuse/) merge nodes and set their kind, which emitters (ops/)
 * read.
 *
 * The graph is allocated in the planner's work arena. It contains nothing about memory or steps.
 */
#ifndef CPU_PLAN_GRAPH_H
#define CPU_PLAN_GRAPH_H

#include "core/base/arena.h"
#include "core/mil/mil.h"
#include "cpu/plan/options.h"

/* ---- kinds of nodes ---------------------------------------------------------------------------------------------- */

typedef enum cpu_node_kind {
    CPU_NODE_OP,         /* one operation, emitted through its family's row */
    CPU_NODE_TILE,       /* elementwise operations, reductions and softmaxes over one iteration space */
    CPU_NODE_GEMM,       /* a matrix product and the operations on its result */
    CPU_NODE_ATTENTION,  /* forward, or backward */
    CPU_NODE_FUSED_CONV, /* a convolution or linear layer with constant weights, or several */
    CPU_NODE_ABSORBED    /* computed by its readers instead */
} cpu_node_kind;

/* The operations whose operands and results belong to attention (fuse/fuse_attention.c). */
typedef struct cpu_fused_attention {
    bool causal;
    double scale;
    const mil_op *scores; /* Q K' */
    const mil_op *mix;    /* P V; NULL in the backward pass, which has the next four instead */
    const mil_op *d_probs, *d_values, *d_query, *d_keys;
    int64_t period;        /* rows per head */
    const mil_value *mask; /* an input [.., period, keys] that is added to the scores; NULL if the mask is a constant */
} cpu_fused_attention;

/* A layer and what is done to its results before they are stored (fuse/fuse_conv.c). cpu_conv_finish describes the
 * order; `map` is applied last. */
typedef struct cpu_fused_conv {
    const mil_op *op;        /* conv or linear */
    const mil_value *x;      /* the operand */
    const mil_value *gate;   /* a factor of x per channel, [N or 1, C, 1, 1]; NULL if there is none */
    const mil_value *other;  /* added to the result; NULL if there is none */
    const mil_value *result; /* result of the last operation */
    bool depthwise, swish;
    int map; /* cpu_elementwise_code; -1 if there is none */
    double least, p, q, low, high;
    /* For a depthwise layer that forms one step with other layers (fuse_bottleneck.c). `first` is the convolution that
     * makes x, `last` the 1x1 convolution of the results, and `mean` the mean of the results over lines and columns.
     * Each is NULL if there is none. */
    const struct cpu_fused_conv *first, *last;
    const mil_value *mean;
} cpu_fused_conv;

/* Weights in their stored form, which a matrix product reads instead of an operand (fuse/fuse_quantized_weights.c). */
typedef struct cpu_stored_weights {
    /* data is NULL if the operand was not recognized; scales is NULL if there are none. */
    const mil_value *data, *scales;
    int format; /* cpu_weights (simd/gemv_ukernel.h) */
} cpu_stored_weights;

typedef struct cpu_node {
    cpu_node_kind kind;
    int op_count;
    mil_op **ops; /* in the function's order */
    /* Indices of the first and last operation; `last` preserves the order of the text where nothing else decides. */
    int first, last;
    mil_type shape;       /* tile: the iteration space */
    unsigned axes;        /* tile: one bit per reduced axis */
    const mil_op *folded; /* gemm: the reduce_sum over the batch after the product; NULL if there is none */
    const mil_op *added;  /* gemm: the addition after the product; NULL if there is none */
    /* gemm: the sum of the squares of the whole result, which the node also computes; NULL if there is none. */
    const mil_op *squares;
    const cpu_fused_attention *attention;
    const cpu_fused_conv *conv;
} cpu_node;

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct cpu_graph {
    arena *work;
    cpu_plan_options options;
    int threads; /* in the pool */
    mil_function *f;

    int op_count;
    mil_op **ops; /* without constants, in the function's order */
    int *op_of;   /* by value id: index of the operation that makes it; -1 for a parameter or constant */
    int *uses;    /* by value id: how many operands and results name it */
    /* Indices of the operations that read each value, in order, once per operand that reads it. */
    int *readers;
    int *read_from; /* by value id: its readers are at [read_from[id], read_from[id + 1]) */
    bool *absorbed; /* by value id: a cast that only matrix products read; they convert the operand themselves */
    cpu_stored_weights *weights; /* by value id */

    int node_count;
    cpu_node *nodes;
    int *node_of; /* by op index */
    int *order;   /* nodes in the order of execution */
    int order_count;
    int *fired;  /* by rule of fuse/fuse.c: how often it was applied */
    int *across; /* by op index: number of nodes that have operations both before this one and at or after it */
    int *stack, *seen, *value_seen, mark; /* for searches: nodes to visit; the last search that saw a node, a value */
} cpu_graph;

/* Lists the operations that results depend on, and makes a node for each. */
PROPANE_CHECK propane_status cpu_graph_build(cpu_graph *g, propane_error *err);
/* Puts the nodes in the order of execution, with operands before readers and otherwise in the order of the text. */
PROPANE_CHECK propane_status cpu_graph_sort(cpu_graph *g, propane_error *err);

static inline int cpu_graph_index(const cpu_graph *g, const mil_op *op) { return g->op_of[op->results[0]->id]; }
/* Returns the index of the operation that makes the value; -1 for a parameter or constant. */
static inline int cpu_graph_maker(const cpu_graph *g, const mil_value *v) { return v->constant ? -1 : g->op_of[v->id]; }
static inline cpu_node *cpu_graph_node(const cpu_graph *g, const mil_op *op) {
    return &g->nodes[g->node_of[cpu_graph_index(g, op)]];
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* Sets *readers to the indices of the operations that read the value, in order, and returns their number. An operation
 * that reads the value twice appears twice. */
static inline int cpu_graph_reads(const cpu_graph *g, const mil_value *v, const int **readers) {
    *readers = g->readers + g->read_from[v->id];
    return g->read_from[v->id + 1] - g->read_from[v->id];
}
/* Lists the operations that read the value, each once, and returns their number. Returns -1 if there are more than
 * `most`, or if the value is a result of the function. */
int cpu_graph_readers(const cpu_graph *g, const mil_value *v, const mil_op **out, int most);
/* Returns the reader of the value if that is its only use; NULL if there are other uses, or if the value is a result of
 * the function. */
const mil_op *cpu_graph_only_reader(const cpu_graph *g, const mil_value *v);
/* True for an operation of a fused loop that has not been merged with others yet. */
bool cpu_graph_is_free(const cpu_graph *g, const mil_op *op);
/* Returns true if an operation of the node picks signed rows (cpu_signed_rows_is). */
bool cpu_graph_takes_rows(const cpu_node *n);

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Returns true if another node is on a path between the nodes of two of the operations. They cannot form one step
 * then. */
bool cpu_graph_is_between(cpu_graph *g, const mil_op *const *ops, int count);
/* Merges the nodes of the operations into the node of the first operation, and returns that node. The caller sets its
 * kind. Returns NULL if memory runs out. */
cpu_node *cpu_graph_merge(cpu_graph *g, const mil_op *const *ops, int count);

#endif
