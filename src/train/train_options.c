/* SPDX-License-Identifier: MIT
 * Owns the values of options: one parser serves defaults, command line, files and checkpoints. Values that an option's
 * row does not allow are refused.
 */
#include "train/train_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/words.h"
#include "core/mil/text/number.h"
#include "train/head_place.h"
#include "train/optim/moments.h"
#include "train/optim/schedule.h"
#include "train/weight_mode.h"

#define LANGUAGE(text, log, about) [TRAIN_LANGUAGE] = {text, TRAIN_##log, about}
#define IMPORTED(text, log, about) [TRAIN_IMPORTED] = {text, TRAIN_##log, about}
#define OPTION(type, member, name, words, min, max, group, keep, ...)                                                  \
    {TRAIN_##type,  #member,      name,         words, min, max, offsetof(train_options, member),                      \
     TRAIN_##group, TRAIN_##keep, {__VA_ARGS__}},
const train_option train_option_rows[TRAIN_OPTIONS] = {
#include "train/options.def"
};
#undef OPTION

/* ---- values as texts -------------------------------------------------------------------------------------------------------- */

static bool train_options_parse_bool(const char *value, bool *out) {
    *out = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    return *out || strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
}

bool train_option_parse(const train_option *row, const char *value, train_options *o) {
    void *at = train_option_at(row, o);
    char *end = NULL;
    errno = 0;
    if (row->type == TRAIN_BOOL) return train_options_parse_bool(value, at);
    if (row->type == TRAIN_INT) {
        const long long n = strtoll(value, &end, 10);
        if (end == value || *end || errno) return false;
        *(int64_t *)at = n;
    } else if (row->type == TRAIN_REAL) {
        double x; /* checkpoints hold hexadecimal floats */
        if (!mil_number_real(value, strlen(value), &x) || !isfinite(x)) return false;
        *(double *)at = x;
    } else {
        *(const char **)at = value;
    }
    return true;
}

const char *train_option_print(const train_option *row, const train_options *o, char out[TRAIN_VALUE_ROOM]) {
    const void *at = train_option_at(row, o);
    if (row->type == TRAIN_BOOL) {
        snprintf(out, TRAIN_VALUE_ROOM, "%d", *(const bool *)at);
    } else if (row->type == TRAIN_INT) {
        snprintf(out, TRAIN_VALUE_ROOM, "%lld", (long long)*(const int64_t *)at);
    } else if (row->type == TRAIN_REAL) {
        return mil_number_print(out, *(const double *)at);
    } else {
        return *(const char *const *)at ? *(const char *const *)at : ""; /* a text may have any length */
    }
    return out;
}

/* ---- ranges ----------------------------------------------------------------------------------------------------------------- */

static bool train_options_in_range(const train_option *row, const train_options *o) {
    const void *at = train_option_at(row, o);
    if (row->type == TRAIN_INT) {
        const double n = (double)*(const int64_t *)at;
        return n >= row->min && n <= row->max;
    }
    if (row->type == TRAIN_REAL) return *(const double *)at >= row->min && *(const double *)at <= row->max;
    if (row->type != TRAIN_CHOICE) return true;
    return words_have(row->words, '|', *(const char *const *)at ? *(const char *const *)at : "");
}

/* Returns whether the option has the value that means "not given". */
static bool train_options_is_standard(const train_option *row, const train_options *o) {
    char now[TRAIN_VALUE_ROOM], standard[TRAIN_VALUE_ROOM];
    const char *value = row->use[o->kind].standard;
    train_options other = {.kind = o->kind};
    if (value && !train_option_parse(row, value, &other)) return false;
    return strcmp(train_option_print(row, o, now), train_option_print(row, &other, standard)) == 0;
}

static bool train_options_allows(const train_option *row, const train_options *o) {
    return train_options_in_range(row, o) || train_options_is_standard(row, o);
}

/* ---- defaults, by name, all of them ------------------------------------------------------------------------------------------ */

void train_options_default(train_options *o, train_kind kind) {
    *o = (train_options){.kind = kind};
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        const char *value = row->use[kind].help ? row->use[kind].standard : train_option_is_text(row) ? "" : NULL;
        if (value) (void)train_option_parse(row, value, o);
    }
}

static propane_status train_options_refuse(const train_option *row, const char *value, propane_error *err) {
    switch (row->type) {
    case TRAIN_INT:
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.100s' is not an integer from %.0f to %.0f", row->name,
                            value, row->min, row->max);
    case TRAIN_REAL:
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.100s' is not a number from %g to %g", row->name, value,
                            row->min, row->max);
    case TRAIN_BOOL:
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.100s' is neither true nor false", row->name, value);
    default:
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.100s' is not one of %s", row->name, value, row->words);
    }
}

/* Returns whether a number is in the form that a user types. train_option_parse also reads the form of checkpoints. */
static bool train_options_is_plain(const train_option *row, const char *value) {
    double real = 0;
    int64_t whole = 0;
    if (row->type != TRAIN_INT && row->type != TRAIN_REAL) return true;
    return row->type == TRAIN_INT ? text_read_whole(value, &whole) != NULL : text_read_real(value, &real) != NULL;
}

propane_status train_options_set(train_options *o, const char *name, const char *value, propane_error *err) {
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (!row->name || !row->use[o->kind].help || strcmp(row->name, name) != 0) continue;
        train_options tried = *o;
        if (!train_options_is_plain(row, value) || !train_option_parse(row, value, &tried) ||
            !train_options_allows(row, &tried))
            return train_options_refuse(row, value, err);
        tried.given[i] = true;
        *o = tried;
        return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%.60s: unknown option of a training run", name);
}

bool train_options_speculates(const train_options *o) {
    return o->overlap && strcmp(o->overlap, "early") == 0 && (!o->mpi || mpi_size(o->mpi) == 1);
}

int64_t train_options_keeps(const char *keep) {
    enum { MOST = 1000 };
    int64_t n = 0;
    if (strcmp(keep, "last") == 0) return 0;
    if (strcmp(keep, "best") == 0) return 1;
    const char *end = text_read_whole(keep, &n);
    return end && !*end && n >= 1 && n <= MOST ? n : -1;
}

/* Turns "a|b|c" into "a, b or c". */
static const char *train_options_list(const char *words, char out[200]) {
    size_t n = 0;
    for (const char *c = words; *c && n + 5 < 200; c++) {
        if (*c != '|')
            out[n++] = *c;
        else
            n += (size_t)snprintf(out + n, 200 - n, strchr(c + 1, '|') ? ", " : " or ");
    }
    out[n] = 0;
    return out;
}

propane_status train_options_check(const train_options *o, propane_error *err) {
    char list[200];
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        const void *at = train_option_at(row, o);
        if (!row->use[o->kind].help || train_options_allows(row, o)) continue;
        if (row->type == TRAIN_INT)
            return propane_fail(err, PROPANE_ERR_INVALID, "--%s is %lld; it must be %.0f to %.0f", row->name,
                                (long long)*(const int64_t *)at, row->min, row->max);
        if (row->type == TRAIN_REAL)
            return propane_fail(err, PROPANE_ERR_INVALID, "--%s is %g; it must be %g to %g", row->name,
                                *(const double *)at, row->min, row->max);
        return propane_fail(err, PROPANE_ERR_INVALID, "--%s is '%.40s'; it must be %s", row->name,
                            *(const char *const *)at ? *(const char *const *)at : "",
                            train_options_list(row->words, list));
    }
    if (o->lr >= 0 && o->min_lr > o->lr)
        return propane_fail(err, PROPANE_ERR_INVALID, "--min-lr is %g; it must be %g to %g", o->min_lr, 0.0, o->lr);
    if (train_options_keeps(o->keep) < 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--keep is '%.40s'; it must be best, last or a number from 1 to 1000", o->keep);
    if (o->resume && !o->run_dir) return propane_fail(err, PROPANE_ERR_INVALID, "--resume needs the run's folder");
    return PROPANE_OK;
}
