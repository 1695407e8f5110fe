/* SPDX-License-Identifier: MIT
 * Low-rank adapters (Hu et al.): a matrix W of a layer's halves becomes W + scale * B A, with A [rank, in] and B [out,
 * rank] learnt and W left as it is. The adapters are tensors of the registry behind the model's own
 * (model_weights.adapter_count) and parameters of the forward functions behind theirs: PARAM_lora_a and PARAM_lora_b.
 *
 * Matrices that files hold as one (GPT-2's c_attn: queries, keys, values) are adapted together, as one module: they
 * share an A, that of the first of them, and each has its rows of B.
 *
 * On disk an adapter is a folder in the form of the package peft: adapter_config.json and adapter_model.safetensors.
 */
#ifndef LM_ARCH_LORA_H
#define LM_ARCH_LORA_H

#include <stddef.h>

#include "lm/arch/arch.h"

struct model_weights;

/* Plain data. rank 0: no adapters. */
typedef struct model_lora {
    int64_t rank;
    double alpha;      /* scale = alpha / rank */
    bool rank_root;    /* scale = alpha / sqrt(rank): peft's use_rslora */
    double dropout;    /* of what A reads, while training */
    char targets[300]; /* parameters, separated by commas: "q_proj,v_proj" */
    char modules[300]; /* the same, as files and people call them: "c_attn" */
} model_lora;

double model_lora_scale(const model_lora *l);
bool model_lora_targets(const model_lora *l, const char *param);
/* The parameter whose A a matrix reads: itself, or the first of those that files hold as one with it. */
const char *model_lora_leader(const model_config *c, model_part part, const char *param);
/* Fills l->targets and l->modules from a list of modules and patterns with * ("q_proj,v_proj", "*_proj", "mlp.c_proj");
 * "all": every matrix of the layers; "": what the architecture's row says. Checks rank, alpha and dropout. A name that
 * the architecture does not have lists those that it has. */
PROPANE_CHECK propane_status model_lora_choose(model_lora *l, const model_config *c, const char *targets,
                                               propane_error *err);

/* Adds the adapters' tensors, all zero, to a model that has none. */
PROPANE_CHECK propane_status model_weights_add_lora(struct model_weights *w, const model_lora *l, propane_error *err);
/* As peft begins: A uniform between -1/sqrt(in) and 1/sqrt(in), B zero, so that the model is unchanged at first. */
void model_lora_init(struct model_weights *w, uint64_t seed);
/* W += scale * B A in fp32, and the adapters are taken away. */
PROPANE_CHECK propane_status model_lora_merge(struct model_weights *w, propane_error *err);

#define MODEL_ADAPTER_CONFIG  "adapter_config.json"
#define MODEL_ADAPTER_WEIGHTS "adapter_model.safetensors"

bool model_adapter_is(const char *path); /* a folder with an adapter's configuration */
/* The configuration alone. What would change the numbers and is not here (bias, DoRA, modules_to_save, ranks of their
 * own) is PROPANE_ERR_UNSUPPORTED and named. */
PROPANE_CHECK propane_status model_adapter_config(const char *dir, const model_config *c, model_lora *out,
                                                  propane_error *err);
/* The model that the adapter is for, as its configuration names it; mem_free it. NULL without an error: it names
 * none. */
PROPANE_CHECK propane_status model_adapter_base(const char *dir, char **out, propane_error *err);
/* Adds the folder's adapters to a model that has none. */
PROPANE_CHECK propane_status model_adapter_read(struct model_weights *w, const char *dir, propane_error *err);
/* `base`: what base_model_name_or_path shall say. The folder is made; fp32. */
PROPANE_CHECK propane_status model_adapter_write(const struct model_weights *w, const char *dir, const char *base,
                                                 propane_error *err);

#endif
