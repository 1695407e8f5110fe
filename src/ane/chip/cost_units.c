/* SPDX-License-Identifier: MIT
 * Owns the time and energy that the processor and the GPU need for a batch of training or for a forward pass.
 *
 * The processor's time is a sum of matrix products at the rate of hosts.def, elementwise work per activation, and AdamW
 * per byte. The constant of the elementwise work is from one author's M2 Pro (COST_ELEMENT_NS); other chips scale it by
 * their stream rates.
 */
#include "ane/chip/cost_units.h"

/* Forward is a third of the elementwise work: backward processes a value and a gradient where forward processes one
 * value. */
#define FORWARD_PART (1 / 3.0)

void cost_processor(const chip *c, const cost_work *work, cost_unit *out) {
    const cost_host h = cost_host_of(c);
    const double stream = cost_host_of(chip_get(CHIP_m2_pro)).stream_gbs / h.stream_gbs;
    *out = (cost_unit){.products_ms = work->flops / (h.gemm_tflops * 1e9),
                       .element_ms = work->elements * COST_ELEMENT_NS / 1e6 * stream,
                       .update_ms = work->update_bytes / (h.memory_gbs * 1e6)};
    if (work->kind == COST_WORK_FORWARD) out->element_ms *= FORWARD_PART;
    out->ms = out->products_ms + out->element_ms + out->update_ms;
    out->joules = (h.watts + COST_IDLE_WATTS) * out->ms * 1e-3 + work->update_bytes * cost_byte_pj(c) * 1e-12;
}

bool cost_gpu(const chip *c, const cost_work *work, cost_unit *out) {
    enum { TRAINING, FORWARD };
    static const struct {
        chip_id chip;
        int work;
        double tflops, pj;
        const char *software, *source;
    } rows[] = {
#define GPU(id, ...) {CHIP_##id, __VA_ARGS__},
#include "ane/chip/gpus.def"
    };
    const int kind = work->kind == COST_WORK_FORWARD ? FORWARD : TRAINING;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].chip == c->id && rows[i].work == kind) {
            *out = (cost_unit){.ms = work->flops / (rows[i].tflops * 1e9),
                               .joules = work->flops * rows[i].pj * 1e-12,
                               .software = rows[i].software,
                               .source = rows[i].source};
            return true;
        }
    return false;
}
