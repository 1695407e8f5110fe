/* SPDX-License-Identifier: MIT
 * Owns best.STEP.safetensors in a run's folder. Files of the current or a later step were written before the run was
 * killed and resumed from an earlier checkpoint. They are removed, because the run makes them again.
 */
#include "train/top_checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/mil/text/number.h"
#include "train/checkpoint.h"
#include "train/train_run_internal.h"

enum { KEPT_MOST = 1000 };

typedef struct kept {
    int64_t step;
    double loss;
} kept;

static char *top_checkpoints_path(const train_run *r, int64_t step) {
    return arena_printf(r->arena, "%s/best.%lld.safetensors", r->options.run_dir, (long long)step);
}

/* Returns the step in a file's name: 120 for "best.120.safetensors", and -1 for other names. */
static int64_t top_checkpoints_step(const char *name) {
    char *end = NULL;
    if (strncmp(name, "best.", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    const long long step = strtoll(name + 5, &end, 10);
    return strcmp(end, ".safetensors") == 0 ? step : -1;
}

/* Returns a checkpoint's validation loss. A file that cannot be read counts as the worst and is removed first. */
static double top_checkpoints_loss(const char *path) {
    checkpoint_metadata m = {0};
    const char *value = NULL;
    double loss = INFINITY, read;
    if (checkpoint_metadata_open(path, &m, NULL) == PROPANE_OK &&
        checkpoint_metadata_find(&m, "val_loss", &value, NULL) == PROPANE_OK && value &&
        mil_number_real(value, strlen(value), &read))
        loss = read;
    checkpoint_metadata_close(&m);
    return isfinite(loss) ? loss : INFINITY;
}

static propane_status top_checkpoints_remove(const train_run *r, int64_t step, propane_error *err) {
    const char *path = top_checkpoints_path(r, step);
    if (!path) return propane_fail_memory(err, 0);
    if (unlink(path) == 0 || errno == ENOENT) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
}

static propane_status top_checkpoints_list(const train_run *r, kept out[KEPT_MOST], int *count, propane_error *err) {
    DIR *folder = opendir(r->options.run_dir);
    propane_status status = PROPANE_OK;
    *count = 0;
    for (struct dirent *e; folder && status == PROPANE_OK && (e = readdir(folder));) {
        const int64_t step = top_checkpoints_step(e->d_name);
        if (step < 0) continue;
        if (step >= r->state.step)
            status = top_checkpoints_remove(r, step, err);
        else if (*count < KEPT_MOST)
            out[(*count)++] = (kept){step, top_checkpoints_loss(top_checkpoints_path(r, step))};
    }
    if (folder) closedir(folder);
    return status;
}

propane_status top_checkpoints_offer(train_run *r, double loss, propane_error *err) {
    const int64_t most = train_options_keeps(r->options.keep);
    kept *list = mem_array(KEPT_MOST, sizeof *list);
    int count = 0;
    propane_status status = list ? PROPANE_OK : propane_fail_memory(err, KEPT_MOST * sizeof *list);
    if (status == PROPANE_OK) status = top_checkpoints_list(r, list, &count, err);
    int better = 0;
    for (int i = 0; i < count; i++) better += list[i].loss <= loss;
    if (status == PROPANE_OK && better < most)
        status = train_checkpoint_write_kept(r, top_checkpoints_path(r, r->state.step), loss, err);
    for (int64_t have = count + (better < most); status == PROPANE_OK && have > most; have--) {
        int worst = 0;
        for (int i = 1; i < count; i++)
            if (list[i].loss > list[worst].loss) worst = i;
        status = top_checkpoints_remove(r, list[worst].step, err);
        list[worst].loss = -INFINITY;
    }
    mem_free(list);
    return status;
}
