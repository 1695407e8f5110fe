/* SPDX-License-Identifier: MIT
 * Owns the keys of configurations that describe experts.
 */
#include "lm/arch/config_experts.h"

enum { EXPERTS_MAX = 1024, EXPERTS_HIDDEN_MAX = 1 << 20 };

void config_experts_default(const model_arch *a, model_config *c) {
    if (!a->experts) return;
    c->num_experts = 8;
    c->num_experts_per_tok = 2;
    c->moe_intermediate_size = (c->intermediate_size / 2 + 31) / 32 * 32;
    c->norm_topk_prob = true;
}

/* Reads the number of experts. transformers 5 writes num_local_experts instead of num_experts. */
static propane_status experts_read_count(const json_t *object, const char *source, model_config *c,
                                         propane_error *err) {
    c->num_experts = 128;
    PROPANE_TRY(json_get_int(object, source, "num_local_experts", false, 1, EXPERTS_MAX, &c->num_experts, err));
    return json_get_int(object, source, "num_experts", false, 1, EXPERTS_MAX, &c->num_experts, err);
}

propane_status config_experts_read(const json_t *object, const model_arch *a, const char *source, model_config *c,
                                   propane_error *err) {
    if (!a->experts) return PROPANE_OK;
    c->num_experts_per_tok = 8, c->moe_intermediate_size = 768, c->norm_topk_prob = false;
    PROPANE_TRY(experts_read_count(object, source, c, err));
    PROPANE_TRY(
        json_get_int(object, source, "num_experts_per_tok", false, 1, EXPERTS_MAX, &c->num_experts_per_tok, err));
    PROPANE_TRY(json_get_int(object, source, "moe_intermediate_size", false, 1, EXPERTS_HIDDEN_MAX,
                             &c->moe_intermediate_size, err));
    return json_get_bool(object, source, "norm_topk_prob", false, &c->norm_topk_prob, err);
}

propane_status config_experts_check(const model_config *c, const char *source, propane_error *err) {
    if (!model_arch_of(c)->experts) {
        if (c->num_experts == 0) return PROPANE_OK;
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: a model of type %s has no experts, not %lld", source,
                            c->model_type, (long long)c->num_experts);
    }
    if (c->num_experts < 1 || c->num_experts > EXPERTS_MAX || c->moe_intermediate_size < 1 ||
        c->moe_intermediate_size > EXPERTS_HIDDEN_MAX / c->num_experts)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: num_experts is %lld and moe_intermediate_size %lld; there must be 1 to %d experts, whose "
            "sizes add up to at most %d",
            source, (long long)c->num_experts, (long long)c->moe_intermediate_size, EXPERTS_MAX, EXPERTS_HIDDEN_MAX);
    if (c->num_experts_per_tok >= 1 && c->num_experts_per_tok <= c->num_experts) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: num_experts_per_tok is %lld; it must be 1 to num_experts, %lld",
                        source, (long long)c->num_experts_per_tok, (long long)c->num_experts);
}

void config_experts_write(const model_config *c, json_t *o) {
    if (!c->num_experts) return;
    json_put(o, "num_experts", json_integer(c->num_experts));
    json_put(o, "num_experts_per_tok", json_integer(c->num_experts_per_tok));
    json_put(o, "moe_intermediate_size", json_integer(c->moe_intermediate_size));
    json_put(o, "norm_topk_prob", json_boolean(c->norm_topk_prob));
    json_put(o, "decoder_sparse_step", json_integer(1));
    json_put(o, "mlp_only_layers", json_array());
}

bool config_experts_equal(const model_config *a, const model_config *b) {
    return a->num_experts == b->num_experts && a->num_experts_per_tok == b->num_experts_per_tok &&
           a->moe_intermediate_size == b->moe_intermediate_size && a->norm_topk_prob == b->norm_topk_prob;
}
