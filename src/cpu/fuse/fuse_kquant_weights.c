/* SPDX-License-Identifier: MIT
 * Recognises weights in blocks, which some sixty operations reconstruct (core/mil/kquant_weights.h). For each form that
 * can store a tensor of the same type, the same operations are built again and compared one by one. If a pass starts to
 * rewrite these operations, kquant_weights.h must change, too. A test that plans a matrix product of each form then
 * fails.
 */
#include "cpu/fuse/fuse_kquant_weights.h"

#include <string.h>

#include "core/mil/kquant_weights.h"
#include "cpu/gemv/gemv.h"
#include "cpu/plan/facts.h"

typedef struct kquant_comparison {
    cpu_graph *g;
    /* By id of a value of the built function: its counterpart, or NULL if it has not been visited yet. */
    const mil_value **same;
    int *uses; /* by the same id: the number of operands that refer to it */
    kquant_match *match;
    int room;
} kquant_comparison;

static bool kquant_same_constant(const mil_const *a, const mil_const *b) {
    return a && b && a->data && b->data && a->bytes == b->bytes && mil_type_equal(&a->type, &b->type) &&
           (a->type.dtype == MIL_string ? strcmp(mil_const_text(a, 0), mil_const_text(b, 0)) == 0
                                        : memcmp(a->data, b->data, (size_t)a->bytes) == 0);
}

static bool kquant_same_value(kquant_comparison *c, const mil_value *want, const mil_value *v);

static bool kquant_same_op(kquant_comparison *c, const mil_op *want, const mil_op *op) {
    if (want->info != op->info || op->result_count != 1) return false;
    for (int p = 0; p < op->info->param_count; p++) {
        const mil_operand *a = &want->operands[p], *b = &op->operands[p];
        if (a->count != b->count) return false;
        for (int i = 0; i < a->count; i++)
            if (!kquant_same_value(c, a->values[i], b->values[i])) return false;
    }
    if (c->match->count == c->room) return false;
    c->match->ops[c->match->count++] = op;
    return true;
}

/* Parameters of the built function match inputs of the same type. All other values must have no readers outside the
 * match. */
static bool kquant_same_value(kquant_comparison *c, const mil_value *want, const mil_value *v) {
    if (want->constant) return kquant_same_constant(want->constant, v->constant);
    if (c->same[want->id]) return c->same[want->id] == v;
    if (v->constant || !mil_type_equal(&want->type, &v->type) || !want->def != !v->def) return false;
    c->same[want->id] = v;
    if (!want->def) return true;
    return c->uses[want->id] == c->g->uses[v->id] && kquant_same_op(c, want->def, v->def);
}

/* Returns the parameter from which `v` is computed, or NULL. In each operation, follows the first operand that is not a
 * constant. */
static const mil_value *kquant_leaf(const mil_value *v) {
    while (v && v->def && !v->constant) {
        const mil_value *next = NULL;
        MIL_FOR_OPERANDS (v->def, x)
            if (!next && !x->constant) next = x;
        v = next;
    }
    return v && !v->constant ? v : NULL;
}

static bool kquant_stores(kquant kind, const mil_value *leaf, int64_t out, int64_t in) {
    const mil_type type = kquant_data_type(kind, out, in);
    return leaf && in % kquant_forms[kind].block == 0 && mil_type_equal(&type, &leaf->type);
}

static propane_status kquant_compare(kquant_comparison *c, kquant kind, const mil_value *v, int64_t out, int64_t in,
                                     bool *matches, propane_error *err) {
    mil_module *module = mil_module_create("kquant");
    mil_builder b = {0};
    if (!module) return propane_fail_memory(err, 0);
    mil_build_begin(&b, module, "main", c->g->f->opset);
    mil_value *data = mil_build_param(&b, "data", kquant_data_type(kind, out, in));
    mil_value *supers = mil_build_param(&b, "supers", kquant_supers_type(kind, out, in));
    mil_value *w = kquant_build(&b, kind, v->type.dtype, data, supers);
    mil_build_result(&b, w);
    propane_status status = mil_build_end(&b, err);
    const mil_function *f = b.function;
    if (!status) {
        c->room = f->op_count;
        c->same = ARENA_ARRAY(c->g->work, f->value_count, const mil_value *);
        c->uses = ARENA_ARRAY(c->g->work, f->value_count, int);
        c->match->ops = ARENA_ARRAY(c->g->work, f->op_count, const mil_op *);
        if (!c->same || !c->uses || !c->match->ops) status = propane_fail_memory(err, 0);
    }
    if (!status) {
        for (const mil_op *op = f->first; op; op = op->next)
            MIL_FOR_OPERANDS (op, x) c->uses[x->id]++;
        const mil_value *last = w->def->operands[0].values[0]; /* before the reshape, like `v` */
        *matches = v->def && kquant_same_op(c, last->def, v->def);
        c->match->found = (cpu_stored_weights){
            .data = c->same[data->id], .scales = c->same[supers->id], .format = CPU_WEIGHTS_KQUANT + (int)kind};
    }
    mil_module_free(module);
    return status;
}

propane_status cpu_fuse_match_kquant(cpu_graph *g, const mil_value *v, int64_t out, int64_t in, bool *matches,
                                     kquant_match *m, propane_error *err) {
    const mil_value *leaf = kquant_leaf(v);
    *matches = false;
    for (int kind = 0; kind < KQUANT_COUNT && !*matches; kind++) {
        *m = (kquant_match){0};
        kquant_comparison c = {.g = g, .match = m};
        if (kquant_stores((kquant)kind, leaf, out, in))
            PROPANE_TRY(kquant_compare(&c, (kquant)kind, v, out, in, matches, err));
    }
    return PROPANE_OK;
}
