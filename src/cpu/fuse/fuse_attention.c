/* SPDX-License-Identifier: MIT
 * Finds attention in a function: a softmax over the rows of a matrix product, to which a causal mask or a mask that is
 * an input may be added. In the forward pass, the product that mixes values comes next. In the backward pass, the
 * gradient of the softmax and the four products around that gradient come next. The rule does not depend on a model. If
 * other operations read the scores or the probabilities, nothing is fused.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"
#include "cpu/plan/table.h"

enum { MOST_OPS = 32, MOST_USERS = 4, MOST_WIDTH = 512, MOST_MASK_ROWS = 16, LEAST_OPEN = 16 };

typedef struct match {
    cpu_graph *g;
    const mil_op *ops[MOST_OPS];
    int count;
    cpu_fused_attention found;
} match;

static bool fuse_attention_add_op(match *m, const mil_op *op) {
    if (m->count == MOST_OPS) return false;
    m->ops[m->count++] = op;
    return true;
}

/* Appends the operations that read `v`, or the same elements in another shape, to the `count` users, and returns their
 * number. Returns -1 if there are too many, or if one of these values is a result of the function. The reshapes in
 * between become part of the match. */
static int fuse_attention_users_of(match *m, const mil_value *v, const mil_op **users, const mil_value **as,
                                   int count) {
    const int *readers;
    const int all = cpu_graph_reads(m->g, v, &readers);
    if (all != m->g->uses[v->id]) return -1;
    for (int i = 0; i < all; i++) {
        const mil_op *op = m->g->ops[readers[i]];
        if (cpu_plan_keeps_order(op)) {
            count = fuse_attention_add_op(m, op) ? fuse_attention_users_of(m, op->results[0], users, as, count) : -1;
        } else if (count >= 0 && count < MOST_USERS) {
            users[count] = op;
            as[count++] = v;
        } else {
            count = -1;
        }
        if (count < 0) return -1;
    }
    return count;
}

/* Returns the matrix product that makes `v`, possibly through reshapes and scalar factors, by which *scale is
 * multiplied. Returns NULL if there is none, or if `v` does not have exactly `uses` uses. `scale` is NULL if there may
 * be no factors. */
static const mil_op *fuse_attention_product_before(match *m, const mil_value *v, int uses, double *scale) {
    for (;; uses = 1) {
        const mil_op *op = v->constant ? NULL : v->def;
        if (!op || m->g->op_of[v->id] < 0 || m->g->uses[v->id] != uses || !fuse_attention_add_op(m, op)) return NULL;
        if (op->info->code == MIL_OP_matmul) return cpu_plan_is_product(op) ? op : NULL;
        if (cpu_plan_keeps_order(op)) {
            v = op->operands[0].values[0];
            continue;
        }
        if (op->info->code != MIL_OP_mul || !scale) return NULL;
        const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y"), *factor = y->constant ? y : x;
        if (!factor->constant || mil_type_count(&factor->type) != 1 || !factor->constant->data) return NULL;
        *scale *= mil_const_f64(factor->constant, 0);
        v = factor == y ? x : y;
    }
}

/* How a matrix product reads scores: whether it sums over keys or over rows, and its other operand. */
typedef struct reading {
    bool valid, over_keys;
    const mil_value *other;
} reading;

static reading fuse_attention_read_scores(const mil_op *op, const mil_value *v) {
    bool tx = false, ty = false;
    if (op->info->code != MIL_OP_matmul || !cpu_plan_is_product(op)) return (reading){0};
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    if (x == y || mil_attr_bool(op, "transpose_x", &tx, NULL) || mil_attr_bool(op, "transpose_y", &ty, NULL))
        return (reading){0};
    return (reading){true, x == v ? !tx : ty, x == v ? y : x};
}

/* Returns true if the result of `op` has the leading dimensions of the scores, and one of its last two dimensions is
 * the number of rows (if `over_keys`) or of keys. */
static bool fuse_attention_fits(const match *m, const mil_op *op, bool over_keys, const mil_value *scores_operand) {
    const mil_type *s = &m->found.scores->results[0]->type, *t = &op->results[0]->type;
    const mil_type *same = &scores_operand->type;
    if (t->rank != s->rank || !mil_shape_equal(same, s)) return false;
    for (int d = 0; d < s->rank - 2; d++)
        if (t->dim[d] != s->dim[d]) return false;
    int64_t along = s->dim[s->rank - (over_keys ? 2 : 1)];
    return t->dim[t->rank - 1] == along || t->dim[t->rank - 2] == along;
}

static int64_t fuse_attention_depth_of(const mil_op *op) {
    bool tx = false;
    const mil_type *x = &mil_in(op, "x")->type;
    if (mil_attr_bool(op, "transpose_x", &tx, NULL) || x->rank < 2) return 0;
    return x->dim[x->rank - (tx ? 2 : 1)];
}

static int64_t fuse_attention_width_of(const mil_op *op, bool scores_are_x) {
    const mil_type *t = &op->results[0]->type;
    return t->dim[t->rank - (scores_are_x ? 1 : 2)];
}

/* Returns a mask that is known only when the program runs: an input of few rows, the same for all heads. NULL if there
 * is none. */
static const mil_value *fuse_attention_mask_of(const mil_op *add) {
    const mil_type *s = &add->results[0]->type;
    for (int i = 0; add->info->code == MIL_OP_add && i < 2; i++) {
        const mil_value *v = mil_in(add, i ? "x" : "y");
        const mil_type *t = &v->type;
        bool good = !v->constant && !v->def && s->rank >= 2 && t->rank >= 2 && t->rank <= s->rank &&
                    (t->dtype == MIL_fp32 || t->dtype == MIL_fp16) && t->dim[t->rank - 2] <= MOST_MASK_ROWS;
        for (int d = 1; good && d <= t->rank; d++) good = t->dim[t->rank - d] == (d <= 2 ? s->dim[s->rank - d] : 1);
        if (good) return v;
    }
    return NULL;
}

static bool fuse_attention_match_masked(match *m, const mil_op *softmax, const mil_op *add, const mil_value *mask) {
    const mil_value *a = mil_in(add, "x");
    const mil_type *t = &mask->type;
    m->found.scale = 1;
    m->found.mask = mask;
    m->found.period = t->dim[t->rank - 2];
    if (!fuse_attention_add_op(m, softmax) || !fuse_attention_add_op(m, add)) return false;
    m->found.scores = fuse_attention_product_before(m, a == mask ? mil_in(add, "y") : a, 1, &m->found.scale);
    if (!m->found.scores) return false;
    const mil_type *s = &m->found.scores->results[0]->type;
    int64_t depth = fuse_attention_depth_of(m->found.scores);
    return s->rank >= 2 && s->dim[s->rank - 1] == t->dim[t->rank - 1] && s->dim[s->rank - 2] % m->found.period == 0 &&
           depth > 0 && depth <= MOST_WIDTH;
}

/* Matches attention without a mask: every row sees all keys, as in an image. */
static bool fuse_attention_match_open(match *m, const mil_op *softmax) {
    m->found.scale = 1;
    if (!fuse_attention_add_op(m, softmax)) return false;
    m->found.scores = fuse_attention_product_before(m, mil_in(softmax, "x"), 1, &m->found.scale);
    if (!m->found.scores) return false;
    const mil_type *s = &m->found.scores->results[0]->type;
    const int64_t depth = fuse_attention_depth_of(m->found.scores);
    if (s->rank < 2 || depth <= 0 || depth > MOST_WIDTH) return false;
    m->found.period = s->dim[s->rank - 2];
    return m->found.period >= LEAST_OPEN && s->dim[s->rank - 1] >= LEAST_OPEN;
}

static bool fuse_attention_match_scores(match *m, const mil_op *softmax) {
    const mil_value *x = mil_in(softmax, "x");
    const mil_op *add = x->constant ? NULL : x->def;
    if (add && add->info->code != MIL_OP_add) return fuse_attention_match_open(m, softmax);
    int64_t rows = add ? cpu_plan_adds_mask(add) : 0;
    if (!add || m->g->op_of[x->id] < 0 || m->g->uses[x->id] != 1) return false;
    const mil_value *mask = rows ? NULL : fuse_attention_mask_of(add);
    if (mask) return fuse_attention_match_masked(m, softmax, add, mask);
    if (!rows) return false;
    const mil_value *a = mil_in(add, "x"), *b = mil_in(add, "y");
    m->found.scale = 1;
    m->found.causal = true;
    m->found.period = rows;
    if (!fuse_attention_add_op(m, softmax) || !fuse_attention_add_op(m, add)) return false;
    m->found.scores = fuse_attention_product_before(m, a->constant ? b : a, 1, &m->found.scale);
    if (!m->found.scores) return false;
    const mil_type *s = &m->found.scores->results[0]->type;
    int64_t depth = fuse_attention_depth_of(m->found.scores);
    return s->rank >= 2 && s->dim[s->rank - 1] == rows && s->dim[s->rank - 2] % rows == 0 && depth > 0 &&
           depth <= MOST_WIDTH;
}

static bool fuse_attention_match_forward(match *m, const mil_op *mix, const mil_value *probs) {
    reading r = fuse_attention_read_scores(mix, probs);
    if (!r.valid || !r.over_keys || !fuse_attention_fits(m, mix, true, probs)) return false;
    if (fuse_attention_width_of(mix, mil_in(mix, "x") == probs) != fuse_attention_depth_of(m->found.scores))
        return false;
    m->found.mix = mix;
    return fuse_attention_add_op(m, mix);
}

/* For dS = P * (dP - sum(P * dP)): returns the only reader of `v` if its opcode is `code`, else NULL. */
static const mil_op *fuse_attention_only_reader(match *m, const mil_value *v, mil_opcode code) {
    const mil_op *users[MOST_USERS] = {NULL};
    const mil_value *as[MOST_USERS];
    int before = m->count, count = fuse_attention_users_of(m, v, users, as, 0);
    if (count != 1 || m->count != before || users[0]->info->code != code || !fuse_attention_add_op(m, users[0]))
        return NULL;
    return users[0];
}

static const mil_value *fuse_attention_other_of(const mil_op *op, const mil_value *v) {
    return mil_in(op, "x") == v ? mil_in(op, "y") : mil_in(op, "x");
}

static bool fuse_attention_sums_rows(const mil_op *op, int rank) {
    return cpu_family_of(op) == CPU_FAMILY_reduce && cpu_plan_tile_axes(op) == 1u << (rank - 1) &&
           op->results[0]->type.rank == rank;
}

/* Matches the gradient of the softmax and returns dS, or NULL. `first` multiplies P and dP, `second` makes dS. */
static const mil_value *fuse_attention_match_gradient(match *m, const mil_op *first, const mil_op *second,
                                                      const mil_value *probs) {
    const mil_value *d_probs = fuse_attention_other_of(first, probs), *inner = fuse_attention_other_of(second, probs);
    if (d_probs == probs || inner == probs || !fuse_attention_add_op(m, first) || !fuse_attention_add_op(m, second))
        return NULL;
    const mil_op *sum = fuse_attention_only_reader(m, first->results[0], MIL_OP_reduce_sum);
    if (!sum || !fuse_attention_sums_rows(sum, probs->type.rank)) return NULL;
    const mil_op *sub = fuse_attention_only_reader(m, sum->results[0], MIL_OP_sub);
    if (!sub || sub->results[0] != inner || mil_in(sub, "x") != d_probs || mil_in(sub, "y") != sum->results[0])
        return NULL;
    if (m->g->uses[inner->id] != 1 || !mil_shape_equal(&d_probs->type, &probs->type)) return NULL;
    m->found.d_probs = fuse_attention_product_before(m, d_probs, 2, NULL);
    return m->found.d_probs ? second->results[0] : NULL;
}

static bool fuse_attention_match_backward(match *m, const mil_value *probs, const mil_op **users,
                                          const mil_value **as) {
    const mil_op *values = NULL, *muls[2] = {NULL};
    const mil_value *values_as = NULL;
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (users[i]->info->code == MIL_OP_mul && as[i] == probs && n < 2)
            muls[n++] = users[i];
        else
            values = users[i], values_as = as[i];
    if (n != 2 || !values || muls[0] == muls[1]) return false;
    reading v = fuse_attention_read_scores(values, values_as);
    if (!v.valid || v.over_keys || !fuse_attention_fits(m, values, false, values_as) ||
        !fuse_attention_add_op(m, values))
        return false;
    const mil_value *inner = fuse_attention_other_of(muls[0], probs);
    bool turned = inner->def && inner->def->info->code == MIL_OP_sub; /* then muls[0] makes dS */
    const mil_value *d_scores = fuse_attention_match_gradient(m, muls[turned], muls[!turned], probs);
    if (!d_scores) return false;
    const mil_op *ends[MOST_USERS];
    const mil_value *ends_as[MOST_USERS];
    if (fuse_attention_users_of(m, d_scores, ends, ends_as, 0) != 2) return false;
    reading e[2];
    for (int i = 0; i < 2; i++) {
        e[i] = fuse_attention_read_scores(ends[i], ends_as[i]);
        if (!e[i].valid || !fuse_attention_fits(m, ends[i], e[i].over_keys, ends_as[i]) ||
            !fuse_attention_add_op(m, ends[i]))
            return false;
    }
    if (e[0].over_keys == e[1].over_keys) return false;
    int query = e[0].over_keys ? 0 : 1;
    m->found.d_values = values;
    m->found.d_query = ends[query];
    m->found.d_keys = ends[!query];
    return e[query].other == mil_in(m->found.scores, "y") && e[!query].other == mil_in(m->found.scores, "x") &&
           v.other == mil_in(m->found.d_probs, "x") &&
           fuse_attention_depth_of(m->found.d_probs) == fuse_attention_depth_of(m->found.scores) &&
           mil_shape_equal(&m->found.d_probs->results[0]->type, &m->found.scores->results[0]->type);
}

static bool fuse_attention_match_all(match *m, const mil_op *softmax) {
    const mil_op *users[MOST_USERS] = {NULL};
    const mil_value *as[MOST_USERS];
    const mil_value *probs = softmax->results[0];
    if (!fuse_attention_match_scores(m, softmax)) return false;
    int count = fuse_attention_users_of(m, probs, users, as, 0);
    if (count == 1) return fuse_attention_match_forward(m, users[0], as[0]);
    return count == 3 && m->found.causal && fuse_attention_match_backward(m, probs, users, as);
}

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

static propane_status fuse_attention_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    match m = {.g = g};
    if (!cpu_plan_is_row_softmax(g->ops[i]) || !fuse_attention_match_all(&m, g->ops[i])) return PROPANE_OK;
    if (cpu_graph_is_between(g, m.ops, m.count)) return PROPANE_OK;
    cpu_fused_attention *found = arena_copy(g->work, &m.found, sizeof m.found);
    cpu_node *node = found ? cpu_graph_merge(g, m.ops, m.count) : NULL;
    if (!node) return cpu_program_no_memory(err);
    node->kind = CPU_NODE_ATTENTION;
    node->attention = found;
    *fired = true;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_attention = {
    .name = "attention", .not_with = CPU_FUSE_NOT_ROUNDED, .apply = fuse_attention_apply};
