/* SPDX-License-Identifier: MIT
 * Owns the page about runs. Its content comes from the runs' logs, and all text from files is escaped. The build
 * converts the page's style and script in src/report/run/page to bytes. A policy forbids the browser to load anything
 * else.
 */
#include "report/run/html_report.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "report/run/curve_plot.h"
#include "report/run/report_data.h"
#include "report/run/run_table.h"

static const char html_report_style[] = {
#include "report/run/report.css.inc"
    0};

static const char html_report_script[] = {
#include "report/run/report.js.inc"
    0};

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

static void html_report_put_agreement(text *out, const run_history *h) {
    run_agreement a;
    if (!run_history_agreement(h, &a)) return;
    html_report_fact(out, "workers", "%.0f", a.workers);
    if (a.warmup > 0) html_report_fact(out, "steps of warm-up, data-parallel", "%.0f", a.warmup);
    html_report_fact(out, "MB sent per rank between workers", "%.3g", a.bytes / 1e6);
    html_report_fact(out, "most steps between synchronizations", "%.0f", a.stalest);
}

static void html_report_put_facts(text *out, const run_seen *r) {
    const run_history *h = &r->history;
    const run_summary *s = &r->summary;
    const bool samples = strcmp(run_history_text(h, "unit", ""), "samples") == 0;
    text_append(out, "<div class=\"facts\">");
    html_report_fact(out, "best validation loss", "%.4f", s->val_best);
    if (!samples) html_report_fact(out, "perplexity there", "%.2f", exp(s->val_best));
    html_report_fact(out, "nats per byte at that step", "%.4f", s->per_byte);
    html_report_fact(out, "training loss, mean of the last twentieth", "%.4f", s->last);
    html_report_fact(out, "training loss at the first step", "%.4f", s->first);
    html_report_fact(out, "steps done", "%.0f", s->steps);
    html_report_fact(out, samples ? "samples per second" : "tokens per second", "%.0f", s->speed);
    char time[32];
    if (s->seconds > 0)
        text_printf(out, "<div><b>%s</b><span>of training</span></div>", text_duration(time, s->seconds));
    html_report_fact(out, "MB of memory at peak", "%.0f", s->memory / 1e6);
    html_report_fact(out, "watts used by the engine, simulated", "%.2f", s->watts);
    html_report_put_agreement(out, h);
    char joules[200];
    if (run_history_joules(h, NULL, joules))
        text_printf(out, "<div><b>%s</b><span>used by the machine per step, on average</span></div>", joules);
    text_append(out, "</div>\n");
}

/* Writes a table of the start record's values about the machine, or of its other values. Leaves out those that the page
 * shows elsewhere. */
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

static void html_report_put_samples(text *out, const json_t *samples) {
    size_t i;
    const json_t *sample;
    if (json_array_size(samples)) text_append(out, "<h2>Samples</h2>\n");
    json_array_foreach(samples, i, sample) {
        const char *prompt = json_string_value(json_object_get(sample, "prompt")),
                   *written = json_string_value(json_object_get(sample, "text"));
        text_append(out, "<pre><i>");
        html_report_escape(out, prompt ? prompt : "");
        text_append(out, "</i>");
        html_report_escape(out, written ? written : "");
        text_append(out, "</pre>\n");
    }
    if (json_array_size(samples))
        text_append(out, "<p class=\"lead\">Grey: the prompt, from the data that was held out.</p>\n");
}

static propane_status html_report_put_runs(text *out, const run_set *s, propane_error *err) {
    run_table t;
    propane_status status = run_table_make(s, &t, err);
    text_append(out, "<div class=\"wide\"><table class=\"runs\"><tr><td></td>");
    for (int i = 0; i < s->count; i++) {
        text_printf(out, "<th><i class=\"k%d\"></i>", i % REPORT_DATA_COLOURS);
        html_report_escape(out, s->runs[i].name);
        text_append(out, "</th>");
    }
    for (int r = 0; status == PROPANE_OK && r < t.count; r++) {
        if (t.rows[r].setting && !t.rows[r - 1].setting)
            text_append(out, "</tr>\n<tr class=\"head\"><td>settings that differ:</td>");
        text_append(out, "</tr>\n<tr><td>");
        html_report_escape(out, t.rows[r].name);
        text_append(out, "</td>");
        for (int i = 0; i < s->count; i++) {
            text_append(out, t.rows[r].best == i ? "<td><b>" : "<td>");
            html_report_escape(out, t.rows[r].cells[i]);
            text_append(out, t.rows[r].best == i ? "</b></td>" : "</td>");
        }
    }
    text_append(out, "</tr></table></div>\n");
    run_table_free(&t);
    return status;
}

static void html_report_put_lead(text *out, const run_seen *r) {
    const run_history *h = &r->history;
    text_append(out, "<p class=\"lead\">A training run of propane ");
    html_report_escape(out, run_history_text(h, "version", ""));
    text_append(out, ", ");
    html_report_escape(out, run_history_text(h, "time", "at an unknown time"));
    text_printf(out, ". State: %s", r->state);
    if (strcmp(r->state, "done") != 0 && isfinite(r->summary.planned))
        text_printf(out, ", %.0f of %.0f steps", fmax(r->summary.steps, 0), r->summary.planned);
    text_append(out, ".</p>\n");
}

static void html_report_put_rest(text *out, const run_seen *r) {
    const run_history *h = &r->history;
    html_report_put_samples(out, h->samples);
    if (!h->start) return;
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

static void html_report_put_commands(text *out, const run_set *s) {
    text_append(out, "<h2>Commands</h2>\n");
    for (int i = 0; i < s->count; i++) {
        text_append(out, "<pre><i>");
        html_report_escape(out, s->runs[i].name);
        text_append(out, "</i>\n");
        html_report_escape(out, run_history_text(&s->runs[i].history, "command", ""));
        text_append(out, "</pre>\n");
    }
}

/* Writes the losses as a terminal shows them, for a viewer without scripts. Otherwise the page's script draws the
 * curves. */
static propane_status html_report_put_characters(text *out, const run_set *s, propane_error *err) {
    const curve_plot plot = {.width = 90, .rows = 12, .validation = true, .end = "\n"};
    text_append(out, "<noscript><p class=\"lead\">The losses over the steps; with scripts there is more.</p>\n<pre>");
    for (int i = 0; s->count > 1 && i < s->count; i++) {
        text_printf(out, "%c  ", curve_plot_letter(i));
        html_report_escape(out, s->runs[i].name);
        text_append(out, "\n");
    }
    PROPANE_TRY(curve_plot_print(s, &plot, out, err));
    text_append(out, "</pre></noscript>\n");
    return PROPANE_OK;
}

static void html_report_put_title(text *out, const run_set *s) {
    for (int i = 0; i < s->count && i < 4; i++) {
        if (i) text_append(out, ", ");
        html_report_escape(out, s->runs[i].name);
    }
    if (s->count > 4) text_printf(out, " and %d more", s->count - 4);
}

propane_status report_print(const run_set *s, text *out, propane_error *err) {
    text_append(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                     "content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" "
                     "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"><title>");
    html_report_put_title(out, s);
    text_append(out, "</title><style>\n");
    text_append(out, html_report_style);
    text_append(out, "</style></head><body>\n<h1>");
    html_report_put_title(out, s);
    text_append(out, "</h1>\n");
    if (s->count == 1) {
        html_report_put_lead(out, s->runs);
        html_report_put_facts(out, s->runs);
    } else {
        text_append(out,
                    "<p class=\"lead\">Bold: the best figure. Losses of different vocabularies cannot be compared; "
                    "nats per byte can.</p>\n");
        PROPANE_TRY(html_report_put_runs(out, s, err));
    }
    text_append(out, "<h2>Curves</h2>\n<div class=\"controls\"></div><div class=\"legend\">");
    if (s->count == 1) text_append(out, "<i class=\"k0\"></i>training <i class=\"k1\"></i>validation");
    text_append(out, "</div>\n");
    PROPANE_TRY(html_report_put_characters(out, s, err));
    PROPANE_TRY(report_data_print(s, out, err));
    if (s->count == 1)
        html_report_put_rest(out, s->runs);
    else
        html_report_put_commands(out, s);
    text_append(out, "<script>\n");
    text_append(out, html_report_script);
    text_append(out, "</script></body></html>\n");
    return out->failed ? propane_fail_memory(err, out->length) : PROPANE_OK;
}
