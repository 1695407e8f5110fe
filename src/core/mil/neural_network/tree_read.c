/* SPDX-License-Identifier: MIT
 * Owns tree ensembles as programs: decision trees, random forests and boosted trees. One idea: all trees advance
 * together, step by step. The nodes of all trees are rows of tables. Each step looks up the feature and the threshold
 * of every tree's current node and moves to the next node; a leaf leads to itself. At the end the rows of the leaves
 * are added.
 *
 * Every comparison becomes x <= threshold. Depending on the comparison, the threshold is the largest fp32 number that
 * is at most the file's double, or less than it. Each fp32 input thus takes the same branches as with the file's
 * doubles. Refuses nodes that do not form trees.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/neural_network/tabular.h"

enum { ENSEMBLE_NODES = 1, ENSEMBLE_DIMENSIONS, ENSEMBLE_BASE };
enum {
    NODE_TREE = 1,
    NODE_ID,
    NODE_BEHAVIOUR,
    NODE_FEATURE = 10,
    NODE_VALUE,
    NODE_YES,
    NODE_NO,
    NODE_MISSING,
    NODE_INFO = 20
};
enum { LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL, NOT_EQUAL, LEAF };
enum { MOST_DEPTH = 1000, MOST_DIMENSIONS = 4096, MOST_NODES = 1 << 24, MOST_VALUES = 1 << 25 };

typedef struct tree_node {
    int64_t tree, id, yes, no; /* yes and no are ids, and rows once linked */
    int64_t feature;
    double value;
    int behaviour, depth;
    bool missing_yes, has_parent, reached;
    wire_view message;
} tree_node;

typedef struct tree_ensemble {
    tabular *t;
    tree_node *nodes;
    int64_t count, features, dimensions;
    int64_t *roots, trees;
    int depth;
    /* The tables. Equality needs a second row, after the rows of the nodes. */
    int64_t rows;
    int32_t *feature, *yes, *no;
    double *threshold, *missing, *values; /* missing: 1 if a missing value leads to `yes`; values [rows, dimensions] */
    bool misses;
} tree_ensemble;

/* ---- nodes --------------------------------------------------------------------------------------------------------- */

static int tree_order(const void *a, const void *b) {
    const tree_node *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void tree_read_nodes(tree_ensemble *e, wire_view body) {
    int64_t n = 0;
    for (wire_view message; n < e->count && wire_each(&body, ENSEMBLE_NODES, &message);) {
        tree_node *node = &e->nodes[n++];
        *node = (tree_node){.tree = wire_whole(message, NODE_TREE, 0),
                            .id = wire_whole(message, NODE_ID, 0),
                            .yes = wire_whole(message, NODE_YES, 0),
                            .no = wire_whole(message, NODE_NO, 0),
                            .feature = wire_whole(message, NODE_FEATURE, 0),
                            .value = wire_real(message, NODE_VALUE, 0),
                            .missing_yes = wire_whole(message, NODE_MISSING, 0) != 0,
                            .message = message};
        const int64_t behaviour = wire_whole(message, NODE_BEHAVIOUR, 0);
        node->behaviour = behaviour < 0 || behaviour > LEAF ? LEAF + 1 : (int)behaviour;
    }
    qsort(e->nodes, (size_t)e->count, sizeof *e->nodes, tree_order);
}

/* Replaces the id of a child by the child's row. */
static bool tree_child(tree_ensemble *e, const tree_node *of, int64_t *id) {
    const tree_node sought = {.tree = of->tree, .id = *id};
    tree_node *child = bsearch(&sought, e->nodes, (size_t)e->count, sizeof sought, tree_order);
    if (!child || child->has_parent) {
        tabular_fail(e->t, "node %lld of tree %lld leads to node %lld, %s", (long long)of->id, (long long)of->tree,
                     (long long)*id, child ? "as another does" : "which does not exist");
        return false;
    }
    child->has_parent = true;
    *id = child - e->nodes;
    return true;
}

static bool tree_check(tree_ensemble *e, const tree_node *node) {
    if (node > e->nodes && tree_order(node - 1, node) == 0)
        tabular_fail(e->t, "two nodes are numbered %lld in tree %lld", (long long)node->id, (long long)node->tree);
    else if (node->behaviour > LEAF)
        tabular_fail(e->t, "node %lld of tree %lld has an unknown behaviour", (long long)node->id,
                     (long long)node->tree);
    else if (node->behaviour != LEAF && (node->feature < 0 || node->feature >= e->features))
        tabular_fail(e->t, "node %lld of tree %lld reads element %lld of the input, which has %lld elements",
                     (long long)node->id, (long long)node->tree, (long long)node->feature, (long long)e->features);
    else if (isnan(node->value))
        tabular_fail(e->t, "node %lld of tree %lld compares with a value that is not a number", (long long)node->id,
                     (long long)node->tree);
    return !e->t->b.err.status;
}

/* Links the nodes and measures the longest path from a root to a leaf. No node has two parents, so nodes that no root
 * reaches form a cycle. */
static void tree_link(tree_ensemble *e) {
    int64_t *queue = mem_array((size_t)e->count + 1, sizeof *queue), begin = 0, end = 0;
    if (!queue) (void)!propane_fail_memory(&e->t->b.err, (size_t)e->count * sizeof *queue);
    for (int64_t i = 0; i < e->count && queue; i++) {
        tree_node *node = &e->nodes[i];
        if (!tree_check(e, node)) break;
        if (node->behaviour == LEAF) continue;
        if (!tree_child(e, node, &node->yes) || !tree_child(e, node, &node->no)) break;
    }
    for (int64_t i = 0; i < e->count && queue && !e->t->b.err.status; i++)
        if (!e->nodes[i].has_parent) queue[end++] = e->roots[e->trees++] = i;
    while (begin < end && !e->t->b.err.status) {
        const tree_node *node = &e->nodes[queue[begin++]];
        if (node->depth > e->depth) e->depth = node->depth;
        if (node->behaviour == LEAF) continue;
        e->nodes[node->yes].depth = e->nodes[node->no].depth = node->depth + 1;
        queue[end++] = node->yes;
        queue[end++] = node->no;
    }
    if (end < e->count) tabular_fail(e->t, "some of its nodes form a cycle without a leaf");
    for (int64_t i = 1; i < e->trees; i++)
        if (e->nodes[e->roots[i]].tree == e->nodes[e->roots[i - 1]].tree)
            tabular_fail(e->t, "tree %lld has two roots", (long long)e->nodes[e->roots[i]].tree);
    if (e->depth > MOST_DEPTH) tabular_fail(e->t, "a tree of more than %d levels", MOST_DEPTH);
    mem_free(queue);
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */

/* Returns the largest fp32 number that is at most `value`. */
static double tree_at_most(double value) {
    if (value >= FLT_MAX) return isinf(value) ? value : FLT_MAX;
    if (value < -FLT_MAX) return -INFINITY;
    const float near = (float)value;
    return (double)near > value ? (double)nextafterf(near, -INFINITY) : (double)near;
}

/* Returns the largest fp32 number that is less than `value`. */
static double tree_below(double value) {
    const double most = tree_at_most(value);
    return most < value ? most : (double)nextafterf((float)most, -INFINITY);
}

static void tree_put(tree_ensemble *e, int64_t row, const tree_node *node, double threshold, int64_t yes, int64_t no,
                     bool missing_yes) {
    e->feature[row] = (int32_t)node->feature;
    e->threshold[row] = threshold;
    e->yes[row] = (int32_t)yes;
    e->no[row] = (int32_t)no;
    e->missing[row] = missing_yes;
    e->misses |= missing_yes;
}

/* Writes a branch in the form x <= threshold. */
static void tree_put_branch(tree_ensemble *e, int64_t row) {
    const tree_node *node = &e->nodes[row];
    const double most = tree_at_most(node->value), below = tree_below(node->value);
    const bool turned = node->behaviour == NOT_EQUAL, missing = node->missing_yes;
    const int64_t same = turned ? node->no : node->yes, other = turned ? node->yes : node->no;
    switch (node->behaviour) {
    case LESS_EQUAL: tree_put(e, row, node, most, node->yes, node->no, missing); break;
    case LESS: tree_put(e, row, node, below, node->yes, node->no, missing); break;
    case GREATER_EQUAL: tree_put(e, row, node, below, node->no, node->yes, !missing); break;
    case GREATER: tree_put(e, row, node, most, node->no, node->yes, !missing); break;
    default: /* neither above nor below */
        tree_put(e, row, node, most, e->rows, other, missing != turned);
        tree_put(e, e->rows++, node, below, other, same, false);
    }
}

static void tree_put_leaf(tree_ensemble *e, int64_t row) {
    const tree_node *node = &e->nodes[row];
    wire_view rest = node->message;
    tree_put(e, row, node, 0, row, row, false);
    e->feature[row] = 0;
    for (wire_view info; wire_each(&rest, NODE_INFO, &info);) {
        const int64_t at = wire_whole(info, 1, 0);
        if (at < 0 || at >= e->dimensions)
            tabular_fail(e->t, "a leaf of tree %lld sets prediction %lld, but there are %lld", (long long)node->tree,
                         (long long)at, (long long)e->dimensions);
        else
            e->values[row * e->dimensions + at] += wire_real(info, 2, 0);
    }
}

static bool tree_fill(tree_ensemble *e) {
    int64_t most = e->count;
    for (int64_t i = 0; i < e->count; i++) most += e->nodes[i].behaviour == EQUAL || e->nodes[i].behaviour == NOT_EQUAL;
    e->rows = e->count;
    e->feature = mem_array((size_t)most, sizeof *e->feature);
    e->yes = mem_array((size_t)most, sizeof *e->yes);
    e->no = mem_array((size_t)most, sizeof *e->no);
    e->threshold = mem_array((size_t)most, sizeof *e->threshold);
    e->missing = mem_array((size_t)most, sizeof *e->missing);
    e->values = mem_array((size_t)most * (size_t)e->dimensions, sizeof *e->values);
    if (!e->feature || !e->yes || !e->no || !e->threshold || !e->missing || !e->values)
        (void)!propane_fail_memory(&e->t->b.err, (size_t)most * (size_t)e->dimensions * sizeof *e->values);
    for (int64_t i = 0; i < e->count && !e->t->b.err.status; i++)
        e->nodes[i].behaviour == LEAF ? tree_put_leaf(e, i) : tree_put_branch(e, i);
    for (int64_t i = 0; i < e->count; i++) /* two rows need two steps */
        if (most > e->count && e->nodes[i].behaviour != LEAF) return e->depth *= 2, !e->t->b.err.status;
    return !e->t->b.err.status;
}

/* ---- the program --------------------------------------------------------------------------------------------------- */

static mil_value *tree_look_up(tree_ensemble *e, mil_value *table, mil_value *at) {
    return DO(e->t, gather, IN("x", table), IN("indices", at), IN("axis", mil_build_int(&e->t->b, 0)));
}

static mil_value *tree_whole_table(tree_ensemble *e, const char *name, const int32_t *data, int64_t count) {
    const mil_type type = mil_type_tensor(MIL_int32, 1, &count);
    return mil_build_const(&e->t->b, name, &type, data);
}

static mil_value *tree_start(tree_ensemble *e) {
    int32_t *roots = mem_array((size_t)e->trees, sizeof *roots);
    if (!roots) (void)!propane_fail_memory(&e->t->b.err, (size_t)e->trees * sizeof *roots);
    for (int64_t i = 0; i < e->trees && roots; i++) roots[i] = (int32_t)e->roots[i];
    mil_value *v = roots ? tree_whole_table(e, "roots", roots, e->trees) : NULL;
    mem_free(roots);
    return v;
}

/* Returns the row of the leaf that each tree reaches. */
static mil_value *tree_walk(tree_ensemble *e, mil_value *x) {
    tabular *t = e->t;
    mil_value *at = tree_start(e), *feature = tree_whole_table(e, "feature", e->feature, e->rows),
              *yes = tree_whole_table(e, "yes", e->yes, e->rows), *no = tree_whole_table(e, "no", e->no, e->rows),
              *threshold = tabular_list(t, "threshold", e->threshold, e->rows),
              *missing = e->misses ? tabular_list(t, "missing", e->missing, e->rows) : NULL;
    for (int step = 0; step < e->depth && !t->b.err.status; step++) {
        mil_value *value = tree_look_up(e, x, tree_look_up(e, feature, at));
        mil_value *goes = DO(t, less_equal, IN("x", value), IN("y", tree_look_up(e, threshold, at)));
        if (missing) {
            mil_value *none = DO(t, not_equal, IN("x", value), IN("y", value)),
                      *way = DO(t, greater, IN("x", tree_look_up(e, missing, at)), IN("y", tabular_real(t, 0.5)));
            goes = DO(t, logical_or, IN("x", goes), IN("y", DO(t, logical_and, IN("x", none), IN("y", way))));
        }
        at = DO(t, select, IN("cond", goes), IN("a", tree_look_up(e, yes, at)), IN("b", tree_look_up(e, no, at)));
    }
    return at;
}

/* Returns the sum of the leaves and the model's base values, [dimensions]. */
static mil_value *tree_sum(tree_ensemble *e, wire_view body, mil_value *leaves) {
    tabular *t = e->t;
    const mil_type type = mil_type_tensor(MIL_fp32, 2, (int64_t[]){e->rows, e->dimensions});
    double *base = mem_array((size_t)e->dimensions, sizeof *base);
    if (!base) (void)!propane_fail_memory(&t->b.err, 0);
    if (!base || t->b.err.status) {
        mem_free(base);
        return NULL;
    }
    const int64_t given = wire_doubles(body, ENSEMBLE_BASE, base, e->dimensions);
    if (given && given != e->dimensions)
        tabular_fail(t, "%lld initial predictions were given, but there are %lld predictions", (long long)given,
                     (long long)e->dimensions);
    mil_value *rows = tree_look_up(e, mil_build_const_f64(&t->b, "leaves", &type, e->values), leaves);
    mil_value *sum = rows ? mil_build_reduce(&t->b, MIL_OP_reduce_sum, rows, (int64_t[]){0}, 1, false) : NULL;
    sum = DO(t, add, IN("x", sum), IN("y", tabular_list(t, "base", base, e->dimensions)));
    mem_free(base);
    return sum;
}

/* Evaluates the ensemble in field 1 of the model. Returns the predictions, [dimensions]. */
static mil_value *tree_predict(tabular *t, mil_value *x) {
    tree_ensemble e = {.t = t, .features = tabular_count(x)};
    wire_view body;
    mil_value *y = NULL;
    (void)wire_part(t->body, 1, &body);
    e.count = wire_count(body, ENSEMBLE_NODES);
    e.dimensions = wire_whole(body, ENSEMBLE_DIMENSIONS, 1);
    if (e.count < 1 || e.count > MOST_NODES)
        tabular_fail(t, "%lld nodes; there must be 1 to %d", (long long)e.count, MOST_NODES);
    if (e.dimensions < 1 || e.dimensions > MOST_DIMENSIONS)
        tabular_fail(t, "%lld predictions; there must be 1 to %d", (long long)e.dimensions, MOST_DIMENSIONS);
    if (!t->b.err.status && e.dimensions > MOST_VALUES / (2 * e.count))
        tabular_fail(t, "%lld nodes with %lld predictions each; the maximum is %d values", (long long)e.count,
                     (long long)e.dimensions, MOST_VALUES);
    if (t->b.err.status) return NULL;
    e.nodes = mem_array((size_t)e.count, sizeof *e.nodes);
    e.roots = mem_array((size_t)e.count + 1, sizeof *e.roots);
    if (!e.nodes || !e.roots) (void)!propane_fail_memory(&t->b.err, (size_t)e.count * sizeof *e.nodes);
    if (e.nodes && e.roots) tree_read_nodes(&e, body);
    if (!t->b.err.status) tree_link(&e);
    if (!t->b.err.status && tree_fill(&e)) y = tree_sum(&e, body, tree_walk(&e, x));
    mem_free(e.nodes), mem_free(e.roots);
    mem_free(e.feature), mem_free(e.yes), mem_free(e.no);
    mem_free(e.threshold), mem_free(e.missing), mem_free(e.values);
    return y;
}

/* ---- models -------------------------------------------------------------------------------------------------------- */

/* Values of field 2 of the model. */
enum { AS_IT_IS, SOFTMAX, LOGISTIC, SOFTMAX_WITH_REFERENCE };

propane_status tabular_read_tree_regressor(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                           const mil_read_options *options, propane_error *err) {
    tabular t;
    mil_value *y = NULL;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        const int64_t transform = wire_whole(t.body, 2, 0);
        y = tree_predict(&t, tabular_joined(&t));
        if (transform == LOGISTIC) y = DO(&t, sigmoid, IN("x", y));
        if (transform != AS_IT_IS && transform != LOGISTIC)
            tabular_fail(&t, "a transform of kind %lld in a regressor is not supported", (long long)transform);
    }
    return tabular_end(&t, y, err);
}

/* Returns the probabilities of the classes. A single prediction is the probability of the second of two classes. */
static mil_value *tree_probabilities(tabular *t, mil_value *y, int64_t classes) {
    static const double zero = 0;
    const int64_t transform = wire_whole(t->body, 2, 0), count = tabular_count(y);
    const bool reference = transform == SOFTMAX_WITH_REFERENCE, two = count == 1 && classes == 2;
    if (!y) return NULL;
    if (transform < 0 || transform > SOFTMAX_WITH_REFERENCE || (two && transform == SOFTMAX) ||
        (reference ? count != classes - 1 : count != classes && !two)) {
        tabular_fail(t, "a transform of kind %lld of %lld predictions for %lld classes is not supported",
                     (long long)transform, (long long)count, (long long)classes);
        return NULL;
    }
    if (reference) {
        mil_value *both[2] = {tabular_list(t, "reference", &zero, 1), y};
        y = mil_build_concat(&t->b, both, 2, 0);
    }
    if (reference || transform == SOFTMAX) return mil_build_softmax(&t->b, y, 0);
    if (transform == LOGISTIC) y = DO(t, sigmoid, IN("x", y));
    return two ? tabular_two_classes(t, y) : y;
}

propane_status tabular_read_tree_classifier(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                            const mil_read_options *options, propane_error *err) {
    tabular t;
    wire_view strings, numbers;
    if (tabular_begin(&t, m, data, bytes, opset, options)) {
        mil_value *y = tree_predict(&t, tabular_joined(&t));
        (void)wire_part(t.body, 100, &strings);
        (void)wire_part(t.body, 101, &numbers);
        mil_value *labels = interface_labels(&t.b, strings, numbers);
        if (!labels) tabular_fail(&t, "a classifier without labels");
        interface_classify(&t.b, t.seen, tree_probabilities(&t, y, tabular_count(labels)), labels);
    }
    return tabular_end(&t, NULL, err);
}
