/* SPDX-License-Identifier: MIT
 * Owns Unigram vocabularies: pieces with scores, which are logarithms of probabilities. A text is split into the pieces
 * with the largest sum (Viterbi): from left to right, the best way to reach each position is found. Of equally good
 * ways, the first one is kept, which has the longest last piece. A character without a piece costs 10 more than the
 * worst piece.
 *
 * Hugging Face's `tokenizers` adds scores in double and uses every entry of the list as a piece. SentencePiece adds
 * scores in float and uses only normal and user-defined pieces. Their ids differ in ties, so both are implemented
 * exactly; SentencePiece's way is used if the file was a tokenizer.model (h->sp.on).
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

enum {
    CHUNK = 1 << 16,       /* bytes: longer texts are cut before a word mark, because float sums lose their fractions */
    CHUNK_MAX = 16 * CHUNK /* longer texts without a word mark are cut at any character */
};

#define SCORE_MAX 1e30 /* sums stay finite in float */
#define MARK      "\xe2\x96\x81"

enum { PIECE_NORMAL, PIECE_USER, PIECE_NONE }; /* PIECE_NONE never occurs in text */

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

propane_status unigram_count(const json_t *vocab, const char *source, int64_t *out, propane_error *err) {
    *out = (int64_t)json_array_size(vocab);
    if (json_is_array(vocab) && *out >= 1 && *out <= TOKENIZER_VOCAB_MAX) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: 'model.vocab' of a Unigram model must be a list of 1 to %d pieces with scores", source,
                        TOKENIZER_VOCAB_MAX);
}

/* Returns the type of each entry of the list: SentencePiece's types, according to the added tokens and the key
 * "unused". */
static uint8_t *unigram_types(const tokenizer *t, const json_t *object, int64_t count) {
    const struct hf_tokenizer *h = t->hf;
    const json_t *vocab = json_object_get(json_object_get(object, "model"), "vocab");
    const json_t *added = json_object_get(object, "added_tokens");
    uint8_t *types = mem_array((size_t)count, 1);
    if (!types || !h->sp.on) return types;
    for (int64_t i = 0; i < count; i++) {
        const char *key = json_string_value(json_array_get(json_array_get(vocab, (size_t)i), 0));
        if (h->byte_fallback && key && hf_byte_of(key, strlen(key)) >= 0) types[i] = PIECE_NONE;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        const int64_t id = json_integer_value(json_object_get(token, "id"));
        if (id < 0 || id >= count) continue;
        types[id] = json_is_true(json_object_get(token, "special")) ? PIECE_NONE : PIECE_USER;
    }
    for (size_t i = 0; i < json_array_size(h->sp.unused); i++) {
        const int64_t id = json_integer_value(json_array_get(h->sp.unused, i));
        if (id >= 0 && id < count) types[id] = PIECE_NONE;
    }
    return types;
}

/* Returns a score as `tokenizers` reads it: it divides the digits of "-9.367593765258789", as an integer, by a power of
 * ten, which may differ from the nearest double by one unit in the last place. That can decide between two ways of
 * equal cost. The digits are the fewest that identify the number, as in the files. */
static double unigram_as_read(double value) {
    char shown[40];
    const int digits = text_digits(value);
    uint64_t whole = 0;
    snprintf(shown, sizeof shown, "%.*e", digits - 1, fabs(value));
    const char *mark = strchr(shown, 'e');
    for (const char *p = shown; p < mark; p++)
        if (*p >= '0' && *p <= '9') whole = 10 * whole + (uint64_t)(*p - '0');
    const int exponent = (int)strtol(mark + 1, NULL, 10) - (digits - 1);
    double power = 1; /* exact up to 1e22; no file has scores beyond it */
    for (int i = 0; i < abs(exponent); i++) power *= 10;
    const double out = exponent < 0 ? (double)whole / power : (double)whole * power;
    return value < 0 ? -out : out;
}

static propane_status unigram_read_piece(tokenizer *t, const json_t *entry, int id, const char *source,
                                         propane_error *err) {
    const json_t *score = json_array_get(entry, 1);
    const char *key = json_string_value(json_array_get(entry, 0));
    const size_t length = key ? strlen(key) : 0;
    const double value = json_number_value(score);
    if (json_array_size(entry) != 2 || !key || length > TOKENIZER_PIECE_MAX || !json_is_number(score) ||
        !(fabs(value) <= SCORE_MAX))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: entry %d of 'model.vocab' must be a piece of at most %d bytes and its score", source,
                            id, TOKENIZER_PIECE_MAX);
    const char *piece = arena_string_n(t->arena, key, length);
    if (!piece) return propane_fail_memory(err, length);
    t->pieces[id] = piece;
    t->lengths[id] = (uint32_t)length;
    t->hf->scores[id] = t->hf->sp.on ? value : unigram_as_read(value);
    const int byte = t->hf->byte_fallback ? hf_byte_of(key, length) : -1;
    if (byte >= 0) t->byte_id[byte] = id;
    return PROPANE_OK;
}

/* Sets the score of a character without a piece and those of user-defined pieces, which are above all others. Their
 * exact values affect how later sums are rounded. Scores are below 0; 0.1 for each byte but one yields SentencePiece
 * 0.2.3's ids. */
static void unigram_set_scores(struct hf_tokenizer *h, const uint8_t *types, const uint32_t *lengths, int64_t count) {
    double smallest = h->sp.on ? FLT_MAX : DBL_MAX;
    float largest = 0.1f;
    for (int64_t i = 0; i < count; i++) {
        if (types[i] != PIECE_NORMAL) continue;
        if (h->scores[i] < smallest) smallest = h->scores[i];
        if (h->scores[i] > (double)largest) largest = (float)h->scores[i];
    }
    h->unk_score = h->sp.on ? (double)((float)smallest - 10.0f) : smallest - 10;
    for (int64_t i = 0; i < count; i++)
        if (types[i] == PIECE_USER) h->scores[i] = (double)((float)lengths[i] * largest - 0.1f);
}

propane_status unigram_read(tokenizer *t, const json_t *object, const char *source, propane_error *err) {
    struct hf_tokenizer *h = t->hf;
    const json_t *model = json_object_get(object, "model"), *vocab = json_object_get(model, "vocab");
    int64_t count, unk = -1;
    PROPANE_TRY(unigram_count(vocab, source, &count, err));
    PROPANE_TRY(json_get_bool(model, source, "byte_fallback", false, &h->byte_fallback, err));
    if (!json_is_null(json_object_get(model, "unk_id")))
        PROPANE_TRY(json_get_int(model, source, "unk_id", false, 0, count - 1, &unk, err));
    h->unk = (int32_t)unk;
    h->scores = ARENA_ARRAY(t->arena, count, double);
    if (!h->scores) return propane_fail_memory(err, (size_t)count * sizeof *h->scores);
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    for (int64_t i = 0; i < count; i++)
        PROPANE_TRY(unigram_read_piece(t, json_array_get(vocab, (size_t)i), (int)i, source, err));
    uint8_t *types = unigram_types(t, object, count);
    propane_status status = types ? PROPANE_OK : propane_fail_memory(err, (size_t)count);
    for (int64_t i = 0; !status && i < count; i++) /* the last one of equal pieces counts */
        if (types[i] != PIECE_NONE && !hf_trie_add(&h->units, t->pieces[i], t->lengths[i], (int32_t)i))
            status = propane_fail_memory(err, h->units.edges.capacity * 12);
    if (!status) unigram_set_scores(h, types, t->lengths, count);
    mem_free(types);
    return status;
}

/* ---- the best way ------------------------------------------------------------------------------------------------------- */

/* The best way that ends at a position: its sum, its last piece `id`, and in `link` the start of that piece. After
 * unigram_turn, `link` is the end of the next piece. */
struct unigram_place {
    double sum;
    int32_t link, id;
};

void unigram_deinit(unigram_places *p) {
    mem_free(p->places);
    *p = (unigram_places){0};
}

static void unigram_offer(const struct hf_tokenizer *h, struct unigram_place *to, double sum, size_t from, int32_t id) {
    if (h->sp.on) sum = (double)(float)sum;
    if (to->link >= 0 && !(sum > to->sum)) return;
    *to = (struct unigram_place){sum, (int32_t)from, id};
}

static propane_status unigram_walk(const struct hf_tokenizer *h, struct unigram_place *places, const char *data,
                                   size_t length, propane_error *err) {
    for (size_t i = 0; i <= length; i++) places[i].link = -1;
    places[0].sum = 0;
    for (size_t at = 0, width; at < length; at += width) {
        const double sum = places[at].sum;
        bool alone = false; /* the character is a piece */
        int32_t node = 0;
        width = (size_t)utf8_length(data + at, length - at);
        for (size_t end = at; end < length && (node = hf_trie_next(&h->units, node, data[end])) >= 0;) {
            const int32_t id = h->units.terminal[node];
            end++;
            if (id < 0) continue;
            unigram_offer(h, &places[end], sum + h->scores[id], at, id);
            if (end - at == width) alone = true;
        }
        if (alone) continue;
        char shown[80];
        if (h->unk < 0 && !h->byte_fallback)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "the character '%s' is not in the vocabulary, which has no token for unknown ones",
                                text_quote(shown, data + at, width));
        unigram_offer(h, &places[at + width], sum + h->unk_score, at, h->unk);
    }
    return PROPANE_OK;
}

/* Reverses the links, which lead back from the end, so that they lead forward. */
static void unigram_turn(struct unigram_place *places, size_t length) {
    int32_t after = -1;
    for (int32_t at = (int32_t)length, before; at >= 0; at = before) {
        before = at > 0 ? places[at].link : -1;
        places[at].link = after;
        after = at;
    }
}

/* Adds a run of unknown characters: a token with that spelling, its bytes, or the unknown token, once per run. */
static propane_status unigram_add_unknown(const tokenizer *t, const char *run, size_t length, bool *unknown,
                                          token_list *out, propane_error *err) {
    const struct hf_tokenizer *h = t->hf;
    size_t found;
    const int32_t id = h->sp.on ? -1 : hf_trie_longest(&h->units, run, length, &found);
    const bool again = *unknown;
    bool bytes = h->byte_fallback;
    *unknown = false;
    if (id >= 0 && found == length) return token_list_add(out, id, err);
    for (size_t i = 0; bytes && i < length; i++) bytes = t->byte_id[(unsigned char)run[i]] >= 0;
    for (size_t i = 0; bytes && i < length; i++)
        PROPANE_TRY(token_list_add(out, t->byte_id[(unsigned char)run[i]], err));
    if (bytes) return PROPANE_OK;
    *unknown = true;
    if (again) return PROPANE_OK;
    if (h->unk >= 0) return token_list_add(out, h->unk, err);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "the vocabulary has neither a token for unknown characters nor one for each byte");
}

/* Encodes a chunk. *unknown means that the unknown token came last. */
static propane_status unigram_chunk(const tokenizer *t, struct unigram_place *places, const char *data, size_t length,
                                    bool *unknown, token_list *out, propane_error *err) {
    const struct hf_tokenizer *h = t->hf;
    PROPANE_TRY(unigram_walk(h, places, data, length, err));
    unigram_turn(places, length);
    for (size_t begin = 0; begin < length;) {
        size_t end = (size_t)places[begin].link;
        const int32_t id = places[end].id;
        if (id != h->unk) {
            PROPANE_TRY(token_list_add(out, id, err));
            *unknown = false;
            begin = end;
            continue;
        }
        while (end < length && places[places[end].link].id == h->unk) end = (size_t)places[end].link;
        PROPANE_TRY(unigram_add_unknown(t, data + begin, end - begin, unknown, out, err));
        begin = end;
    }
    return PROPANE_OK;
}

static size_t unigram_chunk_length(const char *data, size_t length) {
    if (length <= CHUNK) return length;
    size_t most = length < CHUNK_MAX ? length : CHUNK_MAX;
    for (size_t i = CHUNK; i + 3 <= most; i++)
        if (memcmp(data + i, MARK, 3) == 0 && memcmp(data + i - 3, MARK, 3) != 0) return i;
    while (most < length && ((unsigned char)data[most] & 0xc0) == 0x80) most--;
    return most;
}

propane_status unigram_encode(const tokenizer *t, unigram_places *p, const char *data, size_t length, token_list *out,
                              propane_error *err) {
    bool unknown = false;
    for (size_t at = 0, n; at < length; at += n) {
        n = unigram_chunk_length(data + at, length - at);
        if (p->room < n + 1) {
            struct unigram_place *places = mem_resize(p->places, (n + 1) * sizeof *places);
            if (!places) return propane_fail_memory(err, (n + 1) * sizeof *places);
            p->places = places;
            p->room = n + 1;
        }
        PROPANE_TRY(unigram_chunk(t, p->places, data + at, n, &unknown, out, err));
    }
    return PROPANE_OK;
}
