/* SPDX-License-Identifier: MIT
 * Owns the time of a whole program. It is the sum of one fixed cost, the cost of inputs and outputs, and the costs of
 * all operations, because independent branches run one after the other on every engine that was examined. A program
 * that is one convolution or matrix product, or a chain of equal ones, resembles the published calls, so it also gets
 * the fitted correction.
 *
 * Little is known about operations other than matrix products. So this file has few constants, and each names its
 * evidence.
 */
#include <math.h>
#include <string.h>

#include "ane/chip/cost_model.h"
#include "ane/chip/limit.h"
#include "ane/chip/value_facts.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"

#define MIB 1048576.0

/* GB/s inside the engine's own memory. On the M6, 64 multiplications and 64 additions over 131 KB add 64 us to a
 * call. */
#define ON_CHIP 520.0
/* Larger tensors are moved through memory. Several operations are tiled at once, so data between them stays inside the
 * engine: 20 layers of 16 MB maps move 35 MB (freedomtan, M4 Pro). */
#define ON_CHIP_BYTES (32 * MIB)
/* Time in us of an elementwise operation, and of a matrix product of two computed values. Attention over 128
 * positions in one program takes 37 us more than an empty one on the M4 (maderix part 4b). Elementwise operations
 * follow each other within less than 0.6 us (the M6 study). */
#define OP_US       0.3
#define RUN_TIME_US 8.0
/* Passes over the data of a softmax: the maximum, the exponential with its sum, and the division. */
#define SOFTMAX_PASSES 3.0
/* GB/s at which activations are transposed if a matrix product sums over their last axis (`linear`, x times a weight).
 * An engine sums over channels, which are a different axis. Encoder blocks of 1, 4, 16 and 64 sequences take 0.363,
 * 1.34, 5.74 and 27.1 ms (ANEForge, M5 Pro), and would otherwise take 0.23, 0.64, 2.4 and 11.5 ms. This gives 27, 20,
 * 17 and 15 GB/s. */
#define TURN 18.0
/* Slowdown of weights that are read in the strides of C50: 76 against 32 ms (kasper0406/stablehlo-coreml pull
 * request 110, M4). */
#define COLLISION 2.4

const char *cost_bound_name(cost_bound bound) {
    static const char *const names[] = {"", "arithmetic", "weights", "memory", "overhead", "the CPU"};
    return names[bound];
}

/* ---- where an operand comes from ----------------------------------------------------------------------------------- */

static bool cost_program_is_layout(const mil_op *op) {
    switch (op->info->code) {
    case MIL_OP_reshape:
    case MIL_OP_expand_dims:
    case MIL_OP_squeeze:
    case MIL_OP_identity: return true;
    default: return false;
    }
}

/* Returns the parameter that a value is a view of, or NULL if the value is computed. */
static const mil_value *cost_program_root_of(const mil_value *v) {
    while (v->def && (cost_program_is_layout(v->def) || v->def->info->code == MIL_OP_transpose))
        v = v->def->operands[0].values[0];
    return v->def || v->constant ? NULL : v;
}

/* Returns true for constants and for inputs with two axes, because weights that are passed as inputs are matrices
 * without a batch. */
static bool cost_program_is_weight(const mil_value *v) {
    const mil_value *root = cost_program_root_of(v);
    return chip_is_constant(v) || (root && root->type.rank == 2);
}

/* Returns the bytes of a weight that are read from memory. Compressed weights count as stored, because the engine
 * expands them after reading them. */
static double cost_program_weight_bytes(const mil_value *v) {
    return chip_is_constant(v) ? chip_stored_bytes(v) : (double)mil_type_bytes(&v->type);
}

static double cost_program_memory_ms(const cost_constants *q, double bytes) {
    return bytes / 1e6 / (bytes > ON_CHIP_BYTES ? q->stream : ON_CHIP);
}

/* ---- one operation --------------------------------------------------------------------------------------------------- */

/* Reads the sizes of a matrix product. *matrices is the number of products with separate weights in one operation. */
static void cost_program_read_product(const mil_op *op, cost_call *c, double *matrices) {
    mil_matmul m;
    mil_conv v;
    if (op->info->rule == mil_op_get(MIL_OP_conv)->rule && !mil_conv_read(op, &v, NULL)) {
        c->cin = (double)(v.c_in / v.groups);
        c->cout = (double)v.c_out;
        c->pixels = (double)v.n;
        c->kernel = 1;
        c->dilation = (double)v.dilation[0];
        for (int d = 0; d < v.spatial; d++) {
            c->kernel *= (double)v.kernel[d];
            c->pixels *= (double)v.out[d];
        }
        c->kind = c->kernel > 1 ? COST_CONV3X3 : COST_CONV1X1;
    } else if (op->info->code == MIL_OP_matmul && !mil_matmul_read(op, &m, NULL)) {
        c->cin = (double)m.k; /* the engine's channels are the summed dimension */
        const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y"), *w = cost_program_is_weight(x) ? x : y;
        c->cout = (double)(w == x ? m.m : m.n);
        /* If the weights have several matrices, each multiplies its own part of the activation. */
        if (cost_program_is_weight(w)) *matrices = (double)mil_type_count(&w->type) / fmax((double)m.k * c->cout, 1);
        c->pixels = (double)mil_type_count(&m.result) / fmax(c->cout * *matrices, 1);
    } else if (op->info->code == MIL_OP_linear) {
        const mil_type *w = &mil_in(op, "weight")->type;
        c->cin = (double)w->dim[1];
        c->cout = (double)w->dim[0];
        c->pixels = (double)mil_type_count(&op->results[0]->type) / fmax(c->cout, 1);
    }
}

/* Returns the operation as a call. *dense is the number of bytes of its weights in the type that is multiplied. */
static cost_call cost_program_call_of(const chip *c, cost_path path, const mil_op *op, const mil_cost *cost,
                                      double *matrices, double *dense) {
    cost_call call = {.chip = c->id,
                      .path = path,
                      .kind = COST_MATMUL,
                      .flops = cost->flops,
                      .layers = 1,
                      .kernel = 1,
                      .dilation = 1,
                      .pixels = 1};
    *matrices = 1;
    *dense = 0;
    cost_program_read_product(op, &call, matrices);
    for (int p = 0; p < op->info->param_count; p++)
        for (int k = 0; k < op->operands[p].count; k++) {
            const mil_value *v = op->operands[p].values[k];
            if (!cost_program_is_weight(v) || op->info->params[p].type_class >= MIL_CLASS_K_INT) continue;
            call.weight_bytes += cost_program_weight_bytes(v);
            *dense += (double)mil_type_bytes(&v->type);
        }
    return call;
}

/* Returns true if rule C50 applies: weights that the cores read at strides of multiples of 1 MiB are read at less than
 * half the speed. */
static bool cost_program_strides_collide(const chip *c, const mil_op *op) {
    const chip_limit *l = chip_limit_find("C50");
    char found[CHIP_TEXT_BYTES];
    const chip_view view = {.limit = l, .op = op};
    const bool named = strstr(l->ops, op->info->name) != NULL && op->info->code != MIL_OP_conv_transpose;
    return named && chip_listed(l->chips, c) && l->check(&view, found);
}

/* Returns true if a product of an activation and a weight sums over the activation's last axis. */
static bool cost_program_turns(const mil_op *op) {
    mil_matmul m;
    if (op->info->code == MIL_OP_linear) return true;
    if (op->info->code != MIL_OP_matmul || mil_matmul_read(op, &m, NULL)) return false;
    const bool left = cost_program_is_weight(mil_in(op, "x")), right = cost_program_is_weight(mil_in(op, "y"));
    return (right && !left && m.x_col == 1 && m.m > 1) || (left && !right && m.y_row == 1 && m.n > 1);
}

static void cost_product(const chip *c, cost_path path, const mil_op *op, const mil_cost *cost, cost_op *out) {
    const cost_constants *q = cost_constants_of(c->id);
    double matrices, dense;
    cost_call call = cost_program_call_of(c, path, op, cost, &matrices, &dense);
    cost_time t;
    cost_call_parts(&call, &t);
    double moved = cost->bytes_in - dense + cost->bytes_out, memory = cost_program_memory_ms(q, moved);
    if (cost_program_strides_collide(c, op)) t.weights_ms *= COLLISION;
    /* several products in one operation were never timed; each counts as a product of computed values */
    bool run_time = call.weight_bytes == 0 || matrices > 1;
    out->weight_bytes = call.weight_bytes;
    const double turned = cost_program_turns(op) ? moved / 1e6 / TURN : 0;
    out->ms = fmax(fmax(t.compute_ms, t.weights_ms), memory) + turned +
              (run_time ? RUN_TIME_US * matrices : q->layer_us) * 1e-3;
    memory = fmax(memory, turned);
    out->bound = memory >= t.compute_ms && memory >= t.weights_ms ? COST_MEMORY
                 : t.weights_ms > t.compute_ms                    ? COST_WEIGHTS
                                                                  : COST_ARITHMETIC;
}

static void cost_one(const chip *c, cost_path path, const mil_op *op, cost_op *out) {
    const cost_constants *q = cost_constants_of(c->id);
    mil_cost cost;
    mil_op_cost(op, &cost);
    *out = (cost_op){.op = op, .flops = cost.flops, .bytes = cost.bytes_in + cost.bytes_out};
    if (cost.bytes_out <= 0 || cost_program_is_layout(op) || chip_is_constant(op->results[0])) {
        out->bytes = 0;
        return;
    }
    if (cost.is_matrix) {
        cost_product(c, path, op, &cost, out);
    } else {
        double passes = op->info->code == MIL_OP_softmax ? SOFTMAX_PASSES : 1;
        double memory = passes * cost_program_memory_ms(q, out->bytes);
        out->ms = memory + OP_US * 1e-3;
        out->bound = memory > OP_US * 1e-3 ? COST_MEMORY : COST_OVERHEAD;
    }
    out->energy_mj = cost_energy_mj(c, out->flops, out->weight_bytes, out->ms);
}

/* ---- the program -------------------------------------------------------------------------------------------------------- */

/* Returns true if the program resembles published calls: one matrix product, or a chain of equal ones, perhaps with
 * casts and relu, and no other costs. Fills *out with the call. */
static bool cost_program_as_call(const chip *c, cost_path path, const cost_program *p, cost_call *out) {
    int layers = 0;
    for (int i = 0; i < p->op_count; i++) {
        const cost_op *o = &p->ops[i];
        if (o->ms == 0) continue;
        mil_cost cost;
        mil_op_cost(o->op, &cost);
        if (!cost.is_matrix && o->op->info->code != MIL_OP_cast && o->op->info->code != MIL_OP_relu) return false;
        if (!cost.is_matrix) continue;
        double matrices, dense;
        cost_call call = cost_program_call_of(c, path, o->op, &cost, &matrices, &dense);
        if (call.weight_bytes == 0 || matrices > 1) return false;
        if (layers++ == 0) {
            *out = call;
        } else if (call.cin != out->cin || call.cout != out->cout || call.pixels != out->pixels ||
                   call.kernel != out->kernel) {
            return false;
        } else {
            out->flops += call.flops;
            out->weight_bytes += call.weight_bytes;
        }
    }
    out->layers = layers;
    out->io_bytes = p->io_bytes;
    if (layers > 1 && out->kind != COST_MATMUL) out->kind = COST_CHAIN;
    return layers > 0;
}

static void cost_program_add_up(const chip *c, cost_path path, cost_program *p) {
    const cost_constants *q = cost_constants_of(c->id);
    const double t0[] = {q->t0_direct, q->t0_e5rt, q->t0_coreml, q->t0_linux};
    const double io[] = {q->io_direct, q->io_e5rt, q->io_coreml, q->io_direct};
    const mil_function *f = p->function;
    for (int i = 0; i < f->param_count; i++)
        if (!cost_program_is_weight(f->params[i]) && !mil_type_is_open(&f->params[i]->type))
            p->io_bytes += (double)mil_type_bytes(&f->params[i]->type);
    for (int i = 0; i < f->result_count; i++)
        if (!mil_type_is_open(&f->results[i]->type)) p->io_bytes += (double)mil_type_bytes(&f->results[i]->type);
    p->fixed_ms = t0[path];
    p->io_ms = p->io_bytes / 1e6 / io[path];
    p->ms = p->fixed_ms + p->io_ms;
    for (int i = 0; i < p->op_count; i++) {
        p->ms += p->ops[i].ms;
        p->flops += p->ops[i].flops;
        p->bytes += p->ops[i].bytes;
        p->weight_bytes += p->ops[i].weight_bytes;
    }
    cost_call call = {.chip = c->id, .path = path, .layers = 1, .kernel = 1, .dilation = 1};
    cost_time t;
    bool fitted = cost_program_as_call(c, path, p, &call);
    cost_call_time(&call, &t);
    if (fitted) p->ms = t.ms;
    p->low_ms = fitted ? t.low_ms : p->ms / 1.5; /* sums over operations; bench and docs/estimate.md show their error */
    p->high_ms = fitted ? t.high_ms : p->ms * 1.5;
    p->energy_mj = cost_energy_mj(c, p->flops, p->weight_bytes + p->io_bytes, p->ms);
    p->utilisation = p->flops / (q->tflops * 1e9 * p->ms);
}

propane_status cost_function(const chip *c, cost_path path, const mil_function *f, arena *a, cost_program *out,
                             propane_error *err) {
    *out = (cost_program){.function = f};
    out->ops = ARENA_ARRAY(a, f->op_count + 1, cost_op);
    if (!out->ops) return propane_fail_memory(err, (size_t)f->op_count * sizeof *out->ops);
    for (const mil_op *op = f->first; op; op = op->next) {
        if (op->info->code == MIL_OP_const) continue;
        if (f->late && chip_op_is_open(op)) {
            out->uncounted++;
            continue;
        }
        cost_one(c, path, op, &out->ops[out->op_count++]);
    }
    cost_program_add_up(c, path, out);
    return PROPANE_OK;
}
