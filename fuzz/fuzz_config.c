/* SPDX-License-Identifier: MIT
 * Model configurations: any bytes are read as config.json. An accepted one is printed, reads back the same, and has
 * sizes whose sums do not overflow.
 */
#include <stdlib.h>
#include <string.h>

#include "lm/arch/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_and_read_back(const model_config *c) {
    propane_error err = {0};
    model_config again;
    json_t *object = model_config_to_json(c);
    if (!object) return;
    if (model_config_from_json(object, "again", &again, &err) != PROPANE_OK || !model_config_equal(c, &again)) abort();
    json_decref(object);
    if (model_arch_parameters(c) <= 0) abort();
    for (int64_t i = 0; i < c->head_dim / 2; i += 1 + c->head_dim / 16)
        if (!(model_config_rope_rate(c, i) <= 1.0000001)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    model_config c;
    propane_status status = model_config_parse((const char *)data, size, "fuzz", &c, &err);
    if (status == PROPANE_OK)
        print_and_read_back(&c);
    else if (err.status != status || !err.text[0])
        abort();
    return 0;
}
