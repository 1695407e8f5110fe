/* SPDX-License-Identifier: MIT
 * Declares reading and printing of MIL text. The parser accepts both dialects, even mixed. The printer writes the
 * requested one, and its output reads back to the same bits.
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
    bool inline_blobs; /* write constants with a blob_path as literals, not as BLOBFILE */
    /* Turn literals in argument lists into const statements, as the canonical dialect always does. */
    bool name_literals;
} mil_print_options;

/* Parses and verifies a program. `source` names the text in messages; `model_dir` may be NULL. Depth, counts and
 * literal sizes are bounded: no input causes an abort, a hang, or memory use beyond a small multiple of the text plus
 * its weight files. */
PROPANE_CHECK propane_status mil_parse(const char *text, size_t length, const char *source, const char *model_dir,
                                       mil_module **out, propane_error *err);
/* Parse a file or a text with shapes for the parameters that the text leaves open (core/mil/coreml/package.h). NULL
 * options mean the text's default shapes. */
struct mil_read_options;
PROPANE_CHECK propane_status mil_parse_file_shaped(const char *path, const struct mil_read_options *options,
                                                   mil_module **out, propane_error *err);
PROPANE_CHECK propane_status mil_parse_shaped(const char *text, size_t length, const char *source,
                                              const char *model_dir, const struct mil_read_options *options,
                                              mil_module **out, propane_error *err);
/* Appends the program to `out`. NULL options mean the short dialect. The only failure is lack of memory (out->failed).
 * Constants of any size that were built in memory and have no blob_path are printed as literals. */
void mil_print(text *out, const mil_module *m, const mil_print_options *options);
void mil_print_op(text *out, const mil_op *op, mil_dialect dialect);
/* Writes DIR/weights/NAME.bin as mil_write_dir writes weight.bin, but no text. Writes nothing if no constant belongs in
 * the file. */
PROPANE_CHECK propane_status mil_write_weights(mil_module *m, const char *dir, const char *name, propane_error *err);
/* Writes DIR/model.mil and the weight file DIR/weights/weight.bin, one MILBlob file for all constants that have more
 * than 16 elements or come from a weight file. Each of these constants gets its blob_path and offset, and `dir` becomes
 * the module's model_dir. Each file is written atomically. */
PROPANE_CHECK propane_status mil_write_dir(mil_module *m, const char *dir, mil_dialect dialect, propane_error *err);

#endif
