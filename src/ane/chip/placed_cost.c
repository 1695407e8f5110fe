/* SPDX-License-Identifier: MIT
 * Owns the cost that CPU operations and switches add to an estimate for Core ML's path.
 */
#include "ane/chip/placed_cost.h"

#include <math.h>

#include "ane/chip/check.h"
#include "ane/chip/cost_step.h"
#include "core/mil/ops.h"

/* Two assumptions: the us to begin an operation on the CPU, and the factor by which the CPU's part may be too high or
 * too low. */
#define CPU_US   5.0
#define CPU_BAND 3.0

static void placed_cost_move(const cost_host *host, cost_op *o) {
    o->bound = COST_CPU;
    if (o->ms == 0) return; /* a view costs nothing */
    o->ms = fmax(o->flops / (host->gemm_tflops * 1e9), o->bytes / (host->stream_gbs * 1e6)) + CPU_US * 1e-3;
    o->energy_mj = 0;
}

static void placed_cost_apply(const chip *c, const bool *moved, const chip_segments *s, cost_program *p) {
    double engine_ms = 0, cpu_ms = 0, energy = 0;
    int place = 0, at = 0;
    const cost_host host = cost_host_of(c);
    for (const mil_op *op = p->function->first; op; op = op->next, place++) {
        if (at == p->op_count || p->ops[at].op != op) continue;
        cost_op *o = &p->ops[at++];
        if (!moved[place]) continue;
        engine_ms += o->ms;
        energy += o->energy_mj;
        placed_cost_move(&host, o);
        cpu_ms += o->ms;
    }
    if (!s->moved) return;
    if (!s->engine) { /* the program never calls the engine */
        engine_ms += p->fixed_ms;
        p->fixed_ms = 0;
    }
    p->moved = s->moved;
    p->switches = s->switches;
    p->cpu_ms = cpu_ms;
    p->switch_ms = s->ms;
    const double rest = fmax(p->ms - engine_ms, p->fixed_ms + p->io_ms), before = p->ms;
    p->ms = rest + cpu_ms + s->ms;
    p->low_ms = rest * p->low_ms / before + cpu_ms / CPU_BAND + s->ms / 1.5;
    p->high_ms = rest * p->high_ms / before + cpu_ms * CPU_BAND + s->ms * 1.5;
    p->energy_mj = fmax(p->energy_mj - energy, 0);
    p->utilisation = p->flops / (cost_constants_of(c->id)->tflops * 1e9 * p->ms);
}

propane_status placed_cost(const chip *c, cost_path path, const mil_function *f, arena *a, cost_program *out,
                           propane_error *err) {
    bool *moved = ARENA_ARRAY(a, f->op_count + 1, bool);
    chip_segments cut = {0};
    propane_error refused = {0};
    PROPANE_TRY(cost_function(c, path, f, a, out, err));
    if (!moved) return propane_fail_memory(err, (size_t)f->op_count);
    if (path != COST_COREML) return PROPANE_OK;
    const propane_status status = chip_check_placement(f, c, 0, moved, &cut, &refused);
    if (status && status != PROPANE_ERR_UNSUPPORTED) return propane_fail(err, status, "%s", refused.text);
    placed_cost_apply(c, moved, &cut, out);
    return PROPANE_OK;
}
