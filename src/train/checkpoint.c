/* SPDX-License-Identifier: MIT
 * Owns the form of a checkpoint. The rows of options.def and a table of the state serve writing, reading and comparing.
 * A checkpoint that does not belong to the run is refused before anything is changed.
 */
#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/mil/text/number.h"
#include "train/train_run_internal.h"

/* Returns whether checkpoints hold the option for this kind of run. */
static bool checkpoint_holds(const train_option *row, train_kind kind) {
    return row->use[kind].help && row->keep != TRAIN_FORGOTTEN;
}

typedef struct checkpoint_field {
    const char *key;
    bool real;
    size_t offset; /* offset in train_state */
} checkpoint_field;

static const checkpoint_field checkpoint_state[] = {
    {"step", false, offsetof(train_state, step)},
    {"updates", false, offsetof(train_state, updates)},
    {"position", false, offsetof(train_state, position)},
    {"evaluated", false, offsetof(train_state, evaluated)},
    {"best", false, offsetof(train_state, best)},
    {"stale", false, offsetof(train_state, stale)},
    {"best_loss", true, offsetof(train_state, best_loss)},
    {"norm", true, offsetof(train_state, norm)},
    {"scaler_good", false, offsetof(train_state, scaler.good)},
    {"scaler_skipped", false, offsetof(train_state, scaler.skipped)},
    {"scaler_scale", true, offsetof(train_state, scaler.scale)},
};
enum { STATE_FIELDS = sizeof checkpoint_state / sizeof checkpoint_state[0] };

const char *train_checkpoint_name(char out[TRAIN_NAME_ROOM], const train_tensor *t, int block) {
    if (block == 0)
        snprintf(out, TRAIN_NAME_ROOM, "%s", t->name);
    else
        snprintf(out, TRAIN_NAME_ROOM, "optimizer.%d.%s", block, t->name);
    return out;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

static propane_status checkpoint_put(safetensors_writer *w, const char *key, const char *value, propane_error *err) {
    return safetensors_writer_metadata(w, key, value, err);
}

propane_status train_checkpoint_put_state(safetensors_writer *w, const train_state *s, propane_error *err) {
    char value[40];
    for (int i = 0; i < STATE_FIELDS; i++) {
        const checkpoint_field *f = &checkpoint_state[i];
        const void *at = (const char *)s + f->offset;
        if (f->real)
            mil_number_print(value, *(const double *)at);
        else
            snprintf(value, sizeof value, "%lld", (long long)*(const int64_t *)at);
        PROPANE_TRY(checkpoint_put(w, f->key, value, err));
    }
    return PROPANE_OK;
}

static propane_status checkpoint_put_metadata(safetensors_writer *w, const train_run *r, propane_error *err) {
    char value[TRAIN_VALUE_ROOM];
    train_fingerprint fingerprints[TRAIN_FINGERPRINTS];
    const int count = r->kind->fingerprints(r, fingerprints);
    PROPANE_TRY(checkpoint_put(w, "format", checkpoint_format(r->options.kind), err));
    if (r->kind->describe) PROPANE_TRY(r->kind->describe(r, w, err));
    for (int i = 0; i < count; i++) PROPANE_TRY(checkpoint_put(w, fingerprints[i].key, fingerprints[i].value, err));
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (checkpoint_holds(row, r->options.kind))
            PROPANE_TRY(checkpoint_put(w, row->key, train_option_print(row, &r->options, value), err));
    }
    return train_checkpoint_put_state(w, &r->state, err);
}

static propane_status checkpoint_put_tensors(safetensors_writer *w, const train_run *r, int blocks,
                                             propane_error *err) {
    char name[TRAIN_NAME_ROOM];
    const int count = r->kind->tensor_count(r);
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < count; i++) {
            const train_tensor t = r->kind->tensor(r, b, i);
            if (!t.data) continue;
            PROPANE_TRY(safetensors_writer_declare(w, train_checkpoint_name(name, &t, b), ST_F32, t.rank, t.dim, err));
        }
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < count; i++) {
            const train_tensor t = r->kind->tensor(r, b, i);
            if (t.data) PROPANE_TRY(safetensors_writer_data(w, t.data, (size_t)t.count * sizeof *t.data, err));
        }
    return PROPANE_OK;
}

static propane_status checkpoint_write(train_run *r, const char *path, int blocks, const char *loss,
                                       propane_error *err) {
    safetensors_writer *w = NULL;
    PROPANE_TRY(safetensors_writer_open(path, &w, err));
    propane_status status = checkpoint_put_metadata(w, r, err);
    if (status == PROPANE_OK && loss) status = checkpoint_put(w, "val_loss", loss, err);
    if (status == PROPANE_OK) status = checkpoint_put_tensors(w, r, blocks, err);
    if (status == PROPANE_OK) return safetensors_writer_commit(w, err);
    safetensors_writer_abort(w);
    return status;
}

propane_status train_checkpoint_write(train_run *r, propane_error *err) {
    return checkpoint_write(r, r->checkpoint, TRAIN_BLOCKS, NULL, err);
}

propane_status train_checkpoint_write_best(train_run *r, propane_error *err) {
    return checkpoint_write(r, r->best, 1, NULL, err);
}

propane_status train_checkpoint_write_kept(train_run *r, const char *path, double loss, propane_error *err) {
    char value[40];
    mil_number_print(value, loss);
    return checkpoint_write(r, path, 1, value, err);
}

/* ---- comparing ---------------------------------------------------------------------------------------------------------------- */

static propane_status checkpoint_get(const checkpoint_metadata *m, const char *key, const char **out,
                                     propane_error *err) {
    PROPANE_TRY(checkpoint_metadata_find(m, key, out, err));
    if (*out) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: its metadata has no '%s'; this is not a checkpoint of a training run", m->source, key);
}

static propane_status checkpoint_differs(const checkpoint_metadata *m, const char *what, const char *there,
                                         const char *here, propane_error *err) {
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s was written with %s %.100s, not %.100s; resume with the same, or start a new run in another folder",
        m->source, what, there, here);
}

static propane_status checkpoint_check_format(const checkpoint_metadata *m, const char *format, propane_error *err) {
    const char *there;
    PROPANE_TRY(checkpoint_get(m, "format", &there, err));
    if (strcmp(there, format) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: its format is '%.60s', not '%s'; this is not a checkpoint of a training run", m->source,
                        there, format);
}

/* Returns a stored value in the form that a user types, instead of a form such as "0x1p-3". */
static const char *checkpoint_show(const train_option *row, const char *stored, char out[TRAIN_VALUE_ROOM]) {
    if (row->type != TRAIN_REAL) return stored;
    double value = 0;
    if (!mil_number_real(stored, strlen(stored), &value)) return stored;
    snprintf(out, TRAIN_VALUE_ROOM, "%g", value);
    return out;
}

static propane_status checkpoint_check_options(const checkpoint_metadata *m, const train_options *o,
                                               propane_error *err) {
    char room[TRAIN_VALUE_ROOM], shown[2][TRAIN_VALUE_ROOM], flag[40];
    const char *stored;
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (!checkpoint_holds(row, o->kind) || row->keep == TRAIN_RECALLED) continue;
        PROPANE_TRY(checkpoint_get(m, row->key, &stored, err));
        const char *now = train_option_print(row, o, room);
        if (strcmp(stored, now) == 0) continue;
        snprintf(flag, sizeof flag, "--%s", row->name);
        return checkpoint_differs(m, flag, checkpoint_show(row, stored, shown[0]), checkpoint_show(row, now, shown[1]),
                                  err);
    }
    return PROPANE_OK;
}

static propane_status checkpoint_check(const checkpoint_metadata *m, const train_run *r, propane_error *err) {
    train_fingerprint fingerprints[TRAIN_FINGERPRINTS];
    const int count = r->kind->fingerprints(r, fingerprints);
    const char *stored;
    PROPANE_TRY(checkpoint_check_format(m, checkpoint_format(r->options.kind), err));
    if (r->kind->recognise) PROPANE_TRY(r->kind->recognise(r, m->file, err));
    for (int i = 0; i < count; i++) {
        PROPANE_TRY(checkpoint_get(m, fingerprints[i].key, &stored, err));
        if (strcmp(stored, fingerprints[i].value) != 0)
            return checkpoint_differs(m, fingerprints[i].what, stored, fingerprints[i].value, err);
    }
    return checkpoint_check_options(m, &r->options, err);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static propane_status checkpoint_damaged(const checkpoint_metadata *m, const char *key, const char *stored,
                                         propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its metadata has '%.40s' as '%s'; the file is damaged",
                        m->source, stored, key);
}

static bool checkpoint_read_number(const checkpoint_field *f, const char *stored, train_state *state) {
    void *at = (char *)state + f->offset;
    char *end = NULL;
    errno = 0;
    if (f->real) return mil_number_real(stored, strlen(stored), at) && *(double *)at >= 0 && isfinite(*(double *)at);
    const int64_t value = *(int64_t *)at = strtoll(stored, &end, 10);
    return *stored && !*end && value >= -1 && !errno;
}

propane_status train_checkpoint_get_state(const checkpoint_metadata *m, train_state *state, propane_error *err) {
    for (int i = 0; i < STATE_FIELDS; i++) {
        const char *stored;
        PROPANE_TRY(checkpoint_get(m, checkpoint_state[i].key, &stored, err));
        if (!checkpoint_read_number(&checkpoint_state[i], stored, state))
            return checkpoint_damaged(m, checkpoint_state[i].key, stored, err);
    }
    if (state->scaler.scale > 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its metadata has a loss scale of 0; the file is damaged",
                        m->source);
}

/* Reads tensors if `fill` is set. Otherwise only checks that all of them exist. */
static propane_status checkpoint_read_tensors(const checkpoint_metadata *m, train_run *r, int first, int last,
                                              bool fill, propane_error *err) {
    char name[TRAIN_NAME_ROOM];
    for (int b = first; b <= last; b++)
        for (int i = 0; i < r->kind->tensor_count(r); i++) {
            const train_tensor t = r->kind->tensor(r, b, i);
            const safetensors_tensor *found;
            if (!t.data) continue;
            if (b == TRAIN_OUTER_BLOCK && !safetensors_find(m->file, train_checkpoint_name(name, &t, b)))
                continue; /* the run has had no outer momentum until now */
            PROPANE_TRY(
                safetensors_expect(m->file, train_checkpoint_name(name, &t, b), ST_F32, t.rank, t.dim, &found, err));
            if (!fill) continue;
            PROPANE_TRY(safetensors_f32(m->file, found, t.data, err));
            if (r->kind->keep) r->kind->keep(r, b, i);
        }
    return PROPANE_OK;
}

propane_status train_checkpoint_read(train_run *r, int first, int last, propane_error *err) {
    checkpoint_metadata m = {0};
    propane_status status = checkpoint_metadata_open(r->checkpoint, &m, err);
    if (status == PROPANE_OK && first == 0) status = safetensors_verify(m.file, err);
    if (status == PROPANE_OK && first == 0) status = checkpoint_check(&m, r, err);
    if (status == PROPANE_OK) status = checkpoint_read_tensors(&m, r, first, last, false, err);
    if (status == PROPANE_OK && first == 0) status = train_checkpoint_get_state(&m, &r->state, err);
    if (status == PROPANE_OK) status = checkpoint_read_tensors(&m, r, first, last, true, err);
    checkpoint_metadata_close(&m);
    return status;
}

/* Sets *taken if the file is from step state.best. It may be from another step: a killed run that continues from an
 * older checkpoint may end before it reaches the best step again. */
propane_status train_checkpoint_read_best(train_run *r, bool *taken, propane_error *err) {
    checkpoint_metadata m = {0};
    const char *step = NULL;
    *taken = false;
    if (!file_exists(r->best)) return PROPANE_OK;
    propane_status status = checkpoint_metadata_open(r->best, &m, err);
    if (status == PROPANE_OK) status = checkpoint_get(&m, "best", &step, err);
    *taken = status == PROPANE_OK && strtoll(step, NULL, 10) == r->state.best;
    if (*taken) status = safetensors_verify(m.file, err);
    if (*taken && status == PROPANE_OK) status = checkpoint_read_tensors(&m, r, 0, 0, false, err);
    if (*taken && status == PROPANE_OK) status = checkpoint_read_tensors(&m, r, 0, 0, true, err);
    checkpoint_metadata_close(&m);
    return status;
}

static propane_status checkpoint_recall_rows(const checkpoint_metadata *m, arena *a, train_options *o,
                                             propane_error *err) {
    PROPANE_TRY(checkpoint_check_format(m, checkpoint_format(o->kind), err));
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        const char *stored = NULL;
        if (!checkpoint_holds(row, o->kind)) continue;
        PROPANE_TRY(checkpoint_metadata_find(m, row->key, &stored, err));
        /* train_checkpoint_read reports the missing key */
        if (!stored || (!*stored && !train_option_is_text(row))) continue;
        stored = arena_string(a, stored);
        if (!stored) return propane_fail_memory(err, 0);
        if (!train_option_parse(row, stored, o)) return checkpoint_damaged(m, row->key, stored, err);
    }
    return PROPANE_OK;
}

propane_status train_checkpoint_recall(const char *path, arena *a, train_options *o, propane_error *err) {
    checkpoint_metadata m = {0};
    propane_status status = checkpoint_metadata_open(path, &m, err);
    if (status == PROPANE_OK) status = checkpoint_recall_rows(&m, a, o, err);
    checkpoint_metadata_close(&m);
    return status;
}
