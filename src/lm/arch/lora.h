/* SPDX-License-Identifier: MIT
 * Low-rank adapters (Hu et al.). A matrix W of a layer is replaced by W + scale * B A. A [rank, in] and B [out, rank]
 * are trained, and W stays unchanged. In the registry, the adapters follow the model's own tensors
 * (model_weights.adapter_count). In the forward functions, they follow the other parameters, as PARAM_lora_a and
 * PARAM_lora_b.
 *
 * Matrices that files hold as one (GPT-2's c_attn: queries, keys, values) are adapted together, as one module. The
 * matrices of a module share one A, that of the module's first matrix, and each has its own rows of B.
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
    double dropout;    /* dropout of A's input in training */
    char targets[300]; /* comma-separated parameters: "q_proj,v_proj" */
    char modules[300]; /* the modules of these parameters, by their names in files: "c_attn" */
} model_lora;

double model_lora_scale(const model_lora *l);
bool model_lora_targets(const model_lora *l, const char *param);
/* Returns the parameter whose A serves the matrix `param`. If files hold several matrices as one, this is the first of
 * them; otherwise it is `param` itself. */
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

bool model_adapter_is(const char *path); /* whether `path` is a folder with an adapter's configuration */
/* Reads only the configuration. Returns PROPANE_ERR_UNSUPPORTED with the setting's name if an unsupported setting would
 * change the numbers (bias, DoRA, modules_to_save, per-module ranks). */
PROPANE_CHECK propane_status model_adapter_config(const char *dir, const model_config *c, model_lora *out,
                                                  propane_error *err);
/* Sets *out to the name of the adapter's base model, as its configuration gives it; the caller frees the name with
 * mem_free. Sets *out to NULL if the configuration names no model. */
PROPANE_CHECK propane_status model_adapter_base(const char *dir, char **out, propane_error *err);
/* Adds the folder's adapters to a model without adapters. */
PROPANE_CHECK propane_status model_adapter_read(struct model_weights *w, const char *dir, propane_error *err);
/* Makes the folder `dir` and writes the adapters in fp32. `base` is written as base_model_name_or_path. */
PROPANE_CHECK propane_status model_adapter_write(const struct model_weights *w, const char *dir, const char *base,
                                                 propane_error *err);

#endif
