/* SPDX-License-Identifier: MIT
 * Owns the container format: reading and checking a GGUF file's header, finding keys and tensors, and building a
 * header. Nothing in the file is trusted: a loop over a count also ends where the bytes end.
 */
#include "lm/files/gguf.h"

#include <math.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_internal.h"

enum { ALIGNMENT = 32 };

struct gguf {
    arena *arena;
    file_map map; /* `map.data` is NULL if the caller owns the memory */
    const char *source;
    const uint8_t *data;
    uint64_t length, at, alignment;
    gguf_value *values;
    gguf_tensor *tensors;
    int value_count, tensor_count;
    piece_map by_key, by_name;
};

static const uint8_t value_bytes[GGUF_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const char *const value_names[GGUF_VALUE_TYPES] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                          "bool", "string", "array", "u64", "i64", "f64"};

static uint64_t gguf_load(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

static propane_status gguf_need(const gguf *g, uint64_t bytes, const char *what, propane_error *err) {
    if (bytes <= g->length - g->at) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s: offset %llu: %s needs %llu bytes, but only %llu are left; the file is truncated or damaged", g->source,
        (unsigned long long)g->at, what, (unsigned long long)bytes, (unsigned long long)(g->length - g->at));
}

static propane_status gguf_take(gguf *g, int bytes, const char *what, uint64_t *out, propane_error *err) {
    PROPANE_TRY(gguf_need(g, (uint64_t)bytes, what, err));
    *out = gguf_load(g->data + g->at, bytes);
    g->at += (uint64_t)bytes;
    return PROPANE_OK;
}

/* Reads a name: 1 to 65535 bytes without zeros. */
static propane_status gguf_take_name(gguf *g, const char *what, const char **out, propane_error *err) {
    uint64_t length;
    PROPANE_TRY(gguf_take(g, 8, what, &length, err));
    PROPANE_TRY(gguf_need(g, length, what, err));
    const char *name = (const char *)g->data + g->at;
    if (length == 0 || length > 65535 || memchr(name, 0, (size_t)length))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: offset %llu: %s must have 1 to 65535 nonzero bytes, not %llu", g->source,
                            (unsigned long long)g->at, what, (unsigned long long)length);
    *out = arena_string_n(g->arena, name, (size_t)length);
    if (!*out) return propane_fail_memory(err, (size_t)length);
    g->at += length;
    return PROPANE_OK;
}

static propane_status gguf_take_items(gguf *g, gguf_value *v, propane_error *err) {
    uint64_t begin = g->at, length;
    v->data = g->data + g->at;
    if (v->item != GGUF_TEXT) {
        if (v->count > UINT64_MAX / 8) return gguf_need(g, UINT64_MAX, v->key, err);
        PROPANE_TRY(gguf_need(g, v->count * value_bytes[v->item], v->key, err));
        g->at += v->count * value_bytes[v->item];
    }
    for (uint64_t i = 0; v->item == GGUF_TEXT && i < v->count;
         i++) { /* ends with the file at the latest: each round reads 8 bytes */
        PROPANE_TRY(gguf_take(g, 8, v->key, &length, err));
        PROPANE_TRY(gguf_need(g, length, v->key, err));
        g->at += length;
    }
    v->bytes = g->at - begin;
    return PROPANE_OK;
}

static propane_status gguf_take_value(gguf *g, gguf_value *v, propane_error *err) {
    uint64_t type, item = 0;
    PROPANE_TRY(gguf_take_name(g, "a key", &v->key, err));
    PROPANE_TRY(gguf_take(g, 4, v->key, &type, err));
    v->count = 1;
    if (type == GGUF_ARRAY) {
        PROPANE_TRY(gguf_take(g, 4, v->key, &item, err));
        PROPANE_TRY(gguf_take(g, 8, v->key, &v->count, err));
    } else if (type == GGUF_TEXT) {
        PROPANE_TRY(gguf_take(g, 8, v->key, &v->count, err));
        item = GGUF_U8;
    } else
        item = type;
    if (type >= GGUF_VALUE_TYPES || item >= GGUF_VALUE_TYPES || item == GGUF_ARRAY)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: key '%.80s' has the unsupported type %llu, items %llu; it must be a number, a string "
                            "or an array of them",
                            g->source, v->key, (unsigned long long)type, (unsigned long long)item);
    v->type = (gguf_value_type)type;
    v->item = (gguf_value_type)item;
    return gguf_take_items(g, v, err);
}

static propane_status gguf_take_tensor(gguf *g, gguf_tensor *t, uint64_t *offset, propane_error *err) {
    uint64_t rank, dim, type;
    PROPANE_TRY(gguf_take_name(g, "a tensor's name", &t->name, err));
    PROPANE_TRY(gguf_take(g, 4, t->name, &rank, err));
    if (rank > GGUF_MAX_RANK)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor %.80s has %llu dimensions; the maximum is %d",
                            g->source, t->name, (unsigned long long)rank, GGUF_MAX_RANK);
    t->rank = (int)rank;
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        PROPANE_TRY(gguf_take(g, 8, t->name, &dim, err));
        if (dim == 0 || dim > (uint64_t)(INT64_MAX / 8) / (uint64_t)t->count)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: tensor %.80s: dimension %d is %llu", g->source, t->name,
                                i, (unsigned long long)dim);
        t->dim[i] = (int64_t)dim;
        t->count *= (int64_t)dim;
    }
    PROPANE_TRY(gguf_take(g, 4, t->name, &type, err));
    PROPANE_TRY(gguf_take(g, 8, t->name, offset, err));
    t->type = type < 1000 ? gguf_type_get((int)type) : NULL;
    if (!t->type)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: tensor %.80s has the unknown type %llu", g->source,
                            t->name, (unsigned long long)type);
    int64_t row = t->rank ? t->dim[0] : 1;
    if (row % t->type->block)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: tensor %.80s: rows of %lld elements are not a multiple of the %s block size, %d",
                            g->source, t->name, (long long)row, t->type->name, t->type->block);
    t->bytes = (uint64_t)(t->count / t->type->block) * (uint64_t)t->type->bytes;
    return PROPANE_OK;
}

/* Checks that `count` items of at least `smallest` bytes fit into the remaining bytes. */
static propane_status gguf_room_for(gguf *g, uint64_t count, uint64_t smallest, const char *what, propane_error *err) {
    if (count <= (g->length - g->at) / smallest && count < INT32_MAX) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the header declares %llu %s, more than fit in the file",
                        g->source, (unsigned long long)count, what);
}

static propane_status gguf_enter(gguf *g, piece_map *map, const char *name, int index, propane_error *err) {
    int32_t *at = piece_map_enter(map, name, strlen(name), index);
    if (!at) return propane_fail_memory(err, map->capacity * 24);
    return *at == index ? PROPANE_OK
                        : propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.80s' occurs twice", g->source, name);
}

static propane_status gguf_place_tensors(gguf *g, const uint64_t *offsets, propane_error *err) {
    uint64_t begin = (g->at + g->alignment - 1) / g->alignment * g->alignment;
    for (int i = 0; i < g->tensor_count; i++) {
        gguf_tensor *t = &g->tensors[i];
        if (offsets[i] % g->alignment)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: tensor %.80s: its offset in the data, %llu, is not a multiple of %llu", g->source,
                                t->name, (unsigned long long)offsets[i], (unsigned long long)g->alignment);
        if (begin > g->length || offsets[i] > g->length - begin || t->bytes > g->length - begin - offsets[i])
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: tensor %.80s: %llu bytes at offset %llu of the data, which has %llu; the file is "
                                "truncated or damaged",
                                g->source, t->name, (unsigned long long)t->bytes, (unsigned long long)offsets[i],
                                (unsigned long long)(begin > g->length ? 0 : g->length - begin));
        t->data = g->data + begin + offsets[i];
    }
    return PROPANE_OK;
}

static propane_status gguf_read_all(gguf *g, propane_error *err) {
    uint64_t magic = 0, version, tensors, values;
    if (g->length >= 4) magic = gguf_load(g->data, 4);
    if (magic != 0x46554747)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a GGUF file: it does not begin with 'GGUF'", g->source);
    g->at = 4;
    PROPANE_TRY(gguf_take(g, 4, "the version", &version, err));
    if (version != 2 && version != 3)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: GGUF version %llu%s is not supported; only versions 2 and 3 are", g->source,
                            (unsigned long long)version, version > 0xffff ? " (big endian?)" : "");
    PROPANE_TRY(gguf_take(g, 8, "the number of tensors", &tensors, err));
    PROPANE_TRY(gguf_take(g, 8, "the number of keys", &values, err));
    PROPANE_TRY(gguf_room_for(g, values, 13, "keys", err));
    PROPANE_TRY(gguf_room_for(g, tensors, 25, "tensors", err));
    g->values = ARENA_ARRAY(g->arena, values + 1, gguf_value);
    g->tensors = ARENA_ARRAY(g->arena, tensors + 1, gguf_tensor);
    uint64_t *offsets = ARENA_ARRAY(g->arena, tensors + 1, uint64_t);
    if (!g->values || !g->tensors || !offsets) return propane_fail_memory(err, (size_t)(values + tensors) * 64);
    for (; g->value_count < (int)values; g->value_count++) {
        PROPANE_TRY(gguf_take_value(g, &g->values[g->value_count], err));
        PROPANE_TRY(gguf_enter(g, &g->by_key, g->values[g->value_count].key, g->value_count, err));
    }
    int64_t alignment = ALIGNMENT;
    PROPANE_TRY(gguf_get_int(g, "general.alignment", false, 1, 1 << 20, &alignment, err));
    g->alignment = (uint64_t)alignment;
    for (; g->tensor_count < (int)tensors; g->tensor_count++) {
        PROPANE_TRY(gguf_take_tensor(g, &g->tensors[g->tensor_count], &offsets[g->tensor_count], err));
        PROPANE_TRY(gguf_enter(g, &g->by_name, g->tensors[g->tensor_count].name, g->tensor_count, err));
    }
    return gguf_place_tensors(g, offsets, err);
}

propane_status gguf_parse(const void *data, size_t length, const char *source, gguf **out, propane_error *err) {
    arena *a = arena_create();
    gguf *g = a ? ARENA_NEW(a, gguf) : NULL;
    *out = NULL;
    if (!g || !(g->source = arena_string(a, source))) {
        arena_free(a);
        return propane_fail_memory(err, sizeof *g);
    }
    g->arena = a;
    g->data = data;
    g->length = length;
    propane_status status = gguf_read_all(g, err);
    if (status)
        gguf_close(g);
    else
        *out = g;
    return status;
}

propane_status gguf_open(const char *path, gguf **out, propane_error *err) {
    file_map map;
    *out = NULL;
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = gguf_parse(map.data, map.bytes, path, out, err);
    if (status)
        file_map_close(&map);
    else
        (*out)->map = map;
    return status;
}

void gguf_close(gguf *g) {
    if (!g) return;
    file_map_close(&g->map);
    piece_map_deinit(&g->by_key);
    piece_map_deinit(&g->by_name);
    arena_free(g->arena);
}

const char *gguf_source(const gguf *g) { return g->source; }
int gguf_value_count(const gguf *g) { return g->value_count; }
const gguf_value *gguf_value_at(const gguf *g, int index) { return &g->values[index]; }
int gguf_tensor_count(const gguf *g) { return g->tensor_count; }
const gguf_tensor *gguf_tensor_at(const gguf *g, int index) { return &g->tensors[index]; }

const gguf_value *gguf_find(const gguf *g, const char *key) {
    const int32_t at = piece_map_index(&g->by_key, key);
    return at < 0 ? NULL : &g->values[at];
}

const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name) {
    const int32_t at = piece_map_index(&g->by_name, name);
    return at < 0 ? NULL : &g->tensors[at];
}

/* ---- values -------------------------------------------------------------------------------------------------------------- */

static bool gguf_is_whole(gguf_value_type type) {
    return type != GGUF_F32 && type != GGUF_F64 && type != GGUF_TEXT && type != GGUF_ARRAY;
}

int64_t gguf_item_int(const gguf_value *v, uint64_t index) {
    int bytes = value_bytes[v->item], shift = 64 - 8 * bytes;
    uint64_t raw = gguf_load(v->data + index * (uint64_t)bytes, bytes);
    bool is_signed = v->item == GGUF_I8 || v->item == GGUF_I16 || v->item == GGUF_I32 || v->item == GGUF_I64;
    if (is_signed) return (int64_t)(raw << shift) >> shift;
    return raw > INT64_MAX ? INT64_MAX : (int64_t)raw;
}

double gguf_item_real(const gguf_value *v, uint64_t index) {
    int bytes = value_bytes[v->item];
    uint64_t raw = gguf_load(v->data + index * (uint64_t)bytes, bytes);
    uint32_t low = (uint32_t)raw;
    float single;
    double real;
    memcpy(&single, &low, sizeof single);
    memcpy(&real, &raw, sizeof real);
    return bytes == 4 ? (double)single : real;
}

/* Finds a key. Sets *out to NULL if the key is missing and not required. */
static propane_status gguf_lookup(const gguf *g, const char *key, bool required, const gguf_value **out,
                                  propane_error *err) {
    *out = gguf_find(g, key);
    if (*out || !required) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the key '%s' is missing", g->source, key);
}

static propane_status gguf_wrong_type(const gguf *g, const gguf_value *v, const char *want, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: key '%.80s' must be %s, not %s%s%s", g->source, v->key, want,
                        v->type == GGUF_ARRAY ? "array of " : "",
                        v->type == GGUF_ARRAY ? value_names[v->item] : value_names[v->type], "");
}

propane_status gguf_get_int(const gguf *g, const char *key, bool required, int64_t min, int64_t max, int64_t *out,
                            propane_error *err) {
    const gguf_value *v;
    PROPANE_TRY(gguf_lookup(g, key, required, &v, err));
    if (!v) return PROPANE_OK;
    if (!gguf_is_whole(v->type) || v->type == GGUF_BOOL) return gguf_wrong_type(g, v, "an integer", err);
    int64_t value = gguf_item_int(v, 0);
    if (value < min || value > max)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: key '%s' is %lld; it must be from %lld to %lld", g->source,
                            key, (long long)value, (long long)min, (long long)max);
    *out = value;
    return PROPANE_OK;
}

propane_status gguf_get_real(const gguf *g, const char *key, bool required, double *out, propane_error *err) {
    const gguf_value *v;
    PROPANE_TRY(gguf_lookup(g, key, required, &v, err));
    if (!v) return PROPANE_OK;
    if (v->type != GGUF_F32 && v->type != GGUF_F64) return gguf_wrong_type(g, v, "a real number", err);
    *out = gguf_item_real(v, 0);
    return PROPANE_OK;
}

propane_status gguf_get_bool(const gguf *g, const char *key, bool *out, propane_error *err) {
    const gguf_value *v = gguf_find(g, key);
    if (!v) return PROPANE_OK;
    if (v->type != GGUF_BOOL) return gguf_wrong_type(g, v, "true or false", err);
    *out = v->data[0] != 0;
    return PROPANE_OK;
}

propane_status gguf_get_text(const gguf *g, const char *key, bool required, const char **out, propane_error *err) {
    const gguf_value *v;
    PROPANE_TRY(gguf_lookup(g, key, required, &v, err));
    if (!v) return PROPANE_OK;
    if (v->type != GGUF_TEXT || memchr(v->data, 0, (size_t)v->bytes)) return gguf_wrong_type(g, v, "a string", err);
    *out = arena_string_n(g->arena, (const char *)v->data, (size_t)v->bytes);
    return *out ? PROPANE_OK : propane_fail_memory(err, (size_t)v->bytes);
}

propane_status gguf_get_array(const gguf *g, const char *key, bool required, gguf_value_type item,
                              const gguf_value **out, propane_error *err) {
    PROPANE_TRY(gguf_lookup(g, key, required, out, err));
    const gguf_value *v = *out;
    bool whole = item == GGUF_I32 && v && (v->item == GGUF_U32 || v->item == GGUF_I32);
    if (!v || (v->type == GGUF_ARRAY && (v->item == item || whole))) return PROPANE_OK;
    return gguf_wrong_type(g, v, "an array of another type", err);
}

const char *gguf_next_text(const gguf_value *array, uint64_t *at, size_t *length) {
    *length = (size_t)gguf_load(array->data + *at, 8);
    const char *item = (const char *)array->data + *at + 8;
    *at += 8 + *length;
    return item;
}

propane_status gguf_f32(const gguf *g, const gguf_tensor *t, float *out, propane_error *err) {
    char known[GGUF_TYPE_WORDS];
    if (!t->type->decode)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: tensor %.80s is %s, which Propane does not support; the supported types are %s",
                            g->source, t->name, t->type->name, gguf_type_names(known));
    gguf_decode_blocks((gguf_type)t->type->type, t->data, t->count, out);
    return PROPANE_OK;
}

/* ---- writing -------------------------------------------------------------------------------------------------------------- */

static void gguf_put(text *t, uint64_t value, int bytes) {
    uint8_t raw[8];
    for (int i = 0; i < bytes; i++) raw[i] = (uint8_t)(value >> (8 * i));
    text_append_n(t, raw, (size_t)bytes);
}

static void gguf_put_string(text *t, const char *data, size_t length) {
    gguf_put(t, length, 8);
    text_append_n(t, data, length);
}

static void gguf_put_key(gguf_header *h, const char *key, gguf_value_type type) {
    gguf_put_string(&h->values, key, strlen(key));
    gguf_put(&h->values, type, 4);
    h->value_count++;
}

static uint32_t gguf_bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void gguf_header_deinit(gguf_header *h) {
    text_deinit(&h->values);
    text_deinit(&h->tensors);
}

void gguf_put_u32(gguf_header *h, const char *key, uint32_t value) {
    gguf_put_key(h, key, GGUF_U32);
    gguf_put(&h->values, value, 4);
}

void gguf_put_f32(gguf_header *h, const char *key, float value) {
    gguf_put_key(h, key, GGUF_F32);
    gguf_put(&h->values, gguf_bits_of(value), 4);
}

void gguf_put_bool(gguf_header *h, const char *key, bool value) {
    gguf_put_key(h, key, GGUF_BOOL);
    gguf_put(&h->values, value, 1);
}

void gguf_put_text(gguf_header *h, const char *key, const char *value) {
    gguf_put_key(h, key, GGUF_TEXT);
    gguf_put_string(&h->values, value, strlen(value));
}

void gguf_put_array(gguf_header *h, const char *key, gguf_value_type item, uint64_t count) {
    gguf_put_key(h, key, GGUF_ARRAY);
    gguf_put(&h->values, item, 4);
    gguf_put(&h->values, count, 8);
}

void gguf_put_item_text(gguf_header *h, const char *data, size_t length) { gguf_put_string(&h->values, data, length); }
void gguf_put_item_i32(gguf_header *h, int32_t value) { gguf_put(&h->values, (uint32_t)value, 4); }
void gguf_put_item_f32(gguf_header *h, float value) { gguf_put(&h->values, gguf_bits_of(value), 4); }

void gguf_put_tensor(gguf_header *h, const char *name, int rank, const int64_t *dim, gguf_type type) {
    int64_t count = 1;
    gguf_put_string(&h->tensors, name, strlen(name));
    gguf_put(&h->tensors, (uint64_t)rank, 4);
    for (int i = 0; i < rank; i++) {
        gguf_put(&h->tensors, (uint64_t)dim[i], 8);
        count *= dim[i];
    }
    gguf_put(&h->tensors, type, 4);
    gguf_put(&h->tensors, h->data_bytes, 8);
    h->tensor_count++;
    h->data_bytes += (gguf_tensor_bytes(type, count) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gguf_print_header(const gguf_header *h, text *out) {
    text_append(out, "GGUF");
    gguf_put(out, 3, 4);
    gguf_put(out, h->tensor_count, 8);
    gguf_put(out, h->value_count, 8);
    text_append_n(out, h->values.data, h->values.length);
    text_append_n(out, h->tensors.data, h->tensors.length);
    while (!out->failed && out->length % ALIGNMENT) gguf_put(out, 0, 1);
    if (h->values.failed || h->tensors.failed) out->failed = true;
}
