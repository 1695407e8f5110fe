/* SPDX-License-Identifier: MIT
 * Owns the table of GGUF's number formats (gguf_types.def): lookups by number and by word, lists for messages, and the
 * conversion of blocks.
 */
#include <stdio.h>
#include <string.h>

#include "lm/files/gguf_quant.h"

static const gguf_type_info gguf_types[] = {
#define GGUF_KNOWN(number, NAME, block, bytes) {number, #NAME, "", block, bytes, 0, number, NULL, NULL},
#define GGUF_READ(number, NAME, word, block, bytes)                                                                    \
    {number, #NAME, #word, block, bytes, 0, number, gguf_decode_##word, NULL},
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow)                                              \
    {number, #NAME, #word, block, bytes, file_type, GGUF_TYPE_##narrow, gguf_decode_##word, gguf_encode_##word},
#include "lm/files/gguf_types.def"
};

enum { GGUF_TYPES = sizeof gguf_types / sizeof gguf_types[0] };

const gguf_type_info *gguf_type_get(int type) {
    for (int i = 0; i < GGUF_TYPES; i++)
        if (gguf_types[i].type == type) return &gguf_types[i];
    return NULL;
}

const gguf_type_info *gguf_type_find(const char *word) {
    for (int i = 0; i < GGUF_TYPES; i++)
        if (gguf_types[i].encode && strcmp(gguf_types[i].word, word) == 0) return &gguf_types[i];
    return NULL;
}

const char *gguf_type_words(const char *between, char out[GGUF_TYPE_WORDS]) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < GGUF_TYPES; i++)
        if (gguf_types[i].encode)
            used +=
                (size_t)snprintf(out + used, GGUF_TYPE_WORDS - used, "%s%s", used ? between : "", gguf_types[i].word);
    return out;
}

const char *gguf_type_names(char out[GGUF_TYPE_WORDS]) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < GGUF_TYPES; i++)
        if (gguf_types[i].decode)
            used += (size_t)snprintf(out + used, GGUF_TYPE_WORDS - used, "%s%s", used ? ", " : "", gguf_types[i].name);
    return out;
}

uint64_t gguf_tensor_bytes(gguf_type type, int64_t count) {
    const gguf_type_info *info = gguf_type_get((int)type);
    return (uint64_t)(count / info->block) * (uint64_t)info->bytes;
}

void gguf_decode_blocks(gguf_type type, const uint8_t *blocks, int64_t count, float *out) {
    const gguf_type_info *info = gguf_type_get(type);
    info->decode(blocks, count / info->block, out);
}

size_t gguf_encode_blocks(gguf_type type, const float *values, int64_t count, uint8_t *out) {
    const gguf_type_info *info = gguf_type_get(type);
    info->encode(values, count / info->block, out);
    return (size_t)gguf_tensor_bytes(type, count);
}
