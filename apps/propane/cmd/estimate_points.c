/* SPDX-License-Identifier: MIT
 * Owns the comparison of the estimates with a table of published measurements: errors by chip and by kind of work, and
 * the points that the estimates do not cover.
 */
#include "apps/propane/cmd/estimate_points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/cost_step.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"

/* ---- published points -------------------------------------------------------------------------------------------------- */

static int estimate_points_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the quantile q, interpolated linearly between the values, as numpy does. */
static double estimate_points_quantile(double *sorted, int count, double q) {
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

static propane_status estimate_points_count_in(tally *groups, int *used, const char *name, double error, int room,
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
    int fitted; /* points to which the model was fitted, and points that are almost equal to one of those */
} judged;

static propane_status estimate_points_judge(const cost_point *points, int count, arena *a, judged *j,
                                            propane_error *err) {
    for (int i = 0; i < count; i++) {
        const cost_point *p = &points[i];
        if (!p->covered) {
            j->uncovered++;
            if (strcmp(p->workload, "train_step") == 0) continue; /* the training steps have a list of their own */
            PROPANE_TRY(estimate_points_count_in(j->reasons, &j->reason_count, p->reason, 0, count, a, err));
            continue;
        }
        double error = fabs(p->time.ms / p->published_ms - 1);
        j->fitted += p->time.similarity > 0.999;
        PROPANE_TRY(estimate_points_count_in(&j->all, &j->one, "all", error, count, a, err));
        PROPANE_TRY(estimate_points_count_in(j->chips, &j->chip_count, p->chip, error, count, a, err));
        PROPANE_TRY(estimate_points_count_in(j->kinds, &j->kind_count, p->workload, error, count, a, err));
    }
    for (int i = 0; i < j->chip_count; i++)
        qsort(j->chips[i].errors, (size_t)j->chips[i].count, sizeof(double), estimate_points_by_value);
    for (int i = 0; i < j->kind_count; i++)
        qsort(j->kinds[i].errors, (size_t)j->kinds[i].count, sizeof(double), estimate_points_by_value);
    if (j->one) qsort(j->all.errors, (size_t)j->all.count, sizeof(double), estimate_points_by_value);
    return PROPANE_OK;
}

static json_t *estimate_points_json_group(const tally *t) {
    return json_pack("{s:i, s:f, s:f}", "count", t->count, "median", estimate_points_quantile(t->errors, t->count, 0.5),
                     "p90", estimate_points_quantile(t->errors, t->count, 0.9));
}

/* Prints `root` as JSON and releases it. */
static propane_status estimate_points_print_json(json_t *root, propane_error *err) {
    char *line = NULL;
    propane_status status = json_print(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
    if (line) printf("%s\n", line);
    mem_free(line);
    json_decref(root);
    return status;
}

/* ---- published training steps ------------------------------------------------------------------------------------------ */

static json_t *estimate_points_json_parts(const cost_step *s) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "engine_ms", s->engine_ms, "staging_ms", s->staging_ms,
                     "elementwise_ms", s->elementwise_ms, "products_ms", s->gemm_ms, "update_ms", s->update_ms);
}

/* The published steps of the table, and the errors of the estimates for those that are covered. */
typedef struct judged_steps {
    cost_step_point *list;
    double *errors; /* errors of the covered steps, sorted */
    int count, covered, far, very_far;
} judged_steps;

static propane_status estimate_points_judge_steps(const cost_point *points, int count, arena *a, judged_steps *j,
                                                  propane_error *err) {
    j->list = ARENA_ARRAY(a, count + 1, cost_step_point);
    j->errors = ARENA_ARRAY(a, count + 1, double);
    if (!j->list || !j->errors) return propane_fail_memory(err, (size_t)count * sizeof *j->list);
    for (int i = 0; i < count; i++) {
        const cost_point *p = &points[i];
        cost_step_point *s = &j->list[j->count];
        if (!cost_step_point_read(p->id, p->chip, p->workload, p->shape, p->note, p->published_ms, s)) continue;
        j->count++;
        if (!s->covered) continue;
        const double error = fabs(s->step.ms / s->published_ms - 1);
        j->errors[j->covered++] = error;
        j->far += error > 0.25;
        j->very_far += error > 0.4;
    }
    qsort(j->errors, (size_t)j->covered, sizeof(double), estimate_points_by_value);
    return PROPANE_OK;
}

static json_t *estimate_points_steps_json(const judged_steps *j) {
    json_t *list = json_array();
    for (int i = 0; i < j->count; i++) {
        const cost_step_point *s = &j->list[i];
        json_add(list, s->covered ? json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:o}", "id", s->id, "chip", s->chip,
                                              "style", cost_style_name(s->style), "predicted_ms", s->step.ms,
                                              "published_ms", s->published_ms, "ratio", s->published_ms / s->step.ms,
                                              "relative_error", fabs(s->step.ms / s->published_ms - 1), "parts",
                                              estimate_points_json_parts(&s->step))
                                  : json_pack("{s:s, s:s}", "id", s->id, "reason", s->reason));
    }
    return list;
}

static void estimate_points_print_steps(const judged_steps *j) {
    if (j->count == 0) return;
    printf("\n%-30s %-9s %-26s %9s %9s %6s %7s   %s\n", "training step", "chip", "weights", "published", "estimated",
           "ratio", "error", "engine + staging + elementwise + products + update, ms");
    for (int i = 0; i < j->count; i++) {
        const cost_step_point *s = &j->list[i];
        if (!s->covered) {
            printf("%-30.30s %-9.9s not covered: %s\n", s->id, s->chip, s->reason);
            continue;
        }
        printf("%-30.30s %-9.9s %-26.26s %6.1f ms %6.1f ms %6.2f %+5.0f %%   %.1f + %.1f + %.1f + %.1f + %.1f\n", s->id,
               s->chip, cost_style_name(s->style), s->published_ms, s->step.ms, s->published_ms / s->step.ms,
               100 * (s->step.ms / s->published_ms - 1), s->step.engine_ms, s->step.staging_ms, s->step.elementwise_ms,
               s->step.gemm_ms, s->step.update_ms);
    }
    printf("%d of %d published steps are covered; relative error: median %.1f %%, %d of them above 25 %%, %d above 40 "
           "%%\n",
           j->covered, j->count, 100 * estimate_points_quantile(j->errors, j->covered, 0.5), j->far, j->very_far);
}

static propane_status estimate_points_json(const char *path, const cost_point *points, int count, const judged *j,
                                           const judged_steps *steps, propane_error *err) {
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
    for (int i = 0; i < j->chip_count; i++) json_put(chips, j->chips[i].name, estimate_points_json_group(&j->chips[i]));
    for (int i = 0; i < j->kind_count; i++) json_put(kinds, j->kinds[i].name, estimate_points_json_group(&j->kinds[i]));
    for (int i = 0; i < j->reason_count; i++) json_put(reasons, j->reasons[i].name, json_integer(j->reasons[i].count));
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", path, "kind",
                  "estimated", "rows", count, "covered", j->all.count, "not_covered", j->uncovered, "fitted", j->fitted,
                  "median_relative_error", estimate_points_quantile(j->all.errors, j->all.count, 0.5),
                  "p90_relative_error", estimate_points_quantile(j->all.errors, j->all.count, 0.9), "by_chip", chips,
                  "by_workload", kinds, "not_covered_reasons", reasons, "points", list, "uncovered", missing,
                  "training_steps", estimate_points_steps_json(steps), "training_step_errors",
                  json_pack("{s:i, s:f, s:i, s:i}", "covered", steps->covered, "median_relative_error",
                            estimate_points_quantile(steps->errors, steps->covered, 0.5), "above_25_percent",
                            steps->far, "above_40_percent", steps->very_far));
    return estimate_points_print_json(root, err);
}

static void estimate_points_print_group(const char *title, const tally *groups, int count) {
    printf("\n%-34s %6s %9s %9s\n", title, "rows", "median", "90th");
    for (int i = 0; i < count; i++)
        printf("%-34s %6d %7.1f %% %7.1f %%\n", groups[i].name, groups[i].count,
               100 * estimate_points_quantile(groups[i].errors, groups[i].count, 0.5),
               100 * estimate_points_quantile(groups[i].errors, groups[i].count, 0.9));
}

static void estimate_points_print_programs(const cost_point *points, int count, const judged *j) {
    printf("%-34s %-10s %-11s %11s %11s %8s\n", "id", "chip", "workload", "estimated", "published", "error");
    for (int i = 0; i < count; i++)
        if (points[i].covered)
            printf("%-34.34s %-10.10s %-11s %8.4f ms %8.4f ms %+6.1f %%\n", points[i].id, points[i].chip,
                   points[i].workload, points[i].time.ms, points[i].published_ms,
                   100 * (points[i].time.ms / points[i].published_ms - 1));
    estimate_points_print_group("chip", j->chips, j->chip_count);
    estimate_points_print_group("workload", j->kinds, j->kind_count);
}

static void estimate_points_print(const char *path, const cost_point *points, int count, const judged *j,
                                  const judged_steps *steps) {
    if (j->all.count) estimate_points_print_programs(points, count, j);
    if (j->reason_count) printf("\nnot covered as single programs, and why\n");
    for (int i = 0; i < j->reason_count; i++) printf("%6d  %s\n", j->reasons[i].count, j->reasons[i].name);
    estimate_points_print_steps(steps);
    printf("\n%s: %d rows, %d covered", path, count, j->all.count);
    if (steps->count) printf(" as programs, %d as training steps", steps->covered);
    printf(", %d not", j->uncovered - steps->covered);
    if (j->all.count)
        printf("; relative error of the estimates: median %.1f %%, 90th percentile %.1f %%",
               100 * estimate_points_quantile(j->all.errors, j->all.count, 0.5),
               100 * estimate_points_quantile(j->all.errors, j->all.count, 0.9));
    printf("\n");
    if (j->fitted)
        printf("the model was fitted to %d of them or to points like them, so their errors mean little; "
               "bench/cross_validate.sh prints the errors of held-out points\n",
               j->fitted);
}

/* Returns an error for a table without any point that can be compared, because an empty result would hide a mistake. */
static propane_status estimate_points_need_some(const char *path, const cost_point *points, int count, const judged *j,
                                                const judged_steps *steps, propane_error *err) {
    if (j->all.count || steps->covered) return PROPANE_OK;
    if (!count) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the table has a header and no rows", path);
    const char *reason = steps->count && steps->list[0].id == points[0].id ? steps->list[0].reason : points[0].reason;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: no row can be compared with an estimate; the first, '%.60s' (chip '%.40s', path '%.20s', "
                        "workload '%.20s'): %s",
                        path, points[0].id, points[0].chip, points[0].path, points[0].workload, reason);
}

propane_status estimate_points(const char *path, bool json, propane_error *err) {
    char *table = NULL;
    size_t length = 0;
    cost_point *points = NULL;
    int count = 0;
    judged j = {0};
    judged_steps steps = {0};
    PROPANE_TRY(file_read_stream(path, (size_t)256 << 20, &table, &length, err));
    arena *a = arena_create();
    propane_status status =
        a ? cost_points_read(table, length, path, a, &points, &count, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) status = estimate_points_judge(points, count, a, &j, err);
    if (status == PROPANE_OK) status = estimate_points_judge_steps(points, count, a, &steps, err);
    if (status == PROPANE_OK) status = estimate_points_need_some(path, points, count, &j, &steps, err);
    if (status == PROPANE_OK && json) status = estimate_points_json(path, points, count, &j, &steps, err);
    if (status == PROPANE_OK && !json) estimate_points_print(path, points, count, &j, &steps);
    arena_free(a);
    mem_free(table);
    return status;
}
