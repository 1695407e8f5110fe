/* SPDX-License-Identifier: MIT
 * PNG and JPEG files through their libraries: an accepted image has all its pixels, in gray and in RGB, and can be
 * scaled.
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/base/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the size from the file. Large images are slow, and only test the libraries. */
static bool is_large(const uint8_t *data, size_t size) {
    if (size > 24 && data[0] == 0x89)
        return data[16] || data[17] || data[18] > 1 || data[20] || data[21] || data[22] > 1;
    for (size_t i = 2; i + 9 < size; i++)
        if (data[i] == 0xff && data[i + 1] >= 0xc0 && data[i + 1] <= 0xcf && (data[i + 5] > 1 || data[i + 7] > 1))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (is_large(data, size)) return 0;
    for (int channels = 1; channels <= 3; channels += 2) {
        propane_error err = {0};
        npy picture, scaled;
        propane_status status = picture_parse(data, size, "fuzz", channels, &picture, &err);
        if (status) {
            if (picture.data || err.status != status || !err.text[0]) abort();
            continue;
        }
        uint64_t sum = 0;
        if (picture.rank != 3 || picture.dim[2] != channels) abort();
        for (int64_t i = 0; i < picture.dim[0] * picture.dim[1] * channels; i++) sum += ((uint8_t *)picture.data)[i];
        volatile uint64_t sink = sum;
        (void)sink;
        if (picture_resize(&picture, 3, 5, &scaled, &err) != PROPANE_OK || scaled.count != 15 * channels) abort();
        npy_free(&scaled);
        npy_free(&picture);
    }
    return 0;
}
