/* SPDX-License-Identifier: MIT
 * Owns creating and freeing a tokenizer of any kind.
 */
#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

static void tokenizer_object_free_steps(hf_step *steps, int count) {
    for (int i = 0; i < count; i++) pcre2_code_free(steps[i].regex);
}

static void tokenizer_object_free_hf(struct hf_tokenizer *h) {
    if (!h) return;
    tokenizer_object_free_steps(h->normalizers, h->normalizer_count);
    tokenizer_object_free_steps(h->splits, h->split_count);
    hf_trie_deinit(&h->raw);
    hf_trie_deinit(&h->normal);
    hf_trie_deinit(&h->units);
}

void tokenizer_free(tokenizer *t) {
    if (!t) return;
    tokenizer_object_free_hf(t->hf);
    id_map_deinit(&t->pairs);
    piece_map_deinit(&t->lookup);
    arena_free(t->arena);
    mem_free(t);
}

propane_status tokenizer_begin(tokenizer_kind kind, int vocab, tokenizer **out, propane_error *err) {
    tokenizer *t = mem_alloc(sizeof *t);
    *out = NULL;
    if (!t) return propane_fail_memory(err, sizeof *t);
    *t = (tokenizer){.kind = kind, .vocab = vocab, .bos = -1, .eos = -1};
    t->arena = arena_create();
    if (t->arena) {
        t->pieces = ARENA_ARRAY(t->arena, vocab, const char *);
        t->lengths = ARENA_ARRAY(t->arena, vocab, uint32_t);
        if (kind == TOKENIZER_LLAMA) t->scores = ARENA_ARRAY(t->arena, vocab, float);
    }
    if (!t->pieces || !t->lengths || (kind == TOKENIZER_LLAMA && !t->scores)) {
        tokenizer_free(t);
        return propane_fail_memory(err, (size_t)vocab * 16);
    }
    *out = t;
    return PROPANE_OK;
}
