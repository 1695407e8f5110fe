/* SPDX-License-Identifier: MIT
 * propane watch RUN...: shows the logs of training runs on a screen that is updated. If the output is not a terminal,
 * the screen is printed once, without colours.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "core/base/text.h"
#include "report/run/braille.h"
#include "report/run/curve_plot.h"

typedef struct watch {
    run_set set;
    bool validation; /* plots the validation losses of several runs, instead of their training losses */
    bool live;       /* the output is a terminal, on which the screen is redrawn repeatedly */
    bool colour;
    int width, height;
    text screen;
} watch;

/* ---- the screen ------------------------------------------------------------------------------------------------------------ */

static void cmd_watch_get_size(watch *w) {
    struct winsize size = {0};
    w->width = cli_width();
    w->height = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) w->height = size.ws_row;
    if (w->width < 20) w->width = 20;
    if (w->width > 400) w->width = 400;
    if (w->height < 8) w->height = 8;
}

/* Prints a line, cut at the screen's width. Only folder names may contain characters that are not ASCII. */
static void cmd_watch_put(watch *w, const char *format, ...) BASE_PRINTF(2, 3);
static void cmd_watch_put(watch *w, const char *format, ...) {
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = 0;
    for (int columns = 0; line[n]; n++) /* continuation bytes occupy no column */
        if (((unsigned char)line[n] & 0xC0) != 0x80 && ++columns > w->width) break;
    text_append_n(&w->screen, line, n);
    text_append(&w->screen, w->live ? "\033[K\n" : "\n");
}

static void cmd_watch_put_bar(watch *w, double part) {
    char bar[420];
    int columns = w->width - 10 < 60 ? w->width - 10 : 60, full = (int)(part * columns + 0.5), n = 0;
    for (int i = 0; i < columns; i++) bar[n++] = i < full ? '#' : '-';
    bar[n] = 0;
    cmd_watch_put(w, "[%s] %5.1f %%", bar, 100 * part);
}

/* Prints the state of workers that train separately and average their weights at intervals. */
static void cmd_watch_put_agreement(watch *w) {
    run_agreement a;
    char all[32], last[32], since[80];
    if (!run_history_agreement(&w->set.runs[0].history, &a)) return;
    if (a.warms)
        snprintf(since, sizeof since, "warm-up to step %.0f", a.warmup);
    else
        snprintf(since, sizeof since, "agreed %.0f steps ago", isfinite(a.staleness) ? a.staleness : 0);
    cmd_watch_put(w, "%.0f workers   each rank sent %s, last %s   %s", a.workers, text_bytes(all, a.bytes),
                  isfinite(a.last) ? text_bytes(last, a.last) : "nothing", since);
}

static void cmd_watch_put_model(watch *w, const run_history *h) {
    if (json_object_get(h->start, "samples")) /* fine-tuning of an imported program */
        cmd_watch_put(w, "%s: %.0f numbers are trained, %.0f samples, loss %s; %s", run_history_text(h, "model", "?"),
                      run_history_number(h, "trained", 0), run_history_number(h, "samples", 0),
                      run_history_text(h, "loss", "?"), run_history_text(h, "device", "?"));
    else
        cmd_watch_put(w, "%.0f parameters, %.0f layer%s, width %.0f, context %.0f; %s, %s, plan %s",
                      run_history_number(h, "parameters", 0), run_history_number(h, "layers", 0),
                      run_history_number(h, "layers", 0) == 1 ? "" : "s", run_history_number(h, "width", 0),
                      run_history_number(h, "context", 0), run_history_text(h, "device", "?"),
                      run_history_text(h, "precision", "?"), run_history_text(h, "plan", "?"));
}

static void cmd_watch_put_head(watch *w) {
    const run_seen *run = &w->set.runs[0];
    const run_history *h = &run->history;
    const run_summary *s = &run->summary;
    const run_point *last = h->count ? &h->points[h->count - 1] : NULL;
    char left[32], taken[32], watts[40] = "", joules[200];
    cmd_watch_put(w, "%s: %s", run->dir, run->state);
    cmd_watch_put_model(w, h);
    if (!last) {
        cmd_watch_put(w, "no step has finished yet");
        return;
    }
    if (s->planned > 0) cmd_watch_put_bar(w, fmin(1, s->steps / s->planned));
    cmd_watch_put(w, "step %" PRId64 "/%.0f   loss %.4f   lr %.3g   gradient %.3g", last->step, s->planned, s->last,
                  last->lr, last->norm);
    if (isfinite(last->watts)) snprintf(watts, sizeof watts, "   %.2f W simulated", last->watts);
    cmd_watch_put(w, "%.0f %s/s   %s%s%s   memory %.0f MB%s", s->speed, run_history_text(h, "unit", "tokens"),
                  text_duration(taken, last->seconds), isfinite(s->left) ? ", left " : "",
                  isfinite(s->left) ? text_duration(left, s->left) : "", last->memory / 1e6, watts);
    cmd_watch_put_agreement(w);
    if (run_history_joules(h, last, joules)) cmd_watch_put(w, "the machine in this step: %s", joules);
    if (h->value_count)
        cmd_watch_put(w, "validation %.4f at step %" PRId64 "   best %.4f", s->val_last,
                      h->values[h->value_count - 1].step, s->val_best);
}

/* Prints two lines per run, which fit on a narrow screen. */
static void cmd_watch_put_runs(watch *w) {
    for (int i = 0; i < w->set.count; i++) {
        const run_seen *r = &w->set.runs[i];
        const run_summary *s = &r->summary;
        const int64_t values = r->history.value_count;
        char left[32], value[80] = "";
        if (w->colour) text_append(&w->screen, braille_colour(i % BRAILLE_INKS + 1));
        cmd_watch_put(w, "%c  %s: %s", curve_plot_letter(i), r->name, r->state);
        if (w->colour) text_append(&w->screen, braille_colour(0));
        if (!r->history.count) {
            cmd_watch_put(w, "   no step has finished yet");
            continue;
        }
        if (values) snprintf(value, sizeof value, "   validation %.4f, best %.4f", s->val_last, s->val_best);
        cmd_watch_put(w, "   step %.0f/%.0f   loss %.4f%s   %.0f/s%s%s", s->steps, s->planned, s->last, value, s->speed,
                      isfinite(s->left) ? "   left " : "", isfinite(s->left) ? text_duration(left, s->left) : "");
    }
    cmd_watch_put(w, "%s loss:", w->validation ? "validation" : "training");
}

static propane_status cmd_watch_draw_screen(watch *w, propane_error *err) {
    cmd_watch_get_size(w);
    text_clear(&w->screen);
    if (w->set.count == 1)
        cmd_watch_put_head(w);
    else
        cmd_watch_put_runs(w);
    int used = 0;
    for (size_t i = 0; i < w->screen.length; i++) used += w->screen.data[i] == '\n';
    const curve_plot plot = {w->width, w->height - used - 2, w->colour, w->validation, w->live ? "\033[K\n" : "\n"};
    PROPANE_TRY(curve_plot_print(&w->set, &plot, &w->screen, err));
    return w->screen.failed ? propane_fail_memory(err, w->screen.length) : PROPANE_OK;
}

/* ---- following --------------------------------------------------------------------------------------------------------------- */

static propane_status cmd_watch_follow(watch *w, double interval, propane_error *err) {
    if (w->live) printf("\033[?25l\033[2J");
    propane_status status = PROPANE_OK;
    while (status == PROPANE_OK) {
        status = run_set_read(&w->set, err);
        if (status == PROPANE_OK) status = cmd_watch_draw_screen(w, err);
        if (status != PROPANE_OK) break;
        if (w->live) printf("\033[H");
        fwrite(w->screen.data, 1, w->screen.length, stdout);
        if (w->live) printf("\033[J");
        if (!cli_flush() || !w->live || cli_interrupted || !run_set_goes_on(&w->set)) break;
        struct timespec rest = {(time_t)interval, (long)((interval - floor(interval)) * 1e9)};
        (void)nanosleep(&rest, NULL); /* Ctrl-C wakes it */
        if (cli_interrupted) break;
    }
    if (w->live) printf("\033[?25h");
    return status;
}

int cmd_watch(int argc, char **argv) {
    watch w = {0};
    cli_list runs = {0};
    bool once = false;
    double interval = 1;
    const cli_flag flags[] = {
        {"RUN...", CLI_TEXT, &runs, .help = "run folders", .required = true},
        {"--once", CLI_SWITCH, &once, .help = "print one screen and exit (the default without a terminal)"},
        {"--validation", CLI_SWITCH, &w.validation,
         .help = "with several runs, draw validation curves instead of training curves"},
        {"--interval", CLI_REAL, &interval, 0.05, 3600, "S", "seconds between screens"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "watch RUN... [flags]",
                         "Shows a training run, finished or not: training and validation loss, speed, time left, "
                         "memory, and watts on a simulated engine. With several runs, draws their curves in one plot, "
                         "with one letter per run. Ctrl-C ends the view, not the run.");
    if (code >= 0) return code;
    if (once && (code = cli_refuse("watch", "--interval", "one screen (--once)")) >= 0) return code;
    if (runs.count == 1 && (code = cli_refuse("watch", "--validation", "one run, whose plot has both curves")) >= 0)
        return code;
    propane_error err = {0};
    w.live = !once && cli_is_terminal(STDOUT_FILENO);
    w.colour = w.live && cli_has_colour(STDOUT_FILENO);
    cli_catch_signals();
    propane_status status = run_set_open(&w.set, (const char *const *)runs.items, runs.count, &err);
    if (status == PROPANE_OK) status = cmd_watch_follow(&w, interval, &err);
    run_set_close(&w.set);
    text_deinit(&w.screen);
    return status == PROPANE_OK ? CLI_OK : cli_error("watch", &err);
}
