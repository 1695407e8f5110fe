/* SPDX-License-Identifier: MIT
 * Exports a language model as one ML Program that Core ML's language model code calls token by token (docs/coreml.md).
 */
#ifndef LM_FILES_EXPORT_COREML_H
#define LM_FILES_EXPORT_COREML_H

#include "core/mil/mil.h"
#include "lm/arch/model_tensors.h"

#define MODEL_EXPORT_LENGTHS 8
#define MODEL_EXPORT_CONTEXT 2048 /* default positions of the cache, if the model has more */

typedef struct model_export_options {
    mil_dtype dtype;  /* MIL_fp16 or MIL_fp32, for weights, caches and arithmetic */
    int64_t context;  /* positions of the cache; 0 means the model's number, but at most MODEL_EXPORT_CONTEXT */
    int length_count; /* number of `lengths`; 0 means 1 and 64 tokens, or fewer if the cache is shorter */
    int64_t lengths[MODEL_EXPORT_LENGTHS]; /* numbers of tokens that a call may have; the first is the default */
    int64_t stateless; /* tokens per call of a program without a cache, for iOS 15; 0 makes a program with a cache */
} model_export_options;

/* Makes the module, with its description for mil_package_write:
 *
 *     inputIds int32 [1,T], position int32 [1], causalMask [1,1,T,context],
 *     states keyCache, valueCache [layers,KVH,context,HD]  ->  logits [1,T,V]
 *
 * A program without states is inputIds int32 [1,T] -> logits [1,T,V] in fp32. Zeros in `options` are replaced by the
 * chosen values. */
PROPANE_CHECK propane_status model_export(model_weights *w, model_export_options *options, mil_module **out,
                                          propane_error *err);

#endif
