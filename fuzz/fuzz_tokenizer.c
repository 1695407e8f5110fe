/* SPDX-License-Identifier: MIT
 * Tokenizer files: an accepted file encodes any text, decodes it to the same text, and prints as a file that is the
 * same tokenizer. A file in which only the hash is wrong gets the right one and a second try, so that the search
 * reaches the code after the check.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const tokenizer *t, const uint8_t *data, size_t size) {
    propane_error err = {0};
    token_list list = {0};
    text out = {0}, shown = {0};
    tokenizer_stream stream = {0};
    size_t length = size < 2000 ? size : 2000;
    if (tokenizer_encode(t, (const char *)data, length, &list, &err) == PROPANE_OK) {
        tokenizer_decode_bytes(t, list.ids, list.count, &out);
        if (out.length != length || (length && memcmp(out.data, data, length) != 0)) {
            /* a llama vocabulary without a piece for the space has no dummy space, so it may lose a real one; a
             * tokenizer.json may normalise text or leave parts out */
            if (tokenizer_get_kind(t) != TOKENIZER_LLAMA && tokenizer_get_kind(t) != TOKENIZER_HF) abort();
        }
        for (size_t i = 0; i < list.count; i++) tokenizer_decode(t, &stream, list.ids[i], &shown);
        tokenizer_decode_end(&stream, &shown);
    }
    text_deinit(&shown);
    text_clear(&out);
    tokenizer_print(t, &out);
    tokenizer *again;
    if (tokenizer_parse(out.data, out.length, "again", &again, &err) != PROPANE_OK) abort();
    const char *hash, *hash_again;
    if (tokenizer_hash(t, &hash, &err) || tokenizer_hash(again, &hash_again, &err)) abort();
    if (strcmp(hash_again, hash) != 0) abort();
    tokenizer_free(again);
    text_deinit(&out);
    token_list_deinit(&list);
}

static int try(const uint8_t *data, size_t size, propane_error *err) {
    tokenizer *t;
    propane_status status = tokenizer_parse(data, size, "fuzz", &t, err);
    if (status) {
        if (t || err->status != status || !err->text[0]) abort();
        return 0;
    }
    use(t, data, size);
    tokenizer_free(t);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char says[] = "has the SHA-256 ";
    propane_error err = {0};
    if (try(data, size, &err)) return 0;
    const char *hash = strstr(err.text, says);
    if (!hash) return 0;
    uint8_t *copy = mem_alloc(size);
    if (!copy) return 0;
    memcpy(copy, data, size);
    uint8_t *at = memmem(copy, size, "\"sha256\": \"", 11);
    if (at && (size_t)(copy + size - at) > 11 + 64) {
        memcpy(at + 11, hash + sizeof says - 1, 64);
        (void)try(copy, size, &err);
    }
    mem_free(copy);
    return 0;
}
