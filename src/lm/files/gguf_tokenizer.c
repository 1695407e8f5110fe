/* SPDX-License-Identifier: MIT
 * Owns vocabularies in GGUF files. Model "llama" (SentencePiece: pieces, scores, types) becomes a tokenizer of the
 * llama kind. Model "gpt2" (byte-level BPE: tokens, merges, the name of a pre-tokeniser) becomes a tokenizer.json.
 * Model "t5" (SentencePiece's Unigram) is converted back to the tokenizer.model from which it was made, and read in
 * that form. A "llama" vocabulary with tokens that occur in texts, such as chat tokens, is read in the same way. Other
 * models and pre-tokenisers are refused by name.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/memory.h"
#include "lm/files/gguf_sentencepiece.h"
#include "lm/text/tokenizer_hf.h"

#define CHAT_TEMPLATE "tokenizer.chat_template"
#define CHAT_NAMES    "tokenizer.chat_templates"
#define CHAT_FORMAT   "propane.chat_format" /* Propane's key: a built-in format, if there is no template */
#define MARK          "\xe2\x96\x81"

#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

/* Pre-tokenisers known by name in llama.cpp, with their regular expressions in tokenizer.json. */
static const struct known_pre {
    const char *name;
    const char *pattern; /* NULL means GPT-2's */
    bool nfc, digits, ignore_merges;
} pres[] = {
    {"gpt-2", NULL, false, false, false},
    {"default", NULL, false, false, false},
    {"llama-bpe", HEAD "\\p{N}{1,3}" TAIL, false, false, true},
    {"llama3", HEAD "\\p{N}{1,3}" TAIL, false, false, true},
    {"qwen2", HEAD "\\p{N}" TAIL, true, false, false},
    {"smollm", NULL, false, true, false},
};

/* ---- reading: SentencePiece ------------------------------------------------------------------------------------------------ */

static int gguf_tokenizer_type_at(const gguf_value *types, uint64_t index) {
    return types ? (int)gguf_item_int(types, index) : NORMAL;
}

/* Stores a piece. Word marks become spaces, and a piece of type BYTE becomes the byte. */
static propane_status gguf_tokenizer_fill_piece(tokenizer *t, int id, const char *data, size_t length, int type,
                                                const char *source, propane_error *err) {
    char *piece = arena_alloc(t->arena, length + 1);
    size_t n = 0;
    if (!piece) return propane_fail_memory(err, length);
    if (length > TOKENIZER_PIECE_MAX)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: token %d is too long", source, id);
    for (size_t i = 0; i < length; n++) {
        bool mark = length - i >= 3 && memcmp(data + i, MARK, 3) == 0;
        piece[n] = mark ? ' ' : data[i];
        i += mark ? 3 : 1;
    }
    if (type == BYTE) {
        char *end = NULL, copy[7] = {0};
        memcpy(copy, data, length == 6 ? 6 : 0);
        unsigned long value = strtoul(copy[0] ? copy + 3 : "", &end, 16);
        if (length != 6 || memcmp(data, "<0x", 3) != 0 || end != copy + 5 || value > 255)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: token %d has the type of a byte, but its text is not <0xNN>", source, id);
        piece[0] = (char)(unsigned char)value;
        n = 1;
        t->byte_id[value] = id;
    }
    t->pieces[id] = piece;
    t->lengths[id] = type == UNKNOWN || type == CONTROL || type == UNUSED ? 0 : (uint32_t)n;
    return PROPANE_OK;
}

static propane_status gguf_tokenizer_fill_llama(const gguf *g, const gguf_value *tokens, tokenizer *t,
                                                propane_error *err) {
    const gguf_value *scores, *types;
    int64_t bos = -1, eos = -1;
    bool prefix = true, add_bos = true;
    uint64_t at = 0;
    size_t length;
    PROPANE_TRY(gguf_get_array(g, KEY("scores"), true, GGUF_F32, &scores, err));
    PROPANE_TRY(gguf_get_array(g, KEY("token_type"), true, GGUF_I32, &types, err));
    PROPANE_TRY(gguf_get_int(g, KEY("bos_token_id"), false, 0, t->vocab - 1, &bos, err));
    PROPANE_TRY(gguf_get_int(g, KEY("eos_token_id"), false, 0, t->vocab - 1, &eos, err));
    PROPANE_TRY(gguf_get_bool(g, KEY("add_space_prefix"), &prefix, err));
    PROPANE_TRY(gguf_get_bool(g, KEY("add_bos_token"), &add_bos, err));
    if (scores->count != tokens->count || types->count != tokens->count)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: tokens, scores and token_type of tokenizer.ggml must have the same length",
                            gguf_source(g));
    if (!prefix)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: tokenizer.ggml.add_space_prefix is false, which is not supported", gguf_source(g));
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    for (int i = 0; i < t->vocab; i++) {
        const char *data = gguf_next_text(tokens, &at, &length);
        t->scores[i] = (float)gguf_item_real(scores, (uint64_t)i);
        if (!isfinite(t->scores[i]))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: the score of token %d is not a number", gguf_source(g),
                                i);
        if (t->scores[i] == 0) t->scores[i] = 0; /* turns -0 into 0, because the hash covers the bits */
        PROPANE_TRY(gguf_tokenizer_fill_piece(t, i, data, length, gguf_tokenizer_type_at(types, (uint64_t)i),
                                              gguf_source(g), err));
    }
    t->bos = add_bos ? (int)bos : -1;
    t->eos = (int)eos;
    return PROPANE_OK;
}

static propane_status gguf_tokenizer_read_llama(const gguf *g, const gguf_value *tokens, tokenizer **out,
                                                propane_error *err) {
    tokenizer *t;
    PROPANE_TRY(tokenizer_begin(TOKENIZER_LLAMA, (int)tokens->count, &t, err));
    propane_status status = gguf_tokenizer_fill_llama(g, tokens, t, err);
    if (!status) return tokenizer_finish(t, gguf_source(g), out, err);
    tokenizer_free(t);
    return status;
}

/* ---- reading: byte-level BPE --------------------------------------------------------------------------------------------------- */

static json_t *gguf_tokenizer_pre_object(const struct known_pre *p) {
    json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                              "use_regex", p->pattern == NULL);
    if (!p->pattern && !p->digits) return bytes;
    json_t *first = p->digits ? json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1)
                              : json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", p->pattern,
                                          "behavior", "Isolated", "invert", 0);
    return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", first, bytes);
}

/* Adds a control or user-defined token to the tokens that are matched in text. Does nothing for other types. */
static bool gguf_tokenizer_add_token(json_t *file, int id, const char *content, int type) {
    if (type != CONTROL && type != USER_DEFINED) return true;
    return json_array_append_new(json_object_get(file, "added_tokens"),
                                 json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content,
                                           "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special",
                                           type == CONTROL)) == 0;
}

static propane_status gguf_tokenizer_fill_bpe(const gguf *g, const gguf_value *tokens, json_t *file,
                                              propane_error *err) {
    const gguf_value *types, *merges;
    json_t *model = json_object_get(file, "model"), *vocab = json_object_get(model, "vocab"),
           *list = json_object_get(model, "merges");
    uint64_t at = 0;
    size_t length;
    PROPANE_TRY(gguf_get_array(g, KEY("token_type"), false, GGUF_I32, &types, err));
    PROPANE_TRY(gguf_get_array(g, KEY("merges"), true, GGUF_TEXT, &merges, err));
    if (types && types->count != tokens->count)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: tokens and token_type of tokenizer.ggml must have the same length", gguf_source(g));
    for (int i = 0; i < (int)tokens->count; i++) {
        const char *data = gguf_next_text(tokens, &at, &length);
        int type = gguf_tokenizer_type_at(types, (uint64_t)i);
        if (type == UNUSED) continue;
        char *key = length < 65536 && !memchr(data, 0, length) ? mem_alloc(length + 1) : NULL;
        if (key) memcpy(key, data, length);
        bool taken = key && json_object_get(vocab, key), good = key && !taken &&
                                                                json_object_set_new(vocab, key, json_integer(i)) == 0 &&
                                                                gguf_tokenizer_add_token(file, i, key, type);
        mem_free(key);
        if (!good)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: token %d of tokenizer.ggml.tokens is %s", gguf_source(g),
                                i, taken ? "there twice" : "not UTF-8");
    }
    at = 0;
    for (uint64_t i = 0; i < merges->count; i++) {
        const char *data = gguf_next_text(merges, &at, &length);
        if (json_array_append_new(list, json_stringn(data, length)) != 0)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: merge %llu of tokenizer.ggml.merges is not UTF-8",
                                gguf_source(g), (unsigned long long)i);
    }
    return PROPANE_OK;
}

static propane_status gguf_tokenizer_add_ends(const gguf *g, int64_t count, const struct known_pre *p, json_t *file,
                                              propane_error *err) {
    int64_t bos = -1, eos = -1;
    bool add_bos = p->ignore_merges; /* llama.cpp's default if the key is missing */
    PROPANE_TRY(gguf_get_int(g, KEY("bos_token_id"), false, 0, count - 1, &bos, err));
    PROPANE_TRY(gguf_get_int(g, KEY("eos_token_id"), false, 0, count - 1, &eos, err));
    PROPANE_TRY(gguf_get_bool(g, KEY("add_bos_token"), &add_bos, err));
    json_put(file, "propane", json_pack("{s:I}", "eos", (json_int_t)eos));
    if (!add_bos || bos < 0) return PROPANE_OK;
    json_t *post = json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[], s:{s:{s:s, s:[I], s:[s]}}}", "type",
                             "TemplateProcessing", "single", "SpecialToken", "id", "<bos>", "type_id", 0, "Sequence",
                             "id", "A", "type_id", 0, "pair", "special_tokens", "<bos>", "id", "<bos>", "ids",
                             (json_int_t)bos, "tokens", "<bos>");
    return json_object_set_new(file, "post_processor", post) == 0 ? PROPANE_OK : propane_fail_memory(err, 0);
}

static propane_status gguf_tokenizer_read_bpe(const gguf *g, const gguf_value *tokens, tokenizer **out,
                                              propane_error *err) {
    const char *pre = "default";
    const struct known_pre *p = NULL;
    PROPANE_TRY(gguf_get_text(g, KEY("pre"), false, &pre, err));
    for (size_t i = 0; !p && i < sizeof pres / sizeof pres[0]; i++)
        if (strcmp(pre, pres[i].name) == 0) p = &pres[i];
    if (!p)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: unknown tokenizer.ggml.pre '%.40s'", gguf_source(g),
                            pre);
    json_t *file =
        json_pack("{s:s, s:[], s:o?, s:o, s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:b, s:{}, s:[]}}", "version", "1.0",
                  "added_tokens", "normalizer", p->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(),
                  "pre_tokenizer", gguf_tokenizer_pre_object(p), "post_processor", "decoder", "type", "ByteLevel",
                  "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "ignore_merges",
                  p->ignore_merges, "vocab", "merges");
    propane_status status = file ? gguf_tokenizer_fill_bpe(g, tokens, file, err) : propane_fail_memory(err, 0);
    if (!status) status = gguf_tokenizer_add_ends(g, (int64_t)tokens->count, p, file, err);
    if (!status) status = hf_parse(file, NULL, gguf_source(g), out, err);
    json_decref(file);
    return status;
}

/* ---- reading: all of it ---------------------------------------------------------------------------------------------------------- */

static propane_status gguf_tokenizer_read_pairs(const gguf *g, const gguf_value *tokens, tokenizer **out,
                                                propane_error *err) {
    bool marks;
    PROPANE_TRY(gguf_sp_has_marks(g, tokens, &marks, err));
    return marks ? gguf_sp_read(g, tokens, SP_PAIRS, out, err) : gguf_tokenizer_read_llama(g, tokens, out, err);
}

/* Finds the text of the token whose id is the value of a key. Sets *length to 0 if there is none. */
static propane_status gguf_tokenizer_named(const gguf *g, const gguf_value *tokens, const char *key, const char **out,
                                           size_t *length, propane_error *err) {
    int64_t id = -1;
    uint64_t at = 0;
    *length = 0;
    PROPANE_TRY(gguf_get_int(g, key, false, 0, (int64_t)tokens->count - 1, &id, err));
    for (int64_t i = 0; i <= id; i++) *out = gguf_next_text(tokens, &at, length);
    return PROPANE_OK;
}

static propane_status gguf_tokenizer_read_chat(const gguf *g, const gguf_value *tokens, tokenizer *t,
                                               propane_error *err) {
    tokenizer_chat chat = {0};
    const char *bos = NULL, *eos = NULL;
    char names[2][64] = {"", ""};
    size_t length;
    PROPANE_TRY(gguf_get_text(g, CHAT_TEMPLATE, false, &chat.jinja, err));
    PROPANE_TRY(gguf_get_text(g, CHAT_TEMPLATE ".tool_use", false, &chat.tools, err));
    PROPANE_TRY(gguf_get_text(g, CHAT_FORMAT, false, &chat.format, err));
    PROPANE_TRY(gguf_tokenizer_named(g, tokens, KEY("bos_token_id"), &bos, &length, err));
    if (length && length < sizeof names[0]) memcpy(names[0], bos, length);
    PROPANE_TRY(gguf_tokenizer_named(g, tokens, KEY("eos_token_id"), &eos, &length, err));
    if (length && length < sizeof names[1]) memcpy(names[1], eos, length);
    if (*names[0]) chat.bos = names[0];
    if (*names[1]) chat.eos = names[1];
    return tokenizer_set_chat(t, &chat, err);
}

propane_status gguf_read_tokenizer(const gguf *g, tokenizer **out, propane_error *err) {
    const char *model = "none";
    const gguf_value *tokens = NULL;
    *out = NULL;
    PROPANE_TRY(gguf_get_text(g, KEY("model"), false, &model, err));
    if (strcmp(model, "llama") != 0 && strcmp(model, "gpt2") != 0 && strcmp(model, "t5") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: tokenizer.ggml.model is '%.40s'; only 'llama', 'gpt2' and 't5' are supported",
                            gguf_source(g), model);
    PROPANE_TRY(gguf_get_array(g, KEY("tokens"), true, GGUF_TEXT, &tokens, err));
    if (tokens->count < 2 || tokens->count > TOKENIZER_VOCAB_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %llu tokens; a vocabulary must have 2 to %d", gguf_source(g),
                            (unsigned long long)tokens->count, TOKENIZER_VOCAB_MAX);
    PROPANE_TRY(strcmp(model, "llama") == 0 ? gguf_tokenizer_read_pairs(g, tokens, out, err)
                : strcmp(model, "t5") == 0  ? gguf_sp_read(g, tokens, SP_UNIGRAM, out, err)
                                            : gguf_tokenizer_read_bpe(g, tokens, out, err));
    propane_status status = gguf_tokenizer_read_chat(g, tokens, *out, err);
    if (!status) return PROPANE_OK;
    tokenizer_free(*out);
    *out = NULL;
    return status;
}

/* ---- writing --------------------------------------------------------------------------------------------------------------------- */

/* The content of a tokenizer.json, in the order of ids. */
typedef struct listing {
    json_t *file;
    const char **keys; /* [vocab]; NULL for a gap */
    uint8_t *types;
    float *scores;
} listing;

static void gguf_tokenizer_listing_deinit(listing *l) {
    json_decref(l->file);
    mem_free(l->keys);
    mem_free(l->types);
    mem_free(l->scores);
}

/* Lists the pieces of a Unigram model, with their scores. */
static void gguf_tokenizer_list_unigram(const tokenizer *t, listing *l) {
    const json_t *vocab = json_object_get(json_object_get(l->file, "model"), "vocab");
    const json_t *sp = json_object_get(json_object_get(l->file, "normalizer"), HF_SP_KEY);
    const json_t *unused = json_object_get(sp, "unused");
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *entry = json_array_get(vocab, i);
        l->keys[i] = json_string_value(json_array_get(entry, 0));
        l->scores[i] = (float)json_number_value(json_array_get(entry, 1));
        l->types[i] = t->hf->byte_fallback && hf_byte_of(l->keys[i], strlen(l->keys[i])) >= 0 ? BYTE : NORMAL;
    }
    for (size_t i = 0; i < json_array_size(unused); i++) {
        const int64_t id = json_integer_value(json_array_get(unused, i));
        if (id >= 0 && id < t->vocab) l->types[id] = UNUSED;
    }
}

static propane_status gguf_tokenizer_list_keys(const tokenizer *t, listing *l, propane_error *err) {
    text printed = {0};
    propane_status status = tokenizer_print_hf(t, &printed, err);
    if (!status) status = json_parse(printed.data, printed.length, "tokenizer.json", &l->file, err);
    text_deinit(&printed);
    PROPANE_TRY(status);
    l->keys = mem_array((size_t)t->vocab, sizeof *l->keys);
    l->types = mem_array((size_t)t->vocab, 1);
    l->scores = mem_array((size_t)t->vocab, sizeof *l->scores);
    if (!l->keys || !l->types || !l->scores) return propane_fail_memory(err, (size_t)t->vocab * 13);
    const char *key;
    json_t *value, *added = json_object_get(l->file, "added_tokens");
    gguf_tokenizer_list_unigram(t, l);
    json_object_foreach(json_object_get(json_object_get(l->file, "model"), "vocab"), key, value) {
        int64_t id = json_integer_value(value);
        l->keys[id] = key;
        l->types[id] = t->byte_id[0] >= 0 && strncmp(key, "<0x", 3) == 0 && strlen(key) == 6 ? BYTE : NORMAL;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        int64_t id = json_integer_value(json_object_get(token, "id"));
        l->keys[id] = json_string_value(json_object_get(token, "content"));
        l->types[id] = json_is_true(json_object_get(token, "special")) ? CONTROL : USER_DEFINED;
    }
    if (t->hf && t->hf->scores && t->hf->unk >= 0) l->types[t->hf->unk] = UNKNOWN;
    const char *unknown = json_string_value(json_object_get(json_object_get(l->file, "model"), "unk_token"));
    const json_t *id =
        json_object_get(json_object_get(json_object_get(l->file, "model"), "vocab"), unknown ? unknown : "");
    if (id) l->types[json_integer_value(id)] = UNKNOWN;
    return PROPANE_OK;
}

static const char *gguf_tokenizer_pattern_of(const json_t *pre) {
    const json_t *first = json_array_get(json_object_get(pre, "pretokenizers"), 0);
    return json_string_value(json_object_get(json_object_get(first, "pattern"), "Regex"));
}

/* Returns llama.cpp's name of the pre-tokeniser, or NULL if llama.cpp has none. */
static const char *gguf_tokenizer_pre_name(const tokenizer *t, const json_t *file) {
    if (t->kind == TOKENIZER_BPE || t->kind == TOKENIZER_BYTES) return "gpt-2";
    const json_t *pre = json_object_get(file, "pre_tokenizer");
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++) {
        const struct known_pre *p = &pres[i];
        json_t *want = gguf_tokenizer_pre_object(p);
        const char *pattern = gguf_tokenizer_pattern_of(pre);
        bool same = p->pattern ? pattern && strcmp(pattern, p->pattern) == 0
                               : t->hf->split_count == 1 + p->digits && t->hf->splits[0].regex != NULL && !p->digits;
        if (p->digits) same = json_equal(want, pre) != 0;
        if (t->hf->split_count > 0 && t->hf->splits[t->hf->split_count - 1].scheme == HF_ALWAYS)
            same = false; /* this step adds a space in front of a text */
        json_decref(want);
        if (same && p->nfc == (t->hf->normalizer_count > 0) && p->ignore_merges == t->hf->ignore_merges) return p->name;
    }
    return NULL;
}

static void gguf_tokenizer_put_merges(gguf_header *h, const json_t *merges) {
    text line = {0};
    gguf_put_array(h, KEY("merges"), GGUF_TEXT, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *m = json_array_get(merges, i);
        text_clear(&line);
        if (json_is_string(m))
            text_append(&line, json_string_value(m));
        else
            text_printf(&line, "%s %s", json_string_value(json_array_get(m, 0)),
                        json_string_value(json_array_get(m, 1)));
        gguf_put_item_text(h, line.data, line.length);
    }
    if (line.failed) h->values.failed = true;
    text_deinit(&line);
}

/* Sets the scores of pieces: those of the tokenizer, or scores by the first merge that makes a piece, where later
 * merges score lower. */
static void gguf_tokenizer_score_pieces(const tokenizer *t, listing *l) {
    for (int i = 0; i < t->vocab; i++) l->scores[i] = t->scores ? t->scores[i] : 0;
    for (int i = t->scores ? -1 : t->hf->merge_count - 1; i >= 0; i--) l->scores[t->hf->merged[i]] = -(float)i - 1;
}

/* Returns the id of the token `name`, or -1 if no token has this name. */
static int gguf_tokenizer_id_of(const listing *l, int vocab, const char *name) {
    for (int i = 0; name && i < vocab; i++)
        if (l->keys[i] && strcmp(l->keys[i], name) == 0) return i;
    return -1;
}

/* Writes the keys for SentencePiece's preparation of text, which llama.cpp reads for model "t5". */
static void gguf_tokenizer_put_preparation(gguf_header *h, const tokenizer *t) {
    const charsmap *rules = t->hf->sp.rules;
    gguf_put_bool(h, KEY("remove_extra_whitespaces"), t->hf->sp.squeeze);
    if (t->hf->unk >= 0) gguf_put_u32(h, KEY("unknown_token_id"), (uint32_t)t->hf->unk);
    if (!rules) return;
    const uint32_t trie = (uint32_t)(rules->unit_count * 4);
    uint8_t bytes[4];
    gguf_put_array(h, KEY("precompiled_charsmap"), GGUF_U8, 4 + trie + rules->strings_length);
    bytes_put_u32(bytes, trie);
    text_append_n(&h->values, bytes, 4);
    for (size_t i = 0; i < rules->unit_count; i++) {
        bytes_put_u32(bytes, rules->units[i]);
        text_append_n(&h->values, bytes, 4);
    }
    text_append_n(&h->values, rules->strings, rules->strings_length);
}

static propane_status gguf_tokenizer_put_listing(gguf_header *h, const tokenizer *t, listing *l, int64_t vocab,
                                                 propane_error *err) {
    bool spm = t->kind == TOKENIZER_LLAMA || (t->hf && !t->hf->byte_level);
    char unused[32];
    const bool unigram = t->hf && t->hf->scores && t->hf->sp.on && t->hf->sp.escape;
    if (t->hf && (t->hf->scores || t->hf->sp.on) && !unigram)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "a vocabulary of kind hf (%s%s) cannot be written to a GGUF file; write a folder instead",
                            tokenizer_model_name(t),
                            t->hf->sp.on ? ", with SentencePiece's text normalization"
                                         : ", not from a tokenizer.model");
    if (t->kind == TOKENIZER_CHARS || (spm && !unigram && t->hf && (!t->hf->byte_fallback || !t->hf->drop)))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a vocabulary of kind %s %s cannot be stored in a GGUF file",
                            tokenizer_kind_name(t->kind),
                            t->hf ? "without byte fallback or without a leading space" : "(characters)");
    const char *pre = spm ? "default" : gguf_tokenizer_pre_name(t, l->file);
    if (!pre)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "GGUF files have no name for the tokenizer's normalizer or pre-tokenizer");
    gguf_put_text(h, KEY("model"), unigram ? "t5" : spm ? "llama" : "gpt2");
    gguf_put_text(h, KEY("pre"), pre);
    gguf_put_array(h, KEY("tokens"), GGUF_TEXT, (uint64_t)vocab);
    for (int64_t i = 0; i < vocab; i++) {
        const char *key = i < t->vocab ? l->keys[i] : NULL;
        snprintf(unused, sizeof unused, "[PAD%lld]", (long long)i);
        if (!key) key = unused;
        gguf_put_item_text(h, key, strlen(key));
    }
    if (spm) {
        if (!unigram) gguf_tokenizer_score_pieces(t, l);
        gguf_put_array(h, KEY("scores"), GGUF_F32, (uint64_t)vocab);
        for (int64_t i = 0; i < vocab; i++) gguf_put_item_f32(h, i < t->vocab ? l->scores[i] : -1e9f);
    }
    gguf_put_array(h, KEY("token_type"), GGUF_I32, (uint64_t)vocab);
    for (int64_t i = 0; i < vocab; i++) gguf_put_item_i32(h, i < t->vocab && l->types[i] ? l->types[i] : UNUSED);
    if (!spm) gguf_tokenizer_put_merges(h, json_object_get(json_object_get(l->file, "model"), "merges"));
    int bos = t->bos >= 0 ? t->bos : gguf_tokenizer_id_of(l, t->vocab, t->chat.bos);
    if (bos >= 0) gguf_put_u32(h, KEY("bos_token_id"), (uint32_t)bos);
    if (t->eos >= 0) gguf_put_u32(h, KEY("eos_token_id"), (uint32_t)t->eos);
    gguf_put_bool(h, KEY("add_bos_token"), t->bos >= 0);
    gguf_put_bool(h, KEY("add_eos_token"), false);
    if (spm) gguf_put_bool(h, KEY("add_space_prefix"), !unigram || t->hf->sp.prefix);
    if (unigram) gguf_tokenizer_put_preparation(h, t);
    if (t->chat.jinja) gguf_put_text(h, CHAT_TEMPLATE, t->chat.jinja);
    if (t->chat.jinja && t->chat.tools) {
        gguf_put_text(h, CHAT_TEMPLATE ".tool_use", t->chat.tools);
        gguf_put_array(h, CHAT_NAMES, GGUF_TEXT, 1);
        gguf_put_item_text(h, "tool_use", 8);
    }
    if (t->chat.format) gguf_put_text(h, CHAT_FORMAT, t->chat.format);
    return PROPANE_OK;
}

propane_status gguf_put_tokenizer(gguf_header *h, const tokenizer *t, int64_t vocab, propane_error *err) {
    listing l = {0};
    if (t->vocab > vocab)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the tokenizer has %d ids, but the model only %lld; they do not match", t->vocab,
                            (long long)vocab);
    propane_status status = gguf_tokenizer_list_keys(t, &l, err);
    if (!status) status = gguf_tokenizer_put_listing(h, t, &l, vocab, err);
    gguf_tokenizer_listing_deinit(&l);
    return status;
}
