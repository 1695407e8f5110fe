/* SPDX-License-Identifier: MIT
 * Owns train.json in a run's folder: the options that repeat the run, for `propane train --config` and
 * propane_options_load. The record holds the given options and the training options that the run resolved. It does not
 * hold the run's folder, so that it can be used with another folder. A resumed run leaves the record unchanged.
 */
#include <string.h>

#include "core/base/memory.h"
#include "train/trainer/public_trainer.h"

static json_t *api_trainer_record_list(const char *values) {
    json_t *list = json_array();
    for (const char *at = values; *at;) {
        const size_t n = strcspn(at, ";");
        json_add(list, json_stringn(at, n));
        at += n + (at[n] == ';');
    }
    return list;
}

json_t *api_trainer_option_value(const train_option *row, const train_options *o) {
    const void *at = train_option_at(row, o);
    const char *value = train_option_is_text(row) ? *(const char *const *)at : NULL;
    return row->type == TRAIN_INT    ? json_integer(*(const int64_t *)at)
           : row->type == TRAIN_REAL ? json_real(*(const double *)at)
           : row->type == TRAIN_BOOL ? json_boolean(*(const bool *)at)
           : row->type == TRAIN_LIST ? api_trainer_record_list(value ? value : "")
                                     : json_string(value ? value : "");
}

/* Returns whether the record holds the option. All options of the group TRAIN_TRAINING are recorded with their resolved
 * values, because defaults may differ in a later version. */
static bool api_trainer_record_has(const propane_trainer *t, int i) {
    const train_option *row = &train_option_rows[i];
    const bool given = t->options->given[i];
    if (!row->name || !row->use[t->options->kind].help) return false;
    if (i == TRAIN_OPTION_run_dir || i == TRAIN_OPTION_resume) return false;
    if (i == TRAIN_OPTION_epochs) return given;
    if (i == TRAIN_OPTION_steps) return !t->options->given[TRAIN_OPTION_epochs];
    return given || row->group == TRAIN_TRAINING;
}

propane_status api_trainer_record_write(const propane_trainer *t, propane_error *err) {
    const train_options *o = train_run_options(t->run);
    if (!o->run_dir || o->resume || !mpi_leads(o->mpi)) return PROPANE_OK;
    json_t *record = json_object();
    for (int i = 0; i < TRAIN_OPTIONS; i++)
        if (api_trainer_record_has(t, i))
            json_put(record, train_option_rows[i].name,
                     i == TRAIN_OPTION_init ? json_string(o->base) /* the name that the user gave */
                                            : api_trainer_option_value(&train_option_rows[i], o));
    char *path = run_path(o->run_dir, TRAIN_RECORD);
    propane_status status = path ? json_write(path, record, JSON_INDENT(1), err) : propane_fail_memory(err, 0);
    mem_free(path);
    json_decref(record);
    return status;
}
