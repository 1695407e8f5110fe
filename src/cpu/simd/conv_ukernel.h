/* SPDX-License-Identifier: MIT
 * Layers whose activations have their channels next to one another (a point of an image, or a row of a matrix, is a run
 * of channels): convolutions and products with constant weights, depthwise convolutions, pooling. Nothing is unfolded:
 * a tile multiplies points with a panel of weights straight out of the image, tap after tap, and finishes its results
 * (bias, sum, activation) in registers.
 *
 * A tile is two runs of at most `half` points; the points of a run are a_row floats apart. Each result is one chain of
 * multiply-adds in the order of taps and channels, whatever the tile it falls into.
 */
#ifndef CPU_SIMD_CONV_UKERNEL_H
#define CPU_SIMD_CONV_UKERNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { CPU_CONV_HALF = 7 }; /* the largest of all instruction sets */

/* What happens to a sum: + bias, + other, then x * clip(p x + q, 0, 1) of what is at least `least` if
 * `swish`, then clip to low .. high; NaN stays. */
typedef struct cpu_conv_finish {
    bool swish;
    float least, p, q, low, high;
} cpu_conv_finish;

typedef struct cpu_conv_tile {
    const float *a[2]; /* the first points of both runs */
    int64_t a_row;
    const int64_t *tap; /* [taps]: floats from a point to where its k elements of a tap begin */
    int taps;
    int64_t k;
    const float *b; /* [taps][k][width] */
    float *c[2];
    int64_t c_row, cols; /* cols: of `width` that are there */
    const float *bias;   /* [width]; NULL: none */
    const float *gate;   /* gated: [k], factors of the elements of the only tap */
    const float *other[2];
    int64_t other_row;
    bool add;          /* sums go on from what c holds */
    const char *later; /* memory that is needed soon: 128 bytes of it are fetched for each four elements of k */
    const cpu_conv_finish *finish; /* NULL: sums are stored as they are, bias and other are not looked at */
} cpu_conv_tile;

typedef enum cpu_conv_kind { CPU_CONV_WEIGHTS, CPU_CONV_MAX, CPU_CONV_SUM } cpu_conv_kind;

/* A line of results of a window that slides over each channel by itself. */
typedef struct cpu_conv_line {
    /* the image's first point of the line that tap row 0 of the window reads; it may lie above the image */
    const float *x;
    int64_t row, col;       /* floats to the next row and column of taps */
    int64_t step;           /* to the next result's first tap: columns of the image, */
    int64_t dilation, in;   /* between two taps, and how many there are */
    int64_t before, kernel; /* columns of padding, of taps */
    int64_t from, to;       /* rows of taps inside the image */
    const float *w;         /* [rows][kernel][channels rounded up to whole vectors], */
    const float *bias;      /* [the same] */
    int64_t w_row;          /* channels rounded up */
    const float *parts;     /* sum: [count], what each result is divided by; NULL: nothing */
    float *y;
    int64_t y_col, count, channels;
    const cpu_conv_finish *finish;
} cpu_conv_line;

/* Transforms of minimal filtering F(4 x 4, 3 x 3), a tile at a time: 6 x 6 points of the image to 36 products'
 * operands, 36 products' results to 4 x 4 points, finished. */
typedef struct cpu_conv_winograd {
    const float *x; /* the image's point of the tile's first corner; it may lie outside: */
    int64_t x_row, x_col, top, bottom, left,
        right; /* [top, bottom) x [left, right) of 6 x 6 are inside; of 4 x 4 wanted */
    float *v;
    int64_t v_next; /* from one of the 36 to the next */
    const float *m;
    float *y;
    int64_t y_row, y_col, channels;
    const float *bias, *other; /* other: like y; NULL: none */
    int64_t other_row, other_col;
    const cpu_conv_finish *finish;
} cpu_conv_winograd;

typedef struct cpu_conv_kernels {
    int half, width, lanes;
    void (*square_in)(const cpu_conv_winograd *s);
    void (*square_out)(const cpu_conv_winograd *s);
    /* [whether gated][whether no more than `lanes` columns are there] */
    void (*pair[2][2])(const cpu_conv_tile *t);                  /* both runs have `half` points */
    void (*single[2][2][CPU_CONV_HALF])(const cpu_conv_tile *t); /* [points - 1], the second run is empty */
    void (*line[3])(const cpu_conv_line *l);                     /* by kind */
} cpu_conv_kernels;

#endif
