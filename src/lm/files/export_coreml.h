/* SPDX-License-Identifier: MIT
 * A language model as one ML Program: what Core ML's language model code calls token by token (docs/coreml.md).
 */
#ifndef LM_FILES_EXPORT_COREML_H
#define LM_FILES_EXPORT_COREML_H

#include "core/mil/mil.h"
#include "lm/arch/model_tensors.h"

#define MODEL_EXPORT_LENGTHS 8
#define MODEL_EXPORT_CONTEXT                                                                                           \
    2048 /* positions of the cache, where the model can do more and nothing else is asked for */

typedef struct model_export_options {
    mil_dtype dtype;  /* MIL_fp16, or MIL_fp32: of weights, caches and arithmetic */
    int64_t context;  /* positions of the cache; 0: the model's own, at most MODEL_EXPORT_CONTEXT */
    int length_count; /* 0: 1 and 64, or less where the cache is shorter */
    int64_t lengths[MODEL_EXPORT_LENGTHS]; /* tokens that one call may take; the first is the default */
    int64_t stateless; /* tokens of every call of a program without a cache, for iOS 15; 0: with one */
} model_export_options;

/* Makes the module, with its description for mil_package_write:
 *     inputIds int32 [1,T], position int32 [1], causalMask [1,1,T,context],
 *     states keyCache, valueCache [layers,KVH,context,HD]  ->  logits [1,T,V]
 * or, without states, inputIds int32 [1,T] -> logits [1,T,V] in fp32. `options` are filled in where they were open. */
PROPANE_CHECK propane_status model_export(model_weights *w, model_export_options *options, mil_module **out,
                                          propane_error *err);

#endif
