/* SPDX-License-Identifier: MIT
 * Owns the comparison of partitions: all plans x batches x weight modes that are asked for, each with its cost.
 */
#include "train/step/partition_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int partition_compare_by_speed(const void *a, const void *b) {
    const partition_candidate *x = a, *y = b;
    if (!x->refused[0] != !y->refused[0]) return x->refused[0] ? 1 : -1;
    return (x->cost.tokens_per_s < y->cost.tokens_per_s) - (x->cost.tokens_per_s > y->cost.tokens_per_s);
}

static propane_status partition_compare_weights(const partition *p, const partition_question *q, const chip *c,
                                                partition_comparison *out, propane_error *err) {
    for (int w = 0; w < WEIGHT_MODE_COUNT; w++) {
        propane_error why = {0};
        if (q->weights && strcmp(weight_mode_name((weight_mode)w), q->weights) != 0) continue;
        partition_candidate *k = &out->list[out->count++];
        k->partition = p;
        PROPANE_TRY(partition_cost_on(p, c, (weight_mode)w, q->accumulate, out->arena, &k->cost, err));
        if (partition_supports(p, c, 0, (weight_mode)w, &why) != PROPANE_OK)
            snprintf(k->refused, sizeof k->refused, "%.390s", why.text);
    }
    return PROPANE_OK;
}

static propane_status partition_compare_all(const model_config *config, const partition_question *q, const chip *c,
                                            partition_comparison *out, propane_error *err) {
    for (int n = 0; n < partition_name_count(); n++)
        for (int b = 0; b < q->batch_count; b++) {
            if (q->plan && strcmp(partition_name(n), q->plan) != 0) continue;
            const partition_options options = {partition_name(n), MIL_fp16, q->batches[b], q->context};
            partition **p = &out->partitions[out->partition_count];
            model_config split = *config;
            partition_split_head(&split, options.batch, options.context);
            PROPANE_TRY(partition_create(&split, &options, p, err));
            out->partition_count++;
            PROPANE_TRY(partition_compare_weights(*p, q, c, out, err));
        }
    return PROPANE_OK;
}

propane_status partition_compare(const model_config *config, const partition_question *q, const chip *c,
                                 partition_comparison *out, propane_error *err) {
    *out = (partition_comparison){.arena = arena_create()};
    const int most = partition_name_count() * q->batch_count;
    if (!out->arena) return propane_fail_memory(err, 0);
    out->partitions = ARENA_ARRAY(out->arena, most, partition *);
    out->list = ARENA_ARRAY(out->arena, most * WEIGHT_MODE_COUNT, partition_candidate);
    if (!out->partitions || !out->list) return propane_fail_memory(err, (size_t)most * sizeof *out->list);
    PROPANE_TRY(partition_compare_all(config, q, c, out, err));
    qsort(out->list, (size_t)out->count, sizeof *out->list, partition_compare_by_speed);
    return PROPANE_OK;
}

void partition_comparison_free(partition_comparison *p) {
    for (int i = 0; i < p->partition_count; i++) partition_free(p->partitions[i]);
    arena_free(p->arena);
    *p = (partition_comparison){0};
}
