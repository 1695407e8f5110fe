/* SPDX-License-Identifier: MIT
 * SentencePiece's normalisation rules ("precompiled_charsmap"): texts and their replacements, as a double-array trie
 * (Darts) and a list of strings. Hugging Face and SentencePiece apply the same rules in different ways, which matters
 * if rules overlap.
 */
#ifndef LM_TEXT_CHARSMAP_H
#define LM_TEXT_CHARSMAP_H

#include "core/base/arena.h"
#include "core/base/text.h"

typedef struct charsmap {
    const uint32_t *units; /* units of the trie */
    size_t unit_count;
    const char *strings; /* terminated UTF-8 strings; leaves of the trie hold offsets into them */
    size_t strings_length;
} charsmap;

/* Reads rules: `data` is a u32 with the number of the trie's bytes, the trie, and the strings. Lengths and offsets are
 * checked once, when the rules are read. */
PROPANE_CHECK propane_status charsmap_read(arena *a, const void *data, size_t length, const char *source,
                                           charsmap **out, propane_error *err);

/* Applies the rules as Hugging Face does ("Precompiled"). A grapheme of fewer than 6 bytes is replaced by the shortest
 * rule that matches its beginning; other graphemes are replaced character by character. Appends the result to `out`.
 * Both texts are UTF-8. */
void charsmap_apply(const charsmap *m, const char *data, size_t length, text *out);

/* Finds one replacement as SentencePiece does: the longest rule that matches a prefix of `p` replaces this prefix by
 * *with. Returns the length of the prefix. If no rule matches, the first character replaces itself. `m` may be NULL;
 * `left` must not be 0. */
size_t charsmap_step(const charsmap *m, const char *p, size_t left, const char **with, size_t *with_length);

#endif
