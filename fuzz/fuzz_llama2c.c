/* SPDX-License-Identifier: MIT
 * llama2.c checkpoints: an accepted file has exactly the bytes of its model.
 */
#include <stdint.h>
#include <stdlib.h>

#include "lm/files/llama2c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    model_weights *w;
    propane_status status = llama2c_parse(data, size, "fuzz", &w, &err);
    if (status) {
        if (w || err.status != status || !err.text[0]) abort();
        return 0;
    }
    if ((uint64_t)w->parameters * 4 > size || w->count < 11) abort();
    model_weights_free(w);
    return 0;
}
