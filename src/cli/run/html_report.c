/* SPDX-License-Identifier: MIT
 * Owns the page. Everything in it comes from the run's log and the samples; text of others is escaped.
 */
#include "cli/run/html_report.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "cli/run/svg.h"

static const char style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1b1f24;--soft:#5b6672;--paper:#ffffff;--card:#f5f6f8;--line:#d9dee4;--one:#0a62c4;"
    "--two:#c4570a}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa5b1;--paper:#14171b;--card:#1e2227;--line:#"
    "343a42;"
    "--one:#62a8ff;--two:#ffa657}}"
    "body{margin:0 auto;max-width:860px;padding:24px 20px 60px;background:var(--paper);color:var(--ink);font:15px/1.5 "
    "system-ui,sans-serif}h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:32px 0 "
    "8px}p.lead{color:var(--soft);"
    "margin:0 0 16px}.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px}"
    ".facts div{background:var(--card);border-radius:8px;padding:10px 12px}.facts b{display:block;font-size:19px}"
    ".facts span{color:var(--soft);font-size:13px}svg{width:100%;height:auto;background:var(--card);border-radius:8px;"
    "margin:6px 0;font:12px system-ui,sans-serif}svg .title{fill:var(--ink);font-weight:600;font-size:13px}"
    "svg .axis{fill:var(--soft)}svg .grid{stroke:var(--line)}svg "
    "polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    "polyline.curve{stroke:var(--one)}polyline.second{stroke:var(--two)}circle.curve{fill:var(--one)}"
    "circle.second{fill:var(--two)}table{border-collapse:collapse;width:100%}td{border-bottom:1px solid var(--line);"
    "padding:4px 8px 4px 0;vertical-align:top;overflow-wrap:anywhere}td:first-child{color:var(--soft);width:34%}"
    "pre{background:var(--card);border-radius:8px;padding:12px;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/"
    "1.5 "
    "ui-monospace,monospace}pre i{color:var(--soft);font-style:normal}";

static void html_report_escape(text *out, const char *s) {
    for (; *s; s++) switch (*s) {
        case '&': text_append(out, "&amp;"); break;
        case '<': text_append(out, "&lt;"); break;
        case '>': text_append(out, "&gt;"); break;
        case '"': text_append(out, "&quot;"); break;
        default:
            if ((unsigned char)*s >= 32 || *s == '\n' || *s == '\t') text_append_n(out, s, 1);
        }
}

static void html_report_fact(text *out, const char *name, const char *format, double value) {
    if (!isfinite(value)) return;
    text_append(out, "<div><b>");
    text_printf(out, format, value);
    text_printf(out, "</b><span>%s</span></div>", name);
}

typedef struct summary {
    double first, last, best, speed, memory, watts, seconds;
} summary;

static summary html_report_summarise(const run_history *h) {
    summary s = {NAN, NAN, NAN, 0, NAN, NAN, 0};
    int64_t n = 0, watts = 0;
    for (int64_t i = 0; i < h->count; i++) {
        const run_point *p = &h->points[i];
        if (isfinite(p->loss) && isnan(s.first)) s.first = p->loss;
        if (isfinite(p->tokens_per_s)) s.speed += p->tokens_per_s, n++;
        if (isfinite(p->memory)) s.memory = fmax(isnan(s.memory) ? 0 : s.memory, p->memory);
        if (isfinite(p->watts)) s.watts = (isnan(s.watts) ? 0 : s.watts) + p->watts, watts++;
        if (isfinite(p->seconds)) s.seconds = p->seconds;
    }
    for (int64_t i = 0; i < h->value_count; i++)
        s.best = isnan(s.best) ? h->values[i].loss : fmin(s.best, h->values[i].loss);
    s.last = run_history_smooth(h);
    s.speed = n ? s.speed / (double)n : NAN;
    if (watts) s.watts /= (double)watts;
    return s;
}

/* Runs of language models count tokens, others samples. */
static bool html_report_of_samples(const run_history *h) {
    return strcmp(run_history_text(h, "unit", ""), "samples") == 0;
}

static void html_report_put_agreement(text *out, const run_history *h) {
    run_agreement a;
    if (!run_history_agreement(h, &a)) return;
    html_report_fact(out, "workers", "%.0f", a.workers);
    if (a.lost > 0) html_report_fact(out, "workers that were lost", "%.0f", a.lost);
    html_report_fact(out, "MB sent by a rank between workers", "%.3g", a.bytes / 1e6);
    html_report_fact(out, "steps between agreements on a part, at most", "%.0f", a.stalest);
}

static void html_report_put_facts(text *out, const run_history *h) {
    summary s = html_report_summarise(h);
    text_append(out, "<div class=\"facts\">");
    html_report_fact(out, "training loss at the end (smoothed)", "%.4f", s.last);
    html_report_fact(out, "training loss at first", "%.4f", s.first);
    html_report_fact(out, "best validation loss", "%.4f", s.best);
    html_report_fact(out, "steps done", "%.0f", h->count ? (double)h->points[h->count - 1].step : NAN);
    html_report_fact(out, html_report_of_samples(h) ? "samples a second" : "tokens a second", "%.0f", s.speed);
    html_report_fact(out, "seconds of training", "%.1f", s.seconds > 0 ? s.seconds : NAN);
    html_report_fact(out, "MB of memory at most", "%.0f", s.memory / 1e6);
    html_report_fact(out, "watts of the engine, simulated", "%.2f", s.watts);
    html_report_put_agreement(out, h);
    char joules[200];
    if (run_history_joules(h, NULL, joules))
        text_printf(out, "<div><b>%s</b><span>of the machine for a step, on average</span></div>", joules);
    text_append(out, "</div>\n");
}

typedef double (*pick)(const run_point *p);
static double html_report_pick_loss(const run_point *p) { return p->loss; }
static double html_report_pick_rate(const run_point *p) { return p->lr; }
static double html_report_pick_norm(const run_point *p) { return p->norm; }
static double html_report_pick_speed(const run_point *p) { return p->tokens_per_s; }

static propane_status html_report_put_chart(text *out, const run_history *h, const char *title, pick of, bool values,
                                            propane_error *err) {
    size_t n = (size_t)h->count + 1, v = (size_t)h->value_count + 1;
    double *x = mem_array(n, sizeof *x), *y = mem_array(n, sizeof *y), *vx = mem_array(v, sizeof *vx),
           *vy = mem_array(v, sizeof *vy);
    bool ok = x && y && vx && vy;
    for (int64_t i = 0; ok && i < h->count; i++) x[i] = (double)h->points[i].step, y[i] = of(&h->points[i]);
    for (int64_t i = 0; ok && i < h->value_count; i++) vx[i] = (double)h->values[i].step, vy[i] = h->values[i].loss;
    const svg_curve curves[] = {{"training", x, y, (int)h->count, false},
                                {"validation", vx, vy, (int)h->value_count, true}};
    if (ok) svg_chart(out, title, "step", curves, values && h->value_count ? 2 : 1);
    mem_free(x), mem_free(y), mem_free(vx), mem_free(vy);
    return ok ? PROPANE_OK : propane_fail_memory(err, n * 32);
}

/* Every scalar of the start record but those that have a place of their own. */
static void html_report_put_table(text *out, const json_t *start, bool machine) {
    const char *key;
    json_t *value;
    text_append(out, "<table>");
    json_object_foreach((json_t *)(uintptr_t)start, key, value) {
        bool of_machine = strncmp(key, "machine_", 8) == 0;
        if (strcmp(key, "event") == 0 || strcmp(key, "command") == 0 || of_machine != machine) continue;
        text_append(out, "<tr><td>");
        html_report_escape(out, of_machine ? key + 8 : key);
        text_append(out, "</td><td>");
        if (json_is_string(value)) html_report_escape(out, json_string_value(value));
        if (json_is_integer(value)) text_printf(out, "%lld", (long long)json_integer_value(value));
        if (json_is_real(value)) text_printf(out, "%.6g", json_real_value(value));
        if (json_is_boolean(value)) text_append(out, json_is_true(value) ? "yes" : "no");
        text_append(out, "</td></tr>\n");
    }
    text_append(out, "</table>\n");
}

static void html_report_put_samples(text *out, const report_sample *samples, int count) {
    if (count) text_append(out, "<h2>Samples</h2>\n");
    for (int i = 0; i < count; i++) {
        text_append(out, "<pre><i>");
        html_report_escape(out, samples[i].prompt);
        text_append(out, "</i>");
        html_report_escape(out, samples[i].text);
        text_append(out, "</pre>\n");
    }
    if (count) text_append(out, "<p class=\"lead\">Grey: the prompt, from the data that was held out.</p>\n");
}

propane_status report_print(const run_history *h, const char *title, const report_sample *samples, int sample_count,
                            text *out, propane_error *err) {
    text_append(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                     "content=\"width=device-width,initial-scale=1\"><title>");
    html_report_escape(out, title);
    text_printf(out, "</title><style>%s</style></head><body>\n<h1>", style);
    html_report_escape(out, title);
    text_append(out, "</h1>\n<p class=\"lead\">A training run of propane ");
    html_report_escape(out, run_history_text(h, "version", ""));
    text_append(out, ", ");
    html_report_escape(out, run_history_text(h, "time", "at an unknown time"));
    text_append(out, "; it is ");
    html_report_escape(out, *h->state ? h->state : "unknown");
    text_append(out, ".</p>\n");
    html_report_put_facts(out, h);
    text_append(out, "<h2>Curves</h2>\n");
    PROPANE_TRY(html_report_put_chart(out, h, html_report_of_samples(h) ? "Loss" : "Loss, nats per token",
                                      html_report_pick_loss, true, err));
    PROPANE_TRY(html_report_put_chart(out, h, "gradient norm", html_report_pick_norm, false, err));
    PROPANE_TRY(html_report_put_chart(out, h, "Learning rate", html_report_pick_rate, false, err));
    PROPANE_TRY(html_report_put_chart(out, h, html_report_of_samples(h) ? "Samples a second" : "Tokens a second",
                                      html_report_pick_speed, false, err));
    html_report_put_samples(out, samples, sample_count);
    if (h->start) {
        text_append(out, "<h2>Configuration</h2>\n");
        html_report_put_table(out, h->start, false);
        text_append(out, "<h2>Machine</h2>\n");
        html_report_put_table(out, h->start, true);
        text_append(out, "<h2>Again</h2>\n<pre>");
        html_report_escape(out, run_history_text(h, "command", ""));
        text_append(out,
                    "</pre>\n<p class=\"lead\">The same data and options give the same numbers, whatever the number of "
                    "threads.</p>\n");
    }
    text_append(out, "</body></html>\n");
    return out->failed ? propane_fail_memory(err, out->length) : PROPANE_OK;
}
