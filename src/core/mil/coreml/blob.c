/* SPDX-License-Identifier: MIT
 * Owns weight files: reading a mapped one, writing a new one, and the maps that a module's constants point into.
 *
 *   0     u32 number of blobs, u32 version = 2, zeros up to 64
 *   M     u32 0xDEADBEEF, u32 element type, u64 bytes, u64 offset of the data, u64 unused bits at the end, nothing up to M+64
 *   data  at a multiple of 64; the next record at the next one
 *
 * Some writers place records and data at other offsets, and Core ML opens such files. Such files are read too, and
 * unaligned data is copied, so that no other code sees an unaligned address. Some writers omit size and offset and set
 * one stray byte of the size instead. The data of such a record extends to the next record or the end of the file, and
 * must have exactly the size of the program's type. Some writers (coremltools before 8.0) leave the bytes from M+24
 * uninitialised, so the unused bits are read only for elements of fewer than 8 bits. Refuses all other deviations, and
 * names the record's offset.
 */
#include "core/mil/coreml/blob.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { ALIGN = 64, RECORD_BYTES = 64 };
#define SENTINEL 0xDEADBEEFu

struct mil_blob_file {
    file_map map;
    char *path;
    uint32_t count;
};

typedef struct mil_blob_map {
    struct mil_blob_map *next;
    const char *path; /* as written in the program */
    mil_blob_file *file;
} mil_blob_map;

static mil_dtype blob_dtype_of_code(uint32_t code) {
    for (int i = MIL_DTYPE_NONE + 1; i < MIL_DTYPE_COUNT; i++)
        if (code && (uint32_t)mil_dtype_get((mil_dtype)i)->blob_code == code) return (mil_dtype)i;
    return MIL_DTYPE_NONE;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

static propane_status blob_check_header(mil_blob_file *f, propane_error *err) {
    const uint8_t *p = f->map.data;
    if (f->map.bytes < RECORD_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %zu bytes are too few for a weight file, whose header has 64 bytes", f->path,
                            f->map.bytes);
    if (bytes_u32(p) == SENTINEL)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: record at offset 0: there is a record instead of the 64-byte file header", f->path);
    uint32_t version = bytes_u32(p + 4);
    const char *other = version == 2 ? "" : file_disguise(p, f->map.bytes); /* a damaged count may have any value */
    if (*other) return propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no weights%s", f->path, other);
    if (version != 2)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: unknown weight file version %u; only version 2 is supported%s", f->path, version,
                            version == 1 ? " (1 is the older Espresso format)" : "");
    f->count = bytes_u32(p);
    return PROPANE_OK;
}

propane_status mil_blob_open(const char *path, mil_blob_file **out, propane_error *err) {
    *out = NULL;
    mil_blob_file *f = mem_alloc(sizeof *f);
    if (!f) return propane_fail_memory(err, sizeof *f);
    propane_status status = PROPANE_OK;
    f->path = mem_copy_string(path);
    if (!f->path) status = propane_fail_memory(err, strlen(path));
    if (!status) status = file_map_open(path, &f->map, err);
    if (!status) status = blob_check_header(f, err);
    if (status) {
        mil_blob_close(f);
        return status;
    }
    *out = f;
    return PROPANE_OK;
}

void mil_blob_close(mil_blob_file *file) {
    if (!file) return;
    file_map_close(&file->map);
    mem_free(file->path);
    mem_free(file);
}

uint32_t mil_blob_count(const mil_blob_file *file) { return file->count; }

static propane_status blob_record_fail(const mil_blob_file *f, uint64_t offset, propane_error *err, const char *format,
                                       ...) BASE_PRINTF(4, 5);
static propane_status blob_record_fail(const mil_blob_file *f, uint64_t offset, propane_error *err, const char *format,
                                       ...) {
    va_list args;
    va_start(args, format);
    propane_vfail(err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    return propane_fail_prefix(err, PROPANE_ERR_INVALID, "%s: record at offset %llu", f->path,
                               (unsigned long long)offset);
}

/* Recognises a record in which size and offset are missing except for one byte of the size. */
static bool blob_is_stray(const uint8_t *p) {
    return bytes_u64(p + 16) == 0 && p[10] && bytes_u64(p + 8) == (uint64_t)p[10] << 16;
}

/* Returns the number of bytes from `from` to the next record or the end of the file. */
static uint64_t blob_rest(const mil_blob_file *f, uint64_t from) {
    uint64_t at = from;
    while (at < f->map.bytes && (f->map.bytes - at < RECORD_BYTES || bytes_u32(f->map.data + at) != SENTINEL))
        at += ALIGN;
    return (at < f->map.bytes ? at : f->map.bytes) - from;
}

/* Checks the size and data offset of the record at `offset`. */
static propane_status blob_check_extent(const mil_blob_file *f, uint64_t offset, uint64_t bytes, uint64_t data,
                                        propane_error *err) {
    if (data < offset + RECORD_BYTES && data + bytes > offset)
        return blob_record_fail(f, offset, err, "its data, %llu bytes at offset %llu, overlaps the record",
                                (unsigned long long)bytes, (unsigned long long)data);
    if (data < RECORD_BYTES)
        return blob_record_fail(f, offset, err, "its data offset is %llu, inside the file header",
                                (unsigned long long)data);
    if (data > f->map.bytes || bytes > f->map.bytes - data)
        return blob_record_fail(
            f, offset, err, "its data, %llu bytes at offset %llu, ends beyond the end of the file, which has %zu bytes",
            (unsigned long long)bytes, (unsigned long long)data, f->map.bytes);
    return PROPANE_OK;
}

propane_status mil_blob_get(const mil_blob_file *file, uint64_t offset, mil_blob *out, propane_error *err) {
    if (offset < RECORD_BYTES)
        return blob_record_fail(file, offset, err, "records follow the file's header, from offset 64 on");
    if (offset > file->map.bytes || file->map.bytes - offset < RECORD_BYTES)
        return blob_record_fail(file, offset, err, "the file has only %zu bytes", file->map.bytes);
    const uint8_t *p = file->map.data + offset;
    if (bytes_u32(p) != SENTINEL)
        return blob_record_fail(file, offset, err, "it begins with 0x%08X instead of 0xDEADBEEF: this is not a record",
                                bytes_u32(p));
    uint32_t code = bytes_u32(p + 4);
    uint64_t bytes = bytes_u64(p + 8), data = bytes_u64(p + 16), padding = bytes_u64(p + 24);
    if (blob_is_stray(p)) {
        data = offset + RECORD_BYTES;
        bytes = blob_rest(file, data);
        if (!bytes)
            return blob_record_fail(
                file, offset, err,
                "its size and data offset are missing: there is only the byte 0x%02x of a size, and no data follows; "
                "write the u64 size at byte 8 and the u64 data offset at byte 16",
                p[10]);
    }
    if (bytes > UINT64_MAX - data)
        return blob_record_fail(file, offset, err, "its size, %llu, is invalid", (unsigned long long)bytes);
    PROPANE_TRY(blob_check_extent(file, offset, bytes, data, err));
    mil_dtype dtype = blob_dtype_of_code(code);
    if (!dtype) return blob_record_fail(file, offset, err, "its element type has the unknown code %u", code);
    int bits = mil_dtype_get(dtype)->bits;
    if (bits >= 8) padding = 0;
    if (padding > 7 || (padding && !bytes))
        return blob_record_fail(file, offset, err, "there cannot be %llu unused bits with elements of %d bits",
                                (unsigned long long)padding, bits);
    if (bits >= 8 && bytes % (uint64_t)(bits / 8))
        return blob_record_fail(file, offset, err, "%llu bytes are not a multiple of the size of %s elements",
                                (unsigned long long)bytes, mil_dtype_get(dtype)->name);
    *out = (mil_blob){dtype, offset, file->map.data + data, bytes, (int)padding};
    return PROPANE_OK;
}

static bool blob_all_zero(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

propane_status mil_blob_next(const mil_blob_file *file, uint64_t *offset, mil_blob *out, propane_error *err) {
    uint64_t at = *offset ? *offset : RECORD_BYTES;
    size_t size = file->map.bytes;
    if (at >= size || blob_all_zero(file->map.data + at, size - at < RECORD_BYTES ? size - at : RECORD_BYTES))
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no record at or after offset %llu", file->path,
                            (unsigned long long)at);
    PROPANE_TRY(mil_blob_get(file, at, out, err));
    uint64_t end = (uint64_t)((const uint8_t *)out->data - file->map.data) + out->bytes;
    if (end < at + RECORD_BYTES) end = at + RECORD_BYTES; /* the data is in front of its record */
    const bool packed = end < size && size - end >= RECORD_BYTES && bytes_u32(file->map.data + end) == SENTINEL;
    *offset = packed ? end : (end + ALIGN - 1) / ALIGN * ALIGN;
    return PROPANE_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

struct mil_blob_writer {
    file_writer *file;
    uint32_t count;
};

static propane_status blob_write_zeros(mil_blob_writer *w, uint64_t until, propane_error *err) {
    static const uint8_t zeros[ALIGN];
    uint64_t at = file_writer_offset(w->file);
    return until > at ? file_writer_write(w->file, zeros, (size_t)(until - at), err) : PROPANE_OK;
}

propane_status mil_blob_writer_open(const char *path, mil_blob_writer **out, propane_error *err) {
    *out = NULL;
    mil_blob_writer *w = mem_alloc(sizeof *w);
    if (!w) return propane_fail_memory(err, sizeof *w);
    propane_status status = file_writer_open(path, &w->file, err);
    if (!status) status = blob_write_zeros(w, RECORD_BYTES, err);
    if (status) {
        mil_blob_writer_abort(w);
        return status;
    }
    *out = w;
    return PROPANE_OK;
}

/* Makes the metadata record of a blob whose record is at file offset `at`. */
static propane_status blob_make_record(uint8_t record[RECORD_BYTES], mil_dtype dtype, int64_t elements, uint64_t at,
                                       uint64_t *bytes, propane_error *err) {
    const mil_dtype_info *info = mil_dtype_get(dtype);
    if (!info->blob_code) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "weight files cannot hold %s", info->name);
    if (elements < 1 || elements > INT64_MAX / 64)
        return propane_fail(err, PROPANE_ERR_INVALID, "cannot write a weight of %lld elements", (long long)elements);
    uint64_t bits = (uint64_t)elements * (uint64_t)info->bits;
    *bytes = (bits + 7) / 8;
    memset(record, 0, RECORD_BYTES);
    bytes_put_u32(record, SENTINEL);
    bytes_put_u32(record + 4, (uint32_t)info->blob_code);
    bytes_put_u64(record + 8, *bytes);
    bytes_put_u64(record + 16, at + RECORD_BYTES);
    bytes_put_u64(record + 24, *bytes * 8 - bits);
    return PROPANE_OK;
}

static void blob_make_header(uint8_t header[8], uint32_t count) {
    bytes_put_u32(header, count);
    bytes_put_u32(header + 4, 2);
}

propane_status mil_blob_append(text *file, mil_dtype dtype, int64_t elements, const void *data, uint64_t *offset,
                               propane_error *err) {
    static const uint8_t zeros[ALIGN];
    uint8_t record[RECORD_BYTES];
    uint64_t bytes;
    if (!file->length) text_append_n(file, zeros, MIL_BLOB_FIRST);
    *offset = file->length;
    PROPANE_TRY(blob_make_record(record, dtype, elements, *offset, &bytes, err));
    text_append_n(file, record, sizeof record);
    text_append_n(file, data, (size_t)bytes);
    if (file->length % ALIGN) text_append_n(file, zeros, ALIGN - file->length % ALIGN);
    if (file->failed) return propane_fail_memory(err, (size_t)bytes);
    blob_make_header((uint8_t *)file->data, bytes_u32((const uint8_t *)file->data) + 1);
    return PROPANE_OK;
}

propane_status mil_blob_writer_add(mil_blob_writer *w, mil_dtype dtype, int64_t elements, const void *data,
                                   uint64_t *offset, propane_error *err) {
    uint64_t bytes, at = (file_writer_offset(w->file) + ALIGN - 1) / ALIGN * ALIGN;
    uint8_t record[RECORD_BYTES];
    PROPANE_TRY(blob_make_record(record, dtype, elements, at, &bytes, err));
    PROPANE_TRY(blob_write_zeros(w, at, err));
    PROPANE_TRY(file_writer_write(w->file, record, sizeof record, err));
    PROPANE_TRY(file_writer_write(w->file, data, (size_t)bytes, err));
    w->count++;
    *offset = at;
    return PROPANE_OK;
}

propane_status mil_blob_writer_commit(mil_blob_writer *w, propane_error *err) {
    uint8_t header[8];
    blob_make_header(header, w->count);
    propane_status status = file_writer_seek(w->file, 0, err);
    if (!status) status = file_writer_write(w->file, header, sizeof header, err);
    if (status) {
        mil_blob_writer_abort(w);
        return status;
    }
    status = file_writer_commit(w->file, err);
    mem_free(w);
    return status;
}

void mil_blob_writer_abort(mil_blob_writer *w) {
    if (!w) return;
    if (w->file) file_writer_abort(w->file);
    mem_free(w);
}

/* ---- a module's weight files --------------------------------------------------------------------------------------------- */

static bool blob_leaves_folder(const char *path) {
    for (const char *p = path; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.') return true;
        p += part;
        while (*p == '/') p++;
    }
    return false;
}

/* Sets *out to the weight file at `path` ("@model_path/..."), which is opened at its first use. */
static propane_status blob_find_file(mil_module *m, const char *path, const mil_blob_file **out, propane_error *err) {
    static const char prefix[] = "@model_path/";
    char quoted[80];
    for (const mil_blob_map *map = m->blobs; map; map = map->next)
        if (strcmp(map->path, path) == 0) {
            *out = map->file;
            return PROPANE_OK;
        }
    text_quote(quoted, path, strlen(path));
    if (strncmp(path, prefix, sizeof prefix - 1) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "weight file '%s': the path must begin with @model_path/",
                            quoted);
    const char *inner = path + sizeof prefix - 1;
    if (blob_leaves_folder(inner))
        return propane_fail(err, PROPANE_ERR_INVALID, "weight file '%s': the path points outside the model's folder",
                            quoted);
    if (!m->model_dir)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "weight file '%s': the program has no folder, so @model_path is undefined", quoted);
    const char *full = arena_printf(m->arena, "%s/%s", m->model_dir, inner);
    mil_blob_map *map = mem_alloc(sizeof *map);
    propane_status status = PROPANE_OK;
    if (!full || !map) status = propane_fail_memory(err, sizeof *map);
    if (!status) map->path = arena_string(m->arena, path);
    if (!status && !map->path) status = propane_fail_memory(err, strlen(path));
    if (!status) status = mil_blob_open(full, &map->file, err);
    if (status) {
        mem_free(map);
        return status;
    }
    map->next = m->blobs;
    m->blobs = map;
    *out = map->file;
    return PROPANE_OK;
}

propane_status mil_blob_load(mil_module *m, mil_const *c, propane_error *err) {
    const mil_blob_file *file = NULL;
    mil_blob blob;
    char type[160];
    assert(c->blob_path);
    PROPANE_TRY(blob_find_file(m, c->blob_path, &file, err));
    PROPANE_TRY(mil_blob_get(file, c->blob_offset, &blob, err));
    if (blob.dtype != c->type.dtype)
        return blob_record_fail(file, c->blob_offset, err, "it holds %s, but the program declares %s",
                                mil_dtype_get(blob.dtype)->name, mil_dtype_get(c->type.dtype)->name);
    int64_t bytes = mil_type_bytes(&c->type);
    if (blob.bytes != (uint64_t)bytes)
        return blob_record_fail(file, c->blob_offset, err, "it holds %llu bytes, but %s needs %lld",
                                (unsigned long long)blob.bytes, mil_type_print(type, &c->type), (long long)bytes);
    c->data = blob.data;
    if ((uintptr_t)blob.data % ALIGN) c->data = arena_copy(m->arena, blob.data, (size_t)bytes);
    if (!c->data) return propane_fail_memory(err, (size_t)bytes);
    c->bytes = bytes;
    return PROPANE_OK;
}

void mil_blob_maps_retire(mil_blob_map *maps) {
    for (; maps; maps = maps->next) maps->path = "";
}

void mil_blob_maps_free(mil_blob_map *maps) {
    for (mil_blob_map *next; maps; maps = next) {
        next = maps->next;
        mil_blob_close(maps->file);
        mem_free(maps);
    }
}
