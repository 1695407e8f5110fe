/* SPDX-License-Identifier: MIT
 * Owns the visible range of the plot, and the conversion of steps and losses to dots.
 */
#include "report/run/curve_plot.h"

#include <math.h>
#include <string.h>

#include "report/run/braille.h"

enum { LABEL = 9 };

typedef struct view {
    double x0, x1, y0, y1;
    int columns, rows;
} view;

char curve_plot_letter(int run) { return (char)(run < 26 ? 'a' + run : '+'); }

static void curve_plot_widen(view *v, double step, double loss) {
    if (!isfinite(loss)) return;
    v->y0 = fmin(v->y0, loss), v->y1 = fmax(v->y1, loss);
    v->x0 = fmin(v->x0, step), v->x1 = fmax(v->x1, step);
}

/* Finds the visible range, which includes the first losses, because the loss of a new model is that of guessing. */
static bool curve_plot_find_view(const run_set *s, bool training, bool validation, view *v) {
    v->x0 = v->y0 = INFINITY, v->x1 = v->y1 = -INFINITY;
    for (int k = 0; k < s->count; k++) {
        const run_history *h = &s->runs[k].history;
        for (int64_t i = 0; training && i < h->count; i++)
            curve_plot_widen(v, (double)h->points[i].step, h->points[i].loss);
        for (int64_t i = 0; validation && i < h->value_count; i++)
            curve_plot_widen(v, (double)h->values[i].step, h->values[i].loss);
        if (training && h->count) v->x0 = fmin(v->x0, (double)h->points[0].step);
    }
    if (!isfinite(v->y0)) return false;
    if (v->y1 <= v->y0) v->y1 = v->y0 + 1e-6, v->y0 -= 1e-6;
    v->x1 = fmax(v->x1, v->x0 + 1);
    return true;
}

static int curve_plot_x(const view *v, double x) {
    return (int)((x - v->x0) / (v->x1 - v->x0) * (2 * v->columns - 1) + 0.5);
}
static int curve_plot_y(const view *v, double y) {
    const double at = (y - v->y0) / (v->y1 - v->y0);
    return (int)(fmin(fmax(at, 0), 1) * (4 * v->rows - 1) + 0.5);
}

typedef struct pen {
    int x, y; /* x is -1 if nothing has been drawn */
} pen;

/* Draws a training loss. Each column of dots shows the mean of its steps, and lines join these points. */
static pen curve_plot_training(const run_history *h, const view *v, int ink, braille *b) {
    pen last = {-1, 0};
    int at = -1, n = 0;
    double sum = 0;
    for (int64_t i = 0; i <= h->count; i++) {
        const int x = i < h->count ? curve_plot_x(v, (double)h->points[i].step) : -2;
        if (x != at && n > 0) {
            const int y = curve_plot_y(v, sum / n);
            braille_line(b, last.x < 0 ? at : last.x, last.x < 0 ? y : last.y, at, y, ink);
            last = (pen){at, y}, n = 0, sum = 0;
        }
        at = x;
        if (i < h->count && isfinite(h->points[i].loss)) sum += h->points[i].loss, n++;
    }
    return last;
}

static pen curve_plot_validation(const run_history *h, const view *v, int ink, braille *b) {
    pen last = {-1, 0};
    for (int64_t i = 0; i < h->value_count; i++) {
        if (!isfinite(h->values[i].loss)) continue;
        const int x = curve_plot_x(v, (double)h->values[i].step), y = curve_plot_y(v, h->values[i].loss);
        braille_line(b, last.x < 0 ? x : last.x, last.x < 0 ? y : last.y, x, y, ink);
        last = (pen){x, y};
    }
    return last;
}

static void curve_plot_draw(const run_set *s, const view *v, bool training, bool validation, braille *b) {
    for (int i = 0; i < s->count; i++) {
        const run_history *h = &s->runs[i].history;
        const int ink = i % BRAILLE_INKS + 1;
        pen end = {-1, 0};
        if (training) end = curve_plot_training(h, v, ink, b);
        if (validation) end = curve_plot_validation(h, v, s->count > 1 ? ink : 2, b);
        if (s->count > 1 && end.x >= 0) braille_label(b, end.x, end.y, curve_plot_letter(i), ink);
    }
}

propane_status curve_plot_print(const run_set *s, const curve_plot *p, text *out, propane_error *err) {
    const bool training = s->count == 1 || !p->validation, validation = s->count == 1 || p->validation;
    view v = {.columns = p->width - LABEL, .rows = p->rows};
    braille b;
    if (p->rows < 2 || !curve_plot_find_view(s, training, validation, &v)) return PROPANE_OK;
    PROPANE_TRY(braille_init(&b, v.columns, v.rows, err));
    curve_plot_draw(s, &v, training, validation, &b);
    for (int r = 0; r < p->rows; r++) {
        char label[32] = "";
        if (r == 0 || r == p->rows - 1 || r == p->rows / 2)
            snprintf(label, sizeof label, "%.4g", v.y1 - (v.y1 - v.y0) * r / (p->rows - 1));
        text_printf(out, "%8.8s ", label);
        braille_row(&b, r, p->colour, out);
        text_append(out, p->end);
    }
    braille_deinit(&b);
    char right[32];
    snprintf(right, sizeof right, "%.0f", v.x1);
    text_printf(out, "%*s%-*.0f%s%s", LABEL, "", v.columns - (int)strlen(right), v.x0, right, p->end);
    return PROPANE_OK;
}
