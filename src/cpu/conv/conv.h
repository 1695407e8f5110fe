/* SPDX-License-Identifier: MIT
 * Steps of layers on images with adjacent channels: their arguments, which ops/emit_conv_nhwc.h fills in, and the
 * functions that run them. A step runs one layer (conv_direct.c, conv_depthwise.c, conv_winograd.c) or several layers
 * (conv_bottleneck.c); both use the same parts. Strides are in floats.
 */
#ifndef CPU_CONV_CONV_H
#define CPU_CONV_CONV_H

#include "core/mil/ops/shape_util.h"
#include "cpu/cpu_program.h"
#include "cpu/simd/kernels.h"

/* How a layer's sums are finished. */
typedef struct cpu_conv_end {
    cpu_conv_finish finish;
    cpu_elementwise_unary map; /* NULL if there is none */
    float p, q;
    bool has_bias;
    cpu_ref bias; /* padded to a multiple that the kernels require */
} cpu_conv_end;

static inline const float *cpu_conv_bias(const cpu_run *run, const cpu_conv_end *e) {
    return e->has_bias ? cpu_ref_at(run, e->bias) : NULL;
}
static inline void cpu_conv_map(const cpu_conv_end *e, float *point, int64_t step, int64_t points, int64_t n) {
    for (int64_t i = 0; e->map && i < points; i++, point += step) e->map(point, point, n, e->p, e->q);
}

/* ---- convolutions over all channels ------------------------------------------------------------------------------ */

typedef struct cpu_conv_direct {
    const cpu_conv_kernels *k;
    int64_t images, c_in, c_out, in_h, in_w, out_h, out_w, stride_h, stride_w, before_h, before_w;
    int64_t x_image, x_line, x_col, x_channel; /* strides of the operand */
    bool copied, apart; /* copied: x is copied first; apart: the tiles read each channel's lines separately */
    int64_t plane_h, plane_w, pitch, reach_h; /* reach_h: lines that one line of results reads */
    int64_t a_image, a_line, a_col;           /* strides of what the tiles read, from one result to the next */
    int taps;
    const int64_t *tap;
    int64_t depth, pass; /* elements per tap; how many of them are multiplied at once */
    int64_t panels, panel_floats;
    int64_t line_runs, runs; /* runs per line of results; runs in total */
    int64_t y_image, y_line, y_col, other_image, other_line, other_col, gate_image;
    cpu_conv_end end;
    bool has_other, has_gate;
    cpu_ref x, y, other, gate, weights;
} cpu_conv_direct;

typedef struct cpu_conv_direct_call {
    const cpu_conv_direct *a;
    const float *x, *points, *weights, *bias, *other, *gate; /* points is x or its copy */
    float *y, *plane;
} cpu_conv_direct_call;

cpu_conv_direct_call cpu_conv_direct_at(const cpu_run *run, const cpu_conv_direct *a);
/* Copies line `h` of the padded image to `to`. */
void cpu_conv_copy_line(const cpu_conv_direct_call *call, int64_t image, int64_t h, float *to);
/* Computes runs and panels [from, to). */
void cpu_conv_direct_part(const cpu_conv_direct_call *call, int64_t run_from, int64_t run_to, int64_t panel_from,
                          int64_t panel_to);

/* ---- windows ----------------------------------------------------------------------------------------------------- */

typedef struct cpu_conv_window {
    mil_conv c;
    const cpu_conv_kernels *k;
    cpu_conv_kind kind;
    int64_t x_image, x_line, x_col, y_image, y_line, y_col, w_row;
    /* Average pooling: for [out_h][out_w], the number of window elements that count; NULL for other kinds. */
    const float *parts;
    cpu_conv_end end;
    cpu_ref x, y, w;
} cpu_conv_window;

typedef struct cpu_conv_window_call {
    const cpu_conv_window *a;
    const float *x, *w, *bias;
    float *y;
    int64_t channels;
} cpu_conv_window_call;

cpu_conv_window_call cpu_conv_window_at(const cpu_run *run, const cpu_conv_window *a);
/* Computes line `h` of an image's results. */
void cpu_conv_window_line(const cpu_conv_window_call *call, int64_t image, int64_t h);

/* ---- steps: arguments, and the functions that run them (cpu_step_run) -------------------------------------------- */

/* The step of one layer. Runs are grouped in blocks, panels in chunks. */
typedef struct cpu_conv_direct_step {
    cpu_conv_direct d;
    int64_t block_runs, blocks, chunk_panels, chunks;
    cpu_ref plane;
} cpu_conv_direct_step;

propane_status cpu_conv_direct_run(const cpu_run *run, const void *step, propane_error *err);

/* 3x3 convolutions of stride 1 by minimal filtering (conv_winograd.c): 36 multiplications per tile of 4 x 4 results. */
enum { CPU_WINOGRAD_SQUARE = 36, CPU_WINOGRAD_STEP = 4 };
typedef struct cpu_conv_winograd_step {
    mil_conv c;
    const cpu_conv_kernels *k;
    int64_t tall, wide, tiles; /* tall, wide: tiles per image; tiles: in total */
    int64_t x_image, x_line, x_col, y_image, y_line, y_col, other_image, other_line, other_col;
    int64_t panels, task_tiles;
    cpu_conv_end end;
    bool has_other;
    cpu_ref x, y, other, weights, v, m;
} cpu_conv_winograd_step;

propane_status cpu_conv_winograd_run(const cpu_run *run, const void *step, propane_error *err);
bool cpu_conv_winograd_pays(const mil_conv *c);
int64_t cpu_conv_winograd_tiles(const mil_conv *c); /* tiles of all images */
/* Transforms weights [c_out][c_in][3][3] into [36][panels][c_in][width]. `to` must contain zeros. */
void cpu_conv_winograd_weights(const mil_conv *c, int64_t width, const float *w, float *to);

typedef struct cpu_conv_window_step {
    cpu_conv_window w;
    int64_t lines, task_lines;
} cpu_conv_window_step;

propane_status cpu_conv_window_run(const cpu_run *run, const void *step, propane_error *err);

/* A convolution, the depthwise convolution after it, and what comes next, as one step (conv_bottleneck.c). */
typedef struct cpu_conv_bottleneck_step {
    cpu_conv_direct first, last;
    cpu_conv_window window;
    bool has_last, has_mean, last_adds_first;
    int64_t channels, band_lines, bands, chunk_panels, chunks;
    int64_t mid_col, mid_before, mid_line, out_line; /* strides of the values between the layers */
    int64_t plane_floats, mid_floats, out_floats;    /* per thread */
    float count;                                     /* mean: points per image */
    cpu_ref x, y, scratch, sums, mean;
} cpu_conv_bottleneck_step;

propane_status cpu_conv_bottleneck_run(const cpu_run *run, const void *step, propane_error *err);

/* How lines and channels are divided among tasks. */
typedef struct cpu_conv_bands {
    int64_t band_lines, bands, chunk_panels, chunks, mid_lines;
} cpu_conv_bands;

/* Divides the work. Returns false if too many lines would be computed twice. `last` means that a 1x1 convolution comes
 * next. */
bool cpu_conv_bottleneck_divide(const cpu_conv_kernels *k, const mil_conv *first, const mil_conv *c, bool last,
                                int threads, cpu_conv_bands *out);
bool cpu_conv_bottleneck_pays(const cpu_kernels *kernels, int threads, const mil_conv *first, const mil_conv *window,
                              bool last);

#endif
