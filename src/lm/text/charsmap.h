/* SPDX-License-Identifier: MIT
 * SentencePiece's normalisation rules ("precompiled_charsmap"): texts and their replacements, as a double-array trie
 * (Darts) and a list of strings. Its two users apply the same rules in different ways, which matters if rules overlap.
 */
#ifndef LM_TEXT_CHARSMAP_H
#define LM_TEXT_CHARSMAP_H

#include "core/base/arena.h"
#include "core/base/text.h"

typedef struct charsmap {
    const uint32_t *units; /* units of the trie */
    size_t unit_count;
    const char *strings; /* terminated UTF-8 strings; units hold offsets into it */
    size_t strings_length;
} charsmap;

/* `data` is a u32 with the trie's bytes, the trie, and the strings. All lengths and offsets are checked here, once. */
PROPANE_CHECK propane_status charsmap_read(arena *a, const void *data, size_t length, const char *source,
                                           charsmap **out, propane_error *err);

/* Applies the rules as Hugging Face does ("Precompiled"). A grapheme of fewer than 6 bytes is replaced by the
 * shortest rule that matches its beginning; others are replaced character by character. Both texts are UTF-8.
 * Appends to `out`. */
void charsmap_apply(const charsmap *m, const char *data, size_t length, text *out);

/* Makes one replacement as SentencePiece does. Returns the length of the text's prefix that the longest rule replaces
 * by *with. `left` must not be 0. */
size_t charsmap_step(const charsmap *m, const char *p, size_t left, const char **with, size_t *with_length);

#endif
