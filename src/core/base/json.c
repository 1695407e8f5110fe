/* SPDX-License-Identifier: MIT
 * Owns the bridge to jansson. A message about a value contains the source, the key and what was expected. jansson does
 * not report every failure: when it prints, it drops a key for which memory ran out. So a failed request
 * (core/base/json_memory.h) turns the next print into an error.
 */
#include "core/base/json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json_memory.h"
#include "core/base/memory.h"
#include "core/base/text.h"

/* Copies the text with ".0" after each integer of more than 18 digits, so that jansson reads the number as a real.
 * Python tools write 1000000000000000019884624838656 to mean "no limit". */
static void json_widen_numbers(const char *data, size_t length, text *out) {
    enum { SURE = 18 }; /* this many digits always fit into 64 bits */
    bool inside = false;
    size_t copied = 0;
    for (size_t i = 0; i < length; i++) {
        if (data[i] == '\\' && inside) {
            i++;
        } else if (data[i] == '"') {
            inside = !inside;
        } else if (!inside && isdigit((unsigned char)data[i])) {
            size_t end = i;
            while (end < length && isdigit((unsigned char)data[end])) end++;
            bool whole = end == length || !strchr(".eE", data[end]), fraction = i > 0 && strchr(".eE+", data[i - 1]);
            if (end - i > SURE && whole && !fraction) {
                text_append_n(out, data + copied, end - copied);
                text_append(out, ".0");
                copied = end;
            }
            while (end < length && (isalnum((unsigned char)data[end]) || strchr(".+-", data[end]))) end++;
            i = end - 1;
        }
    }
    if (copied < length) text_append_n(out, data + copied, length - copied);
}

static json_t *json_load_with(const char *data, size_t length, size_t flags, json_error_t *e) {
    if (length >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) data += 3, length -= 3;
    json_t *v = json_memory_load(length ? data : "", length, flags, e);
    if (v || json_error_code(e) != json_error_numeric_overflow) return v;
    text wide = {0};
    json_widen_numbers(data, length, &wide);
    if (!wide.failed && wide.length) v = json_memory_load(wide.data, wide.length, flags, e);
    text_deinit(&wide);
    return v;
}

json_t *json_load(const char *data, size_t length, json_error_t *e) {
    return json_load_with(data, length, JSON_REJECT_DUPLICATES, e);
}

static propane_status json_parse_with(const char *data, size_t length, size_t flags, const char *source, json_t **out,
                                      propane_error *err) {
    json_error_t e;
    *out = json_load_with(data, length, JSON_REJECT_DUPLICATES | flags, &e);
    if (*out) return PROPANE_OK;
    if (json_error_code(&e) == json_error_out_of_memory) return propane_fail_memory(err, 0);
    if (*file_disguise(data, length))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not JSON%s", source, file_disguise(data, length));
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: line %d, column %d: not valid JSON: %s", source, e.line,
                        e.column, e.text);
}

propane_status json_parse(const char *data, size_t length, const char *source, json_t **out, propane_error *err) {
    return json_parse_with(data, length, 0, source, out, err);
}

propane_status json_parse_nul(const char *data, size_t length, const char *source, json_t **out, propane_error *err) {
    return json_parse_with(data, length, JSON_ALLOW_NUL, source, out, err);
}

propane_status json_read(const char *path, size_t limit, json_t **out, propane_error *err) {
    char *data;
    size_t length;
    *out = NULL;
    PROPANE_TRY(file_read(path, limit, &data, &length, err));
    propane_status status = json_parse(data, length, path, out, err);
    mem_free(data);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

void json_put(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value ? value : json_null());
}

void json_add(json_t *list, json_t *value) { (void)json_array_append_new(list, value ? value : json_null()); }

/* Returns the length in bytes of the UTF-8 character at `at`, or 0 if the bytes are not valid UTF-8. */
static size_t json_character(const char *at, size_t left) {
    for (size_t n = 1; n <= 4 && n <= left; n++) {
        json_t *one = *at ? json_stringn(at, n) : NULL;
        json_decref(one);
        if (one) return n;
    }
    return 0;
}

json_t *json_bytes(const char *bytes, size_t length) {
    json_t *whole = bytes && !memchr(bytes, 0, length) ? json_stringn(bytes, length) : NULL;
    if (whole || !bytes) return whole;
    text mended = {0};
    for (size_t i = 0, n; i < length; i += n ? n : 1) {
        n = json_character(bytes + i, length - i);
        text_append_n(&mended, n ? bytes + i : "\xef\xbf\xbd", n ? n : 3);
    }
    if (!mended.failed) whole = json_stringn(mended.data ? mended.data : "", mended.length);
    text_deinit(&mended);
    return whole;
}

json_t *json_words(const char *string) { return string ? json_bytes(string, strlen(string)) : NULL; }

/* Prints the fewest digits that read back as the same number: 1e-5 instead of jansson's 1.0000000000000001e-5. */
static size_t json_shortest(double value, char out[40]) {
    snprintf(out, 40, "%.*g", text_digits(value), value);
    text_point(out);
    char *power = strchr(out, 'e');
    if (!power && !strchr(out, '.')) strcat(out, ".0");
    if (power) { /* remove "+" and leading zeros from the exponent */
        char *from = power + 1, *to = power + 1;
        if (*from == '-') to++, from++;
        from += strspn(from, "+0");
        memmove(to, from, strlen(from) + 1);
    }
    return strlen(out);
}

/* Shortens all reals in place; none of them becomes longer. Returns the new length. */
static size_t json_shorten(char *line, size_t bytes) {
    size_t to = 0;
    bool quoted = false;
    for (size_t at = 0; at < bytes;) {
        const size_t n = quoted ? 0 : strspn(line + at, "-+.eE0123456789");
        char shown[40];
        if (n == 0 || line[at] == 'e' || line[at] == 'E') {
            if (line[at] == '"') quoted = !quoted;
            if (quoted && line[at] == '\\') line[to++] = line[at++];
            line[to++] = line[at++];
            continue;
        }
        const bool real = strcspn(line + at, ".eE") < n;
        const size_t shorter = real ? json_shortest(text_strtod(line + at, NULL), shown) : n;
        const bool take = real && shorter < n;
        memmove(line + to, take ? shown : line + at, take ? shorter : n);
        to += take ? shorter : n;
        at += n;
    }
    line[to] = 0;
    return to;
}

static int json_take(const char *piece, size_t length, void *to) {
    text_append_n(to, piece, length);
    return ((text *)to)->failed ? -1 : 0;
}

propane_status json_print(const json_t *value, size_t flags, char **out, size_t *length, propane_error *err) {
    text line = {0};
    *out = NULL;
    const int failed = value && !mem_failed(NULL) ? json_dump_callback(value, json_take, &line, flags) : -1;
    if (failed || line.failed || mem_failed(NULL)) {
        const bool memory = line.failed || mem_failed(NULL);
        text_deinit(&line);
        return memory ? propane_fail_memory(err, 0)
                      : propane_fail(err, PROPANE_ERR_INVALID, "cannot write a value that JSON cannot represent");
    }
    const size_t shorter = flags & JSON_REAL_PRECISION(31) ? line.length : json_shorten(line.data, line.length);
    if (length) *length = shorter;
    *out = line.data;
    return PROPANE_OK;
}

propane_status json_print_checked(const json_t *value, size_t flags, char **out, size_t *length, propane_error *err) {
    size_t bytes;
    PROPANE_TRY(json_print(value, flags, out, &bytes, err));
    json_t *again = NULL;
    propane_status status = json_parse(*out, bytes, "what was printed", &again, err);
    if (!status && json_is_object(value) && json_object_size(again) != json_object_size(value))
        status = propane_fail_memory(err, 0);
    json_decref(again);
    if (length) *length = bytes;
    if (!status) return PROPANE_OK;
    mem_free(*out);
    *out = NULL;
    return status;
}

propane_status json_write(const char *path, const json_t *value, size_t flags, propane_error *err) {
    char *line;
    size_t bytes;
    PROPANE_TRY(json_print_checked(value, flags, &line, &bytes, err));
    propane_status status = file_write(path, line, bytes, err);
    mem_free(line);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const char *json_kind_name(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return fabs(json_real_value(v)) < 0x1p63 ? "a number with a fraction" : "a number beyond 64 bits";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

/* Finds the value of a key. *out is NULL if the key is missing and not required. */
static propane_status json_find(const json_t *object, const char *source, const char *key, bool required,
                                const char *wanted, const json_t **out, propane_error *err) {
    *out = NULL;
    if (!json_is_object(object))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: it must be an object with the key '%s', but is %s", source,
                            key, object ? json_kind_name(object) : "nothing");
    const json_t *v = json_object_get(object, key);
    if (json_is_null(v)) v = NULL;
    *out = v;
    if (!v && required)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: key '%s' is missing; it must be %s", source, key, wanted);
    return PROPANE_OK;
}

static propane_status json_wrong_kind(const json_t *v, const char *source, const char *key, const char *wanted,
                                      propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: key '%s' must be %s, but is %s", source, key, wanted,
                        json_kind_name(v));
}

propane_status json_get_int(const json_t *object, const char *source, const char *key, bool required, int64_t min,
                            int64_t max, int64_t *out, propane_error *err) {
    const json_t *v;
    PROPANE_TRY(json_find(object, source, key, required, "an integer", &v, err));
    if (!v) return PROPANE_OK;
    if (!json_is_integer(v)) return json_wrong_kind(v, source, key, "an integer", err);
    int64_t n = json_integer_value(v);
    if (n < min || n > max)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: key '%s' is %lld; it must be from %lld to %lld", source, key,
                            (long long)n, (long long)min, (long long)max);
    *out = n;
    return PROPANE_OK;
}

propane_status json_get_real(const json_t *object, const char *source, const char *key, bool required, double *out,
                             propane_error *err) {
    const json_t *v;
    PROPANE_TRY(json_find(object, source, key, required, "a number", &v, err));
    if (!v) return PROPANE_OK;
    if (!json_is_number(v)) return json_wrong_kind(v, source, key, "a number", err);
    *out = json_number_value(v);
    return PROPANE_OK;
}

propane_status json_get_bool(const json_t *object, const char *source, const char *key, bool required, bool *out,
                             propane_error *err) {
    const json_t *v;
    PROPANE_TRY(json_find(object, source, key, required, "true or false", &v, err));
    if (!v) return PROPANE_OK;
    if (!json_is_boolean(v)) return json_wrong_kind(v, source, key, "true or false", err);
    *out = json_is_true(v);
    return PROPANE_OK;
}

propane_status json_get_text(const json_t *object, const char *source, const char *key, bool required, const char **out,
                             propane_error *err) {
    const json_t *v;
    PROPANE_TRY(json_find(object, source, key, required, "a string", &v, err));
    if (!v) return PROPANE_OK;
    if (!json_is_string(v)) return json_wrong_kind(v, source, key, "a string", err);
    *out = json_string_value(v);
    return PROPANE_OK;
}
