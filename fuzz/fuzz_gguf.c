/* SPDX-License-Identifier: MIT
 * GGUF: every accepted key and tensor is inside the file and can be found. Values, tensors, the configuration and the
 * vocabulary are read, and an accepted vocabulary can encode.
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "lm/files/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_values(const gguf *g, const uint8_t *data, const uint8_t *end) {
    propane_error err = {0};
    for (int i = 0; i < gguf_value_count(g); i++) {
        const gguf_value *v = gguf_value_at(g, i);
        const char *string = "";
        double real;
        int64_t whole;
        uint64_t at = 0;
        size_t length;
        if (gguf_find(g, v->key) != v || v->data < data || v->bytes > (uint64_t)(end - v->data)) abort();
        (void)!gguf_get_text(g, v->key, true, &string, &err);
        (void)!gguf_get_real(g, v->key, true, &real, &err);
        (void)!gguf_get_int(g, v->key, true, INT64_MIN, INT64_MAX, &whole, &err);
        if (v->type != GGUF_ARRAY) continue;
        for (uint64_t k = 0; k < v->count; k++) {
            if (v->item == GGUF_TEXT) {
                const char *item = gguf_next_text(v, &at, &length);
                if ((const uint8_t *)item + length > end) abort();
            } else if (v->item == GGUF_F32 || v->item == GGUF_F64)
                (void)gguf_item_real(v, k);
            else
                (void)gguf_item_int(v, k);
        }
        if (v->item == GGUF_TEXT && at != v->bytes) abort();
    }
}

static void use_tensors(const gguf *g, const uint8_t *data, const uint8_t *end) {
    propane_error err = {0};
    for (int i = 0; i < gguf_tensor_count(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        if (gguf_find_tensor(g, t->name) != t || t->data < data || t->bytes > (uint64_t)(end - t->data)) abort();
        float *out = mem_array((size_t)t->count, sizeof *out);
        if (out) (void)!gguf_f32(g, t, out, &err);
        mem_free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    gguf *g;
    model_config config;
    tokenizer *t = NULL;
    propane_status status = gguf_parse(data, size, "fuzz", &g, &err);
    if (status) {
        if (g || err.status != status || !err.text[0]) abort();
        return 0;
    }
    use_values(g, data, data + size);
    use_tensors(g, data, data + size);
    (void)!gguf_config(g, &config, &err);
    if (gguf_read_tokenizer(g, &t, &err) == PROPANE_OK) {
        token_list list = {0};
        text bytes = {0};
        if (tokenizer_encode(t, (const char *)data, size < 2000 ? size : 2000, &list, &err) == PROPANE_OK)
            tokenizer_decode_bytes(t, list.ids, list.count, &bytes);
        text_deinit(&bytes);
        token_list_deinit(&list);
    }
    tokenizer_free(t);
    gguf_close(g);
    return 0;
}
