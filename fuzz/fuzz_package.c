/* SPDX-License-Identifier: MIT
 * Core ML model files and manifests: an accepted file can be printed, and packed again it is the same program. Data
 * that begins with '{' is the Manifest.json of a package whose model file is missing; anything else is a model file,
 * with a small weight file next to it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[140];

static void put(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

static void clean_up(void) {
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) fprintf(stderr, "%s stays behind\n", folder);
}

/* Makes a folder with weights/weight.bin: 64 numbers of fp16 at offset 64. */
static void set_up(void) {
    char path[200];
    uint8_t file[64 + 64 + 128] = {1, 0, 0, 0, 2};
    const uint64_t record[] = {0x1deadbeefU, 128, 128};
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.100s/fuzz-package-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) abort();
    atexit(clean_up);
    memcpy(file + 64, record, sizeof record);
    for (int i = 0; i < 64; i++) file[128 + 2 * i + 1] = (uint8_t)(0x3c + i % 4);
    snprintf(path, sizeof path, "%s/weights", folder);
    if (mkdir(path, 0700) != 0) abort();
    snprintf(path, sizeof path, "%s/weights/weight.bin", folder);
    put(path, file, sizeof file);
}

static void read_manifest(const uint8_t *data, size_t size) {
    propane_error err = {0};
    mil_module *m = NULL;
    char path[200];
    snprintf(path, sizeof path, "%s/Manifest.json", folder);
    put(path, data, size);
    if (mil_read(folder, NULL, &m, &err) == PROPANE_OK || !err.text[0]) abort();
}

static void print(const mil_module *m, text *out) {
    mil_print(out, m, &(mil_print_options){MIL_CANONICAL, true, false});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    mil_module *m = NULL, *again = NULL;
    text first = {0}, second = {0};
    uint8_t *packed = NULL;
    size_t bytes = 0;
    if (!folder[0]) set_up();
    if (size && data[0] == '{') {
        read_manifest(data, size);
        return 0;
    }
    propane_status status = mil_package_parse(data, size, "fuzz", folder, NULL, &m, &err);
    if (status) {
        if (m || err.status != status || !err.text[0]) abort();
        return 0;
    }
    print(m, &first);
    status = mil_package_pack(m, &packed, &bytes, &err);
    if (!status) {
        if (mil_package_parse(packed, bytes, "again", folder, NULL, &again, &err) != PROPANE_OK) abort();
        print(again, &second);
        if (first.failed || second.failed || first.length != second.length ||
            memcmp(first.data, second.data, first.length) != 0)
            abort();
    } else if (status != PROPANE_ERR_UNSUPPORTED) {
        abort();
    }
    mem_free(packed);
    text_deinit(&first);
    text_deinit(&second);
    mil_module_free(m);
    mil_module_free(again);
    return 0;
}
