/* SPDX-License-Identifier: MIT
 * Owns reading the steps that tokenizer.json applies to text before the model: normalisers and pre-tokenisers
 * (tokenizer_hf_apply.c runs them). Patterns are written for Oniguruma and translated for PCRE2. Constructs that have a
 * different meaning in PCRE2 are refused.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"

/* ---- characters ---------------------------------------------------------------------------------------------------- */

bool hf_is_space(const char *p, size_t left, size_t *bytes) {
    int32_t code = hf_code_at(p, left, bytes);
    if (code < 0) return false;
    if ((code >= 9 && code <= 13) || code == 0x85) return true;
    int c = hf_category(code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool hf_is_word(const char *p, size_t left, size_t *bytes) {
    int32_t code = hf_code_at(p, left, bytes);
    if (code < 0) return false;
    int c = hf_category(code);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ME) || c == UTF8PROC_CATEGORY_ND ||
           c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d ||
           (code >= 0x24b6 && code <= 0x24e9);
}

bool hf_is_number(int32_t code) {
    int c = code < 0 ? UTF8PROC_CATEGORY_CN : hf_category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool hf_is_punctuation(int32_t code) {
    if (code < 0) return false;
    if (code < 128)
        return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
               (code >= 123 && code <= 126);
    int c = hf_category(code);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

/* The bytes that are not printable, 0 to 32, 127 to 160 and 173, become the characters from 256 up, in order. */
static bool hf_byte_is_shown(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

int hf_byte_to_char(unsigned char byte) {
    if (hf_byte_is_shown(byte)) return byte;
    return 256 + (byte <= 32 ? byte : byte == 173 ? 67 : byte - 127 + 33);
}

int hf_byte_of(const char *key, size_t length) {
    char *end = NULL;
    if (length != 6 || memcmp(key, "<0x", 3) != 0 || key[5] != '>' || strspn(key + 3, "0123456789ABCDEFabcdef") != 2)
        return -1;
    return (int)strtoul(key + 3, &end, 16);
}

int hf_char_to_byte(int32_t code) {
    if (code < 0 || code > 256 + 67) return -1;
    if (code < 256) return hf_byte_is_shown(code) ? code : -1;
    const int hidden = code - 256;
    return hidden <= 32 ? hidden : hidden == 67 ? 173 : hidden - 33 + 127;
}

/* ---- patterns -------------------------------------------------------------------------------------------------------- */

#define SPACES "\\t-\\r\\x20\\x{85}\\p{Z}"
#define WORDS  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"

/* Translates one escape; `at` points to the letter after the backslash. */
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
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: the pattern '%.200s' uses \\%c, which is not supported",
                            source, pattern, c ? c : '?');
    }
    return PROPANE_OK;
}

/* Translates Oniguruma's pattern for PCRE2. */
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
                                "%s: the pattern '%.200s' has '%.3s', which is not supported", source, pattern,
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

/* PCRE2 allocates through Propane, so that running out of memory is reported as such. Its matcher has only the memory
 * that it is given. */
static void *pretokenize_take(size_t bytes, void *context) { return mem_alloc(bytes); }
static void pretokenize_give(void *memory, void *context) { mem_free(memory); }

static pcre2_code *pretokenize_compile_pattern(const text *pattern, int *code) {
    PCRE2_SIZE offset;
    pcre2_general_context *memory = pcre2_general_context_create(pretokenize_take, pretokenize_give, NULL);
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    pcre2_code *out =
        context
            ? pcre2_compile((PCRE2_SPTR)pattern->data, pattern->length,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                            code, &offset, context)
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
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: a pattern of %zu bytes; it must have 1 to 20000", source,
                              translated.length);
    if (status == PROPANE_OK) {
        int code = PCRE2_ERROR_NOMEMORY;
        *out = pretokenize_compile_pattern(&translated, &code);
        if (*out) {
            pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without it, matching is slower but not different */
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
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s '%.60s' is not supported", source, key, value);
}

static propane_status pretokenize_take_text(arena *a, const json_t *object, const char *source, const char *key,
                                            const char **out, size_t *length, propane_error *err) {
    const char *value;
    PROPANE_TRY(json_get_text(object, source, key, true, &value, err));
    *length = strlen(value);
    *out = arena_string(a, value);
    return *out ? PROPANE_OK : propane_fail_memory(err, *length);
}

/* Reads {"String": "x"} or {"Regex": "x"}. */
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

static propane_status pretokenize_read_charsmap(arena *a, const json_t *object, const char *source, hf_step *s,
                                                propane_error *err) {
    const char *base64;
    s->kind = HF_CHARSMAP;
    PROPANE_TRY(json_get_text(object, source, "precompiled_charsmap", true, &base64, err));
    const size_t room = strlen(base64);
    char *bytes = mem_alloc(room + 1);
    if (!bytes) return propane_fail_memory(err, room);
    const int64_t length = text_from_base64(base64, room, bytes, room);
    propane_status status =
        length < 0 ? propane_fail(err, PROPANE_ERR_INVALID, "%s: 'precompiled_charsmap' is not base64", source)
                   : charsmap_read(a, bytes, (size_t)length, source, &s->rules, err);
    mem_free(bytes);
    return status;
}

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
    if (strcmp(type, "StripAccents") == 0) {
        s->kind = HF_STRIP_ACCENTS;
        return PROPANE_OK;
    }
    if (strcmp(type, "Nmt") == 0) {
        s->kind = HF_NMT;
        return PROPANE_OK;
    }
    if (strcmp(type, "Precompiled") == 0) return pretokenize_read_charsmap(a, object, source, s, err);
    return pretokenize_refuse(source, "normalizer", type, err);
}

static propane_status pretokenize_read_metaspace(arena *a, const json_t *object, const char *source, hf_step *s,
                                                 propane_error *err) {
    bool prefix = true;
    const char *scheme = "always";
    s->kind = HF_METASPACE;
    s->split = true;
    PROPANE_TRY(pretokenize_take_text(a, object, source, "replacement", &s->with, &s->with_length, err));
    PROPANE_TRY(json_get_bool(object, source, "add_prefix_space", false, &prefix, err)); /* older files use this key */
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
    if (strcmp(type, "Whitespace") == 0) { /* words and runs of other characters; the text between them is removed */
        s->kind = HF_SPLIT;
        s->invert = true;
        s->behaviour = HF_REMOVED;
        return pretokenize_compile("\\w+|[^\\w\\s]+", source, &s->regex, err);
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        s->kind = HF_WHITESPACE;
        s->behaviour = HF_REMOVED;
        return PROPANE_OK;
    }
    if (strcmp(type, "Punctuation") == 0) {
        s->kind = HF_PUNCTUATION;
        return json_object_get(object, "behavior") ? pretokenize_read_behaviour(object, source, &s->behaviour, err)
                                                   : PROPANE_OK;
    }
    return pretokenize_refuse(source, "pre_tokenizer", type, err);
}

/* Reads a step, or all steps of a Sequence; `list` is the key that holds the parts of a Sequence. */
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
    hf_step *s = &steps[(*count)++]; /* counted first, so that its content is freed with the others */
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
