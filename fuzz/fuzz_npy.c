/* SPDX-License-Identifier: MIT
 * NumPy arrays and archives: an accepted array has as many elements as its shape requires, and each can be read.
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/base/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const npy *a) {
    double sum = 0;
    int64_t count = 1;
    if (a->rank < 0 || a->rank > NPY_MAX_RANK) abort();
    for (int i = 0; i < a->rank; i++) count *= a->dim[i];
    if (count != a->count) abort();
    for (int64_t i = 0; i < a->count; i++) sum += npy_element(a, i);
    volatile double sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    npy array;
    npz archive;
    propane_status status = npy_parse(data, size, "fuzz", &array, &err);
    if (status ? err.status != status || !err.text[0] : array.data == NULL) abort();
    if (!status) use(&array);
    npy_free(&array);
    err = (propane_error){0};
    status = npz_parse(data, size, "fuzz", &archive, &err);
    if (status && (err.status != status || !err.text[0] || archive.count)) abort();
    for (int i = 0; i < archive.count; i++) {
        if (!archive.names[i]) abort();
        use(&archive.arrays[i]);
    }
    npz_free(&archive);
    return 0;
}
