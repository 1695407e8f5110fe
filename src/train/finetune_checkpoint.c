/* SPDX-License-Identifier: MIT
 * Owns the checkpoint of a fine-tuning run. One idea: options and state are one JSON object in the metadata, made by one
 * table that serves writing, reading and comparing. Refuses what does not belong to the run before anything is changed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "model/files/safetensors.h"
#include "train/finetune.h"

#define FORMAT "propane-tune-1"
#define KEY    "propane"

typedef enum field_kind { FIELD_INT, FIELD_REAL, FIELD_BOOL, FIELD_TEXT } field_kind;

typedef struct field {
    const char *key; /* also the flag's name */
    field_kind kind;
    size_t offset;
    bool recalled; /* kept for convenience: may differ when the run goes on */
} field;

#define AT(member) offsetof(tune_options, member)
static const field fields[] = {
    {"batch", FIELD_INT, AT(batch), false},
    {"accumulate", FIELD_INT, AT(accumulate), false},
    {"lr", FIELD_REAL, AT(lr), false},
    {"min-lr", FIELD_REAL, AT(min_lr), false},
    {"warmup", FIELD_INT, AT(warmup), false},
    {"weight-decay", FIELD_REAL, AT(weight_decay), false},
    {"beta1", FIELD_REAL, AT(beta1), false},
    {"beta2", FIELD_REAL, AT(beta2), false},
    {"epsilon", FIELD_REAL, AT(epsilon), false},
    {"clip", FIELD_REAL, AT(clip), false},
    {"seed", FIELD_INT, AT(seed), false},
    {"shuffle", FIELD_BOOL, AT(shuffle), false},
    {"trainable", FIELD_TEXT, AT(model.trainable), false},
    {"freeze", FIELD_TEXT, AT(model.freeze), false},
    {"output", FIELD_TEXT, AT(model.output), false},
    {"function", FIELD_TEXT, AT(model.function), false},
    {"steps", FIELD_INT, AT(steps), true},
    {"device", FIELD_TEXT, AT(device), true},
    {"eval-every", FIELD_INT, AT(eval_interval), true},
    {"checkpoint-every", FIELD_INT, AT(checkpoint_interval), true},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static json_t *field_get(const field *f, const tune_options *o) {
    const char *at = (const char *)o + f->offset;
    int64_t i;
    double d;
    bool b;
    const char *t;
    switch (f->kind) {
    case FIELD_INT: memcpy(&i, at, sizeof i); return json_integer(i);
    case FIELD_REAL: memcpy(&d, at, sizeof d); return json_real(d);
    case FIELD_BOOL: memcpy(&b, at, sizeof b); return json_boolean(b);
    case FIELD_TEXT: memcpy(&t, at, sizeof t); return t ? json_string(t) : json_null();
    }
    return NULL;
}

static propane_status field_set(const field *f, const json_t *value, arena *a, tune_options *o, propane_error *err) {
    char *at = (char *)o + f->offset;
    const int64_t i = json_integer_value(value);
    const double d = json_number_value(value);
    const bool b = json_is_true(value);
    const char *t = json_is_string(value) ? arena_string(a, json_string_value(value)) : NULL;
    if (json_is_string(value) && !t) return propane_fail_memory(err, 0);
    switch (f->kind) {
    case FIELD_INT: memcpy(at, &i, sizeof i); break;
    case FIELD_REAL: memcpy(at, &d, sizeof d); break;
    case FIELD_BOOL: memcpy(at, &b, sizeof b); break;
    case FIELD_TEXT: memcpy(at, &t, sizeof t); break;
    }
    return PROPANE_OK;
}

static const char *loss_name(imported_loss loss) { return loss == IMPORTED_MSE ? "mse" : "cross_entropy"; }

/* ---- writing -------------------------------------------------------------------------------------------------------------- */

static json_t *describe(const tune_options *o, const sample_source *source, const tune_state *state) {
    json_t *r = json_object(), *given = json_object();
    char sum[30];
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)source->sum);
    for (int i = 0; i < FIELDS; i++) json_put(given, fields[i].key, field_get(&fields[i], o));
    json_put(r, "format", json_string(FORMAT));
    json_put(r, "loss", json_string(loss_name(o->model.loss)));
    json_put(r, "options", given);
    json_put(r, "step", json_integer(state->step));
    json_put(r, "evaluated", json_integer(state->evaluated));
    json_put(r, "samples", json_integer(source->count[0]));
    json_put(r, "data", json_string(sum));
    return r;
}

/* Weight (which 0) or moment of weight i, and the name that it has in the file. */
static const float *tensor_at(const imported_model *m, const imported_step *step, float *const *moments, int which,
                              int i, char name[400]) {
    if (which == 0) {
        snprintf(name, 400, "%s", m->names[i]);
        return imported_step_weight(step, i);
    }
    snprintf(name, 400, "optimizer.%d.%s", which, m->names[i]);
    return moments[2 * i + which - 1];
}

static propane_status put_tensors(safetensors_writer *w, const imported_model *m, const imported_step *step,
                                  float *const *moments, propane_error *err) {
    char name[400];
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < m->weight_count; i++) {
            const mil_type *type = &m->weights[i].type;
            (void)tensor_at(m, step, moments, which, i, name);
            PROPANE_TRY(safetensors_writer_declare(w, name, ST_F32, type->rank, type->dim, err));
        }
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < m->weight_count; i++)
            PROPANE_TRY(safetensors_writer_data(w, tensor_at(m, step, moments, which, i, name),
                                                (size_t)mil_type_count(&m->weights[i].type) * 4, err));
    return PROPANE_OK;
}

propane_status tune_checkpoint_write(const char *path, const tune_options *o, const sample_source *source,
                                     const tune_state *state, const imported_model *m, const imported_step *step,
                                     float *const *moments, propane_error *err) {
    safetensors_writer *w = NULL;
    json_t *meta = describe(o, source, state);
    char *line = NULL;
    propane_status status = json_print(meta, JSON_COMPACT, &line, NULL, err);
    if (!status) status = safetensors_writer_open(path, &w, err);
    if (!status) status = safetensors_writer_checksum(w, err);
    if (!status) status = safetensors_writer_metadata(w, KEY, line, err);
    if (!status) status = put_tensors(w, m, step, moments, err);
    mem_free(line);
    json_decref(meta);
    if (!status) return safetensors_writer_commit(w, err);
    if (w) safetensors_writer_abort(w);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------------------------------------- */

static propane_status open_meta(const char *path, safetensors **out, json_t **meta, propane_error *err) {
    const char *format = NULL, *line;
    *meta = NULL;
    PROPANE_TRY(safetensors_open(path, out, err));
    line = safetensors_metadata(*out, KEY);
    propane_status status = safetensors_verify(*out, err);
    if (!status)
        status = line ? json_parse(line, strlen(line), path, meta, err)
                      : propane_fail(err, PROPANE_ERR_INVALID,
                                     "%s is no checkpoint of a fine-tuning run: give another --run", path);
    if (!status) status = json_get_text(*meta, path, "format", true, &format, err);
    if (!status && strcmp(format, FORMAT) != 0)
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: its format is '%.40s'; this version reads %s", path,
                              format, FORMAT);
    if (!status) return PROPANE_OK;
    json_decref(*meta);
    safetensors_close(*out);
    return status;
}

propane_status tune_recall(const char *path, arena *a, tune_options *o, propane_error *err) {
    safetensors *file;
    json_t *meta;
    const char *loss = "";
    PROPANE_TRY(open_meta(path, &file, &meta, err));
    const json_t *given = json_object_get(meta, "options");
    propane_status status = json_get_text(meta, path, "loss", true, &loss, err);
    o->model.loss = strcmp(loss, "mse") == 0 ? IMPORTED_MSE : IMPORTED_CROSS_ENTROPY;
    for (int i = 0; i < FIELDS && !status; i++)
        if (json_object_get(given, fields[i].key))
            status = field_set(&fields[i], json_object_get(given, fields[i].key), a, o, err);
    json_decref(meta);
    safetensors_close(file);
    return status;
}

static propane_status check_meta(const json_t *meta, const char *path, const tune_options *o,
                                 const sample_source *source, tune_state *state, propane_error *err) {
    const char *loss, *sum;
    char own[30];
    int64_t samples = 0;
    const json_t *given = json_object_get(meta, "options");
    PROPANE_TRY(json_get_int(meta, path, "step", true, 0, INT64_C(1) << 50, &state->step, err));
    PROPANE_TRY(json_get_int(meta, path, "evaluated", true, -1, INT64_C(1) << 50, &state->evaluated, err));
    PROPANE_TRY(json_get_int(meta, path, "samples", true, 0, INT64_C(1) << 50, &samples, err));
    PROPANE_TRY(json_get_text(meta, path, "loss", true, &loss, err));
    PROPANE_TRY(json_get_text(meta, path, "data", true, &sum, err));
    if (strcmp(loss, loss_name(o->model.loss)) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the run was begun with --loss %.20s, now it is %s", path,
                            loss, loss_name(o->model.loss));
    for (int i = 0; i < FIELDS; i++) {
        json_t *now = field_get(&fields[i], o);
        const bool same = fields[i].recalled || json_equal(now, json_object_get(given, fields[i].key));
        json_decref(now);
        if (!same)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: --%s is not what the run was begun with; leave it out to go on", path,
                                fields[i].key);
    }
    snprintf(own, sizeof own, "%016llx", (unsigned long long)source->sum);
    if (samples == source->count[0] && strcmp(own, sum) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the run was begun with other data (%lld samples, now %lld)",
                        path, (long long)samples, (long long)source->count[0]);
}

static propane_status read_tensors(const safetensors *file, const imported_model *m, const imported_step *step,
                                   float *const *moments, bool fill, propane_error *err) {
    char name[400];
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < m->weight_count; i++) {
            const mil_type *type = &m->weights[i].type;
            const safetensors_tensor *t;
            float *to = (float *)(uintptr_t)tensor_at(m, step, moments, which, i, name);
            PROPANE_TRY(safetensors_expect(file, name, ST_F32, type->rank, type->dim, &t, err));
            if (fill) memcpy(to, t->data, (size_t)t->count * sizeof *to);
        }
    return PROPANE_OK;
}

propane_status tune_checkpoint_read(const char *path, const tune_options *o, const sample_source *source,
                                    tune_state *state, const imported_model *m, const imported_step *step,
                                    float *const *moments, propane_error *err) {
    safetensors *file;
    json_t *meta;
    PROPANE_TRY(open_meta(path, &file, &meta, err));
    propane_status status = check_meta(meta, path, o, source, state, err);
    if (!status)
        status = read_tensors(file, m, step, moments, false, err); /* all of it is there before anything moves */
    if (!status) status = read_tensors(file, m, step, moments, true, err);
    json_decref(meta);
    safetensors_close(file);
    return status;
}
