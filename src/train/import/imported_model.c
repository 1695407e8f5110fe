/* SPDX-License-Identifier: MIT
 * Owns the choice of the weights to train in an imported program. A weight is a floating-point constant that takes
 * part in the computation, as opposed to one that configures an operation. Constants whose names match become inputs
 * of the program; all others stay constants. Only the operations between a weight and the output are differentiated.
 *
 * Not trained are masks, that is, constants with infinities or magnitudes of 1e4 and more; the mean and variance of a
 * batch_norm, which are statistics; and the numbers that scale an image input.
 */
#include "train/import/imported_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/base/words.h"
#include "core/grad/grad.h"
#include "core/pass/pass.h"

#define MASK_LEAST 1e4

/* ---- the output ------------------------------------------------------------------------------------------------------------ */

/* Returns the tensor of floats that an output is or, for a classifier's label or dictionary, the probabilities from
 * which it is made. Returns NULL for other outputs. */
static mil_value *imported_tensor_of(imported_model *m, mil_value *v) {
    if (v->def && v->def->info->code == MIL_OP_classify) {
        m->labels = mil_in(v->def, "classes")->constant;
        v = mil_in(v->def, "probabilities");
    }
    return v->type.container == MIL_TENSOR && mil_dtype_is_float(v->type.dtype) ? v : NULL;
}

static propane_status imported_choose_output(imported_model *m, const imported_model_options *o, mil_value **out,
                                             propane_error *err) {
    const mil_function *f = m->base;
    char names[400] = "";
    size_t used = 0;
    int count = 0;
    *out = NULL;
    for (int i = 0; i < f->result_count; i++) {
        mil_value *v = imported_tensor_of(m, f->results[i]);
        if (!v) continue;
        if (used < sizeof names - 70)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%.60s", used ? ", " : "", f->results[i]->name);
        if (o->output && strcmp(f->results[i]->name, o->output) != 0) continue;
        count += v != *out;
        *out = v;
    }
    if (count == 1) return PROPANE_OK;
    if (o->output)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: there is no floating-point output '%.60s'; the outputs are: %s", o->path, o->output,
                            *names ? names : "none");
    if (!count) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: no output is a tensor of floats", o->path);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: select the output for the loss with --output: %s", o->path,
                        names);
}

static bool imported_is_op(const mil_value *v, mil_opcode code) { return v->def && v->def->info->code == code; }

/* Returns the only dimension with more than one element. Returns -1 if there are several, and dimension 1 (0 for rank
 * 1) if there is none. */
static int imported_only_axis(const mil_type *type) {
    int axis = type->rank > 1 ? 1 : 0, wide = 0;
    for (int d = 0; d < type->rank; d++)
        if (type->dim[d] > 1 && ++wide) axis = d;
    return wide > 1 ? -1 : axis;
}

/* Sets the class axis to that of the softmax, to the given one, or to the one that the shape implies. A given axis must
 * agree with the softmax. */
static propane_status imported_find_axis(imported_model *m, const imported_model_options *o, const mil_value *v,
                                         const mil_op *softmax, propane_error *err) {
    const int rank = v->type.rank;
    const bool given = o->class_axis && *o->class_axis;
    char *end = NULL;
    const long number = given ? strtol(o->class_axis, &end, 10) : 0, said = number < 0 ? number + rank : number;
    int64_t own = 0;
    m->class_axis = imported_only_axis(&v->type);
    if (given && (*end || said < 0 || said >= rank))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: --class-axis '%.20s': output '%.60s' has axes 0 to %d",
                            m->module->source, o->class_axis, v->name, rank - 1);
    if (softmax) {
        PROPANE_TRY(mil_attr_int(softmax, "axis", &own, err));
        m->class_axis = (int)(own < 0 ? own + rank : own);
        if (given && said != m->class_axis)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: --class-axis %.20s: the program's softmax is along axis %d", m->module->source,
                                o->class_axis, m->class_axis);
    }
    if (given) m->class_axis = (int)said;
    return PROPANE_OK;
}

/* Replaces an output that is a softmax, or the logarithm of one, by the softmax's input. Cross-entropy computed from
 * logits is exact where a separate softmax underflows. */
static propane_status imported_take_logits(imported_model *m, const imported_model_options *o, mil_value **v,
                                           propane_error *err) {
    mil_value *at = *v;
    while (imported_is_op(at, MIL_OP_identity) || imported_is_op(at, MIL_OP_cast) || imported_is_op(at, MIL_OP_log))
        at = mil_in(at->def, "x");
    m->softmax = imported_is_op(at, MIL_OP_softmax);
    if (m->softmax) *v = mil_in(at->def, "x");
    if ((*v)->type.rank < 1)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: output '%.60s' is a single number, but cross_entropy needs one per class: give --loss mse",
            m->module->source, (*v)->name);
    PROPANE_TRY(imported_find_axis(m, o, *v, m->softmax ? at->def : NULL, err));
    if (m->class_axis < 0) return PROPANE_OK;
    m->classes = (*v)->type.dim[m->class_axis];
    if (m->classes > 1) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: output '%.60s' has one class, but cross_entropy needs at least two: give --loss mse",
                        m->module->source, (*v)->name);
}

bool imported_same_shape(int rank, const int64_t *dim, int other_rank, const int64_t *other) {
    while (rank > 0 && dim[0] == 1) rank--, dim++;
    while (other_rank > 0 && other[0] == 1) other_rank--, other++;
    bool same = rank == other_rank;
    for (int i = 0; same && i < rank; i++) same = dim[i] == other[i];
    return same;
}

propane_status imported_model_choose_axis(imported_model *m, const char *source, int rank, const int64_t *labels,
                                          propane_error *err) {
    const mil_type *type = &m->base->results[0]->type;
    char have[160], whole[160], list[400] = "";
    size_t used = 0;
    int found = 0;
    if (m->loss != IMPORTED_CROSS_ENTROPY || m->class_axis >= 0) return PROPANE_OK;
    for (int d = 0; d < type->rank; d++) {
        char without[160];
        int64_t rest[MIL_MAX_RANK];
        if (type->dim[d] == 1) continue;
        for (int k = 0, to = 0; k < type->rank; k++)
            if (k != d) rest[to++] = type->dim[k];
        const bool fits = rank > 0 && imported_same_shape(rank - 1, labels + 1, type->rank - 1, rest);
        if (fits && !found++) m->class_axis = d;
        text_shape(without, type->rank - 1, rest);
        if (used < sizeof list - 200)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (--class-axis %d)", used ? " or " : "",
                                     without, d);
    }
    text_shape(have, rank, labels);
    text_shape(whole, type->rank, type->dim);
    if (found == 1) {
        m->classes = type->dim[m->class_axis];
        return PROPANE_OK;
    }
    m->class_axis = -1;
    if (found)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: array y is %s, and the classes of output '%.60s' %s could be along several axes; the "
                            "labels of a sample are %s: give --class-axis",
                            source, have, m->base->results[0]->name, whole, list);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: array y is %s; each sample must have the shape of output '%.60s' %s without the class "
                        "axis, %s, with the number of samples as first dimension",
                        source, have, m->base->results[0]->name, whole, list);
}

static propane_status imported_set_output(imported_model *m, const imported_model_options *o, propane_error *err) {
    static const pass_options unused = {.drop_unused = true};
    mil_value *v;
    PROPANE_TRY(imported_choose_output(m, o, &v, err));
    if (o->loss == IMPORTED_CROSS_ENTROPY) PROPANE_TRY(imported_take_logits(m, o, &v, err));
    m->base->results[0] = v;
    m->base->result_count = 1;
    return pass_run(m->base, &unused, err);
}

/* ---- the weights ------------------------------------------------------------------------------------------------------------ */

static bool imported_computed_with(const mil_op *op, int param) {
    switch (op->info->params[param].type_class) {
    case MIL_CLASS_FLOAT:
    case MIL_CLASS_NUM:
    case MIL_CLASS_CHOSEN:
    case MIL_CLASS_TENSOR:
    case MIL_CLASS_EITHER:
    case MIL_CLASS_WEIGHT:
    case MIL_CLASS_FACTOR: break;
    default: return false;
    }
    const char *name = op->info->params[param].name;
    return op->info->code != MIL_OP_batch_norm || (strcmp(name, "mean") != 0 && strcmp(name, "variance") != 0);
}

/* Returns whether the operation scales an image input: a cast, or arithmetic with a constant, right after the input. */
static bool imported_scales_image(const mil_op *op, const bool *image) {
    bool any = false, others = false;
    switch (op->info->code) {
    case MIL_OP_cast:
    case MIL_OP_add:
    case MIL_OP_sub:
    case MIL_OP_mul:
    case MIL_OP_real_div: break;
    default: return false;
    }
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            any |= image[v->id];
            others |= !image[v->id] && !v->constant;
        }
    return any && !others;
}

/* Marks in `used`, by value id, the constants with which an operation computes. `image` is scratch, one flag per
 * value. */
static void imported_find_used(const imported_model *m, bool *used, bool *image) {
    const mil_function *f = m->base;
    for (int i = 0; m->seen && i < f->param_count; i++) {
        const mil_feature *seen = mil_feature_find(m->seen, PROPANE_INPUT, f->params[i]->name);
        image[f->params[i]->id] = seen && seen->kind == MIL_FEATURE_IMAGE;
    }
    for (const mil_op *op = f->first; op; op = op->next) {
        if (op->result_count == 1 && imported_scales_image(op, image)) {
            image[op->results[0]->id] = true;
            continue;
        }
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++)
                if (imported_computed_with(op, p)) used[op->operands[p].values[i]->id] = true;
    }
}

static bool imported_is_candidate(const mil_op *op, const bool *used) {
    const mil_value *v = op->result_count ? op->results[0] : NULL;
    return op->info->code == MIL_OP_const && used[v->id] && v->type.rank > 0 && mil_dtype_is_float(v->type.dtype) &&
           mil_type_count(&v->type) > 0;
}

static bool imported_is_mask(const mil_const *c) {
    for (int64_t i = 0, count = mil_type_count(&c->type); i < count; i++)
        if (!(fabs(mil_const_f64(c, i)) < MASK_LEAST)) return true;
    return false;
}

static bool imported_chosen(void *context, const char *name) {
    const imported_model_options *o = context;
    return words_match_any(o->trainable, name) && !words_match_any(o->freeze, name);
}

/* Returns the length of the longest substring that two texts share. */
static size_t imported_shared_length(const char *a, const char *b) {
    size_t best = 0;
    for (const char *p = a; *p; p++)
        for (const char *q = b; *q; q++) {
            size_t n = 0;
            while (p[n] && p[n] == q[n] && p[n] != '*' && p[n] != ',') n++;
            if (n > best) best = n;
        }
    return best;
}

static propane_status imported_explain_none(const imported_model *m, const imported_model_options *o, const bool *used,
                                            propane_error *err) {
    enum { SHOWN = 4 };
    const char *near[SHOWN] = {0};
    size_t length[SHOWN] = {0};
    char names[500] = "";
    size_t at = 0;
    for (const mil_op *op = m->base->first; op; op = op->next) {
        if (!imported_is_candidate(op, used)) continue;
        const char *name = op->results[0]->name;
        size_t n = 1 + imported_shared_length(o->trainable, name);
        for (int i = 0; i < SHOWN; i++) {
            if (n <= length[i]) continue;
            const char *lower = near[i];
            size_t less = length[i];
            near[i] = name, length[i] = n;
            name = lower, n = less;
        }
    }
    for (int i = 0; i < SHOWN && near[i]; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%.100s", i ? ", " : "", near[i]);
    if (!at) return propane_fail(err, PROPANE_ERR_INVALID, "%s: it has no trainable weights", o->path);
    if (m->masks)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: --trainable '%.100s' matches only masks, which are not trained; the closest of its %d weights are: %s",
            o->path, o->trainable, m->candidates, names);
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s: --trainable '%.100s'%s%.100s%s leaves nothing to train; the closest of its %d weights are: %s", o->path,
        o->trainable, *o->freeze ? " without --freeze '" : "", o->freeze, *o->freeze ? "'" : "", m->candidates, names);
}

static propane_status imported_take_weights(imported_model *m, const imported_model_options *o, const bool *used,
                                            propane_error *err) {
    arena *a = m->module->arena;
    for (const mil_op *op = m->base->first; op; op = op->next) m->candidates += imported_is_candidate(op, used);
    m->weights = ARENA_ARRAY(a, m->candidates + 1, imported_weight);
    m->names = ARENA_ARRAY(a, m->candidates + 1, const char *);
    if (!m->weights || !m->names) return propane_fail_memory(err, 0);
    for (const mil_op *op = m->base->first; op; op = op->next) {
        if (!imported_is_candidate(op, used) || !imported_chosen((void *)(uintptr_t)o, op->results[0]->name)) continue;
        const mil_value *v = op->results[0];
        if (imported_is_mask(v->constant)) {
            m->masks++;
            continue;
        }
        m->names[m->weight_count] = v->name;
        m->weights[m->weight_count++] = (imported_weight){v->name, v->type, v->constant};
        m->parameters += mil_type_count(&v->type);
    }
    return m->weight_count ? PROPANE_OK : imported_explain_none(m, o, used, err);
}

static void imported_count_ops(imported_model *m, bool *depends) {
    memset(depends, 0, (size_t)m->base->value_count);
    for (const mil_op *op = m->base->first; op; op = op->next) {
        bool any = false;
        if (op->info->code == MIL_OP_const) {
            for (int i = 0; i < m->weight_count; i++) any |= m->names[i] == op->results[0]->name;
            depends[op->results[0]->id] = any;
            continue;
        }
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++) any |= depends[op->operands[p].values[i]->id];
        for (int i = 0; i < op->result_count; i++) depends[op->results[i]->id] = any;
        m->ops++;
        m->trained_ops += any;
    }
}

static propane_status imported_find_weights(imported_model *m, const imported_model_options *o, propane_error *err) {
    const size_t count = (size_t)m->base->value_count + 1;
    bool *flags = mem_array(count, 2 * sizeof *flags);
    if (!flags) return propane_fail_memory(err, 2 * count);
    imported_find_used(m, flags, flags + count);
    propane_status status = imported_take_weights(m, o, flags, err);
    if (status == PROPANE_OK) imported_count_ops(m, flags);
    mem_free(flags);
    return status;
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

static propane_status imported_check_function(const imported_model *m, propane_error *err) {
    for (int i = 0; i < m->base->param_count; i++)
        if (m->base->params[i]->type.container != MIL_TENSOR)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: '%.60s' is a state; programs with states cannot be fine-tuned", m->module->source,
                                m->base->params[i]->name);
    return PROPANE_OK;
}

static propane_status imported_read(const imported_model_options *o, mil_module **out, propane_error *err) {
    mil_read_options options = o->shapes;
    options.late = true;
    return mil_read(o->path, &options, out, err);
}

/* Resolves the shapes that depend on values. Slices of known size whose beginning is computed become gathers; other shapes
 * that depend on values are refused. */
static propane_status imported_know_shapes(imported_model *m, propane_error *err) {
    const mil_function *late = m->base;
    if (!late->late) return PROPANE_OK;
    mil_module_drop(m->module, late); /* the function's memory belongs to the module */
    return pass_gather_slices(late, m->module, &m->base, err);
}

static propane_status imported_prepare(imported_model *m, const imported_model_options *o, propane_error *err) {
    PROPANE_TRY(imported_read(o, &m->module, err));
    m->base = mil_module_function(m->module, o->function, err);
    if (!m->base) return err ? err->status : PROPANE_ERR_NOT_FOUND;
    PROPANE_TRY(imported_know_shapes(m, err));
    m->seen = mil_interface_of(m->module, m->base->name);
    PROPANE_TRY(imported_check_function(m, err));
    PROPANE_TRY(imported_set_output(m, o, err));
    PROPANE_TRY(pass_decompress(m->base, imported_chosen, (void *)(uintptr_t)o, &m->decompressed, err));
    PROPANE_TRY(pass_retype_fp32(m->base, err));
    return imported_find_weights(m, o, err);
}

propane_status imported_model_open(const imported_model_options *o, imported_model *out, propane_error *err) {
    *out = (imported_model){.loss = o->loss};
    propane_status status = imported_prepare(out, o, err);
    if (status) imported_model_close(out);
    return status;
}

void imported_model_close(imported_model *m) {
    mil_module_free(m->module);
    *m = (imported_model){0};
}

/* ---- the functions ---------------------------------------------------------------------------------------------------------- */

static propane_status imported_variant(imported_model *m, int64_t batch, const char *name, mil_function **out,
                                       propane_error *err) {
    const pass_variant_options o = {name, m->names, m->weight_count, batch};
    PROPANE_TRY(pass_variant(m->base, &o, out, err));
    const mil_value *old = m->base->results[0], *new = (*out)->results[0];
    const bool whole = batch == 1 || (new->type.rank > 0 && new->type.dim[0] == batch * old->type.dim[0] &&
                                      (m->loss == IMPORTED_MSE || m->class_axis > 0));
    if (whole) return PROPANE_OK;
    mil_module_drop(m->module, *out);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the first dimension of output '%.60s' is not the sample",
                        old->name);
}

propane_status imported_model_forward(imported_model *m, int64_t batch, const char *name, mil_function **out,
                                      propane_error *err) {
    PROPANE_TRY(imported_variant(m, batch, name, out, err));
    return pass_run(*out, &pass_all, err);
}

static mil_value *imported_sum_all(mil_builder *b, mil_value *v) {
    int64_t axes[MIL_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < v->type.rank; d++) axes[d] = d;
    return mil_build_reduce(b, MIL_OP_reduce_sum, v, axes, v->type.rank, true);
}

/* -sum of target * log softmax(logits) */
static mil_value *imported_cross_entropy(const imported_model *m, mil_builder *b, mil_value *logits,
                                         mil_value *target) {
    const int64_t axis = m->class_axis;
    mil_value *all = mil_build_reduce(b, MIL_OP_reduce_log_sum_exp, logits, &axis, 1, true);
    mil_value *share = mil_build_reduce(b, MIL_OP_reduce_sum, target, &axis, 1, true);
    mil_value *goal = mil_build_binary(b, MIL_OP_mul, logits, target);
    goal = mil_build_reduce(b, MIL_OP_reduce_sum, goal, &axis, 1, true);
    return imported_sum_all(b, mil_build_binary(b, MIL_OP_sub, mil_build_binary(b, MIL_OP_mul, all, share), goal));
}

static propane_status imported_add_loss(const imported_model *m, mil_function *f, propane_error *err) {
    mil_builder b;
    mil_build_resume(&b, f);
    mil_value *y = f->results[0];
    if (y->type.rank == 0) y = mil_build_reshape(&b, y, (int64_t[]){1}, 1);
    mil_value *target = y ? mil_build_param(&b, IMPORTED_TARGET, y->type) : NULL, *loss = NULL;
    if (target && m->loss == IMPORTED_CROSS_ENTROPY) loss = imported_cross_entropy(m, &b, y, target);
    if (target && m->loss == IMPORTED_MSE)
        loss = imported_sum_all(&b, mil_build_unary(&b, MIL_OP_square, mil_build_binary(&b, MIL_OP_sub, y, target)));
    if (loss && mil_rename(f, loss, IMPORTED_LOSS, &b.err)) loss = NULL;
    f->result_count = 0;
    if (loss) mil_build_result(&b, loss);
    return mil_build_end(&b, err);
}

propane_status imported_model_train(imported_model *m, int64_t batch, const char *name, mil_function **out,
                                    propane_error *err) {
    mil_function *loss = NULL;
    *out = NULL;
    PROPANE_TRY(imported_variant(m, batch, "propane.forward", &loss, err));
    propane_status status = pass_unroll(loss, m->names, m->weight_count, err);
    if (status == PROPANE_OK) status = imported_add_loss(m, loss, err);
    if (status == PROPANE_OK) status = pass_run(loss, &pass_all, err);
    if (status == PROPANE_OK) status = grad_function(loss, name, m->names, m->weight_count, out, err);
    mil_module_drop(m->module, loss);
    if (status == PROPANE_OK) status = pass_run(*out, &pass_all, err);
    m->gradient_ops = 0;
    for (const mil_op *op = status ? NULL : (*out)->first; op; op = op->next)
        m->gradient_ops += op->backward && op->info->code != MIL_OP_const;
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

static mil_op *imported_const_of(const mil_function *f, const char *name) {
    for (mil_op *op = f->first; op; op = op->next)
        if (op->info->code == MIL_OP_const && strcmp(op->results[0]->name, name) == 0) return op;
    return NULL;
}

/* Replaces a weight's constant by a new one of the file's type. Other users of the old constant keep it. */
static propane_status imported_replace(mil_module *to, const mil_function *f, const imported_weight *w,
                                       const float *values, propane_error *err) {
    mil_op *op = imported_const_of(f, w->name);
    mil_const *c = ARENA_NEW(to->arena, mil_const);
    const int64_t count = mil_type_count(&w->type);
    if (!op || !mil_shape_equal(&op->results[0]->type, &w->type))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file has changed since it was read: '%.60s' differs",
                            to->source, w->name);
    const mil_dtype dtype = op->results[0]->type.dtype;
    void *data = c ? arena_alloc(to->arena, (size_t)mil_type_bytes(&op->results[0]->type)) : NULL;
    if (!data) return propane_fail_memory(err, (size_t)count * 4);
    for (int64_t i = 0; i < count; i++) {
        const double value = mil_round(dtype, (double)values[i]);
        if (!isfinite(value))
            return propane_fail(err, PROPANE_ERR_INVALID, "weight '%.60s' has become %g, which %s cannot hold", w->name,
                                (double)values[i], mil_dtype_get(dtype)->name);
        mil_pack_f64((char *)data + i * (mil_dtype_get(dtype)->bits / 8), dtype, &value, 1);
    }
    *c = (mil_const){.type = op->results[0]->type, .data = data, .bytes = mil_type_bytes(&op->results[0]->type)};
    op->results[0]->constant = c;
    op->operands[0].values[0]->constant = c;
    return PROPANE_OK;
}

static propane_status imported_write_into(const imported_model *m, const imported_model_options *o, mil_module *to,
                                          const float *const *weights, const char *path, propane_error *err) {
    int unused;
    mil_function *f = mil_module_function(to, o->function, err);
    if (!f) return err ? err->status : PROPANE_ERR_NOT_FOUND;
    PROPANE_TRY(pass_decompress(f, imported_chosen, (void *)(uintptr_t)o, &unused, err));
    for (int i = 0; i < m->weight_count; i++) PROPANE_TRY(imported_replace(to, f, &m->weights[i], weights[i], err));
    return mil_package_write(to, path, err);
}

propane_status imported_model_write(const imported_model *m, const imported_model_options *o,
                                    const float *const *weights, const char *path, propane_error *err) {
    mil_module *to = NULL;
    PROPANE_TRY(imported_read(o, &to, err));
    propane_status status = imported_write_into(m, o, to, weights, path, err);
    mil_module_free(to);
    return status;
}
