/* SPDX-License-Identifier: MIT
 * Owns encoding and decoding. Both kinds of pair encoding use the same algorithm (pair_merger.h) and differ in how they
 * look up a pair: bpe by the pair of ids, llama by the joined bytes.
 */
#include "lm/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/memory.h"
#include "lm/text/pair_merger.h"
#include "lm/text/tokenizer_hf.h"
#include "lm/text/tokenizer_internal.h"

/* ---- making ----------------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"bytes", "chars", "bpe", "llama", "hf"};

const char *tokenizer_kind_name(tokenizer_kind kind) { return kind_names[kind]; }
const char *tokenizer_model_name(const tokenizer *t) { return !t->hf ? NULL : t->hf->scores ? "Unigram" : "BPE"; }
tokenizer_kind tokenizer_get_kind(const tokenizer *t) { return t->kind; }
int tokenizer_vocab_size(const tokenizer *t) { return t->vocab; }
int tokenizer_bos(const tokenizer *t) { return t->bos; }
int tokenizer_eos(const tokenizer *t) { return t->eos; }

static uint64_t tokenizer_pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Returns whether an id is a fallback byte, which never merges. In files it is spelled <0xNN>. */
static bool tokenizer_is_byte(const tokenizer *t, int32_t id) {
    return t->lengths[id] == 1 && t->byte_id[(unsigned char)t->pieces[id][0]] == id;
}

static propane_status tokenizer_index_pieces(tokenizer *t, const char *source, propane_error *err) {
    for (int i = 0; i < t->vocab; i++) {
        if (t->lengths[i] == 0) continue;                                    /* bos, eos and unknown */
        if (t->kind == TOKENIZER_LLAMA && tokenizer_is_byte(t, i)) continue; /* a byte, used when no piece matches */
        int32_t *id = piece_map_enter(&t->lookup, t->pieces[i], t->lengths[i], i);
        if (!id) return propane_fail_memory(err, t->lookup.capacity * 40);
        char shown[80];
        if (*id != i && t->kind == TOKENIZER_CHARS)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: pieces %d and %d are both '%s'", source, (int)*id, i,
                                text_quote(shown, t->pieces[i], t->lengths[i]));
    }
    return PROPANE_OK;
}

static propane_status tokenizer_index_pairs(tokenizer *t, const char *source, propane_error *err) {
    for (int i = 256; i < t->vocab; i++) {
        tokenizer_pair m = t->merges[i - 256];
        int32_t *id = id_map_enter(&t->pairs, tokenizer_pair_key(m.left, m.right), i);
        if (!id) return propane_fail_memory(err, t->pairs.capacity * 24);
        if (*id != i)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: merges %d and %d are the same pair", source,
                                (int)*id - 256, i - 256);
    }
    return PROPANE_OK;
}

propane_status tokenizer_finish(tokenizer *t, const char *source, tokenizer **out, propane_error *err) {
    propane_status status = PROPANE_OK;
    if (t->kind == TOKENIZER_BPE) status = tokenizer_index_pairs(t, source, err);
    if (t->kind == TOKENIZER_CHARS || t->kind == TOKENIZER_LLAMA) status = tokenizer_index_pieces(t, source, err);
    if (status) {
        tokenizer_free(t);
        *out = NULL;
        return status;
    }
    *out = t;
    return PROPANE_OK;
}

static bool tokenizer_add_byte_pieces(tokenizer *t) {
    char *bytes = arena_alloc(t->arena, 256);
    if (!bytes) return false;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)(unsigned char)i;
        t->pieces[i] = bytes + i;
        t->lengths[i] = 1;
    }
    return true;
}

propane_status tokenizer_create_bytes(tokenizer **out, propane_error *err) {
    tokenizer *t;
    PROPANE_TRY(tokenizer_begin(TOKENIZER_BYTES, 256, &t, err));
    if (!tokenizer_add_byte_pieces(t)) {
        tokenizer_free(t);
        *out = NULL;
        return propane_fail_memory(err, 256);
    }
    return tokenizer_finish(t, "bytes", out, err);
}

propane_status tokenizer_from_merges(const tokenizer_pair *merges, int count, const char *source, tokenizer **out,
                                     propane_error *err) {
    tokenizer *t;
    *out = NULL;
    PROPANE_TRY(tokenizer_begin(TOKENIZER_BPE, 256 + count, &t, err));
    propane_status status = PROPANE_OK;
    t->merges = arena_copy(t->arena, merges, (size_t)count * sizeof *merges);
    if (!t->merges || !tokenizer_add_byte_pieces(t)) status = propane_fail_memory(err, (size_t)count * sizeof *merges);
    for (int i = 256; !status && i < t->vocab; i++) {
        tokenizer_pair m = merges[i - 256];
        if (m.left < 0 || m.left >= i || m.right < 0 || m.right >= i) {
            status = propane_fail(err, PROPANE_ERR_INVALID,
                                  "%s: merge %d joins %d and %d, but only ids below %d exist before it", source,
                                  i - 256, (int)m.left, (int)m.right, i);
            break;
        }
        t->lengths[i] = t->lengths[m.left] + t->lengths[m.right];
        if (t->lengths[i] > TOKENIZER_PIECE_MAX) {
            status = propane_fail(err, PROPANE_ERR_INVALID,
                                  "%s: merge %d produces a piece of %u bytes; at most %d are allowed", source, i - 256,
                                  (unsigned)t->lengths[i], TOKENIZER_PIECE_MAX);
            break;
        }
        char *piece = arena_alloc(t->arena, t->lengths[i]);
        if (!piece) {
            status = propane_fail_memory(err, t->lengths[i]);
            break;
        }
        memcpy(piece, t->pieces[m.left], t->lengths[m.left]);
        memcpy(piece + t->lengths[m.left], t->pieces[m.right], t->lengths[m.right]);
        t->pieces[i] = piece;
    }
    if (!status) return tokenizer_finish(t, source, out, err);
    tokenizer_free(t);
    return status;
}

/* ---- a vocabulary of characters ------------------------------------------------------------------------------------------------ */

typedef struct character {
    const char *bytes;
    int length;
} character;

static int tokenizer_compare_character(const void *a, const void *b) {
    const character *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, (size_t)(x->length < y->length ? x->length : y->length));
    return order ? order : x->length - y->length;
}

static int tokenizer_character_at(const char *p, size_t left) {
    int n = utf8_length(p, left);
    return n ? n : 1;
}

propane_status tokenizer_create_chars(const char *data, size_t length, const char *source, tokenizer **out,
                                      propane_error *err) {
    piece_map seen = {0};
    propane_status status = PROPANE_OK;
    character *list = NULL;
    tokenizer *t = NULL;
    *out = NULL;
    if (length == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the text is empty: it has no characters", source);
    for (size_t i = 0; i < length;) {
        int n = tokenizer_character_at(data + i, length - i);
        if (!piece_map_enter(&seen, data + i, (size_t)n, 0)) {
            status = propane_fail_memory(err, seen.capacity * 40);
            goto done;
        }
        if (seen.count > TOKENIZER_VOCAB_MAX) {
            status = propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d different characters", source,
                                  TOKENIZER_VOCAB_MAX);
            goto done;
        }
        i += (size_t)n;
    }
    list = mem_array(seen.count, sizeof *list);
    if (!list) {
        status = propane_fail_memory(err, seen.count * sizeof *list);
        goto done;
    }
    int count = 0;
    for (size_t i = 0; i < seen.capacity; i++)
        if (seen.texts[i]) list[count++] = (character){seen.texts[i], (int)seen.lengths[i]};
    qsort(list, (size_t)count, sizeof *list, tokenizer_compare_character);
    status = tokenizer_begin(TOKENIZER_CHARS, count, &t, err);
    for (int i = 0; !status && i < count; i++) {
        t->pieces[i] = arena_copy(t->arena, list[i].bytes, (size_t)list[i].length);
        t->lengths[i] = (uint32_t)list[i].length;
        if (!t->pieces[i]) status = propane_fail_memory(err, (size_t)list[i].length);
    }
    if (status)
        tokenizer_free(t);
    else
        status = tokenizer_finish(t, source, out, err);
done:
    mem_free(list);
    piece_map_deinit(&seen);
    return status;
}

/* ---- pair encoding ------------------------------------------------------------------------------------------------------------- */

/* bpe: the resulting id is also the rank, so earlier merges come first. */
static int32_t tokenizer_join_by_merge(const void *context, int32_t left, int32_t right, uint32_t *rank) {
    const tokenizer *t = context;
    const int32_t *id = id_map_find(&t->pairs, tokenizer_pair_key(left, right));
    if (!id) return -1;
    *rank = (uint32_t)*id;
    return *id;
}

/* Returns a rank for a score: the higher the score, the lower the rank. */
static uint32_t tokenizer_score_rank(float score) {
    uint32_t bits;
    score += 0.0f; /* turns -0 into 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7fffffffu - bits;
}

/* llama: joins two pieces whose combined text is a piece; the highest score comes first. */
static int32_t tokenizer_join_by_score(const void *context, int32_t left, int32_t right, uint32_t *rank) {
    const tokenizer *t = context;
    char joined[2 * TOKENIZER_PIECE_MAX];
    if (tokenizer_is_byte(t, left) || tokenizer_is_byte(t, right)) return -1;
    memcpy(joined, t->pieces[left], t->lengths[left]);
    memcpy(joined + t->lengths[left], t->pieces[right], t->lengths[right]);
    const int32_t *id = piece_map_find(&t->lookup, joined, t->lengths[left] + t->lengths[right]);
    if (!id) return -1;
    *rank = tokenizer_score_rank(t->scores[*id]);
    return *id;
}

/* ---- encoding, by kind ----------------------------------------------------------------------------------------------------------- */

static propane_status tokenizer_encode_chars(const tokenizer *t, const char *data, size_t length, token_list *out,
                                             propane_error *err) {
    for (size_t i = 0; i < length;) {
        size_t n = (size_t)tokenizer_character_at(data + i, length - i);
        const int32_t *id = piece_map_find(&t->lookup, data + i, n);
        char shown[80];
        if (!id)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "the character '%s' at offset %zu is not in the vocabulary of %d characters",
                                text_quote(shown, data + i, n), i, t->vocab);
        PROPANE_TRY(token_list_add(out, *id, err));
        i += n;
    }
    return PROPANE_OK;
}

/* The encodings of words that one call has seen, because words repeat. */
typedef struct known_words {
    piece_map map; /* word -> index into begins */
    token_list ids;
    size_t *begins; /* [count + 1] */
    size_t count;
} known_words;

static propane_status tokenizer_encode_word(const tokenizer *t, pair_merger *m, known_words *k, const char *word,
                                            size_t length, token_list *out, propane_error *err) {
    int32_t *index = piece_map_enter(&k->map, word, length, (int32_t)k->count);
    if (!index) return propane_fail_memory(err, k->map.capacity * 40);
    if ((size_t)*index == k->count) {
        size_t *begins = ARRAY_MORE(k->begins, k->count ? k->count + 1 : 0, err);
        if (!begins) return PROPANE_ERR_MEMORY;
        k->begins = begins;
        k->begins[k->count++] = k->ids.count;
        for (size_t i = 0; i < length; i++) m->ids[i] = (unsigned char)word[i];
        pair_merger_run(m, (int32_t)length, tokenizer_join_by_merge, t);
        PROPANE_TRY(pair_merger_append(m, (int32_t)length, &k->ids, err));
        k->begins[k->count] = k->ids.count;
    }
    size_t begin = k->begins[*index];
    return token_list_append(out, k->ids.ids + begin, k->begins[*index + 1] - begin, err);
}

static propane_status tokenizer_encode_bpe(const tokenizer *t, const char *data, size_t length, token_list *out,
                                           propane_error *err) {
    known_words known = {0};
    pair_merger m = {0};
    splitter s;
    const char *word;
    size_t word_length;
    propane_status status = pair_merger_reserve(&m, TOKENIZER_WORD_MAX, err);
    splitter_init(&s, data, length);
    while (!status && splitter_next(&s, &word, &word_length))
        status = tokenizer_encode_word(t, &m, &known, word, word_length, out, err);
    pair_merger_deinit(&m);
    piece_map_deinit(&known.map);
    token_list_deinit(&known.ids);
    mem_free(known.begins);
    return status;
}

/* Returns the length of a character as run.c groups bytes: a byte and the continuation bytes after it, at most four
 * bytes. */
static size_t tokenizer_loose_character(const char *p, size_t left) {
    size_t n = 1;
    while (n < 4 && n < left && ((unsigned char)p[n] & 0xc0) == 0x80) n++;
    return n;
}

static propane_status tokenizer_encode_llama(const tokenizer *t, const char *data, size_t length, token_list *out,
                                             propane_error *err) {
    if (length == 0) return PROPANE_OK;
    pair_merger m = {0};
    int32_t count = 0;
    propane_status status = pair_merger_reserve(&m, length + 1, err);
    const int32_t *space = piece_map_find(&t->lookup, " ", 1);
    if (!status && space) m.ids[count++] = *space;
    for (size_t i = 0; !status && i < length;) {
        size_t n = tokenizer_loose_character(data + i, length - i);
        const int32_t *id = piece_map_find(&t->lookup, data + i, n);
        for (size_t k = 0; !id && k < n && !status; k++) {
            int32_t byte = t->byte_id[(unsigned char)data[i + k]];
            if (byte < 0)
                status = propane_fail(err, PROPANE_ERR_INVALID,
                                      "the vocabulary has no piece for the byte 0x%02x at offset %zu",
                                      (unsigned char)data[i + k], i + k);
            else
                m.ids[count++] = byte;
        }
        if (id) m.ids[count++] = *id;
        i += n;
    }
    if (!status) pair_merger_run(&m, count, tokenizer_join_by_score, t);
    if (!status) status = pair_merger_append(&m, count, out, err);
    pair_merger_deinit(&m);
    return status;
}

propane_status tokenizer_encode(const tokenizer *t, const char *data, size_t length, token_list *out,
                                propane_error *err) {
    switch (t->kind) {
    case TOKENIZER_CHARS: return tokenizer_encode_chars(t, data, length, out, err);
    case TOKENIZER_BPE: return tokenizer_encode_bpe(t, data, length, out, err);
    case TOKENIZER_LLAMA: return tokenizer_encode_llama(t, data, length, out, err);
    case TOKENIZER_HF: return hf_encode(t, data, length, out, err);
    case TOKENIZER_BYTES: break;
    }
    PROPANE_TRY(token_list_reserve(out, length, err));
    for (size_t i = 0; i < length; i++) out->ids[out->count++] = (unsigned char)data[i];
    return PROPANE_OK;
}

/* ---- decoding -------------------------------------------------------------------------------------------------------------------- */

const char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *length) {
    bool known = id >= 0 && id < t->vocab;
    *length = known ? t->lengths[id] : 0;
    return known ? t->pieces[id] : "";
}

/* Returns whether more bytes could still complete `held` to a character. */
static bool tokenizer_may_grow(const char *held, int count) {
    unsigned char lead = (unsigned char)held[0];
    int need = lead >= 0xc2 && lead < 0xe0 ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 1;
    if (count >= need) return false;
    char tries[4] = {0};
    memcpy(tries, held, (size_t)count);
    /* only the second byte matters; later bytes may be any continuation bytes */
    for (int second = 0x80; second <= 0xb0; second += 0x10) {
        if (count < 2) tries[1] = (char)second;
        if (count < 3) tries[2] = (char)0x80;
        if (count < 4) tries[3] = (char)0x80;
        if (utf8_length(tries, 4) == need) return true;
    }
    return false;
}

static void tokenizer_settle(tokenizer_stream *s, bool all, text *out) {
    while (s->held_count) {
        int n = utf8_length(s->held, (size_t)s->held_count);
        if (n == 0 && !all && tokenizer_may_grow(s->held, s->held_count)) return;
        if (n)
            text_append_n(out, s->held, (size_t)n);
        else
            text_append(out, "\xef\xbf\xbd");
        if (n == 0) n = 1;
        s->held_count -= n;
        memmove(s->held, s->held + n, (size_t)s->held_count);
    }
}

/* Returns how many bytes at the start of a piece are not shown. The llama kind writes a space before every text, and hf
 * files may do so. */
static size_t tokenizer_drops_spaces(const tokenizer *t, const char *piece, size_t length, bool *begun) {
    const hf_drop drop = t->kind == TOKENIZER_LLAMA ? HF_DROP_ONE : t->hf ? t->hf->drop : HF_DROP_NONE;
    size_t n = 0;
    while (!*begun && drop && n < length && piece[n] == ' ' && (drop != HF_DROP_ONE || n == 0)) n++;
    if (n < length || (length && drop != HF_DROP_ALL)) *begun = true;
    return n;
}

void tokenizer_decode(const tokenizer *t, tokenizer_stream *s, int32_t id, text *out) {
    size_t length;
    const char *piece = tokenizer_piece(t, id, &length);
    for (size_t i = tokenizer_drops_spaces(t, piece, length, &s->begun); i < length; i++) {
        s->held[s->held_count++] = piece[i];
        tokenizer_settle(s, false, out);
    }
}

void tokenizer_decode_end(tokenizer_stream *s, text *out) { tokenizer_settle(s, true, out); }

void tokenizer_decode_bytes(const tokenizer *t, const int32_t *ids, size_t count, text *out) {
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const char *piece = tokenizer_piece(t, ids[i], &length);
        size_t skip = tokenizer_drops_spaces(t, piece, length, &begun);
        text_append_n(out, piece + skip, length - skip);
    }
}
