/* SPDX-License-Identifier: MIT
 * Owns the drawing of charts.
 */
#include "report/run/svg.h"

#include <math.h>

enum { WIDTH = 720, HEIGHT = 260, LEFT = 64, RIGHT = 16, TOP = 28, BOTTOM = 36 };

typedef struct scale {
    double x0, x1, y0, y1;
} scale;

static double svg_place_x(const scale *s, double x) {
    return LEFT + (x - s->x0) / (s->x1 - s->x0) * (WIDTH - LEFT - RIGHT);
}
static double svg_place_y(const scale *s, double y) {
    return HEIGHT - BOTTOM - (y - s->y0) / (s->y1 - s->y0) * (HEIGHT - TOP - BOTTOM);
}

static bool svg_find_scale(const svg_curve *curves, int count, scale *s) {
    *s = (scale){INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int c = 0; c < count; c++)
        for (int i = 0; i < curves[c].count; i++) {
            double x = curves[c].x[i], y = curves[c].y[i];
            if (!isfinite(x) || !isfinite(y)) continue;
            s->x0 = fmin(s->x0, x), s->x1 = fmax(s->x1, x), s->y0 = fmin(s->y0, y), s->y1 = fmax(s->y1, y);
        }
    if (!isfinite(s->x0)) return false;
    if (s->x1 <= s->x0) s->x0 -= 0.5, s->x1 += 0.5;
    double room = s->y1 > s->y0 ? 0.05 * (s->y1 - s->y0) : fmax(fabs(s->y1) * 0.1, 1e-9);
    s->y1 += room;
    s->y0 -= s->y0 >= 0 && s->y0 < room ? s->y0 : room;
    return true;
}

/* Returns 1, 2 or 5 times a power of ten, so that about `parts` of them fill the range. */
static double svg_round_step(double range, int parts) {
    double raw = range / parts, power = pow(10, floor(log10(raw))), first = raw / power;
    return power * (first < 1.5 ? 1 : first < 3.5 ? 2 : first < 7.5 ? 5 : 10);
}

/* The marks of an axis are counted, not added up. If values are large and close to each other, as in a diverged run,
 * there may be no representable number between them. */
enum { MOST_MARKS = 20 };
static int svg_marks(double from, double to, double step, double out[MOST_MARKS]) {
    const double first = ceil(from / step);
    int n = 0;
    for (int i = 0; n < MOST_MARKS && isfinite(first); i++) {
        const double v = (first + i) * step;
        if (!(v <= to) || (n && v <= out[n - 1])) break;
        out[n++] = v;
    }
    return n;
}

static void svg_put_axes(text *out, const scale *s, const char *x_name) {
    double step = svg_round_step(s->y1 - s->y0, 5), marks[MOST_MARKS];
    int n = svg_marks(s->y0, s->y1, step, marks);
    for (int i = 0; i < n; i++) {
        const double v = marks[i], y = svg_place_y(s, v);
        text_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, WIDTH - RIGHT, y,
                    y);
        text_printf(out, "<text class=\"axis\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%.6g</text>", LEFT - 6, y + 4,
                    fabs(v) < step * 1e-6 ? 0 : v);
    }
    step = svg_round_step(s->x1 - s->x0, 6);
    if (step < 1) step = 1;
    n = svg_marks(s->x0, s->x1, step, marks);
    for (int i = 0; i < n; i++)
        text_printf(out, "<text class=\"axis\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%.10g</text>",
                    svg_place_x(s, marks[i]), HEIGHT - BOTTOM + 16, marks[i]);
    text_printf(out, "<text class=\"axis\" text-anchor=\"end\" x=\"%d\" y=\"%d\">%s</text>", WIDTH - RIGHT, HEIGHT - 4,
                x_name);
}

static void svg_put_curve(text *out, const scale *s, const svg_curve *c) {
    const int class = c->colour % SVG_COLOURS;
    text_printf(out, "<polyline class=\"k%d\" points=\"", class);
    for (int i = 0; i < c->count; i++)
        if (isfinite(c->x[i]) && isfinite(c->y[i]))
            text_printf(out, "%.1f,%.1f ", svg_place_x(s, c->x[i]), svg_place_y(s, c->y[i]));
    text_append(out, "\"/>");
    for (int i = 0; c->dots && i < c->count; i++)
        if (isfinite(c->y[i]))
            text_printf(out, "<circle class=\"k%d\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/>", class, svg_place_x(s, c->x[i]),
                        svg_place_y(s, c->y[i]));
}

void svg_chart(text *out, const char *title, const char *x_name, const svg_curve *curves, int count) {
    scale s;
    if (!svg_find_scale(curves, count, &s)) return;
    text_printf(
        out,
        "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\"><text class=\"title\" x=\"%d\" y=\"16\">%s</text>",
        WIDTH, HEIGHT, title, LEFT, title);
    svg_put_axes(out, &s, x_name);
    for (int i = 0; i < count; i++) svg_put_curve(out, &s, &curves[i]);
    text_append(out, "</svg>\n");
}
