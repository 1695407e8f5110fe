/* SPDX-License-Identifier: MIT
 * safetensors: every accepted tensor is inside the file, directly after the one before it, and can be found and read.
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/files/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    safetensors *s;
    propane_status status = safetensors_parse(data, size, "fuzz", &s, &err);
    if (status) {
        if (s || err.status != status || !err.text[0]) abort();
        return 0;
    }
    const uint8_t *end = data + size;
    uint64_t total = 0;
    for (int i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        if (t->data < data || t->bytes > (uint64_t)(end - t->data)) abort();
        total += t->bytes;
        if (safetensors_find(s, t->name) != t) abort();
        float *out = mem_array((size_t)t->count, sizeof *out);
        if (out) (void)!safetensors_f32(s, t, out, &err);
        mem_free(out);
    }
    if (total > size) abort();
    (void)safetensors_metadata(s, "format");
    safetensors_close(s);
    return 0;
}
