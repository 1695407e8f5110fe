/* SPDX-License-Identifier: MIT
 * Owns SentencePiece's normalisation rules. In a unit of the double array, bits 0 to 7 and 31 are the label, bit 8
 * means that a rule ends here, and bits 10 to 30 are the distance to the children, times 256 if bit 9 is set. A unit
 * with bit 31 is a leaf, and its other bits are an offset into the strings. Leaves that point outside the strings, and
 * strings that are not UTF-8, are refused.
 */
#include "lm/text/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "core/base/bytes.h"
#include "lm/text/tokenizer_hf.h"

#define LEAF 0x80000000u

/* ---- reading --------------------------------------------------------------------------------------------------------- */

static bool charsmap_is_utf8(const char *data, size_t length) {
    for (size_t i = 0; i < length;) {
        const int n = utf8_length(data + i, length - i);
        if (n == 0) return false;
        i += (size_t)n;
    }
    return true;
}

static propane_status charsmap_check(const charsmap *m, const char *source, propane_error *err) {
    if (!charsmap_is_utf8(m->strings, m->strings_length) || m->strings[m->strings_length - 1] != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: precompiled_charsmap: replacement texts must be UTF-8 and end with a zero byte",
                            source);
    for (size_t i = 0; i < m->unit_count; i++) {
        const uint32_t unit = m->units[i];
        const size_t at = unit & ~LEAF;
        if (unit & LEAF && (at >= m->strings_length || ((unsigned char)m->strings[at] & 0xc0) == 0x80))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: precompiled_charsmap: unit %zu points to offset %zu of %zu bytes of strings%s",
                                source, i, at, m->strings_length,
                                at < m->strings_length ? ", into the middle of a character" : "");
    }
    return PROPANE_OK;
}

propane_status charsmap_read(arena *a, const void *data, size_t length, const char *source, charsmap **out,
                             propane_error *err) {
    const uint8_t *bytes = data;
    const uint32_t trie = length >= 4 ? bytes_u32(bytes) : 0;
    *out = NULL;
    if (length < 9 || trie < 4 || trie % 4 != 0 || trie > length - 5)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: precompiled_charsmap has %zu bytes, but claims a trie of %u bytes; it is truncated or damaged", source,
            length, (unsigned)trie);
    charsmap *m = ARENA_NEW(a, charsmap);
    uint32_t *units = arena_alloc(a, trie);
    if (!m || !units) return propane_fail_memory(err, trie);
    for (size_t i = 0; i < trie / 4; i++) units[i] = bytes_u32(bytes + 4 + 4 * i);
    m->units = units;
    m->unit_count = trie / 4;
    m->strings_length = length - 4 - trie;
    m->strings = arena_copy(a, bytes + 4 + trie, m->strings_length);
    if (!m->strings) return propane_fail_memory(err, m->strings_length);
    PROPANE_TRY(charsmap_check(m, source, err));
    *out = m;
    return PROPANE_OK;
}

/* ---- finding --------------------------------------------------------------------------------------------------------- */

static uint32_t charsmap_distance(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

/* Returns the length of a prefix of `p` that has a rule, the longest or the shortest one, or 0 if there is none. */
static size_t charsmap_find(const charsmap *m, const char *p, size_t left, bool longest, const char **with) {
    size_t at = charsmap_distance(m->units[0]), found = 0;
    for (size_t i = 0; i < left && p[i] != 0; i++) {
        const unsigned char byte = (unsigned char)p[i];
        at ^= byte;
        if (at >= m->unit_count || (m->units[at] & (LEAF | 0xff)) != byte) break;
        const uint32_t unit = m->units[at];
        at ^= charsmap_distance(unit);
        if (!(unit >> 8 & 1)) continue;
        /* In handmade files, rules may end inside a character; such rules are ignored. */
        const bool whole = i + 1 == left || ((unsigned char)p[i + 1] & 0xc0) != 0x80;
        if (at >= m->unit_count || !(m->units[at] & LEAF) || !whole) continue;
        found = i + 1;
        *with = m->strings + (m->units[at] & ~LEAF);
        if (!longest) break;
    }
    return found;
}

size_t charsmap_step(const charsmap *m, const char *p, size_t left, const char **with, size_t *with_length) {
    const size_t found = m ? charsmap_find(m, p, left, true, with) : 0;
    if (found) {
        *with_length = strlen(*with);
        return found;
    }
    *with = p;
    return *with_length = (size_t)utf8_length(p, left);
}

static void charsmap_apply_grapheme(const charsmap *m, const char *data, size_t length, text *out) {
    const char *with;
    if (length < 6 && charsmap_find(m, data, length, false, &with)) {
        text_append(out, with);
        return;
    }
    for (size_t i = 0; i < length;) {
        const size_t n = (size_t)utf8_length(data + i, length - i);
        if (charsmap_find(m, data + i, n, false, &with))
            text_append(out, with);
        else
            text_append_n(out, data + i, n);
        i += n;
    }
}

void charsmap_apply(const charsmap *m, const char *data, size_t length, text *out) {
    text old = {0};
    const char *seen =
        hf_show_old(data, length, &old) ? old.data : data; /* graphemes as newer versions of Unicode define them */
    utf8proc_int32_t state = 0;
    int32_t before = -1;
    size_t begin = 0;
    if (old.failed) out->failed = true;
    for (size_t i = 0, n; i < length && !out->failed; i += n) {
        const int32_t code = hf_code_at(seen + i, length - i, &n);
        if (i > 0 && utf8proc_grapheme_break_stateful(before, code, &state)) {
            charsmap_apply_grapheme(m, data + begin, i - begin, out);
            begin = i;
        }
        before = code;
    }
    if (!out->failed && begin < length) charsmap_apply_grapheme(m, data + begin, length - begin, out);
    text_deinit(&old);
}
