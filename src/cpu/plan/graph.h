/* SPDX-License-Identifier: MIT
 * The graph of a function: its operations, the maker and readers of each value, and the nodes that they are grouped in.
 * A node becomes one step (or a few). Fusions (fuse/) merge nodes and say what a node is; emitters (ops/) read that.
 *
 * Lives in the planner's work arena. Knows nothing of memory, steps or kernels.
 */
#ifndef CPU_PLAN_GRAPH_H
#define CPU_PLAN_GRAPH_H

#include "core/base/arena.h"
#include "core/mil/mil.h"
#include "cpu/plan/options.h"

/* ---- what a node is ---------------------------------------------------------------------------------------------- */

typedef enum cpu_node_kind {
    CPU_NODE_OP,         /* one operation, through its family's row */
    CPU_NODE_TILE,       /* elementwise operations, reductions and softmax of one iteration space */
    CPU_NODE_GEMM,       /* a product with what is done to its result */
    CPU_NODE_ATTENTION,  /* forward, or backward */
    CPU_NODE_FUSED_CONV, /* a convolution or linear layer with constant weights, or several */
    CPU_NODE_ABSORBED    /* what its readers do by themselves */
} cpu_node_kind;

/* The operations whose operands and results attention has (fuse/fuse_attention.c). */
typedef struct cpu_fused_attention {
    bool causal;
    double scale;
    const mil_op *scores; /* Q K' */
    const mil_op *mix;    /* P V; NULL: it is the backward pass, which has these: */
    const mil_op *d_probs, *d_values, *d_query, *d_keys;
    int64_t period;        /* rows of a head */
    const mil_value *mask; /* an input [.., period, keys] that is added to the scores; NULL: the mask is a constant */
} cpu_fused_attention;

/* A layer and what is done to its results before they are stored (fuse/fuse_conv.c): see cpu_conv_finish; then
 * `map`. */
typedef struct cpu_fused_conv {
    const mil_op *op;        /* conv or linear */
    const mil_value *x;      /* what it reads, */
    const mil_value *gate;   /* times this, a factor for each channel of it, [N or 1, C, 1, 1]; NULL: nothing */
    const mil_value *other;  /* added to it; NULL: nothing */
    const mil_value *result; /* of the last operation */
    bool depthwise, swish;
    int map; /* cpu_elementwise_code; -1: none */
    double least, p, q, low, high;
    /* A depthwise layer that is a step together with others (fuse_bottleneck.c): the convolution that makes x (NULL:
     * alone), the 1x1 convolution of its results and their mean over lines and columns (NULL: not wanted). */
    const struct cpu_fused_conv *first, *last;
    const mil_value *mean;
} cpu_fused_conv;

/* What a product reads in an operand's place: weights as they are stored (fuse/fuse_quantized_weights.c). */
typedef struct cpu_stored_weights {
    const mil_value *data, *scales; /* data NULL: not recognised; scales NULL: none */
    int format;                     /* cpu_weights (gemv.h) */
} cpu_stored_weights;

typedef struct cpu_node {
    cpu_node_kind kind;
    int op_count;
    mil_op **ops;          /* in the function's order */
    int first, last;       /* indices: the last one's keeps the order of the text where nothing else decides */
    mil_type shape;        /* tile: the iteration space */
    unsigned axes;         /* tile: bit per reduced axis */
    const mil_op *folded;  /* gemm: the reduce_sum over the batch after the product; NULL: none */
    const mil_op *added;   /* gemm: the sum after it; NULL: none */
    const mil_op *squares; /* gemm: the sum of the squares of all that it makes, which it makes, too; NULL: none */
    const cpu_fused_attention *attention;
    const cpu_fused_conv *conv;
} cpu_node;

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct cpu_graph {
    arena *work;
    cpu_plan_options options;
    int threads; /* of the pool */
    mil_function *f;

    int op_count;
    mil_op **ops; /* without constants, in the function's order */
    int *op_of;   /* by value id: index of the operation that makes it; -1: parameter or constant */
    int *uses;    /* by value id: operands and results that name it */
    /* indices of the operations that read a value, in order, once for each operand; those of value id lie */
    int *readers;
    int *read_from;              /* at [read_from[id], read_from[id + 1]) */
    bool *absorbed;              /* by value id: a cast that only products read, which convert by themselves */
    cpu_stored_weights *weights; /* by value id */

    int node_count;
    cpu_node *nodes;
    int *node_of; /* by op index */
    int *order;   /* nodes in the order of execution */
    int order_count;
    int *fired;                           /* by rule of fuse/fuse.c: how often */
    int *across;                          /* [op index]: nodes with operations in front of it and from it on */
    int *stack, *seen, *value_seen, mark; /* of searches: nodes to visit; the last search that saw a node, a value */
} cpu_graph;

/* Lists the operations that results depend on, and makes each a node. */
PROPANE_CHECK propane_status cpu_graph_build(cpu_graph *g, propane_error *err);
/* Operands before readers, otherwise as in the text. */
PROPANE_CHECK propane_status cpu_graph_sort(cpu_graph *g, propane_error *err);

static inline int cpu_graph_index(const cpu_graph *g, const mil_op *op) { return g->op_of[op->results[0]->id]; }
/* The operation that makes the value; -1: parameter or constant. */
static inline int cpu_graph_maker(const cpu_graph *g, const mil_value *v) { return v->constant ? -1 : g->op_of[v->id]; }
static inline cpu_node *cpu_graph_node(const cpu_graph *g, const mil_op *op) {
    return &g->nodes[g->node_of[cpu_graph_index(g, op)]];
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* Indices of the operations that read the value, in order; one that reads it twice appears twice. */
static inline int cpu_graph_reads(const cpu_graph *g, const mil_value *v, const int **readers) {
    *readers = g->readers + g->read_from[v->id];
    return g->read_from[v->id + 1] - g->read_from[v->id];
}
/* Up to `most` operations that read the value, each once; -1: more, or it is a result of the function. */
int cpu_graph_readers(const cpu_graph *g, const mil_value *v, const mil_op **out, int most);
/* The only use of the value; NULL: there are several, or it is a result of the function. */
const mil_op *cpu_graph_only_reader(const cpu_graph *g, const mil_value *v);
/* An elementwise operation or a reduction that is not part of something yet. */
bool cpu_graph_is_free(const cpu_graph *g, const mil_op *op);
/* Whether it takes signed rows: elementwise, but the operand lies outside of its node. */
bool cpu_graph_takes_rows(const cpu_node *n);

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Whether a node outside lies on a way from one of the operations' nodes to another: they cannot be one step then. */
bool cpu_graph_is_between(cpu_graph *g, const mil_op *const *ops, int count);
/* Makes the nodes of the operations one, that of the first, and returns it; what it is, is for the caller to say. NULL:
 * no memory. */
cpu_node *cpu_graph_merge(cpu_graph *g, const mil_op *const *ops, int count);

#endif
