/* SPDX-License-Identifier: MIT
 * Owns what tokenizer.json does to text before its model sees it: normalisers and pre-tokenisers. Words are not collected
 * but handed on as they are found, so a large text needs no list of them. Patterns are written for Oniguruma; they are
 * translated for PCRE2, and what means something else there is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "model/text/tokenizer_hf.h"

/* ---- characters ---------------------------------------------------------------------------------------------------- */

static int32_t pretokenize_code_at(const char *p, size_t left, size_t *bytes) {
    utf8proc_int32_t code = -1;
    int n = utf8_length(p, left);
    *bytes = n ? (size_t)n : 1;
    if (n == 0 || utf8proc_iterate((const utf8proc_uint8_t *)p, n, &code) != n) return -1;
    return code;
}

bool hf_is_space(const char *p, size_t left, size_t *bytes) {
    int32_t code = pretokenize_code_at(p, left, bytes);
    if (code < 0) return false;
    if ((code >= 9 && code <= 13) || code == 0x85) return true;
    utf8proc_category_t c = utf8proc_category(code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool hf_is_word(const char *p, size_t left, size_t *bytes) {
    int32_t code = pretokenize_code_at(p, left, bytes);
    if (code < 0) return false;
    utf8proc_category_t c = utf8proc_category(code);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ME) || c == UTF8PROC_CATEGORY_ND ||
           c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d ||
           (code >= 0x24b6 && code <= 0x24e9);
}

static bool pretokenize_is_number(int32_t code) {
    utf8proc_category_t c = code < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

static bool pretokenize_is_punctuation(int32_t code) {
    if (code < 0) return false;
    if (code < 128)
        return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
               (code >= 123 && code <= 126);
    utf8proc_category_t c = utf8proc_category(code);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

int hf_byte_to_char(unsigned char byte) {
    static const struct {
        int first, last;
    } shown[] = {{33, 126}, {161, 172}, {174, 255}};
    int hidden = 0; /* bytes before this one that are not printable */
    for (int b = 0, range = 0; b <= byte; b++) {
        while (range < 3 && b > shown[range].last) range++;
        bool is_shown = range < 3 && b >= shown[range].first;
        if (b == byte) return is_shown ? b : 256 + hidden;
        if (!is_shown) hidden++;
    }
    return 0;
}

int hf_char_to_byte(int32_t code) {
    if (code < 0 || code > 323) return -1;
    if ((code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255)) return code;
    for (int b = 0; b < 256 && code >= 256; b++)
        if (hf_byte_to_char((unsigned char)b) == code) return b;
    return -1;
}

size_t hf_utf8_put(int32_t code, char out[4]) { return (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)out); }

/* ---- patterns -------------------------------------------------------------------------------------------------------- */

#define SPACES "\\t-\\r\\x20\\x{85}\\p{Z}"
#define WORDS  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"

/* One escape; `at` stands on the letter behind the backslash. */
static propane_status pretokenize_translate_escape(const char *pattern, size_t *at, bool in_class, text *out,
                                                   const char *source, propane_error *err) {
    char c = pattern[*at];
    if (c == 's' || c == 'w') {
        const char *set = c == 's' ? SPACES : WORDS;
        text_printf(out, in_class ? "%s" : "[%s]", set);
    } else if ((c == 'S' || c == 'W') && !in_class) {
        text_printf(out, "[^%s]", c == 'S' ? SPACES : WORDS);
    } else if (c == 'p' || c == 'P') {
        size_t end = *at + 1;
        if (pattern[end] == '{')
            while (pattern[end] && pattern[end] != '}') end++;
        text_printf(out, "\\%.*s", (int)(end - *at + 1), pattern + *at);
        *at = end - (pattern[end] == 0);
    } else if (c == 'u' && strspn(pattern + *at + 1, "0123456789abcdefABCDEF") >= 4) {
        text_printf(out, "\\x{%.4s}", pattern + *at + 1);
        *at += 4;
    } else if (c != 0 && (strchr("rntdDxfv", c) || !((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) &&
               !(c >= '0' && c <= '9')) {
        if (c == 'v')
            text_append(out, "\\x0b");
        else
            text_printf(out, "\\%c", c);
    } else {
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: the pattern '%.200s' uses \\%c, which cannot be done",
                            source, pattern, c ? c : '?');
    }
    return PROPANE_OK;
}

/* Oniguruma's pattern as PCRE2 wants it. */
static propane_status pretokenize_translate(const char *pattern, text *out, const char *source, propane_error *err) {
    bool in_class = false;
    for (size_t i = 0; pattern[i]; i++) {
        char c = pattern[i];
        if (c == '\\') {
            i++;
            PROPANE_TRY(pretokenize_translate_escape(pattern, &i, in_class, out, source, err));
            continue;
        }
        bool odd = in_class ? c == '[' || (c == '&' && pattern[i + 1] == '&')
                            : c == '(' && (strncmp(pattern + i, "(?m", 3) == 0 || strncmp(pattern + i, "(?~", 3) == 0 ||
                                           strncmp(pattern + i, "(?C", 3) == 0 || pattern[i + 1] == '*');
        if (odd)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: the pattern '%.200s' has '%.3s', which cannot be done", source, pattern,
                                pattern + i);
        if (in_class && c == ']')
            in_class = false;
        else if (!in_class && c == '[') {
            in_class = true;
            text_append_n(out, "[", 1);
            if (pattern[i + 1] == '^') text_append_n(out, pattern + ++i, 1);
            continue;
        }
        text_append_n(out, &c, 1);
    }
    return out->failed ? propane_fail_memory(err, out->capacity) : PROPANE_OK;
}

/* PCRE2 has its memory from Propane's, so that a lack of it is told as that; its matcher has none but what it is given. */
static void *pretokenize_take(size_t bytes, void *context) { return mem_alloc(bytes); }
static void pretokenize_give(void *memory, void *context) { mem_free(memory); }

static pcre2_code *pretokenize_compile_pattern(const text *pattern, int *code) {
    PCRE2_SIZE offset;
    pcre2_general_context *memory = pcre2_general_context_create(pretokenize_take, pretokenize_give, NULL);
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    pcre2_code *out = context ? pcre2_compile((PCRE2_SPTR)pattern->data, pattern->length,
                                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, code,
                                              &offset, context)
                              : NULL;
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    return out;
}

static propane_status pretokenize_compile(const char *pattern, const char *source, pcre2_code **out,
                                          propane_error *err) {
    text translated = {0};
    propane_status status = pretokenize_translate(pattern, &translated, source, err);
    if (status == PROPANE_OK && (translated.length == 0 || translated.length > 20000))
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: a pattern of %zu bytes; 1 to 20000 are possible", source,
                              translated.length);
    if (status == PROPANE_OK) {
        int code = PCRE2_ERROR_NOMEMORY;
        *out = pretokenize_compile_pattern(&translated, &code);
        if (*out) {
            pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without it matching is slower, not different */
            mem_forget();
        } else {
            char why[160] = "";
            pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
            status = propane_fail(err, PROPANE_ERR_INVALID, "%s: the pattern '%.200s': %s", source, pattern, why);
        }
    }
    text_deinit(&translated);
    return status;
}

/* ---- reading the steps ----------------------------------------------------------------------------------------------- */

static propane_status pretokenize_refuse(const char *source, const char *key, const char *value, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s '%.60s' cannot be done", source, key, value);
}

static propane_status pretokenize_take_text(arena *a, const json_t *object, const char *source, const char *key,
                                            const char **out, size_t *length, propane_error *err) {
    const char *value;
    PROPANE_TRY(json_get_text(object, source, key, true, &value, err));
    *length = strlen(value);
    *out = arena_string(a, value);
    return *out ? PROPANE_OK : propane_fail_memory(err, *length);
}

/* {"String": "x"} or {"Regex": "x"}. */
static propane_status pretokenize_read_pattern(arena *a, const json_t *object, const char *source, hf_step *s,
                                               propane_error *err) {
    const json_t *pattern = json_object_get(object, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    if (regex) return pretokenize_compile(regex, source, &s->regex, err);
    PROPANE_TRY(pretokenize_take_text(a, pattern, source, "String", &s->find, &s->find_length, err));
    if (s->find_length) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'pattern' is empty", source);
}

static propane_status pretokenize_read_behaviour(const json_t *object, const char *source, hf_behaviour *out,
                                                 propane_error *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name;
    PROPANE_TRY(json_get_text(object, source, "behavior", true, &name, err));
    for (int i = 0; i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (hf_behaviour)i;
            return PROPANE_OK;
        }
    return pretokenize_refuse(source, "behavior", name, err);
}

typedef propane_status (*read_one)(arena *a, const json_t *object, const char *type, const char *source, hf_step *s,
                                   propane_error *err);

static propane_status pretokenize_read_normalizer(arena *a, const json_t *object, const char *type, const char *source,
                                                  hf_step *s, propane_error *err) {
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"};
    for (int i = 0; i < 5; i++)
        if (strcmp(type, forms[i]) == 0) {
            s->kind = (hf_kind)(HF_NFC + i);
            return PROPANE_OK;
        }
    if (strcmp(type, "Prepend") == 0) {
        s->kind = HF_PREPEND;
        return pretokenize_take_text(a, object, source, "prepend", &s->with, &s->with_length, err);
    }
    if (strcmp(type, "Replace") == 0) {
        s->kind = HF_REPLACE;
        PROPANE_TRY(pretokenize_read_pattern(a, object, source, s, err));
        return pretokenize_take_text(a, object, source, "content", &s->with, &s->with_length, err);
    }
    if (strcmp(type, "Strip") == 0) {
        s->kind = HF_STRIP;
        PROPANE_TRY(json_get_bool(object, source, "strip_left", true, &s->left, err));
        return json_get_bool(object, source, "strip_right", true, &s->right, err);
    }
    return pretokenize_refuse(source, "normalizer", type, err);
}

static propane_status pretokenize_read_metaspace(arena *a, const json_t *object, const char *source, hf_step *s,
                                                 propane_error *err) {
    bool prefix = true;
    const char *scheme = "always";
    s->kind = HF_METASPACE;
    s->split = true;
    PROPANE_TRY(pretokenize_take_text(a, object, source, "replacement", &s->with, &s->with_length, err));
    PROPANE_TRY(json_get_bool(object, source, "add_prefix_space", false, &prefix, err)); /* how older files say it */
    if (!prefix) scheme = "never";
    PROPANE_TRY(json_get_text(object, source, "prepend_scheme", false, &scheme, err));
    PROPANE_TRY(json_get_bool(object, source, "split", false, &s->split, err));
    if (strcmp(scheme, "always") == 0)
        s->scheme = HF_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        s->scheme = HF_FIRST;
    else if (strcmp(scheme, "never") == 0)
        s->scheme = HF_NEVER;
    else
        return pretokenize_refuse(source, "prepend_scheme", scheme, err);
    if (s->with_length == 0) return propane_fail(err, PROPANE_ERR_INVALID, "%s: 'replacement' is empty", source);
    s->find = s->with;
    s->find_length = s->with_length;
    s->behaviour = HF_WITH_NEXT;
    return PROPANE_OK;
}

static propane_status pretokenize_read_split(arena *a, const json_t *object, const char *type, const char *source,
                                             hf_step *s, propane_error *err) {
    bool flag = true;
    s->behaviour = HF_ISOLATED;
    if (strcmp(type, "Split") == 0) {
        s->kind = HF_SPLIT;
        PROPANE_TRY(pretokenize_read_pattern(a, object, source, s, err));
        PROPANE_TRY(json_get_bool(object, source, "invert", false, &s->invert, err));
        return pretokenize_read_behaviour(object, source, &s->behaviour, err);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        s->kind = HF_BYTE_LEVEL;
        PROPANE_TRY(json_get_bool(object, source, "add_prefix_space", false, &flag, err));
        s->scheme = flag ? HF_ALWAYS : HF_NEVER;
        flag = true;
        PROPANE_TRY(json_get_bool(object, source, "use_regex", false, &flag, err));
        return flag ? pretokenize_compile(HF_GPT2_PATTERN, source, &s->regex, err) : PROPANE_OK;
    }
    if (strcmp(type, "Metaspace") == 0) return pretokenize_read_metaspace(a, object, source, s, err);
    if (strcmp(type, "Digits") == 0) {
        flag = false;
        s->kind = HF_DIGITS;
        PROPANE_TRY(json_get_bool(object, source, "individual_digits", false, &flag, err));
        s->behaviour = flag ? HF_ISOLATED : HF_CONTIGUOUS;
        return PROPANE_OK;
    }
    if (strcmp(type, "Punctuation") == 0) {
        s->kind = HF_PUNCTUATION;
        return json_object_get(object, "behavior") ? pretokenize_read_behaviour(object, source, &s->behaviour, err)
                                                   : PROPANE_OK;
    }
    return pretokenize_refuse(source, "pre_tokenizer", type, err);
}

/* A Sequence is opened; `list` is the key that holds its parts. */
static propane_status pretokenize_read_steps(arena *a, const json_t *value, const char *list, const char *source,
                                             read_one one, hf_step *steps, int *count, int depth, propane_error *err) {
    const char *type;
    if (!value || json_is_null(value)) return PROPANE_OK;
    PROPANE_TRY(json_get_text(value, source, "type", true, &type, err));
    if (strcmp(type, "Sequence") == 0) {
        const json_t *parts = json_object_get(value, list);
        if (!json_is_array(parts) || depth > 8)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: a Sequence must have a list '%s' and not be nested deeply", source, list);
        for (size_t i = 0; i < json_array_size(parts); i++)
            PROPANE_TRY(
                pretokenize_read_steps(a, json_array_get(parts, i), list, source, one, steps, count, depth + 1, err));
        return PROPANE_OK;
    }
    if (*count == HF_STEPS_MAX)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: more than %d steps in '%s'", source, HF_STEPS_MAX, list);
    hf_step *s = &steps[(*count)++]; /* counted first: what it holds is freed with the others */
    *s = (hf_step){0};
    return one(a, value, type, source, s, err);
}

propane_status hf_read_normalizers(arena *a, const json_t *value, const char *source, hf_step *steps, int *count,
                                   propane_error *err) {
    return pretokenize_read_steps(a, value, "normalizers", source, pretokenize_read_normalizer, steps, count, 0, err);
}

propane_status hf_read_splits(arena *a, const json_t *value, const char *source, hf_step *steps, int *count,
                              propane_error *err) {
    return pretokenize_read_steps(a, value, "pretokenizers", source, pretokenize_read_split, steps, count, 0, err);
}

/* ---- finding ----------------------------------------------------------------------------------------------------------- */

/* The next match at or behind `from`; *start = length: there is none. */
static propane_status pretokenize_find(const hf_step *s, pcre2_match_data *match, const char *data, size_t length,
                                       size_t from, size_t *start, size_t *end, propane_error *err) {
    *start = *end = length;
    if (from >= length) return PROPANE_OK;
    if (s->regex) {
        int n = pcre2_match(s->regex, (PCRE2_SPTR)data, length, from, PCRE2_NO_UTF_CHECK, match, NULL);
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = pcre2_match(s->regex, (PCRE2_SPTR)data, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, NULL);
        if (n == PCRE2_ERROR_NOMATCH) return PROPANE_OK;
        if (n < 0)
            return propane_fail(err, PROPANE_ERR_LIMIT,
                                "the tokenizer's pattern gave up on the text at offset %zu (PCRE2 error %d)", from, n);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
        *start = range[0];
        *end = range[1] < range[0] ? range[0] : range[1];
        return PROPANE_OK;
    }
    if (s->find) {
        const char *at = memmem(data + from, length - from, s->find, s->find_length);
        if (at) {
            *start = (size_t)(at - data);
            *end = *start + s->find_length;
        }
        return PROPANE_OK;
    }
    for (size_t n; from < length; from += n) {
        int32_t code = pretokenize_code_at(data + from, length - from, &n);
        if (s->kind == HF_DIGITS ? pretokenize_is_number(code) : pretokenize_is_punctuation(code)) {
            *start = from;
            *end = from + n;
            return PROPANE_OK;
        }
    }
    return PROPANE_OK;
}

/* Where to look on behind an empty match. */
static size_t pretokenize_step_over(const char *data, size_t length, size_t at) {
    size_t n;
    if (at >= length) return length;
    pretokenize_code_at(data + at, length - at, &n);
    return at + n;
}

/* ---- normalising --------------------------------------------------------------------------------------------------------- */

static bool pretokenize_is_ascii(const char *data, size_t length) {
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++) all |= (unsigned char)data[i];
    return all < 0x80;
}

static void pretokenize_lower(const char *data, size_t length, text *out) {
    char bytes[4];
    for (size_t i = 0, n; i < length; i += n) {
        int32_t code = pretokenize_code_at(data + i, length - i, &n);
        if (code == 0x130)
            text_append(out, "i\xcc\x87"); /* the one capital whose small form is two characters */
        else
            text_append_n(out, bytes, hf_utf8_put(utf8proc_tolower(code), bytes));
    }
}

static propane_status pretokenize_replace(const hf_step *s, const char *data, size_t length, text *out,
                                          propane_error *err) {
    pcre2_match_data *match = s->regex ? pcre2_match_data_create_from_pattern(s->regex, NULL) : NULL;
    if (s->regex && !match) return propane_fail_memory(err, 0);
    propane_status status = PROPANE_OK;
    size_t done = 0, from = 0, start, end;
    while ((status = pretokenize_find(s, match, data, length, from, &start, &end, err)) == PROPANE_OK &&
           start < length) {
        text_append_n(out, data + done, start - done);
        text_append_n(out, s->with, s->with_length);
        done = end;
        from = end > start ? end : pretokenize_step_over(data, length, end);
    }
    if (status == PROPANE_OK) text_append_n(out, data + done, length - done);
    pcre2_match_data_free(match);
    return status;
}

static propane_status pretokenize_compose(hf_kind kind, const char *data, size_t length, text *out,
                                          propane_error *err) {
    static const int options[] = {[HF_NFC] = UTF8PROC_COMPOSE,
                                  [HF_NFD] = UTF8PROC_DECOMPOSE,
                                  [HF_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                  [HF_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t *result = NULL;
    if (pretokenize_is_ascii(data, length)) {
        text_append_n(out, data, length);
        return PROPANE_OK;
    }
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)data, (utf8proc_ssize_t)length, &result,
                                      (utf8proc_option_t)(UTF8PROC_STABLE | options[kind]));
    if (n < 0) {
        free(result);
        return propane_fail(err, n == UTF8PROC_ERROR_NOMEM ? PROPANE_ERR_MEMORY : PROPANE_ERR_LIMIT,
                            "a text of %zu bytes cannot be normalised: %s", length, utf8proc_errmsg(n));
    }
    text_append_n(out, result, (size_t)n);
    free(result); /* utf8proc's own allocation */
    return PROPANE_OK;
}

static void pretokenize_strip(const hf_step *s, const char **data, size_t *length) {
    size_t n;
    while (s->left && *length && hf_is_space(*data, *length, &n)) *data += n, *length -= n;
    while (s->right && *length) {
        size_t last = *length - 1;
        while (last > 0 && ((unsigned char)(*data)[last] & 0xc0) == 0x80) last--;
        if (!hf_is_space(*data + last, *length - last, &n)) return;
        *length = last;
    }
}

propane_status hf_normalize(const hf_step *steps, int count, const char *data, size_t length, text buffers[2],
                            const char **out, size_t *out_length, propane_error *err) {
    for (int i = 0, written = 0; i < count && length > 0; i++) {
        const hf_step *s = &steps[i];
        text *to = &buffers[written & 1]; /* `data` never lies there: each result goes to the other buffer */
        propane_status status = PROPANE_OK;
        if (s->kind == HF_STRIP) {
            pretokenize_strip(s, &data, &length);
            continue;
        }
        text_clear(to);
        if (s->kind == HF_LOWERCASE)
            pretokenize_lower(data, length, to);
        else if (s->kind == HF_REPLACE)
            status = pretokenize_replace(s, data, length, to, err);
        else if (s->kind == HF_PREPEND)
            text_append_n(to, s->with, s->with_length), text_append_n(to, data, length);
        else
            status = pretokenize_compose(s->kind, data, length, to, err);
        if (status == PROPANE_OK && to->failed) status = propane_fail_memory(err, to->capacity);
        PROPANE_TRY(status);
        data = to->length ? to->data : "";
        length = to->length;
        written++;
    }
    *out = data;
    *out_length = length;
    return PROPANE_OK;
}

/* ---- cutting --------------------------------------------------------------------------------------------------------------- */

propane_status hf_cutter_init(hf_cutter *c, const hf_step *steps, int count, hf_sink sink, void *context,
                              propane_error *err) {
    *c = (hf_cutter){.steps = steps, .count = count, .sink = sink, .context = context};
    c->match = pcre2_match_data_create(64, NULL); /* PCRE2's own allocation */
    return c->match ? PROPANE_OK : propane_fail_memory(err, 1024);
}

void hf_cutter_deinit(hf_cutter *c) {
    pcre2_match_data_free(c->match);
    for (int i = 0; i < HF_STEPS_MAX; i++) text_deinit(&c->buffers[i]);
}

static propane_status pretokenize_cut(hf_cutter *c, int level, const char *data, size_t length, bool first,
                                      propane_error *err);

/* The segments of one level, matches and what lies between them, on their way to the next level. */
typedef struct segments {
    hf_cutter *c;
    const hf_step *step;
    int level;
    const char *data;
    bool first;
    bool held, held_match, previous_match; /* a segment that the next one may join */
    size_t start, end;
} segments;

static propane_status pretokenize_pass_on(segments *s, size_t start, size_t end, propane_error *err) {
    return pretokenize_cut(s->c, s->level + 1, s->data + start, end - start, s->first && start == 0, err);
}

static propane_status pretokenize_flush(segments *s, propane_error *err) {
    bool held = s->held;
    s->held = false;
    return held ? pretokenize_pass_on(s, s->start, s->end, err) : PROPANE_OK;
}

static propane_status pretokenize_feed(segments *s, size_t start, size_t end, bool is_match, propane_error *err) {
    if (start == end) return PROPANE_OK;
    if (s->step->invert) is_match = !is_match;
    bool joins = false, previous = s->previous_match;
    s->previous_match = is_match;
    switch (s->step->behaviour) {
    case HF_REMOVED: return is_match ? PROPANE_OK : pretokenize_pass_on(s, start, end, err);
    case HF_ISOLATED: return pretokenize_pass_on(s, start, end, err);
    case HF_WITH_PREVIOUS: joins = is_match && !previous; break;
    case HF_CONTIGUOUS: joins = is_match == previous; break;
    case HF_WITH_NEXT: joins = s->held && s->held_match && !is_match; break;
    }
    if (s->held && joins) {
        s->end = end;
        s->held_match = is_match;
        return s->step->behaviour == HF_WITH_NEXT ? pretokenize_flush(s, err) : PROPANE_OK;
    }
    PROPANE_TRY(pretokenize_flush(s, err));
    s->held = true;
    s->held_match = is_match;
    s->start = start;
    s->end = end;
    return PROPANE_OK;
}

static propane_status pretokenize_cut_by_matches(hf_cutter *c, int level, const char *data, size_t length, bool first,
                                                 propane_error *err) {
    segments s = {.c = c, .step = &c->steps[level], .level = level, .data = data, .first = first};
    size_t done = 0, from = 0, start, end;
    for (;;) {
        PROPANE_TRY(pretokenize_find(s.step, c->match, data, length, from, &start, &end, err));
        if (start >= length) break;
        PROPANE_TRY(pretokenize_feed(&s, done, start, false, err));
        PROPANE_TRY(pretokenize_feed(&s, start, end, true, err));
        done = end;
        from = end > start ? end : pretokenize_step_over(data, length, end);
    }
    PROPANE_TRY(pretokenize_feed(&s, done, length, false, err));
    return pretokenize_flush(&s, err);
}

static bool pretokenize_begins_with(const char *data, size_t length, const char *with, size_t with_length) {
    return length >= with_length && memcmp(data, with, with_length) == 0;
}

static void pretokenize_mark_spaces(const hf_step *s, const char *data, size_t length, bool first, text *out) {
    bool prefix = s->scheme == HF_ALWAYS || (s->scheme == HF_FIRST && first);
    if (prefix && data[0] != ' ' && !pretokenize_begins_with(data, length, s->with, s->with_length))
        text_append_n(out, s->with, s->with_length);
    for (size_t i = 0; i < length;) {
        const char *space = memchr(data + i, ' ', length - i);
        size_t end = space ? (size_t)(space - data) : length;
        text_append_n(out, data + i, end - i);
        if (space) text_append_n(out, s->with, s->with_length);
        i = end + 1;
    }
}

static propane_status pretokenize_cut(hf_cutter *c, int level, const char *data, size_t length, bool first,
                                      propane_error *err) {
    if (length == 0) return PROPANE_OK;
    if (level == c->count) return c->sink(c->context, data, length, err);
    const hf_step *s = &c->steps[level];
    text *buffer = &c->buffers[level];
    if (s->kind == HF_METASPACE || (s->kind == HF_BYTE_LEVEL && s->scheme == HF_ALWAYS && data[0] != ' ')) {
        text_clear(buffer);
        if (s->kind == HF_METASPACE)
            pretokenize_mark_spaces(s, data, length, first, buffer);
        else
            text_append_n(buffer, " ", 1), text_append_n(buffer, data, length);
        if (buffer->failed) return propane_fail_memory(err, buffer->capacity);
        data = buffer->data;
        length = buffer->length;
    }
    bool whole = s->kind == HF_METASPACE ? !s->split : s->kind == HF_BYTE_LEVEL && !s->regex;
    return whole ? pretokenize_cut(c, level + 1, data, length, first, err)
                 : pretokenize_cut_by_matches(c, level, data, length, first, err);
}

propane_status hf_cut(hf_cutter *c, const char *data, size_t length, bool first, propane_error *err) {
    return pretokenize_cut(c, 0, data, length, first, err);
}
