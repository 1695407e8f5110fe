/* SPDX-License-Identifier: MIT
 * The only file of the oracle that reads the planner's structures. It writes in the record's vocabulary: if a field
 * moves or is renamed, this file changes but its output does not.
 */
#include "oracle/plan_dump.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "cpu/loop/loop.h"
#include "cpu/plan/plan.h"
#include "cpu/simd/kernels.h"

struct oracle_plan {
    cpu_program *program;
    void *block;
    size_t block_bytes;
};

int oracle_isa_count(void) { return CPU_ISA_COUNT; }

const char *oracle_isa_label(int isa) {
    static char label[40];
    if (!cpu_isa_available((cpu_isa)isa)) return NULL;
    const char *more = "";
#if defined(__x86_64__)
    const bool vnni = (isa == CPU_ISA_AVX512 || isa == CPU_ISA_AVX512_BF16) && __builtin_cpu_supports("avx512vnni");
    if (vnni) more = "+vnni"; /* products of weights in few bits have separate kernels there */
#elif defined(__aarch64__)
    if (isa == CPU_ISA_PLAIN) more = "-aarch64"; /* NaNs have other bits */
#endif
    snprintf(label, sizeof label, "%s%s", cpu_isa_name((cpu_isa)isa), more);
    return label;
}

void oracle_pin_caches(void) { mem_l2_pin(1 << 20); }

propane_status oracle_plan_make(const mil_function *f, const oracle_choice *choice, arena *a, oracle_plan **out,
                                propane_error *err) {
    const cpu_plan_options options = {.kernels = cpu_kernels_of((cpu_isa)choice->isa),
                                      .threads = choice->threads,
                                      .bf16 = choice->bf16,
                                      .fuse = choice->fuse,
                                      .round_each = choice->round_each};
    oracle_plan *p = ARENA_NEW(a, oracle_plan);
    if (!p) return propane_fail_memory(err, sizeof *p);
    PROPANE_TRY(cpu_plan_compile(f, &options, a, &p->program, err));
    p->program->poison = true;
    p->block_bytes = (size_t)p->program->block_bytes + 64;
    p->block = mem_pages_alloc(p->block_bytes);
    *out = p;
    if (p->block) return PROPANE_OK;
    oracle_plan_free(p);
    return propane_fail_memory(err, p->block_bytes);
}

void oracle_plan_free(oracle_plan *p) {
    if (!p) return;
    cpu_program_deinit(p->program);
    mem_pages_free(p->block, p->block_bytes);
}

int oracle_plan_input_count(const oracle_plan *p) { return p->program->input_count; }
int oracle_plan_output_count(const oracle_plan *p) { return p->program->output_count; }
size_t oracle_plan_input_bytes(const oracle_plan *p, int i) { return p->program->inputs[i].bytes; }
size_t oracle_plan_output_bytes(const oracle_plan *p, int i) { return p->program->outputs[i].bytes; }
const char *oracle_plan_output_name(const oracle_plan *p, int i) { return p->program->outputs[i].name; }

static void print_list(text *out, const char *what, const int64_t *dim, int count) {
    text_printf(out, " %s ", what);
    for (int i = 0; i < count; i++) text_printf(out, "%s%lld", i ? "x" : "", (long long)dim[i]);
}

/* Prints how a fused step walks: its axes, tiles and passes, and the operands of each instruction. */
static void print_loop(const loop_program *l, const char *in, int step, text *out) {
    text_printf(out, "loop\t%s%d", in, step);
    print_list(out, "outer", l->outer, l->outer_rank);
    print_list(out, "fold", l->fold, l->fold_rank);
    text_printf(out, " inner %lld tile %lld %lld %lld columns %d parts %lld of %lld tiles %lld by %lld scratch %lld;",
                (long long)l->inner, (long long)l->rows, (long long)l->width, (long long)l->chunk, l->columns,
                (long long)l->parts, (long long)l->part_length, (long long)l->tiles, (long long)l->tiles_a_task,
                (long long)l->scratch_bytes);
    for (int i = 0; i < l->pass_count; i++)
        text_printf(out, " %d-%d-%d", l->passes[i].once, l->passes[i].chunk, l->passes[i].end);
    text_append(out, ";");
    for (int i = 0; i < l->instr_count; i++) {
        const loop_instr *x = &l->instrs[i];
        text_printf(out, " %d=%d,%d,%d", x->dst, x->src[0], x->src[1], x->src[2]);
    }
    text_append(out, "\n");
}

static void print_program(const cpu_program *p, const char *in, text *out) {
    static const char *const places[] = {"input", "output", "const", "temp"};
    text_printf(out,
                "total\t%ssteps %d block %lld constants %zu fused %d tiles %d gemms %d attentions %d copies %d "
                "references %d gemvs %d shared %d squares %d\n",
                in, p->step_count, (long long)p->block_bytes, p->constant_bytes, p->fused_ops, p->tile_count,
                p->gemm_count, p->attention_count, p->copy_count, p->reference_count, p->gemv_count, p->shared_count,
                p->squares_count);
    for (int i = 0; i < p->step_count; i++) {
        const cpu_step *s = &p->steps[i];
        text_printf(out, "step\t%s%d %s %s stage %s flops %.17g bytes %.17g\n", in, i, s->kind, s->name,
                    s->stage ? s->stage : "-", s->flops, s->bytes);
        if (strcmp(s->kind, "tile") == 0) print_loop(s->args, in, i, out);
    }
    for (int i = 0; i < p->buffer_count; i++) {
        const cpu_buffer *b = &p->buffers[i];
        text_printf(out, "buffer\t%s%d %s %d bytes %lld at %lld steps %d-%d alias %d\n", in, i, places[b->place],
                    b->index, (long long)b->bytes, (long long)b->offset, b->first, b->last, b->alias);
    }
    for (int o = 0; o < p->output_count; o++)
        for (int i = 0; i < p->input_count; i++)
            if (driver_may_share(p->shares, p->share_count, o, i))
                text_printf(out, "in_place\t%soutput %d input %d\n", in, o, i);
    for (const cpu_program *b = p->inside; b; b = b->outside) print_program(b, "block: ", out);
}

void oracle_plan_print(const oracle_plan *p, text *out) { print_program(p->program, "", out); }

propane_status oracle_plan_run(oracle_plan *p, void *const *inputs, void *const *outputs, propane_error *err) {
    return cpu_program_run(p->program, p->block, inputs, outputs, err);
}
