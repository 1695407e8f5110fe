/* SPDX-License-Identifier: MIT
 * Owns the sums. They count the large arrays only and are meant as a lower bound: a run that is refused here could not
 * have gone well. Doubles, because the sizes that people mistype overflow integers.
 */
#include "train/footprint.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "model/lora.h"
#include "train/plan.h"

/* Parameters that have a gradient and moments. Patterns of names are left to the run itself: the sums are a lower bound. */
static double learnt(const model_config *c, const train_options *o, double parameters) {
    double sum = 0;
    if (o->lora_rank == 0) return (o->trainable && *o->trainable) || (o->freeze && *o->freeze) ? 0 : parameters;
    model_lora l = {.rank = o->lora_rank, .alpha = 1};
    if (model_lora_choose(&l, c, o->lora_targets, NULL) != PROPANE_OK) return 0;
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
        if (row->in != ARCH_1 && model_lora_targets(&l, row->param))
            sum += (double)(l.rank * (model_arch_size(c, row->out) +
                                      (model_arch_leader(c, row) == row ? model_arch_size(c, row->in) : 0)));
    return sum * (double)c->num_hidden_layers;
}

train_footprint train_footprint_of(const model_config *c, const train_options *o) {
    model_config split = *c;
    plan_split_head(&split, o->batch, o->context);
    double d = (double)c->hidden_size, h = (double)c->intermediate_size;
    double v = (double)(split.vocab_piece ? split.vocab_piece : c->vocab_size);
    double q = (double)c->num_attention_heads * (double)c->head_dim,
           kv = (double)c->num_key_value_heads * (double)c->head_dim;
    double layers = (double)c->num_hidden_layers, b = (double)o->batch, s = (double)o->context;
    double parameters = (double)model_arch_parameters(c);
    double element = strcmp(o->precision, "fp16") == 0 ? 2 : 4;
    /* A layer keeps its two halves' inputs and results, queries, keys and values, the attention's probabilities, and the
     * hidden values of the feed-forward half. */
    double layer =
        b * s * (2 * 4 * d + element * (q + 2 * kv + h)) + element * b * (double)c->num_attention_heads * s * s;
    bool copies = element < 4 || !o->device || strncmp(o->device, "cpu", 3) != 0; /* the cpu reads the master weights */
    if (o->recompute) layer = b * s * 2 * 4 * d + layer / layers; /* the inputs of all halves, the rest of one layer */
    return (train_footprint){.state = parameters * (4 + (copies ? element : 0)) + learnt(c, o, parameters) * 3 * 4,
                             .activations = layers * layer + element * (b * s * v + s * s)};
}

propane_status train_footprint_check(const model_config *config, const train_options *options, propane_error *err) {
    double there = (double)mem_physical();
    train_footprint f = train_footprint_of(config, options);
    char need[32], state[32], activations[32], has[32];
    if (there <= 0 || f.state + f.activations <= there) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_LIMIT,
        "this run needs at least %s of memory (weights and optimizer %s, a batch's activations %s), the "
        "machine has %s; take a smaller %s",
        text_bytes(need, f.state + f.activations), text_bytes(state, f.state), text_bytes(activations, f.activations),
        text_bytes(has, there), f.state > f.activations ? "model" : "--batch or --context");
}
