/* SPDX-License-Identifier: MIT
 * Owns the estimate of a run's memory. It counts only the large arrays and is meant as a lower bound: a run that is
 * refused for lack of memory could not have succeeded. The sums are doubles, because mistyped sizes overflow integers.
 */
#include "lm/run/memory_estimate.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/device/uri.h"
#include "lm/arch/lora.h"
#include "lm/dist/outer.h"
#include "lm/step/partition.h"
#include "train/optim/moments.h"

static bool estimate_on_cpu(const train_options *o) { return !o->device || device_is(o->device, "cpu"); }

static bool estimate_has_patterns(const train_options *o) {
    return (o->trainable && *o->trainable) || (o->freeze && *o->freeze);
}

double memory_estimate_trained(const model_config *c, const train_options *o) {
    double sum = 0;
    if (o->lora_rank == 0) return estimate_has_patterns(o) ? 0 : (double)model_arch_parameters(c);
    model_lora l = {.rank = o->lora_rank, .alpha = 1};
    if (model_lora_choose(&l, c, o->lora_targets, NULL) != PROPANE_OK) return 0;
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
        if (row->in != ARCH_1 && model_lora_targets(&l, row->param))
            sum += (double)(l.rank * (model_arch_size(c, row->out) +
                                      (model_arch_leader(c, row) == row ? model_arch_size(c, row->in) : 0)));
    return sum * (double)c->num_hidden_layers;
}

/* Estimates the bytes of the values that are live together with the logits. A layer keeps the inputs of its halves, its
 * queries, keys and values, and the inputs of the activation function. If whole matrices are trained, it also keeps the
 * inputs of o_proj and down_proj and, on the cpu device, the results of the norms. */
static double estimate_alive(const model_config *c, const train_options *o, double element) {
    model_config split = *c;
    partition_split_head(&split, o->batch, o->context);
    double positions = (double)o->batch * (double)o->context, layers = (double)c->num_hidden_layers;
    double q = (double)c->num_attention_heads * (double)c->head_dim,
           kv = (double)c->num_key_value_heads * (double)c->head_dim, h = (double)model_config_hidden(c);
    /* the fp32 stream itself is kept */
    const bool wide = o->recompute && !(o->stream && strcmp(o->stream, "fp16") == 0);
    double inputs = 2 * (wide ? 4 : element) * (double)c->hidden_size;
    double rest = element * (q + 2 * kv + (model_arch_is_gated(model_arch_of(c)) ? 2 * h : h));
    double logits = element * (double)(split.vocab_piece ? split.vocab_piece : c->vocab_size);
    if (o->lora_rank == 0 && !estimate_has_patterns(o))
        rest += element * (q + h + (estimate_on_cpu(o) ? 2 * (double)c->hidden_size : 0));
    if (estimate_has_patterns(o)) layers = 1; /* the other layers may be frozen */
    if (o->lora_rank > 0) layers--;           /* the first layer's attention may be below all adapters */
    /* The gradient of the scores passes from kernel to kernel unless a half is one kernel. By then, part of the layer's
     * memory has been freed. */
    double scores = strcmp(o->plan, "layer") == 0
                        ? 0
                        : element * (double)c->num_attention_heads * (double)o->context - inputs - rest;
    double brief = logits > scores ? logits : scores;
    if (!o->recompute) return positions * (layers * (inputs + rest) + brief);
    return positions * (layers * inputs + (rest > brief ? rest : brief)); /* `rest` exists for one layer at a time */
}

/* Returns the bytes per trained parameter that outer steps keep: the common weights, their momentum and, with int4, the
 * rounding errors of messages, for shares and for sums. */
static double estimate_outer(const train_options *o, int ranks) {
    if (o->outer == 0 || ranks == 1) return 0;
    const outer_options options = {.every = o->outer, .lr = o->outer_lr, .momentum = o->outer_momentum};
    const allreduce_wire wire = allreduce_wire_find(o->wire);
    if (outer_is_mean(&options, wire)) return 0;
    return 4 + (o->outer_momentum > 0 ? 4 : 0) + (wire == ALLREDUCE_INT4 ? 4 + 4.0 / ranks : 0);
}

/* Returns the bytes per trained parameter of the second set of weights and moments that speculative updates write. */
static double estimate_early(const train_options *o, int ranks, double both) {
    const bool speculates = train_options_speculates(o) && ranks == 1 && !estimate_on_cpu(o);
    return speculates && strcmp(o->weights, "packed") != 0 && strcmp(o->weights, "baked") != 0 ? 4 + both : 0;
}

/* Returns the bytes of a base in the form of its file, with fp32 buffers for one layer and one piece of the table. */
static double estimate_base(const model_config *c, const train_options *o) {
    model_config split = *c;
    partition_split_head(&split, o->batch, o->context);
    const double width = (double)c->hidden_size,
                 tables = (c->tie_word_embeddings ? 1 : 2) * (double)c->vocab_size * width;
    const double layer = ((double)model_arch_parameters(c) - tables) / (double)c->num_hidden_layers;
    return (double)o->base_bytes +
           4 * (layer + width * (double)(split.vocab_piece ? split.vocab_piece : c->vocab_size));
}

memory_estimate memory_estimate_of(const model_config *c, const train_options *whole, int ranks) {
    train_options own = *whole, *o = &own;
    own.batch = whole->batch < ranks ? 1 : whole->batch / ranks;
    double parameters = (double)model_arch_parameters(c), moved = memory_estimate_trained(c, o);
    double element = strcmp(o->precision, "fp16") == 0 ? 2 : 4, activations = estimate_alive(c, o, element);
    bool cpu = estimate_on_cpu(o); /* the cpu device reads the master weights */
    const double both = 2 * (double)moment_bytes(moment_form_of(o->moments));
    memory_estimate f = {
        .state = (o->base_bytes ? estimate_base(c, o) : 4 * parameters) +
                 parameters * (!cpu || element < 4 ? element : 0) +
                 moved * (both / (o->shard ? ranks : 1) + estimate_outer(o, ranks) + estimate_early(o, ranks, both)),
        .batch = activations + 4 * moved};
    if (cpu && !o->two_queues && o->accumulate <= 1) {
        /* a gradient reuses the memory of activations whose last reader has run; a table's gradient needs memory in
         * addition to the activations */
        double table = moved == parameters ? (double)c->vocab_size * (double)c->hidden_size : 0;
        activations += 4 * table;
        f.batch = activations > 4 * moved ? activations : 4 * moved;
    }
    return f;
}

propane_status memory_estimate_check(const model_config *config, const train_options *options, propane_error *err) {
    double there = (double)mem_physical();
    memory_estimate f = memory_estimate_of(config, options, options->mpi ? mpi_size(options->mpi) : 1);
    char need[32], state[32], batch[32], has[32];
    if (there <= 0 || f.state + f.batch <= there) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "this run needs at least %s of memory (weights and moments %s, activations and gradients of a "
                        "batch %s), but the machine has %s; use a smaller %s",
                        text_bytes(need, f.state + f.batch), text_bytes(state, f.state), text_bytes(batch, f.batch),
                        text_bytes(has, there), f.state > f.batch ? "model" : "--batch or --context");
}
