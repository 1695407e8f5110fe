/* SPDX-License-Identifier: MIT
 * Owns the choice of charts. A long curve is thinned to at most 1,000 points, each the mean of its segment.
 */
#include "report/run/report_data.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"

enum { MOST = 1000 };

typedef struct curve {
    const run_seen *run;
    const char *name;
    int colour, count;
    bool dots;         /* mark each value */
    bool exact;        /* the curve is never smoothed */
    double *x, *t, *y; /* steps, seconds and values, in one block of memory that begins at x */
} curve;

typedef double (*pick)(const run_point *p);
static double report_data_loss(const run_point *p) { return p->loss; }
static double report_data_rate(const run_point *p) { return p->lr; }
static double report_data_norm(const run_point *p) { return p->norm; }
static double report_data_speed(const run_point *p) { return p->tokens_per_s; }

static bool report_data_room(curve *c, int count) {
    c->x = mem_array((size_t)count + 1, 3 * sizeof *c->x);
    if (!c->x) return false;
    c->t = c->x + count, c->y = c->t + count;
    return true;
}

/* Sets the points of a curve to means over segments of the run. NAN marks a missing value, and a segment without any
 * value is left out. */
static bool report_data_take_points(curve *c, pick of) {
    const run_history *h = &c->run->history;
    const int64_t stretch = (h->count + MOST - 1) / MOST;
    if (!report_data_room(c, stretch ? (int)((h->count + stretch - 1) / stretch) : 0)) return false;
    for (int64_t i = 0; i < h->count; i += stretch) {
        double x = 0, t = 0, y = 0;
        int n = 0;
        for (int64_t k = i; k < h->count && k < i + stretch; k++) {
            const run_point *p = &h->points[k];
            if (isfinite(of(p))) x += (double)p->step, t += p->seconds, y += of(p), n++;
        }
        if (n) c->x[c->count] = x / n, c->t[c->count] = t / n, c->y[c->count++] = y / n;
    }
    return true;
}

static bool report_data_take_values(curve *c) {
    const run_history *h = &c->run->history;
    c->dots = c->exact = true;
    if (!report_data_room(c, (int)h->value_count)) return false;
    for (int64_t i = 0, at = 0; i < h->value_count; i++) {
        while (at < h->count && h->points[at].step < h->values[i].step) at++;
        if (!isfinite(h->values[i].loss)) continue;
        c->x[c->count] = (double)h->values[i].step, c->y[c->count] = h->values[i].loss;
        c->t[c->count++] = at < h->count ? h->points[at].seconds : NAN;
    }
    return true;
}

static json_t *report_data_numbers(const double *v, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_add(list, isfinite(v[i]) ? json_real(v[i]) : NULL);
    return list;
}

static json_t *report_data_curve(const curve *c) {
    json_t *o = json_object();
    const double each = run_history_number(&c->run->history, "tokens_per_step", 0);
    json_put(o, "name", json_bytes(c->name, strlen(c->name)));
    json_put(o, "colour", json_integer(c->colour));
    json_put(o, "dots", json_boolean(c->dots));
    json_put(o, "exact", json_boolean(c->exact));
    json_put(o, "each", json_real(each));
    json_put(o, "x", report_data_numbers(c->x, c->count));
    json_put(o, "t", report_data_numbers(c->t, c->count));
    json_put(o, "y", report_data_numbers(c->y, c->count));
    return o;
}

/* Writes an empty figure, in which the page's script draws the chart, and adds the chart's data. Writes nothing if no
 * curve has a value. Frees the curves. */
static void report_data_put(const char *title, bool legend, curve *curves, int count, text *out, json_t *charts) {
    json_t *chart = json_object(), *list = json_array();
    for (int i = 0; i < count; i++)
        if (curves[i].count > 0) json_add(list, report_data_curve(&curves[i]));
    const bool any = json_array_size(list) > 0;
    json_put(chart, "title", json_words(title));
    json_put(chart, "legend", json_boolean(legend));
    json_put(chart, "curves", list);
    if (any) {
        text_printf(out, "<figure data-chart=\"%zu\"><svg></svg></figure>\n", json_array_size(charts));
        json_add(charts, chart);
    } else {
        json_decref(chart);
    }
    for (int i = 0; i < count; i++) mem_free(curves[i].x);
}

/* Writes a chart with one curve per run. `of` selects the value; NULL means the validation loss. */
static bool report_data_chart(const run_set *s, const char *title, pick of, text *out, json_t *charts) {
    curve curves[RUN_SET_MOST] = {0};
    bool ok = true;
    for (int i = 0; i < s->count; i++) {
        curves[i] = (curve){.run = &s->runs[i],
                            .name = s->count > 1 ? s->runs[i].name : title,
                            .colour = i % REPORT_DATA_COLOURS,
                            .exact = of == report_data_rate};
        ok = (of ? report_data_take_points(&curves[i], of) : report_data_take_values(&curves[i])) && ok;
    }
    report_data_put(title, s->count > 1, curves, s->count, out, charts);
    return ok;
}

static bool report_data_one(const run_set *s, const char *title, text *out, json_t *charts) {
    curve curves[2] = {{.run = s->runs, .name = "training"}, {.run = s->runs, .name = "validation", .colour = 1}};
    bool ok = report_data_take_points(&curves[0], report_data_loss);
    ok = report_data_take_values(&curves[1]) && ok;
    report_data_put(title, true, curves, 2, out, charts);
    return ok;
}

/* Writes JSON into a script element. Escapes "<", which could end the element. */
static void report_data_put_json(const char *json, text *out) {
    text_append(out, "<script id=\"data\" type=\"application/json\">");
    for (const char *s = json; *s; s++)
        if (*s == '<')
            text_append(out, "\\u003c");
        else
            text_append_n(out, s, 1);
    text_append(out, "</script>\n");
}

propane_status report_data_print(const run_set *s, text *out, propane_error *err) {
    const bool samples = strcmp(run_history_text(&s->runs[0].history, "unit", ""), "samples") == 0;
    const bool plain = samples || run_history_number(&s->runs[0].history, "pairs", 0) > 0; /* no nats per token */
    json_t *root = json_object(), *charts = json_array();
    char *printed = NULL;
    bool ok = true;
    if (s->count == 1) {
        ok = report_data_one(s, plain ? "Loss" : "Loss, nats per token", out, charts);
    } else {
        ok = report_data_chart(s, plain ? "Validation loss" : "Validation loss, nats per token", NULL, out, charts);
        ok = report_data_chart(s, plain ? "Training loss" : "Training loss, nats per token", report_data_loss, out,
                               charts) &&
             ok;
    }
    ok = report_data_chart(s, "Gradient norm", report_data_norm, out, charts) && ok;
    ok = report_data_chart(s, "Learning rate", report_data_rate, out, charts) && ok;
    ok = report_data_chart(s, samples ? "Samples per second" : "Tokens per second", report_data_speed, out, charts) &&
         ok;
    json_put(root, "unit", json_words(samples ? "samples" : "tokens"));
    json_put(root, "charts", charts);
    propane_status status = json_print(root, JSON_COMPACT | JSON_REAL_PRECISION(6), &printed, NULL, err);
    if (status == PROPANE_OK) report_data_put_json(printed, out);
    mem_free(printed);
    json_decref(root);
    if (status == PROPANE_OK && (!ok || out->failed)) return propane_fail_memory(err, out->length);
    return status;
}
