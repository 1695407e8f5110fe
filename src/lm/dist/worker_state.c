/* SPDX-License-Identifier: MIT
 * Owns the files of ranks. A rank's file is used only if the checkpoint is of the same step. It therefore does no harm
 * if a run ends after the file was written and before the checkpoint was.
 */
#include "lm/dist/worker_state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "train/train_run_internal.h"

enum { PATH_ROOM = 4096 };

enum { WORKER_BLOCKS = 2 };

typedef struct worker_array {
    int block; /* 1 or 2 for moments, 0 for rounding errors of messages */
    char name[TRAIN_NAME_ROOM];
    int64_t count;
    float *data; /* NULL if there is nothing to keep */
} worker_array;

/* Sets *out to array `index` of the rank's state: the moments tensor by tensor, then the rounding errors of messages.
 * Returns false if there are no more arrays. */
static bool worker_array_at(const allreduce *movements, const train_run *r, int index, worker_array *out) {
    const int arrays = WORKER_BLOCKS * r->kind->tensor_count(r);
    *out = (worker_array){.data = NULL};
    if (index >= arrays + 2) return false;
    if (index >= arrays) {
        snprintf(out->name, TRAIN_NAME_ROOM, "outer.residual.%d", index - arrays);
        out->data = allreduce_residual(movements, index - arrays, &out->count);
        return true;
    }
    out->block = 1 + index % WORKER_BLOCKS;
    const train_tensor t = r->kind->tensor(r, out->block, index / WORKER_BLOCKS);
    (void)train_checkpoint_name(out->name, &t, out->block);
    out->count = t.count;
    out->data = t.data;
    return true;
}

/* Returns whether this rank writes the array. The first rank's moments are in the checkpoint instead. */
static bool worker_writes(const train_run *r, const worker_array *a) {
    if (!a->data) return false;
    return a->block == 0 || (r->who.place == 0 && !mpi_leads(r->options.mpi));
}

static bool worker_path(const train_run *r, int rank, char out[PATH_ROOM]) {
    const int n =
        snprintf(out, PATH_ROOM, "%s/worker-%d.%lld.safetensors", r->options.run_dir, rank, (long long)r->state.step);
    return n > 0 && n < PATH_ROOM;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

static propane_status worker_put_arrays(safetensors_writer *w, const allreduce *movements, const train_run *r,
                                        propane_error *err) {
    worker_array a;
    for (int i = 0; worker_array_at(movements, r, i, &a); i++)
        if (worker_writes(r, &a)) PROPANE_TRY(safetensors_writer_declare(w, a.name, ST_F32, 1, &a.count, err));
    for (int i = 0; worker_array_at(movements, r, i, &a); i++)
        if (worker_writes(r, &a))
            PROPANE_TRY(safetensors_writer_data(w, a.data, (size_t)a.count * sizeof *a.data, err));
    return PROPANE_OK;
}

static propane_status worker_write_file(const allreduce *movements, const train_run *r, propane_error *err) {
    char path[PATH_ROOM];
    safetensors_writer *w = NULL;
    if (!worker_path(r, mpi_rank(r->options.mpi), path))
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: the path is too long", r->options.run_dir);
    /* the folder may be on another machine's disk */
    if (!file_is_dir(r->options.run_dir)) PROPANE_TRY(file_make_dir(r->options.run_dir, err));
    PROPANE_TRY(safetensors_writer_open(path, &w, err));
    propane_status status = train_checkpoint_put_state(w, &r->state, err);
    if (status == PROPANE_OK) status = worker_put_arrays(w, movements, r, err);
    if (status == PROPANE_OK) return safetensors_writer_commit(w, err);
    safetensors_writer_abort(w);
    return status;
}

/* Returns an error on all ranks if one rank failed, so that no rank continues to the checkpoint. */
static propane_status worker_all_well(const train_run *r, propane_status status, propane_error *err) {
    double failed = status != PROPANE_OK;
    const propane_status shared = mpi_sum(r->options.mpi, &failed, 1, status ? NULL : err);
    if (status || shared) return status ? status : shared;
    return failed > 0 ? propane_fail(err, PROPANE_ERR_IO, "another rank could not write its state") : PROPANE_OK;
}

propane_status worker_state_write(const allreduce *movements, train_run *r, propane_error *err) {
    return r->checkpoint ? worker_all_well(r, worker_write_file(movements, r, err), err) : PROPANE_OK;
}

/* Returns whether this rank may remove a file. The file must be worker-RANK.STEP.safetensors of another step. Another
 * rank may be one checkpoint ahead and may be writing its file, so a rank removes only its own files and those of
 * former ranks whose number modulo the number of ranks equals its own. */
static bool worker_is_old(const train_run *r, const char *name) {
    char *end = NULL;
    if (strncmp(name, "worker-", 7) != 0) return false;
    const long long rank = strtoll(name + 7, &end, 10);
    if (end == name + 7 || *end != '.' || rank % mpi_size(r->options.mpi) != mpi_rank(r->options.mpi)) return false;
    const char *digits = end + 1;
    const long long there = strtoll(digits, &end, 10);
    return end != digits && strcmp(end, ".safetensors") == 0 && there != r->state.step;
}

propane_status worker_state_sweep(train_run *r, propane_error *err) {
    if (!r->checkpoint) return PROPANE_OK;
    PROPANE_TRY(worker_all_well(r, PROPANE_OK, err)); /* waits until the checkpoint has been written */
    DIR *dir = opendir(r->options.run_dir);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_ROOM];
        const int n = snprintf(path, sizeof path, "%s/%s", r->options.run_dir, e->d_name);
        if (worker_is_old(r, e->d_name) && n > 0 && n < PATH_ROOM) (void)unlink(path);
    }
    if (dir) closedir(dir);
    return PROPANE_OK;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

static propane_status worker_take_state(const checkpoint_metadata *m, train_run *r, propane_error *err) {
    const int64_t step = r->state.step;
    PROPANE_TRY(train_checkpoint_get_state(m, &r->state, err));
    if (r->state.step == step) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: it belongs to step %lld; remove it to continue with the first rank's moments", m->source,
                        (long long)r->state.step);
}

/* Returns whether the file has a usable array. The file of a rank that did not lead its worker has no moments. Rounding
 * errors are usable only with the same wire format and number of ranks. */
static bool worker_fits(const safetensors *file, const worker_array *a) {
    const safetensors_tensor *found = a->data ? safetensors_find(file, a->name) : NULL;
    return found && found->count == a->count;
}

/* Reads the rounding errors from the rank's own file (`own`) and the moments from the file of its worker's leader
 * (`lead`). */
static propane_status worker_take(const allreduce *movements, const checkpoint_metadata *m, train_run *r, bool own,
                                  bool lead, propane_error *err) {
    worker_array a;
    PROPANE_TRY(safetensors_verify(m->file, err));
    PROPANE_TRY(worker_take_state(m, r, err));
    for (int i = 0; worker_array_at(movements, r, i, &a); i++) {
        const safetensors_tensor *found;
        if (!(a.block ? lead : own) || !worker_fits(m->file, &a)) continue;
        PROPANE_TRY(safetensors_expect(m->file, a.name, ST_F32, 1, &a.count, &found, err));
        PROPANE_TRY(safetensors_f32(m->file, found, a.data, err));
        if (a.block && r->kind->keep) r->kind->keep(r, a.block, i / WORKER_BLOCKS);
    }
    return PROPANE_OK;
}

static propane_status worker_read_file(const allreduce *movements, train_run *r, int rank, bool own,
                                       propane_error *err) {
    char path[PATH_ROOM];
    checkpoint_metadata m = {0};
    if (!worker_path(r, rank, path) || !file_exists(path)) return PROPANE_OK;
    propane_status status = checkpoint_metadata_open(path, &m, err);
    if (status == PROPANE_OK) status = worker_take(movements, &m, r, own, rank == r->who.leader, err);
    checkpoint_metadata_close(&m);
    return status;
}

propane_status worker_state_read(const allreduce *movements, train_run *r, propane_error *err) {
    const int rank = mpi_rank(r->options.mpi);
    if (!r->checkpoint) return PROPANE_OK;
    PROPANE_TRY(worker_read_file(movements, r, rank, true, err));
    return rank != r->who.leader ? worker_read_file(movements, r, r->who.leader, false, err) : PROPANE_OK;
}
