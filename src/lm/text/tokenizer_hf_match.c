/* SPDX-License-Identifier: MIT
 * Owns the matching of a tokenizer's patterns. The patterns come with a model, so a short pattern must not be able to
 * use unlimited time. One attempt has a limit of steps. All matching in one text has a time budget that grows with the
 * text's length.
 *
 * PCRE2 does not count the steps of its fast loops, and one call may try every position of the text. Each call
 * therefore tries few positions, and the time is checked between calls.
 */
#include "core/base/clock.h"
#include "lm/text/tokenizer_hf.h"

enum {
    PLACES = 16,                /* positions at which one call may begin a match */
    STEPS = 1000000,            /* per attempt */
    HEAP_KB = 64 << 10,         /* for the interpreter */
    NS_PER_BYTE = 1000,         /* per text: twenty times as much as ordinary patterns need */
    NS_ALWAYS = 1000 * 1000000, /* for any text */
};

propane_status hf_matcher_init(hf_matcher *m, size_t length, propane_error *err) {
    *m = (hf_matcher){.data = pcre2_match_data_create(64, NULL), .limits = pcre2_match_context_create(NULL)};
    if (!m->data || !m->limits) {
        hf_matcher_deinit(m);
        return propane_fail_memory(err, 1024);
    }
    pcre2_set_match_limit(m->limits, STEPS);
    pcre2_set_heap_limit(m->limits, HEAP_KB);
    m->left = NS_ALWAYS + (length < INT64_MAX / 2 / NS_PER_BYTE ? (int64_t)length * NS_PER_BYTE : INT64_MAX / 2);
    m->processor_end = clock_thread_ns() + m->left;
    return PROPANE_OK;
}

void hf_matcher_deinit(hf_matcher *m) {
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    *m = (hf_matcher){0};
}

/* Returns whether the time is used up. The processor time distinguishes a slow pattern from a process that was
 * suspended. It is read last, because reading it costs a system call. */
static bool hf_match_spent(hf_matcher *m, int64_t since) {
    m->left -= clock_ns() - since;
    return m->left < 0 && clock_thread_ns() > m->processor_end;
}

static int hf_match_try(hf_matcher *m, const pcre2_code *regex, const char *data, size_t length, size_t from) {
    pcre2_set_offset_limit(m->limits, from + PLACES - 1);
    const int n = pcre2_match(regex, (PCRE2_SPTR)data, length, from, PCRE2_NO_UTF_CHECK, m->data, m->limits);
    if (n != PCRE2_ERROR_JIT_STACKLIMIT) return n;
    return pcre2_match(regex, (PCRE2_SPTR)data, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->limits);
}

propane_status hf_match(hf_matcher *m, const pcre2_code *regex, const char *data, size_t length, size_t from,
                        size_t *start, size_t *end, propane_error *err) {
    *start = *end = length;
    while (from < length) {
        const int64_t since = clock_ns();
        const int n = hf_match_try(m, regex, data, length, from);
        const bool spent = hf_match_spent(m, since);
        if (n >= 0) {
            const PCRE2_SIZE *range = pcre2_get_ovector_pointer(m->data);
            *start = range[0];
            *end = range[1] < range[0] ? range[0] : range[1];
        }
        if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_DEPTHLIMIT || n == PCRE2_ERROR_HEAPLIMIT || spent)
            return propane_fail(err, PROPANE_ERR_LIMIT,
                                "a pattern of the tokenizer takes too long at byte %zu of %zu; it rescans the text at "
                                "every position, which is too slow for a text of this length",
                                from, length);
        if (n >= 0) return PROPANE_OK;
        if (n != PCRE2_ERROR_NOMATCH)
            return propane_fail(err, PROPANE_ERR_LIMIT,
                                "the tokenizer's pattern gave up on the text at offset %zu (PCRE2 error %d)", from, n);
        from = length - from > PLACES ? from + PLACES : length;
        while (from < length && ((unsigned char)data[from] & 0xc0) == 0x80) from++; /* inside a character */
    }
    return PROPANE_OK;
}
