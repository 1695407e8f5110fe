/* SPDX-License-Identifier: MIT
 * Plans memory: which buffers reuse another buffer's memory in place, and where each buffer is in the single block
 * (core/base/offset_planner.h).
 */
#include <stdlib.h>

#include "core/base/offset_planner.h"
#include "cpu/plan/plan_stages.h"

#define ALIGN 64

static int plan_memory_root_of(const cpu_buffer *buffers, int b) {
    while (buffers[b].alias >= 0) b = buffers[b].alias;
    return b;
}

/* Computes a value in an output's memory, if the output replaces the value in place. That memory is then in use from
 * the value's first step on, so nothing else that the program reads from then on may be bound to it. */
static void plan_memory_share_output(planner *p, const cpu_emit_pair *pair) {
    int from = plan_memory_root_of(p->buffers, pair->from);
    cpu_buffer *f = &p->buffers[from], *t = &p->buffers[pair->to];
    if (f->place != CPU_STORAGE_TEMP || f->last != pair->step || t->first != pair->step || f->bytes != t->bytes) return;
    f->alias = pair->to;
    t->first = f->first;
}

/* Lets `to` reuse the memory of `from` if the first step that touches `to` is the last one that touches `from`. */
static void plan_memory_share(planner *p) {
    for (int i = 0; i < p->pair_count; i++) {
        const cpu_emit_pair *pair = &p->pairs[i];
        if (p->buffers[pair->from].place != CPU_STORAGE_TEMP) continue;
        if (p->buffers[pair->to].place == CPU_STORAGE_OUTPUT) plan_memory_share_output(p, pair);
        if (p->buffers[pair->to].place != CPU_STORAGE_TEMP) continue;
        if (p->buffers[pair->to].alias >= 0) continue;
        int from = plan_memory_root_of(p->buffers, pair->from);
        cpu_buffer *f = &p->buffers[from], *t = &p->buffers[pair->to];
        if (f->place != CPU_STORAGE_TEMP || f->last != pair->step || t->first != pair->step || f->bytes != t->bytes)
            continue;
        t->alias = from;
        f->last = t->last;
    }
}

/* Lists which outputs may be bound to the memory of which inputs. */
static propane_status plan_memory_in_place(planner *p, propane_error *err) {
    cpu_program *out = p->program;
    out->shares = ARENA_ARRAY(p->arena, p->pair_count + 1, driver_share);
    if (!out->shares) return cpu_program_no_memory(err);
    for (int i = 0; i < p->pair_count; i++) {
        const cpu_buffer *from = &p->buffers[p->pairs[i].from], *to = &p->buffers[p->pairs[i].to];
        if (from->place != CPU_STORAGE_INPUT || to->place != CPU_STORAGE_OUTPUT) continue;
        if (from->last == p->pairs[i].step && to->first == p->pairs[i].step)
            out->shares[out->share_count++] = (driver_share){to->index, from->index};
    }
    qsort(out->shares, (size_t)out->share_count, sizeof *out->shares, driver_share_compare);
    return PROPANE_OK;
}

static propane_status plan_memory_lay_out(planner *p, propane_error *err) {
    fit_span *spans = ARENA_ARRAY(p->work, p->buffer_count + 1, fit_span);
    int *of = ARENA_ARRAY(p->work, p->buffer_count + 1, int), count = 0;
    const int64_t guard = p->g.options.guard ? CPU_PROGRAM_GUARD : 0;
    if (!spans || !of) return cpu_program_no_memory(err);
    for (int b = 0; b < p->buffer_count; b++) {
        const cpu_buffer *o = &p->buffers[b];
        if (o->place != CPU_STORAGE_TEMP || o->alias >= 0 || o->first > o->last) continue;
        of[count] = b;
        spans[count++] = (fit_span){.first = o->first, .last = o->last, .bytes = o->bytes + guard};
    }
    PROPANE_TRY(fit_spans(spans, count, ALIGN, &p->program->block_bytes, err));
    for (int i = 0; i < count; i++) p->buffers[of[i]].offset = spans[i].offset;
    for (int b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].alias >= 0) p->buffers[b].offset = p->buffers[plan_memory_root_of(p->buffers, b)].offset;
    return PROPANE_OK;
}

propane_status cpu_plan_memory(planner *p, propane_error *err) {
    plan_memory_share(p);
    PROPANE_TRY(plan_memory_in_place(p, err));
    return plan_memory_lay_out(p, err);
}
