/* SPDX-License-Identifier: MIT
 * Owns the profile's accessors.
 */
#include "cpu/profile.h"

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

const char *cpu_profile_fusion(const driver_program *program, int index, int *count) {
    const cpu_program *p = profile_program_of(program);
    if (index < 0 || index >= p->fusion_count) return NULL;
    *count = p->fusions[index].count;
    return p->fusions[index].name;
}
