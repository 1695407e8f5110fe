/* SPDX-License-Identifier: MIT
 * safetensors files: an 8-byte little-endian header length, a JSON header, and the tensors' bytes one after the other.
 * The reader refuses what the format's own reader refuses: unknown dtypes, sizes that do not match their shape, and
 * tensors that overlap, leave a hole or end outside the file. Every message gives the offset.
 */
#ifndef CORE_FILES_SAFETENSORS_H
#define CORE_FILES_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

#define SAFETENSORS_MAX_RANK 8

typedef enum safetensors_dtype {
    ST_F64,
    ST_F32,
    ST_F16,
    ST_BF16,
    ST_I64,
    ST_I32,
    ST_I16,
    ST_I8,
    ST_U64,
    ST_U32,
    ST_U16,
    ST_U8,
    ST_BOOL,
    ST_F8_E4M3,
    ST_F8_E5M2,
    ST_DTYPE_COUNT
} safetensors_dtype;

const char *safetensors_dtype_name(safetensors_dtype dtype); /* "F32" */

typedef struct safetensors_tensor {
    const char *name;
    safetensors_dtype dtype;
    int rank;
    int64_t dim[SAFETENSORS_MAX_RANK];
    int64_t count;
    const uint8_t *data; /* inside the file; unaligned, so read it through safetensors_f32 or memcpy */
    uint64_t bytes;
} safetensors_tensor;

typedef struct safetensors safetensors;

/* Maps the file. */
PROPANE_CHECK propane_status safetensors_open(const char *path, safetensors **out, propane_error *err);
/* `data` must outlive the result; `source` is its name in messages. */
PROPANE_CHECK propane_status safetensors_parse(const void *data, size_t length, const char *source, safetensors **out,
                                               propane_error *err);
void safetensors_close(safetensors *s);
const char *safetensors_source(const safetensors *s);
int safetensors_count(const safetensors *s);
const safetensors_tensor *safetensors_at(const safetensors *s, int index);          /* in file order */
const safetensors_tensor *safetensors_find(const safetensors *s, const char *name); /* NULL if there is none */
/* Reads all of an open file and compares its checksums. A file without checksums passes. */
PROPANE_CHECK propane_status safetensors_verify(const safetensors *s, propane_error *err);
/* Does the same for a model's weights. The process may turn this check off. */
PROPANE_CHECK propane_status safetensors_verify_model(const safetensors *s, propane_error *err);
void safetensors_verify_models(bool verify);                             /* true by default */
const char *safetensors_metadata(const safetensors *s, const char *key); /* NULL if there is none */
/* Finds a tensor of a given dtype and shape (any shape if rank < 0). Messages name the file, the tensor, and both
 * dtypes and shapes. */
PROPANE_CHECK propane_status safetensors_expect(const safetensors *s, const char *name, safetensors_dtype dtype,
                                                int rank, const int64_t *dim, const safetensors_tensor **out,
                                                propane_error *err);
/* Converts all elements to float, from F32, F16, BF16 or F64. Other dtypes return PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status safetensors_f32(const safetensors *s, const safetensors_tensor *t, float *out,
                                             propane_error *err);

/* Writing: declare all tensors, then pass their bytes in the same order in pieces of any size, then commit. Checksums
 * of the header and of each tensor go into the metadata, for safetensors_verify. */
typedef struct safetensors_writer safetensors_writer;
PROPANE_CHECK propane_status safetensors_writer_open(const char *path, safetensors_writer **out, propane_error *err);
PROPANE_CHECK propane_status safetensors_writer_metadata(safetensors_writer *w, const char *key, const char *value,
                                                         propane_error *err);
PROPANE_CHECK propane_status safetensors_writer_declare(safetensors_writer *w, const char *name,
                                                        safetensors_dtype dtype, int rank, const int64_t *dim,
                                                        propane_error *err);
PROPANE_CHECK propane_status safetensors_writer_data(safetensors_writer *w, const void *data, size_t bytes,
                                                     propane_error *err);
/* Syncs and renames the file. Frees the writer even on failure. Fails if bytes are missing. */
PROPANE_CHECK propane_status safetensors_writer_commit(safetensors_writer *w, propane_error *err);
void safetensors_writer_abort(safetensors_writer *w);

#endif
