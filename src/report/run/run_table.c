/* SPDX-License-Identifier: MIT
 * Owns the names, the values and the order of the facts in the table. A fact that no run has is left out.
 */
#include "report/run/run_table.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/base/memory.h"

typedef enum shown_as { AS_COUNT, AS_LOSS, AS_TIME, AS_MEGABYTES, AS_MILLISECONDS, AS_WATTS, AS_JOULES } shown_as;

static const struct fact {
    const char *name, *key; /* names in the table and in JSON */
    size_t at;              /* offset in run_summary */
    shown_as as;
    int better; /* -1 if smaller is better, 1 if larger is better, 0 if neither is */
} facts[] = {
    {"steps", "steps", offsetof(run_summary, steps), AS_COUNT, 0},
    {"tokens", "tokens", offsetof(run_summary, tokens), AS_COUNT, 0},
    {"validation, best", "val_loss_best", offsetof(run_summary, val_best), AS_LOSS, -1},
    {"  at step", "val_best_step", offsetof(run_summary, val_step), AS_COUNT, 0},
    {"  nats per byte", "val_nats_per_byte_best", offsetof(run_summary, per_byte), AS_LOSS, -1},
    {"validation, last", "val_loss_last", offsetof(run_summary, val_last), AS_LOSS, -1},
    {"training, best", "loss_best", offsetof(run_summary, best), AS_LOSS, -1},
    {"training, last", "loss_last", offsetof(run_summary, last), AS_LOSS, -1},
    {"training, first", "loss_first", offsetof(run_summary, first), AS_LOSS, 0},
    {"tokens/s", "tokens_per_s", offsetof(run_summary, speed), AS_COUNT, 1},
    {"ms per step", "step_ms", offsetof(run_summary, step_ms), AS_MILLISECONDS, -1},
    {"  of the device", "device_ms", offsetof(run_summary, device_ms), AS_MILLISECONDS, 0},
    {"time", "seconds", offsetof(run_summary, seconds), AS_TIME, 0},
    {"time left", "seconds_left", offsetof(run_summary, left), AS_TIME, 0},
    {"memory, MB", "memory", offsetof(run_summary, memory), AS_MEGABYTES, 0},
    {"simulated, W", "watts", offsetof(run_summary, watts), AS_WATTS, 0},
    {"joules per step, cpu", "cpu_j", offsetof(run_summary, joules[ENERGY_CPU]), AS_JOULES, 0},
    {"  gpu", "gpu_j", offsetof(run_summary, joules[ENERGY_GPU]), AS_JOULES, 0},
    {"  engine", "ane_j", offsetof(run_summary, joules[ENERGY_ANE]), AS_JOULES, 0},
    {"  memory", "dram_j", offsetof(run_summary, joules[ENERGY_DRAM]), AS_JOULES, 0},
};
enum { FACTS = sizeof facts / sizeof facts[0], LONGEST_CELL = 32 };

static double run_table_figure(const run_seen *r, const struct fact *f) {
    double value;
    memcpy(&value, (const char *)&r->summary + f->at, sizeof value);
    return value;
}

static void run_table_print_figure(char out[160], shown_as as, double v) {
    char time[32];
    snprintf(out, 160, "-");
    if (!isfinite(v)) return;
    switch (as) {
    case AS_COUNT: snprintf(out, 160, "%.0f", v); break;
    case AS_LOSS: snprintf(out, 160, "%.4f", v); break;
    case AS_TIME: snprintf(out, 160, "%s", text_duration(time, v)); break;
    case AS_MEGABYTES: snprintf(out, 160, "%.0f", v / 1e6); break;
    case AS_MILLISECONDS: snprintf(out, 160, "%.2f", v); break;
    case AS_JOULES: snprintf(out, 160, "%.3g", v); break;
    case AS_WATTS: snprintf(out, 160, "%.2f", v); break;
    }
}

static bool run_table_add(run_table *t, const char *name, bool setting) {
    run_row *r = &t->rows[t->count];
    *r = (run_row){.best = -1, .setting = setting};
    r->cells = mem_array((size_t)t->set->count, sizeof *r->cells);
    snprintf(r->name, sizeof r->name, "%.70s", name);
    t->count += r->cells != NULL;
    return r->cells != NULL;
}

/* Returns the run whose value is the best and gets a "*", or -1 if no other run is worse. */
static int run_table_find_best(const run_set *s, const struct fact *f) {
    int best = -1;
    bool differ = false;
    for (int i = 0; f->better && i < s->count; i++) {
        const double v = run_table_figure(&s->runs[i], f);
        if (!isfinite(v)) continue;
        const double ahead = best < 0 ? 0 : f->better * (v - run_table_figure(&s->runs[best], f));
        differ |= ahead != 0;
        if (best < 0 || ahead > 0) best = i;
    }
    return differ ? best : -1;
}

static bool run_table_add_fact(run_table *t, const struct fact *f) {
    const run_set *s = t->set;
    const bool samples = strcmp(run_history_text(&s->runs[0].history, "unit", ""), "samples") == 0;
    bool known = false;
    for (int i = 0; i < s->count; i++) known |= isfinite(run_table_figure(&s->runs[i], f));
    if (!known) return true;
    char name[72];
    snprintf(name, sizeof name, "%s%s", samples && strncmp(f->name, "tokens", 6) == 0 ? "samples" : f->name,
             samples && strncmp(f->name, "tokens", 6) == 0 ? f->name + 6 : "");
    if (!run_table_add(t, name, false)) return false;
    run_row *r = &t->rows[t->count - 1];
    r->best = run_table_find_best(s, f);
    for (int i = 0; i < s->count; i++) run_table_print_figure(r->cells[i], f->as, run_table_figure(&s->runs[i], f));
    return true;
}

/* Returns the loss of the validation at step `step`; NAN if there was none. */
static double run_table_loss_at(const run_history *h, int64_t step) {
    int64_t low = 0, high = h->value_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (h->values[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < h->value_count && h->values[low].step == step ? h->values[low].loss : NAN;
}

/* Returns the last step at which every run was validated, or 0 if there is none or all runs are equally long. Runs
 * of different lengths are compared at this step, because a longer run may have a better loss only because of its
 * length. */
static int64_t run_table_common_step(const run_set *s) {
    bool differ = false;
    for (int i = 1; i < s->count; i++) differ |= s->runs[i].summary.steps != s->runs[0].summary.steps;
    const run_history *first = &s->runs[0].history;
    for (int64_t k = first->value_count; differ && k-- > 0;) {
        bool all = true;
        for (int i = 0; i < s->count; i++)
            all &= isfinite(run_table_loss_at(&s->runs[i].history, first->values[k].step));
        if (all) return first->values[k].step;
    }
    return 0;
}

static bool run_table_add_common(run_table *t) {
    const run_set *s = t->set;
    const int64_t step = run_table_common_step(s);
    char name[72];
    if (step == 0) return true;
    snprintf(name, sizeof name, "validation at %lld", (long long)step);
    if (!run_table_add(t, name, false)) return false;
    run_row *r = &t->rows[t->count - 1];
    double best = INFINITY, worst = -INFINITY;
    for (int i = 0; i < s->count; i++) {
        const double loss = run_table_loss_at(&s->runs[i].history, step);
        run_table_print_figure(r->cells[i], AS_LOSS, loss);
        if (loss < best) r->best = i;
        best = fmin(best, loss), worst = fmax(worst, loss);
    }
    if (best == worst) r->best = -1;
    return true;
}

static bool run_table_add_settings(run_table *t, json_t *const settings[], const json_t *differ) {
    size_t k;
    const json_t *key;
    json_array_foreach(differ, k, key) {
        if (!run_table_add(t, json_string_value(key), true)) return false;
        for (int i = 0; i < t->set->count; i++) {
            char *cell = t->rows[t->count - 1].cells[i];
            run_set_print_setting(json_object_get(settings[i], json_string_value(key)), cell);
            if (!*cell) strcpy(cell, "-");
        }
    }
    return true;
}

propane_status run_table_make(const run_set *s, run_table *t, propane_error *err) {
    json_t *settings[RUN_SET_MOST] = {0};
    *t = (run_table){.set = s};
    bool ok = run_set_settings(s, settings);
    json_t *differ = ok ? run_set_differing(settings, s->count) : NULL;
    t->rows = mem_array(FACTS + 2 + json_array_size(differ), sizeof *t->rows);
    ok = ok && t->rows && run_table_add(t, "state", false);
    for (int i = 0; ok && i < s->count; i++) snprintf(t->rows[0].cells[i], 160, "%s", s->runs[i].state);
    for (int f = 0; ok && f < FACTS; f++) {
        if (facts[f].at == offsetof(run_summary, val_best)) ok = run_table_add_common(t);
        ok = ok && run_table_add_fact(t, &facts[f]);
    }
    ok = ok && run_table_add_settings(t, settings, differ);
    json_decref(differ);
    for (int i = 0; i < s->count; i++) json_decref(settings[i]);
    return ok ? PROPANE_OK : propane_fail_memory(err, (size_t)s->count * sizeof *t->rows);
}

void run_table_free(run_table *t) {
    for (int i = 0; i < t->count; i++) mem_free(t->rows[i].cells);
    mem_free(t->rows);
    *t = (run_table){0};
}

/* ---- as text ---------------------------------------------------------------------------------------------------------------- */

static int run_table_columns(const char *s) {
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* Returns whether a setting is too long for the columns, for example a sentence. Each run's value is then printed on a
 * separate line. */
static bool run_table_is_long(const run_table *t, const run_row *row) {
    for (int i = 0; row->setting && i < t->set->count; i++)
        if (run_table_columns(row->cells[i]) > LONGEST_CELL) return true;
    return false;
}

static int run_table_column_width(const run_table *t, int run) {
    int width = run_table_columns(t->set->runs[run].name);
    for (int r = 0; r < t->count; r++) {
        if (run_table_is_long(t, &t->rows[r])) continue;
        const int own = run_table_columns(t->rows[r].cells[run]) + (t->rows[r].best == run ? 1 : 0);
        if (own > width) width = own;
    }
    return width + 2;
}

static void run_table_put_right(text *out, const char *cell, const char *mark, int width) {
    const int used = run_table_columns(cell) + (*mark ? 1 : 0);
    text_printf(out, "%*s%s%s", width > used ? width - used : 0, "", cell, mark);
}

/* Appends the columns of the runs from `first` to `end` - 1. */
static void run_table_put_block(const run_table *t, int label, int first, int end, text *out) {
    text_printf(out, "%-*s", label, "");
    for (int i = first; i < end; i++) run_table_put_right(out, t->set->runs[i].name, "", run_table_column_width(t, i));
    for (int r = 0; r < t->count; r++) {
        const run_row *row = &t->rows[r];
        if (row->setting && !t->rows[r - 1].setting) text_append(out, "\nsettings that differ");
        const bool is_long = run_table_is_long(t, row);
        text_printf(out, "\n%-*s", is_long ? 0 : label, row->name);
        for (int i = first; i < end && is_long; i++)
            text_printf(out, "\n  %s: %s", t->set->runs[i].name, row->cells[i]);
        for (int i = first; i < end && !is_long; i++)
            run_table_put_right(out, row->cells[i], row->best == i ? "*" : "", run_table_column_width(t, i));
    }
    text_append(out, "\n");
}

void run_table_print(const run_table *t, int width, text *out) {
    int label = 0;
    for (int r = 0; r < t->count; r++)
        if (run_table_columns(t->rows[r].name) > label) label = run_table_columns(t->rows[r].name);
    for (int first = 0, end; first < t->set->count; first = end) {
        int used = label + run_table_column_width(t, first);
        for (end = first + 1; end < t->set->count; end++) {
            used += run_table_column_width(t, end);
            if (width > 0 && used > width) break;
        }
        if (first) text_append(out, "\n");
        run_table_put_block(t, label, first, end, out);
    }
}

/* ---- as JSON ---------------------------------------------------------------------------------------------------------------- */

json_t *run_table_json(const run_set *s) {
    json_t *settings[RUN_SET_MOST] = {0}, *root = json_object(), *runs = json_array();
    const bool ok = run_set_settings(s, settings);
    const int64_t common = run_table_common_step(s);
    for (int i = 0; i < s->count; i++) {
        json_t *r = json_object();
        json_put(r, "run", json_words(s->runs[i].dir));
        json_put(r, "state", json_words(s->runs[i].state));
        for (int f = 0; f < FACTS; f++) {
            const double v = run_table_figure(&s->runs[i], &facts[f]);
            json_put(r, facts[f].key, isfinite(v) ? json_real(v) : NULL);
        }
        if (common) json_put(r, "val_loss_common", json_real(run_table_loss_at(&s->runs[i].history, common)));
        json_put(r, "settings", json_incref(settings[i]));
        json_add(runs, r);
    }
    json_put(root, "runs", runs);
    if (common) json_put(root, "common_step", json_integer(common));
    json_put(root, "differ", ok ? run_set_differing(settings, s->count) : NULL);
    for (int i = 0; i < s->count; i++) json_decref(settings[i]);
    if (ok) return root;
    json_decref(root);
    return NULL;
}
