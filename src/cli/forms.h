/* SPDX-License-Identifier: MIT
 * The flag --weights of the commands that run models.
 */
#ifndef CLI_FORMS_H
#define CLI_FORMS_H

#include <string.h>

#include "model/pack.h"

#define FORM_WORDS "fp32|fp16|int8|int4"
#define FORM_HELP  "how matrices are stored; fp32: as --precision says"

static inline model_packing form_of(const char *word) {
    return strcmp(word, "int4") == 0   ? MODEL_INT4
           : strcmp(word, "int8") == 0 ? MODEL_INT8
           : strcmp(word, "fp16") == 0 ? MODEL_FP16
                                       : MODEL_UNPACKED;
}

#endif
