/* SPDX-License-Identifier: MIT
 * Owns token files. The header has 128 bytes, little endian: "PRPNTOKS", u32 version, u32 bytes per id, u64 vocabulary,
 * u64 count, u64 bytes of text, u64 checksum, SHA-256 of the tokenizer, zeros. The ids follow.
 */
#include "lm/text/tokens.h"

#include <string.h>

#include "core/base/memory.h"

enum { HEADER_BYTES = 128, VERSION = 1, HASH_AT = 48 };
static const char magic[8] = {'P', 'R', 'P', 'N', 'T', 'O', 'K', 'S'};

bool token_file_is(const void *data, size_t length) {
    return length >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

static uint64_t tokens_get(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static void tokens_put(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
}

/* The checksum is computed over little-endian words of 8 bytes, the last of which is padded with zeros. It detects
 * damage, not tampering. */
uint64_t token_file_checksum(const void *data, size_t bytes) {
    const uint8_t *p = data;
    uint64_t h = bytes;
    for (size_t i = 0; i < bytes; i += 8) {
        h = (h ^ tokens_get(p + i, bytes - i < 8 ? (int)(bytes - i) : 8)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

static propane_status tokens_check_ids(const token_file *t, const char *source, propane_error *err) {
    for (int64_t i = 0; i < t->count; i++) {
        uint32_t id = t->id_bytes == 2 ? ((const uint16_t *)t->ids)[i] : ((const uint32_t *)t->ids)[i];
        if (id >= (uint64_t)t->vocab_size)
            return propane_fail(
                err, PROPANE_ERR_INVALID, "%s: token %lld (offset %lld) is %u, but the vocabulary has %lld ids", source,
                (long long)i, (long long)(HEADER_BYTES + i * t->id_bytes), (unsigned)id, (long long)t->vocab_size);
    }
    return PROPANE_OK;
}

propane_status token_file_parse(const void *data, size_t length, const char *source, token_file *out,
                                propane_error *err) {
    const uint8_t *p = data;
    *out = (token_file){0};
    if (length < HEADER_BYTES || memcmp(p, magic, 8) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: not a token file: it does not begin with a header 'PRPNTOKS' of %d "
                            "bytes",
                            source, HEADER_BYTES);
    if (tokens_get(p + 8, 4) != VERSION)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: offset 8: version %llu is not supported; this version of Propane supports version %d",
                            source, (unsigned long long)tokens_get(p + 8, 4), VERSION);
    uint64_t id_bytes = tokens_get(p + 12, 4), vocab = tokens_get(p + 16, 8), count = tokens_get(p + 24, 8);
    if (id_bytes != 2 && id_bytes != 4)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: offset 12: the id size is %llu bytes; it must be 2 or 4",
                            source, (unsigned long long)id_bytes);
    if (vocab < 1 || vocab > INT32_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: offset 16: invalid vocabulary of %llu ids", source,
                            (unsigned long long)vocab);
    if (count != (length - HEADER_BYTES) / id_bytes || (length - HEADER_BYTES) % id_bytes)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: offset 24: %llu tokens of %llu bytes do not match a file of %zu bytes; it is truncated or damaged",
            source, (unsigned long long)count, (unsigned long long)id_bytes, length);
    token_file t = {.ids = p + HEADER_BYTES,
                    .id_bytes = (int)id_bytes,
                    .vocab_size = (int64_t)vocab,
                    .count = (int64_t)count,
                    .text_bytes = (int64_t)(tokens_get(p + 32, 8) & INT64_MAX)};
    for (int i = 0; i < 32; i++) {
        static const char digits[] = "0123456789abcdef";
        t.tokenizer_hash[2 * i] = digits[p[HASH_AT + i] >> 4];
        t.tokenizer_hash[2 * i + 1] = digits[p[HASH_AT + i] & 15];
    }
    if (token_file_checksum(p + HEADER_BYTES, length - HEADER_BYTES) != tokens_get(p + 40, 8))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the checksum of the tokens is wrong; the file is damaged",
                            source);
    PROPANE_TRY(tokens_check_ids(&t, source, err));
    *out = t;
    return PROPANE_OK;
}

propane_status token_text_check(const char *path, const char *data, size_t length, propane_error *err) {
    const char *zero = memchr(data, 0, length), *other = length && data[0] != '<' ? file_disguise(data, length) : "";
    if (*other) return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a text%s", path, other);
    if (!zero) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: not a text, because byte %zu is zero; give UTF-8 text, instruction data (.jsonl) or a "
                        "token file (from 'propane tokenize' or llm.c, or nanoGPT's *.bin with --tokenizer)",
                        path, (size_t)(zero - data));
}

propane_status token_file_open(const char *path, token_file *out, propane_error *err) {
    file_map map;
    *out = (token_file){0};
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = token_file_parse(map.data, map.bytes, path, out, err);
    if (status)
        file_map_close(&map);
    else
        out->map = map;
    return status;
}

void token_file_close(token_file *t) {
    if (!t) return;
    file_map_close(&t->map);
    *t = (token_file){0};
}

int32_t token_file_get(const token_file *t, int64_t index) {
    return t->id_bytes == 2 ? ((const uint16_t *)t->ids)[index] : (int32_t)((const uint32_t *)t->ids)[index];
}

propane_status token_file_check(const token_file *t, const char *path, const tokenizer *maker,
                                const char *tokenizer_path, propane_error *err) {
    const char *hash;
    PROPANE_TRY(tokenizer_hash(maker, &hash, err));
    if (strcmp(t->tokenizer_hash, hash) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s was written with the tokenizer %.12s..., but %s is %.12s...; tokenize the text again with "
                        "this tokenizer, or use the original one",
                        path, t->tokenizer_hash, tokenizer_path, hash);
}

propane_status token_file_write(const char *path, const tokenizer *maker, const int32_t *ids, int64_t count,
                                int64_t text_bytes, propane_error *err) {
    int vocab = tokenizer_vocab_size(maker), id_bytes = vocab <= 65536 ? 2 : 4;
    size_t bytes = (size_t)count * (size_t)id_bytes;
    const char *hash;
    PROPANE_TRY(tokenizer_hash(maker, &hash, err));
    uint8_t header[HEADER_BYTES] = {0}, *packed = mem_alloc(bytes);
    if (!packed) return propane_fail_memory(err, bytes);
    for (int64_t i = 0; i < count; i++) tokens_put(packed + i * id_bytes, (uint32_t)ids[i], id_bytes);
    memcpy(header, magic, 8);
    tokens_put(header + 8, VERSION, 4);
    tokens_put(header + 12, (uint64_t)id_bytes, 4);
    tokens_put(header + 16, (uint64_t)vocab, 8);
    tokens_put(header + 24, (uint64_t)count, 8);
    tokens_put(header + 32, (uint64_t)text_bytes, 8);
    tokens_put(header + 40, token_file_checksum(packed, bytes), 8);
    for (int i = 0; i < 32; i++) {
        const char *hex = hash + 2 * i;
        int high = hex[0] <= '9' ? hex[0] - '0' : hex[0] - 'a' + 10,
            low = hex[1] <= '9' ? hex[1] - '0' : hex[1] - 'a' + 10;
        header[HASH_AT + i] = (uint8_t)(high * 16 + low);
    }
    file_writer *w;
    propane_status status = file_writer_open(path, &w, err);
    if (!status) {
        status = file_writer_write(w, header, sizeof header, err);
        if (!status) status = file_writer_write(w, packed, bytes, err);
        if (status)
            file_writer_abort(w);
        else
            status = file_writer_commit(w, err);
    }
    mem_free(packed);
    return status;
}
