/* SPDX-License-Identifier: MIT
 * Layers whose activations have adjacent channels (a point of an image, or a row of a matrix, is a run of channels):
 * convolutions and matrix products with constant weights, depthwise convolutions, pooling. Nothing is unfolded: a tile
 * multiplies points by a panel of weights directly from the image, tap by tap, and finishes its results (bias, sum,
 * activation) in registers.
 *
 * A tile is two runs of at most `half` points; the points of a run are a_row floats apart. Each result is one chain of
 * multiply-adds in the order of taps and channels, whichever tile computes it.
 */
#ifndef CPU_SIMD_CONV_UKERNEL_H
#define CPU_SIMD_CONV_UKERNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { CPU_CONV_HALF = 7 }; /* the largest `half` of all instruction sets */

/* How a sum is finished. Bias and other are added. If `swish`, x is raised to `least` if it is smaller, and then
 * becomes x * clip(p x + q, 0, 1). Finally, x is clipped to low .. high. NaN stays NaN. */
typedef struct cpu_conv_finish {
    bool swish;
    float least, p, q, low, high;
} cpu_conv_finish;

typedef struct cpu_conv_tile {
    const float *a[2]; /* the first points of both runs */
    int64_t a_row;
    const int64_t *tap; /* [taps]: floats from a point to the k elements of a tap */
    int taps;
    int64_t k;
    const float *b; /* [taps][k][width] */
    float *c[2];
    int64_t c_row, cols; /* cols: how many of `width` exist */
    const float *bias;   /* [width]; NULL if there is none */
    const float *gate;   /* if gated: [k], factors of the elements of the only tap */
    const float *other[2];
    int64_t other_row;
    bool add;          /* sums continue from the content of c */
    const char *later; /* memory that is needed soon: 128 bytes of it are prefetched per four elements of k */
    const cpu_conv_finish *finish; /* if NULL, sums are stored unchanged, and bias and other are ignored */
} cpu_conv_tile;

typedef enum cpu_conv_kind { CPU_CONV_WEIGHTS, CPU_CONV_MAX, CPU_CONV_SUM } cpu_conv_kind;

/* A line of results of a window that slides over each channel separately. */
typedef struct cpu_conv_line {
    /* First point of the image line that row 0 of the window's taps reads; may be above the image. */
    const float *x;
    int64_t row, col;       /* floats to the next row and column of taps */
    int64_t step;           /* columns of the image to the next result's first tap */
    int64_t dilation, in;   /* columns between two taps; columns in the image */
    int64_t before, kernel; /* columns of padding; columns of taps */
    int64_t from, to;       /* rows of taps inside the image */
    const float *w;         /* [rows][kernel][channels rounded up to whole vectors] */
    const float *bias;      /* [channels rounded up to whole vectors]; NULL if there is none */
    int64_t w_row;          /* channels, rounded up to whole vectors */
    const float *parts;     /* sum: [count], what each result is divided by; NULL if there is no division */
    float *y;
    int64_t y_col, count, channels;
    const cpu_conv_finish *finish;
} cpu_conv_line;

/* Transforms of minimal filtering F(4 x 4, 3 x 3), one tile at a time: 6 x 6 points of the image to the operands of 36
 * matrix products, and the products' results to 4 x 4 finished points. */
typedef struct cpu_conv_winograd {
    const float *x; /* the image's point at the tile's first corner; may be outside the image */
    int64_t x_row, x_col, top, bottom, left,
        right; /* points [top, bottom) x [left, right) of the 6 x 6 are inside, of the 4 x 4 wanted */
    float *v;
    int64_t v_next; /* floats from one of the 36 operands or results to the next */
    const float *m;
    float *y;
    int64_t y_row, y_col, channels;
    const float *bias, *other; /* other: same layout as y; NULL if there is none */
    int64_t other_row, other_col;
    const cpu_conv_finish *finish;
} cpu_conv_winograd;

typedef struct cpu_conv_kernels {
    int half, width, lanes;
    void (*square_in)(const cpu_conv_winograd *s);
    void (*square_out)(const cpu_conv_winograd *s);
    /* [gated][at most `lanes` columns exist] */
    void (*pair[2][2])(const cpu_conv_tile *t);                  /* both runs have `half` points */
    void (*single[2][2][CPU_CONV_HALF])(const cpu_conv_tile *t); /* [points - 1], the second run is empty */
    void (*line[3])(const cpu_conv_line *l);                     /* by kind */
} cpu_conv_kernels;

#endif
