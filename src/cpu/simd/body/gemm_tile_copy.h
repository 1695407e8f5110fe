/* SPDX-License-Identifier: MIT
 * Tiles that pack on the fly, in C, for the tallest tile. Included by gemm_body.h after its tiles, if GEMM_COPIES is
 * defined. GEMM_COPIES(X) expands X(type's name, GEMM_MR, bytes per element, function that copies four neighbours,
 * function that copies GEMM_MR, type).
 *
 * Loads and stores of the copies cost nothing during the multiply-adds; in separate loops they took a tenth of the time
 * of a product with 256 columns. Words are copied COPY_LEAD steps of k before they are read, or for another block.
 */
#ifndef CPU_SIMD_BODY_GEMM_TILE_COPY_H
#define CPU_SIMD_BODY_GEMM_TILE_COPY_H

enum {
    COPY_LEAD = 16,
    COPY_AHEAD = 512, /* bytes in a row; one line per row is prefetched for every four quads */
    COLUMNS_LEAD = 16 /* lines of B */
};

/* Reads unpacked B. Each line is used for the arithmetic and written to the panel. */
#define LINE_COPY(r, j)                                                                                                \
    vf b##j = load_any(line + (j) * VL * size, dtype);                                                                 \
    v_store(b + at_b + (j) * VL, b##j);
#define COLUMNS_STEP(ROWS, w)                                                                                          \
    {                                                                                                                  \
        enum { at_k = (w), at_b = (w) * GEMM_NR };                                                                     \
        const char *line = from + (w) * stride;                                                                        \
        COLS(LINE_COPY, 0)                                                                                             \
        __builtin_prefetch(line + COLUMNS_LEAD * stride);                                                              \
        ROWS(ROW_FMA)                                                                                                  \
    }
#define TILE_COLUMNS(FORM, NAME, HEIGHT, SIZE, DTYPE)                                                                  \
    static VTARGET void KERNEL_TILE(FORM, NAME, HEIGHT, GEMM_NR)(const float *a, float *b, const void *source,         \
                                                                 int64_t stride, int64_t kw, float *c, int64_t ldc,    \
                                                                 float alpha, bool add, const gemm_next *fetch) {      \
        enum { size = SIZE };                                                                                          \
        const cpu_dtype dtype = DTYPE;                                                                                 \
        const char *from = source;                                                                                     \
        TILE_START(HEIGHT)                                                                                             \
        (void)ahead_a, (void)ahead_b;                                                                                  \
        for (; kw > 0;                                                                                                 \
             kw -= GEMM_QUAD, a += GEMM_QUAD * height, b += GEMM_QUAD * GEMM_NR, from += GEMM_QUAD * stride) {         \
            COLUMNS_STEP(ROWS_##HEIGHT, 0)                                                                             \
            COLUMNS_STEP(ROWS_##HEIGHT, 1)                                                                             \
            COLUMNS_STEP(ROWS_##HEIGHT, 2)                                                                             \
            COLUMNS_STEP(ROWS_##HEIGHT, 3)                                                                             \
            if (kw % GEMM_BLOCK) continue;                                                                             \
            TILE_STREAMS TILE_FETCH_ROW                                                                                \
        }                                                                                                              \
        TILE_FINISH(HEIGHT)                                                                                            \
    }
#define TILE_COLUMNS_FIRST(NAME, HEIGHT, SIZE, COPY_QUAD, COPY_PIECE, DTYPE)                                           \
    TILE_COLUMNS(gemm_pack_b, NAME, HEIGHT, SIZE, DTYPE)
#define TILE_COLUMNS_SECOND(NAME, HEIGHT, SIZE, COPY_QUAD, COPY_PIECE, DTYPE)                                          \
    TILE_COLUMNS(gemm_quads_pack_b, NAME, HEIGHT, SIZE, DTYPE)

/* A is [k / GEMM_QUAD][height][GEMM_QUAD]; its words are copied from `from`. */
#define A_WORD(r)     a[at_k / GEMM_QUAD * GEMM_QUAD * height + at_k % GEMM_QUAD + (r) * GEMM_QUAD]
#define COPY_FETCH(r) __builtin_prefetch(from + (r) * stride + COPY_AHEAD);
#define TILE_COPYING(NAME, HEIGHT, SIZE, COPY_QUAD, COPY_PIECE, DTYPE)                                                 \
    static VTARGET void KERNEL_TILE(gemm_pack_a, NAME, HEIGHT,                                                         \
                                    GEMM_NR)(float *a, const void *source, int64_t stride, const float *b, int64_t kw, \
                                             float *c, int64_t ldc, float alpha, bool add, const gemm_next *fetch) {   \
        const char *from = source;                                                                                     \
        float *to = a;                                                                                                 \
        TILE_START(HEIGHT)                                                                                             \
        for (int64_t k = 0; k < kw && k < COPY_LEAD; k += GEMM_QUAD, from += GEMM_QUAD * (SIZE))                       \
            for (int r = 0; r < height; r++, to += GEMM_QUAD) COPY_QUAD(to, from + r * stride);                        \
        for (; kw > 0; kw -= GEMM_QUAD, a += GEMM_QUAD * height, b += GEMM_QUAD * GEMM_NR) {                           \
            if (kw > COPY_LEAD) {                                                                                      \
                for (int r = 0; r < height; r++)                                                                       \
                    COPY_QUAD(a + (COPY_LEAD * height + r * GEMM_QUAD), from + r * stride);                            \
                from += GEMM_QUAD * (SIZE);                                                                            \
            }                                                                                                          \
            TILE_STEPS_4(ROWS_##HEIGHT, 0)                                                                             \
            if (kw % GEMM_BLOCK) continue;                                                                             \
            ROWS_##HEIGHT(COPY_FETCH) TILE_STREAMS TILE_FETCH_ROW                                                      \
        }                                                                                                              \
        TILE_FINISH(HEIGHT)                                                                                            \
    }
GEMM_COPIES(TILE_COPYING)
GEMM_COPIES(TILE_COLUMNS_SECOND)
#undef A_WORD

/* A is [k][height]; words of another block are copied. */
#define A_WORD(r) a[at_k * height + (r)]
#define TILE_PASSING(NAME, HEIGHT, SIZE, COPY_QUAD, COPY_PIECE, DTYPE)                                                 \
    static VTARGET void KERNEL_TILE(gemm_pack_next, NAME, HEIGHT, GEMM_NR)(const float *a, const float *b, int64_t kw, \
                                                                           float *c, int64_t ldc, float alpha,         \
                                                                           bool add, const gemm_next *fetch) {         \
        enum { piece = (HEIGHT) * (SIZE), bytes = GEMM_PASS_PANELS * piece };                                          \
        char *to = (char *)fetch->put;                                                                                 \
        TILE_START(HEIGHT)                                                                                             \
        for (; kw > 0; kw -= GEMM_BLOCK, a += GEMM_BLOCK * height, b += GEMM_BLOCK * GEMM_NR) {                        \
            for (int i = 0; i < GEMM_PASS_PANELS; i++)                                                                 \
                COPY_PIECE((float *)(void *)(to + i * fetch->put_step), now + i * piece);                              \
            for (int i = 0; i < bytes; i += 64) __builtin_prefetch(then + i);                                          \
            __builtin_prefetch(then + bytes - 1);                                                                      \
            to += height * sizeof(float), now += next, then += next;                                                   \
            TURN_STEPS(ROWS_##HEIGHT)                                                                                  \
            TILE_FETCH_ROW                                                                                             \
        }                                                                                                              \
        TILE_FINISH(HEIGHT)                                                                                            \
    }
GEMM_COPIES(TILE_PASSING)
GEMM_COPIES(TILE_COLUMNS_FIRST)
#undef A_WORD

#endif
