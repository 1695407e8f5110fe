/* SPDX-License-Identifier: MIT
 * Owns the public functions for training plans. lm/step/partition.h makes a plan.
 */
#include "lm/run/public_plan.h"

#include <string.h>

#include "ane/chip/chip.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/run/run_folder.h"
#include "lm/step/partition.h"

struct propane_plan {
    partition *p;
    model_config config;
    model_lora lora;
};

const char *propane_weight_modes(void) { return WEIGHT_MODE_WORDS; }

/* ---- models ----------------------------------------------------------------------------------------------------------------- */

/* Models that need no file, for plans and estimates. Most published training steps use these sizes. */
static const struct {
    const char *name;
    int64_t layers, width, hidden, heads, vocabulary;
} plan_models[] = {{"stories110m", 12, 768, 2048, 12, 32000}};
enum { PLAN_MODELS = sizeof plan_models / sizeof plan_models[0] };

/* Returns the index of the row with this name, or PLAN_MODELS if there is none. */
static int plan_model(const char *name) {
    int i = 0;
    while (i < PLAN_MODELS && strcmp(plan_models[i].name, name) != 0) i++;
    return i;
}

bool api_plan_is_sizes(const char *model) { return plan_model(model) < PLAN_MODELS || text_ends_with(model, ".json"); }

bool propane_plan_takes(const char *model) { return model && (api_plan_is_sizes(model) || run_is_model(model)); }

propane_status api_plan_config(const char *model, model_config *out, propane_error *err) {
    const int i = plan_model(model);
    if (i == PLAN_MODELS) return run_config(model, out, err);
    model_config_default(out);
    out->num_hidden_layers = plan_models[i].layers;
    out->hidden_size = plan_models[i].width;
    out->intermediate_size = plan_models[i].hidden;
    out->num_attention_heads = out->num_key_value_heads = plan_models[i].heads;
    out->head_dim = plan_models[i].width / plan_models[i].heads;
    out->vocab_size = plan_models[i].vocabulary;
    out->tie_word_embeddings = true;
    return PROPANE_OK;
}

propane_status api_plan_check_stream(const char *stream, propane_error *err) {
    return !stream || strcmp(stream, "fp16") == 0 || strcmp(stream, "fp32") == 0
               ? PROPANE_OK
               : propane_fail(err, PROPANE_ERR_INVALID, "stream '%.40s' is not one of fp32, fp16", stream);
}

/* ---- plans ------------------------------------------------------------------------------------------------------------------ */

static propane_status api_plan_fill(propane_plan *p, const char *model, const propane_plan_options *o,
                                    propane_error *err) {
    const bool half = o->precision && strcmp(o->precision, "fp16") == 0;
    partition_options own = {.name = o->plan ? o->plan : "layer",
                             .precision = half ? MIL_fp16 : MIL_fp32,
                             .batch = o->batch ? o->batch : 1,
                             .context = o->context,
                             .head = partition_head_find(o->head ? o->head : "auto"),
                             .gradients = o->gradients && strcmp(o->gradients, "device") == 0,
                             .half_stream = o->stream && strcmp(o->stream, "fp16") == 0,
                             .sum_bytes = half ? PARTITION_SUM_BYTES : 0};
    if (own.head == PARTITION_HEAD_COUNT)
        return propane_fail(err, PROPANE_ERR_INVALID, "head '%.40s' is not one of auto, host, device", o->head);
    if (o->gradients && !own.gradients && strcmp(o->gradients, "host") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "gradients '%.40s' is not one of host, device", o->gradients);
    PROPANE_TRY(api_plan_check_stream(o->stream, err));
    if (own.batch < 1 || own.context < 0 || o->lora_rank < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "batch, context and rank must not be negative");
    if (o->precision && !half && strcmp(o->precision, "fp32") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "precision '%.40s' is not one of fp32, fp16", o->precision);
    if (model) PROPANE_TRY(api_plan_config(model, &p->config, err));
    if (!model) model_config_default(&p->config);
    if (!own.context) own.context = p->config.max_position_embeddings < 256 ? p->config.max_position_embeddings : 256;
    if (!model && p->config.max_position_embeddings < own.context) p->config.max_position_embeddings = own.context;
    const double mask = 16 * (double)own.context * (double)own.context, memory = (double)mem_physical();
    if (memory > 0 && mask > memory)
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "context %lld: building its causal mask takes %.3g GB, but the machine has %.3g GB",
                            (long long)own.context, mask / 1e9, memory / 1e9);
    partition_split_head(&p->config, own.batch, own.context);
    if (o->lora_rank > 0) {
        p->lora = (model_lora){.rank = o->lora_rank, .alpha = (double)o->lora_rank};
        PROPANE_TRY(model_lora_choose(&p->lora, &p->config, "", err));
        own.lora = &p->lora, own.trained = partition_is_adapter;
    }
    return partition_create(&p->config, &own, &p->p, err);
}

propane_status propane_plan_create(const char *model, const propane_plan_options *options, propane_plan **out,
                                   propane_error *err) {
    if (out) *out = NULL;
    NEED(err, out);
    if (model) NEED_TEXT(err, model);
    API_ERROR(err);
    propane_plan_options o = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_plan_options", err));
    propane_plan *p = mem_alloc(sizeof *p);
    if (!p) return propane_fail_memory(err, sizeof *p);
    propane_status status = api_plan_fill(p, model, &o, err);
    if (status)
        propane_plan_free(p);
    else
        *out = p;
    return status;
}

void propane_plan_free(propane_plan *plan) {
    if (!plan) return;
    partition_free(plan->p);
    mem_free(plan);
}

propane_status propane_plan_print(const propane_plan *plan, char **out, size_t *length, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, plan, out);
    text to = {0};
    partition_print(plan->p, &to);
    return api_give_text(&to, out, length, err);
}

propane_status propane_plan_supported(const propane_plan *plan, const char *name, const char *weights,
                                      propane_error *why) {
    NEED_AS(why, "plan, chip", plan, name);
    const chip *chips[CHIP_COUNT];
    int count = 0;
    const weight_mode mode = weight_mode_find(weights ? weights : "inputs");
    PROPANE_TRY(chip_find_list(name, chips, &count, why));
    if (mode == WEIGHT_MODE_COUNT)
        return propane_fail(why, PROPANE_ERR_INVALID, "weights is '%.40s'; it must be one of %s", weights,
                            WEIGHT_MODE_WORDS);
    for (int i = 0; i < count; i++) PROPANE_TRY(partition_supports(plan->p, chips[i], 0, mode, why));
    return PROPANE_OK;
}

propane_module *propane_plan_module(propane_plan *plan) { return plan ? plan->p->module : NULL; }
