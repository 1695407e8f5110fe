/* SPDX-License-Identifier: MIT
 * Owns the conversion of GGUF vocabularies to SentencePiece's message: pieces, scores and types, and the preparation of
 * text. It serves Unigram (model "t5"), and pairs (model "llama") if special tokens occur in texts, as chat tokens do.
 * Lists of different lengths are refused.
 */
#include "lm/files/gguf_sentencepiece.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "lm/text/tokenizer_sentencepiece.h"

/* Append a field of the message: a number, or bytes. */
static void gguf_sp_put_varint(text *out, uint64_t value) {
    for (; value > 127; value >>= 7) text_append_n(out, &(char){(char)(unsigned char)(value | 128)}, 1);
    text_append_n(out, &(char){(char)value}, 1);
}

static void gguf_sp_put_number(text *out, int number, int64_t value) {
    gguf_sp_put_varint(out, (uint64_t)number << 3);
    gguf_sp_put_varint(out, (uint64_t)value);
}

static void gguf_sp_put_bytes(text *out, int number, const void *data, size_t length) {
    gguf_sp_put_varint(out, (uint64_t)number << 3 | 2);
    gguf_sp_put_varint(out, length);
    text_append_n(out, data, length);
}

/* Returns whether a token consumes the white space after it, which GGUF files do not state. Phi-3's special tokens do,
 * except <unk>, <s> and <|endoftext|>. */
static bool gguf_sp_takes_space(const gguf *g, const char *data, size_t length, int type) {
    static const char *const none[] = {"<unk>", "<s>", "<|endoftext|>"};
    const char *arch = "";
    if (gguf_get_text(g, "general.architecture", false, &arch, NULL) || strcmp(arch, "phi3") != 0) return false;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (strlen(none[i]) == length && memcmp(none[i], data, length) == 0) return false;
    return type == CONTROL || type == USER_DEFINED;
}

/* Returns a piece's type. A vocabulary has one unknown token; further pieces of that type only fill up the embedding
 * and count as unused. */
static int gguf_sp_piece_type(const gguf_value *types, uint64_t index, sentencepiece_kind kind, int64_t unk) {
    const int type = (int)gguf_item_int(types, index);
    return kind == SP_PAIRS && type == UNKNOWN && (int64_t)index != unk ? UNUSED : type;
}

static propane_status gguf_sp_put_pieces(const gguf *g, const gguf_value *tokens, sentencepiece_kind kind, text *out,
                                         propane_error *err) {
    const gguf_value *scores, *types;
    text piece = {0};
    uint64_t at = 0;
    int64_t unk = -1;
    PROPANE_TRY(gguf_get_int(g, KEY("unknown_token_id"), false, 0, (int64_t)tokens->count - 1, &unk, err));
    PROPANE_TRY(gguf_get_array(g, KEY("scores"), true, GGUF_F32, &scores, err));
    PROPANE_TRY(gguf_get_array(g, KEY("token_type"), true, GGUF_I32, &types, err));
    if (scores->count != tokens->count || types->count != tokens->count)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: tokens, scores and token_type of tokenizer.ggml must have the same length",
                            gguf_source(g));
    for (uint64_t i = 0; i < tokens->count; i++) {
        size_t length;
        const char *data = gguf_next_text(tokens, &at, &length);
        const char key = 2 << 3 | 5;
        text_clear(&piece);
        gguf_sp_put_bytes(&piece, 1, data, length);
        text_append_n(&piece, &key, 1);
        text_append_n(&piece, scores->data + 4 * i, 4);
        const int type = gguf_sp_piece_type(types, i, kind, unk);
        gguf_sp_put_number(&piece, 3, type);
        if (gguf_sp_takes_space(g, data, length, type)) gguf_sp_put_number(&piece, SENTENCEPIECE_STRIPS, 1);
        gguf_sp_put_bytes(out, 1, piece.data, piece.length);
    }
    if (piece.failed) out->failed = true;
    text_deinit(&piece);
    return PROPANE_OK;
}

/* Writes the other parts of the message. Missing keys have llama.cpp's defaults: Unigram adds neither a token nor a
 * space in front, pairs add both, and white space stays unchanged. */
static propane_status gguf_sp_put_parts(const gguf *g, const gguf_value *tokens, sentencepiece_kind kind, text *out,
                                        propane_error *err) {
    const gguf_value *rules = gguf_find(g, KEY("precompiled_charsmap")), *types = gguf_find(g, KEY("token_type"));
    int64_t bos = -1, eos = -1, unk = -1;
    bool prefix = kind == SP_PAIRS, squeeze = false, add_bos = kind == SP_PAIRS, bytes = false;
    text part = {0};
    if (rules && (rules->type != GGUF_ARRAY || (rules->item != GGUF_U8 && rules->item != GGUF_I8)))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: key '%s' must be an array of bytes", gguf_source(g),
                            KEY("precompiled_charsmap"));
    PROPANE_TRY(gguf_get_int(g, KEY("bos_token_id"), false, 0, (int64_t)tokens->count - 1, &bos, err));
    PROPANE_TRY(gguf_get_int(g, KEY("eos_token_id"), false, 0, (int64_t)tokens->count - 1, &eos, err));
    PROPANE_TRY(gguf_get_int(g, KEY("unknown_token_id"), false, 0, (int64_t)tokens->count - 1, &unk, err));
    PROPANE_TRY(gguf_get_bool(g, KEY("add_bos_token"), &add_bos, err));
    PROPANE_TRY(gguf_get_bool(g, KEY("add_space_prefix"), &prefix, err));
    PROPANE_TRY(gguf_get_bool(g, KEY("remove_extra_whitespaces"), &squeeze, err));
    for (uint64_t i = 0; i < types->count; i++) bytes |= gguf_item_int(types, i) == BYTE;
    gguf_sp_put_number(&part, 3, kind);
    gguf_sp_put_number(&part, 35, bytes);
    gguf_sp_put_number(&part, 40, unk);
    gguf_sp_put_number(&part, 41, add_bos ? bos : -1);
    gguf_sp_put_number(&part, 42, eos);
    gguf_sp_put_bytes(out, 2, part.data, part.length);
    text_clear(&part);
    if (rules) gguf_sp_put_bytes(&part, 2, rules->data, (size_t)rules->count);
    gguf_sp_put_number(&part, 3, prefix);
    gguf_sp_put_number(&part, 4, squeeze);
    gguf_sp_put_bytes(out, 3, part.data, part.length);
    if (part.failed) out->failed = true;
    text_deinit(&part);
    return PROPANE_OK;
}

propane_status gguf_sp_read(const gguf *g, const gguf_value *tokens, sentencepiece_kind kind, tokenizer **out,
                            propane_error *err) {
    text message = {0};
    propane_status status = gguf_sp_put_pieces(g, tokens, kind, &message, err);
    if (!status) status = gguf_sp_put_parts(g, tokens, kind, &message, err);
    if (!status && message.failed) status = propane_fail_memory(err, message.capacity);
    if (!status) status = tokenizer_parse_sentencepiece(message.data, message.length, gguf_source(g), out, err);
    text_deinit(&message);
    return status;
}

propane_status gguf_sp_has_marks(const gguf *g, const gguf_value *tokens, bool *out, propane_error *err) {
    const gguf_value *types = NULL;
    int64_t ends[] = {-1, -1, -1, -1};
    static const char *const keys[] = {KEY("bos_token_id"), KEY("eos_token_id"), KEY("unknown_token_id"),
                                       KEY("padding_token_id")};
    *out = false;
    PROPANE_TRY(gguf_get_array(g, KEY("token_type"), true, GGUF_I32, &types, err));
    for (int i = 0; i < 4; i++)
        PROPANE_TRY(gguf_get_int(g, keys[i], false, 0, (int64_t)tokens->count - 1, &ends[i], err));
    for (uint64_t i = 0; i < types->count && i < tokens->count && !*out; i++) {
        const int type = (int)gguf_item_int(types, i);
        const int64_t id = (int64_t)i;
        const bool end = id == ends[0] || id == ends[1] || id == ends[2] || id == ends[3] || id < 3;
        *out = type == USER_DEFINED || (type == CONTROL && !end);
    }
    return PROPANE_OK;
}
