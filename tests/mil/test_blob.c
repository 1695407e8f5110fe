/* SPDX-License-Identifier: MIT
 * Weight files: they equal the output of Core ML's writer byte for byte, and every malformed record is refused by its
 * offset.
 */
#include "core/mil/coreml/blob.h"
#include "core/mil/text/mil_text.h"

#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/test.h"

enum { FILE_BYTES = 64 + 64 + 64 + 64 + 3 };

static char path[700];

static void use_temp(const char *name) {
    char *dir = test_temp_dir();
    snprintf(path, sizeof path, "%s/%s", dir, name);
    mem_free(dir);
}

static void put(uint8_t *p, int bytes, uint64_t value) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(value >> (8 * i));
}

/* Writes four fp16 and five uint4 by hand, following the format. */
static void by_hand(uint8_t file[FILE_BYTES]) {
    static const uint8_t numbers[8] = {0x00, 0x3c, 0x00, 0x40, 0x00, 0xc2, 0x00, 0x38};
    memset(file, 0, FILE_BYTES);
    put(file, 4, 2);
    put(file + 4, 4, 2);
    put(file + 64, 4, 0xDEADBEEF);
    put(file + 68, 4, 1);
    put(file + 72, 8, 8);
    put(file + 80, 8, 128);
    memcpy(file + 128, numbers, 8);
    put(file + 192, 4, 0xDEADBEEF);
    put(file + 196, 4, 11);
    put(file + 200, 8, 3);
    put(file + 208, 8, 256);
    put(file + 216, 8, 4);
    put(file + 256, 3, 0x00054321u & 0xffffff);
}

static void write_file(const uint8_t *data, size_t bytes) {
    propane_error err = {0};
    EXPECT_OK(file_write(path, data, bytes, &err));
}

TEST(writes_what_the_format_says) {
    propane_error err = {0};
    mil_blob_writer *w;
    uint64_t first, second;
    uint8_t wanted[FILE_BYTES];
    by_hand(wanted);
    use_temp("w.bin");
    EXPECT_OK(mil_blob_writer_open(path, &w, &err));
    EXPECT_OK(mil_blob_writer_add(w, MIL_fp16, 4, wanted + 128, &first, &err));
    EXPECT_FAIL(mil_blob_writer_add(w, MIL_bool, 4, wanted, &second, &err), PROPANE_ERR_UNSUPPORTED,
                "cannot hold bool");
    EXPECT_OK(mil_blob_writer_add(w, MIL_uint4, 5, wanted + 256, &second, &err));
    EXPECT(first == 64 && second == 192);
    EXPECT_OK(mil_blob_writer_commit(w, &err));
    char *data;
    size_t length;
    EXPECT_OK(file_read(path, 1 << 20, &data, &length, &err));
    EXPECT(length == FILE_BYTES);
    EXPECT(memcmp(data, wanted, FILE_BYTES) == 0);
    mem_free(data);
}

TEST(reads_and_walks) {
    propane_error err = {0};
    uint8_t file[FILE_BYTES];
    mil_blob_file *f;
    mil_blob blob;
    by_hand(file);
    use_temp("r.bin");
    write_file(file, sizeof file);
    EXPECT_OK(mil_blob_open(path, &f, &err));
    EXPECT(mil_blob_count(f) == 2);
    EXPECT_OK(mil_blob_get(f, 192, &blob, &err));
    EXPECT(blob.dtype == MIL_uint4 && blob.bytes == 3 && blob.padding_bits == 4 &&
           ((const uint8_t *)blob.data)[0] == 0x21);
    uint64_t at = 0;
    EXPECT_OK(mil_blob_next(f, &at, &blob, &err));
    EXPECT(blob.offset == 64 && blob.dtype == MIL_fp16);
    EXPECT_OK(mil_blob_next(f, &at, &blob, &err));
    EXPECT(blob.offset == 192);
    EXPECT_FAIL(mil_blob_next(f, &at, &blob, &err), PROPANE_ERR_NOT_FOUND, "there is no record at or after offset 320");
    mil_blob_close(f);
    mil_blob_close(NULL);
}

/* coremltools before 8.0 leaves the bytes from 24 on uninitialised; unused bits matter only for elements below 8
 * bits. */
TEST(bytes_without_a_meaning_may_hold_anything) {
    propane_error err = {0};
    uint8_t file[FILE_BYTES];
    mil_blob_file *f;
    mil_blob blob;
    by_hand(file);
    for (int i = 24; i < 64; i++) file[64 + i] = (uint8_t)(0xc5 ^ (i * 37));
    for (int i = 32; i < 64; i++) file[192 + i] = (uint8_t)(0x3a ^ (i * 29));
    use_temp("u.bin");
    write_file(file, sizeof file);
    EXPECT_OK(mil_blob_open(path, &f, &err));
    uint64_t at = 0;
    EXPECT_OK(mil_blob_next(f, &at, &blob, &err));
    EXPECT(blob.dtype == MIL_fp16 && blob.bytes == 8 && blob.padding_bits == 0);
    EXPECT(memcmp(blob.data, file + 128, 8) == 0);
    EXPECT_OK(mil_blob_next(f, &at, &blob, &err));
    EXPECT(blob.dtype == MIL_uint4 && blob.bytes == 3 && blob.padding_bits == 4);
    mil_blob_close(f);
}

/* Some writers put the next record directly after the data: here at 136, with its data at 200. */
TEST(records_need_no_alignment) {
    propane_error err = {0};
    uint8_t file[FILE_BYTES], packed[203] = {0};
    mil_blob_file *f;
    mil_blob blob;
    by_hand(file);
    memcpy(packed, file, 136);
    memcpy(packed + 136, file + 192, 67);
    put(packed + 136 + 16, 8, 200);
    use_temp("p.bin");
    write_file(packed, sizeof packed);
    EXPECT_OK(mil_blob_open(path, &f, &err));
    uint64_t at = 0;
    EXPECT_OK(mil_blob_next(f, &at, &blob, &err));
    EXPECT_OK(mil_blob_next(f, &at, &blob, &err));
    EXPECT(blob.offset == 136 && blob.bytes == 3 && memcmp(blob.data, file + 256, 3) == 0);
    mil_blob_close(f);
    char program[500], *dir = mem_copy_string(path);
    *strrchr(dir, '/') = 0;
    put(packed + 136 + 4, 4, 1); /* fp16, so that its alignment matters */
    put(packed + 136 + 8, 8, 2);
    put(packed + 136 + 16, 8, 201);
    put(packed + 136 + 24, 8, 0);
    put(packed + 201, 2, 0x3c00);
    write_file(packed, sizeof packed);
    snprintf(program, sizeof program,
             "program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1]> x) {\n        tensor<fp16, [1]> w = const()"
             "[val = tensor<fp16, [1]>(BLOBFILE(path = string(\"@model_path/p.bin\"), offset = uint64(136)))];\n"
             "        tensor<fp16, [1]> y = add(x = x, y = w);\n    } -> (y);\n}\n");
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(program, strlen(program), "t", dir, &m, &err));
    const mil_const *c = m->functions->first->results[0]->constant;
    EXPECT((uintptr_t)c->data % 2 == 0 && mil_const_f64(c, 0) == 1.0);
    mil_module_free(m);
    mem_free(dir);
}

/* Makes one change to the good file and checks the message about the record at `offset`. */
static void refused(int at, int bytes, uint64_t value, uint64_t offset, const char *part) {
    propane_error err = {0};
    uint8_t file[FILE_BYTES];
    mil_blob_file *f;
    mil_blob blob;
    by_hand(file);
    put(file + at, bytes, value);
    write_file(file, sizeof file);
    EXPECT_OK(mil_blob_open(path, &f, &err));
    EXPECT_FAIL(mil_blob_get(f, offset, &blob, &err), PROPANE_ERR_INVALID, part);
    char where[60];
    snprintf(where, sizeof where, ": record at offset %llu: ", (unsigned long long)offset);
    EXPECT_MSG(strstr(err.text, where), "'%s' does not name the offset", err.text);
    mil_blob_close(f);
}

TEST(malformed_records_are_refused) {
    use_temp("m.bin");
    refused(64, 4, 0, 64, "begins with 0x00000000 instead of 0xDEADBEEF");
    refused(68, 4, 99, 64, "the unknown code 99");
    refused(68, 4, 0, 64, "the unknown code 0");
    refused(72, 8, 7, 64, "7 bytes are not a multiple of the size of fp16 elements");
    refused(72, 8, 1000, 64, "ends beyond the end of the file");
    refused(72, 8, UINT64_MAX, 64, "is invalid");
    refused(80, 8, 0, 64, "its data offset is 0, inside the file header");
    refused(80, 8, 64, 64, "overlaps the record");
    refused(80, 8, (uint64_t)1 << 63, 64, "ends beyond the end of the file");
    refused(216, 8, 8, 192, "there cannot be 8 unused bits with elements of 4 bits");
    refused(0, 4, 2, 0, "records follow the file's header, from offset 64 on");
    refused(0, 4, 2, 65, "this is not a record");
    refused(0, 4, 2, 256, "the file has only 259 bytes");
    refused(0, 4, 2, UINT64_MAX - 63, "the file has only 259 bytes");
    /* Some writers set one byte instead of size and offset: 0x08 at byte 10 reads as 512 * 512 * 2 bytes. */
    propane_error err = {0};
    uint8_t file[FILE_BYTES];
    by_hand(file);
    memset(file + 72, 0, 16);
    file[74] = 8;
    write_file(file, sizeof file);
    mil_blob_file *f;
    mil_blob blob;
    EXPECT_OK(mil_blob_open(path, &f, &err));
    EXPECT_OK(mil_blob_get(f, 64, &blob, &err)); /* extends to the next record */
    EXPECT(blob.bytes == 64 && memcmp(blob.data, file + 128, 64) == 0);
    mil_blob_close(f);
    write_file(file, 128);
    EXPECT_OK(mil_blob_open(path, &f, &err));
    EXPECT_FAIL(mil_blob_get(f, 64, &blob, &err), PROPANE_ERR_INVALID, "only the byte 0x08 of a size, and no data");
    mil_blob_close(f);
}

static void not_a_file(const void *data, size_t bytes, const char *part) {
    propane_error err = {0};
    mil_blob_file *f;
    write_file(data, bytes);
    EXPECT_FAIL(mil_blob_open(path, &f, &err), PROPANE_ERR_INVALID, part);
    EXPECT(f == NULL);
}

TEST(wrong_files_are_refused) {
    propane_error err = {0};
    mil_blob_file *f;
    uint8_t file[FILE_BYTES];
    use_temp("h.bin");
    EXPECT_FAIL(mil_blob_open(path, &f, &err), PROPANE_ERR_NOT_FOUND, "h.bin");
    by_hand(file);
    not_a_file(file, 63, "63 bytes are too few for a weight file");
    not_a_file(file, 0, "0 bytes are too few for a weight file");
    not_a_file(file + 64, 100, "record at offset 0: there is a record instead of the 64-byte file header");
    put(file + 4, 4, 1);
    not_a_file(file, sizeof file, "version 1; only version 2 is supported (1 is the older Espresso format)");
}

/* A walk visits many small records in order. */
TEST(a_thousand_records) {
    propane_error err = {0};
    mil_blob_writer *w;
    mil_blob_file *f;
    mil_blob blob;
    uint64_t offset, at = 0;
    int8_t data[200];
    memset(data, 7, sizeof data);
    use_temp("k.bin");
    EXPECT_OK(mil_blob_writer_open(path, &w, &err));
    for (int i = 0; i < 1000; i++) EXPECT_OK(mil_blob_writer_add(w, MIL_int8, 1 + i % 200, data, &offset, &err));
    EXPECT_OK(mil_blob_writer_commit(w, &err));
    EXPECT_OK(mil_blob_open(path, &f, &err));
    int count = 0;
    while (mil_blob_next(f, &at, &blob, &err) == PROPANE_OK) {
        EXPECT(blob.bytes == (uint64_t)(1 + count % 200) && blob.dtype == MIL_int8);
        count++;
    }
    EXPECT(count == 1000 && mil_blob_count(f) == 1000);
    mil_blob_close(f);
    EXPECT_OK(mil_blob_writer_open(path, &w, &err));
    mil_blob_writer_abort(w); /* the old file remains */
    EXPECT_OK(mil_blob_open(path, &f, &err));
    EXPECT(mil_blob_count(f) == 1000);
    mil_blob_close(f);
}

SUITE("mil/blob", T(writes_what_the_format_says), T(reads_and_walks), T(records_need_no_alignment),
      T(bytes_without_a_meaning_may_hold_anything), T(malformed_records_are_refused), T(wrong_files_are_refused),
      T(a_thousand_records))
