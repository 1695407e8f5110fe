/* SPDX-License-Identifier: MIT
 * Owns the weights of a forward function: parameters or constants under the architecture's names, their LoRA adapters,
 * and the linear layer that uses both. A weight that an architecture lacks is NULL.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "lm/arch/forward_internal.h"

/* Returns the name of a weight's parameter or constant. In the whole-model function, the layer is appended and a norm's
 * name begins with its half, because both halves have norms. */
static const char *forward_weight_name(forward_context *x, const char *param) {
    if (!x->whole || x->part == MODEL_HEAD) return param;
    bool norm = strncmp(param, "norm_", 5) == 0 || strncmp(param, "post_", 5) == 0;
    return arena_printf(x->b.module->arena, "%s%s_%d",
                        !norm                   ? ""
                        : x->part == MODEL_ATTN ? "attn_"
                                                : "ffn_",
                        param, x->layer);
}

static mil_value *forward_constant_weight(forward_context *x, const char *name, const char *param,
                                          const mil_type *type) {
    const float *data = x->o->baked(x->o->baked_context, x->part, x->layer, param);
    int64_t count = mil_type_count(type);
    if (!data) {
        propane_fail(&x->b.err, PROPANE_ERR_NOT_FOUND, "the model has no weight '%s' in layer %d", param, x->layer);
        return NULL;
    }
    if (type->dtype == MIL_fp32) return mil_build_const(&x->b, name, type, data);
    uint16_t *half = mem_array((size_t)count, sizeof *half);
    if (!half) {
        propane_fail_memory(&x->b.err, (size_t)count * sizeof *half);
        return NULL;
    }
    fp16_from_f32_array(half, data, (size_t)count);
    mil_value *v = mil_build_const(&x->b, name, type, half);
    mem_free(half);
    return v;
}

/* Declares a matrix: a parameter [out, in], or a constant [out, in, 1, 1], the shape that a convolution needs. */
static mil_value *forward_matrix(forward_context *x, const arch_tensor *row) {
    const char *name = forward_weight_name(x, row->param);
    const int64_t out = model_arch_size(x->c, row->out), in = model_arch_size(x->c, row->in);
    if (!name) return NULL; /* out of memory: the builder detects it later */
    if (x->o->baked) {
        mil_type type = forward_tensor4(x, out, in, 1, 1);
        return forward_constant_weight(x, name, row->param, &type);
    }
    const model_packing packing = x->o->packings ? x->o->packings[row - model_arch_of(x->c)->tensors] : MODEL_UNPACKED;
    return model_pack_build(&x->b, packing, x->o->dtype, name, out, in);
}

/* Declares a vector in a shape that broadcasts over the values that it scales or shifts: over channels, or over the
 * rows of a head. */
static mil_value *forward_vector(forward_context *x, const char *param, arch_size size) {
    const char *name = forward_weight_name(x, param);
    int64_t n = model_arch_size(x->c, size);
    mil_type type = size == ARCH_HD ? forward_tensor4(x, 1, 1, n, 1) : forward_tensor4(x, 1, n, 1, 1);
    if (!name) return NULL;
    return x->o->baked ? forward_constant_weight(x, name, param, &type) : mil_build_param(&x->b, name, type);
}

static void forward_add_weight(forward_weights *w, const char *param, mil_value *v) {
    if (w->count == WEIGHTS_MAX) return;
    w->params[w->count] = param;
    w->values[w->count++] = v;
}

/* Declares a matrix of an adapter. It is a parameter even if the other weights are constants. */
static void forward_adapter_matrix(forward_context *x, forward_weights *w, const char *param, const char *kind,
                                   int64_t out, int64_t in) {
    const int64_t dim[] = {out, in};
    const char *full = arena_printf(x->b.module->arena, "%s_lora_%s", param, kind),
               *name = full ? forward_weight_name(x, full) : NULL;
    if (name) forward_add_weight(w, full, mil_build_param(&x->b, name, mil_type_tensor(x->o->dtype, 2, dim)));
}

static bool forward_is_leader(const forward_context *x, const arch_tensor *row) {
    return model_arch_leader(x->c, row) == row;
}

/* Declares a dropout mask for each adapted module's input. */
static void forward_declare_dropout(forward_context *x, forward_weights *w) {
    const arch_tensor *row;
    for (int i = 0; (row = model_arch_param(x->c, x->part, i)); i++) {
        if (row->in == ARCH_1 || !forward_is_leader(x, row) || !model_lora_targets(x->o->lora, row->param)) continue;
        const char *name = arena_printf(x->b.module->arena, "drop_%s", row->param);
        mil_type type = forward_tensor4(x, x->o->batch, model_arch_size(x->c, row->in), 1, x->o->sequence);
        if (name) forward_add_weight(w, name, mil_build_param(&x->b, name, type));
    }
}

static void forward_declare_adapters(forward_context *x, forward_weights *w) {
    const arch_tensor *row;
    const model_lora *l = x->o->lora;
    for (int i = 0; (row = model_arch_param(x->c, x->part, i)); i++) {
        if (row->in == ARCH_1 || !model_lora_targets(l, row->param)) continue;
        int64_t out = model_arch_size(x->c, row->out), in = model_arch_size(x->c, row->in);
        if (forward_is_leader(x, row)) forward_adapter_matrix(x, w, row->param, "a", l->rank, in);
        forward_adapter_matrix(x, w, row->param, "b", out, l->rank);
    }
    if (x->o->dropout) forward_declare_dropout(x, w);
}

forward_weights forward_declare(forward_context *x) {
    forward_weights w = {0};
    const arch_tensor *row;
    for (int i = 0; i < WEIGHTS_MAX && (row = model_arch_param(x->c, x->part, i)); i++)
        forward_add_weight(&w, row->param,
                           row->in == ARCH_1 ? forward_vector(x, row->param, row->out) : forward_matrix(x, row));
    if (x->o->lora && x->part != MODEL_HEAD) forward_declare_adapters(x, &w);
    return w;
}

/* Returns NULL if the architecture has no such weight, or after an earlier error. */
mil_value *forward_weight(const forward_weights *w, const char *param) {
    for (int i = 0; param && i < w->count; i++)
        if (strcmp(w->params[i], param) == 0) return w->values[i];
    return NULL;
}

/* Computes y [B,O,1,S] = W v for v [B,I,1,S]: a convolution if W is a constant (rank 4), otherwise a matrix product.
 * Both sum over the input channels in the same order, so they produce the same numbers. */
static mil_value *forward_product(forward_context *x, mil_value *w, mil_value *v, const char *name) {
    if (!w || !v) return NULL;
    if (w->type.rank == 4) return forward_label(x, mil_build_conv1x1(&x->b, v, w), name);
    int64_t batch = v->type.dim[0], in = v->type.dim[1], positions = v->type.dim[3], out = w->type.dim[0];
    mil_value *y = mil_build_matmul(&x->b, forward_reshape4(x, w, 1, 1, out, in),
                                    forward_reshape4(x, v, batch, 1, in, positions), false, false); /* [B,1,O,S] */
    forward_label(x, y, name);
    return forward_reshape4(x, y, batch, out, 1, positions);
}

/* Computes scale * A v, with dropout applied to v. The matrices of a module share the result. Returns NULL if the
 * module has no adapter. */
static mil_value *forward_lowered(forward_context *x, const forward_weights *w, const char *leader, mil_value *v,
                                  const char *name) {
    arena *a = x->b.module->arena;
    mil_value *down = forward_weight(w, arena_printf(a, "%s_lora_a", leader)),
              *drop = forward_weight(w, arena_printf(a, "drop_%s", leader));
    if (!down) return NULL;
    if (x->low_of && strcmp(x->low_of, leader) == 0) return x->low;
    if (drop) v = mil_build_binary(&x->b, MIL_OP_mul, v, drop);
    x->low_of = leader;
    x->low = mil_build_binary_scalar(&x->b, MIL_OP_mul, forward_product(x, down, v, arena_printf(a, "%s_low", name)),
                                     model_lora_scale(x->o->lora));
    return x->low;
}

/* Computes scale * B A v. Returns NULL if the matrix has no adapter. */
static mil_value *forward_adapter(forward_context *x, const forward_weights *w, const char *param, mil_value *v,
                                  const char *name) {
    arena *a = x->b.module->arena;
    mil_value *up = forward_weight(w, arena_printf(a, "%s_lora_b", param));
    mil_value *low = up ? forward_lowered(x, w, model_lora_leader(x->c, x->part, param), v, name) : NULL;
    return low ? forward_product(x, up, low, arena_printf(a, "%s_lora", name)) : NULL;
}

/* Computes the product of a matrix with v and adds the matrix's bias and adapter, if there are any. */
mil_value *forward_linear(forward_context *x, const forward_weights *w, const char *param, const char *bias_param,
                          mil_value *v, const char *name) {
    mil_value *matrix_value = forward_weight(w, param), *bias = bias_param ? forward_weight(w, bias_param) : NULL;
    mil_value *more = x->o->lora ? forward_adapter(x, w, param, v, name) : NULL;
    if (!bias && !more) return forward_product(x, matrix_value, v, name);
    mil_value *y = forward_product(x, matrix_value, v, arena_printf(x->b.module->arena, "%s_product", name));
    if (more) y = mil_build_binary(&x->b, MIL_OP_add, y, more);
    if (bias) y = mil_build_binary(&x->b, MIL_OP_add, y, bias);
    return forward_label(x, y, name);
}
