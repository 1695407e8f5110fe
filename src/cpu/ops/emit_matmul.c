/* SPDX-License-Identifier: MIT
 * Emits matrix products. matmul, linear and 1x1 conv each become one cpu_gemm, for any layout of their operands,
 * including the sum or the bias after them. Batch dimensions are merged, and moved into m or n if the layout allows it.
 * If the remaining batch dimensions do not have a single stride, tables of pointers are used.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/gemm/gemm_blas.h"
#include "cpu/gemm/gemm_choice.h"
#include "cpu/ops/emit_gemv.h"
#include "cpu/ops/emitters.h"
#include "cpu/ops/matmul_step.h"
#include "cpu/plan/emit.h"
#include "cpu/plan/facts.h"
#include "cpu/signed_rows.h"

/* A matrix product as views. Element (i, j) of batch item (b0, b1, ...) is at i * row + j * col + b0 * step[0] + ... of
 * its view. */
typedef struct product {
    int64_t m, n, k;
    int rank; /* rank of the batch */
    int64_t dim[MIL_MAX_RANK];
    cpu_view view[4]; /* A, B, C, residual: their buffer, offset and type */
    int64_t row[4], col[4], step[4][MIL_MAX_RANK];
    bool residual;
} product;

/* ---- describing -------------------------------------------------------------------------------------------------- */

static bool emit_matmul_float_operands(const mil_op *op) {
    mil_dtype t = op->results[0]->type.dtype;
    return t == MIL_fp32 || t == MIL_fp16;
}

/* Sets *out to the view of the operand, or of its stored form if only a cast or the unpacking of few-bit weights is in
 * between. */
static propane_status emit_matmul_operand(planner *p, const mil_value *v, cpu_view *out, propane_error *err) {
    const mil_value *stored = p->g.weights[v->id].data;
    if (stored) {
        cpu_view whole;
        PROPANE_TRY(cpu_emit_operand(p, stored, &whole, err));
        *out = cpu_view_dense(&v->type, whole.buffer);
        out->dtype = whole.dtype;
        out->offset = whole.offset;
        return PROPANE_OK;
    }
    return cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, out, err);
}

/* Computes the strides of the leading dimensions of `v` over the batch. */
static void emit_matmul_batch_steps(product *r, int which, const cpu_view *v, int kept) {
    cpu_view lead = *v;
    lead.rank = v->rank > kept ? v->rank - kept : 0;
    cpu_view_spread(&lead, r->rank, r->dim, r->step[which]);
}

static void emit_matmul_set_matrix(product *r, int which, const cpu_view *v, bool transposed) {
    int row = v->rank - 2, col = v->rank - 1;
    r->view[which] = *v;
    r->row[which] = v->stride[transposed ? col : row];
    r->col[which] = v->stride[transposed ? row : col];
    emit_matmul_batch_steps(r, which, v, 2);
}

static propane_status emit_matmul_describe_matmul(planner *p, const mil_op *op, const cpu_view *c, product *r,
                                                  propane_error *err) {
    bool tx = false, ty = false;
    cpu_view x, y, z = *c;
    PROPANE_TRY(emit_matmul_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(emit_matmul_operand(p, mil_in(op, "y"), &y, err));
    PROPANE_TRY(mil_attr_bool(op, "transpose_x", &tx, err));
    PROPANE_TRY(mil_attr_bool(op, "transpose_y", &ty, err));
    bool vector_x = x.rank == 1, vector_y = y.rank == 1;
    if (vector_x) x = cpu_view_insert(&x, 0), tx = false;
    if (vector_y) y = cpu_view_insert(&y, 1), ty = false;
    if (vector_x) z = cpu_view_insert(&z, vector_y ? z.rank : z.rank - 1);
    if (vector_y) z = cpu_view_insert(&z, z.rank);
    r->rank = z.rank - 2;
    memcpy(r->dim, z.dim, sizeof r->dim);
    emit_matmul_set_matrix(r, 0, &x, tx);
    emit_matmul_set_matrix(r, 1, &y, ty);
    emit_matmul_set_matrix(r, 2, &z, false);
    r->m = z.dim[z.rank - 2];
    r->n = z.dim[z.rank - 1];
    r->k = x.dim[x.rank - (tx ? 2 : 1)];
    return PROPANE_OK;
}

static propane_status emit_matmul_describe_linear(planner *p, const mil_op *op, const cpu_view *c, product *r,
                                                  propane_error *err) {
    cpu_view x, w, z = *c, bias;
    PROPANE_TRY(emit_matmul_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(emit_matmul_operand(p, mil_in(op, "weight"), &w, err));
    if (x.rank == 1) {
        x = cpu_view_insert(&x, 0);
        z = cpu_view_insert(&z, 0);
    }
    r->rank = z.rank - 2;
    memcpy(r->dim, z.dim, sizeof r->dim);
    emit_matmul_set_matrix(r, 0, &x, false);
    emit_matmul_set_matrix(r, 1, &w, true);
    emit_matmul_set_matrix(r, 2, &z, false);
    r->m = z.dim[z.rank - 2];
    r->n = z.dim[z.rank - 1];
    r->k = x.dim[x.rank - 1];
    if (!mil_in(op, "bias")) return PROPANE_OK;
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "bias"), &bias, err));
    r->residual = true;
    r->view[3] = bias;
    r->row[3] = 0;
    r->col[3] = bias.rank && bias.dim[bias.rank - 1] != 1 ? bias.stride[bias.rank - 1] : 0;
    return PROPANE_OK;
}

/* Views the result of a convolution, or a value of that shape, as [N, G, O/G, P] by merging the spatial dimensions.
 * Returns false if these cannot be merged, for example after a transpose. */
static bool emit_matmul_conv_points(const mil_op *op, const cpu_view *v, cpu_view *out) {
    mil_conv conv;
    if (mil_conv_read(op, &conv, NULL)) return false;
    int64_t points = 1;
    for (int d = 0; d < conv.spatial; d++) points *= conv.out[d];
    return cpu_view_reshape(v, 4, (int64_t[]){conv.n, conv.groups, conv.c_out / conv.groups, points}, out);
}

/* Describes a convolution as the product of weights [G, O/G, C/G] and images [N, G, C/G, P]. The caller has made sure
 * that `c` can be viewed in this way. */
static propane_status emit_matmul_describe_conv(planner *p, const mil_op *op, const cpu_view *c, product *r,
                                                propane_error *err) {
    mil_conv conv;
    cpu_view x, w, z, bias;
    PROPANE_TRY(mil_conv_read(op, &conv, err));
    PROPANE_TRY(emit_matmul_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(emit_matmul_operand(p, mil_in(op, "weight"), &w, err));
    int64_t points = 1;
    for (int d = 0; d < conv.spatial; d++) points *= conv.out[d];
    int64_t g = conv.groups, ci = conv.c_in / g, co = conv.c_out / g;
    if (!cpu_view_reshape(&x, 4, (int64_t[]){conv.n, g, ci, points}, &x)) {
        PROPANE_TRY(cpu_emit_dense(p, op->results[0], &x, &x, err));
        (void)cpu_view_reshape(&x, 4, (int64_t[]){conv.n, g, ci, points}, &x);
    }
    if (!cpu_view_reshape(&w, 3, (int64_t[]){g, co, ci}, &w)) {
        PROPANE_TRY(cpu_emit_dense(p, op->results[0], &w, &w, err));
        (void)cpu_view_reshape(&w, 3, (int64_t[]){g, co, ci}, &w);
    }
    (void)emit_matmul_conv_points(op, c, &z);
    r->rank = 2;
    r->dim[0] = conv.n;
    r->dim[1] = g;
    emit_matmul_set_matrix(r, 0, &w, false);
    emit_matmul_set_matrix(r, 1, &x, false);
    emit_matmul_set_matrix(r, 2, &z, false);
    r->m = co;
    r->n = points;
    r->k = ci;
    if (!mil_in(op, "bias")) return PROPANE_OK;
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "bias"), &bias, err));
    r->residual = true;
    r->view[3] = bias;
    r->row[3] = bias.stride[0];
    r->col[3] = 0;
    r->step[3][1] = co * bias.stride[0];
    return PROPANE_OK;
}

static void emit_matmul_add_residual(product *r, const cpu_view *v) {
    cpu_view z = *v;
    while (z.rank < r->view[2].rank) z = cpu_view_insert(&z, 0);
    emit_matmul_set_matrix(r, 3, &z, false);
    r->residual = true;
}

/* ---- the batch --------------------------------------------------------------------------------------------------- */

static void emit_matmul_remove_dim(product *r, int d) {
    for (int i = d; i + 1 < r->rank; i++) {
        r->dim[i] = r->dim[i + 1];
        for (int w = 0; w < 4; w++) r->step[w][i] = r->step[w][i + 1];
    }
    r->rank--;
}

static void emit_matmul_merge_batch(product *r) {
    for (int d = r->rank - 1; d >= 0; d--)
        if (r->dim[d] == 1) emit_matmul_remove_dim(r, d);
    for (int d = r->rank - 2; d >= 0; d--) {
        bool same = true;
        for (int w = 0; w < 3 + r->residual; w++) same &= r->step[w][d] == r->step[w][d + 1] * r->dim[d + 1];
        if (!same) continue;
        r->dim[d + 1] *= r->dim[d];
        emit_matmul_remove_dim(r, d);
    }
}

/* If all items share B and their rows continue from one item to the next, the items become one matrix with more rows.
 * Columns are treated likewise if all items share A. */
static void emit_matmul_fold_batch(product *r) {
    while (r->rank > 0) {
        int d = r->rank - 1;
        bool rows = r->step[1][d] == 0, cols = r->step[0][d] == 0;
        for (int w = 0; w < 3 + r->residual; w++) {
            if (w != 1) rows &= r->step[w][d] == r->m * r->row[w];
            if (w != 0) cols &= r->step[w][d] == r->n * r->col[w];
        }
        if (!rows && !cols) break;
        if (rows)
            r->m *= r->dim[d];
        else
            r->n *= r->dim[d];
        r->rank--;
    }
}

/* Returns the offsets in bytes from the first item to the others. */
static int64_t *emit_matmul_item_offsets(planner *p, const product *r, int which, int64_t count) {
    int64_t *out = ARENA_ARRAY(p->arena, count + 1, int64_t);
    int element = cpu_view_dtype_bytes(r->view[which].dtype);
    for (int64_t b = 0; out && b < count; b++) {
        int64_t rest = b;
        for (int d = r->rank - 1; d >= 0; d--) {
            out[b] += rest % r->dim[d] * r->step[which][d] * element;
            rest /= r->dim[d];
        }
    }
    return out;
}

/* ---- emission ---------------------------------------------------------------------------------------------------- */

static cpu_matrix emit_matmul_matrix_of(const product *r, int which) {
    return (cpu_matrix){.dtype = r->view[which].dtype == MIL_fp16 ? CPU_F16 : CPU_F32,
                        .row_stride = r->row[which],
                        .col_stride = r->col[which],
                        .batch_stride = r->rank ? r->step[which][r->rank - 1] : 0};
}

/* Packs an operand now if it is a constant that all items share. Sets *packed to whether it was packed. */
static propane_status emit_matmul_pack_constant(planner *p, const product *r, matmul_step *a, int which, bool *packed,
                                                propane_error *err) {
    cpu_matrix *m = which ? &a->g.b : &a->g.a;
    cpu_gemm_side side = which ? CPU_GEMM_B : CPU_GEMM_A;
    const cpu_buffer *source = &p->buffers[r->view[which].buffer];
    *packed = false;
    if (source->place != CPU_STORAGE_CONST || a->offset[which] || a->rounds > 1 || m->pieces) return PROPANE_OK;
    if (a->g.batch > 1 && m->batch_stride) return PROPANE_OK;
    size_t bytes = cpu_gemm_pack_bytes(&a->g, side);
    if (!bytes) return PROPANE_OK;
    unsigned char *memory = arena_alloc(p->work, bytes + 64);
    if (!memory) return cpu_program_no_memory(err);
    memory += (64 - (uintptr_t)memory % 64) % 64;
    m->data = (const unsigned char *)source->data + cpu_view_ref(&r->view[which]).byte;
    if (!p->check) cpu_gemm_pack(&a->g, side, memory);
    m->data = NULL;
    int b = cpu_emit_buffer(p, CPU_STORAGE_CONST, (int64_t)bytes);
    if (b < 0) return cpu_program_no_memory(err);
    p->buffers[b].data = memory;
    cpu_emit_touch(p, b);
    a->packed_at[which] = (cpu_ref){b, 0};
    *packed = true;
    return PROPANE_OK;
}

/* Returns true if two products have the same B and pack it in the same way. The division of k depends on which side of
 * C is longer, so this must be the same side. */
static bool emit_matmul_same_b(const matmul_step *x, const matmul_step *y) {
    const cpu_matrix *b = &x->g.b, *c = &y->g.b;
    const bool whole = x->g.batch == 1 && y->g.batch == 1 && x->rounds == 1 && y->rounds == 1;
    const bool same = x->at[1].buffer == y->at[1].buffer && x->at[1].byte == y->at[1].byte && b->dtype == c->dtype &&
                      b->row_stride == c->row_stride && b->col_stride == c->col_stride;
    const bool shape = x->g.n == y->g.n && x->g.k == y->g.k && x->g.bf16 == y->g.bf16 && x->g.piece == y->g.piece &&
                       (x->g.m > x->g.n) == (y->g.m > y->g.n);
    if (!whole || !same || !shape) return false;
    for (int64_t k = 0; x->g.piece && k < x->g.k / x->g.piece; k++)
        if (b->pieces[k] != c->pieces[k]) return false;
    return true;
}

/* Shares B with the previous product, which packs it: X of q, k and v, of gate and up, or of their weights' gradients.
 * The previous product was planned before this was known; from now on, it packs B for both. */
static propane_status emit_matmul_share_packed(planner *p, matmul_step *a, propane_error *err) {
    matmul_step *before = p->last_product;
    p->last_product = a;
    if (!before || a->packed_b || !emit_matmul_same_b(before, a) ||
        (before->packed_b && !before->packs_b && !before->reads_b))
        return PROPANE_OK;
    if (a->g.m < a->g.n || before->g.m < a->g.n || a->g.c.col_stride != 1 || before->g.c.col_stride != 1)
        return PROPANE_OK;
    size_t bytes = cpu_gemm_pack_bytes(&a->g, CPU_GEMM_B);
    if (!bytes) return PROPANE_OK;
    if (!before->packed_b) {
        cpu_ref at;
        PROPANE_TRY(cpu_emit_scratch(p, (int64_t)bytes, &at, err));
        p->buffers[at.buffer].first = before->step;
        before->packed_at[1] = at;
        before->packed_b = before->packs_b = true;
        const int64_t scratch = matmul_step_scratch(before, p->threads);
        cpu_buffer *room = &p->buffers[before->scratch.buffer];
        if (room->bytes < scratch) room->bytes = scratch;
    }
    a->packed_at[1] = before->packed_at[1];
    a->packed_b = a->reads_b = true;
    cpu_emit_touch(p, a->packed_at[1].buffer);
    p->program->shared_count++;
    return PROPANE_OK;
}

/* Returns true if a single stride leads from each item to the next. */
static bool emit_matmul_has_one_stride(const product *r, int which) {
    for (int d = 0; d + 1 < r->rank; d++)
        if (r->step[which][d] != r->step[which][d + 1] * r->dim[d + 1]) return false;
    return true;
}

/* Makes tables for the operands that need one. An operand that all items share stays shared. */
static propane_status emit_matmul_make_tables(planner *p, const product *r, matmul_step *a, propane_error *err) {
    for (int w = 0; w < 3 + r->residual; w++)
        if (!emit_matmul_has_one_stride(r, w) && !(a->offset[w] = emit_matmul_item_offsets(p, r, w, a->g.batch)))
            return cpu_program_no_memory(err);
    return cpu_emit_scratch(p, 4 * a->g.batch * (int64_t)sizeof(void *), &a->table, err);
}

static propane_status emit_matmul_share_residual(planner *p, const product *r, propane_error *err) {
    const cpu_view *c = &r->view[2], *s = &r->view[3];
    if (c->dtype != s->dtype || c->offset || s->offset || r->row[2] != r->row[3] || r->col[2] != r->col[3])
        return PROPANE_OK;
    for (int d = 0; d < r->rank; d++)
        if (r->step[2][d] != r->step[3][d]) return PROPANE_OK;
    if (s->buffer == r->view[0].buffer || s->buffer == r->view[1].buffer) return PROPANE_OK;
    return cpu_emit_may_share(p, s, c, err);
}

static cpu_matrix_view emit_matmul_matrix_view_of(const product *r, int which) {
    return (cpu_matrix_view){.dtype = r->view[which].dtype == MIL_fp16 ? CPU_F16 : CPU_F32,
                             .row_stride = r->row[which],
                             .col_stride = r->col[which]};
}

/* Emits weights times a few vectors if possible. Sets *done to whether it did. */
static propane_status emit_vectors(planner *p, const product *r, const cpu_stored_weights *w, const mil_value *makes,
                                   bool *done, propane_error *err) {
    cpu_emit_vectors v = {.format = r->view[0].dtype == MIL_fp16 ? CPU_WEIGHTS_F16 : CPU_WEIGHTS_F32,
                          .m = r->m,
                          .k = r->k,
                          .n = r->n,
                          .w = r->view[0],
                          .x = r->view[1],
                          .c = r->view[2],
                          .residual = r->view[3],
                          .w_row = r->row[0],
                          .w_col = r->col[0],
                          .x_matrix = emit_matmul_matrix_view_of(r, 1),
                          .c_matrix = emit_matmul_matrix_view_of(r, 2),
                          .residual_matrix = emit_matmul_matrix_view_of(r, 3),
                          .has_residual = r->residual};
    if (w->data) {
        v.format = (cpu_weights)w->format;
        v.scales = w->scales;
    }
    *done = r->rank == 0 && cpu_emit_takes_gemv(p, &v);
    if (!*done) return PROPANE_OK;
    if (r->residual) PROPANE_TRY(emit_matmul_share_residual(p, r, err));
    return cpu_emit_gemv(p, &v, makes, err);
}

/* Handles an A made from weights in a form that matrix products cannot read directly. */
static propane_status emit_matmul_take_stored(planner *p, const cpu_stored_weights *w, matmul_step *a,
                                              propane_error *err) {
    if (!w || !w->data || w->format == CPU_WEIGHTS_F16) return PROPANE_OK;
    a->has_stored = true;
    a->stored = (cpu_stored){.format = (cpu_weights)w->format, .k = a->g.k};
    a->scales.buffer = -1;
    a->g.a.stored = &a->stored; /* only during planning */
    if (!w->scales) return PROPANE_OK;
    cpu_view scales;
    PROPANE_TRY(cpu_emit_operand(p, w->scales, &scales, err));
    a->scales = cpu_view_ref(&scales);
    cpu_emit_touch(p, scales.buffer);
    return PROPANE_OK;
}

static propane_status emit_matmul_take_squares(planner *p, const mil_op *op, matmul_step *a, propane_error *err) {
    cpu_view view;
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &view, err));
    cpu_emit_touch(p, view.buffer);
    a->squares_at = cpu_view_ref(&view);
    a->has_squares = true;
    p->program->squares_count++;
    return PROPANE_OK;
}

/* Decides whether the library computes a large product. The library reads constants directly and shares no packed
 * operand. */
static void emit_matmul_choose_library(planner *p, matmul_step *a) {
    const cpu_blas *blas = p->g.options.blas;
    cpu_gemm shape = a->g;
    shape.threads = p->g.options.threads;
    if (a->has_residual) shape.residual = &a->residual;
    a->counted = blas && cpu_gemm_blas_takes(blas, &shape);
    if (a->counted && !p->check && cpu_gemm_choose_blas(blas, &shape)) a->blas = blas;
}

static propane_status emit_matmul_prepare_own(planner *p, const product *r, matmul_step *a, propane_error *err) {
    PROPANE_TRY(emit_matmul_pack_constant(p, r, a, 0, &a->packed_a, err));
    return emit_matmul_pack_constant(p, r, a, 1, &a->packed_b, err);
}

/* `weights` describes what A is made from. If `weights` is NULL or has no data, A is a normal operand. */
static propane_status emit_product(planner *p, product *r, const cpu_node *node, const cpu_stored_weights *weights,
                                   const mil_value *makes, propane_error *err) {
    const bool folded = node->folded != NULL;
    matmul_step *a = ARENA_NEW(p->arena, matmul_step);
    if (!a) return cpu_program_no_memory(err);
    int64_t items = 1;
    for (int d = 0; d < r->rank; d++) items *= r->dim[d];
    /* If the shape permits, the sum is one product whose k spans all items. */
    bool whole = folded && r->k % CPU_GEMM_PIECE == 0 && r->m > 1 && r->n > 1;
    a->rounds = folded && !whole ? items : 1;
    if (folded) {
        for (int w = 0; w < 2; w++)
            if (!(a->round_offset[w] = emit_matmul_item_offsets(p, r, w, items))) return cpu_program_no_memory(err);
    }
    a->g = (cpu_gemm){
        .kernels = p->g.options.kernels, .m = r->m, .n = r->n, .k = r->k, .batch = folded ? 1 : items, .alpha = 1};
    if (whole) a->g.k = r->k * items;
    if (whole) a->g.piece = r->k;
    if (folded) r->rank = 0;
    a->g.a = emit_matmul_matrix_of(r, 0);
    a->g.b = emit_matmul_matrix_of(r, 1);
    a->g.c = emit_matmul_matrix_of(r, 2);
    if (whole) a->g.a.pieces = a->round_offset[0], a->g.b.pieces = a->round_offset[1];
    a->residual = emit_matmul_matrix_of(r, 3);
    a->has_residual = r->residual;
    a->g.bf16 = p->g.options.bf16 && a->g.a.dtype == CPU_F32 && a->g.b.dtype == CPU_F32;
    PROPANE_TRY(emit_matmul_take_stored(p, weights, a, err));
    if (r->rank > 1) PROPANE_TRY(emit_matmul_make_tables(p, r, a, err));
    emit_matmul_choose_library(p, a);
    if (!a->blas) PROPANE_TRY(emit_matmul_prepare_own(p, r, a, err));
    for (int w = 0; w < 3 + r->residual; w++) {
        a->at[w] = cpu_view_ref(&r->view[w]);
        if (!(w == 0 && a->packed_a) && !(w == 1 && a->packed_b)) cpu_emit_touch(p, r->view[w].buffer);
    }
    if (node->squares) PROPANE_TRY(emit_matmul_take_squares(p, node->squares, a, err));
    a->g.a.stored = NULL;
    a->step = p->step_count;
    if (a->blas)
        p->last_product = NULL;
    else
        PROPANE_TRY(emit_matmul_share_packed(p, a, err));
    PROPANE_TRY(cpu_emit_scratch(p, matmul_step_scratch(a, p->threads), &a->scratch, err));
    if (r->residual) PROPANE_TRY(emit_matmul_share_residual(p, r, err));
    double flops = 2.0 * (double)r->m * (double)r->n * (double)r->k * (double)items, bytes = 0;
    for (int w = 0; w < 3 + r->residual; w++)
        bytes += (double)cpu_view_count(&r->view[w]) * cpu_view_dtype_bytes(r->view[w].dtype);
    p->program->gemm_count++;
    return cpu_emit_step(p, matmul_step_run, a, a->blas ? "blas" : "gemm", makes, flops, bytes, err);
}

/* Returns the result of a sum over the batch as the product sees it, with batch strides of 0. */
static cpu_view emit_matmul_unfolded(const mil_type *shape, const cpu_view *sum) {
    cpu_view out = *sum;
    cpu_view last = *sum;
    last.rank = 2;
    for (int d = 0; d < 2; d++) {
        last.dim[d] = sum->dim[sum->rank - 2 + d];
        last.stride[d] = sum->stride[sum->rank - 2 + d];
    }
    out.rank = shape->rank;
    cpu_view_spread(&last, shape->rank, shape->dim, out.stride);
    memcpy(out.dim, shape->dim, sizeof out.dim);
    return out;
}

/* Describes the other term of the sum after the product as the residual, viewed in the product's shape. */
static propane_status emit_matmul_take_added(planner *p, const cpu_node *node, const mil_op *op, const mil_value *inner,
                                             product *r, propane_error *err) {
    const mil_value *x = mil_in(node->added, "x"), *other = x;
    const mil_type *shape = &inner->type;
    cpu_view view;
    for (int i = 0; i < node->op_count; i++) /* skip the term that the node makes itself */
        if (node->ops[i]->results[0] == x) other = mil_in(node->added, "y");
    PROPANE_TRY(cpu_emit_operand(p, other, &view, err));
    if (!cpu_view_reshape(&view, shape->rank, shape->dim, &view)) {
        PROPANE_TRY(cpu_emit_dense(p, other, &view, &view, err));
        (void)cpu_view_reshape(&view, shape->rank, shape->dim, &view);
    }
    if (node->folded) view = emit_matmul_unfolded(&op->results[0]->type, &view);
    if (cpu_family_of(op) == CPU_FAMILY_conv && !emit_matmul_conv_points(op, &view, &view)) {
        PROPANE_TRY(cpu_emit_dense(p, other, &view, &view, err));
        (void)emit_matmul_conv_points(op, &view, &view);
    }
    emit_matmul_add_residual(r, &view);
    return PROPANE_OK;
}

propane_status cpu_emit_matmul(planner *p, const cpu_node *node, propane_error *err) {
    const mil_op *op = NULL, *last = node->ops[node->op_count - 1];
    product r = {0};
    cpu_view target, c, product_c;
    for (int i = 0; i < node->op_count; i++)
        if (cpu_plan_is_product(node->ops[i])) op = node->ops[i];
    const mil_value *inner = node->folded ? node->folded->results[0] : op->results[0];
    PROPANE_TRY(cpu_emit_result(p, last->results[0], &target, err));
    bool direct = cpu_view_reshape(&target, inner->type.rank, inner->type.dim, &c);
    if (direct && cpu_family_of(op) == CPU_FAMILY_conv) direct = emit_matmul_conv_points(op, &c, &product_c);
    if (!direct) {
        int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, cpu_view_count(&target) * cpu_view_dtype_bytes(target.dtype));
        if (b < 0) return cpu_program_no_memory(err);
        c = cpu_view_dense(&inner->type, b);
    }
    const cpu_family family = cpu_family_of(op);
    product_c = node->folded ? emit_matmul_unfolded(&op->results[0]->type, &c) : c;
    if (family == CPU_FAMILY_matmul)
        PROPANE_TRY(emit_matmul_describe_matmul(p, op, &product_c, &r, err));
    else if (family == CPU_FAMILY_linear)
        PROPANE_TRY(emit_matmul_describe_linear(p, op, &product_c, &r, err));
    else
        PROPANE_TRY(emit_matmul_describe_conv(p, op, &product_c, &r, err));
    if (node->added) PROPANE_TRY(emit_matmul_take_added(p, node, op, inner, &r, err));
    if (!node->folded) {
        emit_matmul_merge_batch(&r);
        emit_matmul_fold_batch(&r);
    }
    bool done = false;
    const cpu_stored_weights *weights = family == CPU_FAMILY_matmul ? &p->g.weights[mil_in(op, "x")->id] : NULL;
    if (weights && !node->folded && !node->squares)
        PROPANE_TRY(emit_vectors(p, &r, weights, last->results[0], &done, err));
    if (!done) PROPANE_TRY(emit_product(p, &r, node, weights, last->results[0], err));
    if (direct) return PROPANE_OK;
    cpu_view dense = cpu_view_dense(&last->results[0]->type, c.buffer);
    return cpu_emit_copy(p, last->results[0], &dense, &target, err);
}

static propane_status emit_alone(planner *p, const mil_op *op, propane_error *err) {
    return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "a matrix product outside its node");
}

static bool emit_matmul_takes_matmul(const mil_op *op) {
    return emit_matmul_float_operands(op) && !cpu_signed_rows_is(op);
}

const cpu_emitter cpu_emitter_matmul = {
    .emit = emit_alone, .takes = emit_matmul_takes_matmul, .otherwise = CPU_FAMILY_pick};
const cpu_emitter cpu_emitter_linear = {.emit = emit_alone, .takes = emit_matmul_float_operands};
