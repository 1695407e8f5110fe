/* SPDX-License-Identifier: MIT
 * propane watch RUN: the run's log as a screen that follows it. Off a terminal the screen is printed once, without colours.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/run/braille.h"
#include "cli/run/run_log.h"

typedef struct watch {
    const char *dir;
    text path; /* of the log */
    run_history history;
    bool live; /* a terminal that is drawn upon again and again */
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

/* Does a process train in the folder? It holds a lock on it. */
static bool cmd_watch_is_locked(const char *dir) {
    int fd = open(dir, O_RDONLY | O_CLOEXEC);
    bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return held;
}

static const char *cmd_watch_state_of(const watch *w) {
    const char *state = w->history.state;
    if (strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "stopped") == 0) return state;
    return cmd_watch_is_locked(w->dir) ? "running" : "interrupted";
}

/* A line, cut at the width (its bytes are ASCII but for folder names). */
static void cmd_watch_put(watch *w, const char *format, ...) BASE_PRINTF(2, 3);
static void cmd_watch_put(watch *w, const char *format, ...) {
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t n = 0;
    for (int columns = 0; line[n]; n++) /* continuation bytes take no column */
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

/* Mean of the newest speeds, so that one slow step does not frighten. */
static double cmd_watch_recent_speed(const run_history *h) {
    double sum = 0;
    int n = 0;
    for (int64_t i = h->count - 1; i >= 0 && n < 20; i--)
        if (isfinite(h->points[i].tokens_per_s)) sum += h->points[i].tokens_per_s, n++;
    return n ? sum / n : NAN;
}

/* Workers that train by themselves and agree from time to time. */
static void cmd_watch_put_agreement(watch *w) {
    run_agreement a;
    char all[32], last[32], lost[40] = "";
    if (!run_history_agreement(&w->history, &a)) return;
    if (a.lost > 0) snprintf(lost, sizeof lost, " (%.0f lost)", a.lost);
    cmd_watch_put(w, "%.0f workers%s   each rank sent %s, last %s   agreed %.0f steps ago", a.workers, lost,
                  text_bytes(all, a.bytes), isfinite(a.last) ? text_bytes(last, a.last) : "nothing",
                  isfinite(a.staleness) ? a.staleness : 0);
}

static void cmd_watch_put_head(watch *w) {
    const run_history *h = &w->history;
    const run_point *last = h->count ? &h->points[h->count - 1] : NULL;
    double steps = run_history_number(h, "steps", NAN), speed = cmd_watch_recent_speed(h),
           tokens = run_history_number(h, "tokens_per_step", NAN);
    const char *state = cmd_watch_state_of(w);
    char left[32], taken[32];
    cmd_watch_put(w, "%s: %s", w->dir, state);
    if (json_object_get(h->start, "samples")) /* fine-tuning of an imported program */
        cmd_watch_put(w, "%s: %.0f numbers are learnt, %.0f samples, loss %s; %s", run_history_text(h, "model", "?"),
                      run_history_number(h, "learnt", 0), run_history_number(h, "samples", 0),
                      run_history_text(h, "loss", "?"), run_history_text(h, "device", "?"));
    else
        cmd_watch_put(w, "%.0f parameters, %.0f layers, width %.0f, context %.0f; %s, %s, plan %s",
                      run_history_number(h, "parameters", 0), run_history_number(h, "layers", 0),
                      run_history_number(h, "width", 0), run_history_number(h, "context", 0),
                      run_history_text(h, "device", "?"), run_history_text(h, "precision", "?"),
                      run_history_text(h, "plan", "?"));
    if (!last) {
        cmd_watch_put(w, "no step is done yet");
        return;
    }
    if (steps > 0) cmd_watch_put_bar(w, fmin(1, (double)last->step / steps));
    cmd_watch_put(w, "step %" PRId64 "/%.0f   loss %.4f   lr %.3g   gradient %.3g", last->step, steps,
                  run_history_smooth(h), last->lr, last->norm);
    double eta = strcmp(state, "running") == 0 && speed > 0 ? (steps - (double)last->step) * tokens / speed : NAN;
    char watts[40] = "";
    if (isfinite(last->watts)) snprintf(watts, sizeof watts, "   %.2f W simulated", last->watts);
    cmd_watch_put(w, "%.0f %s/s   %s%s%s   memory %.0f MB%s", speed, run_history_text(h, "unit", "tokens"),
                  text_duration(taken, last->seconds), isfinite(eta) ? ", left " : "",
                  isfinite(eta) ? text_duration(left, eta) : "", last->memory / 1e6, watts);
    cmd_watch_put_agreement(w);
    char joules[200];
    if (run_history_joules(h, last, joules)) cmd_watch_put(w, "the machine in this step: %s", joules);
    if (h->value_count) {
        const run_value *v = &h->values[h->value_count - 1];
        double best = v->loss;
        for (int64_t i = 0; i < h->value_count; i++) best = fmin(best, h->values[i].loss);
        cmd_watch_put(w, "validation %.4f at step %" PRId64 "   best %.4f", v->loss, v->step, best);
    }
}

typedef struct view {
    double x0, x1, y0, y1;
    int columns, rows;
} view;

/* The first steps of a run are far above the rest: they may lie outside. */
static bool cmd_watch_find_view(const run_history *h, view *v) {
    v->y0 = INFINITY, v->y1 = -INFINITY;
    for (int64_t i = h->count / 50; i < h->count; i++)
        if (isfinite(h->points[i].loss)) v->y0 = fmin(v->y0, h->points[i].loss), v->y1 = fmax(v->y1, h->points[i].loss);
    for (int64_t i = 0; i < h->value_count; i++)
        v->y0 = fmin(v->y0, h->values[i].loss), v->y1 = fmax(v->y1, h->values[i].loss);
    if (!isfinite(v->y0)) return false;
    if (v->y1 <= v->y0) v->y1 = v->y0 + 1e-6, v->y0 -= 1e-6;
    v->x0 = (double)h->points[0].step;
    v->x1 = fmax((double)h->points[h->count - 1].step, v->x0 + 1);
    return true;
}

static int cmd_watch_dot_x(const view *v, double x) {
    return (int)((x - v->x0) / (v->x1 - v->x0) * (2 * v->columns - 1) + 0.5);
}
static int cmd_watch_dot_y(const view *v, double y) {
    double at = (y - v->y0) / (v->y1 - v->y0);
    return (int)(fmin(fmax(at, 0), 1) * (4 * v->rows - 1) + 0.5);
}

/* Means of the steps that share a column of dots, joined by lines; then the validations. */
static void cmd_watch_draw(const run_history *h, const view *v, braille *b) {
    int at = -1, last_x = -1, last_y = 0, n = 0;
    double sum = 0;
    for (int64_t i = 0; i <= h->count; i++) {
        int x = i < h->count ? cmd_watch_dot_x(v, (double)h->points[i].step) : -2;
        if (x != at && n > 0) {
            int y = cmd_watch_dot_y(v, sum / n);
            braille_line(b, last_x < 0 ? at : last_x, last_x < 0 ? y : last_y, at, y, false);
            last_x = at, last_y = y, n = 0, sum = 0;
        }
        at = x;
        if (i < h->count && isfinite(h->points[i].loss)) sum += h->points[i].loss, n++;
    }
    for (int64_t i = 0; i < h->value_count; i++) {
        int x = cmd_watch_dot_x(v, (double)h->values[i].step), y = cmd_watch_dot_y(v, h->values[i].loss);
        if (i > 0)
            braille_line(b, cmd_watch_dot_x(v, (double)h->values[i - 1].step),
                         cmd_watch_dot_y(v, h->values[i - 1].loss), x, y, true);
        braille_dot(b, x, y, true);
    }
}

static propane_status cmd_watch_put_plot(watch *w, int rows, propane_error *err) {
    enum { LABEL = 9 };
    view v = {.columns = w->width - LABEL, .rows = rows};
    braille b;
    if (w->history.count == 0 || rows < 2 || !cmd_watch_find_view(&w->history, &v)) return PROPANE_OK;
    PROPANE_TRY(braille_init(&b, v.columns, v.rows, err));
    cmd_watch_draw(&w->history, &v, &b);
    for (int r = 0; r < rows; r++) {
        char label[32] = "";
        if (r == 0 || r == rows - 1 || r == rows / 2)
            snprintf(label, sizeof label, "%.4g", v.y1 - (v.y1 - v.y0) * r / (rows - 1));
        text_printf(&w->screen, "%8.8s ", label);
        if (w->colour) text_append(&w->screen, "\033[36m");
        braille_row(&b, r, w->colour, &w->screen);
        if (w->colour) text_append(&w->screen, "\033[0m");
        text_append(&w->screen, w->live ? "\033[K\n" : "\n");
    }
    braille_deinit(&b);
    char right[32];
    snprintf(right, sizeof right, "%.0f", v.x1);
    cmd_watch_put(w, "%*s%-*.0f%s", LABEL, "", v.columns - (int)strlen(right), v.x0, right);
    return PROPANE_OK;
}

static propane_status cmd_watch_draw_screen(watch *w, propane_error *err) {
    cmd_watch_get_size(w);
    text_clear(&w->screen);
    cmd_watch_put_head(w);
    int used = 0;
    for (size_t i = 0; i < w->screen.length; i++) used += w->screen.data[i] == '\n';
    PROPANE_TRY(cmd_watch_put_plot(w, w->height - used - 2, err));
    return w->screen.failed ? propane_fail_memory(err, w->screen.length) : PROPANE_OK;
}

/* ---- following --------------------------------------------------------------------------------------------------------------- */

static bool cmd_watch_is_over(const watch *w) { return strcmp(cmd_watch_state_of(w), "running") != 0; }

static propane_status cmd_watch_follow(watch *w, double interval, propane_error *err) {
    bool more = false;
    if (w->live) printf("\033[?25l\033[2J");
    propane_status status = PROPANE_OK;
    while (status == PROPANE_OK) {
        status = run_history_read(&w->history, w->path.data, &more, err);
        if (status == PROPANE_OK) status = cmd_watch_draw_screen(w, err);
        if (status != PROPANE_OK) break;
        if (w->live) printf("\033[H");
        fwrite(w->screen.data, 1, w->screen.length, stdout);
        if (w->live) printf("\033[J");
        if (!cli_flush() || !w->live || cli_interrupted || cmd_watch_is_over(w)) break;
        struct timespec rest = {(time_t)interval, (long)((interval - floor(interval)) * 1e9)};
        (void)nanosleep(&rest, NULL); /* Ctrl-C wakes it */
        if (cli_interrupted) break;
    }
    if (w->live) printf("\033[?25h");
    return status;
}

int cmd_watch(int argc, char **argv) {
    watch w = {0};
    bool once = false;
    double interval = 1;
    const cli_flag flags[] = {
        {"RUN", CLI_TEXT, &w.dir, .help = "a run's folder", .required = true},
        {"--once", CLI_SWITCH, &once, .help = "one screen; so it is off a terminal"},
        {"--interval", CLI_REAL, &interval, 0.05, 3600, "S", "seconds between two screens"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "watch RUN [--once] [--interval S]",
                  "Shows a training run while it goes on, or one that is over: loss (training and validation), speed, "
                  "time left, memory, watts where a simulator tells them. Ctrl-C ends the view, not the run.");
    if (code >= 0) return code;
    propane_error err = {0};
    w.live = !once && cli_is_terminal(STDOUT_FILENO);
    w.colour = w.live && cli_has_colour(STDOUT_FILENO);
    text_printf(&w.path, "%s/" RUN_LOG, w.dir);
    cli_catch_signals();
    propane_status status = w.path.failed ? propane_fail_memory(&err, 0) : cmd_watch_follow(&w, interval, &err);
    run_history_deinit(&w.history);
    text_deinit(&w.screen);
    text_deinit(&w.path);
    return status == PROPANE_OK ? CLI_OK : cli_error("watch", &err);
}
