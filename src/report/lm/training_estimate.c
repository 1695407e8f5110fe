/* SPDX-License-Identifier: MIT
 * Owns the report of a training step's cost on a Neural Engine and its host, as text and JSON. The report shows one
 * plan with its kernels, or the comparison of lm/step/partition_compare.h.
 */
#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/run/public_plan.h"
#include "lm/step/partition_compare.h"
#include "report/lm/worker_report.h"

/* ---- one plan -------------------------------------------------------------------------------------------------------------- */

static void api_training_print_cost(text *to, const partition *p, const partition_cost *c, bool kernels) {
    text_printf(
        to, "%s, estimated: plan %s, weights %s, batch %lld x %lld, head on the %s, moments %s%s, update after %lld",
        c->chip->title, p->options.name, weight_mode_name(c->how.weights), (long long)p->options.batch,
        (long long)p->options.context, partition_head_name(&p->options), moment_form_name(c->how.moments),
        c->how.lagged  ? ", norm of the last step"
        : c->how.early ? ", updates guessed rightly"
                       : "",
        (long long)c->how.accumulate);
    if (p->options.half_stream) text_append(to, ", stream fp16");
    if (p->options.lora) text_printf(to, ", only adapters of rank %lld", (long long)p->options.lora->rank);
    text_append(to, "\n");
    for (int i = 0; kernels && i < c->kernel_count; i++) {
        const partition_kernel_cost *k = &c->kernels[i];
        text_printf(to, "  %-14s %-6s %4d calls %9.3f ms %9.1f MB", k->kernel->name,
                    k->kernel->place == PARTITION_DEVICE ? "engine" : "host", k->calls, k->ms, k->bytes / 1e6);
        if (k->kernel->place == PARTITION_DEVICE)
            text_printf(to, "  %4.1f %% of the peak  %.2f mJ", 100 * k->utilisation, k->energy_mj);
        text_printf(to, "\n");
    }
    text_printf(
        to,
        "  engine %.1f + staging %.1f + host kernels %.1f + loss %.1f + waiting for weight gradients %.1f (of %.1f) = "
        "forward and backward %.1f ms\n",
        c->engine_ms, c->staging_ms, c->host_ms, c->loss_ms, c->exposed_ms, c->products_ms, c->pass_ms);
    text_printf(to,
                "  + rest of the update %.1f (of %.1f) + recompiling programs %.1f = step %.1f ms (%.1f to %.1f), %.0f "
                "tokens/s\n",
                c->update_ms, c->sweep_ms, c->recompile_ms, c->step_ms, c->low_ms, c->high_ms, c->tokens_per_s);
    text_printf(to,
                "  the engine is busy for %.0f %% of the step, at %.1f %% of its peak; programs compiled once: %d; "
                "recompiled after each update: %d, reloaded: %d",
                100 * c->engine_ms / c->step_ms, 100 * c->utilisation, c->programs, c->compiles, c->reloads);
    if (c->restarts_per_100) text_printf(to, ", which is %d restarts in 100 updates", c->restarts_per_100);
    text_printf(to,
                "\n  joules per batch: engine %.3f + processor %.3f (busy %.1f ms) + memory %.3f + idle %.3f = %.2f J, "
                "within a factor of two\n",
                c->energy_j, c->host_j, c->host_busy_ms, c->memory_j, c->idle_j, partition_cost_joules(c));
}

static void api_training_print_assumptions(text *to, const partition_cost *cost, const cost_rates *rates,
                                           bool sources) {
    const chip *c = cost->chip;
    cost_host h = cost_host_with(c, rates);
    if (rates) {
        const double *update = cost_rates_update(rates, cost->how.early);
        text_printf(to,
                    "  measured on a host (%s): matrix products %.3g TFLOPS fp32, elementwise %.3g GB/s, memory %.3g "
                    "GB/s, AdamW %.3g, %.3g and %.3g ns per parameter with fp32, bf16 and int8 moments; assumed for "
                    "all at once: %.0f GB/s\n",
                    rates->system, h.gemm_tflops, h.stream_gbs, h.memory_gbs, update[0], update[1], update[2],
                    h.shared_gbs);
        return;
    }
    text_printf(to,
                "  assumed for the host of %s: matrix products %.2f TFLOPS fp32, elementwise %.0f GB/s, AdamW %.0f "
                "GB/s, all at once %.0f GB/s\n",
                c->title, h.gemm_tflops, h.stream_gbs, h.memory_gbs, h.shared_gbs);
    if (sources) text_append(to, cost_host_sources());
}

static json_t *api_training_cost_json(const partition *p, const partition_cost *c, const char *refused) {
    json_t *kernels = json_array();
    for (int i = 0; i < c->kernel_count; i++) {
        const partition_kernel_cost *k = &c->kernels[i];
        json_add(kernels,
                 json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f}", "kernel", k->kernel->name, "place",
                           k->kernel->place == PARTITION_DEVICE ? "device" : "host", "calls", k->calls, "ms", k->ms,
                           "bytes", k->bytes, "energy_mj", k->energy_mj, "utilisation", k->utilisation));
    }
    json_t *out =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:I, s:s, s:I, s:I, s:f, s:f, s:f}", "kind", "estimated", "chip",
                  c->chip->name, "plan", p->options.name, "head", partition_head_name(&p->options), "moments",
                  moment_form_name(c->how.moments), "lagged", c->how.lagged, "early", c->how.early, "accumulate",
                  (json_int_t)c->how.accumulate, "weights", weight_mode_name(c->how.weights), "batch",
                  (json_int_t)p->options.batch, "context", (json_int_t)p->options.context, "step_ms", c->step_ms,
                  "low_ms", c->low_ms, "high_ms", c->high_ms);
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
                   {"sweep_ms", c->sweep_ms},
                   {"update_ms", c->update_ms},
                   {"recompile_ms", c->recompile_ms},
                   {"energy_j", c->energy_j},
                   {"host_energy_j", c->host_j},
                   {"memory_energy_j", c->memory_j},
                   {"idle_energy_j", c->idle_j},
                   {"all_energy_j", partition_cost_joules(c)},
                   {"host_busy_ms", c->host_busy_ms},
                   {"compile_ms", c->compile_ms},
                   {"utilisation", c->utilisation},
                   {"tokens_per_s", c->tokens_per_s},
                   {"programs", c->programs},
                   {"compiles_per_update", c->compiles},
                   {"reloads_per_update", c->reloads}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        json_put(out, figures[i].name, json_real(figures[i].value));
    json_put(out, "stream", json_string(p->options.half_stream ? "fp16" : "fp32"));
    if (refused) json_put(out, "refused", json_string(refused));
    json_put(out, "kernels", kernels);
    return out;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* Returns the number of a candidate's reason in the list below the table, which starts at 1 and lists each reason
 * once. */
static int api_training_reason(const partition_candidate *list, int at) {
    int number = 1;
    for (int i = 0; i < at; i++) {
        bool seen = !list[i].refused[0];
        for (int k = 0; k < i && !seen; k++) seen = strcmp(list[k].refused, list[i].refused) == 0;
        if (seen) continue;
        if (strcmp(list[i].refused, list[at].refused) == 0) return number;
        number++;
    }
    return number;
}

static void api_training_print_reasons(text *to, const partition_candidate *list, int count) {
    for (int i = 0, printed = 0; i < count; i++) {
        if (!list[i].refused[0] || api_training_reason(list, i) <= printed) continue;
        text_printf(to, "[%d] refused: %s\n", ++printed, list[i].refused);
    }
}

static void api_training_print_table(text *to, const partition_candidate *list, int count) {
    text_printf(
        to,
        "%s, estimated ms per batch, fastest first\n%-5s %-6s %-7s %-7s %5s %4s %7s %7s %6s %5s %7s %6s %8s %8s %8s\n",
        list[0].cost.chip->title, "plan", "head", "weights", "moments", "batch", "upd.", "engine", "staging", "host",
        "loss", "waiting", "update", "renewing", "step", "tokens/s");
    for (int i = 0; i < count; i++) {
        const partition_cost *c = &list[i].cost;
        const partition_options *o = &list[i].partition->options;
        text_printf(to, "%-5s %-6s %-7s %-7s %5lld %4lld %7.1f %7.1f %6.1f %5.1f %7.1f %6.1f %8.1f %8.1f %8.0f",
                    o->name, partition_head_name(o), weight_mode_name(c->how.weights), moment_form_name(c->how.moments),
                    (long long)o->batch, (long long)c->how.accumulate, c->engine_ms, c->staging_ms, c->host_ms,
                    c->loss_ms, c->exposed_ms, c->update_ms, c->recompile_ms, c->step_ms, c->tokens_per_s);
        if (list[i].refused[0]) text_printf(to, " [%d]", api_training_reason(list, i));
        text_printf(to, "\n");
    }
    api_training_print_reasons(to, list, count);
}

static void api_training_print_best(text *to, const partition_candidate *list) {
    const partition_cost *best = &list[0].cost;
    if (list[0].refused[0]) {
        text_printf(to, "known rules of the %s refuse all of them\n", best->chip->title);
        return;
    }
    text_append(to, "fastest known: ");
    partition_candidate_print(&list[0], to);
    text_printf(to,
                ", batch %lld: %.1f ms for %lld positions\n  the engine is busy for %.0f %% of the step; meanwhile the "
                "host computes weight gradients for %.1f ms\n",
                (long long)list[0].partition->options.batch, best->step_ms,
                (long long)(list[0].partition->options.batch * list[0].partition->options.context),
                100 * best->engine_ms / best->step_ms, best->products_ms);
}

#define RUNNERS_UP 12 /* number of candidates that a search lists in addition to the fastest one */

static void api_training_show(text *to, const partition_candidate *list, int count,
                              const propane_training_estimate_options *o, const cost_rates *rates, json_t *json) {
    const int listed = o->compare || o->search ? count : 1;
    for (int i = 0; json && i < listed; i++)
        json_add(json,
                 api_training_cost_json(list[i].partition, &list[i].cost, list[i].refused[0] ? list[i].refused : NULL));
    if (json) return;
    if (o->compare || o->search) {
        const int most = o->search && count > RUNNERS_UP ? RUNNERS_UP : count;
        if (o->search && !list[0].refused[0]) api_training_print_cost(to, list[0].partition, &list[0].cost, o->ops);
        api_training_print_table(to, list, most);
        if (most < count) text_printf(to, "... of %d\n", count);
        api_training_print_best(to, list);
    } else {
        api_training_print_cost(to, list[0].partition, &list[0].cost, o->ops);
        if (list[0].refused[0]) text_printf(to, "  a known rule refuses this plan: %s\n", list[0].refused);
    }
    api_training_print_assumptions(to, &list[0].cost, rates, o->sources);
}

enum { MOST_BATCHES = 8 };

/* Lists the sizes of batches to estimate, and returns their number. A comparison includes larger batches. A search
 * divides the same number of sequences into fewer or more batches. */
static int api_training_batches(const propane_training_estimate_options *o, partition_batches *out) {
    int count = 0;
    if (!o->search) {
        for (int64_t times = 1; times <= (o->compare ? 4 : 1); times *= 2)
            out[count++] = (partition_batches){times * o->batch, o->accumulate};
        return count;
    }
    const int64_t all = o->batch * o->accumulate;
    for (int64_t b = 1; b <= all && count < MOST_BATCHES; b *= 2)
        if (all % b == 0) out[count++] = (partition_batches){b, all / b};
    return count;
}

static propane_status api_training_estimate(const model_config *config, const propane_training_estimate_options *o,
                                            const chip *const *chips, int chip_count, json_t *json, text *to,
                                            propane_error *err) {
    cost_rates measured;
    const cost_rates *rates = o->rates ? &measured : NULL;
    if (rates) PROPANE_TRY(cost_rates_read(o->rates, &measured, err));
    partition_batches batches[MOST_BATCHES];
    model_lora lora = {.rank = o->lora_rank, .alpha = (double)o->lora_rank};
    const bool adapters = o->lora_rank > 0 && o->workers == 0;
    if (adapters) PROPANE_TRY(model_lora_choose(&lora, config, "", err));
    const partition_question q = {.plan = o->compare ? NULL : o->plan,
                                  .lora = adapters ? &lora : NULL,
                                  .weights = o->compare ? NULL : o->weights,
                                  .head = o->head,
                                  .gradients = o->gradients,
                                  .half_stream = o->stream && strcmp(o->stream, "fp16") == 0,
                                  .moments = o->moments,
                                  .lagged = strcmp(o->clipping, "lagged") == 0,
                                  .early = strcmp(o->overlap, "early") == 0,
                                  .batches = batches,
                                  .batch_count = api_training_batches(o, batches),
                                  .context = o->context,
                                  .rates = rates};
    for (int i = 0; i < chip_count; i++) {
        if (o->workers > 0) {
            if (i && !json) text_append(to, "\n");
            PROPANE_TRY(api_worker_estimate(config, o, chips[i], json, to, err));
            continue;
        }
        partition_comparison all;
        propane_status status = partition_compare(config, &q, chips[i], &all, err);
        if (status == PROPANE_OK && all.count == 0)
            status = propane_fail(err, PROPANE_ERR_NOT_FOUND, "plan is '%s'; it must be layer, six or ten", o->plan);
        if (status == PROPANE_OK && i && !json) text_append(to, "\n");
        if (status == PROPANE_OK) api_training_show(to, all.list, all.count, o, rates, json);
        partition_comparison_free(&all);
        if (status) return status;
    }
    return PROPANE_OK;
}

static propane_status api_training_print(const model_config *config, const propane_training_estimate_options *o,
                                         propane_form form, const chip *const *chips, int chip_count, text *to,
                                         propane_error *err) {
    if (form != PROPANE_JSON) return api_training_estimate(config, o, chips, chip_count, NULL, to, err);
    char *line = NULL;
    json_t *json = json_array();
    if (!json) return propane_fail_memory(err, 0);
    propane_status status = api_training_estimate(config, o, chips, chip_count, json, to, err);
    if (!status) status = json_print(json, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
    if (line) text_printf(to, "%s\n", line);
    mem_free(line);
    json_decref(json);
    return status;
}

static propane_status api_training_check_words(const propane_training_estimate_options *o, propane_error *err) {
    if (o->head && partition_head_find(o->head) == PARTITION_HEAD_COUNT)
        return propane_fail(err, PROPANE_ERR_INVALID, "head '%.40s' is not one of auto, host, device", o->head);
    if (o->moments && strcmp(moment_form_name(moment_form_of(o->moments)), o->moments) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "moments '%.40s' is not one of fp32, bf16, int8", o->moments);
    if (o->gradients && strcmp(o->gradients, "host") != 0 && strcmp(o->gradients, "device") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "gradients '%.40s' is not one of host, device", o->gradients);
    if (o->workers > 0 && o->gradients && strcmp(o->gradients, "device") == 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "gradients: estimates for several workers cannot have gradients on the device");
    PROPANE_TRY(api_plan_check_stream(o->stream, err));
    const bool half = o->stream && strcmp(o->stream, "fp16") == 0;
    if (half && o->workers > 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "stream: estimates for several workers do not count a stream in fp16");
    if (half && !o->compare && o->plan && strcmp(o->plan, "layer") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "stream fp16 is for plan layer; plan %.40s keeps the stream on the host", o->plan);
    if (strcmp(o->clipping, "exact") != 0 && strcmp(o->clipping, "lagged") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "clipping '%.40s' is not one of exact, lagged", o->clipping);
    if (strcmp(o->overlap, "on") != 0 && strcmp(o->overlap, "early") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "overlap '%.40s' is not one of on, early", o->overlap);
    return PROPANE_OK;
}

propane_status propane_estimate_training(const char *model, const propane_training_estimate_options *options,
                                         propane_form form, char **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, model, out);
    NEED_TEXT(err, model);
    NEED_FORM(err, form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON);
    API_ERROR(err);
    propane_training_estimate_options o = {0};
    model_config config;
    const chip *chips[CHIP_COUNT];
    int chip_count = 0;
    text to = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_training_estimate_options", err));
    if (!o.search) {
        o.plan = o.plan ? o.plan : "six";
        /* Adapters on one machine get the weight mode that training would choose: the base model as constants, unless
         * that needs too many programs. */
        if (!o.weights && (o.lora_rank == 0 || o.workers > 0)) o.weights = "inputs";
        o.head = o.head ? o.head : "auto";
        o.gradients = o.gradients ? o.gradients : "host";
        o.moments = o.moments ? o.moments : "fp32";
    }
    o.clipping = o.clipping ? o.clipping : "exact";
    o.overlap = o.overlap ? o.overlap : "on";
    o.batch = o.batch ? o.batch : 1;
    o.accumulate = o.accumulate ? o.accumulate : 1;
    if (o.workers < 0 || o.outer < 0 || o.outer_warmup < 0 || o.lora_rank < 0 || o.bandwidth < 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "workers, outer, its warm-up, rank and bandwidth must not be negative");
    if (o.batch < 1 || o.context < 0 || o.accumulate < 1)
        return propane_fail(err, PROPANE_ERR_INVALID, "batch, context and accumulate must not be negative");
    PROPANE_TRY(api_training_check_words(&o, err));
    PROPANE_TRY(chip_find_list(o.target ? o.target : "m4", chips, &chip_count, err));
    if (o.rates && (chip_count > 1 || o.workers > 0))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "rates describe a single host: give one target chip and no workers");
    if (strcmp(o.overlap, "early") == 0 && o.workers > 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "overlap early works in one process only: leave out overlap or the workers");
    PROPANE_TRY(api_plan_config(model, &config, err));
    if (!o.context) o.context = config.max_position_embeddings < 256 ? config.max_position_embeddings : 256;
    propane_status status = api_training_print(&config, &o, form, chips, chip_count, &to, err);
    if (!status) status = api_give_text(&to, out, NULL, err);
    text_deinit(&to);
    return status;
}
