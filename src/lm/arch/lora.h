/* SPDX-License-Identifier: MIT
 * Low-rank adapters (Hu et al.): a matrix W of a layer's halves becomes W + scale * B A. A [rank, in] and B [out, rank]
 * are trained, and W is left unchanged. The adapters follow the model's own tensors in the registry
 * (model_weights.adapter_count) and the other parameters of the forward functions, as PARAM_lora_a and PARAM_lora_b.
 *
 * Matrices that files hold as one (GPT-2's c_attn: queries, keys, values) are adapted together, as one module. They
 * share the A of the first of them, and each has its rows of B.
 *
 * On disk an adapter is a folder in the format of the package peft: adapter_config.json and adapter_model.safetensors.
 */
#ifndef LM_ARCH_LORA_H
#define LM_ARCH_LORA_H

#include <stddef.h>

#include "lm/arch/arch.h"

struct model_weights;

/* Plain data. Rank 0 means no adapters. */
typedef struct model_lora {
    int64_t rank;
    double alpha;      /* scale = alpha / rank */
    bool rank_root;    /* scale = alpha / sqrt(rank): peft's use_rslora */
    double dropout;    /* dropout of A's input, in training */
    char targets[300]; /* parameters, comma-separated: "q_proj,v_proj" */
    char modules[300]; /* the same under the names in files: "c_attn" */
} model_lora;

double model_lora_scale(const model_lora *l);
bool model_lora_targets(const model_lora *l, const char *param);
/* Returns the parameter whose A a matrix reads: itself, or the first of those that files hold as one with it. */
const char *model_lora_leader(const model_config *c, model_part part, const char *param);
/* Fills l->targets and l->modules from a list of modules and patterns with * ("q_proj,v_proj", "*_proj", "mlp.c_proj").
 * "all" means every matrix of the layers; "" means the default in the architecture's row. Checks rank, alpha and
 * dropout. For an unknown name, the message lists the names of the architecture. */
PROPANE_CHECK propane_status model_lora_choose(model_lora *l, const model_config *c, const char *targets,
                                               propane_error *err);

/* Adds the adapters' tensors, all zero, to a model without adapters. */
PROPANE_CHECK propane_status model_weights_add_lora(struct model_weights *w, const model_lora *l, propane_error *err);
/* Initialises adapters as peft does: A uniform between -1/sqrt(in) and 1/sqrt(in), B zero, so that the model is
 * unchanged at first. */
void model_lora_init(struct model_weights *w, uint64_t seed);
/* Computes W += scale * B A in fp32 and removes the adapters. */
PROPANE_CHECK propane_status model_lora_merge(struct model_weights *w, propane_error *err);

#define MODEL_ADAPTER_CONFIG  "adapter_config.json"
#define MODEL_ADAPTER_WEIGHTS "adapter_model.safetensors"

bool model_adapter_is(const char *path); /* whether it is a folder with an adapter's configuration */
/* Reads only the configuration. Unsupported settings that would change the numbers (bias, DoRA, modules_to_save,
 * per-module ranks) return PROPANE_ERR_UNSUPPORTED with their names. */
PROPANE_CHECK propane_status model_adapter_config(const char *dir, const model_config *c, model_lora *out,
                                                  propane_error *err);
/* Returns the model that the adapter is for, as named in its configuration; release it with mem_free. NULL without an
 * error means that none is named. */
PROPANE_CHECK propane_status model_adapter_base(const char *dir, char **out, propane_error *err);
/* Adds the folder's adapters to a model without adapters. */
PROPANE_CHECK propane_status model_adapter_read(struct model_weights *w, const char *dir, propane_error *err);
/* Writes the adapters in fp32 and makes the folder. `base` is written as base_model_name_or_path. */
PROPANE_CHECK propane_status model_adapter_write(const struct model_weights *w, const char *dir, const char *base,
                                                 propane_error *err);

#endif
