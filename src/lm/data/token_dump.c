/* SPDX-License-Identifier: MIT
 * Owns the formats of other programs' token files. nanoGPT's format has no signature: a *.bin file is taken for one if
 * it has zero bytes, which texts do not have.
 */
#include "lm/data/token_dump.h"

#include <string.h>

#include "core/base/text.h"

enum { DUMP_HEADER = 1024, DUMP_NARROW = 20240520, DUMP_WIDE = 20240801 };

static uint32_t token_dump_word(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int token_dump_id_bytes(const uint8_t *p, size_t length) {
    const uint32_t mark = length >= DUMP_HEADER ? token_dump_word(p) : 0;
    return mark == DUMP_NARROW ? 2 : mark == DUMP_WIDE ? 4 : 0;
}

bool token_dump_is(const char *path, const void *data, size_t length) {
    if (token_dump_id_bytes(data, length)) return true;
    return text_ends_with(path, ".bin") && length > 0 && memchr(data, 0, length < 65536 ? length : 65536);
}

static propane_status token_dump_parse(const char *path, const file_map *map, token_file *t, propane_error *err) {
    const int with_header = token_dump_id_bytes(map->data, map->bytes);
    const size_t header = with_header ? DUMP_HEADER : 0, bytes = map->bytes - header;
    t->id_bytes = with_header ? with_header : 2;
    t->ids = map->data + header;
    t->count = (int64_t)(bytes / (size_t)t->id_bytes);
    if (bytes % (size_t)t->id_bytes)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: %zu bytes are not a multiple of the id size, %d bytes; the file is truncated or not a token file",
            path, bytes, t->id_bytes);
    if (with_header && t->count != (int64_t)token_dump_word(map->data + 8))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: its header declares %u tokens, but there are %lld; the file is truncated or damaged",
                            path, (unsigned)token_dump_word(map->data + 8), (long long)t->count);
    return PROPANE_OK;
}

/* Computes the length of the text with the tokenizer. An id that the tokenizer lacks is therefore detected before the
 * run begins. */
static propane_status token_dump_measure(const char *path, const tokenizer *t, token_file *f, propane_error *err) {
    const int vocab = tokenizer_vocab_size(t);
    for (int64_t i = 0; i < f->count; i++) {
        const uint32_t id = (uint32_t)token_file_get(f, i);
        size_t length;
        if (id >= (uint32_t)vocab)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: token %lld is %u, but the tokenizer has %d ids; give the tokenizer that the file "
                                "was made with (it is read as a token file from nanoGPT or llm.c)",
                                path, (long long)i, (unsigned)id, vocab);
        (void)tokenizer_piece(t, (int)id, &length);
        f->text_bytes += (int64_t)length;
    }
    f->vocab_size = vocab;
    return PROPANE_OK;
}

propane_status token_dump_open(const char *path, const tokenizer *t, token_file *out, propane_error *err) {
    file_map map;
    *out = (token_file){0};
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = token_dump_parse(path, &map, out, err);
    if (status == PROPANE_OK) status = token_dump_measure(path, t, out, err);
    if (status == PROPANE_OK)
        out->map = map;
    else
        file_map_close(&map);
    return status;
}
