/* SPDX-License-Identifier: MIT
 * Owns the report of training by several workers over a network, as text and JSON. train/dist/worker_estimate.h
 * computes the figures from the estimated time of the plan's step on the chip.
 */
#include "report/lm/worker_report.h"

#include <string.h>

#include "core/base/text.h"
#include "lm/run/memory_estimate.h"
#include "lm/step/partition_compare.h"
#include "train/dist/worker_estimate.h"

enum { STANDARD_OUTER = 500, STANDARD_RANK = 8 };
#define STANDARD_BANDWIDTH 1e9
#define BACKWARD           (2.0 / 3) /* its part of both passes: two products for each product of the forward pass */

static propane_status api_worker_time(const model_config *config, const propane_training_estimate_options *o,
                                      const chip *c, worker_question *q, propane_error *err) {
    partition_comparison all;
    const partition_batches batches = {o->batch, o->accumulate};
    const partition_question ask = {.plan = o->plan,
                                    .weights = o->weights,
                                    .head = o->head,
                                    .moments = o->moments,
                                    .lagged = strcmp(o->clipping, "lagged") == 0,
                                    .batches = &batches,
                                    .batch_count = 1,
                                    .context = o->context};
    propane_status status = partition_compare(config, &ask, c, &all, err);
    if (status == PROPANE_OK && all.count == 0)
        status = propane_fail(err, PROPANE_ERR_NOT_FOUND, "plan is '%s'; it must be layer, six or ten", o->plan);
    if (status == PROPANE_OK) {
        q->step_ms = all.list[0].cost.step_ms * (double)o->accumulate;
        q->backward_ms = all.list[0].cost.pass_ms * BACKWARD;
    }
    partition_comparison_free(&all);
    return status;
}

static propane_status api_worker_ask(const model_config *config, const propane_training_estimate_options *o,
                                     const chip *c, worker_question *q, propane_error *err) {
    const char *wire = o->wire ? o->wire : "fp32";
    train_options adapters = {.lora_rank = o->lora_rank ? o->lora_rank : STANDARD_RANK, .lora_targets = ""};
    *q = (worker_question){.workers = o->workers,
                           .bandwidth = o->bandwidth > 0 ? o->bandwidth : STANDARD_BANDWIDTH,
                           .latency_ms = o->latency_ms,
                           .wire = allreduce_wire_find(wire),
                           .every = o->outer ? o->outer : STANDARD_OUTER,
                           .warmup = o->outer_warmup,
                           .parameters = (double)model_arch_parameters(config),
                           .tokens = (double)(o->batch * o->context * o->accumulate)};
    if (q->wire == ALLREDUCE_WIRES)
        return propane_fail(err, PROPANE_ERR_INVALID, "wire is '%.40s'; it must be fp32, bf16, fp16 or int4", wire);
    if (adapters.lora_rank < 1 || adapters.lora_rank > 4096)
        return propane_fail(err, PROPANE_ERR_INVALID, "the adapters' rank is %lld; it must be 1 to 4096",
                            (long long)adapters.lora_rank);
    q->adapters = memory_estimate_trained(config, &adapters);
    return api_worker_time(config, o, c, q, err);
}

static json_t *api_worker_json(const chip *c, const worker_question *q, const worker_cost *w) {
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "kind", "estimated", "chip", c->name, "way",
                            worker_way_name(w->way), "wire", allreduce_wire_name(w->wire), "workers",
                            (json_int_t)q->workers, "outer", (json_int_t)q->every);
    const struct {
        const char *name;
        double value;
    } figures[] = {{"bandwidth", q->bandwidth},
                   {"latency_ms", q->latency_ms},
                   {"parameters", w->way == WORKER_ADAPTERS ? q->adapters : q->parameters},
                   {"message_bytes", w->message_bytes},
                   {"step_bytes", w->step_bytes},
                   {"compute_ms", q->step_ms},
                   {"network_ms", w->network_ms},
                   {"step_ms", w->step_ms},
                   {"tokens_per_s", w->tokens_per_s},
                   {"day_bytes", w->day_bytes},
                   {"warmup_bytes", w->warmup_bytes},
                   {"warmup_ms", w->warmup_ms},
                   {"server_day_bytes", w->server_bytes},
                   {"use", w->use}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        json_put(out, figures[i].name, json_real(figures[i].value));
    json_put(out, "bound_by", json_string(worker_bound_name(w->bound)));
    return out;
}

static void api_worker_print_head(text *to, const chip *c, const worker_question *q) {
    text_printf(
        to,
        "%s, estimated: %lld workers, %.4g Mbit/s and %.4g ms between them; %.4g million parameters, outer steps every "
        "%lld, adapters of %.4g million\n",
        c->title, (long long)q->workers, q->bandwidth / 1e6, q->latency_ms, q->parameters / 1e6, (long long)q->every,
        q->adapters / 1e6);
    text_printf(to, "%-14s %-5s %12s %12s %14s %12s %12s %9s  %s\n", "way", "wire", "per message", "per step",
                "per worker-day", "step", "tokens/s", "computing", "bound by");
}

static void api_worker_print_row(text *to, const worker_cost *w) {
    char once[32], step[32], day[32];
    text_printf(to, "%-14s %-5s %12s %12s %14s %9.1f ms %12.0f %7.1f %%  %s\n", worker_way_name(w->way),
                allreduce_wire_name(w->wire), text_bytes(once, w->message_bytes), text_bytes(step, w->step_bytes),
                text_bytes(day, w->day_bytes), w->step_ms, w->tokens_per_s, 100 * w->use, worker_bound_name(w->bound));
}

static void api_worker_print_warmup(text *to, const worker_question *q, const worker_cost *w) {
    char sent[32], taken[32];
    if (q->warmup > 0)
        text_printf(
            to, "  the first %lld step%s (warm-up) %s data-parallel: before outer steps each worker sends %s in %s\n",
            (long long)q->warmup, text_plural(q->warmup), q->warmup == 1 ? "is" : "are",
            text_bytes(sent, w->warmup_bytes), text_duration(taken, w->warmup_ms / 1e3));
}

propane_status api_worker_estimate(const model_config *config, const propane_training_estimate_options *o,
                                   const chip *c, json_t *json, text *to, propane_error *err) {
    worker_question q;
    worker_cost w, outer = {0};
    char server[32];
    PROPANE_TRY(api_worker_ask(config, o, c, &q, err));
    for (int way = 0; way < WORKER_WAYS; way++) {
        PROPANE_TRY(worker_estimate(&q, (worker_way)way, &w, err));
        if (json) json_add(json, api_worker_json(c, &q, &w));
        if (!json && way == 0) api_worker_print_head(to, c, &q);
        if (!json) api_worker_print_row(to, &w);
        if (way == WORKER_OUTER) outer = w;
    }
    if (json) return PROPANE_OK;
    api_worker_print_warmup(to, &q, &outer);
    text_printf(
        to,
        "  a step without exchanges: %.1f ms, %.0f tokens; each worker receives as many bytes as it sends; all "
        "workers are equally fast; adapters are counted with a full step; a server on the same line sends %s per day\n",
        q.step_ms, q.tokens, text_bytes(server, w.server_bytes));
    return PROPANE_OK;
}
