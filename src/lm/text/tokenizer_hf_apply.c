/* SPDX-License-Identifier: MIT
 * Owns running the steps of a tokenizer.json: matching, normalising, splitting. Words are passed on as they are found,
 * so a large text needs no list of words.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

/* ---- matching ---------------------------------------------------------------------------------------------------- */

/* Finds the next match at or after `from`; *start equals length if there is none. */
static propane_status tokenizer_hf_apply_find(const hf_step *s, hf_matcher *match, const char *data, size_t length,
                                              size_t from, size_t *start, size_t *end, propane_error *err) {
    *start = *end = length;
    if (from >= length) return PROPANE_OK;
    if (s->regex) return hf_match(match, s->regex, data, length, from, start, end, err);
    if (s->find) {
        const char *at = memmem(data + from, length - from, s->find, s->find_length);
        if (at) {
            *start = (size_t)(at - data);
            *end = *start + s->find_length;
        }
        return PROPANE_OK;
    }
    for (size_t n; from < length; from += n) {
        int32_t code = hf_code_at(data + from, length - from, &n);
        size_t bytes;
        if (s->kind == HF_WHITESPACE ? hf_is_space(data + from, length - from, &bytes)
            : s->kind == HF_DIGITS   ? hf_is_number(code)
                                     : hf_is_punctuation(code)) {
            *start = from;
            *end = from + n;
            return PROPANE_OK;
        }
    }
    return PROPANE_OK;
}

/* Returns the position at which to continue after an empty match. */
static size_t tokenizer_hf_apply_step_over(const char *data, size_t length, size_t at) {
    size_t n;
    if (at >= length) return length;
    hf_code_at(data + at, length - at, &n);
    return at + n;
}

/* ---- normalising --------------------------------------------------------------------------------------------------------- */

static bool tokenizer_hf_apply_is_ascii(const char *data, size_t length) {
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++) all |= (unsigned char)data[i];
    return all < 0x80;
}

static void tokenizer_hf_apply_lower(const char *data, size_t length, text *out) {
    char bytes[4];
    for (size_t i = 0, n; i < length; i += n) {
        int32_t code = hf_code_at(data + i, length - i, &n);
        if (code == 0x130)
            text_append(out, "i\xcc\x87"); /* the only capital whose lower-case form is two characters */
        else
            text_append_n(out, bytes, hf_utf8_put(hf_lower(code), bytes));
    }
}

/* Removes accents, which are separate marks because an earlier step (NFD, NFKD) has decomposed the text. */
static void tokenizer_hf_apply_strip_accents(const char *data, size_t length, text *out) {
    for (size_t i = 0, n; i < length; i += n) {
        const int32_t code = hf_code_at(data + i, length - i, &n);
        if (!hf_is_accent(code)) text_append_n(out, data + i, n);
    }
}

/* Removes control characters and replaces white space by spaces. */
static void tokenizer_hf_apply_nmt(const char *data, size_t length, text *out) {
    static const int32_t spaces[] = {9, 10, 12, 13, 0x1680, 0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd};
    for (size_t i = 0, n; i < length; i += n) {
        const int32_t code = hf_code_at(data + i, length - i, &n);
        bool space = code >= 0x200b && code <= 0x200f;
        for (size_t k = 0; k < sizeof spaces / sizeof spaces[0]; k++) space |= code == spaces[k];
        if (space)
            text_append_n(out, " ", 1);
        else if (code == 0 || (code >= 0x20 && code != 0x7f && code != 0x8f && code != 0x9f))
            text_append_n(out, data + i, n);
    }
}

/* Returns the largest length that a text may reach. The effects of steps that lengthen a text multiply, so a few
 * thousand bytes of rules could require any amount of memory. */
static size_t tokenizer_hf_apply_most(size_t length) {
    enum { TIMES = 8, SPARE = 8 << 20 };
    return length > (SIZE_MAX - SPARE) / TIMES ? SIZE_MAX : TIMES * length + SPARE;
}

static propane_status tokenizer_hf_apply_check_growth(const text *t, size_t most, propane_error *err) {
    if (t->length <= most) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "the tokenizer's rules expand the text to more than %zu MB; this is not a usable tokenizer",
                        most >> 20);
}

/* Replaces all matches. `most` is the largest number of bytes in the result. */
static propane_status tokenizer_hf_apply_replace(const hf_step *s, hf_matcher *match, const char *data, size_t length,
                                                 size_t most, text *out, propane_error *err) {
    propane_status status = PROPANE_OK;
    size_t done = 0, from = 0, start, end;
    text old = {0};
    const char *seen = s->regex && hf_show_old(data, length, &old) ? old.data : data;
    if (old.failed) status = propane_fail_memory(err, length);
    while (!status && !out->failed &&
           !(status = tokenizer_hf_apply_find(s, match, seen, length, from, &start, &end, err)) && start < length) {
        text_append_n(out, data + done, start - done);
        text_append_n(out, s->with, s->with_length);
        status = tokenizer_hf_apply_check_growth(out, most, err);
        done = end;
        from = end > start ? end : tokenizer_hf_apply_step_over(data, length, end);
    }
    if (status == PROPANE_OK) text_append_n(out, data + done, length - done);
    text_deinit(&old);
    return status;
}

static propane_status tokenizer_hf_apply_compose(hf_kind kind, const char *data, size_t length, text *out,
                                                 propane_error *err) {
    static const int options[] = {[HF_NFC] = UTF8PROC_COMPOSE,
                                  [HF_NFD] = UTF8PROC_DECOMPOSE,
                                  [HF_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                  [HF_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t *result = NULL;
    if (tokenizer_hf_apply_is_ascii(data, length)) {
        text_append_n(out, data, length);
        return PROPANE_OK;
    }
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)data, (utf8proc_ssize_t)length, &result,
                                      (utf8proc_option_t)(UTF8PROC_STABLE | options[kind]));
    if (n < 0) {
        free(result);
        return propane_fail(err, n == UTF8PROC_ERROR_NOMEM ? PROPANE_ERR_MEMORY : PROPANE_ERR_LIMIT,
                            "a text of %zu bytes cannot be normalized: %s", length, utf8proc_errmsg(n));
    }
    text_append_n(out, result, (size_t)n);
    free(result); /* allocated by utf8proc */
    return PROPANE_OK;
}

static void tokenizer_hf_apply_strip(const hf_step *s, const char **data, size_t *length) {
    size_t n;
    while (s->left && *length && hf_is_space(*data, *length, &n)) *data += n, *length -= n;
    while (s->right && *length) {
        size_t last = *length - 1;
        while (last > 0 && ((unsigned char)(*data)[last] & 0xc0) == 0x80) last--;
        if (!hf_is_space(*data + last, *length - last, &n)) return;
        *length = last;
    }
}

propane_status hf_normalize(const hf_step *steps, int count, hf_matcher *match, const char *data, size_t length,
                            text buffers[2], const char **out, size_t *out_length, propane_error *err) {
    const size_t most = tokenizer_hf_apply_most(length);
    for (int i = 0, written = 0; i < count && length > 0; i++) {
        const hf_step *s = &steps[i];
        text *to = &buffers[written & 1]; /* `data` is never in this buffer: each result goes to the other one */
        propane_status status = PROPANE_OK;
        if (s->kind == HF_STRIP) {
            tokenizer_hf_apply_strip(s, &data, &length);
            continue;
        }
        text_clear(to);
        if (s->kind == HF_LOWERCASE)
            tokenizer_hf_apply_lower(data, length, to);
        else if (s->kind == HF_REPLACE)
            status = tokenizer_hf_apply_replace(s, match, data, length, most, to, err);
        else if (s->kind == HF_CHARSMAP)
            charsmap_apply(s->rules, data, length, to);
        else if (s->kind == HF_STRIP_ACCENTS)
            tokenizer_hf_apply_strip_accents(data, length, to);
        else if (s->kind == HF_NMT)
            tokenizer_hf_apply_nmt(data, length, to);
        else if (s->kind == HF_PREPEND)
            text_append_n(to, s->with, s->with_length), text_append_n(to, data, length);
        else
            status = tokenizer_hf_apply_compose(s->kind, data, length, to, err);
        if (status == PROPANE_OK && to->failed) status = propane_fail_memory(err, to->capacity);
        if (status == PROPANE_OK) status = tokenizer_hf_apply_check_growth(to, most, err);
        PROPANE_TRY(status);
        data = to->length ? to->data : "";
        length = to->length;
        written++;
    }
    *out = data;
    *out_length = length;
    return PROPANE_OK;
}

/* A rule's replacement may begin with spaces, and so may the text after it. With `squeeze`, all these spaces form one
 * run. */
void hf_normalize_sentencepiece(const hf_sentencepiece *sp, const hf_trie *user, const char *data, size_t length,
                                text *out) {
    const char *space = sp->escape ? "\xe2\x96\x81" : " ";
    const size_t space_length = strlen(space), from = out->length;
    bool begun = !sp->squeeze, after_space = sp->squeeze;
    for (size_t i = 0, n; i < length; i += n) {
        const char *with = data + i;
        size_t with_length;
        if (hf_trie_longest(user, data + i, length - i, &n) >= 0)
            with_length = n;
        else
            n = charsmap_step(sp->rules, data + i, length - i, &with, &with_length);
        if (!begun && with_length == 1 && *with == ' ') continue;
        if (sp->prefix && out->length == from) text_append_n(out, space, space_length);
        begun = true;
        for (; after_space && with_length && *with == ' '; with++) with_length--;
        for (size_t k = 0; k < with_length; k++)
            text_append_n(out, with[k] == ' ' ? space : with + k, with[k] == ' ' ? space_length : 1);
        if (with_length) after_space = sp->squeeze && with[with_length - 1] == ' ';
    }
    while (sp->squeeze && out->length >= from + space_length &&
           memcmp(out->data + out->length - space_length, space, space_length) == 0)
        out->length -= space_length;
}

/* ---- cutting --------------------------------------------------------------------------------------------------------------- */

void hf_cutter_init(hf_cutter *c, const hf_step *steps, int count, hf_matcher *match, hf_sink sink, void *context) {
    *c = (hf_cutter){.steps = steps, .count = count, .match = match, .sink = sink, .context = context};
}

void hf_cutter_deinit(hf_cutter *c) {
    for (int i = 0; i < HF_STEPS_MAX; i++) text_deinit(&c->buffers[i]);
}

static propane_status tokenizer_hf_apply_cut(hf_cutter *c, int level, const char *data, size_t length, bool first,
                                             propane_error *err);

/* The segments of one level (matches, and the text between them), which are passed on to the next level. */
typedef struct segments {
    hf_cutter *c;
    const hf_step *step;
    int level;
    const char *data;
    bool first;
    bool held, held_match, previous_match; /* a segment that the next one may join */
    size_t start, end;
} segments;

static propane_status tokenizer_hf_apply_pass_on(segments *s, size_t start, size_t end, propane_error *err) {
    return tokenizer_hf_apply_cut(s->c, s->level + 1, s->data + start, end - start, s->first && start == 0, err);
}

static propane_status tokenizer_hf_apply_flush(segments *s, propane_error *err) {
    bool held = s->held;
    s->held = false;
    return held ? tokenizer_hf_apply_pass_on(s, s->start, s->end, err) : PROPANE_OK;
}

static propane_status tokenizer_hf_apply_feed(segments *s, size_t start, size_t end, bool is_match,
                                              propane_error *err) {
    if (start == end) return PROPANE_OK;
    if (s->step->invert) is_match = !is_match;
    bool joins = false, previous = s->previous_match;
    s->previous_match = is_match;
    switch (s->step->behaviour) {
    case HF_REMOVED: return is_match ? PROPANE_OK : tokenizer_hf_apply_pass_on(s, start, end, err);
    case HF_ISOLATED: return tokenizer_hf_apply_pass_on(s, start, end, err);
    case HF_WITH_PREVIOUS: joins = is_match && !previous; break;
    case HF_CONTIGUOUS: joins = is_match == previous; break;
    case HF_WITH_NEXT: joins = s->held && s->held_match && !is_match; break;
    }
    if (s->held && joins) {
        s->end = end;
        s->held_match = is_match;
        return s->step->behaviour == HF_WITH_NEXT ? tokenizer_hf_apply_flush(s, err) : PROPANE_OK;
    }
    PROPANE_TRY(tokenizer_hf_apply_flush(s, err));
    s->held = true;
    s->held_match = is_match;
    s->start = start;
    s->end = end;
    return PROPANE_OK;
}

/* Cuts `data` at the matches in `seen`, the form of the text in which patterns are matched. */
static propane_status tokenizer_hf_apply_cut_seen(hf_cutter *c, int level, const char *data, const char *seen,
                                                  size_t length, bool first, propane_error *err) {
    segments s = {.c = c, .step = &c->steps[level], .level = level, .data = data, .first = first};
    size_t done = 0, from = 0, start, end;
    for (;;) {
        PROPANE_TRY(tokenizer_hf_apply_find(s.step, c->match, seen, length, from, &start, &end, err));
        if (start >= length) break;
        PROPANE_TRY(tokenizer_hf_apply_feed(&s, done, start, false, err));
        PROPANE_TRY(tokenizer_hf_apply_feed(&s, start, end, true, err));
        done = end;
        from = end > start ? end : tokenizer_hf_apply_step_over(data, length, end);
    }
    PROPANE_TRY(tokenizer_hf_apply_feed(&s, done, length, false, err));
    return tokenizer_hf_apply_flush(&s, err);
}

static propane_status tokenizer_hf_apply_cut_by_matches(hf_cutter *c, int level, const char *data, size_t length,
                                                        bool first, propane_error *err) {
    text old = {0};
    bool other = c->steps[level].regex && hf_show_old(data, length, &old);
    propane_status status =
        old.failed ? propane_fail_memory(err, length)
                   : tokenizer_hf_apply_cut_seen(c, level, data, other ? old.data : data, length, first, err);
    text_deinit(&old);
    return status;
}

static bool tokenizer_hf_apply_begins_with(const char *data, size_t length, const char *with, size_t with_length) {
    return length >= with_length && memcmp(data, with, with_length) == 0;
}

static void tokenizer_hf_apply_mark_spaces(const hf_step *s, const char *data, size_t length, bool first, text *out) {
    bool prefix = s->scheme == HF_ALWAYS || (s->scheme == HF_FIRST && first);
    if (prefix && data[0] != ' ' && !tokenizer_hf_apply_begins_with(data, length, s->with, s->with_length))
        text_append_n(out, s->with, s->with_length);
    for (size_t i = 0; i < length;) {
        const char *space = memchr(data + i, ' ', length - i);
        size_t end = space ? (size_t)(space - data) : length;
        text_append_n(out, data + i, end - i);
        if (space) text_append_n(out, s->with, s->with_length);
        i = end + 1;
    }
}

static propane_status tokenizer_hf_apply_cut(hf_cutter *c, int level, const char *data, size_t length, bool first,
                                             propane_error *err) {
    if (length == 0) return PROPANE_OK;
    if (level == c->count) return c->sink(c->context, data, length, err);
    const hf_step *s = &c->steps[level];
    text *buffer = &c->buffers[level];
    if (s->kind == HF_METASPACE || (s->kind == HF_BYTE_LEVEL && s->scheme == HF_ALWAYS && data[0] != ' ')) {
        text_clear(buffer);
        if (s->kind == HF_METASPACE)
            tokenizer_hf_apply_mark_spaces(s, data, length, first, buffer);
        else
            text_append_n(buffer, " ", 1), text_append_n(buffer, data, length);
        if (buffer->failed) return propane_fail_memory(err, buffer->capacity);
        data = buffer->data;
        length = buffer->length;
    }
    bool whole = s->kind == HF_METASPACE ? !s->split : s->kind == HF_BYTE_LEVEL && !s->regex;
    return whole ? tokenizer_hf_apply_cut(c, level + 1, data, length, first, err)
                 : tokenizer_hf_apply_cut_by_matches(c, level, data, length, first, err);
}

propane_status hf_cut(hf_cutter *c, const char *data, size_t length, bool first, propane_error *err) {
    return tokenizer_hf_apply_cut(c, 0, data, length, first, err);
}
