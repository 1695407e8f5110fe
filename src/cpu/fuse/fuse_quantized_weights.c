/* SPDX-License-Identifier: MIT
 * Recognises matrix products whose weights are stored in fewer bits. A program contains the computation of the weights
 * from their stored form (lm/arch/quantize.h): casts, one scale per 32 weights, unpacking of nibbles. If only a matrix
 * product reads the result, that computation is skipped. For a few columns the kernel reads the stored form (gemv.h);
 * for many, rows are converted while they are packed.
 *
 * These forms are recognised, with one reader per value:
 *   fp16   cast(w), to fp32
 *   bf16   cast(w)
 *   int8   mul(cast(w [O, K/32, 32]), s [O, K/32, 1])
 *   int4   mul(sub(concat(low, high), 8), s)     f = cast(w [O, K/32, 16]), high = floor(f * 1/16), low = f - high * 16
 *   blocks of kquants.def: see fuse_kquant_weights.h
 *
 * Reshapes may follow. s is an fp16 input or its cast.
 */
#include <math.h>
#include <string.h>

#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/fuse/fuse_kquant_weights.h"
#include "cpu/gemv/gemv.h"
#include "cpu/plan/facts.h"
#include "cpu/plan/table.h"

enum { MOST_OPS = 24 };

typedef struct chain {
    cpu_graph *g;
    const mil_op *ops[MOST_OPS];
    int count;
    bool good;
    cpu_stored_weights found;
} chain;

/* Returns the operation that makes `v` and adds it to the chain, if its opcode is `code` and `v` has `readers` uses.
 * Otherwise clears c->good and returns NULL. */
static const mil_op *fuse_quantized_made_by(chain *c, const mil_value *v, mil_opcode code, int readers) {
    const mil_op *op = v && !v->constant ? v->def : NULL;
    if (!op || op->info->code != code || c->g->uses[v->id] != readers || c->count == MOST_OPS) {
        c->good = false;
        return NULL;
    }
    for (int i = 0; i < c->count; i++)
        if (c->ops[i] == op) return op;
    c->ops[c->count++] = op;
    return op;
}

static bool fuse_quantized_is_scalar(const mil_value *v, double wanted) {
    if (!v || !v->constant || !v->constant->data || mil_type_count(&v->constant->type) != 1) return false;
    double x;
    mil_unpack_f64(&x, v->constant->type.dtype, v->constant->data, 1);
    return fabs(x - wanted) <= 0;
}

/* Returns x if `v` is x * factor, in either order. Otherwise clears c->good and returns NULL. */
static const mil_value *fuse_quantized_times(chain *c, const mil_value *v, double factor, int readers) {
    const mil_op *op = fuse_quantized_made_by(c, v, MIL_OP_mul, readers);
    if (!op) return NULL;
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    if (fuse_quantized_is_scalar(y, factor)) return x;
    if (fuse_quantized_is_scalar(x, factor)) return y;
    c->good = false;
    return NULL;
}

/* Returns true for a parameter of this type and shape [out, blocks, width], or of any shape if width is 0. */
static bool fuse_quantized_is_stored(const mil_value *v, mil_dtype dtype, int64_t out, int64_t blocks, int64_t width) {
    if (!v || v->def || v->constant || v->type.dtype != dtype) return false;
    if (!width) return true;
    return v->type.rank == 3 && v->type.dim[0] == out && v->type.dim[1] == blocks && v->type.dim[2] == width;
}

static const mil_value *fuse_quantized_without_cast(chain *c, const mil_value *v) {
    if (!v || !v->def || v->constant || v->def->info->code != MIL_OP_cast) return v;
    const mil_op *op = fuse_quantized_made_by(c, v, MIL_OP_cast, 1);
    return op ? mil_in(op, "x") : NULL;
}

/* Returns the stored bytes from which low and high are computed. */
static const mil_value *fuse_quantized_nibbles(chain *c, const mil_value *low, const mil_value *high) {
    const mil_op *difference = fuse_quantized_made_by(c, low, MIL_OP_sub, 1);
    const mil_op *floor_op = fuse_quantized_made_by(c, high, MIL_OP_floor, 2);
    if (!difference || !floor_op) return NULL;
    const mil_value *f = mil_in(difference, "x");
    if (fuse_quantized_times(c, mil_in(difference, "y"), 16, 1) != high ||
        fuse_quantized_times(c, mil_in(floor_op, "x"), 0.0625, 1) != f)
        return NULL;
    const mil_op *cast = fuse_quantized_made_by(c, f, MIL_OP_cast, 2);
    return cast ? mil_in(cast, "x") : NULL;
}

/* Matches the int8 or int4 weights before they are multiplied by the scales. */
static void fuse_quantized_match_quantised(chain *c, const mil_value *v, int64_t out, int64_t blocks) {
    const mil_op *last = v && v->def && !v->constant ? v->def : NULL;
    if (last && last->info->code == MIL_OP_cast) {
        c->found.data = fuse_quantized_without_cast(c, v);
        c->found.format = CPU_WEIGHTS_INT8;
        c->good &= fuse_quantized_is_stored(c->found.data, MIL_int8, out, blocks, 32);
        return;
    }
    const mil_op *shifted = fuse_quantized_made_by(c, v, MIL_OP_sub, 1);
    const mil_op *both = shifted && fuse_quantized_is_scalar(mil_in(shifted, "y"), 8)
                             ? fuse_quantized_made_by(c, mil_in(shifted, "x"), MIL_OP_concat, 1)
                             : NULL;
    mil_value *const *halves = NULL;
    if (!both || mil_in_list(both, "values", &halves) != 2) {
        c->good = false;
        return;
    }
    c->found.data = fuse_quantized_nibbles(c, halves[0], halves[1]);
    c->found.format = CPU_WEIGHTS_INT4;
    c->good &= both->results[0]->type.rank == 3 && both->results[0]->type.dim[2] == 32 &&
               fuse_quantized_is_stored(c->found.data, MIL_uint8, out, blocks, 16);
}

/* Returns the value from which reshapes make `v`, and adds these reshapes to the chain. */
static const mil_value *fuse_quantized_before_reshapes(chain *c, const mil_value *v) {
    while (v && v->def && !v->constant && cpu_plan_keeps_order(v->def) && c->g->uses[v->id] == 1 &&
           c->count < MOST_OPS) {
        c->ops[c->count++] = v->def;
        v = v->def->operands[0].values[0];
    }
    return v;
}

static void fuse_quantized_match(chain *c, const mil_value *v, int64_t out, int64_t in) {
    const mil_op *last = v && v->def && !v->constant ? v->def : NULL;
    if (last && last->info->code == MIL_OP_cast) {
        c->found = (cpu_stored_weights){.data = fuse_quantized_without_cast(c, v), .format = CPU_WEIGHTS_F16};
        if (fuse_quantized_is_stored(c->found.data, MIL_bf16, out, 0, 0))
            c->found.format = CPU_WEIGHTS_BF16;
        else
            c->good &= v->type.dtype == MIL_fp32 && fuse_quantized_is_stored(c->found.data, MIL_fp16, out, 0, 0);
        return;
    }
    const mil_op *scaled = in % CPU_GEMV_BLOCK == 0 ? fuse_quantized_made_by(c, v, MIL_OP_mul, 1) : NULL;
    c->good &= scaled != NULL;
    if (!scaled) return;
    fuse_quantized_match_quantised(c, mil_in(scaled, "x"), out, in / CPU_GEMV_BLOCK);
    c->found.scales = c->good ? fuse_quantized_without_cast(c, mil_in(scaled, "y")) : NULL;
    c->good = c->good && fuse_quantized_is_stored(c->found.scales, MIL_fp16, out, in / CPU_GEMV_BLOCK, 1);
}

/* Returns true for a matmul of one matrix [O, K] with one matrix [K, N], neither transposed. */
static bool fuse_quantized_is_plain(const mil_op *op) {
    bool tx = false, ty = false;
    const mil_type *x = &mil_in(op, "x")->type, *z = &op->results[0]->type;
    if (op->info->code != MIL_OP_matmul || mil_attr_bool(op, "transpose_x", &tx, NULL) ||
        mil_attr_bool(op, "transpose_y", &ty, NULL) || tx || ty || x->rank < 2 || z->rank < 2 ||
        mil_in(op, "y")->type.rank < 2)
        return false;
    for (int d = 0; d < z->rank - 2; d++)
        if (z->dim[d] != 1) return false;
    for (int d = 0; d < x->rank - 2; d++)
        if (x->dim[d] != 1) return false;
    return true;
}

static propane_status fuse_quantized_weights_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const mil_op *op = g->ops[i];
    if (!cpu_plan_is_product(op) || !fuse_quantized_is_plain(op)) return PROPANE_OK;
    const mil_value *w = mil_in(op, "x");
    chain c = {.g = g, .good = true};
    if (w->constant || !w->def || g->uses[w->id] != 1) return PROPANE_OK;
    const int64_t out = w->type.dim[w->type.rank - 2], in = w->type.dim[w->type.rank - 1];
    const mil_value *made = fuse_quantized_before_reshapes(&c, w);
    kquant_match blocks;
    bool matches = false;
    PROPANE_TRY(cpu_fuse_match_kquant(g, made, out, in, &matches, &blocks, err));
    if (!matches) fuse_quantized_match(&c, made, out, in);
    if (!c.good) return PROPANE_OK;
    g->weights[w->id] = matches ? blocks.found : c.found;
    for (int k = 0; k < c.count; k++) cpu_graph_node(g, c.ops[k])->kind = CPU_NODE_ABSORBED;
    for (int k = 0; matches && k < blocks.count; k++) cpu_graph_node(g, blocks.ops[k])->kind = CPU_NODE_ABSORBED;
    *fired = true;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_quantized_weights = {.name = "quantized_weights",
                                                  .not_with = CPU_FUSE_NOT_ROUNDED | CPU_FUSE_NOT_BF16,
                                                  .apply = fuse_quantized_weights_apply};
