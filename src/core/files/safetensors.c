/* SPDX-License-Identifier: MIT
 * Owns safetensors files. The reader checks the whole header once, when the file is opened. After that, every tensor is
 * known to be inside the file and to follow the previous one directly.
 */
#include "core/files/safetensors.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/array.h"
#include "core/base/checksum.h"
#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { MAX_HEADER = 100 << 20 }; /* as in the format's own reader */

static const struct {
    const char *name;
    int bytes;
} dtypes[ST_DTYPE_COUNT] = {
    [ST_F64] = {"F64", 8},   [ST_F32] = {"F32", 4},         [ST_F16] = {"F16", 2},         [ST_BF16] = {"BF16", 2},
    [ST_I64] = {"I64", 8},   [ST_I32] = {"I32", 4},         [ST_I16] = {"I16", 2},         [ST_I8] = {"I8", 1},
    [ST_U64] = {"U64", 8},   [ST_U32] = {"U32", 4},         [ST_U16] = {"U16", 2},         [ST_U8] = {"U8", 1},
    [ST_BOOL] = {"BOOL", 1}, [ST_F8_E4M3] = {"F8_E4M3", 1}, [ST_F8_E5M2] = {"F8_E5M2", 1},
};

const char *safetensors_dtype_name(safetensors_dtype dtype) { return dtypes[dtype].name; }

static safetensors_dtype safetensors_dtype_find(const char *name) {
    int i = 0;
    while (i < ST_DTYPE_COUNT && strcmp(dtypes[i].name, name) != 0) i++;
    return (safetensors_dtype)i;
}

struct safetensors {
    arena *arena;
    file_map map;
    const char *source;
    const char *bytes; /* the whole file */
    size_t length;
    json_t *header;
    int count;
    safetensors_tensor *tensors;        /* in file order */
    const safetensors_tensor **by_name; /* sorted */
};

void safetensors_close(safetensors *s) {
    if (!s) return;
    json_decref(s->header);
    file_map_close(&s->map);
    arena_free(s->arena);
    mem_free(s);
}

const char *safetensors_source(const safetensors *s) { return s->source; }
int safetensors_count(const safetensors *s) { return s->count; }
const safetensors_tensor *safetensors_at(const safetensors *s, int index) { return &s->tensors[index]; }

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

/* A name quoted for a message, because hostile names may be long or contain control bytes. */
typedef struct quoted {
    char text[80];
} quoted;
static quoted safetensors_quote(const char *name) {
    quoted q;
    text_quote(q.text, name, strlen(name));
    return q;
}

static propane_status safetensors_read_shape(const safetensors *s, const json_t *shape, safetensors_tensor *t,
                                             propane_error *err) {
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_RANK)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor '%s': 'shape' must be a list of at most %d sizes",
                            s->source, safetensors_quote(t->name).text, SAFETENSORS_MAX_RANK);
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);
        int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;
        if (n < 0 || (n > 0 && t->count > ((int64_t)1 << 56) / n))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: tensor '%s': size %d of 'shape' is not an integer or is too large", s->source,
                                safetensors_quote(t->name).text, i);
        t->dim[i] = n;
        t->count *= n;
    }
    return PROPANE_OK;
}

static propane_status safetensors_read_tensor(const safetensors *s, const json_t *entry, const uint8_t *data,
                                              uint64_t data_bytes, safetensors_tensor *t, propane_error *err) {
    quoted name = safetensors_quote(t->name);
    if (!json_is_object(entry))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor '%s': its header entry must be an object", s->source,
                            name.text);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    t->dtype = safetensors_dtype_find(dtype ? dtype : "");
    if (t->dtype == ST_DTYPE_COUNT)
        return propane_fail(err, dtype ? PROPANE_ERR_UNSUPPORTED : PROPANE_ERR_INVALID,
                            "%s: tensor '%s': unknown dtype '%.20s'", s->source, name.text, dtype ? dtype : "");
    PROPANE_TRY(safetensors_read_shape(s, json_object_get(entry, "shape"), t, err));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor '%s': 'data_offsets' must be two integers", s->source,
                            name.text);
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || end < begin || (uint64_t)end > data_bytes)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: tensor '%s': data_offsets %lld to %lld are outside the data, which has %llu bytes; "
                            "the file is truncated or damaged",
                            s->source, name.text, (long long)begin, (long long)end, (unsigned long long)data_bytes);
    t->bytes = (uint64_t)(end - begin);
    if ((uint64_t)t->count * (uint64_t)dtypes[t->dtype].bytes != t->bytes)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: tensor '%s' at data offset %lld: %lld elements of %s need %lld bytes, but it has %llu",
                            s->source, name.text, (long long)begin, (long long)t->count, dtype,
                            (long long)t->count * dtypes[t->dtype].bytes, (unsigned long long)t->bytes);
    t->data = data + begin;
    return PROPANE_OK;
}

static int safetensors_compare_place(const void *a, const void *b) {
    const safetensors_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* empty ones first */
    return strcmp(x->name, y->name);
}

static int safetensors_compare_name(const void *a, const void *b) {
    return strcmp((*(const safetensors_tensor *const *)a)->name, (*(const safetensors_tensor *const *)b)->name);
}

/* Checks that the tensors cover the data exactly, one after the other. */
static propane_status safetensors_check_cover(const safetensors *s, const uint8_t *data, uint64_t data_bytes,
                                              propane_error *err) {
    uint64_t at = 0;
    for (int i = 0; i < s->count; i++) {
        const safetensors_tensor *t = &s->tensors[i];
        uint64_t begin = (uint64_t)(t->data - data);
        if (begin != at)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor '%s' begins at data offset %llu, but %s %llu",
                                s->source, safetensors_quote(t->name).text, (unsigned long long)begin,
                                begin < at ? "overlaps the tensor before it, which ends at"
                                           : "leaves a gap after the tensor before it, which ends at",
                                (unsigned long long)at);
        at = begin + t->bytes;
    }
    if (at != data_bytes)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %llu bytes after the last tensor, at data offset %llu",
                            s->source, (unsigned long long)(data_bytes - at), (unsigned long long)at);
    return PROPANE_OK;
}

static propane_status safetensors_check_metadata(const safetensors *s, const json_t *metadata, propane_error *err) {
    if (metadata && !json_is_object(metadata))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '__metadata__' must be an object of strings", s->source);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: '__metadata__': the value of '%s' must be a string",
                                s->source, safetensors_quote(key).text);
    }
    return PROPANE_OK;
}

static propane_status safetensors_read_all(safetensors *s, const uint8_t *bytes, size_t length, propane_error *err) {
    if (length < 8)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: %zu bytes are too few for a safetensors file, which begins with an 8-byte header length", s->source,
            length);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | bytes[i];
    if (header > MAX_HEADER)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: not a safetensors file: its header would have %llu bytes, but at most %d are allowed%s", s->source,
            (unsigned long long)header, MAX_HEADER, file_disguise(bytes, length));
    if (header > length - 8)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: offset 0: a header of %llu bytes, but only %zu bytes follow; it is "
                            "truncated or not a safetensors file",
                            s->source, (unsigned long long)header, length - 8);
    if (header == 0 || bytes[8] != '{')
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: offset 8: the header must begin with '{'", s->source);
    PROPANE_TRY(json_parse((const char *)bytes + 8, (size_t)header, s->source, &s->header, err));
    size_t entries = json_object_size(s->header);
    s->tensors = ARENA_ARRAY(s->arena, entries + 1, safetensors_tensor);
    s->by_name = ARENA_ARRAY(s->arena, entries + 1, const safetensors_tensor *);
    if (!s->tensors || !s->by_name) return propane_fail_memory(err, entries * sizeof *s->tensors);
    const uint8_t *data = bytes + 8 + header;
    uint64_t data_bytes = length - 8 - header;
    PROPANE_TRY(safetensors_check_metadata(s, json_object_get(s->header, "__metadata__"), err));
    const char *name;
    json_t *entry;
    json_object_foreach(s->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        safetensors_tensor *t = &s->tensors[s->count++];
        t->name = name;
        PROPANE_TRY(safetensors_read_tensor(s, entry, data, data_bytes, t, err));
    }
    if (s->count > 1) qsort(s->tensors, (size_t)s->count, sizeof *s->tensors, safetensors_compare_place);
    for (int i = 0; i < s->count; i++) s->by_name[i] = &s->tensors[i];
    if (s->count > 1) qsort(s->by_name, (size_t)s->count, sizeof *s->by_name, safetensors_compare_name);
    return safetensors_check_cover(s, data, data_bytes, err);
}

static propane_status safetensors_create(const char *source, safetensors **out, propane_error *err) {
    safetensors *s = mem_alloc(sizeof *s);
    *out = s;
    if (!s) return propane_fail_memory(err, sizeof *s);
    s->arena = arena_create();
    if (s->arena) s->source = arena_string(s->arena, source);
    return s->source ? PROPANE_OK : propane_fail_memory(err, strlen(source));
}

propane_status safetensors_parse(const void *data, size_t length, const char *source, safetensors **out,
                                 propane_error *err) {
    propane_status status = safetensors_create(source, out, err);
    if (!status) {
        (*out)->bytes = data;
        (*out)->length = length;
        status = safetensors_read_all(*out, data, length, err);
    }
    if (!status) return PROPANE_OK;
    safetensors_close(*out);
    *out = NULL;
    return status;
}

propane_status safetensors_open(const char *path, safetensors **out, propane_error *err) {
    file_map map;
    *out = NULL;
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = safetensors_parse(map.data, map.bytes, path, out, err);
    if (status)
        file_map_close(&map);
    else
        (*out)->map = map;
    return status;
}

const safetensors_tensor *safetensors_find(const safetensors *s, const char *name) {
    safetensors_tensor key = {.name = name};
    const safetensors_tensor *wanted = &key;
    if (s->count == 0) return NULL;
    const safetensors_tensor **hit =
        bsearch(&wanted, s->by_name, (size_t)s->count, sizeof *s->by_name, safetensors_compare_name);
    return hit ? *hit : NULL;
}

const char *safetensors_metadata(const safetensors *s, const char *key) {
    return json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), key));
}

static const char *safetensors_print_shape(text *t, int rank, const int64_t *dim) {
    text_append(t, "[");
    for (int i = 0; i < rank; i++) text_printf(t, "%s%lld", i ? ", " : "", (long long)dim[i]);
    text_append(t, "]");
    return t->failed ? "[...]" : t->data;
}

propane_status safetensors_expect(const safetensors *s, const char *name, safetensors_dtype dtype, int rank,
                                  const int64_t *dim, const safetensors_tensor **out, propane_error *err) {
    const safetensors_tensor *t = *out = safetensors_find(s, name);
    if (!t) return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no tensor '%s'", s->source, name);
    if (t->dtype != dtype)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor '%s' is %s; it must be %s", s->source, name,
                            dtypes[t->dtype].name, dtypes[dtype].name);
    bool same = rank < 0 || rank == t->rank;
    for (int i = 0; same && i < rank; i++) same = dim[i] == t->dim[i];
    if (same) return PROPANE_OK;
    text is = {0}, want = {0};
    propane_status status =
        propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor '%s' has the shape %s; it must be %s", s->source, name,
                     safetensors_print_shape(&is, t->rank, t->dim), safetensors_print_shape(&want, rank, dim));
    text_deinit(&is);
    text_deinit(&want);
    return status;
}

enum { PIECE = 1024 };

propane_status safetensors_f32(const safetensors *s, const safetensors_tensor *t, float *out, propane_error *err) {
    switch (t->dtype) {
    case ST_F32:
        if (t->bytes) memcpy(out, t->data, t->bytes);
        return PROPANE_OK;
    case ST_F16:
    case ST_BF16:
        for (int64_t at = 0; at < t->count; at += PIECE) { /* data may be unaligned */
            uint16_t narrow[PIECE];
            size_t n = (size_t)(t->count - at < PIECE ? t->count - at : PIECE);
            memcpy(narrow, t->data + 2 * at, 2 * n);
            (t->dtype == ST_F16 ? fp16_to_f32_array : bf16_to_f32_array)(out + at, narrow, n);
        }
        return PROPANE_OK;
    case ST_F64:
        for (int64_t i = 0; i < t->count; i++) {
            double d;
            memcpy(&d, t->data + 8 * i, 8);
            out[i] = (float)d;
        }
        return PROPANE_OK;
    default:
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: tensor '%s' is %s; weights must be F32, F16, BF16 or F64", s->source,
                            safetensors_quote(t->name).text, dtypes[t->dtype].name);
    }
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

struct safetensors_writer {
    file_writer *file;
    json_t *header, *metadata;
    uint64_t *ends;             /* end offset of each tensor in the data */
    int count, at;              /* number of tensors; index of the one being written */
    uint64_t declared, written; /* bytes of data */
    bool begun;
    uint64_t sums_at; /* where the digits of the checksums are in the file */
    checksum sum;     /* of the header with zeros for these digits, then of the tensor being written */
    char *sums;       /* the digits: the header's, then each tensor's */
};

/* The key, and the key in files up to version 0.1, which have a single checksum of the whole file with zeros for its
 * digits. */
static const char sums_key[] = "checksums", old_key[] = "checksum";
enum { SUM_DIGITS = 16 };

static void safetensors_writer_free(safetensors_writer *w) {
    if (!w) return;
    json_decref(w->header);
    json_decref(w->metadata);
    mem_free(w->ends);
    mem_free(w->sums);
    mem_free(w);
}

void safetensors_writer_abort(safetensors_writer *w) {
    if (!w) return;
    file_writer_abort(w->file);
    safetensors_writer_free(w);
}

propane_status safetensors_writer_open(const char *path, safetensors_writer **out, propane_error *err) {
    safetensors_writer *w = mem_alloc(sizeof *w);
    *out = NULL;
    if (!w) return propane_fail_memory(err, sizeof *w);
    w->header = json_object();
    w->metadata = json_object();
    propane_status status =
        w->header && w->metadata ? file_writer_open(path, &w->file, err) : propane_fail_memory(err, sizeof(json_t));
    if (status)
        safetensors_writer_free(w);
    else
        *out = w;
    return status;
}

propane_status safetensors_writer_metadata(safetensors_writer *w, const char *key, const char *value,
                                           propane_error *err) {
    json_t *string = json_string(value);
    if (!string) return propane_fail(err, PROPANE_ERR_INVALID, "the metadata value of '%s' is not valid UTF-8", key);
    return json_object_set_new(w->metadata, key, string) ? propane_fail_memory(err, strlen(key)) : PROPANE_OK;
}

/* Returns the position of the digits in the header's text. A quoted key cannot occur unescaped inside another
 * string. */
static const char *safetensors_find_sums(const char *header, size_t length, const char *key, const char *digits) {
    const size_t k = strlen(key), n = strlen(digits), all = k + n + 5;
    for (size_t i = 0; i + all <= length; i++)
        if (header[i] == '"' && memcmp(header + i + 1, key, k) == 0 && memcmp(header + i + 1 + k, "\":\"", 3) == 0 &&
            memcmp(header + i + k + 4, digits, n) == 0 && header[i + k + 4 + n] == '"')
            return header + i + k + 4;
    return NULL;
}

/* Computes the checksum of `length` bytes, with zeros for `digits` of them at `at`. */
static void safetensors_sum_around(const char *all, size_t length, const char *at, size_t digits, char out[17]) {
    static const char zeros[] = "0000000000000000";
    checksum sum;
    checksum_init(&sum);
    checksum_update(&sum, all, (size_t)(at - all));
    for (size_t i = 0; i < digits; i += SUM_DIGITS) checksum_update(&sum, zeros, SUM_DIGITS);
    checksum_update(&sum, at + digits, length - (size_t)(at + digits - all));
    checksum_final(&sum, out);
}

static propane_status safetensors_compare_sum(const safetensors *s, const safetensors_tensor *t, const char *found,
                                              const char *stored, propane_error *err) {
    PROPANE_TRY(file_map_check(err));
    if (strncmp(found, stored, SUM_DIGITS) == 0) return PROPANE_OK;
    char whose[120] = "its";
    if (t) snprintf(whose, sizeof whose, "tensor '%s': its", safetensors_quote(t->name).text);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: %s checksum is %s instead of the stored %.16s: the file is damaged", s->source, whose,
                        found, stored);
}

/* Verifies the checksum of the header with all digits zero, or in the old form of the whole file. */
static propane_status safetensors_verify_header(const safetensors *s, const char *key, const char *stored, size_t bytes,
                                                propane_error *err) {
    const char *at = safetensors_find_sums(s->bytes, bytes, key, stored);
    char found[17] = "";
    if (at) safetensors_sum_around(s->bytes, bytes, at, strlen(stored), found);
    return safetensors_compare_sum(s, NULL, found, stored, err);
}

static atomic_bool verify_models = true;
void safetensors_verify_models(bool verify) { verify_models = verify; }

propane_status safetensors_verify_model(const safetensors *s, propane_error *err) {
    return verify_models ? safetensors_verify(s, err) : PROPANE_OK;
}

propane_status safetensors_verify(const safetensors *s, propane_error *err) {
    const char *stored = safetensors_metadata(s, sums_key), *old = safetensors_metadata(s, old_key);
    if (!stored) return old ? safetensors_verify_header(s, old_key, old, s->length, err) : PROPANE_OK;
    const size_t data = s->count ? (size_t)((const char *)s->tensors[0].data - s->bytes) : s->length;
    if (strlen(stored) != (size_t)SUM_DIGITS * ((size_t)s->count + 1))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it has %d tensors, but %zu digits of checksums: the file is damaged", s->source,
                            s->count, strlen(stored));
    PROPANE_TRY(safetensors_verify_header(s, sums_key, stored, data, err));
    for (int i = 0; i < s->count; i++) {
        const safetensors_tensor *t = &s->tensors[i];
        char found[17];
        checksum sum;
        checksum_init(&sum);
        checksum_update(&sum, t->data, (size_t)t->bytes);
        checksum_final(&sum, found);
        PROPANE_TRY(safetensors_compare_sum(s, t, found, stored + (size_t)SUM_DIGITS * ((size_t)i + 1), err));
    }
    return PROPANE_OK;
}

propane_status safetensors_writer_declare(safetensors_writer *w, const char *name, safetensors_dtype dtype, int rank,
                                          const int64_t *dim, propane_error *err) {
    if (w->begun || json_object_get(w->header, name))
        return propane_fail(err, PROPANE_ERR_INVALID, "tensor '%s' is declared %s", name,
                            w->begun ? "after the first data" : "twice");
    uint64_t *ends = ARRAY_MORE(w->ends, w->count, err);
    if (!ends) return PROPANE_ERR_MEMORY;
    w->ends = ends;
    json_t *shape = json_array();
    uint64_t bytes = (uint64_t)dtypes[dtype].bytes;
    for (int i = 0; i < rank; i++) {
        json_add(shape, json_integer(dim[i]));
        bytes *= (uint64_t)dim[i];
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtypes[dtype].name, "shape", shape, "data_offsets",
                              (json_int_t)w->declared, (json_int_t)(w->declared + bytes));
    const bool failed = !entry || json_object_set_new(w->header, name, entry) != 0 || mem_failed(NULL);
    w->declared += bytes;
    if (failed) return propane_fail(err, PROPANE_ERR_INVALID, "the name of tensor '%s' is not valid UTF-8", name);
    w->ends[w->count++] = w->declared;
    return PROPANE_OK;
}

/* Writes data and adds it to the checksum. */
static propane_status safetensors_put(safetensors_writer *w, const void *data, size_t bytes, propane_error *err) {
    checksum_update(&w->sum, data, bytes);
    return file_writer_write(w->file, data, bytes, err);
}

/* Stores the checksum of what was written since the last one. The header's is number 0. */
static void safetensors_end_sum(safetensors_writer *w, int number) {
    char digits[17];
    checksum_final(&w->sum, digits);
    memcpy(w->sums + (size_t)SUM_DIGITS * (size_t)number, digits, SUM_DIGITS);
    checksum_init(&w->sum);
}

/* Writes the header, padded with spaces so that the data begins at a multiple of 64. */
static propane_status safetensors_write_header(safetensors_writer *w, propane_error *err) {
    w->begun = true;
    char *dump;
    size_t length;
    const size_t all = (size_t)SUM_DIGITS * ((size_t)w->count + 1);
    w->sums = mem_array(all + 1, 1);
    if (!w->sums) return propane_fail_memory(err, all + 1);
    memset(w->sums, '0', all);
    w->sums[all] = 0;
    PROPANE_TRY(safetensors_writer_metadata(w, sums_key, w->sums, err));
    json_put(w->header, "__metadata__", json_incref(w->metadata));
    PROPANE_TRY(json_print_checked(w->header, JSON_COMPACT, &dump, &length, err));
    size_t padded = (length + 8 + 63) / 64 * 64 - 8;
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    static const char spaces[65] = "                                                                ";
    checksum_init(&w->sum);
    w->sums_at = 8 + (uint64_t)(safetensors_find_sums(dump, length, sums_key, w->sums) - dump);
    propane_status status = safetensors_put(w, prefix, 8, err);
    if (!status) status = safetensors_put(w, dump, length, err);
    if (!status) status = safetensors_put(w, spaces, padded - length, err);
    if (!status) safetensors_end_sum(w, 0);
    mem_free(dump);
    return status;
}

/* Moves on to the next tensor once one is complete. */
static void safetensors_end_tensors(safetensors_writer *w) {
    for (; w->at < w->count && w->ends[w->at] == w->written; w->at++) safetensors_end_sum(w, w->at + 1);
}

propane_status safetensors_writer_data(safetensors_writer *w, const void *data, size_t bytes, propane_error *err) {
    if (!w->begun) PROPANE_TRY(safetensors_write_header(w, err));
    if (bytes > w->declared - w->written)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%zu bytes of tensor data were given, but only %llu are left to write", bytes,
                            (unsigned long long)(w->declared - w->written));
    for (const uint8_t *from = data; bytes;) {
        safetensors_end_tensors(w); /* ends empty tensors */
        const uint64_t left = w->ends[w->at] - w->written;
        const size_t piece = bytes < left ? bytes : (size_t)left;
        PROPANE_TRY(safetensors_put(w, from, piece, err));
        w->written += piece;
        from += piece;
        bytes -= piece;
        safetensors_end_tensors(w);
    }
    return PROPANE_OK;
}

static propane_status safetensors_write_sums(safetensors_writer *w, propane_error *err) {
    safetensors_end_tensors(w);
    PROPANE_TRY(file_writer_seek(w->file, w->sums_at, err));
    return file_writer_write(w->file, w->sums, (size_t)SUM_DIGITS * ((size_t)w->count + 1), err);
}

propane_status safetensors_writer_commit(safetensors_writer *w, propane_error *err) {
    propane_status status = w->begun ? PROPANE_OK : safetensors_write_header(w, err);
    if (!status && w->written != w->declared)
        status = propane_fail(err, PROPANE_ERR_INVALID, "%llu bytes of tensor data were declared, but %llu were given",
                              (unsigned long long)w->declared, (unsigned long long)w->written);
    if (!status) status = safetensors_write_sums(w, err);
    if (status)
        file_writer_abort(w->file);
    else
        status = file_writer_commit(w->file, err);
    safetensors_writer_free(w);
    return status;
}
