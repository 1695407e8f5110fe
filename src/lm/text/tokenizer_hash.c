/* SPDX-License-Identifier: MIT
 * Owns a vocabulary's hash, the SHA-256 of everything that determines its ids and texts. The hash is computed on first
 * use, because this takes as long as reading a large vocabulary.
 */
#include <string.h>

#include "core/base/fork.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "lm/text/tokenizer_hf.h"
#include "lm/text/tokenizer_internal.h"

static void hash_u32(sha256 *h, uint32_t v) {
    const uint8_t bytes[] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    sha256_update(h, bytes, 4);
}

/* Hashes everything that determines encoding and decoding, in little endian (docs/formats.md). */
static void hash_pieces(tokenizer *t) {
    sha256 h;
    uint8_t digest[32];
    sha256_init(&h);
    sha256_update(&h, "propane-tokenizer-1", 19);
    hash_u32(&h, (uint32_t)t->kind);
    hash_u32(&h, (uint32_t)t->vocab);
    hash_u32(&h, (uint32_t)t->bos);
    hash_u32(&h, (uint32_t)t->eos);
    for (int i = 0; i < t->vocab; i++) {
        hash_u32(&h, t->lengths[i]);
        sha256_update(&h, t->pieces[i], t->lengths[i]);
        uint32_t score = 0;
        if (t->scores) memcpy(&score, &t->scores[i], 4);
        hash_u32(&h, score);
        if (t->kind == TOKENIZER_BPE && i >= 256) {
            hash_u32(&h, (uint32_t)t->merges[i - 256].left);
            hash_u32(&h, (uint32_t)t->merges[i - 256].right);
        }
    }
    sha256_final(&h, digest);
    sha256_hex(digest, t->hash);
}

/* Hashes the file's content in a canonical form, without parts that do not affect ids or text. */
static propane_status hash_file(tokenizer *t, propane_error *err) {
    static const char *const idle[] = {HF_OWN_KEY, TOKENIZER_CHAT_KEY, "version", "truncation", "padding"};
    json_t *file = NULL;
    char *sorted = NULL;
    size_t length = 0;
    sha256 h;
    uint8_t digest[32];
    PROPANE_TRY(json_parse_nul(t->hf->json, t->hf->json_length, "the vocabulary", &file, err));
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) (void)json_object_del(file, idle[i]);
    const propane_status status = json_print(file, JSON_COMPACT | JSON_SORT_KEYS, &sorted, &length, err);
    json_decref(file);
    PROPANE_TRY(status);
    sha256_init(&h);
    sha256_update(&h, "propane-tokenizer-hf-1", 22);
    sha256_update(&h, sorted, length);
    sha256_final(&h, digest);
    sha256_hex(digest, t->hash);
    mem_free(sorted);
    return PROPANE_OK;
}

propane_status tokenizer_hash(const tokenizer *t, const char **out, propane_error *err) {
    static fork_mutex lock = FORK_MUTEX_INITIALIZER;
    tokenizer *own = (tokenizer *)(uintptr_t)t;
    propane_status status = PROPANE_OK;
    fork_mutex_lock(&lock);
    if (!*t->hash && t->hf)
        status = hash_file(own, err);
    else if (!*t->hash)
        hash_pieces(own);
    fork_mutex_unlock(&lock);
    *out = status ? NULL : t->hash;
    return status;
}
