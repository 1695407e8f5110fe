/* SPDX-License-Identifier: MIT
 * Owns running one program once or many times: fills buffers from files and writes results as arrays. Rejects inputs
 * whose shape or type does not match, with a message that names both.
 */
#include "core/run/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/image.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/base/rng.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/run/session_late.h"
#include "core/run/session_states.h"

/* ---- the user's inputs ------------------------------------------------------------------------------------------- */

static propane_status session_take_array(session_inputs *in, const char *name, size_t length, const npy *array,
                                         bool image, propane_error *err) {
    session_input *larger = ARRAY_MORE(in->list, in->count, err);
    if (!larger) return PROPANE_ERR_MEMORY;
    in->list = larger;
    char *own = mem_alloc(length + 1);
    if (!own) return propane_fail_memory(err, length);
    memcpy(own, name, length);
    own[length] = 0;
    in->list[in->count++] = (session_input){own, *array, image, NULL};
    return PROPANE_OK;
}

static propane_status session_add_archive(session_inputs *in, const char *path, propane_error *err) {
    npz archive;
    PROPANE_TRY(npz_read(path, &archive, err));
    propane_status status = PROPANE_OK;
    for (int i = 0; i < archive.count && !status; i++) {
        status = session_take_array(in, archive.names[i], strlen(archive.names[i]), &archive.arrays[i], false, err);
        if (!status) archive.arrays[i].data = NULL; /* ownership has moved to the session's list */
    }
    npz_free(&archive);
    return status;
}

propane_status session_inputs_add(session_inputs *in, const char *given, propane_error *err) {
    const char *equals = strchr(given, '=');
    npy array = {0};
    if (!equals && text_ends_with(given, ".npz")) return session_add_archive(in, given, err);
    if (!equals || equals == given || !equals[1])
        return propane_fail(err, PROPANE_ERR_INVALID, "'%.80s' must be NAME=FILE (.npy, .png, .jpg) or an .npz file",
                            given);
    const char *path = equals + 1;
    const bool image = picture_is_name(path);
    if (!image && !text_ends_with(path, ".npy") &&
        (path[0] == '{' || !file_exists(path) || file_is_dir(path) || text_ends_with(path, ".json"))) {
        PROPANE_TRY(session_take_array(in, given, (size_t)(equals - given), &array, false, err));
        in->list[in->count - 1].words = mem_copy_string(path);
        return in->list[in->count - 1].words ? PROPANE_OK : propane_fail_memory(err, strlen(path));
    }
    PROPANE_TRY(image ? picture_read(path, 3, &array, err) : npy_read(path, &array, err));
    propane_status status = session_take_array(in, given, (size_t)(equals - given), &array, image, err);
    if (status) npy_free(&array);
    return status;
}

propane_status session_inputs_move(session_inputs *in, session_input *from, propane_error *err) {
    PROPANE_TRY(session_take_array(in, from->name, strlen(from->name), &from->array, from->image, err));
    from->array.data = NULL; /* ownership has moved to `in` */
    return PROPANE_OK;
}

void session_inputs_free(session_inputs *in) {
    for (int i = 0; i < in->count; i++) {
        mem_free((void *)(uintptr_t)in->list[i].name);
        mem_free(in->list[i].words);
        npy_free(&in->list[i].array);
    }
    mem_free(in->list);
    *in = (session_inputs){0};
}

void session_inputs_drop(session_inputs *in, const char *name) {
    int kept = 0;
    for (int i = 0; i < in->count; i++) {
        if (strcmp(in->list[i].name, name) != 0) {
            in->list[kept++] = in->list[i];
            continue;
        }
        mem_free((void *)(uintptr_t)in->list[i].name);
        npy_free(&in->list[i].array);
    }
    in->count = kept;
}

propane_status session_shape(const char *given, mil_shape_choice *out, char **name, propane_error *err) {
    const char *equals = strchr(given, '=');
    *out = (mil_shape_choice){0};
    *name = mem_copy_string(given);
    if (!*name) return propane_fail_memory(err, strlen(given));
    if (equals && equals != given) (*name)[equals - given] = 0;
    for (const char *at = equals ? equals + 1 : ""; *at; at++) {
        char *end = NULL;
        const long long dim = strtoll(at, &end, 10);
        if (end == at || dim < 1 || (*end && *end != ',') || (*end && !end[1]) || out->shape.rank == MIL_MAX_RANK) {
            out->shape.rank = 0;
            break;
        }
        out->shape.dim[out->shape.rank++] = dim;
        if (!*end) break;
        at = end;
    }
    out->name = *name;
    if (out->shape.rank) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "'%.80s' must be NAME=1,3,224,224", given);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static const propane_io *session_io_at(const session *s, int i) { return runner_io(&s->run, i); }

/* Makes each state use the memory of the other session's state of the same name. Fails if their shapes or types
 * differ. */
static propane_status session_share_states(session *s, const session *of, propane_error *err) {
    for (int i = 0; i < s->inputs; i++) {
        const propane_io *io = session_io_at(s, i);
        const bool both = session_is_state(s, io->name) && session_is_state(of, io->name);
        const int at = both ? session_find_input(of, io->name) : -1;
        if (at < 0) continue;
        const propane_io *theirs = session_io_at(of, at);
        char own[160], other[160];
        text_shape(own, io->rank, io->dim);
        text_shape(other, theirs->rank, theirs->dim);
        if (io->dtype != theirs->dtype || strcmp(own, other) != 0 || io->bytes != theirs->bytes)
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "state '%.60s' has shape %s here and %s in the session that shares it, or its type differs", io->name,
                own, other);
        PROPANE_TRY(runner_rebind(&s->run, s->device, i, of->run.bindings[at].buffer, true, err));
    }
    return PROPANE_OK;
}

static propane_status session_find_device(session *s, const session_options *o, propane_error *err) {
    if (!o->shares) return propane_device_open(o->device, &s->device, err);
    if (s->function->late || o->shares->late)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: states cannot be shared, because shapes depend on values", s->module->source);
    s->guest = true;
    s->device = o->shares->device;
    return PROPANE_OK;
}

propane_status session_open_module(session *s, mil_module *m, const session_options *o, propane_error *err) {
    const bool bf16 = strcmp(o->precision, "bf16") == 0;
    *s = (session){.module = m,
                   .wide = bf16 || strcmp(o->precision, "fp32") == 0,
                   .precision = bf16 ? PROPANE_PRECISION_BF16 : PROPANE_PRECISION_AS_TYPED,
                   .keep = o->keep,
                   .keep_names = o->keep_names,
                   .keep_count = o->keep_count,
                   .threads = o->threads,
                   .bisect = o->bisect};
    s->function = mil_module_function(s->module, o->function, err);
    if (!s->function) return err->status;
    PROPANE_TRY(session_states_note(s, err));
    PROPANE_TRY(session_find_device(s, o, err));
    if (s->function->late) return session_late_open(s, err);
    PROPANE_TRY(session_prepare(s, s->function, true, err));
    PROPANE_TRY(session_compile(s, s->module, &s->program, err));
    s->inputs = propane_program_input_count(s->program);
    s->outputs = propane_program_output_count(s->program);
    PROPANE_TRY(runner_open(&s->run, s->device, s->program, NULL, NULL, err));
    PROPANE_TRY(session_states_place(s, err));
    return s->guest ? session_share_states(s, o->shares, err) : PROPANE_OK;
}

void session_close(session *s) {
    runner_close(&s->run);
    session_late_close(s);
    propane_program_free(s->program);
    if (!s->guest) propane_device_close(s->device);
    session_states_free(s);
    mem_free(s->keeps);
    mem_free(s->probabilities);
    for (int i = 0; s->kept && i < s->outputs; i++) mem_free(s->kept[i]);
    mem_free(s->kept);
    mil_module_free(s->module);
    *s = (session){0};
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

static bool session_is_float(propane_dtype dtype) {
    return dtype == PROPANE_FP16 || dtype == PROPANE_FP32 || dtype == PROPANE_BF16;
}

/* Writes the values through fp32 for floats and int32 for other types; the buffer converts to its element type. */
static propane_status session_write_values(propane_buffer *buffer, const propane_io *io,
                                           double (*value)(const void *, int64_t), const void *from,
                                           propane_error *err) {
    const int64_t count = propane_io_count(io);
    void *copy = mem_array((size_t)count + 1, 4);
    if (!copy) return propane_fail_memory(err, (size_t)count * 4);
    const bool real = session_is_float(io->dtype);
    for (int64_t i = 0; i < count; i++) {
        const double v = value(from, i);
        if (real)
            ((float *)copy)[i] = (float)v;
        else
            ((int32_t *)copy)[i] = v >= 2147483647.0 ? INT32_MAX : v <= -2147483648.0 ? INT32_MIN : (int32_t)v;
    }
    propane_status status = propane_buffer_write(buffer, io, real ? PROPANE_FP32 : PROPANE_INT32, copy, count, err);
    mem_free(copy);
    return status;
}

static double session_array_value(const void *from, int64_t index) { return npy_element(from, index); }

/* An image's pixels as planes: [1, channels, height, width]. */
typedef struct planes {
    const npy *picture;
    int channels;
    bool bgr;
} planes;

static double session_plane_value(const void *from, int64_t index) {
    const planes *p = from;
    const int64_t pixels = p->picture->dim[0] * p->picture->dim[1], channel = index / pixels, pixel = index % pixels;
    const uint8_t *rgb = (const uint8_t *)p->picture->data + pixel * 3;
    if (p->channels == 1) return (double)(int)(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] + 0.5);
    return rgb[p->bgr ? 2 - channel : channel];
}

static propane_status session_fill_picture(const session *s, int index, const session_input *in, propane_error *err) {
    const propane_io *io = session_io_at(s, index);
    const mil_interface *seen = mil_interface_of(s->module, s->function->name);
    const mil_feature *f = mil_feature_find(seen, PROPANE_INPUT, io->name);
    char shape[160];
    npy fitted = {0};
    text_shape(shape, io->rank, io->dim);
    const int channels = io->rank == 4 ? (int)io->dim[1] : 0;
    if (io->rank != 4 || io->dim[0] != 1 || (channels != 1 && channels != 3))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "input '%.60s' is %s; an image needs an input [1, 1 or 3, height, width]", io->name, shape);
    const bool fits = io->dim[2] == in->array.dim[0] && io->dim[3] == in->array.dim[1];
    if (!fits && !s->resize)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "input '%.60s' is %s, but the image has %lld x %lld pixels: scale it to %lld x %lld, or use --resize",
            io->name, shape, (long long)in->array.dim[1], (long long)in->array.dim[0], (long long)io->dim[3],
            (long long)io->dim[2]);
    if (!fits) PROPANE_TRY(picture_resize(&in->array, io->dim[2], io->dim[3], &fitted, err));
    const planes p = {fits ? &in->array : &fitted, channels, f && f->kind == MIL_FEATURE_IMAGE && f->colour == MIL_BGR};
    propane_status status = session_write_values(s->run.bindings[index].buffer, io, session_plane_value, &p, err);
    npy_free(&fitted);
    return status;
}

/* Returns true if an array has one extra leading dimension, with one value for each of several runs. */
bool session_has_steps(const propane_io *io, const npy *a) {
    if (a->rank != io->rank + 1 || a->dim[0] < 1) return false;
    for (int i = 0; i < io->rank; i++)
        if (a->dim[i + 1] != io->dim[i]) return false;
    return true;
}

static propane_status session_fill_array(const session *s, int index, const session_input *in, int64_t step,
                                         propane_error *err) {
    const propane_io *io = session_io_at(s, index);
    char want[160], have[160];
    if (in->array.kind == 'f' && !session_is_float(io->dtype))
        return propane_fail(err, PROPANE_ERR_INVALID, "input '%.60s' needs integers, but the array holds floats",
                            io->name);
    if (session_has_steps(io, &in->array)) {
        npy part = in->array;
        part.count /= part.dim[0];
        part.data = (uint8_t *)part.data + step * part.count * part.size;
        return session_write_values(s->run.bindings[index].buffer, io, session_array_value, &part, err);
    }
    bool same = io->rank == in->array.rank || (propane_io_count(io) == 1 && in->array.count == 1);
    for (int i = 0; same && i < io->rank && io->rank == in->array.rank; i++) same = io->dim[i] == in->array.dim[i];
    text_shape(want, io->rank, io->dim);
    text_shape(have, in->array.rank, in->array.dim);
    if (!same)
        return propane_fail(err, PROPANE_ERR_INVALID, "input '%.60s' is %s, but the array is %s", io->name, want, have);
    return session_write_values(s->run.bindings[index].buffer, io, session_array_value, &in->array, err);
}

typedef struct dice {
    rng r;
    propane_dtype dtype;
} dice;

static double session_random_value(const void *from, int64_t index) {
    dice *d = (dice *)(uintptr_t)from;
    (void)index;
    if (session_is_float(d->dtype)) return rng_normal(&d->r);
    return (double)rng_below(&d->r, d->dtype == PROPANE_BOOL ? 2 : 10);
}

static propane_status session_check_name(const session *s, const char *name, propane_error *err) {
    char list[500] = "";
    size_t used = 0;
    if (session_find_input(s, name) >= 0) return PROPANE_OK;
    for (int i = 0; i < s->inputs && used < sizeof list - 70; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s", i ? ", " : "", session_io_at(s, i)->name);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: there is no input '%.60s'; the inputs are: %s",
                        s->module->source, name, list);
}

static const session_input *session_given_for(const session_inputs *in, const char *name) {
    const session_input *found = NULL;
    for (int k = 0; k < in->count; k++)
        if (strcmp(in->list[k].name, name) == 0) found = &in->list[k];
    return found;
}

/* Counts the runs for which the arrays hold values. s->steps stays unchanged if every array holds one value for all
 * runs. */
propane_status session_count_steps(session *s, const session_inputs *in, propane_error *err) {
    const char *first = NULL;
    for (int i = 0; i < s->inputs; i++) {
        const session_input *given = session_given_for(in, session_io_at(s, i)->name);
        if (!given || given->image || !session_has_steps(session_io_at(s, i), &given->array)) continue;
        if (s->steps && given->array.dim[0] != s->steps)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "'%.60s' holds %lld runs, but '%.60s' holds %lld: give the same number", first,
                                (long long)s->steps, given->name, (long long)given->array.dim[0]);
        s->steps = given->array.dim[0];
        first = given->name;
    }
    return PROPANE_OK;
}

propane_status session_step(session *s, const session_inputs *in, int64_t step, propane_error *err) {
    for (int i = 0; i < s->inputs; i++) {
        const session_input *given = session_given_for(in, session_io_at(s, i)->name);
        if (given && !given->image && session_has_steps(session_io_at(s, i), &given->array))
            PROPANE_TRY(session_fill_array(s, i, given, step, err));
    }
    return PROPANE_OK;
}

/* Returns the place of a name, or -1. Also accepts the name that the file uses for the feature. */
static int session_place(const session *s, const char *name, propane_role role) {
    const int at = program_place(s->run.program, name);
    if (at >= 0) return at;
    const char *inside = mil_feature_inside(mil_interface_of(s->module, s->function->name), role, name);
    return inside ? program_place(s->run.program, inside) : -1;
}

int session_find_input(const session *s, const char *name) {
    const int at = session_place(s, name, PROPANE_INPUT);
    return at < s->inputs ? at : -1;
}

int session_find_output(const session *s, const char *name) {
    const int at = session_place(s, name, PROPANE_OUTPUT);
    return at < s->inputs ? -1 : at;
}

propane_status session_put(session *s, const session_input *in, propane_error *err) {
    PROPANE_TRY(session_check_name(s, in->name, err));
    const int i = session_find_input(s, in->name);
    return in->image ? session_fill_picture(s, i, in, err) : session_fill_array(s, i, in, 0, err);
}

/* Returns the optional input of that name if the file has a default for it. */
static const mil_feature *session_standard(const session *s, const char *name) {
    const mil_interface *seen = mil_interface_of(s->module, s->function->name);
    const mil_feature *f = mil_feature_find(seen, PROPANE_INPUT, name);
    return f && f->has_standard ? f : NULL;
}

static double session_standard_value(const void *from, int64_t index) { return ((const mil_feature *)from)->standard; }

propane_status session_fill_rest(session *s, const bool *given, int64_t seed, const char *advice, propane_error *err) {
    char missing[500] = "";
    size_t used = 0;
    dice d = {.dtype = PROPANE_FP32};
    rng_init(&d.r, (uint64_t)seed);
    for (int i = 0; i < s->inputs; i++) {
        const propane_io *io = session_io_at(s, i);
        d.dtype = io->dtype;
        if (given[i] || session_is_state(s, io->name)) continue; /* states' buffers begin as zeros */
        const mil_feature *standard = session_standard(s, io->name);
        if (standard) {
            PROPANE_TRY(session_write_values(s->run.bindings[i].buffer, io, session_standard_value, standard, err));
        } else if (seed >= 0) {
            PROPANE_TRY(session_write_values(s->run.bindings[i].buffer, io, session_random_value, &d, err));
        } else if (used < sizeof missing - 230) {
            char shape[160];
            text_shape(shape, io->rank, io->dim);
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%.60s %s", used ? ", " : "", io->name,
                                     shape);
        }
    }
    if (!used) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: no value was given for %s: %s", s->module->source, missing,
                        advice);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int64_t session_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

propane_status session_run(session *s, int64_t *ns, propane_error *err) {
    propane_completion done = {.size = sizeof done};
    poll_scope scope;
    const int64_t begin = session_now_ns();
    poll_begin(&scope);
    propane_status status = s->late ? session_late_settle(s, err) : PROPANE_OK;
    if (!status) status = runner_run(&s->run, &done, err);
    PROPANE_TRY(poll_end(&scope, status, err));
    s->engine_ns = done.engine_ns;
    s->energy_j = done.energy_j;
    *ns = done.simulated ? done.device_ns : session_now_ns() - begin;
    return session_states_carry(s, err);
}

static void session_npy_of(const propane_io *io, npy *out) {
    *out = (npy){.rank = io->rank, .count = propane_io_count(io)};
    (void)npy_set_type(out, io->dtype);
    for (int i = 0; i < io->rank; i++) out->dim[i] = io->dim[i];
}

propane_status session_keep(session *s, int64_t step, propane_error *err) {
    if (s->late)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: the shapes of its results depend on input values, so the results of several runs do "
                            "not fit into one file: give the inputs of one run",
                            s->module->source);
    if (!s->kept) s->kept = mem_array((size_t)s->outputs + 1, sizeof *s->kept);
    if (!s->kept) return propane_fail_memory(err, 0);
    for (int i = 0; i < s->outputs; i++) {
        npy one;
        if (session_state_of(s, s->inputs + i)) continue;
        session_npy_of(session_io_at(s, s->inputs + i), &one);
        const size_t bytes = (size_t)one.count * (size_t)one.size;
        if (!s->kept[i]) s->kept[i] = mem_array((size_t)s->steps, bytes + 1);
        if (!s->kept[i]) return propane_fail_memory(err, (size_t)s->steps * bytes);
        PROPANE_TRY(propane_buffer_read(s->run.bindings[s->inputs + i].buffer, session_io_at(s, s->inputs + i),
                                        session_io_at(s, s->inputs + i)->dtype,
                                        (uint8_t *)s->kept[i] + (size_t)step * bytes, one.count, err));
    }
    return PROPANE_OK;
}

/* Returns the output that counts the rows of output `name`, or -1 if all rows are results. */
static int session_rows_output(const session *s, const char *name) {
    const mil_interface *seen = mil_interface_of(s->module, s->function->name);
    const mil_feature *f = mil_feature_find(seen, PROPANE_OUTPUT, name);
    return f && f->rows ? session_find_output(s, f->rows) : -1;
}

/* Returns an array [outputs], which is true for outputs that count the rows of another. The caller frees it with
 * mem_free. */
static bool *session_row_counters(const session *s) {
    const mil_interface *seen = mil_interface_of(s->module, s->function->name);
    bool *counts = mem_array((size_t)s->outputs + 1, sizeof *counts);
    for (int i = 0; counts && seen && i < seen->output_count; i++) {
        const int at = seen->outputs[i].rows ? session_find_output(s, seen->outputs[i].rows) : -1;
        if (at >= 0 && session_find_output(s, seen->outputs[i].name) >= 0) counts[at - s->inputs] = true;
    }
    return counts;
}

/* Removes the rows of `out` that are not results. */
static propane_status session_cut_rows(session *s, int at, npy *out, propane_error *err) {
    const int counter = session_rows_output(s, s->run.bindings[at].name);
    int32_t rows = 0;
    if (counter < 0 || out->rank < 1) return PROPANE_OK;
    PROPANE_TRY(
        propane_buffer_read(s->run.bindings[counter].buffer, session_io_at(s, counter), PROPANE_INT32, &rows, 1, err));
    if (rows < 0 || rows >= out->dim[0]) return PROPANE_OK;
    out->count = out->count / out->dim[0] * rows;
    out->dim[0] = rows;
    return PROPANE_OK;
}

/* Sets *out to the output's values. If several runs were kept, the array has a leading dimension for them. */
static propane_status session_array_of(session *s, int at, npy *out, propane_error *err) {
    void *kept = s->kept ? s->kept[at - s->inputs] : NULL;
    session_npy_of(session_io_at(s, at), out);
    const size_t bytes = (size_t)out->count * (size_t)out->size, all = kept ? bytes * (size_t)s->steps : bytes;
    out->data = mem_alloc(all + 1);
    if (!out->data) return propane_fail_memory(err, all);
    if (!kept) {
        PROPANE_TRY(propane_buffer_read(s->run.bindings[at].buffer, session_io_at(s, at), session_io_at(s, at)->dtype,
                                        out->data, out->count, err));
        return session_cut_rows(s, at, out, err);
    }
    memcpy(out->data, kept, all);
    memmove(out->dim + 1, out->dim, (size_t)out->rank * sizeof *out->dim);
    out->dim[0] = s->steps;
    out->rank++;
    out->count *= s->steps;
    return PROPANE_OK;
}

static propane_status session_write_one(session *s, int at, const char *dir, const char *name, propane_error *err) {
    npy array = {0};
    text path = {0};
    text_printf(&path, "%s/%s.npy", dir, name);
    propane_status status = path.failed ? propane_fail_memory(err, 0) : session_array_of(s, at, &array, err);
    if (!status) status = npy_write(path.data, &array, err);
    npy_free(&array);
    text_deinit(&path);
    return status;
}

static propane_status session_write_all(session *s, const bool *counts, const char *dir, propane_error *err) {
    for (int i = s->inputs; i < s->inputs + s->outputs; i++) {
        const char *state = session_state_of(s, i);
        if (!s->kept && counts[i - s->inputs]) continue; /* the shapes of the arrays already contain the counts */
        PROPANE_TRY(session_write_one(s, i, dir, state ? state : s->run.bindings[i].name, err));
    }
    return PROPANE_OK;
}

propane_status session_write(session *s, const char *dir, propane_error *err) {
    bool *counts = session_row_counters(s);
    if (!counts) return propane_fail_memory(err, (size_t)s->outputs);
    propane_status status = file_make_dir(dir, err);
    if (!status) status = session_write_all(s, counts, dir, err);
    mem_free(counts);
    return status;
}
