/* SPDX-License-Identifier: MIT
 * Owns a set of texts, such as added tokens or the pieces of a Unigram vocabulary, with a search for the longest of
 * them at a position.
 */
#include "core/base/array.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

static bool hf_trie_node(hf_trie *t) {
    int32_t *terminal = ARRAY_MORE(t->terminal, t->nodes, NULL);
    if (!terminal) return false;
    t->terminal = terminal;
    t->terminal[t->nodes++] = -1;
    return true;
}

bool hf_trie_add(hf_trie *t, const char *data, size_t length, int32_t value) {
    if (length == 0) return true;
    if (t->nodes == 0 && !hf_trie_node(t)) return false;
    int32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t *next = id_map_enter(&t->edges, (uint64_t)node << 8 | (unsigned char)data[i], t->nodes);
        if (!next) return false;
        node = *next;
        if (node == t->nodes && !hf_trie_node(t)) return false;
    }
    t->terminal[node] = value;
    t->first[(unsigned char)data[0]] = true;
    return true;
}

int32_t hf_trie_longest(const hf_trie *t, const char *data, size_t length, size_t *found) {
    int32_t node = 0, best = -1;
    *found = 0;
    if (length == 0 || !t->first[(unsigned char)data[0]]) return -1;
    for (size_t i = 0; i < length; i++) {
        node = hf_trie_next(t, node, data[i]);
        if (node < 0) break;
        if (t->terminal[node] < 0) continue;
        best = t->terminal[node];
        *found = i + 1;
    }
    return best;
}

void hf_trie_deinit(hf_trie *t) {
    id_map_deinit(&t->edges);
    mem_free(t->terminal);
}
