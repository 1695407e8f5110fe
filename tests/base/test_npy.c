/* SPDX-License-Identifier: MIT
 * NumPy files: written files can be read back, NumPy's own forms are read, and broken or unsupported files are refused.
 */
#include <zlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/npy.h"
#include "core/base/text.h"
#include "support/test.h"

static char *in_folder(const char *name) {
    static char path[500];
    char *dir = test_temp_dir();
    snprintf(path, sizeof path, "%s/%s", dir, name);
    mem_free(dir);
    return path;
}

TEST(arrays_read_back) {
    propane_error err = {0};
    const struct {
        char kind;
        int size;
        const void *data;
        double want[3];
    } cases[] = {{'f', 4, (float[]){1.5F, -2, 3}, {1.5, -2, 3}},
                 {'f', 8, (double[]){1e300, -2, 3}, {1e300, -2, 3}},
                 {'f', 2, (uint16_t[]){0x3c00, 0xc000, 0x3800}, {1, -2, 0.5}},
                 {'i', 1, (int8_t[]){-1, 2, 3}, {-1, 2, 3}},
                 {'u', 1, (uint8_t[]){255, 2, 3}, {255, 2, 3}},
                 {'i', 2, (int16_t[]){-300, 2, 3}, {-300, 2, 3}},
                 {'u', 2, (uint16_t[]){65535, 2, 3}, {65535, 2, 3}},
                 {'i', 4, (int32_t[]){-70000, 2, 3}, {-70000, 2, 3}},
                 {'u', 4, (uint32_t[]){4000000000U, 2, 3}, {4e9, 2, 3}},
                 {'i', 8, (int64_t[]){-5000000000LL, 2, 3}, {-5e9, 2, 3}},
                 {'u', 8, (uint64_t[]){5000000000ULL, 2, 3}, {5e9, 2, 3}},
                 {'b', 1, (uint8_t[]){1, 0, 1}, {1, 0, 1}}};
    char *path = in_folder("a.npy");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int rank = 1; rank <= 3; rank++) {
            npy given = {cases[i].kind, cases[i].size, rank, {1, 1, 1}, 3, (void *)(uintptr_t)cases[i].data}, got;
            given.dim[rank - 1] = 3;
            EXPECT_OK(npy_write(path, &given, &err));
            EXPECT_OK(npy_read(path, &got, &err));
            EXPECT(got.kind == given.kind && got.size == given.size && got.rank == rank && got.count == 3);
            for (int d = 0; d < rank; d++) EXPECT(got.dim[d] == given.dim[d]);
            for (int k = 0; k < 3; k++) EXPECT(npy_element(&got, k) == cases[i].want[k]);
            npy_free(&got);
        }
}

/* Expects that a version 1 file with the given header and `extra` zero bytes after it is refused. */
static void refused(const char *header, size_t extra, const char *part) {
    propane_error err = {0};
    uint8_t data[400] = "\x93NUMPY\x01";
    npy got;
    const size_t length = strlen(header);
    data[8] = (uint8_t)length;
    memcpy(data + 10, header, length);
    propane_status status = npy_parse(data, 10 + length + extra, "t", &got, &err);
    EXPECT_MSG(status != PROPANE_OK && strstr(err.text, part), "%s: '%s'", header, err.text);
    npy_free(&got);
}

TEST(other_files_are_refused) {
    propane_error err = {0};
    npy got;
    EXPECT_FAIL(npy_parse((const uint8_t *)"hello world", 11, "t", &got, &err), PROPANE_ERR_INVALID,
                "not an .npy file");
    EXPECT_FAIL(npy_parse((const uint8_t *)"\x93NUMPY\x07\0\0\0\0", 11, "t", &got, &err), PROPANE_ERR_INVALID,
                "unknown version");
    EXPECT_FAIL(npy_parse((const uint8_t *)"\x93NUMPY\x01\0\xff\0", 10, "t", &got, &err), PROPANE_ERR_INVALID,
                "longer than the file");
    refused("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, "element type '>f4'");
    refused("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8, "element type");
    refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4, "element type");
    refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", 8, "Fortran order");
    refused("{'descr': '<f4', 'shape': (2, 1), }", 8, "lacks descr");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': 5, }", 4, "not a tuple");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4, "not a tuple of numbers");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8, "not a tuple of numbers");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999, 9999999), }", 4, "more than 2^40");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 4,
            "4 bytes of elements; the header declares 8");
    refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", 4, "16 dim");
}

static void put(uint8_t *p, size_t value, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(value >> (8 * i));
}

/* Makes an archive with one entry, as np.savez writes it, except for the checksum, which is not checked. `size` is the
 * size before compression. */
static size_t archive(uint8_t *out, const uint8_t *array, size_t length, int method, size_t size) {
    size_t at = 0;
    memset(out, 0, length + 150);
    memcpy(out, "PK\3\4", 4);
    put(out + 18, length, 4);
    put(out + 22, size, 4);
    put(out + 26, 5, 2);
    memcpy(out + 30, "x.npy", 5);
    memcpy(out + 35, array, length);
    at = 35 + length;
    uint8_t *entry = out + at;
    memcpy(entry, "PK\1\2", 4);
    put(entry + 10, (size_t)method, 2);
    put(entry + 20, length, 4);
    put(entry + 24, size, 4);
    put(entry + 28, 5, 2);
    memcpy(entry + 46, "x.npy", 5);
    uint8_t *end = entry + 51;
    memcpy(end, "PK\5\6", 4);
    put(end + 10, 1, 2);
    put(end + 12, 51, 4);
    put(end + 16, at, 4);
    return at + 51 + 22;
}

TEST(archives) {
    propane_error err = {0};
    char *path = in_folder("x.npy"), *data = NULL;
    size_t length = 0;
    uint8_t bytes[1000] = {0};
    npz z;
    EXPECT_OK(npy_write(path, &(npy){'i', 4, 1, {2}, 2, (int32_t[]){7, 8}}, &err));
    EXPECT_OK(file_read(path, 1000, &data, &length, &err));
    size_t total = archive(bytes, (const uint8_t *)data, length, 0, length);
    EXPECT_OK(npz_parse(bytes, total, "t", &z, &err));
    EXPECT(z.count == 1 && npy_element(&z.arrays[0], 1) == 8);
    EXPECT_TEXT(z.names[0], "x");
    npz_free(&z);
    for (size_t cut = 0; cut < total; cut++) /* every prefix is refused */
        EXPECT_MSG(npz_parse(bytes, cut, "t", &z, &err) != PROPANE_OK, "%zu bytes", cut);
    total = archive(bytes, (const uint8_t *)data, length, 12, length);
    EXPECT_FAIL(npz_parse(bytes, total, "t", &z, &err), PROPANE_ERR_UNSUPPORTED, "write the archive with np.savez");
    total = archive(bytes, (const uint8_t *)data, length, 8, length);
    EXPECT_FAIL(npz_parse(bytes, total, "t", &z, &err), PROPANE_ERR_INVALID, "cannot be decompressed");
    mem_free(data);
}

/* Archives as np.savez_compressed writes them. */
TEST(packed_archives) {
    propane_error err = {0};
    char *path = in_folder("y.npy"), *data = NULL;
    int32_t numbers[400];
    size_t length = 0, total;
    uint8_t packed[4000] = {0}, bytes[5000] = {0};
    npz z;
    for (int i = 0; i < 400; i++) numbers[i] = i / 7;
    EXPECT_OK(npy_write(path, &(npy){'i', 4, 2, {20, 20}, 400, numbers}, &err));
    EXPECT_OK(file_read(path, 10000, &data, &length, &err));
    z_stream s = {.next_in = (Bytef *)data, .avail_in = (uInt)length, .next_out = packed, .avail_out = sizeof packed};
    EXPECT(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
           deflate(&s, Z_FINISH) == Z_STREAM_END);
    const size_t made = s.total_out;
    deflateEnd(&s);
    EXPECT(made < length);
    total = archive(bytes, packed, made, 8, length);
    EXPECT_OK(npz_parse(bytes, total, "t", &z, &err));
    EXPECT(z.count == 1 && z.arrays[0].rank == 2 && z.arrays[0].count == 400);
    for (int i = 0; i < 400; i++) EXPECT(npy_element(&z.arrays[0], i) == i / 7);
    npz_free(&z);
    for (int off = -1; off <= 1; off += 2) { /* a size that contradicts the array's header: nothing more is unpacked */
        total = archive(bytes, packed, made, 8, length + (size_t)off);
        EXPECT_FAIL(npz_parse(bytes, total, "t", &z, &err), PROPANE_ERR_INVALID,
                    off < 0 ? "bytes of elements; the header declares 1600" : "cannot be decompressed");
    }
    total = archive(bytes, packed, made - 5, 8, length);
    EXPECT_FAIL(npz_parse(bytes, total, "t", &z, &err), PROPANE_ERR_INVALID, "cannot be decompressed");
    total = archive(bytes, packed, made, 8, (size_t)4000000000U); /* the promised size allocates no memory */
    EXPECT_FAIL(npz_parse(bytes, total, "t", &z, &err), PROPANE_ERR_INVALID, "cannot have the size");
    mem_free(data);
}

SUITE("base/npy", T(arrays_read_back), T(other_files_are_refused), T(archives), T(packed_archives))
