/* SPDX-License-Identifier: MIT
 * fp16 and bfloat16: every value, and rounding compared with an exact search in the table of all values.
 */
#include "core/base/float16.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "support/test.h"

static bool is_nan16(unsigned h) { return (h & 0x7c00) == 0x7c00 && (h & 0x3ff); }

/* Returns the value of a finite fp16, by its definition. */
static double meaning(unsigned h) {
    int exponent = (int)(h >> 10) & 31, fraction = (int)h & 0x3ff;
    double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

/* Rounds to nearest, ties to even. All numbers compared here are exact in double. */
static uint16_t slow_from_f64(double v) {
    unsigned sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    unsigned low = 0, high = 0x7c00; /* 0x7c00 represents 65536, the next number in sequence */
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (meaning(middle) <= a)
            low = middle;
        else
            high = middle;
    }
    double below = meaning(low), above = high == 0x7c00 ? 65536.0 : meaning(high), half = (below + above) / 2;
    unsigned nearest = a < half ? low : a > half ? high : (low & 1) ? high : low;
    return (uint16_t)(sign | nearest);
}

TEST(every_fp16_value_round_trips) {
    for (unsigned h = 0; h < 65536; h++) {
        float f = fp16_to_f32((uint16_t)h);
        if (is_nan16(h)) {
            EXPECT(isnan(f));
            EXPECT(is_nan16(fp16_from_f32(f)) && is_nan16(fp16_from_f64((double)f)));
            continue;
        }
        if ((h & 0x7fff) == 0x7c00)
            EXPECT(isinf(f));
        else
            EXPECT_MSG((double)f == meaning(h) && !signbit(f) == !(h & 0x8000), "%04x: %a", h, (double)f);
        EXPECT_MSG(fp16_from_f32(f) == h, "%04x", h);
        EXPECT_MSG(fp16_from_f64((double)f) == h, "%04x", h);
    }
}

static void check_f64(double v) {
    uint16_t got = fp16_from_f64(v), want = slow_from_f64(v);
    EXPECT_MSG(got == want, "%a: %04x, want %04x", v, got, want);
    float f = (float)v;
    if (isfinite(f)) {
        got = fp16_from_f32(f), want = slow_from_f64((double)f);
        EXPECT_MSG(got == want, "float %a: %04x, want %04x", (double)f, got, want);
    }
}

TEST(fp16_rounds_once_to_nearest_even) {
    for (unsigned h = 0; h < 0x7c00; h++) { /* each midpoint, and the doubles and floats on both sides of it */
        double next = h == 0x7bff ? 65536.0 : meaning(h + 1), half = (meaning(h) + next) / 2;
        double tries[] = {half, nextafter(half, 0), nextafter(half, 1e9), (double)nextafterf((float)half, 0),
                          (double)nextafterf((float)half, 1e9f)};
        for (int i = 0; i < 5; i++) check_f64(tries[i]), check_f64(-tries[i]);
    }
    rng r;
    rng_init(&r, 1);
    for (int i = 0; i < 200000; i++) check_f64(ldexp(rng_unit(&r) * 2 - 1, (int)rng_below(&r, 50) - 30));
    check_f64(1e-300), check_f64(-1e-300), check_f64(5e-324), check_f64(1e-46);
    EXPECT(fp16_from_f64(1e300) == 0x7c00 && fp16_from_f64(-1e39) == 0xfc00 && fp16_from_f32(3e38f) == 0x7c00);
}

TEST(arrays_give_the_bits_of_the_scalar_code) {
    static uint16_t all[65536 + 7], back[65536 + 7];
    static float wide[65536 + 7];
    for (unsigned h = 0; h < 65536 + 7; h++) all[h] = (uint16_t)h;
    for (size_t count = 65530; count < 65536 + 7; count++) {
        fp16_to_f32_array(wide, all, count);
        fp16_from_f32_array(back, wide, count);
        for (size_t i = 0; i < count; i++) {
            float one = fp16_to_f32(all[i]);
            EXPECT_MSG(memcmp(&one, &wide[i], 4) == 0, "%04x", all[i]);
            EXPECT_MSG(back[i] == fp16_from_f32(one), "%04x: %04x", all[i], back[i]);
        }
    }
    rng r;
    rng_init(&r, 2);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 65536; i++) {
            uint32_t u = (uint32_t)rng_next(&r);
            memcpy(&wide[i], &u, 4);
        }
        fp16_from_f32_array(back, wide, 65536);
        for (int i = 0; i < 65536; i++) EXPECT_MSG(back[i] == fp16_from_f32(wide[i]), "%a", (double)wide[i]);
        bf16_from_f32_array(back, wide, 65535); /* blocks and a remainder */
        for (int i = 0; i < 65535; i++) EXPECT_MSG(back[i] == bf16_from_f32(wide[i]), "%a", (double)wide[i]);
        bf16_to_f32_array(wide, back, 65535);
        for (int i = 0; i < 65535; i++) {
            const float one = bf16_to_f32(back[i]);
            EXPECT_MSG(memcmp(&wide[i], &one, sizeof one) == 0, "%04x", back[i]);
        }
    }
}

TEST(bf16_rounds_to_nearest_even) {
    for (unsigned h = 0; h < 65536; h++) {
        float f = bf16_to_f32((uint16_t)h);
        float wide;
        uint16_t narrow;
        bf16_to_f32_array(&wide, &(uint16_t){(uint16_t)h}, 1);
        bf16_from_f32_array(&narrow, &f, 1);
        EXPECT(memcmp(&wide, &f, sizeof f) == 0 && narrow == bf16_from_f32(f));
        if (isnan(f))
            EXPECT(isnan(bf16_to_f32(bf16_from_f32(f))));
        else
            EXPECT_MSG(bf16_from_f32(f) == h, "%04x", h);
    }
    EXPECT(bf16_from_f32(0x1.01p0f) == 0x3f80);       /* tie: 1.0 is even */
    EXPECT(bf16_from_f32(0x1.03p0f) == 0x3f82);       /* tie: up to even */
    EXPECT(bf16_from_f32(0x1.010002p0f) == 0x3f81);   /* just above the tie */
    EXPECT(bf16_from_f32(0x1.fffffep127f) == 0x7f80); /* rounds to infinity */
}

/* tools/neon.sh runs this file on a processor with BFCVT and on one without, and sets which. */
TEST(the_instruction_is_used_where_it_is_there) {
    const char *said = getenv("TEST_BFCVT");
    if (!said) SKIP("TEST_BFCVT does not say whether this processor has BFCVT");
    EXPECT_MSG(float16_has_bfcvt() == (strcmp(said, "yes") == 0), "BFCVT: %s, but %d was found", said,
               float16_has_bfcvt());
}

SUITE("base/half", T(every_fp16_value_round_trips), T(fp16_rounds_once_to_nearest_even),
      T(arrays_give_the_bits_of_the_scalar_code), T(bf16_rounds_to_nearest_even),
      T(the_instruction_is_used_where_it_is_there))
