/* SPDX-License-Identifier: MIT
 * Declares MILBlob version 2 weight files. A file has a 64-byte header, then for each blob a 64-byte metadata record at
 * a 64-byte boundary, with the blob's data at the next boundary. Refuses what Core ML's reader would misread, and names
 * the offset.
 */
#ifndef CORE_MIL_COREML_BLOB_H
#define CORE_MIL_COREML_BLOB_H

#include "core/base/text.h"
#include "core/mil/mil.h"

typedef struct mil_blob_file mil_blob_file; /* a mapped file, read-only */

typedef struct mil_blob {
    mil_dtype dtype;
    uint64_t offset;  /* of the metadata record, as in BLOBFILE(offset = ) */
    const void *data; /* inside the mapping */
    uint64_t bytes;
    int padding_bits; /* unused high bits of the last byte, for sub-byte types */
} mil_blob;

PROPANE_CHECK propane_status mil_blob_open(const char *path, mil_blob_file **out, propane_error *err);
void mil_blob_close(mil_blob_file *file);
/* Reads the record at `offset`. For a malformed record, returns PROPANE_ERR_INVALID with the message "PATH: record at
 * offset N: ...". */
PROPANE_CHECK propane_status mil_blob_get(const mil_blob_file *file, uint64_t offset, mil_blob *out,
                                          propane_error *err);
/* Reads the record at *offset and moves *offset to the next one in file order. Start with 0. Returns
 * PROPANE_ERR_NOT_FOUND after the last record. */
PROPANE_CHECK propane_status mil_blob_next(const mil_blob_file *file, uint64_t *offset, mil_blob *out,
                                           propane_error *err);
/* Returns the number of blobs in the header. */
uint32_t mil_blob_count(const mil_blob_file *file);

/* Adds a blob to `file`, a weight file in memory that starts empty. Sets *offset to the blob's record; the first is at
 * MIL_BLOB_FIRST. Records and data begin at multiples of 64, and the file is padded to such a multiple. */
#define MIL_BLOB_FIRST 64
PROPANE_CHECK propane_status mil_blob_append(text *file, mil_dtype dtype, int64_t elements, const void *data,
                                             uint64_t *offset, propane_error *err);

typedef struct mil_blob_writer mil_blob_writer;
PROPANE_CHECK propane_status mil_blob_writer_open(const char *path, mil_blob_writer **out, propane_error *err);
PROPANE_CHECK propane_status mil_blob_writer_add(mil_blob_writer *w, mil_dtype dtype, int64_t elements,
                                                 const void *data, uint64_t *offset, propane_error *err);
/* Syncs and renames the file; frees the writer in any case. */
PROPANE_CHECK propane_status mil_blob_writer_commit(mil_blob_writer *w, propane_error *err);
void mil_blob_writer_abort(mil_blob_writer *w);

/* Resolves "@model_path/..." against m->model_dir, opens the file once per module, and fills in c->data after checking
 * c->type's dtype and size. Refuses a path that leaves model_dir (".."). */
PROPANE_CHECK propane_status mil_blob_load(mil_module *m, mil_const *c, propane_error *err);
/* Marks the files as rewritten: later loads open them again, and constants keep the old content. */
void mil_blob_maps_retire(struct mil_blob_map *maps);
void mil_blob_maps_free(struct mil_blob_map *maps);

#endif
