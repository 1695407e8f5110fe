/* SPDX-License-Identifier: MIT
 * Tasks of H14 from published programs (words of binary_add_1x64x1x1 and of the first task of matmul_m1_k256_n512_ty1,
 * joshuaswarren/mil-hwx-compiler research/oracles/h14), and streams that are not such tasks.
 */
#include "ane/h13/describe.h"
#include "ane/h13/later.h"
#include "core/base/bytes.h"
#include "core/base/memory.h"
#include "support/test.h"

/* After a frame without a size, as in the file. */
static const uint32_t later_add[] = {
    0,    0,          0,          0,          0x003d0000, 0,          0x2a,       0,          0x00fff868, 0,
    0,    1,          0x00000640, 0x80,       0xb60e0000, 0x00010001, 0x40,       0x40,       0x00010001, 1,
    4,    0x33,       0,          0x00018440, 0xe21,      0xe20,      0xce,       0xce,       0x98100447, 0x40,
    0x40, 0x01002031, 0x01002031, 0x87ff0141, 0x01500172, 0x10,       0x420,      0x400,      0x400,      0x440,
    0x10, 0x420,      0x400,      0x400,      0x0050017a, 0x860,      0x00000240, 0x00080000, 0x80480540, 0x01000e31,
    0x40, 0x01302031, 0x00000549, 0xdead,     0x00000549, 0xdead,     0x22008444, 0,          0,          0x2300844a,
    0,    0,          0x22808542, 0,          0};

static const uint32_t later_turn[] = {0x00260000, 0,          8,          0,          0x68,       0,          1,
                                      0x00050001, 0xb32e0000, 0x00010100, 1,          1,          0x00010100, 0,
                                      0x00014001, 1,          0x10230301, 0x00100000, 0x80010440, 0xe21,      0xce,
                                      0x00000454, 0x01002031, 0x8a0f8141, 0x00500172, 0x1000,     0x100,      0x100,
                                      0x100,      0x100,      0x00500170, 0x10,       0x80020341, 0x00101c0c, 0x3c00,
                                      0x22808444, 0,          0};

static void later_read(uint32_t subtype, const uint32_t *words, size_t count, bool printed, text *out) {
    uint8_t *bytes = mem_alloc(4 * count + 4);
    for (size_t i = 0; i < count; i++) bytes_put_u32(bytes + 4 * i, words[i]);
    engine_object o = {.source = "t.hwx", .subtype = subtype, .text = bytes, .text_bytes = 4 * count, .newer = true};
    engine_describe(&o, printed, out);
    mem_free(bytes);
}

static void later_expect(const text *t, const char *part) {
    EXPECT_MSG(t->data && strstr(t->data, part), "no '%s' in\n%s", part, t->data ? t->data : "nothing");
}

#define WORDS(a) a, sizeof a / sizeof a[0]

TEST(tasks_of_h14_are_read) {
    text t = {0}, u = {0};
    later_read(5, WORDS(later_add), true, &t);
    later_expect(&t, "task 0 at 0x10: 61 words, 12 records; source [64, 1, 1]; base registers 4, 6, 5\n");
    later_expect(&t, "0x0000c  00000040  Cin=0x40\n");
    later_expect(&t, "0x00900  00080000  PoolMode=0 Operation=0");
    later_expect(&t, "TwoSources=1");
    later_expect(&t, "0x0051c  00000440  Source2Base=0x440\n");
    later_expect(&t, "0x0111c  00000040  PlaneStride=0x40\n");
    later_expect(&t, "record 0x2300844a starting at 0x01128, base register 6\n");
    later_expect(&t, "0x01524  0000dead  Fill=0xdead\n");
    later_read(5, WORDS(later_turn), true, &u);
    later_expect(&u, "task 0 at 0x0: 38 words, 6 records; source [1, 1, 256]; base registers 5\n");
    later_expect(&u, "Transpose=1");
    later_expect(&u, "0x00d04  00101c0c  OpMode=0xc");
    text_deinit(&t);
    text_deinit(&u);
}

/* No words of H16 are published; its framing and names come from one source. */
TEST(later_generations_have_names) {
    static const uint32_t words[] = {0x000e0003, 0,          0,          0,    0,    0,          0,
                                     0,          0x00050000, 0x00008001, 0x40, 0x20, 0x00001240, 0x102};
    text t = {0};
    later_field fields[LATER_FIELDS];
    later_read(7, WORDS(words), true, &t);
    later_expect(&t, "task 3 at 0x0: 14 words, 2 records");
    later_expect(&t, "0x00004  00000040  Win=0x40\n");
    later_expect(&t, "0x04900  00000102  KernelFmt=2 PalettizedEn=0 SparseFmt=1\n");
    EXPECT(strcmp(engine_later_block(7, 0x5500), "kernel") == 0 && !engine_later_block(7, 0x0500));
    EXPECT(engine_later_fields(7, false, 0x5524, fields) == 1 && fields[0].index == 1);
    EXPECT(!engine_later_block(4, 0x0500));
    text_deinit(&t);
}

TEST(broken_streams_are_reported) {
    uint32_t words[sizeof later_add / sizeof later_add[0]];
    static const struct {
        int at;
        uint32_t value;
        const char *printed;
    } changes[] = {{4, 0x00ff0000, "255 words, but only 61 are left"},
                   {4, 0x00080000, "8 words, but only"},
                   {4, 0x003c0000, "a record of"},
                   {14, 0xffff8000, "a record of"},
                   {62, 0x227f8542, "a record of 64 words, but the task has room for 2"}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        text t = {0};
        memcpy(words, later_add, sizeof words);
        words[changes[i].at] = changes[i].value;
        later_read(5, WORDS(words), true, &t);
        later_expect(&t, "cannot be read: task at 0x10");
        later_expect(&t, changes[i].printed);
        text_deinit(&t);
    }
}

/* Programs of generations that are not executed are compared by their own words. */
TEST(words_of_later_generations_are_compared) {
    uint32_t words[] = {0x000e0003, 0, 0, 0, 0, 0, 0, 0, 0x00050000, 0x00008001, 0x40, 0x20, 0x00001240, 0x102};
    enum { WIN = 10, FORMAT = 13, COUNT = sizeof words / sizeof words[0] };
    uint8_t first[4 * COUNT], second[4 * COUNT];
    text t = {0};
    for (size_t i = 0; i < COUNT; i++) bytes_put_u32(first + 4 * i, words[i]);
    words[WIN] = 0x41, words[FORMAT] = 0x2;
    for (size_t i = 0; i < COUNT; i++) bytes_put_u32(second + 4 * i, words[i]);
    engine_object a = {.source = "a.hwx", .subtype = 7, .text = first, .text_bytes = sizeof first}, b = a, c = a, d = a;
    b.source = "b.hwx", b.text = second;
    EXPECT(engine_describe_difference(&a, &a, &t) == 0);
    EXPECT(engine_describe_difference(&a, &b, &t) == 2);
    later_expect(&t, "  task 0: 2 words\n");
    later_expect(&t, "0x00004  00000040 00000041  Win 0x40 | 0x41\n");
    later_expect(&t, "0x04900  00000102 00000002  SparseFmt 0x1 | 0x0\n");
    c.subtype = 9;
    EXPECT(engine_describe_difference(&a, &c, &t) == 1);
    later_expect(&t, "programs of H16 and H17: their tasks cannot be compared by field\n");
    d.text_bytes = 4 * 12; /* cut off within the task */
    EXPECT(engine_describe_difference(&a, &d, &t) > 0);
    later_expect(&t, "  tasks 1 | 0\n");
    a.constants = first, a.constant_bytes = 8, b = a, b.constants = first + 4;
    EXPECT(engine_describe_difference(&a, &b, &t) == 1);
    later_expect(&t, "  constants: 1 word\n");
    text_deinit(&t);
}

SUITE("engine/later", T(words_of_later_generations_are_compared), T(tasks_of_h14_are_read),
      T(later_generations_have_names), T(broken_streams_are_reported))
