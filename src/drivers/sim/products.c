/* SPDX-License-Identifier: MIT
 * Owns products as the multiply-add array of an engine computes them (switch `arithmetic`): conv, linear and matmul out of the sums
 * of engine/accumulate.h.
 */
#include "base/memory.h"
#include "drivers/sim/sim.h"
#include "engine/accumulate.h"
#include "mil/eval/eval.h"
#include "mil/ops.h"
#include "mil/ops/shape_util.h"

/* ---- operands ----------------------------------------------------------------------------------------------------------- */

/* What one operation needs: its operands as the array reads them, room for sums. */
typedef struct products_room {
    float *x, *w, *bias, *row;
    double *sum, *worst;
} products_room;

static void products_free(products_room *r) {
    mem_free(r->x);
    mem_free(r->w);
    mem_free(r->bias);
    mem_free(r->row);
    mem_free(r->sum);
    mem_free(r->worst);
}

static propane_status products_load(const mil_value *v, const void *data, float **out, propane_error *err) {
    const int64_t count = mil_type_count(&v->type);
    *out = mem_array((size_t)count + 1, sizeof **out);
    if (!*out) return propane_fail_memory(err, (size_t)count * sizeof **out);
    sim_load_f32(*out, v->type.dtype, data, count);
    for (int64_t i = 0; i < count; i++) (*out)[i] = accumulate_read((*out)[i]);
    return PROPANE_OK;
}

static propane_status products_make_room(products_room *r, int64_t sums, int64_t row, propane_error *err) {
    r->sum = mem_array((size_t)sums + 1, sizeof *r->sum);
    r->worst = mem_array((size_t)sums + 1, sizeof *r->worst);
    r->row = mem_array((size_t)row + 1, sizeof *r->row);
    return r->sum && r->worst && r->row ? PROPANE_OK
                                        : propane_fail_memory(err, (size_t)(2 * sums + row) * sizeof(double));
}

static void products_begin(products_room *r, int64_t at, int64_t n, const float *bias) {
    accumulate_begin(r->sum + at, r->worst + at, n, bias ? *bias : 0);
}

static void products_store(const products_room *r, int64_t n, float *out) {
    for (int64_t j = 0; j < n; j++) out[j] = accumulate_round(accumulate_value(r->sum[j], r->worst[j]));
}

/* ---- operations --------------------------------------------------------------------------------------------------------- */

static propane_status products_matmul(const mil_op *op, products_room *r, float *out, propane_error *err) {
    mil_matmul m;
    mil_walk w;
    int64_t batches = 1;
    PROPANE_TRY(mil_matmul_read(op, &m, err));
    PROPANE_TRY(products_make_room(r, m.n, m.k * m.n, err));
    mil_walk_begin(&w, m.batch_rank, m.batch);
    mil_walk_add(&w, m.x_step);
    mil_walk_add(&w, m.y_step);
    for (int d = 0; d < m.batch_rank; d++) batches *= m.batch[d];
    for (int64_t b = 0; b < batches; b++, mil_walk_next(&w)) {
        const float *x = r->x + w.at[0], *y = r->w + w.at[1];
        for (int64_t k = 0; k < m.k; k++)
            for (int64_t j = 0; j < m.n; j++) r->row[k * m.n + j] = y[k * m.y_row + j * m.y_col];
        for (int64_t i = 0; i < m.m; i++, out += m.n) {
            products_begin(r, 0, m.n, NULL);
            for (int64_t k = 0; k < m.k; k++)
                accumulate_add(r->sum, r->worst, x[i * m.x_row + k * m.x_col], r->row + k * m.n, m.n);
            products_store(r, m.n, out);
        }
    }
    return PROPANE_OK;
}

static propane_status products_linear(const mil_op *op, products_room *r, float *out, propane_error *err) {
    const mil_value *weight = mil_in(op, "weight");
    const int64_t n = weight->type.dim[0], depth = weight->type.dim[1];
    const int64_t rows = mil_type_count(&op->results[0]->type) / n;
    PROPANE_TRY(products_make_room(r, n, depth * n, err));
    for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < n; j++) r->row[k * n + j] = r->w[j * depth + k];
    for (int64_t i = 0; i < rows; i++, out += n) {
        for (int64_t j = 0; j < n; j++) products_begin(r, j, 1, r->bias ? r->bias + j : NULL);
        for (int64_t k = 0; k < depth; k++) accumulate_add(r->sum, r->worst, r->x[i * depth + k], r->row + k * n, n);
        products_store(r, n, out);
    }
    return PROPANE_OK;
}

/* What one place of the kernel reads of one input channel, at every output position. */
static void products_gather(const mil_conv *c, const float *x, const int64_t k[3], float *row) {
    for (int64_t a = 0; a < c->out[0]; a++)
        for (int64_t b = 0; b < c->out[1]; b++)
            for (int64_t d = 0; d < c->out[2]; d++) {
                const int64_t i0 = a * c->stride[0] + k[0] * c->dilation[0] - c->before[0];
                const int64_t i1 = b * c->stride[1] + k[1] * c->dilation[1] - c->before[1];
                const int64_t i2 = d * c->stride[2] + k[2] * c->dilation[2] - c->before[2];
                const bool inside = i0 >= 0 && i0 < c->in[0] && i1 >= 0 && i1 < c->in[1] && i2 >= 0 && i2 < c->in[2];
                *row++ = inside ? x[(i0 * c->in[1] + i1) * c->in[2] + i2] : 0;
            }
}

/* One group of one image: `x` its first channel, `w` its first kernel, `o` its first output channel. */
static void products_conv_group(const mil_conv *c, products_room *r, const float *x, const float *w, int64_t o,
                                float *out) {
    const int64_t in = c->in[0] * c->in[1] * c->in[2], size = c->out[0] * c->out[1] * c->out[2];
    const int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    const int64_t inputs = c->c_in / c->groups, outputs = c->c_out / c->groups;
    for (int64_t j = 0; j < outputs; j++) products_begin(r, j * size, size, r->bias ? r->bias + o + j : NULL);
    for (int64_t i = 0; i < inputs; i++)
        for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t k[3] = {tap / (c->kernel[1] * c->kernel[2]), tap / c->kernel[2] % c->kernel[1],
                                  tap % c->kernel[2]};
            products_gather(c, x + i * in, k, r->row);
            for (int64_t j = 0; j < outputs; j++)
                accumulate_add(r->sum + j * size, r->worst + j * size, w[(j * inputs + i) * taps + tap], r->row, size);
        }
    products_store(r, outputs * size, out);
}

static propane_status products_conv(const mil_op *op, products_room *r, float *out, propane_error *err) {
    mil_conv c;
    PROPANE_TRY(mil_conv_read(op, &c, err));
    for (int d = c.spatial; d < 3; d++) {
        c.in[d] = c.kernel[d] = c.out[d] = c.stride[d] = c.dilation[d] = 1;
        c.before[d] = 0;
    }
    const int64_t in = c.in[0] * c.in[1] * c.in[2], size = c.out[0] * c.out[1] * c.out[2];
    const int64_t kernel = c.kernel[0] * c.kernel[1] * c.kernel[2];
    const int64_t inputs = c.c_in / c.groups, outputs = c.c_out / c.groups;
    PROPANE_TRY(products_make_room(r, outputs * size, size, err));
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t g = 0; g < c.groups; g++, out += outputs * size)
            products_conv_group(&c, r, r->x + (n * c.c_in + g * inputs) * in, r->w + g * outputs * inputs * kernel,
                                g * outputs, out);
    return PROPANE_OK;
}

propane_status sim_products_run(const mil_op *op, const void *const operands[3], void *result, propane_error *err) {
    const mil_opcode code = op->info->code;
    const mil_value *y = op->results[0], *bias = code == MIL_OP_matmul ? NULL : mil_in(op, "bias");
    const int64_t count = mil_type_count(&y->type);
    products_room r = {0};
    float *out = mem_array((size_t)count + 1, sizeof *out);
    propane_status status = out ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof *out);
    if (!status) status = products_load(mil_in(op, "x"), operands[0], &r.x, err);
    if (!status) status = products_load(mil_in(op, code == MIL_OP_matmul ? "y" : "weight"), operands[1], &r.w, err);
    if (!status && bias) status = products_load(bias, operands[2], &r.bias, err);
    if (!status)
        status = code == MIL_OP_matmul   ? products_matmul(op, &r, out, err)
                 : code == MIL_OP_linear ? products_linear(op, &r, out, err)
                                         : products_conv(op, &r, out, err);
    if (!status) sim_store_f32(result, y->type.dtype, out, count);
    products_free(&r);
    mem_free(out);
    return status;
}
