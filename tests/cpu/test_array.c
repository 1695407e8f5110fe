/* SPDX-License-Identifier: MIT
 * The multiply-add array's products (cpu/simd/array_ukernel.h) of every instruction set, compared with the sums of
 * ane/h13/accumulate.h: the same bits.
 */
#include <math.h>
#include <string.h>

#include "ane/h13/accumulate.h"
#include "core/base/float16.h"
#include "cpu/simd/kernels.h"
#include "support/test.h"

enum { DEPTH = 60 };

static unsigned state = 7;

static unsigned draw(void) { return (state = state * 1664525u + 1013904223u) >> 8; }

/* Returns any fp16 of a size between 2^low and 2^high; every tenth is 0, a subnormal or a power of two. */
static float number(int low, int high) {
    const int kind = (int)(draw() % 30);
    const float sign = draw() % 2 ? 1 : -1;
    if (kind == 0) return 0;
    if (kind == 1) return sign * ldexpf((float)(draw() % 1024), -24);
    const float m = kind == 2 ? 1 : 1 + (float)(draw() % 1024) / 1024;
    return sign * ldexpf(m, low + (int)(draw() % (unsigned)(high - low)));
}

static void compare(const cpu_array_kernels *k, const char *isa, bool far, int low, int high, int depth) {
    float a[CPU_ARRAY_ROWS][DEPTH], up[CPU_ARRAY_ROWS * DEPTH], least[CPU_ARRAY_ROWS * DEPTH];
    float panel[DEPTH * CPU_ARRAY_COLUMNS];
    int32_t four[CPU_ARRAY_ROWS][CPU_ARRAY_COLUMNS], one[1][CPU_ARRAY_COLUMNS];
    for (int r = 0; r < CPU_ARRAY_ROWS; r++)
        for (int i = 0; i < DEPTH; i++) a[r][i] = number(low, high);
    for (int i = 0; i < DEPTH * CPU_ARRAY_COLUMNS; i++) panel[i] = number(low, high);
    k->left(up, least, a[0], CPU_ARRAY_ROWS * DEPTH);
    for (int r = 0; r < CPU_ARRAY_ROWS; r++)
        for (int c = 0; c < CPU_ARRAY_COLUMNS; c++) four[r][c] = 1000 * r - c;
    (far ? k->far_rows : k->near_rows)(four, (cpu_array_left){up, least, DEPTH}, panel, depth);
    for (int r = 0; r < CPU_ARRAY_ROWS; r++) {
        double sum[CPU_ARRAY_COLUMNS], worst[CPU_ARRAY_COLUMNS] = {0};
        for (int c = 0; c < CPU_ARRAY_COLUMNS; c++) sum[c] = one[0][c] = 1000 * r - c;
        for (int i = 0; i < depth; i++)
            accumulate_add(sum, worst, a[r][i], panel + i * CPU_ARRAY_COLUMNS, CPU_ARRAY_COLUMNS);
        (far ? k->far_one : k->near_one)(one, (cpu_array_left){up + r * DEPTH, least + r * DEPTH, DEPTH}, panel, depth);
        for (int c = 0; c < CPU_ARRAY_COLUMNS; c++)
            EXPECT_MSG(four[r][c] == sum[c] && one[0][c] == sum[c], "%s, 2^%d to 2^%d: %d, %d, expected %g", isa, low,
                       high, four[r][c], one[0][c], sum[c]);
    }
}

/* No sum leaves int32: 60 products below 2^8, 5 below 2^12, one below 2^14. */
TEST(rounded_products_have_the_same_bits) {
    for (cpu_isa isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available(isa)) continue;
        const cpu_kernels *k = cpu_kernels_of(isa);
        for (int round = 0; round < 40; round++) {
            compare(&k->array, cpu_isa_name(isa), false, -14, 3, DEPTH);  /* products below 64 */
            compare(&k->array, cpu_isa_name(isa), false, -10, -6, DEPTH); /* near the step of 2^-16 */
            compare(&k->array, cpu_isa_name(isa), true, -14, 4, DEPTH);
            compare(&k->array, cpu_isa_name(isa), true, -12, -4, DEPTH);
            compare(&k->array, cpu_isa_name(isa), true, 3, 6, 5);
            compare(&k->array, cpu_isa_name(isa), true, 5, 7, 1);
        }
    }
}

SUITE("cpu/array", T(rounded_products_have_the_same_bits))
