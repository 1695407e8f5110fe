/* SPDX-License-Identifier: MIT
 * Tiles that pack by the way, in C, for the tallest tile: included by gemm_body.h behind its tiles, where GEMM_COPIES is
 * defined. GEMM_COPIES(X): X(name's end, GEMM_MR, bytes of an element, what copies four neighbours, what copies GEMM_MR).
 *
 * Loads and stores of what is copied cost nothing beside the multiply-adds; in loops of their own they took a tenth of a
 * product with 256 columns. It is copied COPY_LEAD steps of k before it is read, or for another block.
 */
#ifndef DRIVERS_CPU_GEMM_TILE_COPY_H
#define DRIVERS_CPU_GEMM_TILE_COPY_H

enum { COPY_LEAD = 16, COPY_AHEAD = 512 /* bytes of a row; a line is fetched where four fours are copied */ };

/* A as [k / GEMM_QUAD][height][GEMM_QUAD]; its words are copied from `from` on. */
#define A_WORD(r)     a[at_k / GEMM_QUAD * GEMM_QUAD * height + at_k % GEMM_QUAD + (r) * GEMM_QUAD]
#define COPY_FETCH(r) __builtin_prefetch(from + (r) * stride + COPY_AHEAD);
#define TILE_COPYING(NAME, HEIGHT, SIZE, COPY_QUAD, COPY_PIECE)                                                        \
    static VTARGET void copy_rows##NAME(float *a, const void *source, int64_t stride, const float *b, int64_t kw,      \
                                        float *c, int64_t ldc, float alpha, bool add, const gemm_next *fetch) {        \
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
#undef A_WORD

/* A as [k][height]; words of another block are copied. */
#define A_WORD(r) a[at_k * height + (r)]
#define TILE_PASSING(NAME, HEIGHT, SIZE, COPY_QUAD, COPY_PIECE)                                                        \
    static VTARGET void pass##NAME(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha,     \
                                   bool add, const gemm_next *fetch) {                                                 \
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
#undef A_WORD

#endif
