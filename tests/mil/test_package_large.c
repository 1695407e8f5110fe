/* SPDX-License-Identifier: MIT
 * A package with five gigabytes of weights, at offsets of more than 32 bits. Reading it needs almost no memory, and a
 * program that uses the last weights runs. The weight file is sparse, so it takes no room on the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"
#include "support/test.h"

enum { SIDE = 2048, WEIGHTS = 640, RESIDENT_PAGES = 16384 };
static const uint64_t one_bytes = (uint64_t)SIDE * SIDE * 2, stride = (uint64_t)SIDE * SIDE * 2 + 64;

static propane_error err;

static uint64_t record_at(int i) { return 64 + (uint64_t)i * stride; }

static bool write_at(int fd, uint64_t at, const void *data, size_t bytes) {
    return pwrite(fd, data, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Writes zeros everywhere except for the records and the last weight's first two elements, 1 and 2. Returns false if
 * the system refuses. */
static bool write_weights(const char *path) {
    const uint32_t header[] = {WEIGHTS, 2};
    const uint16_t numbers[] = {0x3c00, 0x4000};
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return false;
    bool ok = ftruncate(fd, (off_t)record_at(WEIGHTS)) == 0 && write_at(fd, 0, header, sizeof header);
    for (int i = 0; ok && i < WEIGHTS; i++) {
        const uint64_t record[] = {0x1deadbeefU, one_bytes, record_at(i) + 64};
        ok = write_at(fd, record_at(i), record, sizeof record);
    }
    ok = ok && write_at(fd, record_at(WEIGHTS - 1) + 64, numbers, sizeof numbers);
    /* If the file system has no sparse files, the file is too large to write. */
    ok = ok && fstat(fd, &st) == 0 && st.st_blocks < (100 << 20) / 512;
    close(fd);
    return ok;
}

/* "all" sums all weights, and "last" uses the last one. */
static void print_program(text *out) {
    text_append(out, "program(1.3)\n{\n");
    for (int f = 0; f < 2; f++) {
        text_printf(out, "    func %s<ios18>(tensor<fp16, [%d, %d]> x0) {\n", f ? "last" : "all", SIDE, SIDE);
        const int first = f ? WEIGHTS - 1 : 0;
        for (int i = first; i < WEIGHTS; i++)
            text_printf(out,
                        "        tensor<fp16, [%d, %d]> w%d = const()[val = tensor<fp16, [%d, %d]>(BLOBFILE(path = "
                        "string(\"@model_path/weights/weight.bin\"), offset = uint64(%llu)))];\n"
                        "        tensor<fp16, [%d, %d]> x%d = add(x = x%d, y = w%d);\n",
                        SIDE, SIDE, i, SIDE, SIDE, (unsigned long long)record_at(i), SIDE, SIDE, i - first + 1,
                        i - first, i);
        text_printf(out, "    } -> (x%d);\n", WEIGHTS - first);
    }
    text_append(out, "}\n");
}

/* Returns the folder of a package, or NULL if the file system has no sparse files. */
static char *make_package(void) {
    static const char manifest[] =
        "{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"a\", \"itemInfoEntries\": {\"a\": {\"path\": "
        "\"com.apple.CoreML/model.mlmodel\", \"name\": \"model.mlmodel\", \"author\": \"com.apple.CoreML\"}}}";
    char *dir = test_temp_dir(), data[500], path[600];
    text program = {0};
    mil_module *m = NULL;
    uint8_t *packed = NULL;
    size_t bytes = 0;
    snprintf(data, sizeof data, "%s/Data/com.apple.CoreML", dir);
    snprintf(path, sizeof path, "%s/weights", data);
    EXPECT_OK(file_make_dir(path, &err));
    snprintf(path, sizeof path, "%s/weights/weight.bin", data);
    if (!write_weights(path)) return NULL;
    print_program(&program);
    EXPECT(!program.failed);
    EXPECT_OK(mil_parse(program.data, program.length, "t", data, &m, &err));
    EXPECT_OK(mil_package_pack(m, &packed, &bytes, &err));
    snprintf(path, sizeof path, "%s/model.mlmodel", data);
    EXPECT_OK(file_write(path, packed, bytes, &err));
    snprintf(path, sizeof path, "%s/Manifest.json", dir);
    EXPECT_OK(file_write(path, manifest, sizeof manifest - 1, &err));
    mem_free(packed);
    text_deinit(&program);
    mil_module_free(m);
    return dir;
}

static void run_last(const mil_module *m) {
    propane_device *device = NULL;
    propane_program *program = NULL;
    propane_request *request = NULL;
    propane_buffer *x = NULL, *y = NULL;
    const propane_compile_options options = {.size = sizeof options, .function = "last"};
    const int64_t count = (int64_t)SIDE * SIDE;
    float *values = mem_array((size_t)count, sizeof *values);
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    EXPECT_OK(propane_program_compile(device, m, &options, &program, &err));
    const propane_io *in = propane_program_input(program, 0), *out = propane_program_output(program, 0);
    EXPECT_OK(propane_buffer_create(device, in->bytes, &x, &err));
    EXPECT_OK(propane_buffer_create(device, out->bytes, &y, &err));
    const propane_binding bindings[] = {{in->name, x}, {out->name, y}};
    EXPECT_OK(propane_request_create(program, bindings, 2, &request, &err));
    EXPECT_OK(propane_submit(&request, 1, &err));
    EXPECT_OK(propane_wait(request, NULL, &err));
    EXPECT_OK(propane_buffer_read(y, out, PROPANE_FP32, values, count, &err));
    bool zero = true;
    for (int64_t i = 2; i < count; i++) zero &= values[i] == 0;
    EXPECT(values[0] == 1 && values[1] == 2 && zero);
    propane_request_free(request);
    propane_buffer_free(x);
    propane_buffer_free(y);
    propane_program_free(program);
    propane_device_close(device);
    mem_free(values);
}

TEST(five_gigabytes_stay_in_their_file) {
    mil_module *m = NULL;
    char *dir = make_package();
    if (!dir) SKIP("a file of 5 GB with holes cannot be made in the folder for temporary files");
    const long before = test_resident_pages();
    EXPECT_OK(mil_read(dir, NULL, &m, &err));
    const long after = test_resident_pages();
    EXPECT(m->function_count == 2);
    EXPECT_MSG(before < 0 || after - before < RESIDENT_PAGES, "%ld pages more", after - before);
    run_last(m);
    const long used = test_resident_pages();
    EXPECT_MSG(before < 0 || used - before < 2 * RESIDENT_PAGES, "%ld pages more after a run", used - before);
    mil_module_free(m);
    mem_free(dir);
}

SUITE("mil/package_large", T(five_gigabytes_stay_in_their_file))
