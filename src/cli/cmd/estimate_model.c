/* SPDX-License-Identifier: MIT
 * propane estimate MODEL: whole training steps on a Neural Engine and its host: one plan with its kernels, or plans, weight
 * modes and batches side by side. Estimated, never measured.
 */
#include "cli/cmd/estimate_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/run/run_folder.h"
#include "train/step/partition_cost.h"

/* ---- the model ------------------------------------------------------------------------------------------------------------ */

bool estimate_is_model(const char *path) {
    return strcmp(path, "stories110m") == 0 || text_ends_with(path, ".json") || run_is_model(path);
}

/* The model of most published steps, so that nobody has to write its file. */
static void stories110m(model_config *c) {
    model_config_default(c);
    c->num_hidden_layers = 12;
    c->hidden_size = 768;
    c->intermediate_size = 2048;
    c->num_attention_heads = c->num_key_value_heads = 12;
    c->head_dim = 64;
    c->vocab_size = 32000;
    c->tie_word_embeddings = true;
}

static propane_status read_model(const char *path, model_config *out, propane_error *err) {
    if (strcmp(path, "stories110m") == 0) {
        stories110m(out);
        return PROPANE_OK;
    }
    return run_config(path, out, err);
}

/* ---- one plan -------------------------------------------------------------------------------------------------------------- */

static void print_cost(const partition *p, const partition_cost *c, bool kernels) {
    printf("%s, estimated: plan %s, weights %s, batch %lld x %lld\n", c->chip->title, p->options.name,
           weight_mode_name(c->weights), (long long)p->options.batch, (long long)p->options.context);
    for (int i = 0; kernels && i < c->kernel_count; i++) {
        const partition_kernel_cost *k = &c->kernels[i];
        printf("  %-14s %-6s %4d calls %9.3f ms %9.1f MB", k->kernel->name,
               k->kernel->place == PARTITION_DEVICE ? "engine" : "host", k->calls, k->ms, k->bytes / 1e6);
        if (k->kernel->place == PARTITION_DEVICE)
            printf("  %4.1f %% of the roof  %.2f mJ", 100 * k->utilisation, k->energy_mj);
        printf("\n");
    }
    printf("  engine %.1f + staging %.1f + host kernels %.1f + loss %.1f + weight gradients that do not fit beside "
           "them %.1f (of "
           "%.1f) = forward and backward %.1f ms\n  + update %.1f + renewing programs %.1f = step %.1f ms (%.1f to "
           "%.1f), %.0f "
           "tokens/s, engine %.2f J, %.1f %% of its roof\n  programs compiled once: %d; again after each update: %d, "
           "loaded again: %d",
           c->engine_ms, c->staging_ms, c->host_ms, c->loss_ms, c->exposed_ms, c->products_ms, c->pass_ms, c->update_ms,
           c->recompile_ms, c->step_ms, c->low_ms, c->high_ms, c->tokens_per_s, c->energy_j, 100 * c->utilisation,
           c->programs, c->compiles, c->reloads);
    if (c->restarts_per_100) printf(", which is %d restarts in 100 updates", c->restarts_per_100);
    printf("\n");
}

static void print_assumptions(const chip *c) {
    cost_host h = cost_host_of(c);
    printf("  assumed of the host of %s: products %.2f TFLOPS fp32, elementwise %.0f GB/s, AdamW %.0f GB/s\n", c->title,
           h.gemm_tflops, h.stream_gbs, h.memory_gbs);
}

static json_t *cost_json(const partition *p, const partition_cost *c, const char *refused) {
    json_t *kernels = json_array();
    for (int i = 0; i < c->kernel_count; i++) {
        const partition_kernel_cost *k = &c->kernels[i];
        json_add(kernels,
                 json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f}", "kernel", k->kernel->name, "place",
                           k->kernel->place == PARTITION_DEVICE ? "device" : "host", "calls", k->calls, "ms", k->ms,
                           "bytes", k->bytes, "energy_mj", k->energy_mj, "utilisation", k->utilisation));
    }
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "kind", "estimated", "chip", c->chip->name,
                            "plan", p->options.name, "weights", weight_mode_name(c->weights), "batch",
                            (json_int_t)p->options.batch, "context", (json_int_t)p->options.context, "step_ms",
                            c->step_ms, "low_ms", c->low_ms, "high_ms", c->high_ms);
    const struct {
        const char *name;
        double value;
    } figures[] = {{"engine_ms", c->engine_ms},
                   {"staging_ms", c->staging_ms},
                   {"host_ms", c->host_ms},
                   {"loss_ms", c->loss_ms},
                   {"weight_gradients_ms", c->products_ms},
                   {"exposed_ms", c->exposed_ms},
                   {"pass_ms", c->pass_ms},
                   {"update_ms", c->update_ms},
                   {"recompile_ms", c->recompile_ms},
                   {"energy_j", c->energy_j},
                   {"utilisation", c->utilisation},
                   {"tokens_per_s", c->tokens_per_s},
                   {"programs", c->programs},
                   {"compiles_per_update", c->compiles},
                   {"reloads_per_update", c->reloads}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        json_put(out, figures[i].name, json_real(figures[i].value));
    if (refused) json_put(out, "refused", json_string(refused));
    json_put(out, "kernels", kernels);
    return out;
}

/* ---- side by side ----------------------------------------------------------------------------------------------------------- */

typedef struct candidate {
    const partition *plan;
    partition_cost cost;
    char refused[400]; /* "": by no known rule */
} candidate;

static int by_speed(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (!x->refused[0] != !y->refused[0]) return x->refused[0] ? 1 : -1;
    return (x->cost.tokens_per_s < y->cost.tokens_per_s) - (x->cost.tokens_per_s > y->cost.tokens_per_s);
}

static void print_table(const candidate *list, int count) {
    printf("%s, estimated, the fastest first; ms of a step\n%-6s %-7s %5s %8s %8s %7s %6s %8s %7s %9s %8s %9s\n",
           list[0].cost.chip->title, "plan", "weights", "batch", "engine", "staging", "host", "loss", "exposed",
           "update", "renewing", "step", "tokens/s");
    for (int i = 0; i < count; i++) {
        const partition_cost *c = &list[i].cost;
        printf("%-6s %-7s %5lld %8.1f %8.1f %7.1f %6.1f %8.1f %7.1f %9.1f %8.1f %9.0f", list[i].plan->options.name,
               weight_mode_name(c->weights), (long long)list[i].plan->options.batch, c->engine_ms, c->staging_ms,
               c->host_ms, c->loss_ms, c->exposed_ms, c->update_ms, c->recompile_ms, c->step_ms, c->tokens_per_s);
        if (list[i].refused[0]) printf("  refused: %.110s", list[i].refused);
        printf("\n");
    }
    const partition_cost *best = &list[0].cost;
    if (list[0].refused[0]) {
        printf("every one of them is refused by a known rule of the %s\n", best->chip->title);
        return;
    }
    printf("fastest known: plan %s, weights %s, batch %lld: %.1f ms for %lld positions; the engine works %.0f %% of "
           "the step, the "
           "host's weight gradients take %.1f ms beside it\n",
           list[0].plan->options.name, weight_mode_name(best->weights), (long long)list[0].plan->options.batch,
           best->step_ms, (long long)(list[0].plan->options.batch * list[0].plan->options.context),
           100 * best->engine_ms / best->step_ms, best->products_ms);
}

static void look_for_refusal(candidate *c) {
    propane_error why = {0};
    if (partition_supports(c->plan, c->cost.chip, 0, c->cost.weights, &why) != PROPANE_OK)
        snprintf(c->refused, sizeof c->refused, "%.390s", why.text);
}

/* All plans x weights x batches; `only` NULL: every plan. */
static propane_status fill(const model_config *config, const estimate_model_options *o, const chip *c,
                           partition **plans, int *plan_count, candidate *list, int *count, arena *a,
                           propane_error *err) {
    static const int64_t batches[] = {1, 2, 4};
    *count = *plan_count = 0;
    for (int n = 0; n < partition_name_count(); n++)
        for (int b = 0; b < (o->compare ? 3 : 1); b++) {
            if (!o->compare && strcmp(partition_name(n), o->plan) != 0) continue;
            partition_options options = {partition_name(n), MIL_fp16, o->compare ? batches[b] * o->batch : o->batch,
                                         o->context};
            model_config split = *config;
            partition_split_head(&split, options.batch, options.context);
            PROPANE_TRY(partition_create(&split, &options, &plans[*plan_count], err));
            const partition *p = plans[(*plan_count)++];
            for (int w = 0; w < WEIGHT_MODE_COUNT; w++) {
                if (!o->compare && strcmp(weight_mode_name((weight_mode)w), o->weights) != 0) continue;
                candidate *k = &list[(*count)++];
                k->plan = p;
                k->refused[0] = 0;
                PROPANE_TRY(partition_cost_on(p, c, (weight_mode)w, o->accumulate, a, &k->cost, err));
                look_for_refusal(k);
            }
        }
    return PROPANE_OK;
}

static void show(const candidate *list, int count, const estimate_model_options *o, json_t *json) {
    for (int i = 0; json && i < count; i++)
        json_add(json, cost_json(list[i].plan, &list[i].cost, list[i].refused[0] ? list[i].refused : NULL));
    if (json) return;
    if (o->compare) {
        print_table(list, count);
    } else {
        print_cost(list[0].plan, &list[0].cost, o->per_op);
        if (list[0].refused[0]) printf("  but a known rule refuses it: %s\n", list[0].refused);
    }
    print_assumptions(list[0].cost.chip);
}

enum { MAX_CANDIDATES = 64 };

propane_status estimate_model(const char *path, const chip *const *chips, int chip_count,
                              const estimate_model_options *o, propane_error *err) {
    model_config config;
    partition *plans[MAX_CANDIDATES] = {NULL};
    PROPANE_TRY(read_model(path, &config, err));
    json_t *json = o->json ? json_array() : NULL;
    candidate *list = mem_array(MAX_CANDIDATES, sizeof *list);
    propane_status status = list && (json || !o->json) ? PROPANE_OK : propane_fail_memory(err, 0);
    for (int i = 0; i < chip_count && status == PROPANE_OK; i++) {
        int count = 0, plan_count = 0;
        arena *a = arena_create();
        status = a ? fill(&config, o, chips[i], plans, &plan_count, list, &count, a, err) : propane_fail_memory(err, 0);
        if (status == PROPANE_OK && count == 0)
            status = propane_fail(err, PROPANE_ERR_NOT_FOUND, "--plan '%s': plans are layer, six, ten", o->plan);
        if (status == PROPANE_OK) {
            qsort(list, (size_t)count, sizeof *list, by_speed);
            if (i && !json) printf("\n");
            show(list, count, o, json);
        }
        for (int k = 0; k < MAX_CANDIDATES; k++) {
            partition_free(plans[k]);
            plans[k] = NULL;
        }
        arena_free(a);
    }
    if (json && status == PROPANE_OK) {
        char *line = NULL;
        status = json_print(json, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
        if (line) printf("%s\n", line);
        mem_free(line);
    }
    json_decref(json);
    mem_free(list);
    return status;
}
