/* SPDX-License-Identifier: MIT
 * 3x3 convolutions of stride 1 by Winograd's minimal filtering F(4 x 4, 3 x 3): 36 multiplications for 16 results
 * instead of 144. Tiles of 6 x 6 points are transformed. For each of the 36 values, one matrix product multiplies all
 * tiles by that value's weights. The weights are transformed in double precision when the program is compiled. The
 * results are transformed back and finished.
 *
 * Because of sums with mixed signs, the error is about ten times as large as with the direct method. Layers with few
 * channels, which would not profit either, therefore use conv_direct.c. So do small images, for which the transformed
 * weights (four times as many) would dominate the memory traffic.
 */
#include <string.h>

#include "core/base/int_math.h"
#include "cpu/conv/conv.h"

enum { LEAST_WIDTH = 64, LEAST_TILES = 9 };

typedef struct winograd_call {
    const cpu_conv_winograd_step *a;
    const float *x, *weights, *bias, *other;
    float *y, *v, *m;
} winograd_call;

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void winograd_task_in(void *context, int task, int worker) {
    const winograd_call *call = context;
    const cpu_conv_winograd_step *a = call->a;
    const mil_conv *c = &a->c;
    (void)worker;
    for (int64_t t = task * a->task_tiles; t < min_i64(a->tiles, (task + 1) * a->task_tiles); t++) {
        const int64_t image = t / (a->tall * a->wide), row = t / a->wide % a->tall * CPU_WINOGRAD_STEP - c->before[0];
        const int64_t col = t % a->wide * CPU_WINOGRAD_STEP - c->before[1];
        const cpu_conv_winograd s = {.x = call->x + image * a->x_image + row * a->x_line + col * a->x_col,
                                     .x_row = a->x_line,
                                     .x_col = a->x_col,
                                     .top = -row,
                                     .bottom = c->in[0] - row,
                                     .left = -col,
                                     .right = c->in[1] - col,
                                     .v = call->v + t * c->c_in,
                                     .v_next = a->tiles * c->c_in,
                                     .channels = c->c_in};
        a->k->square_in(&s);
    }
}

/* Computes one of the 36 matrix products with a panel of that product's weights. */
static void winograd_task_product(void *context, int task, int worker) {
    static const int64_t tap = 0;
    const winograd_call *call = context;
    const cpu_conv_winograd_step *a = call->a;
    const int64_t value = task / a->panels, panel = task % a->panels, half = a->k->half, width = a->k->width;
    const int64_t ci = a->c.c_in, co = a->c.c_out;
    const float *v = call->v + value * a->tiles * ci;
    float *m = call->m + value * a->tiles * co + panel * width;
    cpu_conv_tile t = {.a_row = ci,
                       .tap = &tap,
                       .taps = 1,
                       .k = ci,
                       .b = call->weights + task * ci * width,
                       .c_row = co,
                       .cols = min_i64(width, co - panel * width)};
    const bool narrow = t.cols <= a->k->lanes;
    (void)worker;
    for (int64_t i = 0, tile = 0; i < a->tiles; tile++) {
        const int64_t points = min_i64(half, a->tiles - i);
        const bool pair = a->tiles - i >= 2 * half;
        for (int h = 0; h < 2; h++) {
            t.a[h] = v + (i + (pair ? h * half : 0)) * ci;
            t.c[h] = m + (i + (pair ? h * half : 0)) * co;
        }
        t.later = (const char *)(t.b + (tile < 4 && task + 1 < CPU_WINOGRAD_SQUARE * a->panels ? ci * width : 0)) +
                  (tile < 4 ? tile * (ci / 4) * 128 : 0);
        (pair ? a->k->pair[0][narrow] : a->k->single[0][narrow][points - 1])(&t);
        i += pair ? 2 * half : points;
    }
}

static void winograd_task_out(void *context, int task, int worker) {
    const winograd_call *call = context;
    const cpu_conv_winograd_step *a = call->a;
    const mil_conv *c = &a->c;
    (void)worker;
    for (int64_t t = task * a->task_tiles; t < min_i64(a->tiles, (task + 1) * a->task_tiles); t++) {
        const int64_t image = t / (a->tall * a->wide), row = t / a->wide % a->tall * CPU_WINOGRAD_STEP,
                      col = t % a->wide * CPU_WINOGRAD_STEP;
        cpu_conv_winograd s = {.m = call->m + t * c->c_out,
                               .v_next = a->tiles * c->c_out,
                               .y = call->y + image * a->y_image + row * a->y_line + col * a->y_col,
                               .y_row = a->y_line,
                               .y_col = a->y_col,
                               .bottom = min_i64(CPU_WINOGRAD_STEP, c->out[0] - row),
                               .right = min_i64(CPU_WINOGRAD_STEP, c->out[1] - col),
                               .channels = c->c_out,
                               .bias = call->bias,
                               .other_row = a->other_line,
                               .other_col = a->other_col,
                               .finish = &a->end.finish};
        if (call->other) s.other = call->other + image * a->other_image + row * a->other_line + col * a->other_col;
        a->k->square_out(&s);
        for (int64_t i = 0; i < s.bottom; i++) cpu_conv_map(&a->end, s.y + i * s.y_row, s.y_col, s.right, c->c_out);
    }
}

propane_status cpu_conv_winograd_run(const cpu_run *run, const void *step, propane_error *err) {
    const cpu_conv_winograd_step *a = step;
    winograd_call call = {.a = a,
                          .x = cpu_ref_at(run, a->x),
                          .y = cpu_ref_at(run, a->y),
                          .weights = cpu_ref_at(run, a->weights),
                          .bias = cpu_conv_bias(run, &a->end),
                          .other = a->has_other ? cpu_ref_at(run, a->other) : NULL,
                          .v = cpu_ref_at(run, a->v),
                          .m = cpu_ref_at(run, a->m)};
    const int tasks = (int)((a->tiles + a->task_tiles - 1) / a->task_tiles);
    (void)err;
    cpu_run_parallel(run, winograd_task_in, &call, tasks);
    cpu_run_parallel(run, winograd_task_product, &call, (int)(CPU_WINOGRAD_SQUARE * a->panels));
    cpu_run_parallel(run, winograd_task_out, &call, tasks);
    return PROPANE_OK;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

int64_t cpu_conv_winograd_tiles(const mil_conv *c) {
    return c->n * ((c->out[0] + CPU_WINOGRAD_STEP - 1) / CPU_WINOGRAD_STEP) *
           ((c->out[1] + CPU_WINOGRAD_STEP - 1) / CPU_WINOGRAD_STEP);
}

bool cpu_conv_winograd_pays(const mil_conv *c) {
    for (int d = 0; d < 2; d++)
        if (c->kernel[d] != 3 || c->stride[d] != 1 || c->dilation[d] != 1) return false;
    return c->groups == 1 && c->c_in >= LEAST_WIDTH && c->c_out >= LEAST_WIDTH &&
           cpu_conv_winograd_tiles(c) >= LEAST_TILES;
}

/* Transforms the 3x3 weights of one pair of channels to 6x6. */
static void winograd_transform(const float *w, double out[CPU_WINOGRAD_SQUARE]) {
    static const double g[6][3] = {{1.0 / 4, 0, 0},
                                   {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                   {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                   {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                   {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                   {0, 0, 1}};
    double rows[6][3] = {{0}};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) rows[i][j] += g[i][k] * (double)w[3 * k + j];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            out[6 * i + j] = 0;
            for (int k = 0; k < 3; k++) out[6 * i + j] += rows[i][k] * g[j][k];
        }
}

void cpu_conv_winograd_weights(const mil_conv *c, int64_t width, const float *w, float *to) {
    const int64_t ci = c->c_in, panels = (c->c_out + width - 1) / width;
    for (int64_t o = 0; o < c->c_out; o++)
        for (int64_t i = 0; i < ci; i++) {
            double values[CPU_WINOGRAD_SQUARE];
            winograd_transform(w + (o * ci + i) * 9, values);
            for (int64_t s = 0; s < CPU_WINOGRAD_SQUARE; s++)
                to[((s * panels + o / width) * ci + i) * width + o % width] = (float)values[s];
        }
}
