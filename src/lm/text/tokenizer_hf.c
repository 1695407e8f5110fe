/* SPDX-License-Identifier: MIT
 * Owns reading Hugging Face's tokenizer.json into a tokenizer. Every setting that would change an id is either
 * supported or refused with the key's name. Settings that only Python code reads (padding, truncation) are ignored.
 */
#include "lm/text/tokenizer_hf.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static propane_status tokenizer_hf_refuse(const char *source, const char *key, const char *value, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s '%.60s' is not supported", source, key, value);
}

enum { ADDED_MOST = 4096 };

/* ---- added tokens ---------------------------------------------------------------------------------------------------- */

/* Enters an added token into a trie. A token that is matched in normalised text is itself normalised first. */
static propane_status tokenizer_hf_enter_added(struct hf_tokenizer *h, int index, hf_matcher *match,
                                               propane_error *err) {
    const hf_added *a = &h->added[index];
    const bool in_normal = h->sp.on && h->scores ? !a->special : a->normalized; /* sp: user-defined pieces */
    text buffers[2] = {{0}, {0}};
    const char *content = a->content;
    size_t length = a->length;
    propane_status status = PROPANE_OK;
    if (a->normalized && !h->sp.on)
        status =
            hf_normalize(h->normalizers, h->normalizer_count, match, content, length, buffers, &content, &length, err);
    if (!status && !hf_trie_add(in_normal ? &h->normal : &h->raw, content, length, index))
        status = propane_fail_memory(err, length);
    text_deinit(&buffers[0]);
    text_deinit(&buffers[1]);
    return status;
}

static propane_status tokenizer_hf_read_added_with(tokenizer *t, const json_t *list, const char *source,
                                                   hf_matcher *match, propane_error *err) {
    struct hf_tokenizer *h = t->hf;
    size_t count = json_array_size(list);
    h->added = ARENA_ARRAY(t->arena, count ? count : 1, hf_added);
    if (!h->added) return propane_fail_memory(err, count * sizeof *h->added);
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        hf_added *a = &h->added[i];
        const char *content;
        int64_t id;
        a->normalized = true;
        PROPANE_TRY(json_get_text(object, source, "content", true, &content, err));
        PROPANE_TRY(json_get_int(object, source, "id", true, 0, t->vocab - 1, &id, err));
        PROPANE_TRY(json_get_bool(object, source, "special", false, &a->special, err));
        a->normalized = !a->special;
        PROPANE_TRY(json_get_bool(object, source, "normalized", false, &a->normalized, err));
        PROPANE_TRY(json_get_bool(object, source, "single_word", false, &a->single_word, err));
        PROPANE_TRY(json_get_bool(object, source, "lstrip", false, &a->lstrip, err));
        PROPANE_TRY(json_get_bool(object, source, "rstrip", false, &a->rstrip, err));
        a->id = (int32_t)id;
        a->length = strlen(content);
        if (a->length > ADDED_MOST) /* every position of a text may be compared with the whole token */
            return propane_fail(err, PROPANE_ERR_LIMIT, "%s: added token %lld has %zu bytes; the maximum is %d", source,
                                (long long)id, a->length, (int)ADDED_MOST);
        a->content = arena_string(t->arena, content);
        if (!a->content) return propane_fail_memory(err, a->length);
        if (a->special || !t->pieces[id] || h->byte_level) {
            t->pieces[id] = a->content;
            t->lengths[id] = a->special ? 0 : (uint32_t)a->length;
        } /* otherwise the vocabulary's text, which the decoder processes */
        h->added_count = (int)i + 1;
        PROPANE_TRY(tokenizer_hf_enter_added(h, (int)i, match, err));
    }
    return PROPANE_OK;
}

static propane_status tokenizer_hf_read_added(tokenizer *t, const json_t *list, const char *source,
                                              propane_error *err) {
    hf_matcher match;
    PROPANE_TRY(hf_matcher_init(&match, 0, err));
    propane_status status = tokenizer_hf_read_added_with(t, list, source, &match, err);
    hf_matcher_deinit(&match);
    return status;
}

/* ---- the vocabulary --------------------------------------------------------------------------------------------------- */

static propane_status tokenizer_hf_check_id(const char *key, const json_t *value, const char *source, int64_t *out,
                                            propane_error *err) {
    *out = json_is_integer(value) ? json_integer_value(value) : -1;
    if (*out >= 0 && *out < TOKENIZER_VOCAB_MAX) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the id of '%.60s' must be an integer from 0 to %d", source, key,
                        TOKENIZER_VOCAB_MAX - 1);
}

/* Sets *out to the largest id plus one. */
static propane_status tokenizer_hf_count_ids(const json_t *object, const json_t *vocab, const char *source, int *out,
                                             propane_error *err) {
    const char *key;
    json_t *value, *list = json_object_get(object, "added_tokens");
    int64_t id, largest = -1;
    if (json_is_array(vocab)) {
        PROPANE_TRY(unigram_count(vocab, source, &id, err));
        largest = id - 1;
    }
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value) {
        PROPANE_TRY(tokenizer_hf_check_id(key, value, source, &id, err));
        if (id > largest) largest = id;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        PROPANE_TRY(
            tokenizer_hf_check_id("an added token", json_object_get(json_array_get(list, i), "id"), source, &id, err));
        if (id > largest) largest = id;
    }
    if (largest < 0) return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'model.vocab' is empty", source);
    *out = (int)largest + 1;
    return PROPANE_OK;
}

/* Decodes the bytes of a byte-level key. Returns false if the key has other characters. */
static bool tokenizer_hf_unmap(const char *key, size_t length, char *out, size_t *out_length) {
    *out_length = 0;
    for (size_t i = 0; i < length;) {
        int n = utf8_length(key + i, length - i);
        int32_t code = n == 1   ? (unsigned char)key[i]
                       : n == 2 ? ((unsigned char)key[i] & 31) << 6 | ((unsigned char)key[i + 1] & 63)
                                : -1;
        int byte = hf_char_to_byte(code);
        if (byte < 0) return false;
        out[(*out_length)++] = (char)(unsigned char)byte;
        i += (size_t)n;
    }
    return true;
}

/* Returns whether a word mark is inside a piece, which means that text must not be cut there. */
static bool tokenizer_hf_joins_words(const char *key, size_t length) {
    static const char mark[] = "\xe2\x96\x81";
    bool other = false;
    for (size_t i = 0; i < length;) {
        bool is_mark = length - i >= 3 && memcmp(key + i, mark, 3) == 0;
        if (is_mark && other) return true;
        if (!is_mark) other = true;
        i += is_mark ? 3 : 1;
    }
    return false;
}

/* Reads the pieces for decoding and the map for encoding. */
static propane_status tokenizer_hf_read_vocab(tokenizer *t, const json_t *vocab, const char *source,
                                              propane_error *err) {
    struct hf_tokenizer *h = t->hf;
    const char *key;
    json_t *value;
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value) {
        size_t length = strlen(key), bytes = length;
        int32_t id = (int32_t)json_integer_value(value);
        char *piece = arena_alloc(t->arena, length + 1);
        if (!piece) return propane_fail_memory(err, length + 1);
        if (t->pieces[id])
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: 'model.vocab' gives the id %d twice, the second time to '%.60s'", source, (int)id,
                                key);
        bool mapped = h->byte_level && tokenizer_hf_unmap(key, length, piece, &bytes);
        if (!mapped) memcpy(piece, key, bytes = length);
        t->pieces[id] = piece;
        t->lengths[id] = (uint32_t)bytes;
        if (h->byte_level && mapped && bytes == 1) t->byte_id[(unsigned char)piece[0]] = id;
        if ((!h->byte_level || mapped) && bytes && !piece_map_enter(&t->lookup, piece, bytes, id))
            return propane_fail_memory(err, t->lookup.capacity * 40);
        int byte = h->byte_fallback ? hf_byte_of(key, length) : -1;
        if (byte >= 0 && !h->byte_level) t->byte_id[byte] = id;
    }
    return PROPANE_OK;
}

/* Splits a merge, "a b" or ["a", "b"], into its two tokens. *left need not be terminated. */
static propane_status tokenizer_hf_merge_parts(const json_t *value, size_t index, const char *source, const char **left,
                                               size_t *left_length, const char **right, propane_error *err) {
    const char *line = json_string_value(value);
    *left = json_string_value(json_array_get(value, 0));
    *right = json_string_value(json_array_get(value, 1));
    if (line) {
        const char *space = strchr(line, ' ');
        *left = space && !strchr(space + 1, ' ') ? line : NULL;
        *right = space ? space + 1 : NULL;
        *left_length = space ? (size_t)(space - line) : 0;
    } else if (*left) {
        *left_length = strlen(*left);
    }
    if (*left && *right && (line || json_array_size(value) == 2)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: merge %zu must be a pair of tokens, such as \"a b\" or [\"a\", \"b\"]", source, index);
}

static propane_status tokenizer_hf_vocab_id(const json_t *vocab, const char *key, size_t merge, const char *source,
                                            int32_t *id, propane_error *err) {
    const json_t *value = json_object_get(vocab, key);
    *id = value ? (int32_t)json_integer_value(value) : -1;
    return value ? PROPANE_OK
                 : propane_fail(err, PROPANE_ERR_INVALID, "%s: merge %zu needs '%.60s', which is not in 'model.vocab'",
                                source, merge, key);
}

static propane_status tokenizer_hf_read_merges(tokenizer *t, const json_t *vocab, const json_t *list,
                                               const char *source, propane_error *err) {
    struct hf_tokenizer *h = t->hf;
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > 4 * TOKENIZER_VOCAB_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'model.merges' must be a list of at most %d pairs", source,
                            4 * TOKENIZER_VOCAB_MAX);
    h->merged = ARENA_ARRAY(t->arena, count ? count : 1, int32_t);
    if (!h->merged) return propane_fail_memory(err, count * 4);
    h->merge_count = (int)count;
    text joined = {0};
    propane_status status = PROPANE_OK;
    for (size_t i = 0; !status && i < count; i++) {
        const char *left, *right;
        size_t left_length = 0;
        int32_t a = -1, b = -1;
        if ((status = tokenizer_hf_merge_parts(json_array_get(list, i), i, source, &left, &left_length, &right, err)))
            break;
        text_clear(&joined);
        text_append_n(&joined, left, left_length);
        if (joined.failed) {
            status = propane_fail_memory(err, left_length);
            break;
        }
        status = tokenizer_hf_vocab_id(vocab, left_length ? joined.data : "", i, source, &a, err);
        if (!status) status = tokenizer_hf_vocab_id(vocab, right, i, source, &b, err);
        text_append(&joined, right);
        if (!status && joined.failed) status = propane_fail_memory(err, joined.capacity);
        if (!status)
            status = tokenizer_hf_vocab_id(vocab, joined.length ? joined.data : "", i, source, &h->merged[i], err);
        if (status) break;
        if (tokenizer_hf_joins_words(joined.data, joined.length)) h->cut_spaces = false;
        int32_t *rank = id_map_enter(&t->pairs, (uint64_t)(uint32_t)a << 32 | (uint32_t)b, (int32_t)i);
        if (!rank)
            status = propane_fail_memory(err, t->pairs.capacity * 24);
        else
            *rank = (int32_t)i; /* the last one of equal pairs counts */
    }
    text_deinit(&joined);
    return status;
}

/* ---- decoder and post-processor ---------------------------------------------------------------------------------------- */

/* The changes that a decoder makes to pieces. */
typedef struct decoding {
    bool byte_level, spaces, bytes, known;
    hf_drop drop;
} decoding;

static propane_status tokenizer_hf_read_decoder(const json_t *value, const char *source, decoding *d, int depth,
                                                propane_error *err) {
    const char *type, *from = "", *to = "";
    int64_t start = 0, stop = 0;
    bool prefix = true;
    PROPANE_TRY(json_get_text(value, source, "type", true, &type, err));
    d->known = true;
    if (strcmp(type, "Sequence") == 0) {
        const json_t *parts = json_object_get(value, "decoders");
        for (size_t i = 0; i < json_array_size(parts) && depth < 4; i++)
            PROPANE_TRY(tokenizer_hf_read_decoder(json_array_get(parts, i), source, d, depth + 1, err));
        return PROPANE_OK;
    }
    if (strcmp(type, "ByteLevel") == 0)
        d->byte_level = true;
    else if (strcmp(type, "ByteFallback") == 0)
        d->bytes = true;
    else if (strcmp(type, "Fuse") == 0)
        return PROPANE_OK;
    else if (strcmp(type, "Metaspace") == 0) {
        d->spaces = true;
        PROPANE_TRY(json_get_bool(value, source, "add_prefix_space", false, &prefix, err));
        PROPANE_TRY(json_get_text(value, source, "prepend_scheme", false, &to, err));
        d->drop = (*to ? strcmp(to, "never") != 0 : prefix) ? HF_DROP_PIECE : HF_DROP_NONE;
    } else if (strcmp(type, "Replace") == 0) {
        PROPANE_TRY(json_get_text(json_object_get(value, "pattern"), source, "String", true, &from, err));
        PROPANE_TRY(json_get_text(value, source, "content", true, &to, err));
        if (strcmp(from, "\xe2\x96\x81") != 0 || strcmp(to, " ") != 0)
            return tokenizer_hf_refuse(source, "decoder Replace of", from, err);
        d->spaces = true;
    } else if (strcmp(type, "Strip") == 0) {
        PROPANE_TRY(json_get_text(value, source, "content", true, &from, err));
        PROPANE_TRY(json_get_int(value, source, "start", true, 0, 1, &start, err));
        PROPANE_TRY(json_get_int(value, source, "stop", true, 0, 0, &stop, err));
        if (strcmp(from, " ") != 0) return tokenizer_hf_refuse(source, "decoder Strip of", from, err);
        d->drop = start == 1 ? HF_DROP_ONE : HF_DROP_NONE;
    } else
        return tokenizer_hf_refuse(source, "decoder", type, err);
    return PROPANE_OK;
}

/* Replaces pieces by the text to which they decode. Encoding uses the map, which has a separate copy of the keys. */
static propane_status tokenizer_hf_decode_pieces(tokenizer *t, const decoding *d, propane_error *err) {
    t->hf->drop = d->drop;
    if (t->hf->sp.on) t->hf->drop = t->hf->sp.squeeze ? HF_DROP_ALL : t->hf->sp.prefix ? HF_DROP_ONE : HF_DROP_NONE;
    if (d->byte_level || (!d->spaces && !d->bytes)) return PROPANE_OK;
    for (int i = 0; i < t->vocab; i++) {
        const char *key = t->pieces[i];
        size_t length = t->lengths[i], n = 0;
        int byte = d->bytes ? hf_byte_of(key ? key : "", length) : -1;
        char *piece = length ? arena_alloc(t->arena, length) : NULL;
        if (length && !piece) return propane_fail_memory(err, length);
        for (size_t k = 0; k < length;) {
            bool mark = d->spaces && length - k >= 3 && memcmp(key + k, "\xe2\x96\x81", 3) == 0;
            piece[n++] = mark ? ' ' : key[k];
            k += mark ? 3 : 1;
        }
        if (byte >= 0) piece[0] = (char)(unsigned char)byte, n = 1;
        t->pieces[i] = n ? piece : "";
        t->lengths[i] = (uint32_t)n;
    }
    return PROPANE_OK;
}

/* Reads the tokens around a text: at most one before it, and the first one after it. */
static propane_status tokenizer_hf_read_template(tokenizer *t, const json_t *value, const char *source,
                                                 propane_error *err) {
    const json_t *single = json_object_get(value, "single");
    bool text_seen = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *part = json_array_get(single, i), *special = json_object_get(part, "SpecialToken");
        const char *name = json_string_value(json_object_get(special, "id"));
        if (json_object_get(part, "Sequence")) {
            text_seen = true;
            continue;
        }
        const json_t *ids =
            json_object_get(json_object_get(json_object_get(value, "special_tokens"), name ? name : ""), "ids");
        const json_t *id = json_array_get(ids, 0);
        if (json_array_size(ids) != 1 || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= t->vocab)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: post_processor: '%.60s' must have one id of the vocabulary", source,
                                name ? name : "single");
        if (text_seen) {
            if (t->hf->behind < 0) t->hf->behind = (int32_t)json_integer_value(id);
            continue;
        }
        if (t->bos >= 0)
            return tokenizer_hf_refuse(source, "post_processor with more than one initial token:", name, err);
        t->bos = (int)json_integer_value(id);
    }
    return PROPANE_OK;
}

static propane_status tokenizer_hf_read_post(tokenizer *t, const json_t *value, const char *source, int depth,
                                             propane_error *err) {
    const char *type;
    if (!value || json_is_null(value)) return PROPANE_OK;
    PROPANE_TRY(json_get_text(value, source, "type", true, &type, err));
    if (strcmp(type, "ByteLevel") == 0) return PROPANE_OK; /* only trims offsets, which are not computed */
    if (strcmp(type, "TemplateProcessing") == 0) return tokenizer_hf_read_template(t, value, source, err);
    if (strcmp(type, "Sequence") != 0 || depth > 4) return tokenizer_hf_refuse(source, "post_processor", type, err);
    const json_t *parts = json_object_get(value, "processors");
    for (size_t i = 0; i < json_array_size(parts); i++)
        PROPANE_TRY(tokenizer_hf_read_post(t, json_array_get(parts, i), source, depth + 1, err));
    return PROPANE_OK;
}

/* ---- ends of texts, identity ------------------------------------------------------------------------------------------- */

static int tokenizer_hf_added_id(const struct hf_tokenizer *h, const char *content) {
    for (int i = 0; content && i < h->added_count; i++)
        if (strcmp(h->added[i].content, content) == 0) return h->added[i].id;
    return -1;
}

/* Finds the end token from Propane's own key, from tokenizer_config.json, or by common names, in this order. */
static void tokenizer_hf_find_eos(tokenizer *t, const json_t *own, const json_t *config) {
    static const char *const names[] = {"<|im_end|>", "<|eot_id|>",    "<|end_of_text|>",
                                        "</s>",       "<|endoftext|>", "<eos>"};
    const json_t *token = json_object_get(config, "eos_token"), *id = json_object_get(own, "eos");
    if (json_is_integer(id)) {
        t->eos = json_integer_value(id) >= 0 && json_integer_value(id) < t->vocab ? (int)json_integer_value(id) : -1;
    } else if (token) {
        if (json_is_object(token)) token = json_object_get(token, "content");
        t->eos = tokenizer_hf_added_id(t->hf, json_string_value(token));
    } else {
        for (size_t i = 0; t->eos < 0 && i < sizeof names / sizeof names[0]; i++)
            t->eos = tokenizer_hf_added_id(t->hf, names[i]);
        if (t->eos < 0) t->eos = t->hf->behind;
    }
}

/* Keeps the content of the file, for writing and for the hash. */
static propane_status tokenizer_hf_keep(tokenizer *t, const json_t *object, propane_error *err) {
    json_t *copy = json_copy((json_t *)(uintptr_t)object), *own = json_pack("{s:i}", "eos", t->eos);
    char *kept = NULL;
    (void)json_object_del(copy, TOKENIZER_CHAT_KEY); /* the tokenizer's current value is written instead */
    if (t->hf->by_result) json_put(own, "ranks", json_true());
    json_put(copy, HF_OWN_KEY, own);
    const propane_status status = json_print(copy, JSON_COMPACT, &kept, &t->hf->json_length, err);
    json_decref(copy);
    if (kept) t->hf->json = arena_string_n(t->arena, kept, t->hf->json_length);
    mem_free(kept);
    return status || t->hf->json ? status : propane_fail_memory(err, 0);
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------- */

static propane_status tokenizer_hf_read_model_flags(struct hf_tokenizer *h, const json_t *model, const char *source,
                                                    propane_error *err) {
    const char *affix = "";
    double dropout = 0;
    PROPANE_TRY(json_get_text(model, source, "continuing_subword_prefix", false, &affix, err));
    if (*affix) return tokenizer_hf_refuse(source, "continuing_subword_prefix", affix, err);
    PROPANE_TRY(json_get_text(model, source, "end_of_word_suffix", false, &affix, err));
    if (*affix) return tokenizer_hf_refuse(source, "end_of_word_suffix", affix, err);
    PROPANE_TRY(json_get_real(model, source, "dropout", false, &dropout, err));
    if (dropout > 0) return tokenizer_hf_refuse(source, "dropout", "above 0", err);
    PROPANE_TRY(json_get_bool(model, source, "fuse_unk", false, &h->fuse_unk, err));
    PROPANE_TRY(json_get_bool(model, source, "byte_fallback", false, &h->byte_fallback, err));
    return json_get_bool(model, source, "ignore_merges", false, &h->ignore_merges, err);
}

static propane_status tokenizer_hf_read_unknown(tokenizer *t, const json_t *model, const json_t *vocab,
                                                const char *source, propane_error *err) {
    const char *name = NULL;
    t->hf->unk = -1;
    PROPANE_TRY(json_get_text(model, source, "unk_token", false, &name, err));
    if (!name) return PROPANE_OK;
    const json_t *id = json_object_get(vocab, name);
    if (!id)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: unk_token '%.60s' is not in 'model.vocab'", source, name);
    t->hf->unk = (int32_t)json_integer_value(id);
    return PROPANE_OK;
}

static propane_status tokenizer_hf_read_pairs(tokenizer *t, const json_t *model, const char *source,
                                              propane_error *err) {
    struct hf_tokenizer *h = t->hf;
    const json_t *vocab = json_object_get(model, "vocab");
    PROPANE_TRY(tokenizer_hf_read_model_flags(h, model, source, err));
    h->cut_spaces = !h->byte_level && !h->ignore_merges && json_object_get(vocab, "\xe2\x96\x81");
    PROPANE_TRY(tokenizer_hf_read_vocab(t, vocab, source, err));
    PROPANE_TRY(tokenizer_hf_read_unknown(t, model, vocab, source, err));
    return tokenizer_hf_read_merges(t, vocab, json_object_get(model, "merges"), source, err);
}

/* {"prefix": b, "squeeze": b, "escape": b, "unused": [ids]}; the rules are those of the normaliser's charsmap. */
static propane_status tokenizer_hf_read_sentencepiece(struct hf_tokenizer *h, const json_t *object, const char *source,
                                                      propane_error *err) {
    const json_t *sp = json_object_get(json_object_get(object, "normalizer"), HF_SP_KEY);
    if (!sp) return PROPANE_OK;
    h->sp.on = true;
    h->sp.unused = json_object_get(sp, "unused");
    for (int i = 0; i < h->normalizer_count; i++)
        if (h->normalizers[i].kind == HF_CHARSMAP) h->sp.rules = h->normalizers[i].rules;
    PROPANE_TRY(json_get_bool(sp, source, "prefix", true, &h->sp.prefix, err));
    PROPANE_TRY(json_get_bool(sp, source, "squeeze", true, &h->sp.squeeze, err));
    return json_get_bool(sp, source, "escape", true, &h->sp.escape, err);
}

static propane_status tokenizer_hf_fill(tokenizer *t, const json_t *object, const json_t *config, const char *source,
                                        propane_error *err) {
    struct hf_tokenizer *h = t->hf;
    const json_t *model = json_object_get(object, "model");
    decoding d = {0};
    h->behind = -1;
    PROPANE_TRY(hf_read_normalizers(t->arena, json_object_get(object, "normalizer"), source, h->normalizers,
                                    &h->normalizer_count, err));
    PROPANE_TRY(
        hf_read_splits(t->arena, json_object_get(object, "pre_tokenizer"), source, h->splits, &h->split_count, err));
    for (int i = 0; i < h->split_count; i++) {
        if (h->splits[i].kind != HF_BYTE_LEVEL) continue;
        if (i + 1 < h->split_count)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: pre_tokenizer ByteLevel must be the last one of its Sequence", source);
        h->byte_level = true;
    }
    PROPANE_TRY(tokenizer_hf_read_sentencepiece(h, object, source, err));
    PROPANE_TRY(json_is_array(json_object_get(model, "vocab")) ? unigram_read(t, object, source, err)
                                                               : tokenizer_hf_read_pairs(t, model, source, err));
    if (json_is_object(json_object_get(object, "decoder")))
        PROPANE_TRY(tokenizer_hf_read_decoder(json_object_get(object, "decoder"), source, &d, 0, err));
    if (!d.known || d.byte_level != h->byte_level)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: 'decoder' must be ByteLevel if the pre_tokenizer is",
                            source);
    PROPANE_TRY(tokenizer_hf_decode_pieces(t, &d, err));
    PROPANE_TRY(tokenizer_hf_read_added(t, json_object_get(object, "added_tokens"), source, err));
    for (int i = 0; i < t->vocab; i++)
        if (!t->pieces[i]) t->pieces[i] = ""; /* a gap between the ids */
    PROPANE_TRY(tokenizer_hf_read_post(t, json_object_get(object, "post_processor"), source, 0, err));
    h->by_result = json_is_true(json_object_get(json_object_get(object, HF_OWN_KEY), "ranks"));
    tokenizer_hf_find_eos(t, json_object_get(object, HF_OWN_KEY), config);
    const json_t *chat = json_object_get(object, TOKENIZER_CHAT_KEY);
    PROPANE_TRY(tokenizer_chat_from_json(t->arena, chat ? chat : config, &t->chat, err));
    return tokenizer_hf_keep(t, object, err);
}

propane_status hf_parse(const json_t *object, const json_t *config, const char *source, tokenizer **out,
                        propane_error *err) {
    int count = 0;
    const json_t *vocab = json_object_get(json_object_get(object, "model"), "vocab");
    *out = NULL;
    const char *type = json_string_value(json_object_get(json_object_get(object, "model"), "type"));
    const bool unigram = type && strcmp(type, "Unigram") == 0;
    if (type && !unigram && strcmp(type, "BPE") != 0) return tokenizer_hf_refuse(source, "model", type, err);
    if (!unigram && !json_is_object(vocab))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'model.vocab' must be an object of tokens and ids", source);
    if (unigram) PROPANE_TRY(unigram_count(vocab, source, &(int64_t){0}, err));
    PROPANE_TRY(tokenizer_hf_count_ids(object, vocab, source, &count, err));
    tokenizer *t;
    PROPANE_TRY(tokenizer_begin(TOKENIZER_HF, count, &t, err));
    t->hf = ARENA_NEW(t->arena, struct hf_tokenizer);
    propane_status status =
        t->hf ? tokenizer_hf_fill(t, object, config, source, err) : propane_fail_memory(err, sizeof *t->hf);
    if (status)
        tokenizer_free(t);
    else
        *out = t;
    return status;
}
