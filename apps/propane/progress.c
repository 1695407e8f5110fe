/* SPDX-License-Identifier: MIT
 * Owns the progress display. The plot has one column per stretch of steps, drawn in block characters between the
 * smallest and the largest mean loss so far.
 */
#include "apps/propane/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "core/base/clock.h"
#include "core/base/text.h"

enum { PLOT_COLUMNS = 24, PLOT_LEAST = 6 };

progress_step progress_of(const propane_step *r, double seconds, int64_t first, int64_t steps) {
    const double done = (double)(r->step - first);
    return (progress_step){.step = r->step,
                           .loss = r->loss,
                           .lr = r->lr,
                           .loss_scale = r->loss_scale,
                           .tokens_per_s = r->rate,
                           .device_ms = r->device_ms,
                           .host_ms = r->host_ms,
                           .simulated = r->simulated,
                           .energy_j = r->energy_j,
                           .utilisation = r->utilisation,
                           .seconds_left = done > 0 ? seconds / done * (double)(steps - r->step) : 0};
}

void progress_flush(void) {
    if (!cli_flush()) cli_interrupt();
}

bool progress_is_bar(const char *form, bool ranks, int fd) {
    return strcmp(form, "bar") == 0 || (strcmp(form, "auto") == 0 && !ranks && cli_is_terminal(fd));
}

void progress_init(progress *p, bool json, const char *form, bool ranks, int64_t steps) {
    *p = (progress){.json = json,
                    .terminal = !json && progress_is_bar(form, ranks, STDOUT_FILENO),
                    .silent = strcmp(form, "none") == 0,
                    .steps = steps,
                    .stretch = 1,
                    .unit = "tokens"};
}

/* Prints the time at the start of a plain line, because people read logs of several days. */
static void progress_stamp(const progress *p) {
    char now[32] = "";
    const time_t seconds = time(NULL);
    struct tm local;
    if (p->terminal) return;
    if (localtime_r(&seconds, &local)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S  ", &local);
    printf("%s", now);
}

/* Adds a loss to the history. When the history is full, neighbouring entries are merged. */
static void progress_remember(progress *p, double loss) {
    if (!isfinite(loss)) return;
    p->smooth = 0.95 * p->smooth + 0.05 * loss;
    p->weight = 0.95 * p->weight + 0.05;
    if (p->in_stretch == 0) {
        if (p->filled == PROGRESS_HISTORY) {
            for (int i = 0; i < PROGRESS_HISTORY / 2; i++) p->loss[i] = (p->loss[2 * i] + p->loss[2 * i + 1]) / 2;
            p->filled = PROGRESS_HISTORY / 2;
            p->stretch *= 2;
        }
        p->loss[p->filled++] = loss;
    } else {
        double *last = &p->loss[p->filled - 1];
        *last += (loss - *last) / (double)(p->in_stretch + 1);
    }
    if (++p->in_stretch == p->stretch) p->in_stretch = 0;
}

static void progress_plot(const progress *p, int columns, char out[PLOT_COLUMNS * 3 + 1]) {
    if (columns > PLOT_COLUMNS) columns = PLOT_COLUMNS;
    if (columns > p->filled) columns = p->filled;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < p->filled; i++) low = fmin(low, p->loss[i]), high = fmax(high, p->loss[i]);
    char *end = out;
    for (int c = 0; c < columns; c++) {
        int from = p->filled * c / columns, to = p->filled * (c + 1) / columns;
        double mean = 0;
        for (int i = from; i < to; i++) mean += p->loss[i] / (to - from);
        int level = high > low ? (int)((mean - low) / (high - low) * 7.99) : 0;
        *end++ = (char)0xE2; /* U+2581 to U+2588 */
        *end++ = (char)0x96;
        *end++ = (char)(0x81 + level);
    }
    *end = 0;
}

static void progress_show_terminal(progress *p, const progress_step *s) {
    char front[160], columns[PLOT_COLUMNS * 3 + 1] = "", left[32], back[80];
    int width = cli_width() - 1; /* the last column would wrap on some terminals */
    int n = snprintf(front, sizeof front, "step %lld/%lld  loss %.4f  ", (long long)s->step, (long long)p->steps,
                     p->weight > 0 ? p->smooth / p->weight : NAN);
    if (s->simulated)
        n += snprintf(front + n, sizeof front - (size_t)n, "%s simulated %.1f ms %.1f%% %.0f mJ  ", s->simulated,
                      s->device_ms, 100 * s->utilisation, s->energy_j * 1e3);
    int m = snprintf(back, sizeof back, "%.0f %s/s  %s left", s->tokens_per_s,
                     strcmp(p->unit, "tokens") == 0 ? "tok" : p->unit, text_duration(left, s->seconds_left));
    if (width - n - m - 2 >= PLOT_LEAST) progress_plot(p, width - n - m - 2, columns);
    if (n + m > width) m = 0; /* leave out text that does not fit instead of wrapping it */
    printf("\r\033[K%.*s%s%s%s", width, front, columns, columns[0] ? "  " : "", m ? back : "");
    p->drawn = true;
}

static void progress_show_plain(const progress *p, const progress_step *s) {
    char left[32];
    progress_stamp(p);
    printf("step %lld/%lld  loss %.4f  lr %.3g  %.0f %s/s  %s left", (long long)s->step, (long long)p->steps, s->loss,
           s->lr, s->tokens_per_s, p->unit, text_duration(left, s->seconds_left));
    if (s->simulated)
        printf("  (%s simulated: %.2f ms on the engine, %.1f %% of its peak, %.2f mJ)", s->simulated, s->device_ms,
               100 * s->utilisation, s->energy_j * 1e3);
    for (int i = 0; s->power && i < ENERGY_PARTS; i++) {
        printf("%s%s ", i ? ", " : "  ", energy_part_name((energy_part)i));
        if (s->power->why[i])
            printf("unknown");
        else
            printf("%.3f J", s->power->joules[i]);
    }
    printf("\n");
}

void progress_energy(const energy_reading *r) {
    for (int i = 0; i < ENERGY_PARTS; i++) {
        char name[20];
        snprintf(name, sizeof name, "%s_j", energy_part_name((energy_part)i));
        progress_number(name, r->why[i] ? NAN : r->joules[i]);
    }
}

void progress_number(const char *name, double value) {
    if (isfinite(value))
        printf(",\"%s\":%.9g", name, value);
    else
        printf(",\"%s\":null", name);
}

void progress_show(progress *p, const progress_step *s) {
    int64_t now = clock_ns();
    progress_remember(p, s->loss);
    if (p->json) {
        char rate[40];
        printf("{\"step\":%lld", (long long)s->step);
        progress_number("loss", s->loss);
        progress_number("lr", s->lr);
        progress_number("loss_scale", s->loss_scale);
        snprintf(rate, sizeof rate, "%.20s_per_s", p->unit);
        progress_number(rate, s->tokens_per_s);
        progress_number("device_ms", s->device_ms);
        progress_number("host_ms", s->host_ms);
        if (s->simulated) {
            printf(",\"simulated\":\"%s\"", s->simulated);
            progress_number("energy_j", s->energy_j);
            progress_number("utilisation", s->utilisation);
        }
        if (s->power) progress_energy(s->power);
        printf("}\n");
        return;
    }
    if (p->silent) return;
    int64_t every = p->terminal ? 100000000 : 5000000000;
    if (s->step != p->steps && p->shown_ns && now - p->shown_ns < every) return;
    p->shown_ns = now;
    if (p->terminal)
        progress_show_terminal(p, s);
    else
        progress_show_plain(p, s);
}

void progress_line(progress *p, const char *format, ...) {
    if (p->json || p->silent) return;
    if (p->drawn) printf("\r\033[K");
    p->drawn = false;
    progress_stamp(p);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

void progress_checkpoint(progress *p, int64_t step, const char *path, bool quiet) {
    if (p->json)
        printf("{\"step\":%" PRId64 ",\"event\":\"checkpoint\"}\n", step);
    else if (!quiet)
        progress_line(p, "step %" PRId64 "  checkpoint %s", step, path);
}

void progress_end(progress *p) {
    if (p->drawn) printf("\n");
    p->drawn = false;
}
