/* SPDX-License-Identifier: MIT
 * Owns NumPy's files. The header of an .npy file is a Python dictionary with three keys; only the notation that NumPy
 * writes is accepted. An .npz file is a ZIP archive, which is read through its central directory. Fortran order, big
 * endian, records and objects are refused with a message that names what to write instead. Archives that use
 * compression other than deflate are refused, too.
 */
#include "core/base/npy.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { MAX_HEADER = 65536, FRONT = MAX_HEADER + 12, MAX_ENTRIES = 10000 };

static uint32_t npy_get_u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t npy_get_u32(const uint8_t *p) { return npy_get_u16(p) | npy_get_u16(p + 2) << 16; }

static propane_status npy_bad(const char *source, propane_error *err, const char *what) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s", source, what);
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

/* Returns the text after 'KEY': in the header, or NULL if the key is missing. */
static const char *npy_value_of(const char *header, const char *key) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static propane_status npy_read_descr(const char *at, const char *source, npy *out, propane_error *err) {
    char quoted[80];
    const size_t length = strcspn(at, ",}");
    const bool simple = at[0] == '\'' && length >= 5 && length <= 6 && at[length - 1] == '\'';
    const char order = simple ? at[1] : 0;
    out->kind = simple ? at[2] : 0;
    out->size = simple ? atoi(at + 3) : 0;
    const bool one_byte = out->size == 1;
    const bool known = (out->kind == 'f' && (out->size == 2 || out->size == 4 || out->size == 8)) ||
                       ((out->kind == 'i' || out->kind == 'u') &&
                        (out->size == 1 || out->size == 2 || out->size == 4 || out->size == 8)) ||
                       (out->kind == 'b' && one_byte);
    if (known && (order == '<' || (one_byte && order == '|'))) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: unsupported element type %s; little-endian float16, float32, float64, int8 to int64, "
                        "uint8 to uint64 and bool can be read",
                        source, text_quote(quoted, at, length < 40 ? length : 40));
}

/* Reads "(2, 3)", "(2,)" or "()". */
static propane_status npy_read_shape(const char *at, const char *source, npy *out, propane_error *err) {
    if (*at++ != '(') return npy_bad(source, err, "the header's shape is not a tuple");
    out->count = 1;
    for (at += strspn(at, " "); *at != ')'; at += strspn(at, " ")) {
        char *end = NULL;
        if (*at < '0' || *at > '9') return npy_bad(source, err, "the header's shape is not a tuple of numbers");
        const long long dim = strtoll(at, &end, 10);
        if (out->rank == NPY_MAX_RANK) return npy_bad(source, err, "more than 16 dimensions");
        if (dim < 0 || (dim > 0 && out->count > ((int64_t)1 << 40) / dim))
            return npy_bad(source, err, "more than 2^40 elements");
        out->dim[out->rank++] = dim;
        out->count *= dim;
        at = end + strspn(end, " ");
        if (*at == ',')
            at++;
        else if (*at != ')')
            return npy_bad(source, err, "the header's shape is not a tuple of numbers");
    }
    return PROPANE_OK;
}

/* Parses the header of a file of `bytes` bytes, of which `data` holds the first `have`. Sets *at to the offset of the
 * elements. */
static propane_status npy_parse_header(const uint8_t *data, size_t have, size_t bytes, const char *source, npy *out,
                                       size_t *at, propane_error *err) {
    *out = (npy){0};
    if (have < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return npy_bad(source, err, "not an .npy file: it does not begin with \\x93NUMPY");
    const int version = data[6];
    if (version < 1 || version > 3 || (version > 1 && have < 12))
        return npy_bad(source, err, "unknown version of .npy");
    const size_t begin = version == 1 ? 10 : 12, length = version == 1 ? npy_get_u16(data + 8) : npy_get_u32(data + 8);
    if (length > MAX_HEADER || length > have - begin) return npy_bad(source, err, "the header is longer than the file");
    char *header = mem_alloc(length + 1);
    if (!header) return propane_fail_memory(err, length);
    memcpy(header, data + begin, length);
    header[length] = 0;
    const char *descr = npy_value_of(header, "descr"), *order = npy_value_of(header, "fortran_order"),
               *shape = npy_value_of(header, "shape");
    propane_status status = PROPANE_OK;
    if (!descr || !order || !shape) status = npy_bad(source, err, "the header lacks descr, fortran_order or shape");
    if (!status) status = npy_read_descr(descr, source, out, err);
    if (!status) status = npy_read_shape(shape, source, out, err);
    if (!status && strncmp(order, "False", 5) != 0 && out->rank > 1)
        status = npy_bad(source, err, "the array is in Fortran order: save np.ascontiguousarray(array)");
    mem_free(header);
    PROPANE_TRY(status);
    const size_t need = (size_t)out->count * (size_t)out->size;
    if (need != bytes - begin - length)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %zu bytes of elements; the header declares %zu", source,
                            bytes - begin - length, need);
    *at = begin + length;
    return PROPANE_OK;
}

propane_status npy_parse(const uint8_t *data, size_t bytes, const char *source, npy *out, propane_error *err) {
    size_t at = 0;
    PROPANE_TRY(npy_parse_header(data, bytes, bytes, source, out, &at, err));
    const size_t need = bytes - at;
    out->data = mem_alloc(need ? need : 1);
    if (!out->data) return propane_fail_memory(err, need);
    memcpy(out->data, data + at, need);
    return PROPANE_OK;
}

propane_status npy_read(const char *path, npy *out, propane_error *err) {
    file_map map;
    *out = (npy){0};
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = npy_parse(map.data, map.bytes, path, out, err);
    file_map_close(&map);
    return status;
}

void npy_free(npy *a) {
    if (!a) return;
    mem_free(a->data);
    a->data = NULL;
}

#define TAKE(type)                                                                                                     \
    do {                                                                                                               \
        type value;                                                                                                    \
        memcpy(&value, at, sizeof value);                                                                              \
        return (double)value;                                                                                          \
    } while (0)

bool npy_set_type(npy *a, propane_dtype dtype) {
    static const struct {
        char kind;
        int size;
    } types[] = {
        [PROPANE_FP16] = {'f', 2}, [PROPANE_FP32] = {'f', 4},  [PROPANE_INT32] = {'i', 4}, [PROPANE_BOOL] = {'b', 1},
        [PROPANE_INT8] = {'i', 1}, [PROPANE_UINT8] = {'u', 1}, [PROPANE_INT16] = {'i', 2}, [PROPANE_UINT16] = {'u', 2}};
    if ((int)dtype < 0 || (size_t)dtype >= sizeof types / sizeof types[0]) return false;
    a->kind = types[dtype].kind;
    a->size = types[dtype].size;
    return true;
}

double npy_element(const npy *a, int64_t index) {
    const uint8_t *at = (const uint8_t *)a->data + index * a->size;
    if (a->kind == 'b') return at[0] != 0;
    if (a->kind == 'f' && a->size == 2) return fp16_to_f32((uint16_t)npy_get_u16(at));
    if (a->kind == 'f' && a->size == 4) TAKE(float);
    if (a->kind == 'f') TAKE(double);
    if (a->size == 1) return a->kind == 'u' ? at[0] : (int8_t)at[0];
    if (a->size == 2) return a->kind == 'u' ? (double)npy_get_u16(at) : (int16_t)npy_get_u16(at);
    if (a->size == 4 && a->kind == 'u') TAKE(uint32_t);
    if (a->size == 4) TAKE(int32_t);
    if (a->kind == 'u') TAKE(uint64_t);
    TAKE(int64_t);
}

/* The header is padded with blanks so that the elements begin at a multiple of 64. */
propane_status npy_write(const char *path, const npy *a, propane_error *err) {
    text header = {0};
    text_printf(&header, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", a->size == 1 ? '|' : '<', a->kind,
                a->size);
    for (int i = 0; i < a->rank; i++)
        text_printf(&header, "%s%lld%s", i ? ", " : "", (long long)a->dim[i], a->rank == 1 ? "," : "");
    text_append(&header, "), }");
    while (!header.failed && (10 + header.length + 1) % 64) text_append(&header, " ");
    text_append(&header, "\n");
    file_writer *w = NULL;
    propane_status status = header.failed ? propane_fail_memory(err, 0) : file_writer_open(path, &w, err);
    const uint8_t begin[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)header.length, (uint8_t)(header.length >> 8)};
    if (!status) status = file_writer_write(w, begin, sizeof begin, err);
    if (!status) status = file_writer_write(w, header.data, header.length, err);
    if (!status) status = file_writer_write(w, a->data, (size_t)a->count * (size_t)a->size, err);
    if (!status)
        status = file_writer_commit(w, err);
    else if (w)
        file_writer_abort(w);
    text_deinit(&header);
    return status;
}

/* ---- archives ---------------------------------------------------------------------------------------------------- */

/* Finds the archive's end record, which is within the last 64 KiB. Returns NULL if there is none. */
static const uint8_t *npy_find_end(const uint8_t *data, size_t bytes) {
    for (size_t back = 22; back <= bytes && back < 22 + 65536; back++)
        if (memcmp(data + bytes - back, "PK\5\6", 4) == 0) return data + bytes - back;
    return NULL;
}

/* Returns the offset of the archive's directory. The end record contains it, unless it does not fit into 32 bits; then
 * the record that the ZIP64 locator points to contains it. */
static size_t npy_find_directory(const uint8_t *data, const uint8_t *end) {
    const size_t short_at = npy_get_u32(end + 16), before = (size_t)(end - data);
    if (short_at != UINT32_MAX || before < 20 || memcmp(end - 20, "PK\6\7", 4) != 0) return short_at;
    const uint64_t record = npy_get_u32(end - 12) | (uint64_t)npy_get_u32(end - 8) << 32;
    if (record > before || before - record < 56 || memcmp(data + record, "PK\6\6", 4) != 0) return short_at;
    return (size_t)npy_get_u32(data + record + 48) | (size_t)npy_get_u32(data + record + 52) << 32;
}

/* An entry of the directory, and where its bytes are in the file. */
typedef struct entry {
    const uint8_t *data;
    size_t stored, size;
    uint32_t method;
    const char *name;
    size_t name_length;
    char quoted[80];
} entry;

/* Reads the values that do not fit into 32 bits from the entry's extra fields. These are whichever of size, stored size
 * and position are 2^32 - 1 in the entry. */
static void npy_read_zip64(const uint8_t *extra, size_t length, entry *e, size_t *place) {
    enum { ZIP64 = 1 };
    while (length >= 4) {
        const size_t own = npy_get_u16(extra + 2);
        const uint8_t *from = extra + 4, *end = from + own;
        if (own > length - 4) return;
        size_t *const wide[] = {&e->size, &e->stored, place};
        for (int i = 0; i < 3 && npy_get_u16(extra) == ZIP64; i++) {
            if (*wide[i] != UINT32_MAX || end - from < 8) continue;
            *wide[i] = (size_t)npy_get_u32(from) | (size_t)npy_get_u32(from + 4) << 32;
            from += 8;
        }
        extra = end;
        length -= 4 + own;
    }
}

/* Finds the data of an entry. The caller has checked that the directory's entry at `at`, including its name and extra
 * fields, lies within the file. */
static propane_status npy_find_entry(const uint8_t *data, size_t bytes, const uint8_t *at, const char *source, entry *e,
                                     propane_error *err) {
    size_t place = npy_get_u32(at + 42);
    *e = (entry){.method = npy_get_u16(at + 10),
                 .stored = npy_get_u32(at + 20),
                 .size = npy_get_u32(at + 24),
                 .name = (const char *)at + 46,
                 .name_length = npy_get_u16(at + 28)};
    text_quote(e->quoted, e->name, e->name_length);
    npy_read_zip64(at + 46 + e->name_length, npy_get_u16(at + 30), e, &place);
    if (e->method != 0 && e->method != 8)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: '%s' is compressed by method %u, which is not supported; write the archive with "
                            "np.savez or np.savez_compressed",
                            source, e->quoted, (unsigned)e->method);
    if (place > bytes || bytes - place < 30 || memcmp(data + place, "PK\3\4", 4) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%s' is not at the offset that the archive gives", source,
                            e->quoted);
    const size_t begin = place + 30 + npy_get_u16(data + place + 26) + npy_get_u16(data + place + 28);
    if (begin > bytes || e->stored > bytes - begin || (e->method == 0 && e->stored != e->size))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%s' ends beyond the end of the file", source, e->quoted);
    e->data = data + begin;
    return PROPANE_OK;
}

/* Inflates the array's header first. Memory for the rest is allocated only if the header agrees with the archive. */
static propane_status npy_inflate(z_stream *z, const entry *e, uint8_t *front, uint8_t **out, propane_error *err) {
    const size_t some = e->size < FRONT ? e->size : FRONT;
    npy array;
    size_t at = 0;
    z->next_out = front;
    z->avail_out = (uInt)some;
    (void)inflate(z, Z_SYNC_FLUSH);
    if (z->total_out < some)
        return propane_fail(err, PROPANE_ERR_INVALID, "'%s' is damaged and cannot be decompressed", e->quoted);
    PROPANE_TRY(npy_parse_header(front, z->total_out, e->size, e->quoted, &array, &at, err));
    *out = mem_alloc(e->size + 1);
    if (!*out) return propane_fail_memory(err, e->size);
    const size_t made = z->total_out;
    memcpy(*out, front, made);
    z->next_out = *out + made;
    z->avail_out = (uInt)(e->size - made) + 1; /* one more than expected, to detect excess data */
    const int code = inflate(z, Z_FINISH);
    if (code == Z_STREAM_END && z->total_out == e->size) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "'%s' is damaged and cannot be decompressed", e->quoted);
}

/* Deflate expands one byte to at most about a thousand, so an entry that promises more is refused before memory is
 * allocated. */
static propane_status npy_unpack(const entry *e, const char *source, uint8_t **out, propane_error *err) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)e->data, .avail_in = (uInt)e->stored};
    *out = NULL;
    if (e->size / 1100 > e->stored + 16 || e->stored > UINT_MAX || e->size >= UINT32_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%s' cannot have the size that the archive gives", source,
                            e->quoted);
    uint8_t *front = mem_alloc(FRONT);
    if (!front || inflateInit2(&z, -15) != Z_OK) {
        mem_free(front);
        return propane_fail_memory(err, FRONT);
    }
    const propane_status status = npy_inflate(&z, e, front, out, err);
    inflateEnd(&z);
    mem_free(front);
    return status ? propane_fail_prefix(err, status, "%s", source) : status;
}

static propane_status npy_read_entry(const uint8_t *data, size_t bytes, const uint8_t *at, const char *source, npz *out,
                                     propane_error *err) {
    entry e;
    uint8_t *unpacked = NULL;
    PROPANE_TRY(npy_find_entry(data, bytes, at, source, &e, err));
    const size_t n = e.name_length, plain = n > 4 && memcmp(e.name + n - 4, ".npy", 4) == 0 ? n - 4 : n;
    char *own = mem_alloc(plain + 1);
    if (!own) return propane_fail_memory(err, plain);
    memcpy(own, e.name, plain);
    out->names[out->count++] = own;
    propane_status status = e.method ? npy_unpack(&e, source, &unpacked, err) : PROPANE_OK;
    if (!status) {
        status = npy_parse(unpacked ? unpacked : e.data, e.size, e.quoted, &out->arrays[out->count - 1], err);
        if (status) status = propane_fail_prefix(err, status, "%s", source);
    }
    mem_free(unpacked);
    return status;
}

propane_status npz_parse(const uint8_t *data, size_t bytes, const char *source, npz *out, propane_error *err) {
    *out = (npz){0};
    const uint8_t *end = bytes >= 22 ? npy_find_end(data, bytes) : NULL;
    if (!end) return npy_bad(source, err, "not an .npz archive");
    const uint32_t count = npy_get_u16(end + 10);
    size_t at = npy_find_directory(data, end);
    if (count > MAX_ENTRIES) return npy_bad(source, err, "the archive has more than 10000 entries");
    out->names = mem_array((size_t)count + 1, sizeof *out->names);
    out->arrays = mem_array((size_t)count + 1, sizeof *out->arrays);
    propane_status status = out->names && out->arrays ? PROPANE_OK : propane_fail_memory(err, 0);
    for (uint32_t i = 0; i < count && !status; i++) {
        if (at > bytes || bytes - at < 46 || memcmp(data + at, "PK\1\2", 4) != 0 ||
            bytes - at - 46 < (size_t)npy_get_u16(data + at + 28) + npy_get_u16(data + at + 30))
            status = npy_bad(source, err, "the archive's directory is broken");
        else
            status = npy_read_entry(data, bytes, data + at, source, out, err);
        if (!status)
            at += 46 + (size_t)npy_get_u16(data + at + 28) + npy_get_u16(data + at + 30) + npy_get_u16(data + at + 32);
    }
    if (status) npz_free(out);
    return status;
}

propane_status npz_read(const char *path, npz *out, propane_error *err) {
    file_map map;
    *out = (npz){0};
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = npz_parse(map.data, map.bytes, path, out, err);
    file_map_close(&map);
    return status;
}

void npz_free(npz *z) {
    if (!z) return;
    for (int i = 0; i < z->count; i++) {
        mem_free(z->names[i]);
        npy_free(&z->arrays[i]);
    }
    mem_free(z->names);
    mem_free(z->arrays);
    *z = (npz){0};
}
