/* SPDX-License-Identifier: MIT
 * Owns the arithmetic of a step's cost. The engine and the host are two queues: the chain is device kernels, the host's
 * kernels between them and the loss; weight gradients fill the host while the engine works, and what does not fit there is
 * exposed.
 *
 * Assumptions: the host's rates (cost_step.c tells where each comes from); matrix kernels of the host run at its product
 * rate or at its memory's, whichever is slower; nothing else runs on the machine.
 */
#include "train/step/partition_cost.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

#define BUDGET 119

static bool partition_cost_reads_weights(const partition *p, const partition_kernel *k) {
    for (int b = 0; b < PARTITION_BLOCKS; b++)
        if (p->blocks[b].part == k->part)
            for (int i = 0; i < k->function->param_count; i++)
                if (partition_is_weight(&p->blocks[b], k->function->params[i]->name)) return true;
    return false;
}

static propane_status partition_cost_device(const partition *p, const chip *c, weight_mode weights,
                                            partition_kernel_cost *k, arena *a, partition_cost *out,
                                            propane_error *err) {
    cost_program cost;
    PROPANE_TRY(cost_function(c, COST_DIRECT, k->kernel->function, a, &cost, err));
    double ms = cost.ms;
    /* Weights beside the activation are cut out and used at a rate that published packed steps tell, all else included. */
    if (weights == WEIGHT_MODE_PACKED) ms = fmax(ms, cost.weight_bytes / (cost_packed_gbs(c) * 1e6));
    k->ms = ms * k->calls;
    k->energy_mj = cost.energy_mj * k->calls;
    k->bytes = (cost.io_bytes + cost.weight_bytes) * k->calls;
    k->utilisation = cost.flops / (cost_constants_of(c->id)->tflops * 1e9 * ms);
    out->engine_ms += k->ms;
    out->energy_j += k->energy_mj * 1e-3;
    out->utilisation += cost.flops * k->calls; /* FLOPs until the end */
    bool own = partition_cost_reads_weights(p, k->kernel) &&
               (weights == WEIGHT_MODE_BAKED || weights == WEIGHT_MODE_RELOAD); /* each layer its own */
    bool again = own && weights == WEIGHT_MODE_BAKED;
    out->programs += !own ? 1 : again ? 0 : k->calls;
    out->compiles += again ? k->calls : 0;
    out->reloads += own && !again ? k->calls : 0;
    if (own)
        out->recompile_ms +=
            k->calls * (again ? cost_compile_ms(c, cost.weight_bytes) : cost_reload_ms(c, cost.weight_bytes));
    return PROPANE_OK;
}

static void partition_cost_on_host(const cost_host *h, partition_kernel_cost *k, partition_cost *out) {
    const partition_kernel *kernel = k->kernel;
    double products = kernel->flops / (h->gemm_tflops * 1e9), stream = kernel->bytes / (h->stream_gbs * 1e6);
    bool moves = kernel->flops < 4 * kernel->bytes; /* casts, sums, norms: less than a few operations a byte */
    k->ms = (moves ? stream : fmax(products, stream)) * k->calls;
    k->bytes = kernel->bytes * k->calls;
    if (kernel->weights)
        out->products_ms += k->ms;
    else if (kernel->flops < 0.5 * kernel->bytes)
        out->staging_ms += k->ms;
    else
        out->host_ms += k->ms;
}

static void partition_cost_add_up(const partition *p, const chip *c, const cost_host *h, int64_t accumulate,
                                  partition_cost *out) {
    double positions = (double)(p->options.batch * p->options.context),
           parameters = (double)model_arch_parameters(&p->config);
    double flops = out->utilisation, per = 1 / (double)accumulate;
    /* The logits are read twice and written once, in the precision of the programs. */
    out->loss_ms = 3 * positions * (double)p->config.vocab_size * 2 / (h->stream_gbs * 1e6);
    double chain = out->engine_ms + out->staging_ms + out->host_ms + out->loss_ms;
    double host = out->staging_ms + out->host_ms + out->loss_ms + out->products_ms;
    out->exposed_ms = fmax(0, host - chain);
    out->pass_ms = chain + out->exposed_ms;
    /* Weight, two moments and gradient are read, weight and moments written; fp16 copies for the device beside them. */
    out->update_ms = parameters * (28 + 2) / (h->memory_gbs * 1e6) * per;
    out->recompile_ms *= per;
    out->step_ms = out->pass_ms + out->update_ms + out->recompile_ms;
    /* The engine's part within half of what sums of operations are known to be off, the host's within 25 %. */
    out->low_ms = out->step_ms / 1.35;
    out->high_ms = out->step_ms * 1.35;
    out->tokens_per_s = positions / out->step_ms * 1e3;
    out->utilisation = flops / (cost_constants_of(c->id)->tflops * 1e9 * out->step_ms);
    out->restarts_per_100 = out->compiles ? (int)ceil(100.0 * out->compiles / BUDGET) : 0;
}

propane_status partition_cost_on(const partition *p, const chip *c, weight_mode weights, int64_t accumulate, arena *a,
                                 partition_cost *out, propane_error *err) {
    cost_host h = cost_host_of(c);
    *out = (partition_cost){.chip = c, .weights = weights};
    out->kernels = ARENA_ARRAY(a, p->kernel_count, partition_kernel_cost);
    if (!out->kernels) return propane_fail_memory(err, 0);
    for (int i = 0; i < p->kernel_count; i++) {
        partition_kernel_cost *k = &out->kernels[out->kernel_count++];
        *k = (partition_kernel_cost){.kernel = &p->kernels[i]};
        k->calls = (int)partition_calls(p, k->kernel);
        if (k->kernel->place == PARTITION_DEVICE)
            PROPANE_TRY(partition_cost_device(p, c, weights, k, a, out, err));
        else
            partition_cost_on_host(&h, k, out);
    }
    partition_cost_add_up(p, c, &h, accumulate, out);
    return PROPANE_OK;
}
