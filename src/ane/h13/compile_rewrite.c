/* SPDX-License-Identifier: MIT
 * Replaces forms that the engine lacks by equivalent operations: compressed weights by dense ones, and the operations
 * of rewrite_rows. The rest of the compiler reads a copy of the function without such forms.
 */
#include "ane/h13/compile_parts.h"
#include "core/mil/build.h"
#include "core/mil/function_copy.h"
#include "core/mil/ops/shape_util.h"
#include "core/pass/pass.h"

/* Returns the value that replaces the operation's result, or NULL if the operation stays. */
typedef mil_value *(*rewrite_make)(mil_builder *b, const mil_op *op);

/* Builds x * (1 / y). The engine has no quotient. */
static mil_value *rewrite_divide(mil_builder *b, const mil_op *op) {
    mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    mil_value *none = mil_build_scalar(b, y->type.dtype, 0);
    const mil_op *one = mil_build_op(b, MIL_OP_inverse, NULL, (mil_argument[]){{"x", 1, &y}, {"epsilon", 1, &none}}, 2);
    return one ? mil_build_binary(b, MIL_OP_mul, x, one->results[0]) : NULL;
}

/* Builds a concatenation of the values, each reshaped to have one more dimension. */
static mil_value *rewrite_stack(mil_builder *b, const mil_op *op) {
    mil_value *const *values;
    int count = mil_in_list(op, "values", &values), axis;
    const mil_type *out = &op->results[0]->type;
    int64_t dim[MIL_MAX_RANK];
    if (mil_attr_axis(op, "axis", out->rank, &axis, NULL) != PROPANE_OK) return NULL;
    mil_value **parts = ARENA_ARRAY(b->module->arena, count, mil_value *);
    if (!parts) return NULL;
    for (int d = 0; d < out->rank; d++) dim[d] = d == axis ? 1 : out->dim[d];
    for (int i = 0; i < count; i++) parts[i] = mil_build_reshape(b, values[i], dim, out->rank);
    return mil_build_concat(b, parts, count, axis);
}

/* Builds `times` copies of x along `axis`. Concatenates halves, so that many copies take few operations. */
static mil_value *rewrite_repeat(mil_builder *b, mil_value *x, int64_t times, int axis) {
    if (times == 1 || !x) return x;
    mil_value *half = rewrite_repeat(b, x, times / 2, axis), *const parts[] = {half, half, x};
    return mil_build_concat(b, parts, times % 2 ? 3 : 2, axis);
}

static mil_value *rewrite_tile(mil_builder *b, const mil_op *op) {
    mil_value *x = mil_in(op, "x"), *y = x;
    int64_t reps[2 * MIL_MAX_RANK];
    int count = 0;
    if (mil_attr_ints(op, "reps", reps, &count, NULL) != PROPANE_OK || count != x->type.rank) return NULL;
    for (int d = count - 1; d >= 0; d--) y = rewrite_repeat(b, y, reps[d], d);
    return y == x ? mil_build_unary(b, MIL_OP_identity, x) : y;
}

/* Builds a transpose of x without dimensions of 1. Keeps the last dimensions of x and of the result, because they
 * determine the bytes of a row. `perm` is the permutation of the original operation. Returns NULL if every dimension
 * stays. */
static mil_value *rewrite_squeezed(mil_builder *b, mil_value *x, const mil_type *out, const int *perm) {
    int64_t dim[MIL_MAX_RANK], order[MIL_MAX_RANK];
    int place[MIL_MAX_RANK], kept = 0, rank = out->rank, to = 0;
    for (int d = 0; d < rank; d++) {
        bool stays = x->type.dim[d] != 1 || d == rank - 1 || d == perm[rank - 1];
        place[d] = stays ? kept : -1;
        if (stays) dim[kept++] = x->type.dim[d];
    }
    if (kept == rank) return NULL;
    for (int d = 0; d < rank; d++)
        if (place[perm[d]] >= 0) order[to++] = place[perm[d]];
    mil_value *y = mil_build_transpose(b, mil_build_reshape(b, x, dim, kept), order, kept);
    return mil_build_reshape(b, y, out->dim, rank);
}

/* Builds a reshape if the transpose moves only dimensions of 1. Builds a transpose of fewer dimensions if the first of
 * more than three dimensions moves. */
static mil_value *rewrite_transpose(mil_builder *b, const mil_op *op) {
    mil_value *x = mil_in(op, "x");
    const mil_type *out = &op->results[0]->type;
    int perm[MIL_MAX_RANK], last = -1;
    bool same = true;
    if (mil_attr_perm(op, perm, NULL) != PROPANE_OK) return NULL;
    for (int d = 0; d < out->rank; d++) {
        if (out->dim[d] == 1) continue;
        same = same && perm[d] > last;
        last = perm[d];
    }
    if (same) return mil_build_reshape(b, x, out->dim, out->rank);
    return out->rank > 3 && perm[0] ? rewrite_squeezed(b, x, out, perm) : NULL;
}

/* If a transpose makes v and exchanges its last two dimensions, returns v without that exchange, else NULL. */
static mil_value *rewrite_turned(mil_builder *b, const mil_value *v) {
    int perm[MIL_MAX_RANK], rank = v->type.rank;
    int64_t order[MIL_MAX_RANK];
    if (!v->def || v->constant || v->def->info->code != MIL_OP_transpose || rank < 2 ||
        mil_attr_perm(v->def, perm, NULL) != PROPANE_OK || perm[rank - 1] > perm[rank - 2])
        return NULL;
    for (int d = 0; d < rank; d++) order[d] = d < rank - 2 ? perm[d] : perm[2 * rank - 3 - d];
    return mil_build_transpose(b, mil_in(v->def, "x"), order, rank);
}

/* Returns the number of matrices in a value. */
static int64_t rewrite_matrices(const mil_type *t) {
    int64_t count = 1;
    for (int d = 0; d < t->rank - 2; d++) count *= t->dim[d];
    return count;
}

/* Returns the operand of the operation that makes v if the operation only moves or repeats whole matrices, else
 * NULL. */
static mil_value *rewrite_placed(const mil_value *v) {
    int perm[MIL_MAX_RANK], rank = v->type.rank;
    mil_opcode code = v->def && !v->constant ? v->def->info->code : MIL_OP_const;
    bool reshape = code == MIL_OP_reshape || code == MIL_OP_expand_dims || code == MIL_OP_squeeze;
    if (rank < 2 || (!reshape && code != MIL_OP_transpose && code != MIL_OP_tile)) return NULL;
    mil_value *x = mil_in(v->def, "x");
    if (x->constant || x->type.rank < 2) return NULL;
    for (int d = 1; d <= 2; d++)
        if (x->type.dim[x->type.rank - d] != v->type.dim[rank - d]) return NULL;
    if (code != MIL_OP_transpose) return x;
    bool planes = mil_attr_perm(v->def, perm, NULL) == PROPANE_OK && perm[rank - 1] == rank - 1;
    return planes && perm[rank - 2] == rank - 2 ? x : NULL;
}

/* Returns the index in rewrite_placed(v) of the matrix that is matrix `i` of v, or -1 if the permutation cannot be
 * read. */
static int64_t rewrite_source_matrix(const mil_value *v, int64_t i) {
    const mil_type *x = &mil_in(v->def, "x")->type;
    int perm[MIL_MAX_RANK], rank = v->type.rank;
    int64_t at[MIL_MAX_RANK], from = 0;
    mil_opcode code = v->def->info->code;
    if (code != MIL_OP_transpose && code != MIL_OP_tile) return i;
    for (int d = 0; d < rank; d++) perm[d] = d;
    if (code == MIL_OP_transpose && mil_attr_perm(v->def, perm, NULL) != PROPANE_OK) return -1;
    for (int d = rank - 3; d >= 0; d--) {
        at[perm[d]] = i % v->type.dim[d] % x->dim[perm[d]];
        i /= v->type.dim[d];
    }
    for (int d = 0; d < rank - 2; d++) from = from * x->dim[d] + at[d];
    return from;
}

/* Returns the value whose matrices y repeats, and sets *times to how often each matrix is repeated in a row. If there
 * is no such value, returns y and sets *times to 1. */
static mil_value *rewrite_repeated(mil_value *y, int64_t *times) {
    enum { MOST_STEPS = 8, MOST_MATRICES = 0x1ffff };
    const int64_t count = rewrite_matrices(&y->type);
    mil_value *best = y, *v = y;
    *times = 1;
    if (count > MOST_MATRICES) return y;
    for (int steps = 1; steps <= MOST_STEPS && (v = rewrite_placed(v)); steps++) {
        const int64_t made = rewrite_matrices(&v->type);
        bool regular = count % made == 0;
        for (int64_t i = 0; i < count && regular; i++) {
            int64_t from = i;
            const mil_value *at = y;
            for (int k = 0; k < steps; k++) from = rewrite_source_matrix(at, from), at = rewrite_placed(at);
            regular = from == i / (count / made);
        }
        if (regular) best = v, *times = count / made;
    }
    return best;
}

/* Rewrites two kinds of products. If several matrices of x are multiplied by the same matrix of y, they become the rows
 * of one matrix. If an operand is transposed first, the product transposes it itself. */
static mil_value *rewrite_matmul(mil_builder *b, const mil_op *op) {
    bool tx = false, ty = false;
    int64_t times;
    mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    const mil_type *out = &op->results[0]->type;
    if (mil_attr_bool(op, "transpose_x", &tx, NULL) || mil_attr_bool(op, "transpose_y", &ty, NULL)) return NULL;
    mil_value *other = rewrite_turned(b, y);
    if (other) y = other, ty = !ty;
    mil_value *few = rewrite_repeated(y, &times);
    if (times == 1 || tx || rewrite_matrices(&x->type) != rewrite_matrices(&y->type))
        return other ? mil_build_matmul(b, x, other, tx, ty) : NULL;
    const int64_t count = rewrite_matrices(&few->type), rows = times * x->type.dim[x->type.rank - 2];
    x = mil_build_reshape(b, x, (int64_t[]){count, rows, x->type.dim[x->type.rank - 1]}, 3);
    const int64_t dim[] = {count, few->type.dim[few->type.rank - 2], few->type.dim[few->type.rank - 1]};
    few = mil_build_reshape(b, few, dim, 3);
    return mil_build_reshape(b, mil_build_matmul(b, x, few, false, ty), out->dim, out->rank);
}

/* Moves the factor of a reshaped product before the reshape, where the product's task can absorb the factor. */
static mil_value *rewrite_factor(mil_builder *b, const mil_op *op) {
    double v;
    mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    if (compile_scalar(x, &v)) x = y, y = mil_in(op, "x");
    if (!compile_scalar(y, &v) || !x->def || x->constant || x->def->info->code != MIL_OP_reshape) return NULL;
    mil_value *product = mil_in(x->def, "x");
    if (!product->def || product->def->info->code != MIL_OP_matmul || y->type.rank > product->type.rank) return NULL;
    const mil_type *out = &op->results[0]->type;
    return mil_build_reshape(b, mil_build_binary(b, MIL_OP_mul, product, y), out->dim, out->rank);
}

/* The operations that are replaced, in the order in which the function is searched for them. */
static const struct {
    mil_opcode code;
    rewrite_make make;
} rewrite_rows[] = {{MIL_OP_matmul, rewrite_matmul},   {MIL_OP_mul, rewrite_factor},
                    {MIL_OP_real_div, rewrite_divide}, {MIL_OP_stack, rewrite_stack},
                    {MIL_OP_tile, rewrite_tile},       {MIL_OP_transpose, rewrite_transpose}};

enum { REWRITE_ROWS = sizeof rewrite_rows / sizeof rewrite_rows[0] };

static bool rewrite_fits(int row, const mil_op *op) {
    double v;
    if (rewrite_rows[row].code != op->info->code || op->results[0]->constant) return false;
    return op->info->code != MIL_OP_real_div || !compile_scalar(mil_in(op, "y"), &v);
}

/* Replaces an operation by what its row builds, if anything. The new value keeps the old name, because it may be a
 * result of the function. */
static propane_status rewrite_one(mil_function *f, int row, mil_op *op, propane_error *err) {
    mil_value *old = op->results[0];
    const char *name = old->name;
    mil_builder b;
    mil_build_resume(&b, f);
    b.before = op;
    mil_op *before = op->prev;
    mil_value *with = rewrite_rows[row].make(&b, op);
    if (b.err.status) return propane_fail(err, b.err.status, "%s", b.err.text);
    if (!with) return PROPANE_OK;
    for (mil_op *made = before ? before->next : f->first; made != op; made = made->next)
        made->line = op->line, made->column = op->column; /* errors name the original operation's place */
    mil_replace_uses(f, old, with);
    mil_op_remove(op);
    return mil_rename(f, with, name, err);
}

static bool rewrite_any(void *context, const char *name) {
    (void)context, (void)name;
    return true;
}

bool compile_needs_rewrite(const mil_function *f) {
    for (const mil_op *op = f->first; op; op = op->next) {
        if (mil_op_compressed(op)) return true;
        for (int row = 0; row < REWRITE_ROWS; row++)
            if (rewrite_fits(row, op)) return true;
    }
    return false;
}

propane_status compile_rewrite(const mil_function *f, mil_module *m, mil_function **out, propane_error *err) {
    int count;
    PROPANE_TRY(mil_function_copy(f, m, f->name, out, err));
    PROPANE_TRY(pass_decompress(*out, rewrite_any, NULL, &count, err));
    for (int row = 0; row < REWRITE_ROWS; row++)
        for (mil_op *op = (*out)->first, *next; op; op = next) {
            next = op->next;
            if (rewrite_fits(row, op)) PROPANE_TRY(rewrite_one(*out, row, op, err));
        }
    return pass_run(*out, &(pass_options){.drop_unused = true}, err);
}
