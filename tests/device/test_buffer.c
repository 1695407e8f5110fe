/* SPDX-License-Identifier: MIT
 * Buffers: which sizes and memory are accepted, every pair of element types at the edges of its range, strides, and
 * layouts that leave the buffer.
 */
#include <math.h>
#include <stdlib.h>

#include "core/device/driver.h"
#include "device/scripted.h"
#include "support/test.h"

static propane_error err;
static propane_device *device;

static void begin(const char *uri) { EXPECT_OK(propane_device_open(uri, &device, &err)); }

static propane_buffer *buffer_of(size_t bytes) {
    propane_buffer *b = NULL;
    EXPECT_OK(propane_buffer_create(device, bytes, &b, &err));
    return b;
}

TEST(sizes_and_memory_are_checked) {
    propane_buffer *b = NULL;
    _Alignas(16) char memory[48];
    begin("scripted");
    EXPECT_FAIL(propane_buffer_create(device, 0, &b, &err), PROPANE_ERR_INVALID, "a buffer cannot have 0 bytes");
    EXPECT_FAIL(propane_buffer_create(device, SIZE_MAX / 2 + 1, &b, &err), PROPANE_ERR_INVALID,
                "a buffer cannot have 9223372036854775808 bytes");
    EXPECT_FAIL(propane_buffer_create(device, SIZE_MAX / 2, &b, &err), PROPANE_ERR_MEMORY, "");
    EXPECT_FAIL(propane_buffer_wrap(device, memory, 16, &b, &err), PROPANE_ERR_UNSUPPORTED, "has separate memory");
    propane_device_close(device);
    begin("host");
    for (int off = 1; off < 16; off++)
        EXPECT_FAIL(propane_buffer_wrap(device, memory + off, 16, &b, &err), PROPANE_ERR_INVALID,
                    "aligned to 16 bytes");
    EXPECT_FAIL(propane_buffer_wrap(device, memory, 0, &b, &err), PROPANE_ERR_INVALID, "buffer: 0 bytes at");
    EXPECT_FAIL(propane_buffer_wrap(device, memory, SIZE_MAX / 2 + 1, &b, &err), PROPANE_ERR_INVALID, "bytes at");
    EXPECT(!b);
    script = (script_calls){0};
    EXPECT_OK(propane_buffer_wrap(device, memory + 16, 32, &b, &err));
    EXPECT(propane_buffer_bytes(b) == 32);
    void *seen = NULL;
    EXPECT_OK(propane_buffer_lock(b, true, &seen, &err));
    EXPECT(seen == memory + 16);
    propane_buffer_unlock(b), propane_buffer_unlock(NULL);
    propane_buffer_free(b);
    EXPECT(script.buffers == 0 && script.buffers_freed == 0);
    propane_device_close(device);
}

/* A driver's own locks are acquired for reads and writes and released, also after a failure. */
TEST(copies_lock_the_buffer) {
    begin("full");
    propane_buffer *b = buffer_of(16);
    const propane_io io = {.name = "x", .dtype = PROPANE_UINT8, .rank = 1, .dim = {4}, .stride = {1}};
    int32_t values[] = {1, 2, 3, 256}, back[4];
    script = (script_calls){0};
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 4, &err), PROPANE_ERR_INVALID,
                "write 'x': element 3 is 256, outside the range of uint8 (0..255)");
    EXPECT(script.locked == 1 && script.unlocked == 1 && script.locked_for_writing == 1);
    values[3] = 255;
    EXPECT_OK(propane_buffer_write(b, &io, PROPANE_INT32, values, 4, &err));
    EXPECT_OK(propane_buffer_read(b, &io, PROPANE_INT32, back, 4, &err));
    EXPECT(memcmp(values, back, sizeof back) == 0);
    EXPECT(script.locked == 3 && script.unlocked == 3 && script.locked_for_writing == 2);
    script = (script_calls){.fail = 'l'};
    EXPECT_FAIL(propane_buffer_read(b, &io, PROPANE_INT32, back, 4, &err), PROPANE_ERR_DEVICE, "'l' fails");
    EXPECT(script.unlocked == 0);
    propane_buffer_free(b);
    propane_device_close(device);
}

typedef struct kind {
    propane_dtype dtype;
    size_t bytes;
    bool real;
    double min, max; /* of the values below that it represents exactly */
} kind;

static const kind kinds[] = {
    {PROPANE_FP16, 2, true, -2048, 2048},
    {PROPANE_FP32, 4, true, -16777216, 16777216},
    {PROPANE_INT32, 4, false, -2147483648.0, 2147483647},
    {PROPANE_BOOL, 1, false, 0, 1},
    {PROPANE_INT8, 1, false, -128, 127},
    {PROPANE_UINT8, 1, false, 0, 255},
    {PROPANE_INT16, 2, false, -32768, 32767},
    {PROPANE_UINT16, 2, false, 0, 65535},
    {PROPANE_BF16, 2, true, -256, 256},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const kind *kind_of(propane_dtype dtype) {
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].dtype == dtype) return &kinds[i];
    return NULL;
}

/* Stores a number as a type; only reals use the library's own fp32 path. */
static void put(propane_dtype dtype, void *at, double value) {
    const kind *k = kind_of(dtype);
    if (k->real) {
        const float f = (float)value;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        if (dtype == PROPANE_FP32) memcpy(at, &f, 4);
        if (dtype == PROPANE_BF16) memcpy(at, (uint16_t[]){(uint16_t)(bits >> 16)}, 2); /* exact for these */
        if (dtype == PROPANE_FP16) {
            const int e = (int)(bits >> 23 & 255) - 127 + 15;
            const uint16_t half =
                f == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)e << 10 | (bits >> 13 & 0x3ff));
            memcpy(at, &half, 2);
        }
        return;
    }
    const int32_t n = (int32_t)value;
    if (k->bytes == 1) *(uint8_t *)at = (uint8_t)n;
    if (k->bytes == 2) memcpy(at, (uint16_t[]){(uint16_t)n}, 2);
    if (k->bytes == 4) memcpy(at, &n, 4);
}

/* Every type into every other one: numbers that both can represent are kept, an integer outside the range is refused
 * and named, and reals never become integers. Memory may be at any address. */
TEST(every_pair_of_types_keeps_values_or_refuses) {
    static const double numbers[] = {0,      1,      2,     -1,    127,      128,        -128,
                                     -129,   255,    256,   -256,  2048,     32767,      32768,
                                     -32768, -32769, 65535, 65536, 16777216, 2147483647, -2147483648.0};
    begin("scripted");
    propane_buffer *b = buffer_of(64);
    for (int to = 0; to < KINDS; to++)
        for (int from = 0; from < KINDS; from++)
            for (int odd = 0; odd < 2; odd++)
                for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
                    const kind *t = &kinds[to], *f = &kinds[from];
                    const double x = numbers[i];
                    const propane_io io = {
                        .name = "x", .dtype = t->dtype, .rank = 1, .dim = {2}, .stride = {(int64_t)t->bytes}};
                    unsigned char source[20] = {0}, want[8] = {0}, back[20];
                    void *memory = NULL;
                    if (x < f->min || x > f->max) continue;
                    put(f->dtype, source + odd, 1), put(f->dtype, source + odd + f->bytes, x);
                    const propane_status status = propane_buffer_write(b, &io, f->dtype, source + odd, 2, &err);
                    if (f->real && !t->real) {
                        EXPECT(status == PROPANE_ERR_INVALID &&
                               strstr(err.text, "would lose fractions; convert it yourself"));
                        continue;
                    }
                    if (!t->real && (x < t->min || x > t->max)) {
                        EXPECT_MSG(status == PROPANE_ERR_INVALID && strstr(err.text, "write 'x': element 1 is "),
                                   "%g: %s", x, err.text);
                        continue;
                    }
                    EXPECT_OK(status);
                    if (x < t->min || x > t->max) continue; /* rounded */
                    put(t->dtype, want, 1), put(t->dtype, want + t->bytes, x);
                    EXPECT_OK(propane_buffer_lock(b, false, &memory, &err));
                    EXPECT_MSG(memcmp(memory, want, 2 * t->bytes) == 0, "type %d to %d: %g", f->dtype, t->dtype, x);
                    propane_buffer_unlock(b);
                    const propane_status read = propane_buffer_read(b, &io, f->dtype, back + odd, 2, &err);
                    if (t->real && !f->real) {
                        EXPECT(read == PROPANE_ERR_INVALID && strstr(err.text, "read 'x': "));
                        continue;
                    }
                    EXPECT_OK(read);
                    EXPECT(memcmp(back + odd, source + odd, 2 * f->bytes) == 0);
                }
    propane_buffer_free(b);
    propane_device_close(device);
}

/* A matrix with gaps between its rows, one whose columns come first, broadcast dimensions of one, and scalars. */
TEST(strides_place_the_elements) {
    begin("scripted");
    propane_buffer *b = buffer_of(64);
    const int32_t dense[] = {11, 12, 13, 21, 22, 23};
    int32_t *memory, back[6];
    const propane_io
        apart = {.name = "apart", .dtype = PROPANE_INT32, .rank = 2, .dim = {2, 3}, .stride = {20, 4}},
        turned = {.name = "turned", .dtype = PROPANE_INT32, .rank = 2, .dim = {2, 3}, .stride = {4, 12}},
        ones = {.name = "ones", .dtype = PROPANE_INT32, .rank = 4, .dim = {1, 2, 1, 3}, .stride = {999, 12, 777, 4}},
        third = {.name = "third", .dtype = PROPANE_INT32, .rank = 3, .dim = {3, 1, 2}, .stride = {16, 1, 8}},
        scalar = {.name = "scalar", .dtype = PROPANE_INT32, .rank = 0},
        none = {.name = "none", .dtype = PROPANE_INT32, .rank = 2, .dim = {0, 3}, .stride = {12, 4}};
    const struct {
        const propane_io *io;
        int at[6];
    } cases[] = {{&apart, {0, 1, 2, 5, 6, 7}},
                 {&turned, {0, 3, 6, 1, 4, 7}},
                 {&ones, {0, 1, 2, 3, 4, 5}},
                 {&third, {0, 2, 4, 6, 8, 10}}};
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(propane_buffer_lock(b, true, (void **)&memory, &err));
        memset(memory, 0, 64);
        EXPECT_OK(propane_buffer_write(b, cases[i].io, PROPANE_INT32, dense, 6, &err));
        for (int k = 0; k < 6; k++)
            EXPECT_MSG(memory[cases[i].at[k]] == dense[k], "%s: element %d", cases[i].io->name, k);
        int others = 0;
        for (int k = 0; k < 16; k++) others += memory[k] != 0;
        EXPECT(others == 6);
        EXPECT_OK(propane_buffer_read(b, cases[i].io, PROPANE_INT32, back, 6, &err));
        EXPECT(memcmp(back, dense, sizeof back) == 0);
    }
    EXPECT_OK(propane_buffer_write(b, &scalar, PROPANE_INT32, dense + 3, 1, &err));
    EXPECT(memory[0] == 21);
    EXPECT_OK(propane_buffer_write(b, &none, PROPANE_INT32, NULL, 0, &err));
    propane_buffer_free(b);
    propane_device_close(device);
}

/* The maximum number of dimensions, all of them dense: one run, whatever else the structure contains. */
TEST(all_dimensions_may_be_one_run) {
    begin("scripted");
    propane_buffer *b = buffer_of(16);
    const int8_t values[] = {1, -2, 3, -4, 5};
    int8_t back[5] = {0};
    propane_io io = {.name = "x", .dtype = PROPANE_INT8, .rank = PROPANE_MAX_RANK};
    for (int d = 0; d < PROPANE_MAX_RANK; d++) io.dim[d] = 1, io.stride[d] = 5;
    io.dim[PROPANE_MAX_RANK - 1] = 5, io.stride[PROPANE_MAX_RANK - 1] = 1;
    EXPECT_OK(propane_buffer_write(b, &io, PROPANE_INT8, values, 5, &err));
    EXPECT_OK(propane_buffer_read(b, &io, PROPANE_INT8, back, 5, &err));
    EXPECT(memcmp(values, back, sizeof back) == 0);
    propane_buffer_free(b);
    propane_device_close(device);
}

/* The index in the message counts elements over all runs. */
TEST(a_refused_element_is_counted_through_the_rows) {
    begin("scripted");
    propane_buffer *b = buffer_of(64);
    const propane_io io = {.name = "x", .dtype = PROPANE_INT8, .rank = 2, .dim = {3, 2}, .stride = {10, 1}};
    const int32_t values[] = {1, 2, 3, 4, 5, -129};
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID,
                "element 5 is -129, outside the range of int8 (-128..127)");
    propane_buffer_free(b);
    propane_device_close(device);
}

TEST(layouts_that_leave_the_buffer_are_refused) {
    begin("scripted");
    propane_buffer *b = buffer_of(24);
    const int32_t values[8] = {0};
    const propane_io good = {.name = "x", .dtype = PROPANE_INT32, .rank = 2, .dim = {2, 3}, .stride = {12, 4}};
    propane_io io = good;
    EXPECT_OK(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err)); /* up to the exact end */
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 5, &err), PROPANE_ERR_INVALID,
                "write 'x': 5 elements were given, but its shape has 6");
    io.stride[0] = 13;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID,
                "write 'x': it needs 25 bytes, but the buffer has 24");
    io = good, io.dim[0] = 3;
    EXPECT_FAIL(propane_buffer_read(b, &io, PROPANE_INT32, (int32_t[9]){0}, 9, &err), PROPANE_ERR_INVALID,
                "read 'x': it needs 36 bytes, but the buffer has 24");
    io = good, io.stride[1] = -4;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID,
                "dimension 1 is 3 with a stride of -4 bytes");
    io = good, io.dim[1] = -3;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID, "dimension 1 is -3");
    io = good, io.dim[0] = INT64_MAX;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID, "dimension 0 is ");
    io = good, io.stride[0] = INT64_MAX, io.stride[1] = INT64_MAX;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID, "dimension 1 is ");
    io = good, io.rank = PROPANE_MAX_RANK + 1;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID,
                "the propane_io has the element type");
    io = good, io.rank = -1;
    EXPECT_FAIL(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err), PROPANE_ERR_INVALID, "the rank -1");
    io = good, io.dtype = PROPANE_DTYPE_NONE;
    EXPECT(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err) == PROPANE_ERR_INVALID);
    io = good;
    EXPECT_FAIL(propane_buffer_write(b, &io, (propane_dtype)99, values, 6, &err), PROPANE_ERR_INVALID,
                "write 'x': dtype is 99; it must be from 0 to ");
    io.name = NULL; /* a name is for messages only */
    EXPECT_OK(propane_buffer_write(b, &io, PROPANE_INT32, values, 6, &err));
    io.rank = PROPANE_MAX_RANK;
    for (int d = 0; d < PROPANE_MAX_RANK; d++) io.dim[d] = 1, io.stride[d] = 1000;
    EXPECT_OK(propane_buffer_write(b, &io, PROPANE_INT32, values, 1, &err));
    propane_buffer_free(b);
    propane_device_close(device);
}

SUITE("device/buffer", T(sizes_and_memory_are_checked), T(copies_lock_the_buffer),
      T(every_pair_of_types_keeps_values_or_refuses), T(strides_place_the_elements), T(all_dimensions_may_be_one_run),
      T(a_refused_element_is_counted_through_the_rows), T(layouts_that_leave_the_buffer_are_refused))
