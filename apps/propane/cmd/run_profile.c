/* SPDX-License-Identifier: MIT
 * Shows the cpu driver's profile in terms of the user's program. Each step is listed with its value and the operation
 * that computes the value. If the driver fused several operations into one step, these are the last one's. After the
 * steps, the times are added up by kind of operation.
 */
#include "apps/propane/cmd/run_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"

/* Total time of the steps of one kind. */
typedef struct kind_time {
    const char *name;
    int steps;
    double us;
} kind_time;

static double run_profile_us_of(const propane_profile_row *r) {
    return r->runs ? (double)r->ns / (double)r->runs / 1000.0 : 0;
}

/* A session's program and its source function. */
typedef struct profiled {
    const propane_program *program;
    const propane_module *module;
    const char *function;
} profiled;

static profiled run_profile_of(propane_session *s, const char *function) {
    return (profiled){propane_session_program(s), propane_session_module(s), function};
}

static propane_profile_row run_profile_row(const profiled *p, int index) {
    propane_profile_row row = {.size = sizeof row};
    (void)propane_program_profile_get(p->program, index, &row);
    return row;
}

/* Returns the operation of a step. Returns "copy" for a step that only moves data, and "(fused)" for a value that is
 * not in the program because the driver made it. */
static const char *run_profile_operation_of(const profiled *p, const propane_profile_row *r) {
    if (strcmp(r->kind, "copy") == 0) return "copy";
    const propane_value *v = NULL;
    while ((v = propane_module_next_value(p->module, p->function, v)))
        if (strcmp(propane_value_name(v), r->name) == 0) return propane_value_op(v);
    return "(fused)";
}

static void run_profile_add_kind(kind_time *kinds, int *count, const char *name, double us) {
    int i = 0;
    while (i < *count && strcmp(kinds[i].name, name) != 0) i++;
    if (i == *count) kinds[(*count)++] = (kind_time){name, 0, 0};
    kinds[i].steps++;
    kinds[i].us += us;
}

static int run_profile_longest_first(const void *a, const void *b) {
    const kind_time *x = a, *y = b;
    if (x->us > y->us || x->us < y->us) return x->us > y->us ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Prints a rate of arithmetic or bytes, or a dash if the step has none. */
static void run_profile_print_rate(FILE *out, double amount, double us) {
    if (amount > 0 && us > 0)
        fprintf(out, " %9.2f", amount / us / 1000.0);
    else
        fprintf(out, " %9s", "-");
}

static void run_profile_print_steps(const profiled *p, FILE *out, double total, bool stages, kind_time *kinds,
                                    int *kind_count) {
    fprintf(out, "%4s  %-22s %-36s %-20s%s %9s %6s %9s %9s\n", "step", "operation", "value", "kernel",
            stages ? " stage       " : "", "us", "share", "GFLOP/s", "GB/s");
    for (int i = 0; i < propane_program_profile_count(p->program); i++) {
        const propane_profile_row r = run_profile_row(p, i);
        const char *operation = run_profile_operation_of(p, &r);
        const double us = run_profile_us_of(&r);
        run_profile_add_kind(kinds, kind_count, operation, us);
        fprintf(out, "%4d  %-22.22s %-36.36s %-20.20s", i, operation, r.name, r.kind);
        if (stages) fprintf(out, " %-12.12s", r.stage ? r.stage : "");
        fprintf(out, " %9.1f %5.1f%%", us, total > 0 ? 100 * us / total : 0);
        run_profile_print_rate(out, r.flops, us);
        run_profile_print_rate(out, r.bytes, us);
        fprintf(out, "\n");
    }
}

/* Prints each fusion rule that the planner applied, with the number of times. */
static void run_profile_print_fusions(const profiled *p, FILE *out) {
    int count = 0, shown = 0;
    const char *name;
    for (int i = 0; (name = propane_program_fusion(p->program, i, &count)); i++)
        if (count) fprintf(out, "%s%s %d", shown++ ? ", " : "\n      fusions: ", name, count);
    if (shown) fprintf(out, "\n");
}

propane_status run_profile_print(propane_session *s, const char *function, FILE *out, propane_error *err) {
    const profiled of = run_profile_of(s, function), *p = &of;
    const int count = propane_program_profile_count(p->program);
    kind_time *kinds = mem_array((size_t)count + 1, sizeof *kinds);
    if (!kinds) return propane_fail_memory(err, (size_t)count * sizeof *kinds);
    double total = 0;
    bool stages = false;
    int kind_count = 0;
    for (int i = 0; i < count; i++) {
        const propane_profile_row r = run_profile_row(p, i);
        total += run_profile_us_of(&r);
        stages |= r.stage != NULL;
    }
    run_profile_print_steps(p, out, total, stages, kinds, &kind_count);
    qsort(kinds, (size_t)kind_count, sizeof *kinds, run_profile_longest_first);
    fprintf(out, "\n      %-22s %9s %6s %6s\n", "operation", "us", "share", "steps");
    for (int i = 0; i < kind_count; i++)
        fprintf(out, "      %-22.22s %9.1f %5.1f%% %6d\n", kinds[i].name, kinds[i].us,
                total > 0 ? 100 * kinds[i].us / total : 0, kinds[i].steps);
    fprintf(out, "      %-22s %9.1f %5.1f%% %6d\n", "all", total, total > 0 ? 100.0 : 0.0, count);
    run_profile_print_fusions(p, out);
    mem_free(kinds);
    return PROPANE_OK;
}

/* Returns the event of a step, which begins at `at` and is as long as the step's average time (both in
 * microseconds). */
static json_t *run_profile_event_of(const profiled *p, const propane_profile_row *r, double at) {
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:{s:s, s:s, s:f, s:f}}", "name", r->name, "cat",
                     run_profile_operation_of(p, r), "ph", "X", "ts", at, "dur", run_profile_us_of(r), "pid", 1, "tid",
                     1, "args", "operation", run_profile_operation_of(p, r), "kernel", r->kind, "flops", r->flops,
                     "bytes", r->bytes);
}

propane_status run_profile_trace(propane_session *s, const char *function, const char *model, const char *path,
                                 propane_error *err) {
    const profiled of = run_profile_of(s, function), *p = &of;
    json_t *events = json_array();
    double at = 0;
    if (events) /* the title of the row of events */
        json_add(events, json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", 1, "args",
                                   "name", model));
    for (int i = 0; events && i < propane_program_profile_count(p->program); i++) {
        const propane_profile_row r = run_profile_row(p, i);
        json_add(events, run_profile_event_of(p, &r, at));
        at += run_profile_us_of(&r);
    }
    json_t *root = events ? json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ns") : NULL;
    propane_status status = file_check_output(path, err);
    if (!status) status = json_write(path, root, JSON_INDENT(1) | JSON_REAL_PRECISION(9), err);
    json_decref(root);
    return status;
}
