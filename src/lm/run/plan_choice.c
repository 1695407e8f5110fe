/* SPDX-License-Identifier: MIT
 * Owns the choices of --device auto, --precision auto, --plan auto and, for adapters, --weights auto. A plan changes
 * how a step is cut and where the head runs. Batches, accumulation and moments stay as given, because they affect the
 * result of training. Apart from the precision, which is measured and recorded in the checkpoint, these choices compare
 * estimates, so a resumed run makes the same choices again. Devices without a known chip are refused, and so is fp32 on
 * an engine.
 */
#include "lm/run/plan_choice.h"

#include <string.h>

#include "core/base/log.h"
#include "core/device/device.h"
#include "lm/run/memory_estimate.h"
#include "lm/step/partition_compare.h"
#include "train/weight_mode_check.h"

/* Finds the device's chip. Apple's device does not report its chip, so the oldest one is assumed: all chips accept what
 * the oldest accepts. */
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

static bool plan_choice_is_engine(const train_options *o) {
    return propane_uri_names(o->device, "sim") || propane_uri_names(o->device, "ane");
}

static void plan_choice_take(train_options *o, const partition_candidate *best) {
    for (int i = 0; i < partition_name_count(); i++)
        if (strcmp(partition_name(i), best->partition->options.name) == 0) o->plan = partition_name(i);
    o->head = partition_head_name(&best->partition->options);
    o->gradients = best->partition->options.gradients ? "device" : "host";
}

/* Compares all candidates that the options allow; the fastest comes first. */
static propane_status plan_choice_compare(const train_options *o, const model_config *config, const chip *c,
                                          partition_comparison *all, propane_error *err) {
    const partition_batches batches = {o->batch, o->accumulate};
    model_lora lora = {.rank = o->lora_rank, .alpha = o->lora_alpha};
    const partition_question q = {.weights = strcmp(o->weights, "auto") == 0 ? NULL : o->weights,
                                  .head = strcmp(o->head, "auto") == 0 ? NULL : o->head,
                                  .gradients = strcmp(o->gradients, "auto") == 0 ? NULL : o->gradients,
                                  .moments = o->moments,
                                  .lagged = strcmp(o->clipping, "lagged") == 0,
                                  .early = train_options_speculates(o),
                                  .half_stream = strcmp(o->stream, "fp16") == 0,
                                  .batches = &batches,
                                  .batch_count = 1,
                                  .context = o->context,
                                  .lora = lora.rank > 0 ? &lora : NULL};
    if (q.lora) PROPANE_TRY(model_lora_choose(&lora, config, o->lora_targets, err));
    return partition_compare(config, &q, c, all, err);
}

static propane_status plan_choice_search(train_options *o, const model_config *config, const chip *c,
                                         propane_error *err) {
    partition_comparison all;
    text words = {0};
    propane_status status = plan_choice_compare(o, config, c, &all, err);
    if (status == PROPANE_OK && all.list[0].refused[0])
        status = propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--plan auto: no plan can run on the %s: %s", c->title,
                              all.list[0].refused);
    if (status == PROPANE_OK) {
        partition_candidate_print(&all.list[0], &words);
        plan_choice_take(o, &all.list[0]);
        log_print("--plan auto: %s: estimated %.1f ms per batch on the %s, the fastest of %d",
                  words.data ? words.data : "", all.list[0].cost.step_ms, c->title, all.count);
    }
    text_deinit(&words);
    partition_comparison_free(&all);
    return status;
}

/* ---- the precision ------------------------------------------------------------------------------------------------------------ */

static propane_status plan_choice_times(const train_options *o, const model_config *config, propane_product_times *out,
                                        propane_error *err) {
    propane_device *own = NULL;
    const int64_t rows = config->num_experts ? config->moe_intermediate_size : config->intermediate_size;
    const int64_t share = o->batch / (o->mpi ? mpi_size(o->mpi) : 1);
    if (!o->shared) PROPANE_TRY(propane_device_open(o->device ? o->device : "cpu", &own, err));
    const propane_status status = propane_device_time_products(own ? own : o->shared, rows, config->hidden_size,
                                                               (share > 0 ? share : 1) * o->context, out, err);
    propane_device_close(own);
    return status;
}

static void plan_choice_print_precision(const char *taken, const propane_product_times *t, bool ranks) {
    if (t->fp32_ms <= 0)
        log_print(
            "--precision auto takes %s: this model's matrix products are not compared with bf16's, because they are "
            "small or a library computes them",
            taken);
    else if (!t->reproduced)
        log_print("--precision auto takes %s: other work on this machine affected the comparison with bf16", taken);
    else
        log_print("--precision auto takes %s: with bf16, matrix products take %.2f of fp32's time on this processor%s",
                  taken, t->bf16_ms / t->fp32_ms, ranks ? ", but not for every rank" : "");
}

propane_status train_choose_precision(train_options *o, const model_config *config, propane_error *err) {
    const bool cpu = !o->device || propane_uri_names(o->device, "cpu");
    const bool wide = cpu || propane_uri_names(o->device, "null"), open = strcmp(o->precision, "auto") == 0;
    if (strcmp(o->precision, "standard") == 0 || (open && !cpu)) o->precision = wide ? "fp32" : "fp16";
    if (!cpu || o->resume || (!open && strcmp(o->precision, "bf16") != 0)) return PROPANE_OK;
    propane_product_times t = {.size = sizeof t};
    PROPANE_TRY(plan_choice_times(o, config, &t, err));
    if (!open && t.bf16_costs && mpi_leads(o->mpi))
        log_print("--precision bf16: matrix products take %.2f times as long as with fp32 on this processor",
                  t.bf16_ms / t.fp32_ms);
    if (!open) return PROPANE_OK;
    double votes = t.bf16_pays;
    if (o->mpi) PROPANE_TRY(mpi_sum(o->mpi, &votes, 1, err));
    const bool all = votes >= (o->mpi ? mpi_size(o->mpi) : 1);
    o->precision = all ? "bf16" : "fp32";
    if (mpi_leads(o->mpi)) plan_choice_print_precision(o->precision, &t, t.bf16_pays && !all);
    return PROPANE_OK;
}

/* ---- the plan --------------------------------------------------------------------------------------------------------------- */

propane_status train_choose_plan(train_options *o, const model_config *config, propane_error *err) {
    const chip *c = NULL;
    if (strcmp(o->plan, "auto") != 0) return PROPANE_OK;
    if (!plan_choice_is_engine(o)) {
        o->plan = "layer"; /* for devices that do their own planning */
        return PROPANE_OK;
    }
    if (strcmp(o->precision, "fp16") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--plan auto: device '%s' computes in fp16; give --precision fp16", o->device);
    PROPANE_TRY(plan_choice_chip(o->device, &c, err));
    return plan_choice_search(o, config, c, err);
}

/* ---- the base of adapters ---------------------------------------------------------------------------------------------------- */

/* Finds two candidates of the run's plan: one with the base as constants, and one with the weight mode chosen so
 * far. */
static propane_status plan_choice_base_costs(const train_options *o, const model_config *config, const chip *c,
                                             partition_comparison *all, const partition_candidate **baked,
                                             const partition_candidate **otherwise, propane_error *err) {
    const partition_batches batches = {o->batch, o->accumulate};
    model_lora lora = {.rank = o->lora_rank, .alpha = o->lora_alpha};
    const partition_question q = {.plan = o->plan,
                                  .head = o->head,
                                  .gradients = "host", /* a frozen base has no weight gradients */
                                  .half_stream = strcmp(o->stream, "fp16") == 0,
                                  .moments = o->moments,
                                  .batches = &batches,
                                  .batch_count = 1,
                                  .context = o->context,
                                  .lora = &lora};
    PROPANE_TRY(model_lora_choose(&lora, config, o->lora_targets, err));
    PROPANE_TRY(partition_compare(config, &q, c, all, err));
    for (int i = 0; i < all->count; i++) {
        const weight_mode mode = all->list[i].cost.how.weights;
        if (mode == WEIGHT_MODE_BAKED) *baked = &all->list[i];
        if (mode == weight_mode_find(o->weights)) *otherwise = &all->list[i];
    }
    return PROPANE_OK;
}

/* Sets *fits to whether the device can compile that many programs in one process and, if it is not known whether the
 * device supports the mode, passes the mode's proof. */
static propane_status plan_choice_base_fits(const train_options *o, int programs, bool *fits, propane_error *err) {
    propane_device *d = NULL;
    propane_error why = {0};
    PROPANE_TRY(propane_device_open(o->device, &d, err));
    const propane_device_info *info = propane_device_describe(d);
    const int64_t limit = o->compile_budget > 0 ? o->compile_budget : info->compile_limit;
    const bool unproven = info->unproven, enough = info->shares_compiles || limit == 0 || programs <= limit;
    propane_device_close(d);
    *fits = enough && (!unproven || weight_mode_check(o->device, "baked", &why) == PROPANE_OK);
    return PROPANE_OK;
}

propane_status train_choose_base(train_options *o, const model_config *config, propane_error *err) {
    const chip *c = NULL;
    partition_comparison all = {0};
    const partition_candidate *baked = NULL, *otherwise = NULL;
    bool fits = false;
    /* a rank under mpirun cannot restart when the budget is used up */
    if (o->lora_rank == 0 || o->mpi || !plan_choice_is_engine(o) || strcmp(o->precision, "fp16") != 0)
        return PROPANE_OK;
    PROPANE_TRY(plan_choice_chip(o->device, &c, err));
    propane_status status = plan_choice_base_costs(o, config, c, &all, &baked, &otherwise, err);
    if (status == PROPANE_OK && baked && otherwise && !baked->refused[0] &&
        baked->cost.step_ms <= otherwise->cost.step_ms)
        status = plan_choice_base_fits(o, baked->cost.programs * (o->recompute ? 2 : 1), &fits, err);
    if (fits) {
        o->weights = "baked";
        log_print(
            "--weights auto: baked: the base model is constants in %d programs, compiled once; adapters are inputs",
            baked->cost.programs);
    }
    partition_comparison_free(&all);
    return status;
}

/* ---- the device -------------------------------------------------------------------------------------------------------------- */

void processor_cost(const model_config *config, const train_options *o, cost_work_kind kind, double flops,
                    const chip *c, cost_work *work, cost_unit *out) {
    const double positions = (double)(o->batch * o->context),
                 trained = kind == COST_WORK_FORWARD ? 0 : memory_estimate_trained(config, o);
    *work = (cost_work){.kind = kind,
                        .flops = flops,
                        .elements = (double)config->num_hidden_layers * (double)config->hidden_size * positions,
                        .update_bytes = trained * partition_update_bytes(MOMENT_FP32) / (double)o->accumulate};
    cost_processor(c, work, out);
}

/* Chooses between the machine's engine and its processor by their estimates. */
static propane_status plan_choice_device(train_options *o, const model_config *config, propane_error *err) {
    const chip *c = chip_get(CHIP_m1);
    const cost_work_kind kind = o->lora_rank > 0 ? COST_WORK_LORA : COST_WORK_FULL;
    partition_comparison all;
    cost_work work;
    cost_unit processor;
    PROPANE_TRY(plan_choice_compare(o, config, c, &all, err));
    const partition_cost *best = &all.list[0].cost;
    processor_cost(config, o, kind, best->engine_flops + best->host_flops, c, &work, &processor);
    const bool engine = !all.list[0].refused[0] && best->step_ms < processor.ms;
    o->device = engine ? "ane" : "cpu";
    if (all.list[0].refused[0])
        log_print("--device auto: cpu: %s", all.list[0].refused);
    else
        log_print("--device auto: %s: estimated %.1f ms per batch on the engine, %.1f ms on the processor (%s)",
                  o->device, best->step_ms, processor.ms, c->title);
    if (engine && !o->given[TRAIN_OPTION_plan]) o->plan = "auto";
    partition_comparison_free(&all);
    return PROPANE_OK;
}

propane_status train_choose_device(train_options *o, const model_config *config, propane_error *err) {
    propane_error why = {0};
    if (strcmp(o->device, "auto") != 0) return PROPANE_OK;
    int ane = 0;
    while (ane < propane_driver_count() && strcmp(propane_driver_name(ane), "ane") != 0) ane++;
    if (ane < propane_driver_count() && propane_driver_probe(ane, &why) == PROPANE_OK)
        return plan_choice_device(o, config, err);
    o->device = "cpu";
    log_print("--device auto: cpu: %s", why.text);
    return PROPANE_OK;
}
