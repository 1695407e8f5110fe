/* SPDX-License-Identifier: MIT
 * SentencePiece's rules of normalisation ("precompiled_charsmap"): texts and what replaces them, as a double-array trie
 * (Darts) and a list of strings. Its two users apply the same rules in two ways, which differ where rules overlap.
 */
#ifndef LM_TEXT_CHARSMAP_H
#define LM_TEXT_CHARSMAP_H

#include "core/base/arena.h"
#include "core/base/text.h"

typedef struct charsmap {
    const uint32_t *units; /* of the trie */
    size_t unit_count;
    const char *strings; /* UTF-8, each one terminated; units hold offsets into it */
    size_t strings_length;
} charsmap;

/* `data` is: u32 bytes of the trie, the trie, the strings. All lengths and offsets are checked here, once. */
PROPANE_CHECK propane_status charsmap_read(arena *a, const void *data, size_t length, const char *source,
                                           charsmap **out, propane_error *err);

/* Hugging Face's way ("Precompiled"): a grapheme of fewer than 6 bytes becomes what the shortest rule at its front
 * says, others are replaced character by character. Both texts are UTF-8. Appends. */
void charsmap_apply(const charsmap *m, const char *data, size_t length, text *out);

/* SentencePiece's own way, one step of it: *with is what replaces the front of the text, by the longest rule; its
 * result is how much of the text that is. `left` is not 0. */
size_t charsmap_step(const charsmap *m, const char *p, size_t left, const char **with, size_t *with_length);

#endif
