/* SPDX-License-Identifier: MIT
 * propane estimate: what a program would cost on a Neural Engine, and how well the model that says so meets published
 * measurements. Every figure that it prints is estimated; none was measured here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "chip/cost_step.h"
#include "cli/cli.h"
#include "cli/cmd/estimate_model.h"
#include "train/step/weight_mode.h"

/* ---- published points -------------------------------------------------------------------------------------------------- */

static int cmd_estimate_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the values, as numpy does it. */
static double cmd_estimate_quantile(double *sorted, int count, double q) {
    if (!count) return 0;
    double at = q * (count - 1);
    int low = (int)at;
    return low + 1 < count ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
}

typedef struct tally {
    const char *name;
    int count;
    double *errors;
} tally;

#define MAX_GROUPS 128

static propane_status cmd_estimate_count_in(tally *groups, int *used, const char *name, double error, int room,
                                            arena *a, propane_error *err) {
    int g = 0;
    while (g < *used && strcmp(groups[g].name, name) != 0) g++;
    if (g == MAX_GROUPS) return PROPANE_OK;
    if (g == *used) {
        groups[g] = (tally){name, 0, ARENA_ARRAY(a, room, double)};
        if (!groups[g].errors) return propane_fail_memory(err, (size_t)room * sizeof(double));
        ++*used;
    }
    groups[g].errors[groups[g].count++] = error;
    return PROPANE_OK;
}

typedef struct judged {
    tally all, chips[MAX_GROUPS], kinds[MAX_GROUPS], reasons[MAX_GROUPS];
    int chip_count, kind_count, reason_count, uncovered, one;
    int fitted; /* points that the model was fitted to, or their like */
} judged;

static propane_status cmd_estimate_judge(const cost_point *points, int count, arena *a, judged *j, propane_error *err) {
    for (int i = 0; i < count; i++) {
        const cost_point *p = &points[i];
        if (!p->covered) {
            j->uncovered++;
            PROPANE_TRY(cmd_estimate_count_in(j->reasons, &j->reason_count, p->reason, 0, count, a, err));
            continue;
        }
        double error = fabs(p->time.ms / p->published_ms - 1);
        j->fitted += p->time.similarity > 0.999;
        PROPANE_TRY(cmd_estimate_count_in(&j->all, &j->one, "all", error, count, a, err));
        PROPANE_TRY(cmd_estimate_count_in(j->chips, &j->chip_count, p->chip, error, count, a, err));
        PROPANE_TRY(cmd_estimate_count_in(j->kinds, &j->kind_count, p->workload, error, count, a, err));
    }
    for (int i = 0; i < j->chip_count; i++)
        qsort(j->chips[i].errors, (size_t)j->chips[i].count, sizeof(double), cmd_estimate_by_value);
    for (int i = 0; i < j->kind_count; i++)
        qsort(j->kinds[i].errors, (size_t)j->kinds[i].count, sizeof(double), cmd_estimate_by_value);
    qsort(j->all.errors, (size_t)j->all.count, sizeof(double), cmd_estimate_by_value);
    return PROPANE_OK;
}

static json_t *cmd_estimate_json_group(const tally *t) {
    return json_pack("{s:i, s:f, s:f}", "count", t->count, "median", cmd_estimate_quantile(t->errors, t->count, 0.5),
                     "p90", cmd_estimate_quantile(t->errors, t->count, 0.9));
}

/* Takes the value. */
static propane_status cmd_estimate_print_json(json_t *root, propane_error *err) {
    char *line = NULL;
    propane_status status = json_print(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
    if (line) printf("%s\n", line);
    mem_free(line);
    json_decref(root);
    return status;
}

/* ---- published training steps ------------------------------------------------------------------------------------------ */

static json_t *cmd_estimate_json_parts(const cost_step *s) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "engine_ms", s->engine_ms, "staging_ms", s->staging_ms,
                     "elementwise_ms", s->elementwise_ms, "products_ms", s->gemm_ms, "update_ms", s->update_ms);
}

static json_t *cmd_estimate_steps_json(const cost_point *points, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const cost_point *p = &points[i];
        cost_step_point s;
        if (!cost_step_point_read(p->id, p->chip, p->workload, p->shape, p->note, p->published_ms, &s)) continue;
        json_add(list, s.covered ? json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:o}", "id", s.id, "chip", s.chip, "style",
                                             cost_style_name(s.style), "predicted_ms", s.step.ms, "published_ms",
                                             s.published_ms, "relative_error", fabs(s.step.ms / s.published_ms - 1),
                                             "parts", cmd_estimate_json_parts(&s.step))
                                 : json_pack("{s:s, s:s}", "id", s.id, "reason", s.reason));
    }
    return list;
}

static void cmd_estimate_print_steps(const cost_point *points, int count) {
    int covered = 0, far = 0, rows = 0;
    for (int i = 0; i < count; i++) {
        const cost_point *p = &points[i];
        cost_step_point s;
        if (!cost_step_point_read(p->id, p->chip, p->workload, p->shape, p->note, p->published_ms, &s)) continue;
        if (rows++ == 0)
            printf("\n%-30s %-9s %-26s %9s %9s %7s   %s\n", "training step", "chip", "weights", "estimated",
                   "published", "error", "engine + staging + elementwise + products + update, ms");
        if (!s.covered) continue;
        double error = s.step.ms / s.published_ms - 1;
        covered++;
        far += fabs(error) > 0.25;
        printf("%-30.30s %-9.9s %-26.26s %6.1f ms %6.1f ms %+5.0f %%   %.1f + %.1f + %.1f + %.1f + %.1f\n", s.id,
               s.chip, cost_style_name(s.style), s.step.ms, s.published_ms, 100 * error, s.step.engine_ms,
               s.step.staging_ms, s.step.elementwise_ms, s.step.gemm_ms, s.step.update_ms);
    }
    if (rows)
        printf("%d of %d published steps are covered, %d of them are off by more than 25 %%\n", covered, rows, far);
}

static propane_status cmd_estimate_points_json(const char *path, const cost_point *points, int count, const judged *j,
                                               propane_error *err) {
    json_t *list = json_array(), *missing = json_array(), *chips = json_object(), *kinds = json_object(),
           *reasons = json_object();
    for (int i = 0; i < count; i++) {
        const cost_point *p = &points[i];
        if (p->covered)
            json_add(list,
                     json_pack("{s:s%, s:s%, s:s%, s:s%, s:f, s:f, s:f, s:f, s:f, s:f}", "id", p->id, strlen(p->id),
                               "chip", p->chip, strlen(p->chip), "path", p->path, strlen(p->path), "workload",
                               p->workload, strlen(p->workload), "predicted_ms", p->time.ms, "published_ms",
                               p->published_ms, "relative_error", fabs(p->time.ms / p->published_ms - 1), "low_ms",
                               p->time.low_ms, "high_ms", p->time.high_ms, "similarity", p->time.similarity));
        else
            json_add(missing, json_pack("{s:s, s:s}", "id", p->id, "reason", p->reason));
    }
    for (int i = 0; i < j->chip_count; i++) json_put(chips, j->chips[i].name, cmd_estimate_json_group(&j->chips[i]));
    for (int i = 0; i < j->kind_count; i++) json_put(kinds, j->kinds[i].name, cmd_estimate_json_group(&j->kinds[i]));
    for (int i = 0; i < j->reason_count; i++) json_put(reasons, j->reasons[i].name, json_integer(j->reasons[i].count));
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "file", path, "kind",
                  "estimated", "rows", count, "covered", j->all.count, "not_covered", j->uncovered, "fitted", j->fitted,
                  "median_relative_error", cmd_estimate_quantile(j->all.errors, j->all.count, 0.5),
                  "p90_relative_error", cmd_estimate_quantile(j->all.errors, j->all.count, 0.9), "by_chip", chips,
                  "by_workload", kinds, "not_covered_reasons", reasons, "points", list, "uncovered", missing,
                  "training_steps", cmd_estimate_steps_json(points, count));
    return cmd_estimate_print_json(root, err);
}

static void cmd_estimate_print_group(const char *title, const tally *groups, int count) {
    printf("\n%-34s %6s %9s %9s\n", title, "rows", "median", "90th");
    for (int i = 0; i < count; i++)
        printf("%-34s %6d %7.1f %% %7.1f %%\n", groups[i].name, groups[i].count,
               100 * cmd_estimate_quantile(groups[i].errors, groups[i].count, 0.5),
               100 * cmd_estimate_quantile(groups[i].errors, groups[i].count, 0.9));
}

static void cmd_estimate_print_points(const char *path, const cost_point *points, int count, const judged *j) {
    printf("%-34s %-10s %-11s %11s %11s %8s\n", "id", "chip", "workload", "estimated", "published", "error");
    for (int i = 0; i < count; i++)
        if (points[i].covered)
            printf("%-34.34s %-10.10s %-11s %8.4f ms %8.4f ms %+6.1f %%\n", points[i].id, points[i].chip,
                   points[i].workload, points[i].time.ms, points[i].published_ms,
                   100 * (points[i].time.ms / points[i].published_ms - 1));
    cmd_estimate_print_group("chip", j->chips, j->chip_count);
    cmd_estimate_print_group("workload", j->kinds, j->kind_count);
    printf("\nnot covered, and why\n");
    for (int i = 0; i < j->reason_count; i++) printf("%6d  %s\n", j->reasons[i].count, j->reasons[i].name);
    cmd_estimate_print_steps(points, count);
    printf(
        "\n%s: %d rows, %d covered, %d not; relative error of the estimates: median %.1f %%, 90th percentile %.1f %%\n",
        path, count, j->all.count, j->uncovered, 100 * cmd_estimate_quantile(j->all.errors, j->all.count, 0.5),
        100 * cmd_estimate_quantile(j->all.errors, j->all.count, 0.9));
    if (j->fitted)
        printf("%d of them are points that the model was fitted to or just like one: their errors say little; "
               "bench/cross_validate.sh tells those of points held out\n",
               j->fitted);
}

static propane_status cmd_estimate_points(const char *path, bool json, propane_error *err) {
    char *table = NULL;
    size_t length = 0;
    cost_point *points = NULL;
    int count = 0;
    judged j = {0};
    PROPANE_TRY(file_read_stream(path, (size_t)256 << 20, &table, &length, err));
    arena *a = arena_create();
    propane_status status =
        a ? cost_points_read(table, length, path, a, &points, &count, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) status = cmd_estimate_judge(points, count, a, &j, err);
    if (status == PROPANE_OK && json) status = cmd_estimate_points_json(path, points, count, &j, err);
    if (status == PROPANE_OK && !json) cmd_estimate_print_points(path, points, count, &j);
    arena_free(a);
    mem_free(table);
    return status;
}

/* ---- programs ------------------------------------------------------------------------------------------------------------ */

static propane_status cmd_estimate_program(const char *path, const propane_estimate_options *options, bool json,
                                           bool per_op, propane_error *err) {
    propane_module *m = NULL;
    propane_estimate *e = NULL;
    char *shown = NULL;
    PROPANE_TRY(propane_module_read(path, &m, err));
    propane_status status = propane_estimate_module(m, options, &e, err);
    if (!status) status = propane_estimate_print(e, json ? PROPANE_JSON : PROPANE_TEXT, per_op, &shown, err);
    if (!status) fputs(shown, stdout);
    propane_free(shown);
    propane_estimate_free(e);
    propane_module_free(m);
    return status;
}

int cmd_estimate(int argc, char **argv) {
    const char *file = NULL, *points = NULL, *target = "m4", *through = "direct";
    bool json = false;
    estimate_model_options model = {.plan = "six", .weights = "inputs", .batch = 1, .context = 256, .accumulate = 1};
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &file,
         .help = "a program (.mil, a Core ML package), or a model: what 'propane plan' takes, or stories110m"},
        {"--target", CLI_TEXT, &target, .words = "CHIP,...", .help = "m1, m4, m4-max, ...; all; all-a"},
        {"--json", CLI_SWITCH, &json, .help = "JSON"},
        {"--ops", CLI_SWITCH, &model.per_op, .help = "each operation or kernel, too"},
        {NULL, CLI_HEADING, NULL, .help = "Of a program"},
        {"--path", CLI_CHOICE, &through, .words = "direct|e5rt|coreml|linux", .help = "how the engine is called"},
        {NULL, CLI_HEADING, NULL, .help = "Of a model, whole training steps"},
        {"--plan", CLI_TEXT, &model.plan, .words = "NAME", .help = "layer, six or ten"},
        {"--weights", CLI_CHOICE, &model.weights, .words = WEIGHT_MODE_WORDS, .help = "how programs get their weights"},
        {"--batch", CLI_INT, &model.batch, 1, 1024, "N", "sequences at a time"},
        {"--context", CLI_INT, &model.context, 1, 65536, "N", "positions of a sequence"},
        {"--accumulate", CLI_INT, &model.accumulate, 1, 100000, "N", "batches to an update"},
        {"--compare", CLI_SWITCH, &model.compare, .help = "plans, weights and batches side by side, the fastest named"},
        {NULL, CLI_HEADING, NULL, .help = "Of the model behind the estimates"},
        {"--points", CLI_TEXT, &points, .words = "FILE.csv",
         .help = "instead of a file: judge the estimates on a table of published measurements"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "estimate FILE [flags]",
                  "Time, energy and use of a Neural Engine for a program or for training a model, from a model that is "
                  "fitted to published measurements. All figures are estimated; nothing is measured on this machine.");
    if (code >= 0) return code;
    propane_error err = {0};
    const chip *chips[CHIP_COUNT];
    int count = 0;
    if (!file == !points) return cli_misuse("estimate", "name a program or a model, or give --points FILE.csv");
    model.json = json;
    propane_status status = chip_find_list(target, chips, &count, &err);
    if (status != PROPANE_OK) return cli_error("estimate", &err);
    if (points)
        status = cmd_estimate_points(points, json, &err);
    else if (estimate_is_model(file))
        status = estimate_model(file, chips, count, &model, &err);
    else
        status = cmd_estimate_program(
            file,
            &(propane_estimate_options){.size = sizeof(propane_estimate_options), .target = target, .path = through},
            json, model.per_op, &err);
    return status == PROPANE_OK ? CLI_OK : cli_error("estimate", &err);
}
