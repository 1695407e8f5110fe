/* SPDX-License-Identifier: MIT
 * The words with which users select the form of matrices in running models.
 */
#ifndef LM_INFER_WEIGHT_FORMAT_H
#define LM_INFER_WEIGHT_FORMAT_H

#include <string.h>

#include "core/device/uri.h"
#include "lm/infer/generate.h"

#define FORM_WORDS "auto|fp32|bf16|fp16|int8|int4"

/* Returns whether forms are chosen that change nothing. On the cpu device in fp32, "auto" means the forms with the
 * fewest bits that hold the matrices exactly. */
static inline bool form_is_exact(const char *word, const char *device, mil_dtype precision) {
    return strcmp(word, "auto") == 0 && device_is(device, "cpu") && precision == MIL_fp32;
}

static inline model_packing form_of(const char *word) {
    for (int form = MODEL_FP16; form <= MODEL_INT4; form++)
        if (strcmp(word, model_packing_name((model_packing)form)) == 0) return (model_packing)form;
    return MODEL_UNPACKED;
}

#endif
