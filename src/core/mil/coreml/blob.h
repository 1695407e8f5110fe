/* SPDX-License-Identifier: MIT
 * MILBlob version 2 weight files: a 64-byte header, then for each blob a 64-byte metadata record at a 64-byte boundary
 * and its data at the next one. Refuses what Core ML's reader would misread, naming the offset.
 */
#ifndef CORE_MIL_COREML_BLOB_H
#define CORE_MIL_COREML_BLOB_H

#include "core/base/text.h"
#include "core/mil/mil.h"

typedef struct mil_blob_file mil_blob_file; /* a mapped file, read only */

typedef struct mil_blob {
    mil_dtype dtype;
    uint64_t offset;  /* of the metadata record: what BLOBFILE(offset = ) names */
    const void *data; /* inside the mapping */
    uint64_t bytes;
    int padding_bits; /* unused high bits of the last byte, sub-byte types */
} mil_blob;

PROPANE_CHECK propane_status mil_blob_open(const char *path, mil_blob_file **out, propane_error *err);
void mil_blob_close(mil_blob_file *file);
/* The record at `offset`. Malformed: PROPANE_ERR_INVALID, "PATH: record at offset N: ...". */
PROPANE_CHECK propane_status mil_blob_get(const mil_blob_file *file, uint64_t offset, mil_blob *out,
                                          propane_error *err);
/* Walks all records in file order: *offset 0 starts; returns NOT_FOUND after the last one. */
PROPANE_CHECK propane_status mil_blob_next(const mil_blob_file *file, uint64_t *offset, mil_blob *out,
                                           propane_error *err);
/* The number that the header claims. */
uint32_t mil_blob_count(const mil_blob_file *file);

/* A weight file in memory: one more blob of `file`, which begins empty; its record is at *offset, MIL_BLOB_FIRST for
 * the first one. Record and data begin at multiples of 64, and the file ends at one. */
#define MIL_BLOB_FIRST 64
PROPANE_CHECK propane_status mil_blob_append(text *file, mil_dtype dtype, int64_t elements, const void *data,
                                             uint64_t *offset, propane_error *err);

typedef struct mil_blob_writer mil_blob_writer;
PROPANE_CHECK propane_status mil_blob_writer_open(const char *path, mil_blob_writer **out, propane_error *err);
PROPANE_CHECK propane_status mil_blob_writer_add(mil_blob_writer *w, mil_dtype dtype, int64_t elements,
                                                 const void *data, uint64_t *offset, propane_error *err);
/* Syncs and renames; frees the writer either way. */
PROPANE_CHECK propane_status mil_blob_writer_commit(mil_blob_writer *w, propane_error *err);
void mil_blob_writer_abort(mil_blob_writer *w);

/* Resolves "@model_path/..." against m->model_dir, opens the file once per module, fills c->data (checked against
 * c->type's dtype and size). A path that leaves model_dir ("..") is refused. */
PROPANE_CHECK propane_status mil_blob_load(mil_module *m, mil_const *c, propane_error *err);
/* Their files have been written anew: later loads open them again, constants keep the old content. */
void mil_blob_maps_retire(struct mil_blob_map *maps);
void mil_blob_maps_free(struct mil_blob_map *maps);

#endif
