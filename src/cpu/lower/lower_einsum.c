/* SPDX-License-Identifier: MIT
 * Expands einsum into reductions, transposes and one matrix product per operand after the first. A letter that both
 * operands have becomes a batch dimension if it is needed later; otherwise the product sums over it. Sums of fp16
 * operands that would be rounded more than once are computed in fp32.
 *
 * The slow reference handles a letter that occurs twice in one operand, integers, and more than eight dimensions in an
 * intermediate value.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/lower/lower.h"

typedef struct term {
    mil_value *value;
    int count;
    char letters[2 * MIL_MAX_RANK + 1];
} term;

static bool lower_einsum_has(const char *letters, int count, char c) {
    return count && memchr(letters, c, (size_t)count) != NULL;
}
static bool lower_einsum_has_letter(const term *t, char c) { return lower_einsum_has(t->letters, t->count, c); }
static void lower_einsum_add_letter(term *t, char c) { t->letters[t->count++] = c; }

/* Reads the letters of the equation's terms and of its result. Returns false if the equation is not supported. */
static bool lower_einsum_read_terms(const char *equation, int count, term *terms, term *result) {
    const char *c = equation;
    for (int k = 0; k <= count; k++) {
        term *t = k < count ? &terms[k] : result;
        for (; *c && *c != ',' && *c != '-'; c++) {
            if (*c == ' ') continue;
            if (lower_einsum_has_letter(t, *c) || t->count == MIL_MAX_RANK) return false;
            lower_einsum_add_letter(t, *c);
        }
        c += *c == '-' ? 2 : *c == ',';
    }
    return true;
}

/* Drops dimensions of extent 1 that another operand broadcasts. */
static void lower_einsum_drop_repeated(mil_builder *b, const mil_einsum *e, term *t) {
    int64_t dim[MIL_MAX_RANK];
    const mil_type type = t->value->type;
    int kept = 0;
    for (int d = 0; d < type.rank; d++) {
        int64_t whole = 0;
        for (int l = 0; l < e->label_count; l++)
            if (e->letter[l] == t->letters[d]) whole = e->size[l];
        if (type.dim[d] != whole) continue;
        dim[kept] = type.dim[d];
        t->letters[kept++] = t->letters[d];
    }
    if (kept == t->count) return;
    t->count = kept;
    if (!kept) dim[kept++] = 1; /* a scalar is kept as one dimension without a letter */
    t->value = mil_build_reshape(b, t->value, dim, kept);
}

/* Sums over the letters that neither the result nor another operand has. */
static void lower_einsum_sum_alone(mil_builder *b, term *t, const term *wanted) {
    int64_t axes[MIL_MAX_RANK];
    int count = 0, kept = 0;
    for (int d = 0; d < t->count; d++) {
        if (lower_einsum_has_letter(wanted, t->letters[d]))
            t->letters[kept++] = t->letters[d];
        else
            axes[count++] = d;
    }
    if (!count) return;
    t->value = mil_build_reduce(b, MIL_OP_reduce_sum, t->value, axes, count, kept == 0);
    if (!kept) t->value = mil_build_reshape(b, t->value, (int64_t[]){1}, 1);
    t->count = kept;
}

static int64_t lower_einsum_size_of(const mil_einsum *e, char c) {
    for (int l = 0; l < e->label_count; l++)
        if (e->letter[l] == c) return e->size[l];
    return 1;
}

/* Arranges `t` as batch, first and second, where first and second become one dimension each. Returns false if there are
 * too many dimensions. */
static bool lower_einsum_arrange(mil_builder *b, const mil_einsum *e, const term *t, const term *batch,
                                 const term *first, const term *second, mil_value **out) {
    const term *const groups[] = {batch, first, second};
    int64_t perm[MIL_MAX_RANK], dim[MIL_MAX_RANK], part[2] = {1, 1};
    int rank = 0;
    bool moved = false;
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < groups[g]->count; i++) {
            const char *at = memchr(t->letters, groups[g]->letters[i], (size_t)t->count);
            perm[rank] = at - t->letters;
            moved |= perm[rank] != rank;
            rank++;
            if (g) part[g - 1] *= lower_einsum_size_of(e, groups[g]->letters[i]);
        }
    if (batch->count + 2 > MIL_MAX_RANK) return false;
    mil_value *v = t->value;
    if (moved) v = mil_build_transpose(b, v, perm, rank);
    for (int i = 0; i < batch->count; i++) dim[i] = lower_einsum_size_of(e, batch->letters[i]);
    dim[batch->count] = part[0], dim[batch->count + 1] = part[1];
    if (first->count != 1 || second->count != 1) v = v ? mil_build_reshape(b, v, dim, batch->count + 2) : NULL;
    *out = v;
    return true;
}

/* Multiplies x by y and stores the product in x. Sums over the letters that both have, unless they are in `wanted`. */
static bool lower_einsum_multiply(mil_builder *b, const mil_einsum *e, term *x, const term *y, const term *wanted) {
    term batch = {0}, summed = {0}, left = {0}, right = {0};
    mil_value *a = NULL, *c = NULL;
    for (int i = 0; i < x->count; i++) {
        const char l = x->letters[i];
        lower_einsum_add_letter(!lower_einsum_has_letter(y, l)       ? &left
                                : lower_einsum_has_letter(wanted, l) ? &batch
                                                                     : &summed,
                                l);
    }
    for (int i = 0; i < y->count; i++)
        if (!lower_einsum_has_letter(x, y->letters[i])) lower_einsum_add_letter(&right, y->letters[i]);
    if (batch.count + left.count + right.count > MIL_MAX_RANK) return false;
    /* The side whose letters come last keeps its place, which saves a transpose. */
    const bool x_last = x->count && lower_einsum_has_letter(&left, x->letters[x->count - 1]);
    const bool y_last = y->count && lower_einsum_has_letter(&summed, y->letters[y->count - 1]);
    if (!lower_einsum_arrange(b, e, x, &batch, x_last ? &summed : &left, x_last ? &left : &summed, &a) ||
        !lower_einsum_arrange(b, e, y, &batch, y_last ? &right : &summed, y_last ? &summed : &right, &c) || !a || !c)
        return false;
    mil_value *v = mil_build_matmul(b, a, c, x_last, y_last);
    int64_t dim[MIL_MAX_RANK];
    int rank = 0;
    term joined = {0};
    const term *const groups[] = {&batch, &left, &right};
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < groups[g]->count; i++) {
            lower_einsum_add_letter(&joined, groups[g]->letters[i]);
            dim[rank++] = lower_einsum_size_of(e, groups[g]->letters[i]);
        }
    if (!rank) dim[rank++] = 1;
    if (v && (left.count != 1 || right.count != 1)) v = mil_build_reshape(b, v, dim, rank);
    joined.value = v;
    *x = joined;
    return v != NULL;
}

/* Returns the value in the order and type of the result. */
static mil_value *lower_einsum_finish(mil_builder *b, const term *t, const term *result, const mil_type *type) {
    int64_t perm[MIL_MAX_RANK];
    bool moved = false;
    mil_value *v = t->value;
    for (int i = 0; i < result->count; i++) {
        const char *at = memchr(t->letters, result->letters[i], (size_t)t->count);
        perm[i] = at - t->letters;
        moved |= perm[i] != i;
    }
    if (moved) v = mil_build_transpose(b, v, perm, result->count);
    if (v && v->type.dtype != type->dtype) v = mil_build_cast(b, v, type->dtype);
    if (!v || type->rank) return v;
    mil_op *op = mil_build_op(b, MIL_OP_squeeze, NULL, (mil_argument[]){{"x", 1, &v}}, 1);
    return op ? op->results[0] : NULL;
}

/* Collects the letters of the result and of operands from..count-1 except `but`. */
static void lower_einsum_letters_of(const term *terms, int from, int count, int but, const term *result, term *out) {
    *out = *result;
    for (int j = from; j < count; j++)
        for (int i = 0; j != but && i < terms[j].count; i++)
            if (!lower_einsum_has_letter(out, terms[j].letters[i])) lower_einsum_add_letter(out, terms[j].letters[i]);
}

/* Returns true if a single sum suffices: there are two operands, and each letter of one is also in the other or in the
 * result. */
static bool lower_einsum_rounds_once(const term *terms, int count, const term *result) {
    for (int k = 0; k < count; k++) {
        term wanted;
        lower_einsum_letters_of(terms, 0, count, k, result, &wanted);
        for (int i = 0; i < terms[k].count; i++)
            if (!lower_einsum_has_letter(&wanted, terms[k].letters[i])) return false;
    }
    return count == 2;
}

static mil_value *lower_einsum_write_out(mil_builder *b, const mil_einsum *e, term *terms, int count,
                                         const term *result, const mil_type *type) {
    const bool once = lower_einsum_rounds_once(terms, count, result);
    term wanted;
    for (int k = 0; k < count; k++) {
        if (!once && terms[k].value->type.dtype == MIL_fp16)
            terms[k].value = mil_build_cast(b, terms[k].value, MIL_fp32);
        if (terms[k].value) lower_einsum_drop_repeated(b, e, &terms[k]);
        if (!terms[k].value) return NULL;
    }
    for (int k = 0; k < count; k++) {
        lower_einsum_letters_of(terms, 0, count, k, result, &wanted);
        lower_einsum_sum_alone(b, &terms[k], &wanted);
        if (!terms[k].value) return NULL;
    }
    for (int k = 1; k < count; k++) {
        lower_einsum_letters_of(terms, k + 1, count, -1, result, &wanted);
        if (!lower_einsum_multiply(b, e, &terms[0], &terms[k], &wanted)) return NULL;
    }
    return lower_einsum_finish(b, &terms[0], result, type);
}

propane_status cpu_lower_einsum(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *const *values = NULL;
    const char *equation = NULL;
    term terms[MIL_MAX_EINSUM] = {{.count = 0}}, result = {0};
    mil_einsum e;
    const int count = mil_in_list(op, "values", &values);
    PROPANE_TRY(mil_einsum_read(op, &e, err));
    PROPANE_TRY(mil_attr_text(op, "equation", &equation, err));
    if (!mil_dtype_is_float(values[0]->type.dtype) || e.label_count > MIL_MAX_RANK ||
        !lower_einsum_read_terms(equation, count, terms, &result))
        return PROPANE_OK;
    for (int k = 0; k < count; k++) terms[k].value = values[k];
    mil_value *y = lower_einsum_write_out(b, &e, terms, count, &result, &op->results[0]->type);
    if (!y) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
