/* SPDX-License-Identifier: MIT
 * Owns what --plan auto takes. It changes how a step is cut and where the head runs; batches, accumulation and moments stay as
 * they are given, because they change what is learnt. Estimates are compared, nothing is measured, so the same run chooses the
 * same again when it is resumed. Refuses devices that no chip is known of, and fp32 on an engine.
 */
#include "lm/run/plan_choice.h"

#include <string.h>

#include "core/base/log.h"
#include "lm/step/partition_compare.h"

/* The chip that the device stands for. Of Apple's own device nobody says it: what the oldest takes, all take. */
static propane_status plan_choice_chip(const char *device, const chip **out, propane_error *err) {
    char name[60];
    const char *sim = propane_uri_names(device, "sim") ? strchr(device, ':') : NULL;
    if (!sim) {
        *out = chip_get(CHIP_m1);
        return PROPANE_OK;
    }
    const size_t length = strcspn(sim + 1, "?");
    if (length >= sizeof name) return propane_fail(err, PROPANE_ERR_NOT_FOUND, "there is no chip '%.40s'", sim + 1);
    memcpy(name, sim + 1, length);
    name[length] = 0;
    return chip_find(name, out, err);
}

static void plan_choice_take(train_options *o, const partition_candidate *best) {
    for (int i = 0; i < partition_name_count(); i++)
        if (strcmp(partition_name(i), best->partition->options.name) == 0) o->plan = partition_name(i);
    o->head = partition_head_name(&best->partition->options);
}

static propane_status plan_choice_search(train_options *o, const model_config *config, const chip *c,
                                         propane_error *err) {
    const partition_batches batches = {o->batch, o->accumulate};
    const partition_question q = {.weights = o->weights,
                                  .head = strcmp(o->head, "auto") == 0 ? NULL : o->head,
                                  .moments = o->moments,
                                  .lagged = strcmp(o->clipping, "lagged") == 0,
                                  .early = train_options_guesses(o),
                                  .batches = &batches,
                                  .batch_count = 1,
                                  .context = o->context};
    partition_comparison all;
    text words = {0};
    propane_status status = partition_compare(config, &q, c, &all, err);
    if (status == PROPANE_OK && all.list[0].refused[0])
        status = propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--plan auto: no plan is left on the %s: %s", c->title,
                              all.list[0].refused);
    if (status == PROPANE_OK) {
        partition_candidate_print(&all.list[0], &words);
        plan_choice_take(o, &all.list[0]);
        log_tell("--plan auto: %s: estimated %.1f ms a batch on the %s, the fastest of %d",
                 words.data ? words.data : "", all.list[0].cost.step_ms, c->title, all.count);
    }
    text_deinit(&words);
    partition_comparison_free(&all);
    return status;
}

propane_status train_choose_plan(train_options *o, const model_config *config, propane_error *err) {
    const chip *c = NULL;
    if (strcmp(o->plan, "auto") != 0) return PROPANE_OK;
    if (!propane_uri_names(o->device, "sim") && !propane_uri_names(o->device, "ane")) {
        o->plan = "layer"; /* a device that plans itself */
        return PROPANE_OK;
    }
    if (strcmp(o->precision, "fp16") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--plan auto: device '%s' computes in fp16; give --precision fp16", o->device);
    PROPANE_TRY(plan_choice_chip(o->device, &c, err));
    return plan_choice_search(o, config, c, err);
}
