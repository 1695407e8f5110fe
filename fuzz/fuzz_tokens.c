/* SPDX-License-Identifier: MIT
 * Token files: every accepted id is smaller than the vocabulary. The checksum is corrected before the second try.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/text/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const void *data, size_t size) {
    propane_error err = {0};
    token_file f;
    propane_status status = token_file_parse(data, size, "fuzz", &f, &err);
    if (status) {
        if (f.ids || err.status != status || !err.text[0]) abort();
        return;
    }
    for (int64_t i = 0; i < f.count; i++)
        if (token_file_get(&f, i) < 0 || token_file_get(&f, i) >= f.vocab_size) abort();
    if (strlen(f.tokenizer_hash) != 64) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { HEADER = 128, CHECKSUM_AT = 40 };
    uint8_t *copy = mem_alloc(size); /* aligned, as a mapped file is */
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    try(copy, size);
    if (size >= HEADER) {
        uint64_t sum = token_file_checksum(copy + HEADER, size - HEADER);
        for (int i = 0; i < 8; i++) copy[CHECKSUM_AT + i] = (uint8_t)(sum >> (8 * i));
        try(copy, size);
    }
    mem_free(copy);
    return 0;
}
