/* SPDX-License-Identifier: MIT
 * Owns the comparison of partitions: all requested combinations of plan, batch and weight mode, each with its cost.
 */
#include "lm/step/partition_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/limit.h"

/* Orders candidates by speed. No two candidates compare equal, because qsort is stable only on some systems, and even
 * there only if it can allocate memory. */
static int partition_compare_by_speed(const void *a, const void *b) {
    const partition_candidate *x = a, *y = b;
    if (!x->refused[0] != !y->refused[0]) return x->refused[0] ? 1 : -1;
    if (x->cost.tokens_per_s > y->cost.tokens_per_s || x->cost.tokens_per_s < y->cost.tokens_per_s)
        return x->cost.tokens_per_s > y->cost.tokens_per_s ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Returns whether the programs with a frozen base as constants exceed the compile limit of a process. One process
 * compiles all of them, so no restart makes room for more. */
static bool partition_compare_too_many(const partition_question *q, const partition_cost *cost, propane_error *why) {
    const int most = (int)chip_limit_value("C1a");
    if (!q->lora || !weight_mode_is_constant(cost->how.weights) || cost->programs <= most) return false;
    (void)propane_fail(why, PROPANE_ERR_LIMIT,
                       "weights %s: %d programs, but a process may compile about %d (rule C1a); use weights inputs",
                       weight_mode_name(cost->how.weights), cost->programs, most);
    return true;
}

static propane_status partition_compare_moments(const partition *p, const partition_question *q, int64_t accumulate,
                                                weight_mode weights, const chip *c, partition_comparison *out,
                                                propane_error *err) {
    propane_error why = {0};
    const propane_status supported = partition_supports(p, c, 0, weights, &why);
    bool refused = supported != PROPANE_OK;
    if (supported == PROPANE_ERR_MEMORY) return propane_fail(err, supported, "%s", why.text); /* no verdict possible */
    for (moment_form form = MOMENT_FP32; form <= MOMENT_INT8; form++) {
        const partition_training how = {weights, accumulate, form, q->lagged, q->early, q->rates};
        if (q->moments && moment_form_of(q->moments) != form) continue;
        partition_candidate *k = &out->list[out->count];
        k->partition = p;
        k->number = out->count++;
        PROPANE_TRY(partition_cost_on(p, c, &how, out->arena, &k->cost, err));
        if (!refused) refused = partition_compare_too_many(q, &k->cost, &why);
        if (refused) snprintf(k->refused, sizeof k->refused, "%.390s", why.text);
    }
    return PROPANE_OK;
}

/* Returns the n-th weight mode. The first of equally fast modes wins, and with a frozen base that is `baked`: constants
 * need no shared buffer. */
static weight_mode partition_compare_mode(const partition_question *q, int n) {
    if (!q->lora || n > WEIGHT_MODE_BAKED) return (weight_mode)n;
    return n == 0 ? WEIGHT_MODE_BAKED : (weight_mode)(n - 1);
}

static propane_status partition_compare_plan(const model_config *config, const partition_question *q,
                                             const partition_options *options, int64_t accumulate, const chip *c,
                                             partition_comparison *out, propane_error *err) {
    partition **p = &out->partitions[out->partition_count];
    model_config split = *config;
    partition_split_head(&split, options->batch, options->context);
    PROPANE_TRY(partition_create(&split, options, p, err));
    out->partition_count++;
    /* `patched`, which Apple's systems do not support, is compared only on request */
    for (int n = 0; n < WEIGHT_MODE_COUNT; n++) {
        const weight_mode w = partition_compare_mode(q, n);
        if (q->weights ? strcmp(weight_mode_name(w), q->weights) == 0 : w != WEIGHT_MODE_PATCHED)
            PROPANE_TRY(partition_compare_moments(*p, q, accumulate, w, c, out, err));
    }
    return PROPANE_OK;
}

static propane_status partition_compare_all(const model_config *config, const partition_question *q, const chip *c,
                                            partition_comparison *out, propane_error *err) {
    for (int n = 0; n < partition_name_count(); n++)
        for (int b = 0; b < q->batch_count; b++)
            for (partition_head head = PARTITION_HEAD_AUTO; head < PARTITION_HEAD_COUNT; head++)
                for (int products = 0; products < 2; products++) {
                    const partition_options options = {partition_name(n),
                                                       MIL_fp16,
                                                       q->batches[b].batch,
                                                       q->context,
                                                       .lora = q->lora,
                                                       .trained = q->lora ? partition_is_adapter : NULL,
                                                       .head = head,
                                                       .sum_bytes = PARTITION_SUM_BYTES,
                                                       .gradients = products == 1,
                                                       .half_stream =
                                                           q->half_stream && strcmp(partition_name(n), "layer") == 0};
                    if (q->plan && strcmp(partition_name(n), q->plan) != 0) continue;
                    if (q->head ? partition_head_find(q->head) != head : head == PARTITION_HEAD_AUTO) continue;
                    if (q->gradients && strcmp(q->gradients, products ? "device" : "host") != 0) continue;
                    PROPANE_TRY(partition_compare_plan(config, q, &options, q->batches[b].accumulate, c, out, err));
                }
    return PROPANE_OK;
}

propane_status partition_compare(const model_config *config, const partition_question *q, const chip *c,
                                 partition_comparison *out, propane_error *err) {
    *out = (partition_comparison){.arena = arena_create()};
    const int most = 2 * partition_name_count() * q->batch_count * PARTITION_HEAD_COUNT;
    if (!out->arena) return propane_fail_memory(err, 0);
    out->partitions = ARENA_ARRAY(out->arena, most, partition *);
    out->list = ARENA_ARRAY(out->arena, most * WEIGHT_MODE_COUNT * (MOMENT_INT8 + 1), partition_candidate);
    if (!out->partitions || !out->list) return propane_fail_memory(err, (size_t)most * sizeof *out->list);
    PROPANE_TRY(partition_compare_all(config, q, c, out, err));
    qsort(out->list, (size_t)out->count, sizeof *out->list, partition_compare_by_speed);
    return PROPANE_OK;
}

void partition_candidate_print(const partition_candidate *c, text *out) {
    text_printf(out, "plan %s, head on the %s, weights %s, moments %s", c->partition->options.name,
                partition_head_name(&c->partition->options), weight_mode_name(c->cost.how.weights),
                moment_form_name(c->cost.how.moments));
    if (c->partition->options.half_stream) text_append(out, ", stream fp16");
    if (c->partition->options.gradients) text_append(out, ", weight gradients on the device");
}

void partition_comparison_free(partition_comparison *p) {
    for (int i = 0; i < p->partition_count; i++) partition_free(p->partitions[i]);
    arena_free(p->arena);
    *p = (partition_comparison){0};
}
