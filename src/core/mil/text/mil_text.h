/* SPDX-License-Identifier: MIT
 * MIL text, both ways. The parser takes both dialects, mixed; the printer writes the one it is asked for, and what it
 * writes reads back to the same bits.
 */
#ifndef CORE_MIL_TEXT_MIL_TEXT_H
#define CORE_MIL_TEXT_MIL_TEXT_H

#include "core/base/text.h"
#include "core/mil/mil.h"

typedef enum mil_dialect {
    MIL_SHORT,    /* program(1.3), fp16 e = const()[..., val = fp16(0x1p-3)] */
    MIL_CANONICAL /* program(1.0), rank-0 tensors: tensor<fp16, []> */
} mil_dialect;

typedef struct mil_print_options {
    mil_dialect dialect;
    bool inline_blobs;  /* write constants that have a blob_path as BLOBFILE (false) or as literals (true) */
    bool name_literals; /* literals in argument lists become const statements, as in the canonical dialect always */
} mil_print_options;

/* Parses and verifies. `source` names the text in messages; `model_dir` may be NULL. Depth, counts and literal sizes
 * are bounded: no input makes it abort, hang or take more memory than a small multiple of the text plus its weight
 * files. */
PROPANE_CHECK propane_status mil_parse(const char *text, size_t length, const char *source, const char *model_dir,
                                       mil_module **out, propane_error *err);
/* With shapes for the parameters that the text leaves open (core/mil/coreml/package.h); NULL: its own default
 * shapes. */
struct mil_read_options;
PROPANE_CHECK propane_status mil_parse_file_shaped(const char *path, const struct mil_read_options *options,
                                                   mil_module **out, propane_error *err);
PROPANE_CHECK propane_status mil_parse_shaped(const char *text, size_t length, const char *source,
                                              const char *model_dir, const struct mil_read_options *options,
                                              mil_module **out, propane_error *err);
/* Appends the program to `out` (NULL options: short); the only failure is no memory (out->failed). Constants that were
 * built in memory and have no blob_path are printed as literals, whatever their size. */
void mil_print(text *out, const mil_module *m, const mil_print_options *options);
void mil_print_op(text *out, const mil_op *op, mil_dialect dialect);
/* Writes DIR/weights/weight.bin as mil_write_dir does, without the text; no such constants: nothing. */
PROPANE_CHECK propane_status mil_write_weights(mil_module *m, const char *dir, propane_error *err);
/* Writes DIR/model.mil and the weight files (one MILBlob file DIR/weights/weight.bin for all constants of more than 16
 * elements; each of those gets its blob_path and offset, and `dir` becomes the module's model_dir). Atomic per file. */
PROPANE_CHECK propane_status mil_write_dir(mil_module *m, const char *dir, mil_dialect dialect, propane_error *err);

#endif
