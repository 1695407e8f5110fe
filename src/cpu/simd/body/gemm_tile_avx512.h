/* SPDX-License-Identifier: MIT
 * The tallest tile of AVX-512, 14 x 32, in assembly. 28 sums, 2 vectors of B and 2 broadcast words of A occupy all 32
 * registers. For the same tile in C, compilers move sums through memory in each iteration. Included by kernels_avx512.c
 * before gemm_body.h, which takes all tiles of 14 rows from this file.
 *
 * Sum (r, j) is in register 4 + 2 r + j. A turn is four steps of k. It prefetches the panels ahead and one line that is
 * needed soon. The last FETCHING turns also each prefetch a line of the memory to which the sums are added or written.
 *
 * The tiles of gemm_pack_a pack their panel of A while they compute. Each turn copies what the next one reads, using
 * load and store slots that the multiply-adds leave free.
 */
#ifndef CPU_SIMD_BODY_GEMM_TILE_AVX512_H
#define CPU_SIMD_BODY_GEMM_TILE_AVX512_H

#include "cpu/simd/gemm_ukernel.h"

/* Values that the assembly reads in addition to its registers. The assembly contains their offsets. */
typedef struct tile_call {
    int64_t fetching_turns, steps; /* 0, 8: turns with lines of C; single steps after them */
    float *c;                      /* 16 */
    int64_t c_row;                 /* 24: bytes */
    int64_t add;                   /* 32 */
    float alpha;                   /* 40 */
    int64_t addend;                /* 48: bytes from C to what is added */
    int64_t back;                  /* 56: from the last row of a turn's source to the first of the next */
    int64_t piece[4][2];           /* 64: bytes from one copied piece to the next, in the source and in the target */
} tile_call;

enum { FETCHING = 28 };

VFN tile_call tile_call_of(int64_t kw, float *c, int64_t ldc, float alpha, bool add, const gemm_next *fetch) {
    const int64_t turns = kw / 4, late = turns < FETCHING ? turns & ~(int64_t)1 : FETCHING;
    const uintptr_t addend = (uintptr_t)(fetch->addend ? fetch->addend : c);
    return (tile_call){.fetching_turns = fetch->row ? late : 0,
                       .steps = kw % 4,
                       .c = c,
                       .c_row = ldc * 4,
                       .add = add,
                       .alpha = alpha,
                       .addend = (int64_t)(addend - (uintptr_t)c)};
}

#define TILE_TEXT(x)  #x
#define TILE_PLACE(x) TILE_TEXT(x)

/* The assembly text is longer than the string length that ISO C requires compilers to support. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
/* clang-format off */

/* Two rows of the tile: two words of A, four sums. */
#define TILE_PAIR(at0, at1, s0, s1, s2, s3)                       \
    "vbroadcastss " TILE_PLACE(at0) "(%[a]), %%zmm2\n\t"          \
    "vbroadcastss " TILE_PLACE(at1) "(%[a]), %%zmm3\n\t"          \
    "vfmadd231ps %%zmm0, %%zmm2, %%zmm" #s0 "\n\t"                \
    "vfmadd231ps %%zmm1, %%zmm2, %%zmm" #s1 "\n\t"                \
    "vfmadd231ps %%zmm0, %%zmm3, %%zmm" #s2 "\n\t"                \
    "vfmadd231ps %%zmm1, %%zmm3, %%zmm" #s3 "\n\t"

/* One step of k. Its words of A begin at `at` bytes, with one row every `row` bytes. */
#define TILE_STEP_OF(at, row, b0, b1, ahead_a, ahead_b0, ahead_b1) \
    "vmovups " #b0 "(%[b]), %%zmm0\n\t"                           \
    "vmovups " #b1 "(%[b]), %%zmm1\n\t"                           \
    "prefetcht0 " #ahead_b0 "(%[b])\n\t"                          \
    TILE_PAIR(at, at + row, 4, 5, 6, 7)                           \
    TILE_PAIR(at + 2 * row, at + 3 * row, 8, 9, 10, 11)           \
    "prefetcht0 " #ahead_b1 "(%[b])\n\t"                          \
    TILE_PAIR(at + 4 * row, at + 5 * row, 12, 13, 14, 15)         \
    TILE_PAIR(at + 6 * row, at + 7 * row, 16, 17, 18, 19)         \
    "prefetcht0 " #ahead_a "(%[a])\n\t"                           \
    TILE_PAIR(at + 8 * row, at + 9 * row, 20, 21, 22, 23)         \
    TILE_PAIR(at + 10 * row, at + 11 * row, 24, 25, 26, 27)       \
    TILE_PAIR(at + 12 * row, at + 13 * row, 28, 29, 30, 31)

/* B is prefetched 8 steps (of 128 bytes) ahead, A 24 (of 56). ONE to FOUR are the extra work of each step. */
#define TILE_TURN_WITH(step, row, ONE, TWO, THREE, FOUR)          \
    TILE_STEP_OF(0, row, 0, 64, 1344, 1024, 1088)                 \
    ONE                                                           \
    TILE_STEP_OF(step, row, 128, 192, 1400, 1152, 1216)           \
    TWO                                                           \
    TILE_STEP_OF(2 * step, row, 256, 320, 1456, 1280, 1344)       \
    THREE                                                         \
    TILE_STEP_OF(3 * step, row, 384, 448, 1512, 1408, 1472)       \
    FOUR                                                          \
    "add $224, %[a]\n\t"                                          \
    "add $512, %[b]\n\t"
#define TILE_FETCH                                                \
    "prefetcht1 (%[now])\n\t"                                     \
    "lea (%[now],%[next]), %[free]\n\t"                           \
    "mov %[then], %[now]\n\t"                                     \
    "mov %[free], %[then]\n\t"
#define TILE_TURN_OF(step, row) TILE_TURN_WITH(step, row, , , , TILE_FETCH)

#define TILE_EACH(op)                                             \
    op(4, 5) op(6, 7) op(8, 9) op(10, 11) op(12, 13) op(14, 15) op(16, 17) \
    op(18, 19) op(20, 21) op(22, 23) op(24, 25) op(26, 27) op(28, 29) op(30, 31)
#define TILE_CLEAR(s0, s1)                                        \
    "vpxord %%zmm" #s0 ", %%zmm" #s0 ", %%zmm" #s0 "\n\t"         \
    "vpxord %%zmm" #s1 ", %%zmm" #s1 ", %%zmm" #s1 "\n\t"
#define TILE_PUT(s0, s1)                                          \
    "vmulps %%zmm0, %%zmm" #s0 ", %%zmm" #s0 "\n\t"               \
    "vmulps %%zmm0, %%zmm" #s1 ", %%zmm" #s1 "\n\t"               \
    "vmovups %%zmm" #s0 ", (%[a])\n\t"                            \
    "vmovups %%zmm" #s1 ", 64(%[a])\n\t"                          \
    "add %[b], %[a]\n\t"
#define TILE_SUM(s0, s1)                                          \
    "vfmadd213ps (%[a],%[addend]), %%zmm0, %%zmm" #s0 "\n\t"                \
    "vfmadd213ps 64(%[a],%[addend]), %%zmm0, %%zmm" #s1 "\n\t"              \
    "vmovups %%zmm" #s0 ", (%[a])\n\t"                            \
    "vmovups %%zmm" #s1 ", 64(%[a])\n\t"                          \
    "add %[b], %[a]\n\t"

/* Multiplies the sums by alpha and stores them to C, possibly after adding C's content or another addend. */
#define TILE_END \
    "mov 48(%[call]), %[addend]\n\t" \
    "vbroadcastss 40(%[call]), %%zmm0\n\t" \
    "mov 16(%[call]), %[a]\n\t" \
    "mov 24(%[call]), %[b]\n\t" \
    "cmpq $0, 32(%[call])\n\t" \
    "jne 7f\n\t" \
    TILE_EACH(TILE_PUT) \
    "jmp 8f\n" \
    "7:\n\t" \
    TILE_EACH(TILE_SUM) \
    "8:\n\t"
#define TILE_REGISTERS                                            \
    "cc", "memory", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", \
        "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", "zmm23", \
        "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30", "zmm31"

/* Prefetches a row (two lines) of the memory to which the sums are added or written. */
#define TILE_LINE                                                 \
    "prefetcht0 (%[line])\n\t"                                    \
    "prefetcht0 (%[line],%[addend])\n\t"                          \
    "lea (%[line],%[line_step]), %[free]\n\t"                     \
    "lea 64(%[line]), %[line]\n\t"                                \
    "test $1, %[turns]\n\t"                                       \
    "cmovne %[free], %[line]\n\t"

/* All turns except the last single steps: first the plain ones, then those that prefetch lines of C. */
#define TILE_TURNS(turn)                                          \
    TILE_EACH(TILE_CLEAR)                                         \
    "test %[turns], %[turns]\n\t"                                 \
    "jle 2f\n\t"                                                  \
    ".p2align 6\n"                                                \
    "1:\n\t"                                                      \
    turn                                                          \
    "dec %[turns]\n\t"                                            \
    "jg 1b\n"                                                     \
    "2:\n\t"                                                      \
    "mov (%[call]), %[turns]\n\t"                                 \
    "mov 48(%[call]), %[addend]\n\t"                              \
    "test %[turns], %[turns]\n\t"                                 \
    "jle 4f\n\t"                                                  \
    ".p2align 6\n"                                                \
    "3:\n\t"                                                      \
    turn                                                          \
    TILE_LINE                                                     \
    "dec %[turns]\n\t"                                            \
    "jg 3b\n"                                                     \
    "4:\n\t"

/* STEP and ROW are the bytes from a word of A to that of the next step and of the next row. */
#define TILE_WRITTEN_OUT(NAME, STEP, ROW)                         \
    static VTARGET void NAME(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add, \
                             const gemm_next *fetch) {            \
        tile_call call = tile_call_of(kw, c, ldc, alpha, add, fetch); \
        int64_t turns = kw / 4 - call.fetching_turns, addend;     \
        const char *now = fetch->at, *then = now + fetch->second, *line = (const char *)fetch->row, *free; \
        __asm__ volatile(                                         \
            TILE_TURNS(TILE_TURN_OF(STEP, ROW))                   \
            "mov 8(%[call]), %[turns]\n\t"                        \
            "test %[turns], %[turns]\n\t"                         \
            "jle 6f\n"                                            \
            "5:\n\t"                                              \
            TILE_STEP_OF(0, ROW, 0, 64, 0, 0, 64)                 \
            "add $" #STEP ", %[a]\n\t"                            \
            "add $128, %[b]\n\t"                                  \
            "dec %[turns]\n\t"                                    \
            "jg 5b\n"                                             \
            "6:\n\t"                                              \
            TILE_END                                              \
            : [a] "+r"(a), [b] "+r"(b), [turns] "+r"(turns), [now] "+r"(now), [then] "+r"(then), [line] "+r"(line), \
              [free] "=&r"(free), [addend] "=&r"(addend)          \
            : [next] "r"(fetch->step), [line_step] "r"(fetch->row_step * 4 - 64), [call] "r"(&call) \
            : TILE_REGISTERS); \
    }

/* Copies words of A that the next turn reads: four of each row, from the source to the panel, `to` bytes after what
 * this turn reads. Also prefetches the line of the row that is needed some turns later. */
#define COPY_ROW(load, row, to)                                   \
    load " (%[source]" row "), %%xmm2\n\t"                        \
    "prefetcht0 256(%[source]" row ")\n\t"                       \
    "vmovups %%xmm2, " TILE_PLACE(to) "(%[a])\n\t"
#define COPY_ROWS_3(load, to)                                     \
    COPY_ROW(load, "", to) COPY_ROW(load, ",%[stride]", to + 16) COPY_ROW(load, ",%[stride],2", to + 32)
#define COPY_ROWS_4(load, to)                                     \
    COPY_ROWS_3(load, to) COPY_ROW(load, ",%[three]", to + 48) "lea (%[source],%[stride],4), %[source]\n\t"
#define COPY_FIRST(load, to)  COPY_ROWS_4(load, to)
#define COPY_SECOND(load, to) COPY_ROWS_4(load, to + 64)
#define COPY_THIRD(load, to)  COPY_ROWS_3(load, to + 128) "add %[three], %[source]\n\t"
#define COPY_FOURTH(load, to) COPY_ROWS_3(load, to + 176) "add 56(%[call]), %[source]\n\t"

/* FOUR is the size of four words in the source, in bytes. */
#define TILE_COPYING(NAME, LOAD, FOUR)                            \
    static VTARGET void NAME(float *a, const void *source, int64_t stride, const float *b, int64_t kw, float *c, \
                             int64_t ldc, float alpha, bool add, const gemm_next *fetch) { \
        tile_call call = tile_call_of(kw, c, ldc, alpha, add, fetch); \
        call.back = FOUR - 11 * stride;                           \
        int64_t turns = kw / 4 - 1, addend;                       \
        const char *now = fetch->at, *then = now + fetch->second, *free; \
        __asm__ volatile(                                         \
            COPY_FIRST(LOAD, 0) COPY_SECOND(LOAD, 0) COPY_THIRD(LOAD, 0) COPY_FOURTH(LOAD, 0) \
            TILE_EACH(TILE_CLEAR)                                 \
            "test %[turns], %[turns]\n\t"                         \
            "jle 2f\n\t"                                          \
            ".p2align 6\n"                                        \
            "1:\n\t"                                              \
            TILE_TURN_WITH(4, 16, COPY_FIRST(LOAD, 224), COPY_SECOND(LOAD, 224), COPY_THIRD(LOAD, 224), \
                           COPY_FOURTH(LOAD, 224) TILE_FETCH)     \
            "dec %[turns]\n\t"                                    \
            "jg 1b\n"                                             \
            "2:\n\t"                                              \
            TILE_TURN_OF(4, 16)                                   \
            TILE_END                                              \
            : [a] "+r"(a), [b] "+r"(b), [turns] "+r"(turns), [now] "+r"(now), [then] "+r"(then), \
              [source] "+r"(source), [free] "=&r"(free), [addend] "=&r"(addend) \
            : [next] "r"(fetch->step), [stride] "r"(stride), [three] "r"(3 * stride), [call] "r"(&call) \
            : TILE_REGISTERS);                                    \
    }

/* Copies a turn's piece of a panel, 14 words of one k, whose lines were prefetched to L1 some k earlier, and prefetches
 * a later piece. Four turns copy four adjacent pieces, one per panel. (Unrolling the four turns made the loop 5 %
 * slower.) */
#define PASS_PIECE(load, last)                                    \
    load " (%[take]), %%zmm2%{%%k1%}%{z%}\n\t"                    \
    "mov %[turns], %[free]\n\t"                                   \
    "prefetcht0 (%[take],%[ahead])\n\t"                           \
    "and $3, %[free]\n\t"                                         \
    "prefetcht0 " TILE_PLACE(last) "(%[take],%[ahead])\n\t"       \
    "shl $4, %[free]\n\t"                                         \
    "vmovups %%zmm2, (%[put])%{%%k1%}\n\t"                        \
    "add 64(%[call],%[free]), %[take]\n\t"                        \
    "add 72(%[call],%[free]), %[put]\n\t"

#define TILE_PASSING(NAME, LOAD, PIECE, LAST)                          \
    static VTARGET void NAME(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add, \
                             const gemm_next *fetch) {            \
        tile_call call = tile_call_of(kw, c, ldc, alpha, add, fetch); \
        int64_t turns = kw / 4 - call.fetching_turns, addend;     \
        const char *take = fetch->at, *line = (const char *)fetch->row, *free; \
        float *put = fetch->put;                                  \
        for (int i = 0; i < 4; i++) call.piece[i][0] = PIECE, call.piece[i][1] = fetch->put_step; \
        call.piece[1][0] = fetch->step - 3 * PIECE; /* turns count down: the fourth ends on 1 */ \
        call.piece[1][1] = 56 - 3 * fetch->put_step;              \
        __asm__ volatile(                                         \
            "mov $0x3fff, %k[free]\n\t"                           \
            "kmovw %k[free], %%k1\n\t"                            \
            TILE_TURNS(TILE_TURN_WITH(56, 4, , PASS_PIECE(LOAD, LAST), , )) \
            TILE_END                                              \
            : [a] "+r"(a), [b] "+r"(b), [turns] "+r"(turns), [take] "+r"(take), [put] "+r"(put), [line] "+r"(line), \
              [free] "=&r"(free), [addend] "=&r"(addend)          \
            : [ahead] "r"(fetch->second),                         \
              [line_step] "r"(fetch->row_step * 4 - 64), [call] "r"(&call) \
            : "k1", TILE_REGISTERS);                              \
    }

TILE_COPYING(KERNEL_TILE(gemm_pack_a, f32, 14, 32), "vmovups", 16)
TILE_COPYING(KERNEL_TILE(gemm_pack_a, f16, 14, 32), "vcvtph2ps", 8)
TILE_PASSING(KERNEL_TILE(gemm_pack_next, f32, 14, 32), "vmovups", 56, 52)
TILE_PASSING(KERNEL_TILE(gemm_pack_next, f16, 14, 32), "vcvtph2ps", 28, 24)
TILE_WRITTEN_OUT(KERNEL_TILE(gemm, f32, 14, 32), 56, 4)      /* A as [k][14] */
TILE_WRITTEN_OUT(KERNEL_TILE(gemm_quads, f32, 14, 32), 4, 16) /* A as [k / 4][14][4] */

/* clang-format on */
#pragma GCC diagnostic pop

#endif
