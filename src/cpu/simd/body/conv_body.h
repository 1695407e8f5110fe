/* SPDX-License-Identifier: MIT
 * The kernels of conv_ukernel.h in terms of vec_*.h; included once by each kernels_*.c, after these are defined:
 *   CONV_HALF       points of a run: 2, 3, 4 or 7
 *   CONV_NRV        vectors in a panel of weights: 2, 3 or 4
 *   CONV_NR         numbers in them
 */
#ifndef CPU_SIMD_BODY_CONV_BODY_H
#define CPU_SIMD_BODY_CONV_BODY_H

#include <math.h>

#include "cpu/simd/conv_ukernel.h"

enum { CONV_AHEAD = 8 };
_Static_assert(CONV_NR == CONV_NRV * VL, "a panel is whole vectors");

VFN vf conv_finish(const cpu_conv_finish *f, vf v) {
    if (f->swish) {
        v = v_max(v_set(f->least), v);
        v = v_mul(v, v_min(v_set(1), v_max(v_set(0), v_fma(v_set(f->p), v, v_set(f->q)))));
    }
    return v_min(v_set(f->high), v_max(v_set(f->low), v));
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* op(run, point, group of three points, position in the group). One address and multiples of a_row reach all points of
 * a group. */
#define CH_ROWS_0(op, h)
#define CH_ROWS_1(op, h) op(h, 0, 0, 0)
#define CH_ROWS_2(op, h) CH_ROWS_1(op, h) op(h, 1, 0, 1)
#define CH_ROWS_3(op, h) CH_ROWS_2(op, h) op(h, 2, 0, 2)
#define CH_ROWS_4(op, h) CH_ROWS_3(op, h) op(h, 3, 1, 0)
#define CH_ROWS_5(op, h) CH_ROWS_4(op, h) op(h, 4, 1, 1)
#define CH_ROWS_6(op, h) CH_ROWS_5(op, h) op(h, 5, 1, 2)
#define CH_ROWS_7(op, h) CH_ROWS_6(op, h) op(h, 6, 2, 0)

#define CH_COLS_1(op, h, r) op(h, r, 0)
#define CH_COLS_2(op, h, r) op(h, r, 0) op(h, r, 1)
#define CH_COLS_3(op, h, r) CH_COLS_2(op, h, r) op(h, r, 2)
#define CH_COLS_4(op, h, r) CH_COLS_3(op, h, r) op(h, r, 3)
#define CH_COLS_JOIN(n)     CH_COLS_##n
#define CH_COLS_OF(n)       CH_COLS_JOIN(n)
#define CH_COLS             CH_COLS_OF(CONV_NRV)

#define CH_ZERO(h, r, j)  vf c##h##_##r##_##j = v_set(0);
#define CH_LOAD(h, r, j)  vf b##j = v_load(b + step * CONV_NR + (j) * VL);
#define CH_AHEAD(h, r, j) __builtin_prefetch(b + (step + CONV_AHEAD) * CONV_NR + (j) * VL);
#define CH_GATE(h, r, j)  b##j = v_mul(b##j, g);
#define CH_FMA(h, r, j)   c##h##_##r##_##j = v_fma(x, b##j, c##h##_##r##_##j);
#define CH_BIAS(h, r, j)  c##h##_##r##_##j = v_add(c##h##_##r##_##j, v_load(t->bias + (j) * VL));
#define CH_OTHER(h, r, j)                                                                                              \
    c##h##_##r##_##j = v_add(c##h##_##r##_##j, v_load(t->other[h] + (r) * t->other_row + (j) * VL));
#define CH_STORE(h, r, j) v_store(t->c[h] + (r) * t->c_row + (j) * VL, conv_finish(&f, c##h##_##r##_##j));
#define CH_GO_ON(h, r, j) c##h##_##r##_##j = v_load(t->c[h] + (r) * t->c_row + (j) * VL);
#define CH_RAW(h, r, j)   v_store(t->c[h] + (r) * t->c_row + (j) * VL, c##h##_##r##_##j);
/* Prefetches lines that the sums will be written to or added to. */
#define CH_SOON(h, r, j)                                                                                               \
    if ((j) * VL % 16 == 0) {                                                                                          \
        __builtin_prefetch(t->c[h] + (r) * t->c_row + (j) * VL, 1);                                                    \
        if (t->other[h]) __builtin_prefetch(t->other[h] + (r) * t->other_row + (j) * VL);                              \
    }
/* The same for the last panel of a layer, in which some columns are missing: n[j] columns of vector j exist. */
#define CH_OTHER_N(h, r, j)                                                                                            \
    c##h##_##r##_##j = v_add(c##h##_##r##_##j, v_load_n(t->other[h] + (r) * t->other_row + (j) * VL, n[j]));
#define CH_STORE_N(h, r, j) v_store_n(t->c[h] + (r) * t->c_row + (j) * VL, conv_finish(&f, c##h##_##r##_##j), n[j]);
#define CH_GO_ON_N(h, r, j) c##h##_##r##_##j = v_load_n(t->c[h] + (r) * t->c_row + (j) * VL, n[j]);
#define CH_RAW_N(h, r, j)   v_store_n(t->c[h] + (r) * t->c_row + (j) * VL, c##h##_##r##_##j, n[j]);

#define CH_ROW_ZERO(h, r, g, m)    CH_COLS(CH_ZERO, h, r)
#define CH_ROW_BIAS(h, r, g, m)    CH_COLS(CH_BIAS, h, r)
#define CH_ROW_OTHER(h, r, g, m)   CH_COLS(CH_OTHER, h, r)
#define CH_ROW_STORE(h, r, g, m)   CH_COLS(CH_STORE, h, r)
#define CH_ROW_GO_ON(h, r, g, m)   CH_COLS(CH_GO_ON, h, r)
#define CH_ROW_RAW(h, r, g, m)     CH_COLS(CH_RAW, h, r)
#define CH_ROW_SOON(h, r, g, m)    CH_COLS(CH_SOON, h, r)
#define CH_ROW_OTHER_N(h, r, g, m) CH_COLS(CH_OTHER_N, h, r)
#define CH_ROW_STORE_N(h, r, g, m) CH_COLS(CH_STORE_N, h, r)
#define CH_ROW_GO_ON_N(h, r, g, m) CH_COLS(CH_GO_ON_N, h, r)
#define CH_ROW_RAW_N(h, r, g, m)   CH_COLS(CH_RAW_N, h, r)
#define CH_ROW_FMA(h, r, g, m)                                                                                         \
    {                                                                                                                  \
        vf x = v_set(p##h##_##g[(m) * s + step]);                                                                      \
        CH_COLS(CH_FMA, h, r)                                                                                          \
    }
/* Each element of k may have a separate factor for its weights. */
#define CH_GATE_0
#define CH_GATE_1                                                                                                      \
    const vf g = v_set(gate[step]);                                                                                    \
    CH_COLS(CH_GATE, 0, 0)
#define CH_STEP(FIRST, SECOND, GATED, o)                                                                               \
    {                                                                                                                  \
        enum { step = (o) };                                                                                           \
        CH_COLS(CH_LOAD, 0, 0)                                                                                         \
        CH_GATE_##GATED CH_COLS(CH_AHEAD, 0, 0) FIRST(CH_ROW_FMA, 0) SECOND(CH_ROW_FMA, 1)                             \
    }
#define CH_NEXT(n)                                                                                                     \
    gate += (n), b += (n) * CONV_NR, p0_0 += (n), p0_1 += (n), p0_2 += (n), p1_0 += (n), p1_1 += (n), p1_2 += (n)

VFN int64_t conv_clip(int64_t n) { return n < 0 ? 0 : n > VL ? VL : n; }

/* Four steps per iteration, because short code is decoded as fast as it runs. */
#define CH_TILE(NAME, FIRST, SECOND, GATED)                                                                            \
    static VTARGET void NAME(const cpu_conv_tile *t) {                                                                 \
        FIRST(CH_ROW_ZERO, 0)                                                                                          \
        SECOND(CH_ROW_ZERO, 1)                                                                                         \
        const int64_t s = t->a_row;                                                                                    \
        const float *b = t->b;                                                                                         \
        const float *gate = GATED ? t->gate : t->b;                                                                    \
        const char *later = t->later;                                                                                  \
        FIRST(CH_ROW_SOON, 0)                                                                                          \
        SECOND(CH_ROW_SOON, 1)                                                                                         \
        const bool whole = t->cols >= CH_WIDTH;                                                                        \
        int64_t n[CONV_NRV];                                                                                           \
        for (int j = 0; j < CONV_NRV; j++) n[j] = conv_clip(t->cols - j * VL);                                         \
        if (t->add && whole) {                                                                                         \
            FIRST(CH_ROW_GO_ON, 0)                                                                                     \
            SECOND(CH_ROW_GO_ON, 1)                                                                                    \
        } else if (t->add) {                                                                                           \
            FIRST(CH_ROW_GO_ON_N, 0)                                                                                   \
            SECOND(CH_ROW_GO_ON_N, 1)                                                                                  \
        }                                                                                                              \
        for (int tap = 0; tap < t->taps; tap++) {                                                                      \
            const float *p0_0 = t->a[0] + t->tap[tap], *p0_1 = p0_0 + 3 * s, *p0_2 = p0_0 + 6 * s;                     \
            const float *p1_0 = t->a[1] + t->tap[tap], *p1_1 = p1_0 + 3 * s, *p1_2 = p1_0 + 6 * s;                     \
            int64_t k = t->k;                                                                                          \
            (void)p0_1, (void)p0_2, (void)p1_0, (void)p1_1, (void)p1_2;                                                \
            for (; k >= 4; k -= 4, CH_NEXT(4)) {                                                                       \
                CH_STEP(FIRST, SECOND, GATED, 0)                                                                       \
                CH_STEP(FIRST, SECOND, GATED, 1)                                                                       \
                __builtin_prefetch(later, 0, 2);                                                                       \
                __builtin_prefetch(later + 64, 0, 2);                                                                  \
                later += 128;                                                                                          \
                CH_STEP(FIRST, SECOND, GATED, 2)                                                                       \
                CH_STEP(FIRST, SECOND, GATED, 3)                                                                       \
            }                                                                                                          \
            for (; k > 0; k--, CH_NEXT(1)) CH_STEP(FIRST, SECOND, GATED, 0)                                            \
        }                                                                                                              \
        if (!t->finish && whole) {                                                                                     \
            FIRST(CH_ROW_RAW, 0)                                                                                       \
            SECOND(CH_ROW_RAW, 1)                                                                                      \
            return;                                                                                                    \
        }                                                                                                              \
        if (!t->finish) {                                                                                              \
            FIRST(CH_ROW_RAW_N, 0)                                                                                     \
            SECOND(CH_ROW_RAW_N, 1)                                                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        const cpu_conv_finish f = *t->finish;                                                                          \
        if (t->bias) {                                                                                                 \
            FIRST(CH_ROW_BIAS, 0)                                                                                      \
            SECOND(CH_ROW_BIAS, 1)                                                                                     \
        }                                                                                                              \
        if (!whole) {                                                                                                  \
            if (t->other[0]) {                                                                                         \
                FIRST(CH_ROW_OTHER_N, 0)                                                                               \
                SECOND(CH_ROW_OTHER_N, 1)                                                                              \
            }                                                                                                          \
            FIRST(CH_ROW_STORE_N, 0)                                                                                   \
            SECOND(CH_ROW_STORE_N, 1)                                                                                  \
            return;                                                                                                    \
        }                                                                                                              \
        if (t->other[0]) {                                                                                             \
            FIRST(CH_ROW_OTHER, 0)                                                                                     \
            SECOND(CH_ROW_OTHER, 1)                                                                                    \
        }                                                                                                              \
        FIRST(CH_ROW_STORE, 0)                                                                                         \
        SECOND(CH_ROW_STORE, 1)                                                                                        \
    }

#define CH_SINGLE_NAMED(n, width)                                                                                      \
    CH_TILE(KERNEL_TILE(conv, f32, n, width), CH_ROWS_##n, CH_ROWS_0, 0)                                               \
    CH_TILE(KERNEL_TILE(conv_gated, f32, n, width), CH_ROWS_##n, CH_ROWS_0, 1)
#define CH_PAIR_NAMED(n, width)                                                                                        \
    CH_TILE(KERNEL_TILE(conv_pair, f32, n, width), CH_ROWS_##n, CH_ROWS_##n, 0)                                        \
    CH_TILE(KERNEL_TILE(conv_pair_gated, f32, n, width), CH_ROWS_##n, CH_ROWS_##n, 1)
#define CH_PAIR(n, width) CH_PAIR_NAMED(n, width)
#if CONV_HALF == 2
#define CH_ALL(op, width) op(1, width) op(2, width)
#elif CONV_HALF == 3
#define CH_ALL(op, width) op(1, width) op(2, width) op(3, width)
#elif CONV_HALF == 4
#define CH_ALL(op, width) op(1, width) op(2, width) op(3, width) op(4, width)
#else
#define CH_ALL(op, width) op(1, width) op(2, width) op(3, width) op(4, width) op(5, width) op(6, width) op(7, width)
#endif
#define CH_WIDTH CONV_NR
CH_PAIR(CONV_HALF, CONV_NR)
CH_ALL(CH_SINGLE_NAMED, CONV_NR)
/* For panels of at most one vector. */
#undef CH_COLS
#undef CH_WIDTH
#define CH_COLS  CH_COLS_1
#define CH_WIDTH VL
CH_PAIR(CONV_HALF, VL)
CH_ALL(CH_SINGLE_NAMED, VL)
#define CH_ENTRY(n, width)       KERNEL_TILE(conv, f32, n, width),
#define CH_GATED_ENTRY(n, width) KERNEL_TILE(conv_gated, f32, n, width),

/* ---- windows ----------------------------------------------------------------------------------------------------- */

VFN vf conv_tap(vf sum, vf x, vf w, const cpu_conv_kind kind) {
    return kind == CPU_CONV_WEIGHTS ? v_fma(x, w, sum) : kind == CPU_CONV_MAX ? v_max_nan(sum, x) : v_add(sum, x);
}

VFN vf conv_start(const cpu_conv_line *l, int64_t c, const cpu_conv_kind kind) {
    if (kind == CPU_CONV_MAX) return v_set(-INFINITY);
    return kind == CPU_CONV_WEIGHTS && l->bias ? v_load(l->bias + c) : v_set(0);
}

VFN void conv_out(const cpu_conv_line *l, int64_t at, int64_t c, int64_t n, vf sum) {
    if (l->parts) sum = v_div(sum, v_set(l->parts[at]));
    float *to = l->y + at * l->y_col + c;
    if (n >= VL)
        v_store(to, conv_finish(l->finish, sum));
    else
        v_store_n(to, conv_finish(l->finish, sum), n);
}

/* Computes result `at` with taps from0 .. to0-1 of each row. */
VFN void conv_one(const cpu_conv_line *l, int64_t at, int64_t from0, int64_t to0, int64_t c, int64_t n,
                  const cpu_conv_kind kind) {
    vf sum = conv_start(l, c, kind);
    for (int64_t i = l->from; i < l->to; i++) {
        const float *x = l->x + i * l->row + (at * l->step - l->before + from0 * l->dilation) * l->col + c;
        const float *w = l->w + (i * l->kernel + from0) * l->w_row + c;
        for (int64_t j = from0; j < to0; j++, x += l->dilation * l->col, w += l->w_row)
            sum = conv_tap(sum, n >= VL ? v_load(x) : v_load_n(x, n), kind == CPU_CONV_WEIGHTS ? v_load(w) : v_set(0),
                           kind);
    }
    conv_out(l, at, c, n, sum);
}

/* Like conv_one, but for four vectors of channels, whose chains are independent. */
VFN void conv_wide(const cpu_conv_line *l, int64_t at, int64_t from0, int64_t to0, int64_t c,
                   const cpu_conv_kind kind) {
    vf s0 = conv_start(l, c, kind), s1 = conv_start(l, c + VL, kind);
    vf s2 = conv_start(l, c + 2 * VL, kind), s3 = conv_start(l, c + 3 * VL, kind);
    const bool weights = kind == CPU_CONV_WEIGHTS;
    for (int64_t i = l->from; i < l->to; i++) {
        const float *x = l->x + i * l->row + (at * l->step - l->before + from0 * l->dilation) * l->col + c;
        const float *w = weights ? l->w + (i * l->kernel + from0) * l->w_row + c : NULL;
        for (int64_t j = from0; j < to0; j++, x += l->dilation * l->col) {
            s0 = conv_tap(s0, v_load(x), weights ? v_load(w) : v_set(0), kind);
            s1 = conv_tap(s1, v_load(x + VL), weights ? v_load(w + VL) : v_set(0), kind);
            s2 = conv_tap(s2, v_load(x + 2 * VL), weights ? v_load(w + 2 * VL) : v_set(0), kind);
            s3 = conv_tap(s3, v_load(x + 3 * VL), weights ? v_load(w + 3 * VL) : v_set(0), kind);
            if (weights) w += l->w_row;
        }
    }
    conv_out(l, at, c, VL, s0);
    conv_out(l, at, c + VL, VL, s1);
    conv_out(l, at, c + 2 * VL, VL, s2);
    conv_out(l, at, c + 3 * VL, VL, s3);
}

/* Computes four results whose windows are inside the image. */
VFN void conv_four(const cpu_conv_line *l, int64_t at, int64_t c, int64_t n, const cpu_conv_kind kind) {
    vf s0 = conv_start(l, c, kind), s1 = s0, s2 = s0, s3 = s0;
    const int64_t next = l->step * l->col, tap = l->dilation * l->col;
    for (int64_t i = l->from; i < l->to; i++) {
        const float *x = l->x + i * l->row + (at * l->step - l->before) * l->col + c;
        const float *w = kind == CPU_CONV_WEIGHTS ? l->w + i * l->kernel * l->w_row + c : NULL;
        for (int64_t j = 0; j < l->kernel; j++, x += tap) {
            const vf weight = kind == CPU_CONV_WEIGHTS ? v_load(w + j * l->w_row) : v_set(0);
            s0 = conv_tap(s0, n >= VL ? v_load(x) : v_load_n(x, n), weight, kind);
            s1 = conv_tap(s1, n >= VL ? v_load(x + next) : v_load_n(x + next, n), weight, kind);
            s2 = conv_tap(s2, n >= VL ? v_load(x + 2 * next) : v_load_n(x + 2 * next, n), weight, kind);
            s3 = conv_tap(s3, n >= VL ? v_load(x + 3 * next) : v_load_n(x + 3 * next, n), weight, kind);
        }
    }
    conv_out(l, at, c, n, s0);
    conv_out(l, at + 1, c, n, s1);
    conv_out(l, at + 2, c, n, s2);
    conv_out(l, at + 3, c, n, s3);
}

enum { CONV_SEVEN = 7 };

/* Computes seven results of windows that are three or five taps wide and one or two points apart. Each point is read
 * once for all its taps. */
VFN void conv_seven(const cpu_conv_line *l, int64_t at, int64_t c, int64_t n, const int kernel, const int step) {
    const vf start = conv_start(l, c, CPU_CONV_WEIGHTS);
    /* Arrays are not indexed in loops, so that they stay in registers. */
    vf s[CONV_SEVEN] = {start, start, start, start, start, start, start};
    for (int64_t i = l->from; i < l->to; i++) {
        const float *x = l->x + i * l->row + (at * step - l->before) * l->col + c,
                    *w = l->w + i * kernel * l->w_row + c;
        const vf k[5] = {v_load(w), v_load(w + l->w_row), v_load(w + 2 * l->w_row),
                         kernel > 3 ? v_load(w + 3 * l->w_row) : start, kernel > 3 ? v_load(w + 4 * l->w_row) : start};
#define CH_TAP(u, j)                                                                                                   \
    if ((j) < kernel && (u) >= (j) && ((u) - (j)) % step == 0 && ((u) - (j)) / step < CONV_SEVEN)                      \
    s[((u) - (j)) / step % CONV_SEVEN] = v_fma(v, k[j], s[((u) - (j)) / step % CONV_SEVEN])
#define CH_POINT(u)                                                                                                    \
    if ((u) < (CONV_SEVEN - 1) * step + kernel) {                                                                      \
        const vf v = n >= VL ? v_load(x) : v_load_n(x, n);                                                             \
        CH_TAP(u, 4);                                                                                                  \
        CH_TAP(u, 3);                                                                                                  \
        CH_TAP(u, 2);                                                                                                  \
        CH_TAP(u, 1);                                                                                                  \
        CH_TAP(u, 0);                                                                                                  \
        x += l->col;                                                                                                   \
    }
        CH_POINT(0);
        CH_POINT(1);
        CH_POINT(2);
        CH_POINT(3);
        CH_POINT(4);
        CH_POINT(5);
        CH_POINT(6);
        CH_POINT(7);
        CH_POINT(8);
        CH_POINT(9);
        CH_POINT(10);
        CH_POINT(11);
        CH_POINT(12);
        CH_POINT(13);
        CH_POINT(14);
        CH_POINT(15);
        CH_POINT(16);
    }
    const cpu_conv_finish f = *l->finish;
    float *to = l->y + at * l->y_col + c;
#define CH_OUT(r)                                                                                                      \
    if (n >= VL)                                                                                                       \
        v_store(to + (r) * l->y_col, conv_finish(&f, s[r]));                                                           \
    else                                                                                                               \
        v_store_n(to + (r) * l->y_col, conv_finish(&f, s[r]), n)
    CH_OUT(0);
    CH_OUT(1);
    CH_OUT(2);
    CH_OUT(3);
    CH_OUT(4);
    CH_OUT(5);
    CH_OUT(6);
}

/* These functions compute seven results for all channels. They are not one function, because compile time grows much
 * faster than code size. */
#define CH_SEVENS(kernel, step)                                                                                        \
    static VTARGET __attribute__((noinline)) void conv_sevens_##kernel##_##step(const cpu_conv_line *l, int64_t at) {  \
        const int64_t whole = l->channels / VL * VL;                                                                   \
        for (int64_t c = 0; c < whole; c += VL) conv_seven(l, at, c, VL, kernel, step);                                \
        if (whole < l->channels) conv_seven(l, at, whole, l->channels - whole, kernel, step);                          \
    }
CH_SEVENS(3, 1)
CH_SEVENS(3, 2)
CH_SEVENS(5, 1)
CH_SEVENS(5, 2)

typedef void conv_sevens(const cpu_conv_line *l, int64_t at);

/* Returns NULL for windows of another form. */
VFN conv_sevens *conv_sevens_of(const cpu_conv_line *l, const cpu_conv_kind kind) {
    if (kind != CPU_CONV_WEIGHTS || l->dilation != 1 || l->step > 2) return NULL;
    return l->kernel == 3   ? (l->step == 1 ? conv_sevens_3_1 : conv_sevens_3_2)
           : l->kernel == 5 ? (l->step == 1 ? conv_sevens_5_1 : conv_sevens_5_2)
                            : NULL;
}

VFN void conv_line(const cpu_conv_line *l, const cpu_conv_kind kind) {
    const int64_t reach = (l->kernel - 1) * l->dilation, whole = l->channels / VL * VL;
    conv_sevens *sevens = conv_sevens_of(l, kind);
    for (int64_t at = 0; at < l->count;) {
        const int64_t first = at * l->step - l->before;
        if (sevens && at + CONV_SEVEN <= l->count && first >= 0 && first + (CONV_SEVEN - 1) * l->step + reach < l->in) {
            sevens(l, at);
            at += CONV_SEVEN;
            continue;
        }
        if (at + 4 <= l->count && first >= 0 && first + 3 * l->step + reach < l->in) {
            for (int64_t c = 0; c < whole; c += VL) conv_four(l, at, c, VL, kind);
            if (whole < l->channels) conv_four(l, at, whole, l->channels - whole, kind);
            at += 4;
            continue;
        }
        int64_t from = 0, to = l->kernel, c = 0;
        while (from < to && first + from * l->dilation < 0) from++;
        while (to > from && first + (to - 1) * l->dilation >= l->in) to--;
        for (; c + 4 * VL <= l->channels; c += 4 * VL) conv_wide(l, at, from, to, c, kind);
        for (; c < whole; c += VL) conv_one(l, at, from, to, c, VL, kind);
        if (whole < l->channels) conv_one(l, at, from, to, whole, l->channels - whole, kind);
        at++;
    }
}

/* ---- minimal filtering ------------------------------------------------------------------------------------------- */

/* Transforms six values in place. The interpolation points are 0, 1, -1, 2, -2 and infinity. */
VFN void conv_bt(vf *d, int step) {
    const vf d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const vf four = v_set(4), five = v_set(5), two = v_set(2);
    const vf a = v_fnma(four, d2, d4), b = v_fnma(four, d1, d3), c = v_sub(d4, d2), e = v_mul(two, v_sub(d3, d1));
    d[0] = v_add(v_fnma(five, d2, v_mul(four, d0)), d4);
    d[step] = v_add(a, b);
    d[2 * step] = v_sub(a, b);
    d[3 * step] = v_add(c, e);
    d[4 * step] = v_sub(c, e);
    d[5 * step] = v_add(v_fnma(five, d3, v_mul(four, d1)), d5);
}

/* Transforms six values to four. */
VFN void conv_at(vf *m, int step) {
    const vf m0 = m[0], m5 = m[5 * step], two = v_set(2), four = v_set(4), eight = v_set(8);
    const vf a = v_add(m[step], m[2 * step]), b = v_sub(m[step], m[2 * step]);
    const vf c = v_add(m[3 * step], m[4 * step]), d = v_sub(m[3 * step], m[4 * step]);
    m[0] = v_add(v_add(m0, a), c);
    m[step] = v_fma(two, d, b);
    m[2 * step] = v_fma(four, c, a);
    m[3 * step] = v_add(v_fma(eight, d, b), m5);
}

static VTARGET void KERNEL(winograd_in, f32)(const cpu_conv_winograd *s) {
    for (int64_t c = 0; c < s->channels; c += VL) {
        const int64_t n = s->channels - c < VL ? s->channels - c : VL;
        vf d[36];
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++) {
                const bool inside = i >= s->top && i < s->bottom && j >= s->left && j < s->right;
                const float *x = s->x + i * s->x_row + j * s->x_col + c;
                d[6 * i + j] = !inside ? v_set(0) : n >= VL ? v_load(x) : v_load_n(x, n);
            }
        for (int j = 0; j < 6; j++) conv_bt(d + j, 6);
        for (int i = 0; i < 6; i++) conv_bt(d + 6 * i, 1);
        for (int i = 0; i < 36; i++)
            if (n >= VL)
                v_store(s->v + i * s->v_next + c, d[i]);
            else
                v_store_n(s->v + i * s->v_next + c, d[i], n);
    }
}

static VTARGET void KERNEL(winograd_out, f32)(const cpu_conv_winograd *s) {
    for (int64_t c = 0; c < s->channels; c += VL) {
        const int64_t n = s->channels - c < VL ? s->channels - c : VL;
        const vf bias = s->bias ? v_load(s->bias + c) : v_set(0);
        vf m[36];
        for (int i = 0; i < 36; i++) {
            const float *from = s->m + i * s->v_next + c;
            m[i] = n >= VL ? v_load(from) : v_load_n(from, n);
        }
        for (int j = 0; j < 6; j++) conv_at(m + j, 6);
        for (int i = 0; i < 4; i++) conv_at(m + 6 * i, 1);
        for (int i = 0; i < s->bottom; i++)
            for (int j = 0; j < s->right; j++) {
                vf v = v_add(m[6 * i + j], bias);
                if (s->other) v = v_add(v, v_load_n(s->other + i * s->other_row + j * s->other_col + c, n));
                v_store_n(s->y + i * s->y_row + j * s->y_col + c, conv_finish(s->finish, v), n);
            }
    }
}

static VTARGET void KERNEL(window_line_weights, f32)(const cpu_conv_line *l) { conv_line(l, CPU_CONV_WEIGHTS); }
static VTARGET void KERNEL(window_line_max, f32)(const cpu_conv_line *l) { conv_line(l, CPU_CONV_MAX); }
static VTARGET void KERNEL(window_line_sum, f32)(const cpu_conv_line *l) { conv_line(l, CPU_CONV_SUM); }

static const cpu_conv_kernels KERNEL(conv, f32) = {
    .half = CONV_HALF,
    .width = CONV_NR,
    .lanes = VL,
    .square_in = KERNEL(winograd_in, f32),
    .square_out = KERNEL(winograd_out, f32),
    .pair = {{KERNEL_TILE(conv_pair, f32, CONV_HALF, CONV_NR), KERNEL_TILE(conv_pair, f32, CONV_HALF, VL)},
             {KERNEL_TILE(conv_pair_gated, f32, CONV_HALF, CONV_NR), KERNEL_TILE(conv_pair_gated, f32, CONV_HALF, VL)}},
    .single = {{{CH_ALL(CH_ENTRY, CONV_NR)}, {CH_ALL(CH_ENTRY, VL)}},
               {{CH_ALL(CH_GATED_ENTRY, CONV_NR)}, {CH_ALL(CH_GATED_ENTRY, VL)}}},
    .line = {KERNEL(window_line_weights, f32), KERNEL(window_line_max, f32), KERNEL(window_line_sum, f32)},
};

#endif
