/* SPDX-License-Identifier: MIT
 * The printer beyond the golden cases: every bit pattern of fp16 survives, numbers are read as strtod reads them, and a
 * written folder reads back as the same program.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "core/mil/text/number.h"
#include "support/test.h"

/* Makes a function that returns one constant; the caller owns the module. */
static mil_module *constant_program(const mil_type *type, const void *data) {
    propane_error err = {0};
    mil_module *m = mil_module_create("c");
    mil_builder b;
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_build_result(&b, mil_build_const(&b, "a", type, data));
    EXPECT_OK(mil_build_end(&b, &err));
    return m;
}

static void round_trip(const mil_type *type, const void *data) {
    propane_error err = {0};
    mil_module *m = constant_program(type, data), *again;
    for (int dialect = MIL_SHORT; dialect <= MIL_CANONICAL; dialect++) {
        text out = {0};
        mil_print(&out, m, &(mil_print_options){(mil_dialect)dialect, false});
        EXPECT_OK(mil_parse(out.data, out.length, "again", NULL, &again, &err));
        const mil_const *a = m->functions->results[0]->constant, *b = again->functions->results[0]->constant;
        EXPECT(mil_type_equal(&a->type, &b->type) && a->bytes == b->bytes);
        EXPECT(memcmp(a->data, b->data, (size_t)a->bytes) == 0);
        mil_module_free(again);
        text_deinit(&out);
    }
    mil_module_free(m);
}

TEST(every_fp16_reads_back) {
    enum { COUNT = 65536 };
    uint16_t *bits = mem_array(COUNT, sizeof *bits);
    for (int i = 0; i < COUNT; i++) bits[i] = (uint16_t)i;
    mil_type type = mil_type_tensor(MIL_fp16, 2, (int64_t[]){256, 256});
    round_trip(&type, bits);
    type.dtype = MIL_bf16;
    round_trip(&type, bits);
    mem_free(bits);
}

TEST(random_bits_read_back) {
    enum { COUNT = 4096 };
    static const mil_dtype dtypes[] = {MIL_fp32,  MIL_fp64,  MIL_int4,  MIL_int64,  MIL_uint1,
                                       MIL_uint2, MIL_uint3, MIL_uint6, MIL_uint64, MIL_int16};
    uint64_t *bits = mem_array(COUNT, sizeof *bits);
    rng r;
    rng_init(&r, 7);
    for (int i = 0; i < COUNT; i++) bits[i] = rng_next(&r);
    mil_type type = mil_type_tensor(MIL_fp32, 3, (int64_t[]){16, 1, 256});
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        type.dtype = dtypes[i];
        round_trip(&type, bits);
    }
    mem_free(bits);
}

/* Compares with strtod: all forms of spelling, and random values in both notations. */
TEST(numbers_are_read_as_strtod_reads_them) {
    static const char *const spellings[] = {"0",
                                            "-0",
                                            "1",
                                            "1.",
                                            ".5",
                                            "1e3",
                                            "1E-3",
                                            "123456789012345678901234567890",
                                            "0.1",
                                            "4.9e-324",
                                            "1e-400",
                                            "1e400",
                                            "0x1p-3",
                                            "0x1.8P+4",
                                            "0xAB.CDp1",
                                            "0x.8",
                                            "0x1.fffffffffffff8p0",
                                            "0x1.fffffffffffff7p0",
                                            "0x123456789abcdef01234p-70",
                                            "0x0.0000000000000000000001p40",
                                            "+3.25",
                                            "inf"};
    char buffer[80], printed[40];
    double value;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        const char *s = spellings[i];
        EXPECT_MSG(mil_number_real(s, strlen(s), &value), "%s", s);
        double wanted = strtod(s, NULL);
        EXPECT_MSG(memcmp(&value, &wanted, sizeof value) == 0, "%s: %a, not %a", s, value, wanted);
    }
    rng r;
    rng_init(&r, 11);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_next(&r);
        double wanted;
        memcpy(&wanted, &bits, sizeof wanted);
        if (isnan(wanted)) continue;
        snprintf(buffer, sizeof buffer, "%.*e", (int)rng_below(&r, 20), wanted);
        EXPECT(mil_number_real(buffer, strlen(buffer), &value) && value == strtod(buffer, NULL));
        mil_number_print(printed, wanted);
        EXPECT_MSG(mil_number_real(printed, strlen(printed), &value) && value == wanted, "%s", printed);
        EXPECT(strtod(printed, NULL) == wanted);
    }
    static const char *const wrong[] = {"",      "-",   ".",    "e5",  "1e",  "1e+",  "0x",    "0xg",
                                        "1.2.3", "1p3", "0x1p", "--1", "1_0", "nanx", "0x.p1", "1 "};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT_MSG(!mil_number_real(wrong[i], strlen(wrong[i]), &value), "'%s' was taken", wrong[i]);
}

static mil_module *weights_program(void) {
    propane_error err = {0};
    mil_module *m = mil_module_create("w");
    mil_builder b;
    float big[40], other[20];
    for (int i = 0; i < 40; i++) big[i] = (float)i * 0.25f;
    for (int i = 0; i < 20; i++) other[i] = -1.0f / (float)(i + 1);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_type type = mil_type_tensor(MIL_fp32, 2, (int64_t[]){2, 20}),
             row = mil_type_tensor(MIL_fp32, 1, (int64_t[]){20});
    mil_value *x = mil_build_param(&b, "x", type);
    mil_value *a = mil_build_binary(&b, MIL_OP_add, x, mil_build_const(&b, "big", &type, big));
    mil_value *c = mil_build_binary(&b, MIL_OP_mul, a, mil_build_const(&b, "other", &row, other));
    mil_build_result(&b, mil_build_binary_scalar(&b, MIL_OP_mul, c, 0.5));
    EXPECT_OK(mil_build_end(&b, &err));
    return m;
}

static void print_inline(const mil_module *m, text *out) { mil_print(out, m, &(mil_print_options){MIL_SHORT, true}); }

TEST(a_written_folder_reads_back) {
    propane_error err = {0};
    char *dir = test_temp_dir();
    for (int dialect = MIL_SHORT; dialect <= MIL_CANONICAL; dialect++) {
        char path[600];
        mil_module *m = weights_program(), *again;
        text before = {0}, after = {0};
        print_inline(m, &before);
        EXPECT_OK(mil_write_dir(m, dir, (mil_dialect)dialect, &err));
        snprintf(path, sizeof path, "%s/model.mil", dir);
        EXPECT_OK(mil_parse_file_shaped(path, NULL, &again, &err));
        const mil_const *c = again->functions->first->next->results[0]->constant;
        EXPECT(c->blob_path || again->functions->first->results[0]->constant->blob_path);
        again->version_minor = 3;
        again->build_info_count = m->build_info_count;
        print_inline(again, &after);
        EXPECT_TEXT(after.data, before.data);
        /* Overwrites it while its constants are in the file that is being written. */
        EXPECT_OK(mil_write_dir(again, dir, (mil_dialect)dialect, &err));
        text_clear(&after);
        print_inline(again, &after);
        EXPECT_TEXT(after.data, before.data);
        text_deinit(&before);
        text_deinit(&after);
        mil_module_free(m);
        mil_module_free(again);
    }
    mem_free(dir);
}

SUITE("mil/print", T(every_fp16_reads_back), T(random_bits_read_back), T(numbers_are_read_as_strtod_reads_them),
      T(a_written_folder_reads_back))
