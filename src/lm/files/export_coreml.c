/* SPDX-License-Identifier: MIT
 * Owns the export of a language model as one complete program from token ids to logits, with weights as constants and
 * keys and values in states. lm/arch/forward.h builds the layers. No constant depends on the number of tokens per call,
 * so the writer can leave that dimension open (core/mil/coreml/package.h). Positions, and the rows of the cache that
 * are written, follow from the input `position`. Contexts longer than the model's are refused.
 */
#include "lm/files/export_coreml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/mil/coreml/package.h"
#include "lm/arch/forward.h"

#define ARG(param, value)                                                                                              \
    {                                                                                                                  \
        param, 1, (mil_value *const[]) { value }                                                                       \
    }
#define COUNT(list) (int)(sizeof(list) / sizeof((list)[0]))

typedef struct exporter {
    model_weights *w;
    const model_config *c;
    const model_export_options *o;
    mil_builder b;
    mil_value *ids, *position, *end; /* end: position + tokens of this call, [1] */
    mil_value *states[2];            /* keys, values */
    int64_t length;                  /* tokens per call, for which the module is built */
    bool open;
} exporter;

static mil_value *export_one(exporter *e, mil_opcode code, const char *name, const mil_argument *arguments, int count) {
    mil_op *op = mil_build_op(&e->b, code, name, arguments, count);
    return op && op->result_count ? op->results[0] : NULL;
}

static mil_value *export_gather(exporter *e, const char *name, mil_value *x, mil_value *indices, int32_t axis) {
    mil_argument a[] = {ARG("x", x), ARG("indices", indices), ARG("axis", mil_build_int(&e->b, axis))};
    return export_one(e, MIL_OP_gather, name, a, COUNT(a));
}

/* Makes a constant of the program's type from a table of fp32 numbers. */
static mil_value *export_table(exporter *e, const char *name, int rank, const int64_t *dim, const float *data) {
    mil_type type = mil_type_tensor(e->o->dtype, rank, dim);
    const int64_t count = mil_type_count(&type);
    if (type.dtype == MIL_fp32) return mil_build_const(&e->b, name, &type, data);
    uint16_t *half = mem_array((size_t)count, sizeof *half);
    if (!half) {
        propane_fail_memory(&e->b.err, (size_t)count * sizeof *half);
        return NULL;
    }
    fp16_from_f32_array(half, data, (size_t)count);
    mil_value *v = mil_build_const(&e->b, name, &type, half);
    mem_free(half);
    return v;
}

/* ---- positions -------------------------------------------------------------------------------------------------------------- */

/* Makes the number of tokens of this call, as a scalar or as a list of one. */
static mil_value *export_tokens(exporter *e, bool scalar) {
    if (!e->open)
        return scalar ? mil_build_int(&e->b, (int32_t)e->length) : mil_build_ints(&e->b, (int64_t[]){e->length}, 1);
    mil_argument a[] = {ARG("x", e->ids)};
    mil_value *shape = export_one(e, MIL_OP_shape, "ids_shape", a, 1);
    return export_gather(e, scalar ? "tokens" : "tokens_list", shape,
                         scalar ? mil_build_int(&e->b, 1) : mil_build_ints(&e->b, (int64_t[]){1}, 1), 0);
}

/* Makes the positions [T]: position, position + 1, ...; without a cache, they start at 0. */
static mil_value *export_positions(exporter *e) {
    mil_argument a[] = {ARG("end", export_tokens(e, true)), ARG("start", mil_build_int(&e->b, 0)),
                        ARG("step", mil_build_int(&e->b, 1))};
    mil_value *range = export_one(e, MIL_OP_range_1d, "token_index", a, COUNT(a));
    if (!e->position) return range;
    mil_argument sum[] = {ARG("x", range), ARG("y", e->position)};
    return export_one(e, MIL_OP_add, "positions", sum, COUNT(sum));
}

static int64_t export_reach(const exporter *e) { return e->o->stateless ? e->length : e->o->context; }

/* Looks up cos and sin [1,1,HD,T] for the positions `where` in tables that cover all positions. */
static void export_rope_angles(exporter *e, mil_value *where, int kind, mil_value **cosine, mil_value **sine) {
    const int64_t hd = e->c->head_dim, n = export_reach(e), dim[] = {hd, n}, to[] = {1, 1, hd, -1};
    static const char *const names[] = {"rope_cos", "rope_sin"};
    double *both = mem_array((size_t)(2 * hd * n), sizeof *both);
    if (!both) {
        propane_fail_memory(&e->b.err, (size_t)(2 * hd * n) * sizeof *both);
        return;
    }
    model_rope_tables(e->c, model_config_kind_layer(e->c, kind), 0, n, both, both + hd * n);
    mil_value **out[] = {cosine, sine};
    const mil_type type = mil_type_tensor(e->o->dtype, 2, dim);
    for (int i = 0; i < 2; i++) {
        const char *name = kind ? arena_printf(e->b.module->arena, "%s_%d", names[i], kind) : names[i];
        mil_value *all = mil_build_const_f64(&e->b, name, &type, both + i * hd * n);
        *out[i] = mil_build_reshape(&e->b, export_gather(e, NULL, all, where, 1), to, 4);
    }
    mem_free(both);
}

/* Makes x [1,D,1,T] from the tokens' rows and, if there are any, the rows of learned positions. */
static mil_value *export_embedding(exporter *e, mil_value *where) {
    const int64_t d = e->c->hidden_size, to[] = {1, d, 1, -1}, last_first[] = {0, 2, 1};
    const model_tensor *t = model_weights_param(e->w, MODEL_EMBED, -1, "embed_tokens"),
                       *p = model_weights_param(e->w, MODEL_EMBED, -1, "embed_positions");
    mil_value *rows =
        export_table(e, "embed_tokens", 2, (const int64_t[]){e->c->vocab_size, d}, model_weights_data(e->w, t));
    mil_value *x = export_gather(e, "embedding", rows, e->ids, 0); /* [1,T,D] */
    if (p) {
        rows =
            export_table(e, "embed_positions", 2, (const int64_t[]){export_reach(e), d}, model_weights_data(e->w, p));
        x = mil_build_binary(&e->b, MIL_OP_add, x, export_gather(e, "embedding_position", rows, where, 0));
    }
    return mil_build_reshape(&e->b, mil_build_transpose(&e->b, x, last_first, 3), to, 4);
}

/* ---- the cache -------------------------------------------------------------------------------------------------------------- */

static mil_value *export_corner(exporter *e, int64_t layer, int64_t heads, mil_value *at, int64_t last) {
    mil_value *parts[] = {mil_build_ints(&e->b, &layer, 1), mil_build_ints(&e->b, &heads, 1), at,
                          mil_build_ints(&e->b, &last, 1)};
    return mil_build_concat(&e->b, parts, 4, 0);
}

/* Writes the new rows into the layer's part of the state, and returns the whole part. */
static mil_value *export_extend(void *context, mil_builder *b, int layer, bool values, mil_value *fresh) {
    exporter *e = context;
    mil_builder before = e->b;
    const int64_t kv = e->c->num_key_value_heads, hd = e->c->head_dim, swap[] = {0, 1, 3, 2};
    const int64_t from[] = {layer, 0, 0, 0}, size[] = {1, kv, e->o->context, hd};
    static const char *const names[] = {"key_cache", "value_cache"};
    mil_value *state = e->states[values];
    e->b = *b;
    mil_argument read[] = {ARG("input", state)};
    mil_value *old = export_one(e, MIL_OP_read_state, names[values], read, 1);
    mil_argument change[] = {ARG("x", old), ARG("update", mil_build_transpose(&e->b, fresh, swap, 4)),
                             ARG("begin", export_corner(e, layer, 0, e->position, 0)),
                             ARG("end", export_corner(e, layer + 1, kv, e->end, hd))};
    mil_value *changed = export_one(e, MIL_OP_slice_update, NULL, change, COUNT(change));
    mil_argument write[] = {ARG("input", state), ARG("data", changed)};
    const char *label = arena_printf(e->b.module->arena, "%s_write_%d", names[values], layer);
    (void)mil_build_op(&e->b, MIL_OP_write_state, label, write, COUNT(write));
    mil_value *now = export_one(e, MIL_OP_read_state, names[values], read, 1);
    mil_value *out = mil_build_transpose(&e->b, mil_build_slice(&e->b, now, from, size), swap, 4);
    *b = e->b;
    e->b = before;
    return out;
}

/* ---- the function ----------------------------------------------------------------------------------------------------------- */

static mil_value *export_fixed_mask(exporter *e, int kind) {
    const char *name = kind ? arena_printf(e->b.module->arena, "causal_mask_%d", kind) : "causal_mask";
    const int64_t n = e->length, dim[] = {1, 1, n, n};
    float *mask = mem_array((size_t)(n * n), sizeof *mask);
    if (!mask) {
        propane_fail_memory(&e->b.err, (size_t)(n * n) * sizeof *mask);
        return NULL;
    }
    model_mask(n, 0, 0, model_config_window(e->c, model_config_kind_layer(e->c, kind)), mask);
    mil_value *v = export_table(e, name, 4, dim, mask);
    mem_free(mask);
    return v;
}

static void export_inputs(exporter *e, model_attention *a) {
    static const char *const names[] = {"keyCache", "valueCache"};
    mil_builder *b = &e->b;
    const int64_t n = e->length, context = e->o->context;
    e->ids = mil_build_param(b, "inputIds", mil_type_tensor(MIL_int32, 2, (const int64_t[]){1, n}));
    if (e->o->stateless) {
        for (int k = 0; k < model_config_kinds(e->c); k++) a->mask[k] = export_fixed_mask(e, k);
        return;
    }
    e->position = mil_build_param(b, "position", mil_type_tensor(MIL_int32, 1, (const int64_t[]){1}));
    mil_value *mask =
        mil_build_param(b, "causalMask", mil_type_tensor(e->o->dtype, 4, (const int64_t[]){1, 1, n, context}));
    const int64_t dim[] = {e->c->num_hidden_layers, e->c->num_key_value_heads, context, e->c->head_dim};
    mil_type type = mil_type_tensor(e->o->dtype, 4, dim);
    type.container = MIL_STATE;
    for (int i = 0; i < 2; i++) e->states[i] = mil_build_param(b, names[i], type);
    e->end = mil_build_binary(b, MIL_OP_add, e->position, export_tokens(e, false));
    for (int k = 0; k < model_config_kinds(e->c); k++) a->mask[k] = mask;
    a->extend = export_extend;
    a->length = context;
}

/* Adds a window to the caller's mask, which expresses only the order of positions: masks columns with position - column
 * >= window. */
static void export_add_window(exporter *e, mil_value *where, int kind, mil_value **mask) {
    mil_builder *b = &e->b;
    const int64_t context = e->o->context, row[] = {1, 1, 1, context}, column[] = {1, 1, -1, 1};
    const int64_t window = model_config_window(e->c, model_config_kind_layer(e->c, kind));
    int32_t *numbers = mem_array((size_t)context, sizeof *numbers);
    if (!numbers) {
        propane_fail_memory(&b->err, (size_t)context * sizeof *numbers);
        return;
    }
    for (int64_t i = 0; i < context; i++) numbers[i] = (int32_t)(i + window);
    const mil_type type = mil_type_tensor(MIL_int32, 4, row);
    mil_value *reach = mil_build_const(b, arena_printf(b->module->arena, "reach_%d", kind), &type, numbers);
    mem_free(numbers);
    mil_argument test[] = {ARG("x", mil_build_reshape(b, where, column, 4)), ARG("y", reach)};
    mil_value *far = export_one(e, MIL_OP_greater_equal, NULL, test, COUNT(test));
    mil_value *killed = mil_build_scalar(b, e->o->dtype, MODEL_MASKED);
    mil_argument choice[] = {ARG("cond", far), ARG("a", killed), ARG("b", *mask)};
    *mask = export_one(e, MIL_OP_select, arena_printf(b->module->arena, "window_mask_%d", kind), choice, COUNT(choice));
}

static propane_status export_build(exporter *e, mil_module *m, propane_error *err) {
    const int64_t v = e->c->vocab_size, perm[] = {0, 3, 1, 2}, to[] = {1, -1, v};
    const model_build_options o = {
        .batch = 1, .sequence = e->length, .dtype = e->o->dtype, .baked = model_weight_from, .baked_context = e->w};
    model_attention a = {.context = e, .length = e->length, .open = e->open};
    mil_build_begin(&e->b, m, "main", e->o->stateless ? MIL_IOS15 : MIL_IOS18);
    export_inputs(e, &a);
    mil_value *where = export_positions(e);
    mil_value *x = export_embedding(e, where);
    for (int k = 0; k < model_config_kinds(e->c); k++) {
        const int64_t layer = model_config_kind_layer(e->c, k);
        if (model_arch_of(e->c)->position == ARCH_ROPE && model_config_turns(e->c, layer))
            export_rope_angles(e, where, k, &a.cos[k], &a.sin[k]);
        if (!e->o->stateless && model_config_window(e->c, layer)) export_add_window(e, where, k, &a.mask[k]);
    }
    x = model_build_layers(&e->b, e->c, &o, &a, x);               /* [1,V,1,T] */
    const bool cast = e->o->stateless && e->o->dtype == MIL_fp16; /* iOS 15 has no fp16 outputs */
    x = mil_build_reshape(&e->b, mil_build_transpose(&e->b, x, perm, 4), to, 3);
    if (cast) x = mil_build_cast(&e->b, x, MIL_fp32);
    if (x) (void)!mil_rename(e->b.function, x, "logits", &e->b.err);
    mil_build_result(&e->b, x);
    return mil_build_end(&e->b, err);
}

/* ---- interface for apps ----------------------------------------------------------------------------------------- */

static mil_feature *export_describe(const exporter *e, mil_feature *f, const mil_value *v, const char *words) {
    *f = (mil_feature){.name = v->name,
                       .text = words,
                       .kind = v->type.container == MIL_STATE ? MIL_FEATURE_STATE : MIL_FEATURE_ARRAY,
                       .dtype = v->type.dtype,
                       .shape = mil_type_bare(&v->type)};
    return f;
}

/* Lists the shapes that an input may have: one per length, in dimension d. */
static bool export_enumerate(const exporter *e, mil_module *m, mil_feature *f, int d) {
    if (!e->open) return true;
    f->shapes = ARENA_ARRAY(m->arena, e->o->length_count, mil_type);
    for (int i = 0; f->shapes && i < e->o->length_count; i++) {
        mil_type *shape = &f->shapes[f->shape_count++];
        *shape = f->shape;
        shape->dim[d] = e->o->lengths[i];
    }
    return f->shapes != NULL;
}

static bool export_describe_interface(const exporter *e, mil_module *m, mil_interface *seen) {
    const mil_function *f = m->functions;
    *seen = (mil_interface){.function = "main", .predicted = "", .probabilities = ""};
    seen->inputs = ARENA_ARRAY(m->arena, 3, mil_feature);
    seen->outputs = ARENA_ARRAY(m->arena, 1, mil_feature);
    seen->states = ARENA_ARRAY(m->arena, 2, mil_feature);
    if (!seen->inputs || !seen->outputs || !seen->states) return false;
    bool ok = export_enumerate(e, m, export_describe(e, &seen->inputs[seen->input_count++], e->ids, "token ids"), 1);
    export_describe(e, &seen->outputs[seen->output_count++], f->results[0], "logits of the token after each token");
    if (e->open) seen->outputs[0].shape.rank = 0; /* the shape depends on the inputs */
    if (e->o->stateless) return ok;
    export_describe(e, &seen->inputs[seen->input_count++], e->position, "position of the first token");
    ok &= export_enumerate(
        e, m,
        export_describe(e, &seen->inputs[seen->input_count++], f->params[2],
                        "added to the attention scores: 0 for visible positions, -10000 for masked ones"),
        2);
    export_describe(e, &seen->states[seen->state_count++], e->states[0], "");
    export_describe(e, &seen->states[seen->state_count++], e->states[1], "");
    return ok;
}

static propane_status export_describe_package(const exporter *e, mil_module *m, propane_error *err) {
    struct mil_package *p = m->package = ARENA_NEW(m->arena, struct mil_package);
    json_t *json = model_config_to_json(e->c);
    char *line = NULL;
    propane_status status = json_print(json, JSON_COMPACT | JSON_SORT_KEYS, &line, NULL, err);
    json_decref(json);
    bool ok = p && line;
    if (ok) {
        p->version = p->author = p->license = "";
        p->text = arena_printf(m->arena, "A %s language model of %lld layers", e->c->model_type,
                               (long long)e->c->num_hidden_layers);
        p->interfaces = ARENA_ARRAY(m->arena, 1, mil_interface);
        p->user = ARENA_ARRAY(m->arena, 1, mil_pair);
        ok = p->text && p->interfaces && p->user && export_describe_interface(e, m, p->interfaces);
    }
    if (ok) {
        p->interface_count = p->user_count = 1;
        p->user[0] = (mil_pair){"propane.config", arena_string(m->arena, line)};
        ok = p->user[0].value != NULL;
    }
    mem_free(line);
    return ok || status ? status : propane_fail_memory(err, 0);
}

/* ---- options ---------------------------------------------------------------------------------------------------------------- */

static propane_status export_check(const model_config *c, model_export_options *o, propane_error *err) {
    const int64_t most = c->max_position_embeddings;
    if (o->stateless < 0 || o->stateless > most)
        return propane_fail(err, PROPANE_ERR_INVALID, "%lld tokens per call, but the model has %lld positions",
                            (long long)o->stateless, (long long)most);
    if (!o->context) o->context = most < MODEL_EXPORT_CONTEXT ? most : MODEL_EXPORT_CONTEXT;
    if (o->context < 1 || o->context > most)
        return propane_fail(err, PROPANE_ERR_INVALID, "a context of %lld positions, but the model has %lld",
                            (long long)o->context, (long long)most);
    if (!o->length_count) {
        int64_t chunk = 64;
        while (chunk > o->context) chunk /= 2;
        o->lengths[o->length_count++] = 1;
        if (chunk > 1) o->lengths[o->length_count++] = chunk;
    }
    for (int i = 0; i < o->length_count; i++) {
        if (o->lengths[i] < 1 || o->lengths[i] > o->context)
            return propane_fail(err, PROPANE_ERR_INVALID, "%lld tokens per call; it must be 1 to %lld, the context",
                                (long long)o->lengths[i], (long long)o->context);
        for (int k = 0; k < i; k++)
            if (o->lengths[k] == o->lengths[i])
                return propane_fail(err, PROPANE_ERR_INVALID, "%lld tokens per call are given twice",
                                    (long long)o->lengths[i]);
    }
    return PROPANE_OK;
}

propane_status model_export(model_weights *w, model_export_options *options, mil_module **out, propane_error *err) {
    *out = NULL;
    PROPANE_TRY(export_check(&w->config, options, err));
    mil_module *m = mil_module_create("the model's program");
    if (!m) return propane_fail_memory(err, 0);
    exporter e = {.w = w, .c = &w->config, .o = options};
    e.length = options->stateless ? options->stateless : options->lengths[0];
    e.open = !options->stateless && options->length_count > 1;
    propane_status status = export_build(&e, m, err);
    if (!status) status = export_describe_package(&e, m, err);
    if (status)
        mil_module_free(m);
    else
        *out = m;
    return status;
}
