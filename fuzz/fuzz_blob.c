/* SPDX-License-Identifier: MIT
 * Weight files: every accepted record is inside the file, and iteration ends. The checker refuses a file whose header
 * or first record the reader refuses.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ane/chip/check.h"
#include "core/mil/coreml/blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const mil_blob *blob) {
    unsigned sum = 0;
    const uint8_t *bytes = blob->data;
    for (uint64_t i = 0; i < blob->bytes; i++) sum += bytes[i];
    volatile unsigned sink = sum;
    (void)sink;
    if (blob->padding_bits < 0 || blob->padding_bits > 7) abort();
}

static chip_severity worst_finding(const uint8_t *data, size_t size) {
    propane_error err = {0};
    const chip *m4 = chip_get(CHIP_m4);
    chip_report *r = chip_report_create(&(chip_check_options){&m4, 1, 0, 0, CHIP_PATH_DIRECT, false});
    if (!r || chip_check_blob_data(r, "fuzz", data, size, &err) != PROPANE_OK) abort();
    chip_severity worst = chip_report_worst(r);
    chip_report_free(r);
    return worst;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    mil_blob_file *file;
    mil_blob blob;
    const char *temporary = getenv("TMPDIR");
    char path[200];
    snprintf(path, sizeof path, "%.150s/fuzz-blob-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    close(fd);
    chip_severity worst = worst_finding(data, size);
    if (mil_blob_open(path, &file, &err) == PROPANE_OK) {
        bool is_record = size >= 128 && data[64] == 0xef && data[65] == 0xbe && data[66] == 0xad && data[67] == 0xde;
        if (is_record && mil_blob_get(file, 64, &blob, &err) != PROPANE_OK && worst != CHIP_REFUSE) abort();
        uint64_t at = 0;
        size_t steps = 0;
        while (mil_blob_next(file, &at, &blob, &err) == PROPANE_OK) {
            use(&blob);
            if (++steps > size / 64) abort(); /* each record has a separate 64 bytes */
        }
        for (uint64_t offset = 0; offset <= size; offset += 64)
            if (mil_blob_get(file, offset, &blob, &err) == PROPANE_OK) use(&blob);
        mil_blob_close(file);
    } else if (worst != CHIP_REFUSE) {
        abort();
    }
    unlink(path);
    return 0;
}
