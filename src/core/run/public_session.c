/* SPDX-License-Identifier: MIT
 * Owns the public session: core/run/session.h with named arrays instead of files. The session remembers which inputs
 * were set and distinguishes states from inputs and outputs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/sized.h"
#include "core/mil/ir_edit.h"
#include "core/run/nonfinite.h"
#include "core/run/public.h"
#include "core/run/session.h"
#include "core/run/session_keys.h"
#include "core/run/session_states.h"

struct propane_session {
    session s;
    bool *given;  /* [inputs] */
    bool *lent;   /* [inputs]: the buffer is the caller's memory */
    int *inputs;  /* the program's inputs that are not states */
    int *outputs; /* the program's outputs that are not states, counted after the inputs */
    int *states;  /* the program's inputs that are states */
    int input_count, output_count, state_count;
    session_inputs several; /* arrays with one value for each of several runs */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static propane_status api_session_sort(propane_session *p, propane_error *err) {
    const session *s = &p->s;
    mem_free(p->inputs);
    mem_free(p->outputs);
    mem_free(p->states);
    const size_t room = (size_t)(s->inputs + s->outputs) + 1;
    p->input_count = p->output_count = p->state_count = 0;
    if (!p->given) p->given = mem_array(room, sizeof *p->given);
    if (!p->lent) p->lent = mem_array(room, sizeof *p->lent);
    p->inputs = mem_array(room, sizeof *p->inputs);
    p->outputs = mem_array(room, sizeof *p->outputs);
    p->states = mem_array(room, sizeof *p->states);
    if (!p->given || !p->lent || !p->inputs || !p->outputs || !p->states)
        return propane_fail_memory(err, room * sizeof(int));
    for (int i = 0; i < s->inputs; i++) {
        if (session_is_state(s, s->run.bindings[i].name))
            p->states[p->state_count++] = i;
        else
            p->inputs[p->input_count++] = i;
    }
    for (int i = s->inputs; i < s->inputs + s->outputs; i++)
        if (!session_state_of(s, i)) p->outputs[p->output_count++] = i;
    return PROPANE_OK;
}

/* Copies the caller's options, and checks their lists and the names in the lists. */
static propane_status api_session_options(const propane_session_options *given, propane_session_options *out,
                                          propane_error *err) {
    static const char what[] = "propane_session_options";
    PROPANE_TRY(api_take(out, sizeof *out, given, what, err));
    PROPANE_TRY(need_list(err, what, "shapes", "shape_count", out->shapes, out->shape_count));
    PROPANE_TRY(need_names(err, what, "files", "file_count", out->files, out->file_count));
    return need_names(err, what, "keep_names", "keep_count", out->keep_names, out->keep_count);
}

static propane_status api_session_begin(propane_module *module, const propane_session_options *o, propane_session **out,
                                        propane_error *err) {
    static const char *const words[] = {"typed", "fp16", "fp32", "bf16"};
    const session_options own = {.function = o->function,
                                 .device = o->device ? o->device : "cpu",
                                 .precision = o->precision ? o->precision : "typed",
                                 .keep = o->keep,
                                 .keep_names = o->keep_names,
                                 .keep_count = o->keep_count,
                                 .threads = o->threads,
                                 .bisect = o->bisect,
                                 .shares = o->shares ? &o->shares->s : NULL};
    bool known = false;
    for (int i = 0; i < 4; i++) known |= strcmp(own.precision, words[i]) == 0;
    propane_session *p = known ? mem_alloc(sizeof *p) : NULL;
    if (!p) {
        propane_module_free(module);
        if (known) return propane_fail_memory(err, sizeof *p);
        return propane_fail(err, PROPANE_ERR_INVALID, "precision '%.40s' is not one of typed, fp16, fp32, bf16",
                            own.precision);
    }
    propane_status status = session_open_module(&p->s, module, &own, err);
    p->s.resize = o->resize;
    if (!status) status = api_session_sort(p, err);
    if (status)
        propane_session_close(p);
    else
        *out = p;
    return status;
}

void propane_session_close(propane_session *p) {
    if (!p) return;
    session_close(&p->s);
    session_inputs_free(&p->several);
    mem_free(p->given);
    mem_free(p->lent);
    mem_free(p->inputs);
    mem_free(p->outputs);
    mem_free(p->states);
    mem_free(p);
}

/* ---- names and types --------------------------------------------------------------------------------------------- */

static const propane_io *api_session_io(const propane_session *p, int at) {
    const session *s = &p->s;
    return at < s->inputs ? propane_program_input(s->program, at) : propane_program_output(s->program, at - s->inputs);
}

int propane_session_input_count(const propane_session *p) { return p ? p->input_count : 0; }
int propane_session_output_count(const propane_session *p) { return p ? p->output_count : 0; }
int propane_session_state_count(const propane_session *p) { return p ? p->state_count : 0; }

const propane_io *propane_session_input(const propane_session *p, int index) {
    if (!p) return NULL;
    return index >= 0 && index < p->input_count ? api_session_io(p, p->inputs[index]) : NULL;
}

const propane_io *propane_session_output(const propane_session *p, int index) {
    if (!p) return NULL;
    return index >= 0 && index < p->output_count ? api_session_io(p, p->outputs[index]) : NULL;
}

const propane_io *propane_session_state(const propane_session *p, int index) {
    if (!p) return NULL;
    return index >= 0 && index < p->state_count ? api_session_io(p, p->states[index]) : NULL;
}

propane_program *propane_session_program(propane_session *p) { return p ? p->s.program : NULL; }
propane_device *propane_session_device(propane_session *p) { return p ? p->s.device : NULL; }
const propane_module *propane_session_module(const propane_session *p) { return p ? p->s.module : NULL; }

static propane_status api_session_unknown(const propane_session *p, const char *name, bool inputs, propane_error *err) {
    text list = {0};
    const int count = inputs ? p->input_count : p->output_count;
    for (int i = 0; i < count && list.length < 500; i++)
        text_printf(&list, "%s%.60s", i ? ", " : "", api_session_io(p, (inputs ? p->inputs : p->outputs)[i])->name);
    for (int i = 0; i < p->state_count && list.length < 500; i++)
        text_printf(&list, "%s%.60s", list.length ? ", " : "", api_session_io(p, p->states[i])->name);
    propane_status status =
        propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no %s '%.60s'; available: %s", p->s.module->source,
                     inputs ? "input" : "output", name, list.data ? list.data : "none");
    text_deinit(&list);
    return status;
}

/* Returns the place of a name's values after a run: an output, or, for a state, the input that holds its newest
 * content. Returns -1 if there is none. */
static int api_session_find_output(const propane_session *p, const char *name) {
    const int at = session_find_output(&p->s, name);
    return at < 0 && session_is_state(&p->s, name) ? session_find_input(&p->s, name) : at;
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

propane_status propane_session_set(propane_session *p, const char *name, propane_dtype dtype, const void *values,
                                   int64_t count, propane_error *err) {
    NEED_AS(err, "session, name", p, name);
    NEED_LIST(err, values, count);
    const int at = session_find_input(&p->s, name);
    if (at < 0) return api_session_unknown(p, name, true, err);
    PROPANE_TRY(propane_buffer_write(p->s.run.bindings[at].buffer, api_session_io(p, at), dtype, values, count, err));
    p->given[at] = true;
    return PROPANE_OK;
}

propane_status propane_session_lend(propane_session *p, const char *name, void *memory, size_t bytes,
                                    propane_error *err) {
    NEED_AS(err, "session, name", p, name);
    API_ERROR(err);
    const bool state = session_is_state(&p->s, name);
    const int input = session_find_input(&p->s, name), at = input >= 0 ? input : api_session_find_output(p, name);
    propane_buffer *buffer = NULL;
    if (at < 0) return api_session_unknown(p, name, true, err);
    if (state)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "'%.60s' is a state, whose memory belongs to the session",
                            name);
    if (memory) PROPANE_TRY(propane_buffer_wrap(p->s.device, memory, bytes, &buffer, err));
    propane_status status = runner_rebind(&p->s.run, p->s.device, at, buffer, false, err);
    if (status) propane_buffer_free(buffer);
    if (!status && input >= 0) p->given[at] = p->lent[at] = memory != NULL;
    return status;
}

/* Drops the array for several runs that was given for an input, and counts the runs of the other arrays again. */
static propane_status api_session_drop_steps(propane_session *p, const char *name, propane_error *err) {
    session_inputs_drop(&p->several, name);
    p->s.steps = 0;
    return session_count_steps(&p->s, &p->several, err);
}

static propane_status api_session_clear_input(propane_session *p, int at, propane_error *err) {
    const char *name = api_session_io(p, at)->name;
    p->given[at] = false;
    PROPANE_TRY(api_session_drop_steps(p, name, err));
    return p->lent[at] ? propane_session_lend(p, name, NULL, 0, err) : PROPANE_OK;
}

propane_status propane_session_clear(propane_session *p, const char *name, propane_error *err) {
    NEED_AS(err, "session", p);
    API_ERROR(err);
    if (!name) {
        for (int i = 0; i < p->input_count; i++) PROPANE_TRY(api_session_clear_input(p, p->inputs[i], err));
        return PROPANE_OK;
    }
    const int at = session_find_input(&p->s, name);
    if (at < 0) return api_session_unknown(p, name, true, err);
    if (session_is_state(&p->s, name))
        return propane_fail(err, PROPANE_ERR_INVALID, "'%.60s' is a state; propane_session_reset sets it to zero",
                            name);
    return api_session_clear_input(p, at, err);
}

static propane_status api_session_put(propane_session *p, const session_input *in, propane_error *err) {
    const int at = session_find_input(&p->s, in->name);
    if (at < 0) return api_session_unknown(p, in->name, true, err);
    PROPANE_TRY(in->words ? session_put_words(&p->s, in->name, in->words, err) : session_put(&p->s, in, err));
    p->given[at] = true;
    return PROPANE_OK;
}

propane_status propane_session_set_image(propane_session *p, const char *name, const uint8_t *rgb, int64_t height,
                                         int64_t width, propane_error *err) {
    NEED_AS(err, "session, name, rgb", p, name, rgb);
    API_ERROR(err);
    if (height < 1 || width < 1 || height > 1 << 20 || width > 1 << 20)
        return propane_fail(err, PROPANE_ERR_INVALID, "an image cannot have %lld x %lld pixels", (long long)width,
                            (long long)height);
    const npy picture = {.kind = 'u',
                         .size = 1,
                         .rank = 3,
                         .dim = {height, width, 3},
                         .count = height * width * 3,
                         .data = (void *)(uintptr_t)rgb};
    return api_session_put(p, &(session_input){name, picture, true, NULL}, err);
}

propane_status propane_session_set_keys(propane_session *p, const char *name, const char *const *keys,
                                        const double *values, int64_t count, propane_error *err) {
    NEED_AS(err, "session, name, keys", p, name, keys);
    API_ERROR(err);
    const int at = session_find_input(&p->s, name);
    if (at < 0) return api_session_unknown(p, name, true, err);
    for (int64_t i = 0; i < count; i++)
        if (!keys[i]) return propane_fail(err, PROPANE_ERR_INVALID, "%s: keys[%lld] is NULL", __func__, (long long)i);
    PROPANE_TRY(session_put_keys(&p->s, name, keys, values, count, err));
    p->given[at] = true;
    return PROPANE_OK;
}

/* Moves the array into the session if it holds values for several runs. */
static propane_status api_session_take_steps(propane_session *p, session_input *in, propane_error *err) {
    const int at = session_find_input(&p->s, in->name);
    if (in->image || in->words || !session_has_steps(api_session_io(p, at), &in->array)) return PROPANE_OK;
    PROPANE_TRY(session_inputs_move(&p->several, in, err));
    p->s.steps = 0;
    return session_count_steps(&p->s, &p->several, err);
}

/* Puts arrays into the inputs and states of their names. The session keeps arrays for several runs. */
static propane_status api_session_put_all(propane_session *p, session_inputs *in, propane_error *err) {
    for (int i = 0; i < in->count; i++) {
        PROPANE_TRY(api_session_put(p, &in->list[i], err));
        PROPANE_TRY(api_session_take_steps(p, &in->list[i], err));
    }
    return PROPANE_OK;
}

propane_status propane_session_set_file(propane_session *p, const char *given, propane_error *err) {
    NEED_AS(err, "session, given", p, given);
    NEED_TEXT(err, given);
    API_ERROR(err);
    session_inputs in = {0};
    propane_status status = session_inputs_add(&in, given, err);
    if (!status) status = api_session_put_all(p, &in, err);
    session_inputs_free(&in);
    return status;
}

static propane_status api_session_read_files(const propane_session_options *o, session_inputs *in, propane_error *err) {
    for (int i = 0; i < o->file_count; i++) PROPANE_TRY(session_inputs_add(in, o->files[i], err));
    return PROPANE_OK;
}

/* Reads the model. An input whose shape the model leaves open gets the shape of its file, unless `shapes` names the
 * input. */
static propane_status api_session_read(const char *path, const propane_session_options *o, const session_inputs *in,
                                       propane_module **out, propane_error *err) {
    int count = 0;
    mil_shape_choice *choices = mem_array((size_t)(in->count + o->shape_count) + 1, sizeof *choices);
    if (!choices) return propane_fail_memory(err, (size_t)o->shape_count * sizeof *choices);
    for (int i = 0; i < in->count; i++) {
        const session_input *given = &in->list[i];
        if (given->words || given->array.rank > MIL_MAX_RANK || (given->image && o->resize)) continue;
        choices[count++] =
            (mil_shape_choice){.name = given->name,
                               .shape = mil_type_tensor(MIL_DTYPE_NONE, given->array.rank, given->array.dim),
                               .of_array = !given->image,
                               .of_picture = given->image};
    }
    propane_status status = api_shape_choices(o->shapes, o->shape_count, choices + count, err);
    const mil_read_options options = {choices, count + o->shape_count, .late = true};
    if (!status) status = mil_read(path, &options, out, err);
    mem_free(choices);
    return status;
}

propane_status propane_session_open(const char *path, const propane_session_options *options, propane_session **out,
                                    propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    API_ERROR(err);
    propane_session_options o = {0};
    propane_module *m = NULL;
    session_inputs in = {0};
    PROPANE_TRY(api_session_options(options, &o, err));
    propane_status status = api_session_read_files(&o, &in, err);
    if (!status) status = api_session_read(path, &o, &in, &m, err);
    if (!status) status = api_session_begin(m, &o, out, err);
    if (!status) status = api_session_put_all(*out, &in, err);
    if (status) propane_session_close(*out), *out = NULL;
    session_inputs_free(&in);
    return status;
}

propane_status propane_session_open_module(propane_module *module, const propane_session_options *options,
                                           propane_session **out, propane_error *err) {
    API_ERROR(err);
    propane_session_options o = {0};
    session_inputs in = {0};
    if (out) *out = NULL;
    propane_status status = need_pointers(err, __func__, "module, out", (const void *const[]){module, out}, 2);
    if (!status) status = api_session_options(options, &o, err);
    if (!status) status = api_session_read_files(&o, &in, err);
    if (status) propane_module_free(module);
    if (!status) status = api_session_begin(module, &o, out, err);
    if (!status) status = api_session_put_all(*out, &in, err);
    if (status && out) propane_session_close(*out), *out = NULL;
    session_inputs_free(&in);
    return status;
}

int64_t propane_session_steps(const propane_session *p) { return p ? p->s.steps : 0; }

static propane_status api_session_check_step(const propane_session *p, int64_t step, propane_error *err) {
    if (step >= 0 && step < p->s.steps) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "step %lld: the arrays are for %lld runs", (long long)step,
                        (long long)p->s.steps);
}

propane_status propane_session_step(propane_session *p, int64_t step, propane_error *err) {
    NEED_AS(err, "session", p);
    PROPANE_TRY(api_session_check_step(p, step, err));
    return session_step(&p->s, &p->several, step, err);
}

propane_status propane_session_keep(propane_session *p, int64_t step, propane_error *err) {
    NEED_AS(err, "session", p);
    PROPANE_TRY(api_session_check_step(p, step, err));
    return session_keep(&p->s, step, err);
}

propane_status propane_session_ready(propane_session *p, const char *advice, propane_error *err) {
    NEED_AS(err, "session", p);
    return session_fill_rest(&p->s, p->given, -1, advice ? advice : "set them first", err);
}

propane_status propane_session_randomize(propane_session *p, uint64_t seed, propane_error *err) {
    NEED_AS(err, "session", p);
    API_ERROR(err);
    PROPANE_TRY(session_fill_rest(&p->s, p->given, (int64_t)(seed & INT64_MAX), "", err));
    for (int i = 0; i < p->s.inputs; i++) p->given[i] = true;
    return PROPANE_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

propane_status propane_session_run(propane_session *p, propane_completion *out, propane_error *err) {
    NEED_AS(err, "session", p);
    API_ERROR(err);
    int64_t ns = 0;
    PROPANE_TRY(sized_check(out, "propane_completion", err));
    PROPANE_TRY(propane_session_ready(p, NULL, err));
    propane_status status = session_run(&p->s, &ns, err);
    if (!status && p->s.late) status = api_session_sort(p, err); /* outputs are known only now */
    const propane_completion mine = {.status = status,
                                     .device_ns = ns,
                                     .engine_ns = p->s.engine_ns,
                                     .energy_j = p->s.energy_j,
                                     .simulated = propane_device_describe(p->s.device)->simulated};
    (void)api_give(out, &mine, sizeof mine);
    return status;
}

propane_status propane_session_run_counted(propane_session *p, propane_nonfinite *out, propane_error *err) {
    NEED_AS(err, "session", p);
    API_ERROR(err);
    nonfinite_found found;
    text words = {0};
    PROPANE_TRY(sized_check(out, "propane_nonfinite", err));
    PROPANE_TRY(propane_session_ready(p, NULL, err));
    PROPANE_TRY(nonfinite_run(&p->s, &found, err));
    if (p->s.late) PROPANE_TRY(api_session_sort(p, err));
    propane_nonfinite mine = {.numbers = found.results.numbers,
                              .nan = found.results.nan,
                              .infinite = found.results.infinite,
                              .made = found.made};
    const mil_value *culprit = nonfinite_culprit(&found);
    if (culprit) {
        mine.from = nonfinite_kind(culprit);
        const char *name = nonfinite_name(&found, culprit);
        snprintf(mine.name, sizeof mine.name, "%s", name ? name : "");
        mine.op = nonfinite_op(culprit);
    }
    if (mine.nan || mine.infinite) nonfinite_print(&found, &words);
    if (words.data) snprintf(mine.text, sizeof mine.text, "%s", words.data);
    text_deinit(&words);
    (void)api_give(out, &mine, sizeof mine);
    return PROPANE_OK;
}

bool propane_session_keeps(const propane_session *p, const char *output) {
    if (!p || !output) return false;
    const mil_value *v = mil_scope_find(p->s.function, output, strlen(output));
    return v && p->s.keeps && p->s.keeps[v->id];
}

propane_status propane_session_get(propane_session *p, const char *name, propane_dtype dtype, void *values,
                                   int64_t count, propane_error *err) {
    NEED_AS(err, "session, name", p, name);
    NEED_LIST(err, values, count);
    const int at = api_session_find_output(p, name);
    if (at < 0) return api_session_unknown(p, name, false, err);
    return propane_buffer_read(p->s.run.bindings[at].buffer, api_session_io(p, at), dtype, values, count, err);
}

static size_t api_session_bytes_of(propane_dtype dtype) {
    const mil_dtype own = api_dtype_in(dtype);
    return own == MIL_DTYPE_NONE ? 0 : (size_t)mil_dtype_get(own)->bits / 8 + (mil_dtype_get(own)->bits < 8);
}

static propane_status api_session_run_item(propane_session *p, const propane_array *inputs, int input_count,
                                           const propane_array *outputs, int output_count, int64_t item,
                                           propane_error *err) {
    for (int i = 0; i < input_count; i++) {
        const int at = session_find_input(&p->s, inputs[i].name);
        if (at < 0) return api_session_unknown(p, inputs[i].name, true, err);
        const int64_t count = propane_io_count(api_session_io(p, at));
        const size_t bytes = api_session_bytes_of(inputs[i].dtype) * (size_t)count;
        PROPANE_TRY(propane_session_set(p, inputs[i].name, inputs[i].dtype,
                                        (const char *)inputs[i].values + (size_t)item * bytes, count, err));
    }
    PROPANE_TRY(propane_session_run(p, NULL, err));
    for (int i = 0; i < output_count; i++) {
        const int at = api_session_find_output(p, outputs[i].name);
        if (at < 0) return api_session_unknown(p, outputs[i].name, false, err);
        const int64_t count = propane_io_count(api_session_io(p, at));
        const size_t bytes = api_session_bytes_of(outputs[i].dtype) * (size_t)count;
        PROPANE_TRY(propane_session_get(p, outputs[i].name, outputs[i].dtype,
                                        (char *)outputs[i].values + (size_t)item * bytes, count, err));
    }
    return PROPANE_OK;
}

static propane_status api_session_check_arrays(const char *list, const propane_array *arrays, int count, int64_t batch,
                                               propane_error *err) {
    for (int i = 0; i < count; i++)
        if (!arrays[i].name || (batch && !arrays[i].values))
            return propane_fail(err, PROPANE_ERR_INVALID, "propane_session_run_batch: %s[%d] has no %s", list, i,
                                arrays[i].name ? "values" : "name");
    return PROPANE_OK;
}

propane_status propane_session_run_batch(propane_session *p, const propane_array *inputs, int input_count,
                                         const propane_array *outputs, int output_count, int64_t batch,
                                         propane_error *err) {
    NEED_AS(err, "session", p);
    NEED_LIST(err, inputs, input_count);
    NEED_LIST(err, outputs, output_count);
    API_ERROR(err);
    if (batch < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_session_run_batch: batch is %lld", (long long)batch);
    PROPANE_TRY(api_session_check_arrays("inputs", inputs, input_count, batch, err));
    PROPANE_TRY(api_session_check_arrays("outputs", outputs, output_count, batch, err));
    propane_status status = PROPANE_OK;
    for (int64_t i = 0; i < batch && !status; i++)
        status = api_session_run_item(p, inputs, input_count, outputs, output_count, i, err);
    for (int i = 0; i < input_count; i++) { /* so that the next batch does not start with this one's last values */
        propane_error later = {0};
        const int at = session_find_input(&p->s, inputs[i].name);
        if (at < 0 || session_is_state(&p->s, inputs[i].name)) continue;
        const propane_status cleared = api_session_clear_input(p, at, &later);
        if (!status && cleared) status = propane_fail(err, cleared, "%s", later.text);
    }
    return status;
}

propane_status propane_session_reset(propane_session *p, propane_error *err) {
    NEED_AS(err, "session", p);
    for (int i = 0; i < p->state_count; i++) {
        const int at = p->states[i];
        void *memory = NULL;
        PROPANE_TRY(propane_buffer_lock(p->s.run.bindings[at].buffer, true, &memory, err));
        memset(memory, 0, api_session_io(p, at)->bytes);
        propane_buffer_unlock(p->s.run.bindings[at].buffer);
        p->given[at] = false;
    }
    return PROPANE_OK;
}

propane_status propane_session_label(propane_session *p, int rank, char *label, size_t room, double *probability,
                                     propane_error *err) {
    NEED_AS(err, "session", p);
    API_ERROR(err);
    const session *s = &p->s;
    if (!s->classes) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s is no classifier", s->module->source);
    const propane_io *io = propane_program_find(s->program, s->probabilities);
    const int64_t count = io ? propane_io_count(io) : 0;
    if (rank < 0 || rank >= count)
        return propane_fail(err, PROPANE_ERR_INVALID, "there are %lld classes, but rank is %d", (long long)count, rank);
    float *values = mem_array((size_t)count, sizeof *values);
    if (!values) return propane_fail_memory(err, (size_t)count * sizeof *values);
    propane_status status = propane_session_get(p, s->probabilities, PROPANE_FP32, values, count, err);
    int64_t best = 0;
    for (int k = 0; k <= rank && !status; k++) {
        if (k) values[best] = -INFINITY;
        best = 0;
        for (int64_t at = 1; at < count; at++)
            if (!(values[at] <= values[best])) best = at;
    }
    if (!status && probability) *probability = (double)values[best];
    if (!status) (void)propane_module_label(s->module, s->function->name, best, label, room);
    mem_free(values);
    return status;
}

const char *propane_session_label_name(const propane_session *p) { return p && p->s.classes ? p->s.label : NULL; }
const char *propane_session_probabilities(const propane_session *p) {
    return p && p->s.classes ? p->s.probabilities : NULL;
}

propane_status propane_session_write(propane_session *p, const char *dir, propane_error *err) {
    NEED_AS(err, "session, dir", p, dir);
    NEED_TEXT(err, dir);
    API_ERROR(err);
    return session_write(&p->s, dir, err);
}
