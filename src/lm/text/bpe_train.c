/* SPDX-License-Identifier: MIT
 * Owns the training of byte-pair merges. Distinct words are stored once, with their count. For each pair, its count and
 * the words in which it occurs are stored. A heap returns the most frequent pair; an outdated entry is put back with
 * its current count. A merge touches only the words that hold the pair.
 */
#include <string.h>

#include "core/base/array.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_internal.h"

typedef struct word {
    int32_t *symbols; /* in the arena */
    int32_t length;
    int64_t count;
} word;

typedef struct pair_state {
    tokenizer_pair pair;
    int64_t count;
    int32_t *words; /* may contain a word twice, or a word that no longer holds the pair */
    int32_t word_count;
} pair_state;

typedef struct entry {
    int64_t count; /* count at the time of insertion */
    int32_t state;
} entry;

typedef struct trainer {
    arena *arena;
    word *words;
    size_t word_count;
    id_map index; /* pair -> state */
    pair_state *states;
    size_t state_count;
    entry *heap;
    size_t heap_count;
} trainer;

static void bpe_train_trainer_deinit(trainer *t) {
    for (size_t i = 0; i < t->state_count; i++) mem_free(t->states[i].words);
    mem_free(t->states);
    mem_free(t->words);
    mem_free(t->heap);
    id_map_deinit(&t->index);
    arena_free(t->arena);
}

/* Returns whether `a` is merged before `b`: more frequent pairs first, then smaller ids. */
static bool bpe_train_first(const trainer *t, entry a, entry b) {
    if (a.count != b.count) return a.count > b.count;
    tokenizer_pair x = t->states[a.state].pair, y = t->states[b.state].pair;
    return x.left != y.left ? x.left < y.left : x.right < y.right;
}

static bool bpe_train_push(trainer *t, int32_t state) {
    entry *heap = ARRAY_MORE(t->heap, t->heap_count, NULL);
    if (!heap) return false;
    t->heap = heap;
    entry e = {t->states[state].count, state};
    size_t i = t->heap_count++;
    while (i > 0 && bpe_train_first(t, e, t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = e;
    return true;
}

static entry bpe_train_pop(trainer *t) {
    entry top = t->heap[0], last = t->heap[--t->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->heap_count) break;
        if (child + 1 < t->heap_count && bpe_train_first(t, t->heap[child + 1], t->heap[child])) child++;
        if (!bpe_train_first(t, t->heap[child], last)) break;
        t->heap[i] = t->heap[child];
        i = child;
    }
    t->heap[i] = last;
    return top;
}

static pair_state *bpe_train_state_of(trainer *t, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    int32_t *index = id_map_enter(&t->index, key, (int32_t)t->state_count);
    if (!index) return NULL;
    if ((size_t)*index == t->state_count) {
        pair_state *states = ARRAY_MORE(t->states, t->state_count, NULL);
        if (!states) return NULL;
        t->states = states;
        t->states[t->state_count++] = (pair_state){.pair = {left, right}};
    }
    return &t->states[*index];
}

static bool bpe_train_note_word(pair_state *s, int32_t index) {
    if (s->word_count && s->words[s->word_count - 1] == index) return true;
    int32_t *words = ARRAY_MORE(s->words, s->word_count, NULL);
    if (!words) return false;
    s->words = words;
    s->words[s->word_count++] = index;
    return true;
}

/* Adds the pairs of a word (sign 1) or removes them (-1). Words are recorded only for pairs that contain `fresh`, or
 * for all pairs if `fresh` is -1. */
static bool bpe_train_count_pairs(trainer *t, int32_t index, int sign, int32_t fresh) {
    const word *w = &t->words[index];
    for (int32_t i = 0; i + 1 < w->length; i++) {
        int32_t left = w->symbols[i], right = w->symbols[i + 1];
        pair_state *s = bpe_train_state_of(t, left, right);
        if (!s) return false;
        s->count += sign * w->count;
        if (sign > 0 && (fresh < 0 || left == fresh || right == fresh) && !bpe_train_note_word(s, index)) return false;
    }
    return true;
}

static bool bpe_train_merge_pair(trainer *t, int32_t state, int32_t fresh) {
    tokenizer_pair pair = t->states[state].pair;
    int32_t *words = t->states[state].words, count = t->states[state].word_count;
    size_t known = t->state_count;
    t->states[state].words = NULL; /* not needed again: the pair no longer occurs */
    t->states[state].word_count = 0;
    bool ok = true;
    for (int32_t k = 0; ok && k < count; k++) {
        word *w = &t->words[words[k]];
        int32_t i = 0;
        while (i + 1 < w->length && (w->symbols[i] != pair.left || w->symbols[i + 1] != pair.right)) i++;
        if (i + 1 >= w->length) continue; /* outdated */
        ok = bpe_train_count_pairs(t, words[k], -1, -1);
        int32_t length = 0;
        for (i = 0; i < w->length; i++) {
            bool hit = i + 1 < w->length && w->symbols[i] == pair.left && w->symbols[i + 1] == pair.right;
            w->symbols[length++] = hit ? fresh : w->symbols[i];
            if (hit) i++;
        }
        w->length = length;
        ok = ok && bpe_train_count_pairs(t, words[k], 1, fresh);
    }
    mem_free(words);
    for (size_t s = known; ok && s < t->state_count; s++) /* pairs that this merge created */
        ok = bpe_train_push(t, (int32_t)s);
    return ok;
}

static propane_status bpe_train_collect_words(trainer *t, const char *data, size_t length, propane_error *err) {
    piece_map seen = {0};
    splitter s;
    const char *bytes;
    size_t n;
    propane_status status = PROPANE_OK;
    splitter_init(&s, data, length);
    while (!status && splitter_next(&s, &bytes, &n)) {
        int32_t *index = piece_map_enter(&seen, bytes, n, (int32_t)t->word_count);
        word *words = index ? ARRAY_MORE(t->words, t->word_count, NULL) : NULL;
        if (!words) {
            status = propane_fail_memory(err, seen.capacity * 40);
            break;
        }
        t->words = words;
        if ((size_t)*index == t->word_count) {
            word w = {ARENA_ARRAY(t->arena, n, int32_t), (int32_t)n, 0};
            if (!w.symbols) {
                status = propane_fail_memory(err, n * sizeof(int32_t));
                break;
            }
            for (size_t i = 0; i < n; i++) w.symbols[i] = (unsigned char)bytes[i];
            t->words[t->word_count++] = w;
        }
        t->words[*index].count++;
    }
    piece_map_deinit(&seen);
    return status;
}

static propane_status bpe_train_learn(trainer *t, const char *data, size_t length, tokenizer_pair *merges, int wanted,
                                      int *count, propane_error *err) {
    PROPANE_TRY(bpe_train_collect_words(t, data, length, err));
    bool ok = true;
    for (size_t i = 0; ok && i < t->word_count; i++) ok = bpe_train_count_pairs(t, (int32_t)i, 1, -1);
    for (size_t i = 0; ok && i < t->state_count; i++) ok = bpe_train_push(t, (int32_t)i);
    *count = 0;
    while (ok && *count < wanted && t->heap_count) {
        entry e = bpe_train_pop(t);
        const pair_state *s = &t->states[e.state];
        if (e.count != s->count) { /* the pair has become less frequent */
            if (s->count > 1) ok = bpe_train_push(t, e.state);
            continue;
        }
        if (s->count < 2) break;
        merges[*count] = s->pair;
        ok = bpe_train_merge_pair(t, e.state, 256 + *count);
        ++*count;
    }
    return ok ? PROPANE_OK : propane_fail_memory(err, t->state_count * sizeof *t->states);
}

propane_status tokenizer_train_bpe(const char *data, size_t length, int vocab_size, tokenizer **out,
                                   propane_error *err) {
    *out = NULL;
    if (vocab_size < 257 || vocab_size > TOKENIZER_BPE_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "a vocabulary of %d ids; byte-pair encoding needs 257 to %d (256 of them are the bytes)",
                            vocab_size, TOKENIZER_BPE_MAX);
    if (length == 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "the text is empty: there is nothing to learn merges from");
    trainer t = {.arena = arena_create()};
    int wanted = vocab_size - 256, count = 0;
    tokenizer_pair *merges = mem_array((size_t)wanted, sizeof *merges);
    propane_status status = t.arena && merges ? bpe_train_learn(&t, data, length, merges, wanted, &count, err)
                                              : propane_fail_memory(err, (size_t)wanted * sizeof *merges);
    bpe_train_trainer_deinit(&t);
    if (!status) status = tokenizer_from_merges(merges, count, "trained merges", out, err);
    mem_free(merges);
    return status;
}
