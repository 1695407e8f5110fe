/* SPDX-License-Identifier: MIT
 * Owns the files of tokenizers: Propane's JSON (docs/formats.md) and llama2.c's tokenizer.bin. The first byte that is
 * not white space distinguishes them: '{' means JSON. JSON with a "model" is Hugging Face's (tokenizer_hf.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "lm/files/gguf.h"
#include "lm/text/tokenizer_hf.h"
#include "lm/text/tokenizer_internal.h"
#include "lm/text/tokenizer_ranks.h"
#include "lm/text/tokenizer_sentencepiece.h"

enum { FORMAT_VERSION = 1, FILE_MAX = 256 << 20 };

/* ---- llama2.c ------------------------------------------------------------------------------------------------------------ */

/* Counts the records, each of which is a float score, an int32 length and a piece. If `t` is not NULL, also sets its
 * scores and pieces. */
static propane_status tokenizer_file_walk_records(const uint8_t *p, size_t length, const char *source, tokenizer *t,
                                                  int *count, propane_error *err) {
    size_t at = 4;
    *count = 0;
    while (at < length) {
        uint32_t bytes = length - at >= 8 ? bytes_u32(p + at + 4) : 0;
        if (length - at < 8 || bytes > length - at - 8)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: offset %zu: piece %d is incomplete; the file is truncated or not a tokenizer",
                                source, at, *count);
        if (bytes == 0 || bytes > TOKENIZER_PIECE_MAX)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: offset %zu: piece %d has %u bytes; it must have 1 to %d. Is it "
                                "a tokenizer file?",
                                source, at + 4, *count, (unsigned)bytes, TOKENIZER_PIECE_MAX);
        if (*count >= TOKENIZER_VOCAB_MAX)
            return propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d pieces", source, TOKENIZER_VOCAB_MAX);
        if (t) {
            uint32_t score = bytes_u32(p + at);
            memcpy(&t->scores[*count], &score, 4);
            t->scores[*count] += 0.0f; /* -0 becomes 0, because JSON has only one zero */
            if (!isfinite(t->scores[*count]))
                return propane_fail(err, PROPANE_ERR_INVALID, "%s: offset %zu: the score of piece %d is not a number",
                                    source, at, *count);
            t->lengths[*count] = bytes;
            t->pieces[*count] = arena_string_n(t->arena, (const char *)p + at + 8, bytes);
            if (!t->pieces[*count]) return propane_fail_memory(err, bytes);
        }
        ++*count;
        at += 8 + bytes;
    }
    return PROPANE_OK;
}

/* Replaces "<0x0A>" by the byte itself. */
static void tokenizer_file_name_bytes(tokenizer *t) {
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    for (int i = 3; i < t->vocab && i < 3 + 256; i++) {
        char *piece = (char *)(uintptr_t)t->pieces[i]; /* the memory is our own copy */
        char *end = NULL;
        if (t->lengths[i] != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') continue;
        unsigned long value = strtoul(piece + 3, &end, 16);
        if (end != piece + 5 || value != (unsigned long)(i - 3)) continue;
        piece[0] = (char)(unsigned char)value;
        t->lengths[i] = 1;
        t->byte_id[value] = i;
    }
}

static propane_status tokenizer_file_parse_llama(const uint8_t *p, size_t length, const char *source, tokenizer **out,
                                                 propane_error *err) {
    tokenizer *t;
    int count;
    if (length < 4 || bytes_u32(p) > TOKENIZER_PIECE_MAX)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: neither a Propane tokenizer (JSON) nor a llama2.c tokenizer (which begins with the length "
            "of its longest piece)%s",
            source, file_disguise(p, length));
    PROPANE_TRY(tokenizer_file_walk_records(p, length, source, NULL, &count, err));
    if (count < 4)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: only %d pieces; a tokenizer must have at least 4", source,
                            count);
    PROPANE_TRY(tokenizer_begin(TOKENIZER_LLAMA, count, &t, err));
    propane_status status = tokenizer_file_walk_records(p, length, source, t, &count, err);
    if (status) {
        tokenizer_free(t);
        return status;
    }
    tokenizer_file_name_bytes(t);
    t->lengths[0] = t->lengths[1] = t->lengths[2] = 0; /* unknown, begin and end have no text */
    t->bos = 1;
    t->eos = 2;
    return tokenizer_finish(t, source, out, err);
}

/* ---- JSON: reading ----------------------------------------------------------------------------------------------------------- */

static int tokenizer_file_hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Pieces are stored as hex digits, because they need not be UTF-8. */
static propane_status tokenizer_file_read_pieces(tokenizer *t, const json_t *list, const char *source,
                                                 propane_error *err) {
    for (int i = 0; i < t->vocab; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        const char *hex = json_string_value(v);
        size_t digits = hex ? json_string_length(v) : 1;
        if (digits % 2 || digits / 2 > TOKENIZER_PIECE_MAX || (digits == 0 && t->kind == TOKENIZER_CHARS))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: piece %d must be a string of up to %d pairs of hex digits", source, i,
                                TOKENIZER_PIECE_MAX);
        char *piece = arena_alloc(t->arena, digits / 2 + 1);
        if (!piece) return propane_fail_memory(err, digits / 2 + 1);
        for (size_t k = 0; k < digits / 2; k++) {
            int high = tokenizer_file_hex_digit(hex[2 * k]), low = tokenizer_file_hex_digit(hex[2 * k + 1]);
            if (high < 0 || low < 0)
                return propane_fail(err, PROPANE_ERR_INVALID, "%s: piece %d: '%.2s' is not a pair of hex digits",
                                    source, i, hex + 2 * k);
            piece[k] = (char)(unsigned char)(high * 16 + low);
        }
        t->pieces[i] = piece;
        t->lengths[i] = (uint32_t)(digits / 2);
    }
    return PROPANE_OK;
}

/* Checks that each piece of the chars kind is one character, or one byte that is not part of a character, because
 * encoding looks up only these. */
static propane_status tokenizer_file_check_characters(const tokenizer *t, const char *source, propane_error *err) {
    for (int i = 0; i < t->vocab; i++) {
        int n = utf8_length(t->pieces[i], t->lengths[i]);
        if ((uint32_t)(n ? n : 1) != t->lengths[i])
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: piece %d is not one character", source, i);
    }
    return PROPANE_OK;
}

static propane_status tokenizer_file_read_scores(tokenizer *t, const json_t *object, const char *source,
                                                 propane_error *err) {
    const json_t *list = json_object_get(object, "scores"), *bytes = json_object_get(object, "byte_ids");
    if (json_array_size(list) != (size_t)t->vocab || json_array_size(bytes) != 256)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'scores' must be a list of %d numbers and 'byte_ids' of 256",
                            source, t->vocab);
    for (int i = 0; i < t->vocab; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        t->scores[i] = (float)json_number_value(v) + 0.0f;
        if (!json_is_number(v) || !isfinite(t->scores[i]))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: score %d is not a number", source, i);
    }
    for (int i = 0; i < 256; i++) {
        const json_t *v = json_array_get(bytes, (size_t)i);
        int64_t id = json_is_integer(v) ? json_integer_value(v) : INT64_MAX;
        if (id < -1 || id >= t->vocab || (id >= 0 && (t->lengths[id] != 1 || (unsigned char)t->pieces[id][0] != i)))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: byte id %d must be -1 or the id of the piece of that byte", source, i);
        t->byte_id[i] = (int32_t)id;
    }
    return PROPANE_OK;
}

static propane_status tokenizer_file_parse_pieces(const json_t *object, tokenizer_kind kind, const char *source,
                                                  tokenizer **out, propane_error *err) {
    const json_t *list = json_object_get(object, "pieces");
    size_t count = json_array_size(list);
    if (count < 1 || count > TOKENIZER_VOCAB_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'pieces' must be a list of 1 to %d strings", source,
                            TOKENIZER_VOCAB_MAX);
    tokenizer *t;
    int64_t bos = -1, eos = -1;
    PROPANE_TRY(tokenizer_begin(kind, (int)count, &t, err));
    propane_status status = tokenizer_file_read_pieces(t, list, source, err);
    if (!status && kind == TOKENIZER_CHARS) status = tokenizer_file_check_characters(t, source, err);
    if (!status && kind == TOKENIZER_LLAMA) status = tokenizer_file_read_scores(t, object, source, err);
    if (!status) status = json_get_int(object, source, "bos", false, -1, t->vocab - 1, &bos, err);
    if (!status) status = json_get_int(object, source, "eos", false, -1, t->vocab - 1, &eos, err);
    if (status) {
        tokenizer_free(t);
        return status;
    }
    t->bos = (int)bos;
    t->eos = (int)eos;
    return tokenizer_finish(t, source, out, err);
}

static propane_status tokenizer_file_parse_merges(const json_t *object, const char *source, tokenizer **out,
                                                  propane_error *err) {
    const json_t *list = json_object_get(object, "merges");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > TOKENIZER_BPE_MAX - 256)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'merges' must be a list of at most %d pairs of ids", source,
                            TOKENIZER_BPE_MAX - 256);
    tokenizer_pair *merges = mem_array(count, sizeof *merges);
    if (!merges) return propane_fail_memory(err, count * sizeof *merges);
    propane_status status = PROPANE_OK;
    for (size_t i = 0; !status && i < count; i++) {
        const json_t *pair = json_array_get(list, i), *left = json_array_get(pair, 0), *right = json_array_get(pair, 1);
        int64_t a = json_is_integer(left) ? json_integer_value(left) : -1;
        int64_t b = json_is_integer(right) ? json_integer_value(right) : -1;
        if (json_array_size(pair) != 2 || a < 0 || b < 0 || a >= TOKENIZER_BPE_MAX || b >= TOKENIZER_BPE_MAX)
            status = propane_fail(err, PROPANE_ERR_INVALID, "%s: merge %zu must be a pair of ids", source, i);
        merges[i] = (tokenizer_pair){(int32_t)a, (int32_t)b};
    }
    if (!status) status = tokenizer_from_merges(merges, (int)count, source, out, err);
    mem_free(merges);
    return status;
}

static propane_status tokenizer_file_parse_object(const json_t *object, const char *source, tokenizer **out,
                                                  propane_error *err) {
    const char *format, *kind, *hash;
    int64_t version = 0;
    PROPANE_TRY(json_get_text(object, source, "format", true, &format, err));
    if (strcmp(format, "propane-tokenizer") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'format' is '%.40s'; it must be 'propane-tokenizer'", source,
                            format);
    PROPANE_TRY(json_get_int(object, source, "version", true, 1, INT32_MAX, &version, err));
    if (version != FORMAT_VERSION)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: version %lld is not supported; this version of Propane supports version %d", source,
                            (long long)version, FORMAT_VERSION);
    PROPANE_TRY(json_get_text(object, source, "kind", true, &kind, err));
    PROPANE_TRY(json_get_text(object, source, "sha256", true, &hash, err));
    int k = TOKENIZER_BYTES;
    while (k <= TOKENIZER_LLAMA && strcmp(kind, tokenizer_kind_name((tokenizer_kind)k)) != 0) k++;
    if (k == TOKENIZER_BYTES)
        PROPANE_TRY(tokenizer_create_bytes(out, err));
    else if (k == TOKENIZER_BPE)
        PROPANE_TRY(tokenizer_file_parse_merges(object, source, out, err));
    else if (k <= TOKENIZER_LLAMA)
        PROPANE_TRY(tokenizer_file_parse_pieces(object, (tokenizer_kind)k, source, out, err));
    else
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: kind is '%.40s'; it must be bytes, chars, bpe or llama",
                            source, kind);
    const char *own = NULL;
    propane_status status = tokenizer_hash(*out, &own, err);
    if (!status)
        status = strcmp(hash, own) == 0
                     ? tokenizer_chat_from_json((*out)->arena, json_object_get(object, TOKENIZER_CHAT_KEY),
                                                &(*out)->chat, err)
                     : propane_fail(err, PROPANE_ERR_INVALID,
                                    "%s: its contents have the SHA-256 %s, but it records %.64s; the file was changed",
                                    source, own, hash);
    if (status == PROPANE_OK) return PROPANE_OK;
    tokenizer_free(*out);
    *out = NULL;
    return status;
}

static propane_status tokenizer_file_parse_with(const void *data, size_t length, const json_t *config,
                                                const char *source, tokenizer **out, propane_error *err) {
    const char *p = data;
    size_t i = 0;
    *out = NULL;
    if (length >= 4 && memcmp(p, "GGUF", 4) == 0) {
        gguf *g;
        PROPANE_TRY(gguf_parse(data, length, source, &g, err));
        propane_status read = gguf_read_tokenizer(g, out, err);
        gguf_close(g);
        return read;
    }
    while (i < length && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t')) i++;
    if (tokenizer_is_sentencepiece(p, length)) return tokenizer_parse_sentencepiece(p, length, source, out, err);
    if (tokenizer_is_tiktoken(p, length)) return tokenizer_parse_tiktoken(p, length, source, out, err);
    if (i < length && p[i] == '{' && tokenizer_is_tekken(p, length))
        return tokenizer_parse_tekken(p, length, source, out, err);
    if (i == length || p[i] != '{') return tokenizer_file_parse_llama(data, length, source, out, err);
    json_t *object;
    PROPANE_TRY(json_parse(data, length, source, &object, err));
    propane_status status = json_object_get(object, "model") && !json_object_get(object, "format")
                                ? hf_parse(object, config, source, out, err)
                                : tokenizer_file_parse_object(object, source, out, err);
    json_decref(object);
    return status;
}

propane_status tokenizer_parse(const void *data, size_t length, const char *source, tokenizer **out,
                               propane_error *err) {
    return tokenizer_file_parse_with(data, length, NULL, source, out, err);
}

/* Reads tokenizer_config.json in the folder of `path`. Sets *out to NULL if there is none. */
static propane_status tokenizer_file_config_beside(const char *path, json_t **out, propane_error *err) {
    static const char name[] = "tokenizer_config.json";
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    char *config = mem_alloc(folder + sizeof name);
    *out = NULL;
    if (!config) return propane_fail_memory(err, folder + sizeof name);
    memcpy(config, path, folder);
    memcpy(config + folder, name, sizeof name);
    propane_status status = file_exists(config) ? json_read(config, 16 << 20, out, err) : PROPANE_OK;
    mem_free(config);
    return status;
}

static propane_status tokenizer_file_read_gguf(const char *path, tokenizer **out, propane_error *err) {
    gguf *g;
    PROPANE_TRY(gguf_open(path, &g, err)); /* mapped: the weights are not read */
    propane_status status = gguf_read_tokenizer(g, out, err);
    gguf_close(g);
    return status;
}

propane_status tokenizer_read(const char *path, tokenizer **out, propane_error *err) {
    char *data;
    size_t length, name = strlen(path);
    json_t *config = NULL;
    *out = NULL;
    if (name > 5 && strcmp(path + name - 5, ".gguf") == 0) return tokenizer_file_read_gguf(path, out, err);
    PROPANE_TRY(file_read(path, FILE_MAX, &data, &length, err));
    bool alone = name < 14 || strcmp(path + name - 14, "tokenizer.json") != 0;
    propane_status status = alone ? PROPANE_OK : tokenizer_file_config_beside(path, &config, err);
    if (!status) status = tokenizer_file_parse_with(data, length, config, path, out, err);
    /* part of a model's folder */
    const bool own = name >= 22 && strcmp(path + name - 22, "tokenizer.propane.json") == 0;
    if (!status && (own || !alone)) status = tokenizer_chat_read(path, (*out)->arena, &(*out)->chat, err);
    if (status) {
        tokenizer_free(*out);
        *out = NULL;
    }
    json_decref(config);
    mem_free(data);
    return status;
}

/* ---- JSON: writing ------------------------------------------------------------------------------------------------------------- */

static void tokenizer_file_print_pieces(const tokenizer *t, text *out) {
    static const char digits[] = "0123456789abcdef";
    text_append(out, ",\n\"pieces\": [");
    for (int i = 0; i < t->vocab; i++) {
        text_append(out, i ? ",\n\"" : "\n\"");
        for (uint32_t k = 0; k < t->lengths[i]; k++) {
            unsigned char c = (unsigned char)t->pieces[i][k];
            const char pair[] = {digits[c >> 4], digits[c & 15]};
            text_append_n(out, pair, 2);
        }
        text_append(out, "\"");
    }
    text_append(out, "]");
    if (t->kind != TOKENIZER_LLAMA) return;
    text_append(out, ",\n\"scores\": [");
    for (int i = 0; i < t->vocab; i++) {
        text_append(out, i ? "," : "");
        text_real(out, 9, t->scores[i]);
    }
    text_append(out, "],\n\"byte_ids\": [");
    for (int i = 0; i < 256; i++) text_printf(out, "%s%d", i ? "," : "", (int)t->byte_id[i]);
    text_append(out, "]");
}

/* Writes "chat": {...} between two texts, or nothing if there is nothing to write. */
static void tokenizer_file_print_chat(const tokenizer_chat *c, const char *before, const char *behind, text *out) {
    json_t *chat = tokenizer_chat_to_json(c);
    char *printed = NULL;
    propane_error none = {0};
    if (!chat) return;
    if (json_print(chat, JSON_COMPACT, &printed, NULL, &none) != PROPANE_OK) out->failed = true;
    if (printed) text_printf(out, "%s\"" TOKENIZER_CHAT_KEY "\": %s%s", before, printed, behind);
    mem_free(printed);
    json_decref(chat);
}

static void tokenizer_file_print(const tokenizer *t, const tokenizer_chat *chat, text *out) {
    if (t->hf) {
        text_append_n(out, t->hf->json, 1); /* the opening brace */
        tokenizer_file_print_chat(chat, "", ",", out);
        text_append_n(out, t->hf->json + 1, t->hf->json_length - 1);
        return;
    }
    propane_error none = {0};
    const char *hash;
    if (tokenizer_hash(t, &hash, &none) != PROPANE_OK) out->failed = true;
    if (out->failed) return;
    text_printf(out, "{\"format\": \"propane-tokenizer\", \"version\": %d, \"kind\": \"%s\", \"vocab_size\": %d,\n",
                FORMAT_VERSION, tokenizer_kind_name(t->kind), t->vocab);
    text_printf(out, "\"bos\": %d, \"eos\": %d, \"sha256\": \"%s\"", t->bos, t->eos, hash);
    if (t->kind == TOKENIZER_BPE) {
        text_append(out, ",\n\"merges\": [");
        for (int i = 0; i < t->vocab - 256; i++)
            text_printf(out, "%s[%d,%d]", i ? ",\n" : "\n", (int)t->merges[i].left, (int)t->merges[i].right);
        text_append(out, "]");
    } else if (t->kind != TOKENIZER_BYTES) {
        tokenizer_file_print_pieces(t, out);
    }
    tokenizer_file_print_chat(chat, ",\n", "", out);
    text_append(out, "}\n");
}

void tokenizer_print(const tokenizer *t, text *out) { tokenizer_file_print(t, &t->chat, out); }

propane_status tokenizer_write(const tokenizer *t, const char *format, const char *path, propane_error *err) {
    text out = {0};
    tokenizer_chat chat = t->chat;
    if (format) chat.format = format;
    tokenizer_file_print(t, &chat, &out);
    propane_status status =
        out.failed ? propane_fail_memory(err, out.length) : file_write(path, out.data, out.length, err);
    text_deinit(&out);
    return status;
}
