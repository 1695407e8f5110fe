/* SPDX-License-Identifier: MIT
 * Owns encoding with a tokenizer.json. Added tokens are cut out first, the text between them is split into words, and
 * each word is encoded by merges (pair_merger.h) or as Unigram. The encodings of words are cached.
 */
#include <string.h>

#include "core/base/array.h"
#include "core/base/memory.h"
#include "lm/text/pair_merger.h"
#include "lm/text/tokenizer_hf.h"

enum { KNOWN_LENGTH = 64, KNOWN_WORDS = 1 << 18 };

typedef struct known_word {
    size_t begin, count; /* in known_ids */
} known_word;

typedef struct encoder {
    const tokenizer *t;
    struct hf_tokenizer *h;
    token_list *out;
    hf_matcher match;
    hf_cutter cutter;
    text buffers[2]; /* for normalising */
    arena *arena;    /* bytes of known words */
    piece_map known; /* word -> index */
    known_word *words;
    token_list known_ids;
    pair_merger merger;
    unigram_places places;
} encoder;

/* ---- merging ----------------------------------------------------------------------------------------------------------- */

/* Looks up a pair. Its rank is the number of the merge or, with `by_result`, the id that the merge produces. */
static int32_t hf_encode_join(const void *context, int32_t left, int32_t right, uint32_t *rank) {
    const encoder *e = context;
    const int32_t *merge = id_map_find(&e->t->pairs, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    if (!merge) return -1;
    *rank = (uint32_t)(e->h->by_result ? e->h->merged[*merge] : *merge);
    return e->h->merged[*merge];
}

/* Turns the characters of a word into symbols. A character without a symbol becomes its bytes if possible, otherwise
 * the unknown token (one per run if the file requests this), if there is one. */
static int32_t hf_encode_spell(encoder *e, const char *word, size_t length) {
    const struct hf_tokenizer *h = e->h;
    int32_t count = 0;
    bool unknown = false;
    for (size_t i = 0, n; i < length; i += n) {
        n = h->byte_level ? 1 : (size_t)utf8_length(word + i, length - i);
        const int32_t *found = h->byte_level ? NULL : piece_map_find(&e->t->lookup, word + i, n);
        int32_t id = found ? *found : h->byte_level ? e->t->byte_id[(unsigned char)word[i]] : -1;
        if (id < 0 && h->byte_fallback && !h->byte_level) {
            bool all = true;
            for (size_t k = 0; k < n; k++) all = all && e->t->byte_id[(unsigned char)word[i + k]] >= 0;
            for (size_t k = 0; all && k < n; k++) e->merger.ids[count++] = e->t->byte_id[(unsigned char)word[i + k]];
            if (all) continue;
        }
        if (id < 0) {
            if (h->unk >= 0 && !(unknown && h->fuse_unk)) e->merger.ids[count++] = h->unk;
            unknown = true;
            continue;
        }
        unknown = false;
        e->merger.ids[count++] = id;
    }
    return count;
}

/* ---- words --------------------------------------------------------------------------------------------------------------- */

static propane_status hf_encode_piece(encoder *e, const char *word, size_t length, token_list *out,
                                      propane_error *err) {
    if (e->h->scores) return unigram_encode(e->t, &e->places, word, length, out, err);
    PROPANE_TRY(pair_merger_reserve(&e->merger, length, err));
    int32_t count = hf_encode_spell(e, word, length);
    pair_merger_run(&e->merger, count, hf_encode_join, e);
    return pair_merger_append(&e->merger, count, out, err);
}

static propane_status hf_encode_remember(encoder *e, const char *word, size_t length, known_word **out,
                                         propane_error *err) {
    size_t index = e->known.count;
    char *copy = arena_copy(e->arena, word, length);
    known_word *words = ARRAY_MORE(e->words, index, err);
    if (!words) return PROPANE_ERR_MEMORY;
    e->words = words;
    size_t begin = e->known_ids.count;
    PROPANE_TRY(hf_encode_piece(e, word, length, &e->known_ids, err));
    if (!copy || !piece_map_enter(&e->known, copy, length, (int32_t)index)) return propane_fail_memory(err, length);
    e->words[index] = (known_word){begin, e->known_ids.count - begin};
    *out = &e->words[index];
    return PROPANE_OK;
}

static propane_status hf_encode_word(encoder *e, const char *word, size_t length, propane_error *err) {
    if (e->h->ignore_merges) {
        const int32_t *id = piece_map_find(&e->t->lookup, word, length);
        if (id) return token_list_add(e->out, *id, err);
    }
    if (length > KNOWN_LENGTH) return hf_encode_piece(e, word, length, e->out, err);
    const int32_t *index = piece_map_find(&e->known, word, length);
    if (!index && e->known.count >= KNOWN_WORDS) return hf_encode_piece(e, word, length, e->out, err);
    known_word *known = index ? &e->words[*index] : NULL;
    if (!known) PROPANE_TRY(hf_encode_remember(e, word, length, &known, err));
    for (size_t i = 0; i < known->count; i++)
        PROPANE_TRY(token_list_add(e->out, e->known_ids.ids[known->begin + i], err));
    return PROPANE_OK;
}

/* Encodes a word of the pre-tokeniser, which may be a whole text (SentencePiece). If no merge can cross a word mark,
 * the word is cut before its marks. */
static propane_status hf_encode_take_word(void *context, const char *word, size_t length, propane_error *err) {
    encoder *e = context;
    size_t begin = 0;
    if (!e->h->cut_spaces) return hf_encode_word(e, word, length, err);
    for (size_t i = 3; i + 3 <= length; i++) {
        bool mark = memcmp(word + i, "\xe2\x96\x81", 3) == 0;
        if (!mark || memcmp(word + i - 3, "\xe2\x96\x81", 3) == 0) continue;
        PROPANE_TRY(hf_encode_word(e, word + begin, i - begin, err));
        begin = i;
    }
    return hf_encode_word(e, word + begin, length - begin, err);
}

/* ---- added tokens ----------------------------------------------------------------------------------------------------------- */

static size_t hf_encode_character_before(const char *data, size_t at) {
    size_t last = at - 1;
    while (last > 0 && ((unsigned char)data[last] & 0xc0) == 0x80) last--;
    return last;
}

static bool hf_encode_stands_alone(const char *data, size_t length, size_t start, size_t end) {
    size_t n, before = start ? hf_encode_character_before(data, start) : 0;
    return !(start && hf_is_word(data + before, start - before, &n)) &&
           !(end < length && hf_is_word(data + end, length - end, &n));
}

typedef propane_status (*take_text)(encoder *e, const char *data, size_t length, bool first, propane_error *err);

static propane_status hf_encode_cut_added(encoder *e, const hf_trie *trie, const char *data, size_t length, bool first,
                                          take_text take, propane_error *err) {
    size_t done = 0, n;
    for (size_t i = 0; trie->nodes && i < length;) {
        size_t start = i, found;
        const int32_t index = hf_trie_longest(trie, data + i, length - i, &found);
        const hf_added *a = index >= 0 ? &e->h->added[index] : NULL;
        size_t end = i += a ? found : 1;
        if (!a || start < done || (a->single_word && !hf_encode_stands_alone(data, length, start, end))) continue;
        while (a->lstrip && start > done) {
            size_t before = hf_encode_character_before(data, start);
            if (!hf_is_space(data + before, start - before, &n)) break;
            start = before;
        }
        while (a->rstrip && end < length && hf_is_space(data + end, length - end, &n)) end += n;
        if (start > done) PROPANE_TRY(take(e, data + done, start - done, first && done == 0, err));
        PROPANE_TRY(token_list_add(e->out, a->id, err));
        done = end;
        if (i < end) i = end;
    }
    return done < length ? take(e, data + done, length - done, first && done == 0, err) : PROPANE_OK;
}

static propane_status hf_encode_take_normalized(encoder *e, const char *data, size_t length, bool first,
                                                propane_error *err) {
    return hf_cut(&e->cutter, data, length, first, err);
}

static propane_status hf_encode_take_raw(encoder *e, const char *data, size_t length, bool first, propane_error *err) {
    if (e->h->sp.on) {
        text *to = &e->buffers[0];
        text_clear(to);
        hf_normalize_sentencepiece(&e->h->sp, &e->h->normal, data, length, to);
        if (to->failed) return propane_fail_memory(err, to->capacity);
        return to->length ? hf_encode_take_word(e, to->data, to->length, err) : PROPANE_OK;
    }
    PROPANE_TRY(hf_normalize(e->h->normalizers, e->h->normalizer_count, &e->match, data, length, e->buffers, &data,
                             &length, err));
    return hf_encode_cut_added(e, &e->h->normal, data, length, first, hf_encode_take_normalized, err);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* Returns how many bytes at the start of invalid UTF-8 become one replacement character: as many as could be the start
 * of a character. */
static size_t hf_encode_broken_length(const char *p, size_t left) {
    const unsigned char *u = (const unsigned char *)p;
    int need = u[0] >= 0xc2 && u[0] < 0xe0 ? 2 : (u[0] & 0xf0) == 0xe0 ? 3 : u[0] >= 0xf0 && u[0] < 0xf5 ? 4 : 1;
    size_t n = 1;
    while ((int)n < need && n < left && (u[n] & 0xc0) == 0x80) {
        if (n == 1 && ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
                       (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f)))
            break;
        n++;
    }
    return n;
}

static size_t hf_encode_valid_length(const char *data, size_t length) {
    size_t i = 0;
    while (i < length) {
        int n = utf8_length(data + i, length - i);
        if (n == 0) break;
        i += (size_t)n;
    }
    return i;
}

static void hf_encode_repair(const char *data, size_t length, text *out) {
    for (size_t i = 0; i < length;) {
        size_t good = hf_encode_valid_length(data + i, length - i);
        text_append_n(out, data + i, good);
        i += good;
        if (i == length) break;
        text_append(out, "\xef\xbf\xbd");
        i += hf_encode_broken_length(data + i, length - i);
    }
}

propane_status hf_encode(const tokenizer *t, const char *data, size_t length, token_list *out, propane_error *err) {
    encoder e = {.t = t, .h = t->hf, .out = out, .arena = arena_create()};
    text repaired = {0};
    propane_status status = e.arena ? hf_matcher_init(&e.match, length, err) : propane_fail_memory(err, 0);
    hf_cutter_init(&e.cutter, t->hf->splits, t->hf->split_count, &e.match, hf_encode_take_word, &e);
    if (!status && hf_encode_valid_length(data, length) < length) {
        hf_encode_repair(data, length, &repaired);
        if (repaired.failed) status = propane_fail_memory(err, length);
        data = repaired.data;
        length = repaired.length;
    }
    if (!status) status = hf_encode_cut_added(&e, &t->hf->raw, data, length, true, hf_encode_take_raw, err);
    hf_cutter_deinit(&e.cutter);
    hf_matcher_deinit(&e.match);
    text_deinit(&repaired);
    text_deinit(&e.buffers[0]);
    text_deinit(&e.buffers[1]);
    piece_map_deinit(&e.known);
    token_list_deinit(&e.known_ids);
    mem_free(e.words);
    pair_merger_deinit(&e.merger);
    unigram_deinit(&e.places);
    arena_free(e.arena);
    return status;
}
