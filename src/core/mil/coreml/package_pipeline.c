/* SPDX-License-Identifier: MIT
 * Owns pipelines: a sequence of models, each reading by name the outputs of earlier ones. One idea: the models become
 * one program before anything is verified. Values of all models but the first get a prefix, and non-maximum suppression
 * becomes operations (package_suppression.c). A pipeline thus runs, is checked and is estimated like any program.
 * Models of older kinds have already become programs (package_read.c). Refuses parts of other kinds, programs with
 * states, and programs of different opsets.
 */
#include "core/mil/coreml/package_pipeline.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package_older.h"
#include "core/mil/coreml/package_suppression.h"
#include "core/mil/coreml/package_wire.h"
#include "core/mil/ir_edit.h"

enum { MAX_PARTS = 64, MAX_LINKS = 256, MAX_NEST = 8 };

typedef struct join {
    package_parts parts;
    Coreml__Function *function; /* main */
    Coreml__Block *block;
    const char *opset;
    int part; /* index of the current part */
    char prefix[24];
    package_link params[MAX_LINKS]; /* of the current part: name and value of each parameter */
    int param_count;
    char **results; /* of the current part: names in its description */
    size_t result_count;
    propane_error *err;
} join;

static const char *pipeline_shown(char out[80], const char *name) { return text_quote(out, name, strlen(name)); }

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static propane_status pipeline_add_link(join *j, package_link link) {
    if (j->parts.link_count == MAX_LINKS)
        return propane_fail(j->err, PROPANE_ERR_LIMIT, "%s: a pipeline of more than %d values between its models",
                            j->parts.module->source, MAX_LINKS);
    j->parts.links[j->parts.link_count++] = link;
    return PROPANE_OK;
}

static bool pipeline_is_output(const join *j, const char *name) {
    const Coreml__ModelDescription *d = j->parts.described;
    for (size_t i = 0; i < d->n_output; i++)
        if (strcmp(d->output[i]->name, name) == 0) return true;
    return false;
}

/* Returns whether a value of the current part keeps its name. In the first part, all do except inner values that have
 * the name of an output of the pipeline. In later parts, only outputs of the pipeline do. */
static bool pipeline_keeps_name(const join *j, const char *name) {
    if (!pipeline_is_output(j, name)) return j->part == 0;
    for (size_t i = 0; i < j->result_count; i++)
        if (strcmp(j->results[i], name) == 0) return true;
    return false;
}

/* Replaces a name of a message. package_wire.c frees the new name with the message. */
static propane_status pipeline_rename(join *j, char **at) {
    const char *to = NULL;
    char *copy = NULL;
    for (int i = 0; i < j->param_count && !to; i++)
        if (strcmp(j->params[i].feature, *at) == 0) to = j->params[i].value;
    if (!to && pipeline_keeps_name(j, *at)) return PROPANE_OK;
    if (to) {
        copy = mem_copy_string(to);
    } else {
        text joined = {0};
        text_printf(&joined, "%s%s", j->prefix, *at);
        copy = joined.failed ? NULL : mem_copy_string(joined.data);
        text_deinit(&joined);
    }
    if (!copy) return propane_fail_memory(j->err, strlen(*at));
    if (*at != protobuf_c_empty_string) mem_free(*at);
    *at = copy;
    return PROPANE_OK;
}

static propane_status pipeline_rename_block(join *j, Coreml__Block *block, int depth);

static propane_status pipeline_rename_op(join *j, Coreml__Operation *op, int depth) {
    for (size_t i = 0; i < op->n_inputs; i++)
        for (size_t k = 0; op->inputs[i]->value && k < op->inputs[i]->value->n_bindings; k++) {
            Coreml__Binding *b = op->inputs[i]->value->bindings[k];
            if (b->kind_case == COREML__BINDING__KIND_NAME) PROPANE_TRY(pipeline_rename(j, &b->name));
        }
    for (size_t i = 0; i < op->n_outputs; i++) PROPANE_TRY(pipeline_rename(j, &op->outputs[i]->name));
    for (size_t i = 0; i < op->n_blocks; i++) PROPANE_TRY(pipeline_rename_block(j, op->blocks[i], depth + 1));
    return PROPANE_OK;
}

static propane_status pipeline_rename_block(join *j, Coreml__Block *block, int depth) {
    if (depth > MIL_MAX_DEPTH)
        return propane_fail(j->err, PROPANE_ERR_INVALID, "%s: more than %d nested blocks", j->parts.module->source,
                            MIL_MAX_DEPTH);
    for (size_t i = 0; i < block->n_inputs; i++) PROPANE_TRY(pipeline_rename(j, &block->inputs[i]->name));
    for (size_t i = 0; i < block->n_operations; i++) PROPANE_TRY(pipeline_rename_op(j, block->operations[i], depth));
    for (size_t i = 0; i < block->n_outputs; i++) PROPANE_TRY(pipeline_rename(j, &block->outputs[i]));
    return PROPANE_OK;
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

static bool pipeline_same_dtype(const Coreml__ValueType *a, const Coreml__ValueType *b) {
    return a->kind_case != COREML__VALUE_TYPE__KIND_TENSOR || b->kind_case != COREML__VALUE_TYPE__KIND_TENSOR ||
           a->tensor->data_type == b->tensor->data_type;
}

/* Converts an array between models, because one part may produce fp32 where another reads fp16. */
static propane_status pipeline_cast(join *j, package_link *param, const package_link *from,
                                    const Coreml__NamedType *input) {
    const mil_dtype known = package_message_dtype(input->type->tensor->data_type), dtype = known ? known : MIL_fp32;
    param->value = arena_printf(j->parts.module->arena, "%s%s_%s", j->prefix, input->name, mil_dtype_get(dtype)->name);
    if (!param->value) return propane_fail_memory(j->err, 0);
    Coreml__Operation *op =
        package_message_op(&j->parts.ops, "cast", param->value, dtype, (int)from->type->tensor->rank);
    package_message_arg(&j->parts.ops, op, "x", from->value);
    package_message_text(&j->parts.ops, op, "dtype", mil_dtype_get(dtype)->name);
    return j->parts.ops.failed ? propane_fail_memory(j->err, 0) : PROPANE_OK;
}

static propane_status pipeline_bind_param(join *j, const char *part, const Coreml__NamedType *input) {
    char shown[80], other[80];
    package_link *from = package_parts_link(&j->parts, input->name);
    if (!from)
        return propane_fail(j->err, PROPANE_ERR_INVALID,
                            "%s: model '%s' of the pipeline reads '%s', which no model produces",
                            j->parts.module->source, pipeline_shown(shown, part), pipeline_shown(other, input->name));
    if (!input->type || input->type->kind_case == COREML__VALUE_TYPE__KIND_STATE || from->counted ||
        j->param_count == MAX_LINKS)
        return propane_fail(j->err, PROPANE_ERR_UNSUPPORTED,
                            "%s: model '%s' of the pipeline reads '%s', %s; this is not supported in a pipeline",
                            j->parts.module->source, pipeline_shown(shown, part), pipeline_shown(other, input->name),
                            from->counted ? "boxes chosen by a non-maximum suppression" : "a state");
    if (!from->value) PROPANE_TRY(package_parts_input(&j->parts, from, input->type));
    package_link *param = &j->params[j->param_count++];
    *param = (package_link){.feature = arena_string(j->parts.module->arena, input->name), .value = from->value};
    if (!param->feature) return propane_fail_memory(j->err, 0);
    return pipeline_same_dtype(from->type, input->type) ? PROPANE_OK : pipeline_cast(j, param, from, input);
}

/* Returns the type of the block's value that now has that name, or NULL if there is none. */
static const Coreml__ValueType *pipeline_type_of(const Coreml__Block *block, const char *name) {
    for (size_t i = 0; i < block->n_operations; i++)
        for (size_t k = 0; k < block->operations[i]->n_outputs; k++)
            if (strcmp(block->operations[i]->outputs[k]->name, name) == 0)
                return block->operations[i]->outputs[k]->type;
    return NULL;
}

static propane_status pipeline_take_ops(join *j, const char *part, Coreml__Block *block) {
    char shown[80];
    for (size_t i = 0; i < block->n_operations; i++) {
        if (j->parts.ops.count == j->parts.ops.room) return propane_fail_memory(j->err, 0);
        j->parts.ops.list[j->parts.ops.count++] = block->operations[i];
    }
    return block->n_operations || block->n_outputs
               ? PROPANE_OK
               : propane_fail(j->err, PROPANE_ERR_INVALID, "%s: model '%s' of the pipeline is empty",
                              j->parts.module->source, pipeline_shown(shown, part));
}

static bool pipeline_describes(const Coreml__ModelDescription *d, const char *name) {
    for (size_t i = 0; d && i < d->n_output; i++)
        if (strcmp(d->output[i]->name, name) == 0) return true;
    return false;
}

static bool pipeline_gives(const Coreml__Block *block, const char *name) {
    for (size_t i = 0; i < block->n_outputs; i++)
        if (strcmp(block->outputs[i], name) == 0) return true;
    return false;
}

/* Returns the name that output i of a part's program has in the part's description. A model may have an output with the
 * name of one of its inputs, which a program may not. Such results have other names and are in the order of the
 * description. */
static const char *pipeline_feature(const Coreml__ModelDescription *d, const Coreml__Block *block, size_t i) {
    size_t before = 0;
    if (pipeline_describes(d, block->outputs[i])) return block->outputs[i];
    for (size_t k = 0; k < i; k++) before += !pipeline_describes(d, block->outputs[k]);
    for (size_t k = 0; d && k < d->n_output; k++)
        if (!pipeline_gives(block, d->output[k]->name) && before-- == 0) return d->output[k]->name;
    return block->outputs[i];
}

static propane_status pipeline_note_results(join *j, const Coreml__ModelDescription *d, const Coreml__Block *block) {
    arena *a = j->parts.module->arena;
    j->results = ARENA_ARRAY(a, block->n_outputs + 1, char *);
    j->result_count = 0;
    for (size_t i = 0; j->results && i < block->n_outputs; i++) {
        if (!(j->results[i] = arena_string(a, pipeline_feature(d, block, i)))) return propane_fail_memory(j->err, 0);
        j->result_count++;
    }
    return j->results ? PROPANE_OK : propane_fail_memory(j->err, 0);
}

static propane_status pipeline_link_results(join *j, const Coreml__Block *block) {
    for (size_t i = 0; i < block->n_outputs; i++) {
        const Coreml__ValueType *type = pipeline_type_of(block, block->outputs[i]);
        const package_link *same = NULL; /* for a result that is a parameter */
        for (int k = 0; k < j->parts.link_count && !type && !same; k++)
            if (j->parts.links[k].value && strcmp(j->parts.links[k].value, block->outputs[i]) == 0)
                same = &j->parts.links[k];
        const package_link link = {.feature = j->results[i],
                                   .value = block->outputs[i],
                                   .type = type   ? type
                                           : same ? same->type
                                                  : NULL};
        if (!link.type)
            return propane_fail(j->err, PROPANE_ERR_INVALID,
                                "%s: result '%.60s' of a model of the pipeline is not defined", j->parts.module->source,
                                block->outputs[i]);
        PROPANE_TRY(pipeline_add_link(j, link));
    }
    return PROPANE_OK;
}

/* Returns the function that runs: the only one, or "main". Returns NULL if there is neither. */
static Coreml__Function *pipeline_function(const Coreml__Program *program) {
    for (size_t i = 0; i < program->n_functions; i++)
        if (program->n_functions == 1 || strcmp(program->functions[i]->key, "main") == 0)
            return program->functions[i]->value;
    return NULL;
}

static propane_status pipeline_add_program(join *j, const char *part, const Coreml__Model *model) {
    const Coreml__Program *program = model->program;
    char shown[80];
    Coreml__Function *f = pipeline_function(program);
    Coreml__Block *block = NULL;
    for (size_t i = 0; f && i < f->n_blocks; i++)
        if (strcmp(f->blocks[i]->key, f->opset) == 0) block = f->blocks[i]->value;
    if (!block)
        return propane_fail(j->err, PROPANE_ERR_INVALID, "%s: model '%s' of the pipeline has no function 'main'",
                            j->parts.module->source, pipeline_shown(shown, part));
    if (j->opset && strcmp(j->opset, f->opset) != 0)
        return propane_fail(j->err, PROPANE_ERR_UNSUPPORTED,
                            "%s: the pipeline mixes models of opset %.20s and %.20s: convert them with the same "
                            "minimum_deployment_target",
                            j->parts.module->source, j->opset, f->opset);
    j->opset = f->opset;
    j->param_count = 0;
    for (size_t i = 0; i < f->n_inputs; i++) PROPANE_TRY(pipeline_bind_param(j, part, f->inputs[i]));
    PROPANE_TRY(pipeline_note_results(j, model->description, block));
    PROPANE_TRY(pipeline_rename_block(j, block, 0));
    PROPANE_TRY(pipeline_take_ops(j, part, block));
    return pipeline_link_results(j, block);
}

/* ---- parts ------------------------------------------------------------------------------------------------------------------ */

static propane_status pipeline_add(join *j, const Coreml__Pipeline *pipeline, int depth);

static propane_status pipeline_add_part(join *j, const char *part, const Coreml__Model *model, int depth) {
    const Coreml__Pipeline *inner = package_wire_pipeline(model);
    if (inner) return pipeline_add(j, inner, depth + 1);
    if (j->part == MAX_PARTS)
        return propane_fail(j->err, PROPANE_ERR_LIMIT, "%s: a pipeline of more than %d models", j->parts.module->source,
                            MAX_PARTS);
    (void)snprintf(j->prefix, sizeof j->prefix, "part%d_", j->part + 1);
    propane_status status = PROPANE_OK;
    if (model->program)
        status = pipeline_add_program(j, part, model);
    else /* other parts were refused as the file was read */
        status = package_suppression_add(&j->parts, model, j->prefix, j->opset);
    j->part++;
    return status;
}

static propane_status pipeline_add(join *j, const Coreml__Pipeline *pipeline, int depth) {
    char number[24];
    if (depth > MAX_NEST)
        return propane_fail(j->err, PROPANE_ERR_LIMIT, "%s: pipelines are nested more than %d deep",
                            j->parts.module->source, MAX_NEST);
    if (!pipeline->n_models)
        return propane_fail(j->err, PROPANE_ERR_INVALID, "%s: the pipeline has no models", j->parts.module->source);
    for (size_t i = 0; i < pipeline->n_models; i++) {
        (void)snprintf(number, sizeof number, "%zu", i + 1);
        const char *name = i < pipeline->n_names && pipeline->names[i][0] ? pipeline->names[i] : number;
        PROPANE_TRY(pipeline_add_part(j, name, pipeline->models[i], depth));
    }
    return PROPANE_OK;
}

static size_t pipeline_count_ops(const Coreml__Pipeline *pipeline, int depth) {
    size_t count = 0;
    for (size_t i = 0; depth <= MAX_NEST && i < pipeline->n_models; i++) {
        const Coreml__Model *model = pipeline->models[i];
        const Coreml__Pipeline *inner = package_wire_pipeline(model);
        const Coreml__Function *f = model->program ? pipeline_function(model->program) : NULL;
        count += PACKAGE_SUPPRESSION_OPS + (inner ? pipeline_count_ops(inner, depth + 1) : 0) + (f ? f->n_inputs : 0);
        for (size_t k = 0; f && k < f->n_blocks; k++)
            count += f->blocks[k]->value ? f->blocks[k]->value->n_operations : 0;
    }
    return count;
}

/* ---- the whole pipeline ------------------------------------------------------------------------------------------ */

static propane_status pipeline_begin(join *j, const Coreml__Pipeline *pipeline) {
    arena *a = j->parts.module->arena;
    const Coreml__ModelDescription *d = j->parts.described;
    j->parts.ops = (package_ops){.arena = a, .room = pipeline_count_ops(pipeline, 0) + 1};
    j->parts.ops.list = ARENA_ARRAY(a, j->parts.ops.room, Coreml__Operation *);
    j->parts.links = ARENA_ARRAY(a, MAX_LINKS, package_link);
    j->parts.inputs = ARENA_ARRAY(a, d->n_input + 1, Coreml__NamedType *);
    j->parts.results = ARENA_ARRAY(a, MAX_LINKS + d->n_output + 1, char *);
    if (!j->parts.ops.list || !j->parts.links || !j->parts.inputs || !j->parts.results)
        return propane_fail_memory(j->err, 0);
    for (size_t i = 0; i < d->n_input; i++)
        PROPANE_TRY(pipeline_add_link(j, (package_link){.feature = d->input[i]->name, .optional = true}));
    return PROPANE_OK;
}

static propane_status pipeline_end(join *j, Coreml__Program **out) {
    arena *a = j->parts.module->arena;
    const Coreml__ModelDescription *d = j->parts.described;
    char shown[80];
    Coreml__Program *program = ARENA_NEW(a, Coreml__Program);
    Coreml__FunctionPair *pair = ARENA_NEW(a, Coreml__FunctionPair),
                         **pairs = ARENA_ARRAY(a, 1, Coreml__FunctionPair *);
    Coreml__Function *f = ARENA_NEW(a, Coreml__Function);
    Coreml__BlockPair *body = ARENA_NEW(a, Coreml__BlockPair), **bodies = ARENA_ARRAY(a, 1, Coreml__BlockPair *);
    Coreml__Block *block = ARENA_NEW(a, Coreml__Block);
    if (!program || !pair || !pairs || !f || !body || !bodies || !block) return propane_fail_memory(j->err, 0);
    coreml__program__init(program), coreml__function_pair__init(pair), coreml__function__init(f);
    coreml__block_pair__init(body), coreml__block__init(block);
    char **results = j->parts.results;
    size_t count = 0;
    for (size_t i = 0; i < d->n_output; i++) {
        const package_link *link = package_parts_link(&j->parts, d->output[i]->name);
        if (!link || !link->value)
            return propane_fail(j->err, PROPANE_ERR_INVALID, "%s: no model of the pipeline produces its output '%s'",
                                j->parts.module->source, pipeline_shown(shown, d->output[i]->name));
        results[count++] = (char *)(uintptr_t)link->value;
    }
    for (int i = 0; i < j->parts.link_count; i++)
        if (j->parts.links[i].rows) results[count++] = (char *)(uintptr_t)j->parts.links[i].rows;
    block->operations = j->parts.ops.list, block->n_operations = j->parts.ops.count;
    block->outputs = results, block->n_outputs = count;
    f->opset = body->key = (char *)(uintptr_t)j->opset, body->value = block;
    f->blocks = bodies, bodies[0] = body, f->n_blocks = 1;
    f->inputs = j->parts.inputs, f->n_inputs = (size_t)j->parts.input_count;
    pair->key = arena_string(a, "main"), pair->value = f;
    program->functions = pairs, pairs[0] = pair, program->n_functions = 1;
    program->version = 1;
    *out = program;
    return pair->key ? PROPANE_OK : propane_fail_memory(j->err, 0);
}

propane_status package_pipeline_join(mil_module *m, Coreml__Model *model, const mil_read_options *options,
                                     Coreml__Program **out, propane_error *err) {
    static const Coreml__ModelDescription none = COREML__MODEL_DESCRIPTION__INIT;
    join j = {.parts = {.module = m,
                        .described = model->description ? model->description : &none,
                        .late = options && options->late,
                        .err = err},
              .err = err};
    const Coreml__Pipeline *pipeline = package_wire_pipeline(model);
    PROPANE_TRY(pipeline_begin(&j, pipeline));
    PROPANE_TRY(pipeline_add(&j, pipeline, 0));
    if (!j.opset)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: the pipeline contains no ML Program", m->source);
    return pipeline_end(&j, out);
}
