/* SPDX-License-Identifier: MIT
 * Owns the split of a weight-gradient kernel between device and host. A sum over positions is cut into parts of a
 * length that suits an engine. Each part's sum is rounded once, to the type of the taps, and the host adds the parts in
 * fp32. Gradients that are not such a matrix product, for example a norm's, are computed entirely on the host.
 */
#include "lm/step/gradient_products.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops/shape_util.h"

#define PRODUCTS_MOST 32 /* per kernel */

typedef struct split_product {
    const mil_value *result; /* d_P */
    const mil_op *product;
    const char *name; /* dw_P */
    int64_t windows, pieces, positions, parts;
    mil_type type; /* type of dw_P */
} split_product;

typedef struct split {
    const mil_function *f;
    arena *names;
    split_product products[PRODUCTS_MOST];
    int count;
    bool *needed;    /* [value id] */
    mil_value **map; /* [value id] */
} split;

/* Returns the matrix product from which a result is made by reshapes and the sum over the windows, or NULL if there is
 * none. */
static const mil_op *products_behind(const mil_value *v) {
    const mil_op *op = v->def;
    while (op && (op->info->code == MIL_OP_reshape || op->info->code == MIL_OP_reduce_sum)) {
        const mil_value *x = mil_in(op, "x");
        if (op->info->code == MIL_OP_reduce_sum &&
            x->type.dim[0] * mil_type_count(&v->type) != mil_type_count(&x->type))
            return NULL;
        op = x->def;
    }
    return op && op->info->code == MIL_OP_matmul ? op : NULL;
}

/* Returns whether the matrix product is [B,1,O,S] times [B,1,I,S]', with a result [O,I]. */
static bool products_suit(const mil_value *result, const mil_op *op, mil_matmul *m) {
    if (mil_matmul_read(op, m, NULL)) return false;
    const mil_type *x = &mil_in(op, "x")->type, *y = &mil_in(op, "y")->type, *r = &result->type;
    const bool rows = m->x_row == m->k && m->x_col == 1 && m->y_row == 1 && m->y_col == m->k;
    return rows && x->rank == 4 && y->rank == 4 && x->dim[1] == 1 && y->dim[1] == 1 && x->dim[0] == y->dim[0] &&
           r->rank == 2 && r->dim[0] == m->m && r->dim[1] == m->n;
}

static int64_t products_divisor(int64_t n, int64_t most) {
    for (int64_t d = most < n ? most : n; d > 1; d--)
        if (n % d == 0) return d;
    return 1;
}

static propane_status products_find(split *s, propane_error *err) {
    for (int i = 0; i < s->f->result_count && s->count < PRODUCTS_MOST; i++) {
        const mil_value *result = s->f->results[i];
        const mil_op *op = products_behind(result);
        mil_matmul m;
        if (strncmp(result->name, "d_", 2) != 0 || !op || !products_suit(result, op, &m)) continue;
        const int64_t batch = mil_in(op, "x")->type.dim[0];
        split_product *p = &s->products[s->count++];
        *p = (split_product){.result = result, .product = op};
        p->windows = m.k < GRADIENT_POSITIONS ? products_divisor(batch, GRADIENT_POSITIONS / m.k) : 1;
        p->positions = products_divisor(m.k, GRADIENT_POSITIONS);
        p->pieces = m.k / p->positions;
        p->parts = batch / p->windows * p->pieces;
        p->type = (mil_type){.dtype = result->type.dtype, .rank = 2, .dim = {p->parts * m.m, m.n}};
        p->name = arena_printf(s->names, "dw_%s", result->name + 2);
        if (!p->name) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

static const split_product *products_at(const split *s, const mil_value *result) {
    for (int i = 0; i < s->count; i++)
        if (s->products[i].result == result) return &s->products[i];
    return NULL;
}

static void products_need(split *s, const mil_value *v) {
    if (s->needed[v->id]) return;
    s->needed[v->id] = true;
    for (int p = 0; v->def && p < v->def->info->param_count; p++)
        for (int i = 0; i < v->def->operands[p].count; i++) products_need(s, v->def->operands[p].values[i]);
}

/* Copies the parameters and operations marked in `needed`. */
static void products_copy(split *s, mil_builder *b) {
    for (int i = 0; i < s->f->param_count; i++) {
        const mil_value *v = s->f->params[i];
        if (s->needed[v->id]) s->map[v->id] = mil_build_param(b, v->name, v->type);
    }
    for (const mil_op *op = s->f->first; op; op = op->next) {
        bool needed = false;
        for (int i = 0; i < op->result_count; i++) needed |= s->needed[op->results[i]->id];
        if (!needed) continue;
        b->stage = op->stage;
        b->backward = op->backward;
        if (!mil_build_copy(b, op, s->map)) return;
    }
}

static void products_begin(split *s, mil_builder *b, mil_module *into, const char *name) {
    memset(s->needed, 0, ((size_t)s->f->value_count + 1) * sizeof *s->needed);
    memset(s->map, 0, ((size_t)s->f->value_count + 1) * sizeof *s->map);
    mil_build_begin(b, into, name, s->f->opset);
}

static void products_give(mil_builder *b, mil_value *v, const char *name) {
    propane_error err = {0};
    if (!v) return;
    if (strcmp(v->name, name) != 0 && mil_rename(b->function, v, name, &err) && !b->err.status) b->err = err;
    mil_build_result(b, v);
}

/* Reshapes [B,1,C,S] into parts: [B/windows,1,C,windows*S] or [B*pieces,1,C,S/pieces]. */
static mil_value *products_part(mil_builder *b, mil_value *x, const split_product *p) {
    if (!x || (p->windows == 1 && p->pieces == 1)) return x;
    const int64_t *d = x->type.dim, channels = d[2];
    const int64_t windows[4] = {d[0] / p->windows, p->windows, channels, d[3]};
    const int64_t pieces[4] = {d[0], channels, p->pieces, p->positions};
    x = mil_build_reshape(b, x, p->pieces > 1 ? pieces : windows, 4);
    if (x) x = mil_build_transpose(b, x, (int64_t[]){0, 2, 1, 3}, 4);
    if (!x) return NULL;
    return mil_build_reshape(b, x, (int64_t[]){p->parts, 1, channels, p->positions * p->windows}, 4);
}

static propane_status products_make(split *s, mil_module *into, const char *name, mil_function **out,
                                    propane_error *err) {
    mil_builder b;
    products_begin(s, &b, into, name);
    for (int i = 0; i < s->count; i++) {
        products_need(s, mil_in(s->products[i].product, "x"));
        products_need(s, mil_in(s->products[i].product, "y"));
    }
    products_copy(s, &b);
    for (int i = 0; i < s->count && !b.err.status; i++) {
        const split_product *p = &s->products[i];
        b.stage = p->product->stage;
        b.backward = true;
        mil_value *x = products_part(&b, s->map[mil_in(p->product, "x")->id], p);
        mil_value *y = products_part(&b, s->map[mil_in(p->product, "y")->id], p);
        mil_value *product = x && y ? mil_build_matmul(&b, x, y, false, true) : NULL;
        if (product) products_give(&b, mil_build_reshape(&b, product, p->type.dim, 2), p->name);
    }
    propane_status status = mil_build_end(&b, err);
    if (status == PROPANE_OK) *out = b.function;
    return status;
}

/* Adds the parts one after the other. Only additions are used, because the cpu driver runs them in one sweep and in
 * place. */
static mil_value *products_sum(mil_builder *b, const split_product *p) {
    const int64_t rows = p->type.dim[0] / p->parts, columns = p->type.dim[1];
    mil_value *all = mil_build_param(b, p->name, p->type), *sum = NULL;
    if (p->parts == 1) return all ? mil_build_unary(b, MIL_OP_identity, all) : NULL;
    for (int64_t i = 0; i < p->parts && all; i++) {
        mil_value *part = mil_build_slice(b, all, (int64_t[]){i * rows, 0}, (int64_t[]){rows, columns});
        sum = sum && part ? mil_build_binary(b, MIL_OP_add, sum, part) : part;
        if (!part) return NULL;
    }
    return sum;
}

static propane_status products_add_up(split *s, mil_module *into, const char *name, mil_function **out,
                                      propane_error *err) {
    mil_builder b;
    products_begin(s, &b, into, name);
    for (int i = 0; i < s->f->result_count; i++)
        if (!products_at(s, s->f->results[i])) products_need(s, s->f->results[i]);
    products_copy(s, &b);
    for (int i = 0; i < s->f->result_count && !b.err.status; i++) {
        const mil_value *result = s->f->results[i];
        const split_product *p = products_at(s, result);
        mil_value *v = s->map[result->id];
        if (p) v = products_sum(&b, p);
        products_give(&b, v, result->name);
    }
    propane_status status = mil_build_end(&b, err);
    if (status == PROPANE_OK) *out = b.function;
    return status;
}

propane_status gradient_products_split(const mil_function *f, mil_module *into, const char *products_name,
                                       const char *sums_name, mil_function **products, mil_function **sums,
                                       propane_error *err) {
    split s = {.f = f, .names = into->arena};
    *products = *sums = NULL;
    PROPANE_TRY(products_find(&s, err));
    if (s.count == 0) return PROPANE_OK;
    s.needed = mem_array((size_t)f->value_count + 1, sizeof *s.needed);
    s.map = mem_array((size_t)f->value_count + 1, sizeof *s.map);
    propane_status status = s.needed && s.map ? products_make(&s, into, products_name, products, err)
                                              : propane_fail_memory(err, (size_t)f->value_count * sizeof *s.map);
    if (status == PROPANE_OK) status = products_add_up(&s, into, sums_name, sums, err);
    mem_free(s.needed);
    mem_free(s.map);
    return status;
}
