/* SPDX-License-Identifier: MIT
 * GGUF files (versions 2 and 3, little endian). A file has metadata (keys and typed values), a directory of tensors,
 * and the tensors' bytes from an aligned offset on. Every count, length and offset is checked against the file before
 * it is used.
 */
#ifndef LM_FILES_GGUF_H
#define LM_FILES_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/text.h"
#include "lm/arch/model_tensors.h"
#include "lm/text/tokenizer.h"

typedef enum gguf_value_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUE_TYPES
} gguf_value_type;

/* Tensor types with their numbers in files: GGUF_TYPE_F32, GGUF_TYPE_Q4_K, ... */
#define GGUF_KNOWN(number, NAME, block, bytes)                            GGUF_TYPE_##NAME = number,
#define GGUF_READ(number, NAME, word, block, bytes)                       GGUF_TYPE_##NAME = number,
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow) GGUF_TYPE_##NAME = number,
typedef enum gguf_type {
#include "lm/files/gguf_types.def"
} gguf_type;

/* A row of gguf_types.def. */
typedef struct gguf_type_info {
    int type;
    const char *name, *word; /* "Q4_K", "q4_k" */
    int block, bytes;        /* elements per block and bytes per block */
    int file_type;           /* general.file_type */
    gguf_type narrow;        /* type for rows that are not a multiple of the block */
    /* NULL if the type cannot be read; `count` is in blocks */
    void (*decode)(const uint8_t *blocks, int64_t count, float *out);
    void (*encode)(const float *values, int64_t count, uint8_t *out); /* NULL if the type cannot be written */
} gguf_type_info;
const gguf_type_info *gguf_type_get(int type);          /* NULL if unknown */
const gguf_type_info *gguf_type_find(const char *word); /* searches the writable types; NULL if none */
/* Writes the words of the writable types to `out`, separated by `between`, and returns `out`. */
enum { GGUF_TYPE_WORDS = 200 };
const char *gguf_type_words(const char *between, char out[GGUF_TYPE_WORDS]);
/* writes the names of the readable types, separated by commas */
const char *gguf_type_names(char out[GGUF_TYPE_WORDS]);

typedef struct gguf_value {
    const char *key;
    gguf_value_type type, item; /* `item` is the type of an array's items */
    uint64_t count;             /* items of an array, or bytes of a text */
    const uint8_t *data;        /* not aligned */
    uint64_t bytes;
} gguf_value;

enum { GGUF_MAX_RANK = 4 };
typedef struct gguf_tensor {
    const char *name;
    const gguf_type_info *type;
    int rank;
    int64_t dim[GGUF_MAX_RANK]; /* as in the file: dim[0] is the innermost */
    int64_t count;
    const uint8_t *data;
    uint64_t bytes;
} gguf_tensor;

typedef struct gguf gguf;

PROPANE_CHECK propane_status gguf_open(const char *path, gguf **out, propane_error *err); /* maps the file */
PROPANE_CHECK propane_status gguf_parse(const void *data, size_t length, const char *source, gguf **out,
                                        propane_error *err);
void gguf_close(gguf *g);
const char *gguf_source(const gguf *g);
int gguf_value_count(const gguf *g);
const gguf_value *gguf_value_at(const gguf *g, int index);
const gguf_value *gguf_find(const gguf *g, const char *key); /* NULL if there is none */
int gguf_tensor_count(const gguf *g);
const gguf_tensor *gguf_tensor_at(const gguf *g, int index);
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name);

/* Read values by key. If a key is missing and not required, *out is unchanged. */
PROPANE_CHECK propane_status gguf_get_int(const gguf *g, const char *key, bool required, int64_t min, int64_t max,
                                          int64_t *out, propane_error *err);
PROPANE_CHECK propane_status gguf_get_real(const gguf *g, const char *key, bool required, double *out,
                                           propane_error *err);
PROPANE_CHECK propane_status gguf_get_bool(const gguf *g, const char *key, bool *out, propane_error *err);
/* Reads a string. *out is terminated and lives as long as `g`. */
PROPANE_CHECK propane_status gguf_get_text(const gguf *g, const char *key, bool required, const char **out,
                                           propane_error *err);
/* Finds an array with the given item type (GGUF_I32 also accepts U32). Sets *out to NULL if the key is missing and not
 * required. */
PROPANE_CHECK propane_status gguf_get_array(const gguf *g, const char *key, bool required, gguf_value_type item,
                                            const gguf_value **out, propane_error *err);
/* Returns the next string of an array of strings; *at starts at 0. Lengths were checked when the file was opened. */
const char *gguf_next_text(const gguf_value *array, uint64_t *at, size_t *length);
int64_t gguf_item_int(const gguf_value *array, uint64_t index); /* for integers and booleans */
double gguf_item_real(const gguf_value *array, uint64_t index); /* for F32 and F64 */

/* Converts a tensor's elements to float. Returns PROPANE_ERR_UNSUPPORTED, with the type's name, if the type cannot be
 * read. */
PROPANE_CHECK propane_status gguf_f32(const gguf *g, const gguf_tensor *t, float *out, propane_error *err);
/* Decodes `count` elements (a multiple of the block) of a readable type. The values have the same bits as ggml's. */
void gguf_decode_blocks(gguf_type type, const uint8_t *blocks, int64_t count, float *out);
/* Encodes `count` elements (a multiple of the block) in a writable type. Returns the number of bytes written. */
size_t gguf_encode_blocks(gguf_type type, const float *values, int64_t count, uint8_t *out);

/* A header being built. */
typedef struct gguf_header {
    text values, tensors;
    uint64_t value_count, tensor_count, data_bytes;
} gguf_header;
void gguf_header_deinit(gguf_header *h);
void gguf_put_u32(gguf_header *h, const char *key, uint32_t value);
void gguf_put_f32(gguf_header *h, const char *key, float value);
void gguf_put_bool(gguf_header *h, const char *key, bool value);
void gguf_put_text(gguf_header *h, const char *key, const char *value);
/* Begins an array; the caller appends its items to h->values with gguf_put_item_*. */
void gguf_put_array(gguf_header *h, const char *key, gguf_value_type item, uint64_t count);
void gguf_put_item_text(gguf_header *h, const char *data, size_t length);
void gguf_put_item_i32(gguf_header *h, int32_t value);
void gguf_put_item_f32(gguf_header *h, float value);
/* Declares a tensor; dim[0] is the innermost. Tensors are stored in the order of declaration, each aligned to 32
 * bytes. */
void gguf_put_tensor(gguf_header *h, const char *name, int rank, const int64_t *dim, gguf_type type);
uint64_t gguf_tensor_bytes(gguf_type type, int64_t count);
/* Appends the header's bytes to `out`, padded to the alignment of the data. */
void gguf_print_header(const gguf_header *h, text *out);

/* ---- models (gguf_model.c) and vocabularies (gguf_tokenizer.c) ---- */

PROPANE_CHECK propane_status gguf_config(const gguf *g, model_config *out, propane_error *err);
/* Reads a model. With `stored`, matrices stay in the file's form (lm/arch/stored_weights.h); otherwise all tensors
 * become fp32. */
PROPANE_CHECK propane_status gguf_read_model(const char *path, bool stored, model_weights **out, propane_error *err);
/* Writes a model with matrices of the writable type `type`, and vectors and routers as F32. A matrix whose rows are not
 * a multiple of the block has the type's `narrow` type. `t` may be NULL. */
PROPANE_CHECK propane_status gguf_write_model(const model_weights *w, const tokenizer *t, const char *path,
                                              gguf_type type, propane_error *err);
/* Writes only the adapters of `w`, in the form that llama.cpp's option --lora reads. */
PROPANE_CHECK propane_status gguf_write_adapter(const model_weights *w, const char *path, propane_error *err);
PROPANE_CHECK propane_status gguf_read_tokenizer(const gguf *g, tokenizer **out, propane_error *err);
/* Writes the keys tokenizer.ggml.* with `vocab` ids; ids that the tokenizer lacks become unused tokens. */
PROPANE_CHECK propane_status gguf_put_tokenizer(gguf_header *h, const tokenizer *t, int64_t vocab, propane_error *err);

#endif
