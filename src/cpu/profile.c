/* SPDX-License-Identifier: MIT
 * Owns the profile's accessors and its table.
 */
#include "cpu/profile.h"

#include "core/base/text.h"
#include "cpu/cpu_program.h"

static cpu_program *profile_program_of(const driver_program *program) { return program->impl; }

void cpu_profile_enable(driver_program *program, bool on) { profile_program_of(program)->profile = on; }

void cpu_profile_reset(driver_program *program) {
    cpu_program *p = profile_program_of(program);
    for (int i = 0; i < p->step_count; i++) p->steps[i].runs = p->steps[i].ns = 0;
}

int cpu_profile_count(const driver_program *program) { return profile_program_of(program)->step_count; }

void cpu_profile_get(const driver_program *program, int step, cpu_profile_row *out) {
    const cpu_step *s = &profile_program_of(program)->steps[step];
    *out = (cpu_profile_row){s->kind, s->name, s->stage, s->flops, s->bytes, s->runs, s->ns};
}

void cpu_profile_summary(const driver_program *program, cpu_profile_counts *out) {
    const cpu_program *p = profile_program_of(program);
    *out = (cpu_profile_counts){p->step_count,      p->tile_count, p->gemm_count,  p->copy_count,
                                p->reference_count, p->fused_ops,  p->block_bytes, (int64_t)p->constant_bytes};
}

const char *cpu_profile_fusion(const driver_program *program, int index, int *count) {
    const cpu_program *p = profile_program_of(program);
    if (index < 0 || index >= p->fusion_count) return NULL;
    *count = p->fusions[index].count;
    return p->fusions[index].name;
}

void cpu_profile_print(const driver_program *program, text *out) {
    const cpu_program *p = profile_program_of(program);
    double total = 0;
    for (int i = 0; i < p->step_count; i++) total += (double)p->steps[i].ns;
    text_printf(out, "%4s %-9s %-32s %-12s %9s %6s %9s %8s\n", "step", "kind", "value", "stage", "us", "share",
                "GFLOP/s", "GB/s");
    for (int i = 0; i < p->step_count; i++) {
        const cpu_step *s = &p->steps[i];
        double ns = s->runs ? (double)s->ns / (double)s->runs : 0;
        text_printf(out, "%4d %-9s %-32.32s %-12.12s %9.1f %5.1f%% %9.2f %8.2f\n", i, s->kind, s->name,
                    s->stage ? s->stage : "", ns / 1e3, total > 0 ? 100 * (double)s->ns / total : 0,
                    ns > 0 ? s->flops / ns : 0, ns > 0 ? s->bytes / ns : 0);
    }
}
