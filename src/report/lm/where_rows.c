/* SPDX-License-Identifier: MIT
 * Owns the comparison of `propane where`. The rows are the fastest candidate of each plan on the engine
 * (lm/step/partition_compare.h), the processor alone, and the GPU with published figures (ane/chip/cost_units.h). One
 * of them is chosen as the best for a goal.
 */
#include "report/lm/where_rows.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "lm/run/memory_estimate.h"
#include "lm/run/plan_choice.h"
#include "lm/run/public_plan.h"
#include "lm/step/partition_compare.h"

#define ENGINE_BAND    1.35 /* as in partition_cost */
#define PROCESSOR_BAND 1.4  /* the largest error for published steps is 39 % */
#define JOULES_BAND    2.0  /* docs/estimate.md */

const char *where_unit_name(where_unit unit) {
    static const char *const names[] = {"engine", "engine", "cpu", "gpu"};
    return names[unit];
}

static double where_thousands(const where_question *q) { return (double)(q->batch * q->context) / 1000; }

/* ---- commands --------------------------------------------------------------------------------------------------------------- */

/* Returns the command to run. A model of which only the sizes are known is trained from scratch. For adapters, the
 * command has a placeholder instead of such a model, because adapters need weights. */
static const char *where_line(const where_question *q, const char *machine, arena *a) {
    const model_config *c = q->config;
    const bool sizes = api_plan_is_sizes(q->model);
    if (q->kind == COST_WORK_FORWARD)
        return arena_printf(a, "propane eval %s --data %s%s", sizes ? "MODEL" : q->model, q->data, machine);
    const char *what =
        q->kind == COST_WORK_LORA
            ? arena_printf(a, "--init %s --lora-rank %lld", sizes ? "MODEL" : q->model, (long long)q->lora->rank)
        : sizes ? arena_printf(a, "--layers %lld --width %lld --heads %lld", (long long)c->num_hidden_layers,
                               (long long)c->hidden_size, (long long)c->num_attention_heads)
                : arena_printf(a, "--init %s", q->model);
    return what
               ? arena_printf(a, "propane train %s --data %s --run RUN --batch %lld --context %lld --accumulate %lld%s",
                              what, q->data, (long long)q->batch, (long long)q->context, (long long)q->accumulate,
                              machine)
               : NULL;
}

/* Returns a lower bound of the memory in bytes. For a forward pass, only the weights are counted: in fp32, and for fp16
 * programs also in fp16. */
static double where_memory(const where_question *q, const char *device, const char *precision, const char *plan,
                           bool half_stream) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.device = device, o.precision = precision, o.plan = plan, o.stream = half_stream ? "fp16" : "fp32";
    o.batch = q->batch, o.context = q->context, o.accumulate = q->accumulate;
    o.lora_rank = q->kind == COST_WORK_LORA ? q->lora->rank : 0;
    o.lora_targets = "";
    if (q->kind == COST_WORK_FORWARD)
        return (double)model_arch_parameters(q->config) * (strcmp(precision, "fp16") == 0 ? 6 : 4);
    const memory_estimate m = memory_estimate_of(q->config, &o, 1);
    return m.state + m.batch;
}

/* ---- the engine ------------------------------------------------------------------------------------------------------------- */

/* The cost of a candidate, for the requested kind of work. */
typedef struct where_cost {
    double ms, engine_j, host_j, memory_j, idle_j, host_ms, engine_ms, engine_flops, host_flops;
} where_cost;

static double where_joules(const where_cost *c) { return c->engine_j + c->host_j + c->memory_j + c->idle_j; }

static where_cost where_forward_cost(const partition_candidate *k) {
    const cost_host h = cost_host_of(k->cost.chip);
    where_cost out = {0};
    for (int i = 0; i < k->cost.kernel_count; i++) {
        const partition_kernel_cost *kernel = &k->cost.kernels[i];
        const bool engine = kernel->kernel->place == PARTITION_DEVICE;
        if (kernel->kernel->backward) continue;
        *(engine ? &out.engine_ms : &out.host_ms) += kernel->ms;
        *(engine ? &out.engine_flops : &out.host_flops) += kernel->kernel->flops * kernel->calls;
        out.engine_j += kernel->energy_mj * 1e-3;
        if (!engine) out.memory_j += kernel->bytes * cost_byte_pj(k->cost.chip) * 1e-12;
    }
    out.ms = out.engine_ms + out.host_ms;
    out.host_j = h.watts * out.host_ms * 1e-3;
    out.idle_j = COST_IDLE_WATTS * out.ms * 1e-3;
    return out;
}

static where_cost where_cost_of(const where_question *q, const partition_candidate *k) {
    const partition_cost *c = &k->cost;
    if (q->kind == COST_WORK_FORWARD) return where_forward_cost(k);
    return (where_cost){c->step_ms,      c->energy_j,  c->host_j,       c->memory_j,  c->idle_j,
                        c->host_busy_ms, c->engine_ms, c->engine_flops, c->host_flops};
}

static double where_weigh(where_goal goal, const where_cost *c) {
    return goal == WHERE_JOULES ? where_joules(c) : goal == WHERE_BACKGROUND ? c->host_ms : c->ms;
}

static const char *where_engine_reason(const where_question *q, const where_cost *c, const partition_cost *p,
                                       bool products, arena *a) {
    const double share = 100 * c->host_flops / (c->engine_flops + c->host_flops);
    text to = {0};
    text_printf(&to, "the CPU performs %.0f %% of the operations", share);
    if (q->kind == COST_WORK_FULL)
        text_append(&to, products ? ", among them the head's weight gradient, sums of the others, and AdamW"
                                  : ", among them all weight gradients, and AdamW");
    text_printf(&to, "; it is busy for %.0f ms, the engine for %.0f ms", c->host_ms / where_thousands(q),
                c->engine_ms / where_thousands(q));
    if (q->kind == COST_WORK_LORA) text_append(&to, "; no weight of the base has a gradient");
    if (q->kind != COST_WORK_FORWARD && p->recompile_ms > 0.05 * p->step_ms)
        text_printf(&to, "; recompiling programs takes %.0f %% of the time", 100 * p->recompile_ms / p->step_ms);
    const char *kept = to.data ? arena_string(a, to.data) : NULL;
    text_deinit(&to);
    return kept;
}

static const char *where_engine_line(const where_question *q, const partition_candidate *k, arena *a) {
    const char *machine =
        q->kind == COST_WORK_FORWARD
            ? " --device ane --precision fp16"
            : arena_printf(a, " --device ane --precision fp16 --plan %s%s --head %s --weights %s%s",
                           k->partition->options.name, k->partition->options.half_stream ? " --stream fp16" : "",
                           partition_head_name(&k->partition->options), weight_mode_name(k->cost.how.weights),
                           k->partition->options.gradients ? " --gradients device" : "");
    return machine ? where_line(q, machine, a) : NULL;
}

static void where_take_engine(const where_question *q, const partition_candidate *k, arena *a, where_row *out) {
    const where_cost c = where_cost_of(q, k);
    const char *head = partition_head_name(&k->partition->options),
               *name = k->partition->options.half_stream ? "layer, stream fp16" : k->partition->options.name;
    const double thousands = where_thousands(q);
    *out =
        (where_row){.unit = WHERE_ENGINE,
                    .known = !k->refused[0],
                    .plan = arena_printf(a,
                                         k->partition->options.gradients && strcmp(head, "device") == 0
                                             ? "%s, head and gradients %s, weights %s"
                                             : "%s, head %s, weights %s%s",
                                         name, head, weight_mode_name(k->cost.how.weights),
                                         k->partition->options.gradients ? ", gradients device" : ""),
                    .reason = k->refused[0] ? arena_printf(a, "refused by a known rule: %s", k->refused)
                                            : where_engine_reason(q, &c, &k->cost, k->partition->options.gradients, a)};
    if (k->refused[0]) return;
    out->ms = c.ms / thousands, out->low_ms = out->ms / ENGINE_BAND, out->high_ms = out->ms * ENGINE_BAND;
    out->joules = where_joules(&c) / thousands;
    out->engine_j = c.engine_j / thousands, out->host_j = c.host_j / thousands;
    out->memory_j = c.memory_j / thousands, out->idle_j = c.idle_j / thousands;
    out->host_share = c.host_flops / (c.engine_flops + c.host_flops);
    out->host_ms = c.host_ms / thousands;
    out->memory = where_memory(q, "sim:m4", "fp16", k->partition->options.name, k->partition->options.half_stream);
    /* adds the constants in the programs, as far as they exceed the one fp16 copy that is already counted */
    out->memory += fmax(0, k->cost.constant_bytes - 2 * (double)model_arch_parameters(q->config));
    out->compile_s = k->cost.compile_ms / 1e3;
    out->error = "unknown, because no step of these plans was measured";
    out->line = where_engine_line(q, k, a);
}

/* Returns whether plan layer's residual is fp16. If the user has not chosen a type, it is fp16 on chips that refuse it
 * in fp32. */
static bool where_half_stream(const where_question *q, const chip *c) {
    return q->stream ? strcmp(q->stream, "fp16") == 0 : !chip_listed(partition_chips("layer", MIL_fp16, false), c);
}

/* Adds the best candidate of each plan. A candidate that no rule refuses is better than one that is refused. */
static propane_status where_add_engine(const where_question *q, const chip *c, arena *a, where_rows *out, double *flops,
                                       propane_error *err) {
    const partition_batches batches = {q->batch, q->accumulate};
    const partition_question asked = {.lora = q->lora,
                                      .gradients = q->kind == COST_WORK_FORWARD ? "host" : NULL,
                                      .moments = "fp32",
                                      .batches = &batches,
                                      .batch_count = 1,
                                      .context = q->context,
                                      .half_stream = where_half_stream(q, c)};
    partition_comparison all;
    propane_status status = partition_compare(q->config, &asked, c, &all, err);
    for (int n = 0; status == PROPANE_OK && n < partition_name_count(); n++) {
        const partition_candidate *best = NULL;
        double least = 0;
        for (int i = 0; i < all.count; i++) {
            const partition_candidate *k = &all.list[i];
            if (strcmp(k->partition->options.name, partition_name(n)) != 0) continue;
            const where_cost cost = where_cost_of(q, k);
            const double weight = where_weigh(q->goal, &cost);
            const bool first = !best || (best->refused[0] && !k->refused[0]);
            if (first || (weight < least && !k->refused[0] == !best->refused[0])) best = k, least = weight;
        }
        if (!best) continue;
        const where_cost cost = where_cost_of(q, best);
        if (strcmp(partition_name(n), "layer") == 0) *flops = cost.engine_flops + cost.host_flops;
        where_take_engine(q, best, a, &out->list[out->count++]);
    }
    partition_comparison_free(&all);
    return status;
}

/* Adds a row for the engine as published trainers use it. They pack the weights and compile once, and compute the head,
 * the weight gradients and the norms on the processor. */
static void where_add_others(const where_question *q, const chip *c, arena *a, where_rows *out) {
    const model_config *m = q->config;
    const double positions = (double)(q->batch * q->context), thousands = where_thousands(q);
    const cost_sizes sizes = {(double)m->num_hidden_layers,
                              (double)m->hidden_size,
                              (double)m->intermediate_size,
                              (double)(m->num_attention_heads * m->head_dim),
                              (double)(m->num_key_value_heads * m->head_dim),
                              (double)m->vocab_size,
                              positions,
                              1};
    cost_step s;
    if (q->kind != COST_WORK_FULL || !model_arch_is_gated(model_arch_of(m)) || m->num_experts > 0) return;
    cost_step_published(c, &sizes, COST_STYLE_PACKED, &s);
    const double weights = sizes.layers * cost_layer_weights(&sizes),
                 host = s.staging_ms + s.elementwise_ms + s.gemm_ms;
    const double engine = cost_energy_mj(c, 4 * weights * positions, 8 * weights, s.engine_ms) * 1e-3;
    out->others = out->count;
    out->list[out->count++] =
        (where_row){.unit = WHERE_OTHERS,
                    .plan = "as in published trainers",
                    .known = true,
                    .ms = s.ms / thousands,
                    .low_ms = s.ms / thousands / PROCESSOR_BAND,
                    .high_ms = s.ms / thousands * PROCESSOR_BAND,
                    .joules = (engine + (cost_host_of(c).watts * host + COST_IDLE_WATTS * s.ms) * 1e-3) / thousands,
                    .engine_j = engine / thousands,
                    .host_j = cost_host_of(c).watts * host * 1e-3 / thousands,
                    .idle_j = COST_IDLE_WATTS * s.ms * 1e-3 / thousands,
                    .host_ms = host / thousands,
                    .reason = arena_printf(a,
                                           "engine %.0f %%, staging %.0f %%, head and loss %.0f %% of the time; for "
                                           "comparison only, as Propane does not run this way",
                                           100 * s.engine_ms / s.ms, 100 * s.staging_ms / s.ms, 100 * s.gemm_ms / s.ms),
                    .error = "17 % (median of nine published steps)"};
}

/* ---- the other units -------------------------------------------------------------------------------------------------------- */

static void where_processor(const where_question *q, const chip *c, double flops, cost_work *work, cost_unit *out) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.batch = q->batch, o.context = q->context, o.accumulate = q->accumulate;
    o.lora_rank = q->kind == COST_WORK_LORA ? q->lora->rank : 0;
    o.lora_targets = "";
    processor_cost(q->config, &o, q->kind, flops, c, work, out);
}

static void where_add_processor(const where_question *q, const chip *c, double flops, arena *a, where_rows *out) {
    const double thousands = where_thousands(q);
    cost_work work;
    cost_unit u;
    where_processor(q, c, flops, &work, &u);
    out->list[out->count++] = (where_row){
        .unit = WHERE_PROCESSOR,
        .plan = "Accelerate, fp32",
        .known = true,
        .ms = u.ms / thousands,
        .low_ms = u.ms / thousands / PROCESSOR_BAND,
        .high_ms = u.ms / thousands * PROCESSOR_BAND,
        .joules = u.joules / thousands,
        .host_share = 1,
        .host_ms = u.ms / thousands,
        .memory = where_memory(q, "cpu", "fp32", "layer", false),
        .reason = arena_printf(a, "matrix products %.0f %%, elementwise operations %.0f %%, AdamW %.0f %% of the time",
                               100 * u.products_ms / u.ms, 100 * u.element_ms / u.ms, 100 * u.update_ms / u.ms),
        .error = "11 % (median of four published steps, all of an M2 Pro)",
        .line = where_line(q, " --device cpu --blas auto", a)};
}

static void where_add_gpu(const where_question *q, const chip *c, double flops, arena *a, where_rows *out) {
    where_row *r = &out->list[out->count++];
    cost_work work;
    cost_unit u;
    where_processor(q, c, flops, &work, &u);
    *r = (where_row){
        .unit = WHERE_GPU, .plan = "", .reason = "unknown, because no such rate is published for this chip"};
    if (!cost_gpu(c, &work, &u)) return;
    r->known = true;
    r->plan = u.software;
    r->ms = r->low_ms = r->high_ms = u.ms / where_thousands(q);
    r->joules = u.joules / where_thousands(q);
    r->error = "not known";
    r->reason = arena_printf(
        a, "stated by %s%s", u.source,
        q->kind == COST_WORK_LORA ? "; the rate of full training, applied to the operations of adapters" : "");
}

/* ---- the choice ------------------------------------------------------------------------------------------------------------- */

/* Returns the figure that the goal minimises, or infinity if the row has none. */
static double where_score(where_goal goal, const where_row *r) {
    if (!r->known || r->unit == WHERE_OTHERS) return INFINITY;
    if (goal == WHERE_TIME) return r->ms;
    if (goal == WHERE_JOULES) return r->joules > 0 ? r->joules : INFINITY;
    return r->unit == WHERE_ENGINE ? r->host_ms : INFINITY; /* only the engine leaves CPU and GPU to the user */
}

static void where_choose(where_goal goal, where_rows *rows) {
    double least = INFINITY;
    rows->best = rows->rival = -1;
    for (int i = 0; i < rows->count; i++)
        if (where_score(goal, &rows->list[i]) < least) {
            least = where_score(goal, &rows->list[i]);
            rows->best = i;
        }
    if (rows->best < 0 || goal == WHERE_BACKGROUND) return;
    const where_row *best = &rows->list[rows->best];
    double nearest = INFINITY;
    for (int i = 0; i < rows->count; i++) {
        const where_row *r = &rows->list[i];
        const double score = where_score(goal, r);
        const bool near = goal == WHERE_TIME ? r->low_ms <= best->high_ms : score <= JOULES_BAND * least;
        if (r->unit == best->unit || !isfinite(score)) continue;
        if (rows->others >= 0) {
            const where_row *others = &rows->list[rows->others];
            rows->contradicts |=
                best->unit == WHERE_ENGINE && (goal == WHERE_TIME ? others->ms : others->joules) > score;
        }
        if (near && score < nearest) {
            nearest = score;
            rows->rival = i;
        }
    }
}

static bool where_complete(const where_rows *rows) {
    for (int i = 0; i < rows->count; i++)
        if (!rows->list[i].plan || !rows->list[i].reason ||
            (rows->list[i].known && rows->list[i].unit != WHERE_GPU && rows->list[i].unit != WHERE_OTHERS &&
             !rows->list[i].line))
            return false;
    return true;
}

propane_status where_rows_make(const where_question *q, const chip *c, arena *a, where_rows *out, propane_error *err) {
    double flops = 0;
    *out = (where_rows){.others = -1};
    PROPANE_TRY(where_add_engine(q, c, a, out, &flops, err));
    where_add_others(q, c, a, out);
    where_add_processor(q, c, flops, a, out);
    where_add_gpu(q, c, flops, a, out);
    if (!where_complete(out)) return propane_fail_memory(err, 0);
    for (int i = 0; i < out->count; i++) {
        where_row *r = &out->list[i];
        const double band = r->unit == WHERE_GPU ? 1 : JOULES_BAND; /* the joules of a GPU are measured, or unknown */
        r->low_joules = r->joules / band, r->high_joules = r->joules * band;
    }
    where_choose(q->goal, out);
    return PROPANE_OK;
}
