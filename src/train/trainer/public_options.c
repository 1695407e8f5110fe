/* SPDX-License-Identifier: MIT
 * Owns the public options of training: the rows of train/options.def, set by name from texts, from JSON, or from the
 * checkpoint of a resumed run. train/train_options.c decides which values are allowed.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/run/public.h"
#include "train/checkpoint.h"
#include "train/trainer/public_trainer.h"

propane_status propane_options_create(propane_training kind, propane_options **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, out);
    NEED_WORD(err, kind, PROPANE_TRAIN_PROGRAM);
    propane_options *o = mem_alloc(sizeof *o);
    if (o) o->arena = arena_create();
    if (!o || !o->arena) {
        propane_options_free(o);
        return propane_fail_memory(err, sizeof *o);
    }
    train_options_default(&o->o, kind == PROPANE_TRAIN_LANGUAGE ? TRAIN_LANGUAGE : TRAIN_IMPORTED);
    *out = o;
    return PROPANE_OK;
}

void propane_options_free(propane_options *options) {
    if (!options) return;
    arena_free(options->arena);
    mem_free(options);
}

void propane_options_set_ranks(propane_options *options, propane_ranks *ranks) {
    if (options) options->o.mpi = ranks;
}

propane_status propane_options_set_device(propane_options *options, propane_device *device, propane_error *err) {
    NEED(err, options);
    if (device) PROPANE_TRY(propane_options_set(options, "device", propane_device_describe(device)->uri, err));
    options->o.shared = device;
    return PROPANE_OK;
}

/* Copies the texts of the values into the arena. */
static propane_status api_options_keep(propane_options *to, propane_error *err) {
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const char **value = train_option_at(&train_option_rows[i], &to->o);
        if (!train_option_is_text(&train_option_rows[i]) || !*value) continue;
        *value = arena_string(to->arena, *value);
        if (!*value) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

propane_status api_options_copy(const propane_options *from, propane_options **out, propane_error *err) {
    const bool language = from->o.kind == TRAIN_LANGUAGE;
    PROPANE_TRY(propane_options_create(language ? PROPANE_TRAIN_LANGUAGE : PROPANE_TRAIN_PROGRAM, out, err));
    (*out)->o = from->o;
    propane_status status = api_options_keep(*out, err);
    if (status == PROPANE_OK) return status;
    propane_options_free(*out);
    *out = NULL;
    return status;
}

/* ---- by name ---------------------------------------------------------------------------------------------------------------- */

static const train_option *api_options_row(const train_options *o, const char *name) {
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (row->name && row->use[o->kind].help && strcmp(row->name, name) == 0) return row;
    }
    return NULL;
}

propane_status propane_options_set(propane_options *options, const char *name, const char *value, propane_error *err) {
    NEED(err, options, name, value);
    NEED_TEXT(err, name);
    const train_option *row = api_options_row(&options->o, name);
    const char *before =
        row && row->type == TRAIN_LIST ? *(const char *const *)train_option_at(row, &options->o) : NULL;
    if (row && row->type == TRAIN_LIST && strchr(value, ';'))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.100s': set each value separately", name, value);
    const int index = row ? (int)(row - train_option_rows) : 0;
    if (before && options->loaded[index]) before = NULL;
    options->loaded[index] = false;
    const char *own =
        before && *before ? arena_printf(options->arena, "%s;%s", before, value) : arena_string(options->arena, value);
    if (!own) return propane_fail_memory(err, strlen(value));
    return train_options_set(&options->o, name, own, err);
}

static char *api_options_print(const train_option *row, const train_options *o) {
    char shown[TRAIN_VALUE_ROOM];
    const void *at = train_option_at(row, o);
    if (row->type == TRAIN_BOOL) return mem_copy_string(*(const bool *)at ? "true" : "false");
    if (train_option_is_text(row)) /* a text may have any length */
        return mem_copy_string(*(const char *const *)at ? *(const char *const *)at : "");
    if (row->type != TRAIN_REAL) return mem_copy_string(train_option_print(row, o, shown));
    const int digits = text_digits(*(const double *)at);
    snprintf(shown, sizeof shown, "%.*g", digits < 6 ? 6 : digits, *(const double *)at); /* 100000 rather than 1e+05 */
    return mem_copy_string(shown);
}

static propane_status api_options_get(const train_options *o, const char *name, char **out, propane_error *err) {
    const train_option *row = api_options_row(o, name);
    *out = NULL;
    if (!row) return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%.60s: unknown option of a training run", name);
    *out = api_options_print(row, o);
    return *out ? PROPANE_OK : propane_fail_memory(err, 0);
}

propane_status propane_options_get(const propane_options *options, const char *name, char **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, options, name, out);
    NEED_TEXT(err, name);
    return api_options_get(&options->o, name, out, err);
}

propane_status propane_trainer_option(const propane_trainer *trainer, const char *name, char **out,
                                      propane_error *err) {
    if (out) *out = NULL;
    NEED(err, trainer, name, out);
    NEED_TEXT(err, name);
    return api_options_get(train_run_options(trainer->run), name, out, err);
}

bool propane_options_describe(const propane_options *options, int index, propane_option_info *out) {
    if (!options || !out) return false;
    static const char *const types[] = {[TRAIN_INT] = "int",   [TRAIN_REAL] = "real",     [TRAIN_BOOL] = "bool",
                                        [TRAIN_TEXT] = "text", [TRAIN_CHOICE] = "choice", [TRAIN_LIST] = "list"};
    static const char *const groups[] = {[TRAIN_DATA] = "data",       [TRAIN_SIZES] = "model",
                                         [TRAIN_TRAINED] = "trained", [TRAIN_TRAINING] = "training",
                                         [TRAIN_MACHINE] = "machine", [TRAIN_RANKS] = "ranks",
                                         [TRAIN_RUN] = "run"};
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (!row->name || !row->use[options->o.kind].help || index-- > 0) continue;
        const propane_option_info mine = {.name = row->name,
                                          .type = types[row->type],
                                          .words = row->words,
                                          .min = row->min,
                                          .max = row->max,
                                          .group = groups[row->group],
                                          .help = row->use[options->o.kind].help,
                                          .standard = row->use[options->o.kind].standard,
                                          .fixed = row->keep == TRAIN_FIXED,
                                          .given = options->o.given[i]};
        return index == -1 && api_give(out, &mine, sizeof mine);
    }
    return false;
}

/* ---- from JSON -------------------------------------------------------------------------------------------------------------- */

static propane_status api_options_put(propane_options *o, const char *name, const json_t *value, propane_error *err) {
    char number[60];
    if (json_is_array(value)) {
        const train_option *row = api_options_row(&o->o, name);
        if (row && row->type != TRAIN_LIST)
            return propane_fail(err, PROPANE_ERR_INVALID, "%.60s: it must be a single value, not a list", name);
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *one = json_array_get(value, i);
            if (json_is_array(one))
                return propane_fail(err, PROPANE_ERR_INVALID, "%.60s: lists cannot be nested", name);
            PROPANE_TRY(api_options_put(o, name, one, err));
        }
        return PROPANE_OK;
    }
    if (json_is_string(value)) return propane_options_set(o, name, json_string_value(value), err);
    if (json_is_boolean(value)) return propane_options_set(o, name, json_is_true(value) ? "true" : "false", err);
    if (!json_is_number(value))
        return propane_fail(err, PROPANE_ERR_INVALID, "%.60s: it must be a string, a number, true or false", name);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    return propane_options_set(o, name, number, err);
}

/* Returns whether the object is a model configuration. Every configuration has one of these names, and no option
 * has. */
static bool api_options_is_model(const json_t *object) {
    static const char *const names[] = {"model_type", "architectures", "hidden_size", "n_embd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (json_object_get(object, names[i])) return true;
    return false;
}

/* Sets all options of a JSON object. On an error, the options stay unchanged. */
static propane_status api_options_put_all(propane_options *o, const json_t *object, const char *source,
                                          propane_error *err) {
    const train_options before = o->o;
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: options must be a JSON object, such as {\"lr\": 0.001}",
                            source);
    if (api_options_is_model(object))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: this is a model configuration; give its path as the value of the option config",
                            source);
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (api_options_put(o, name, value, err) == PROPANE_OK) continue;
        o->o = before;
        return propane_fail_prefix(err, err->status, "%s", source);
    }
    memcpy(o->loaded, o->o.given, sizeof o->loaded);
    return PROPANE_OK;
}

propane_status propane_options_parse(propane_options *options, const char *json, size_t length, const char *source,
                                     propane_error *err) {
    NEED(err, options, json);
    API_ERROR(err);
    json_t *object = NULL;
    if (!source) source = "the options";
    PROPANE_TRY(json_parse(json, length, source, &object, err));
    propane_status status = api_options_put_all(options, object, source, err);
    json_decref(object);
    return status;
}

propane_status propane_options_load(propane_options *options, const char *path, propane_error *err) {
    NEED(err, options, path);
    NEED_TEXT(err, path);
    API_ERROR(err);
    json_t *object = NULL;
    PROPANE_TRY(json_read(path, 1 << 20, &object, err));
    propane_status status = api_options_put_all(options, object, path, err);
    json_decref(object);
    return status;
}

/* ---- a resumed run ----------------------------------------------------------------------------------------------- */

/* Returns whether a given value leaves the run's own value in place: it is "auto", and the option cannot change, so the
 * run keeps the value that was chosen when it began. */
static bool api_options_is_open(const train_option *row, const train_options *o) {
    if (row->keep != TRAIN_FIXED || !train_option_is_text(row)) return false;
    const char *value = *(const char *const *)train_option_at(row, o);
    return value && strcmp(value, "auto") == 0;
}

propane_status propane_options_recall(propane_options *options, propane_error *err) {
    NEED(err, options);
    train_options *o = &options->o, recalled = *o;
    if (!o->resume || !o->run_dir || !run_holds(o->run_dir, TRAIN_CHECKPOINT)) return PROPANE_OK;
    char *path = run_path(o->run_dir, TRAIN_CHECKPOINT);
    propane_status status = path ? train_checkpoint_recall(path, options->arena, &recalled, err)
                                 : propane_fail_memory(err, strlen(o->run_dir));
    mem_free(path);
    if (status != PROPANE_OK) return status;
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (!o->given[i] || api_options_is_open(row, o)) continue;
        if (train_option_is_text(row))
            *(const char **)train_option_at(row, &recalled) = *(const char *const *)train_option_at(row, o);
        else if (row->type == TRAIN_BOOL)
            *(bool *)train_option_at(row, &recalled) = *(const bool *)train_option_at(row, o);
        else
            memcpy(train_option_at(row, &recalled), train_option_at(row, o), sizeof(int64_t));
    }
    *o = recalled;
    return PROPANE_OK;
}

propane_status api_options_check(const train_options *o, bool data_in_memory, propane_error *err) {
    if (!data_in_memory && !*o->sources) {
        const bool lost =
            /* the folder has no checkpoint from which options could be recalled */
            o->resume && o->run_dir && !run_holds(o->run_dir, TRAIN_CHECKPOINT);
        return lost ? run_fail_resume(o->run_dir, err) : propane_fail(err, PROPANE_ERR_INVALID, "--data is missing");
    }
    return api_trainer_kinds[o->kind]->check(o, err);
}

propane_status propane_options_check(const propane_options *options, propane_error *err) {
    NEED(err, options);
    return api_options_check(&options->o, false, err);
}
