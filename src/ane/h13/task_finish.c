/* SPDX-License-Identifier: MIT
 * Owns the header words of a program's tasks. Each follows from the task's registers and its place in the program.
 * These rules hold for all published programs unless a comment states otherwise.
 */
#include <string.h>

#include "ane/h13/h14.h"
#include "ane/h13/task_emit.h"
#include "core/base/bytes.h"
#include "core/base/int_math.h"

enum { KERNEL_RECORD_1 = 18, KERNEL_RECORD_2 = 12, KERNEL_RECORD_ALL = 62 };

/* Returns the estimated picoseconds of a planar task: 2,500 per source for 32 pixels of a patch's width. A second
 * source does not count if it is a pair of rows, or if either source is repeated over the whole plane. If channels and
 * width are exchanged, the channels count as width. */
static int64_t task_finish_planar(const engine_task *t) {
    enum { BLOCK = 32, PER_BLOCK = 2500, PAIR = 4, SWAP1 = 0x100, SWAP2 = 0x200 };
    int64_t w = engine_get_bits(t, 0, 0, 15), h = engine_get_bits(t, 0, 16, 15), c = engine_get_bits(t, 0xc, 0, 17);
    int64_t wide = (int64_t)1 << engine_get_bits(t, 0x2c, 0, 4), high = (int64_t)1 << engine_get_bits(t, 0x2c, 4, 4);
    uint32_t flags = engine_get(t, 0x30), first = engine_bits(flags, 0, 2), second = engine_bits(flags, 4, 2);
    bool pair = engine_get_bits(t, 0x34, 4, 3) == PAIR;
    int sources = engine_get_bits(t, 0x8, 2, 2) && !pair ? 2 : 1;
    if (flags & (SWAP1 | (pair ? 0 : SWAP2))) {
        int64_t channels = c;
        c = w, w = channels;
    }
    uint32_t whole = (w > 1) | (uint32_t)(h > 1) << 1; /* where a source of one pixel is repeated */
    if (sources == 2 && whole && (first == whole || second == whole)) sources = 1;
    int64_t patches = c * engine_get_bits(t, 0x24, 0, 13) * (int64_t)engine_get(t, 0x4) * div_up(h, high);
    return PER_BLOCK * sources * patches * div_up(w, wide) * div_up(min_i64(w, wide), BLOCK);
}

/* Returns the estimated picoseconds of a neural task that copies values or looks up a table: 1,000 per 32 pixels.
 * Returns 0 for other neural tasks. */
static int64_t task_finish_neural(const engine_task *t) {
    if (engine_get_bits(t, 0xc804, 0, 4) != 12) return 0;
    return 1000 * (int64_t)engine_get_bits(t, 0, 0, 15) * engine_get_bits(t, 0, 16, 15) *
           engine_get_bits(t, 0xc, 0, 17) / 32;
}

/* Returns the scheduler's estimate in microseconds, the largest of three:
 * - DMA at 34.1 GB/s (102,400 bytes in 3 us).
 * - 9 us per 2,048 channels of sources with one pixel per channel: two sources of 1,024 channels take 9 us, and two of
 *   8,192 take 72 us.
 * - The engine's time, which matters if a task's operands are on chip.
 *
 * Inferred from joshuaswarren/mil-hwx-compiler research/oracles/h13: binary_*, env_bcast_sub_*,
 * reduce_probe_max_ax2_* and norm_softmax_a3_1x8x64x64, ..._1x8x128x128. */
static uint32_t task_finish_cycles(const emitted *t) {
    const engine_task *w = &t->task;
    int64_t dma = 3 * t->bytes / 102400, channels = 9 * t->channel_visits / 2048;
    int64_t engine = (engine_get_bits(w, 0x38, 20, 1) ? task_finish_neural(w) : task_finish_planar(w)) / 1000000;
    return (uint32_t)min_i64(max_i64(max_i64(dma, channels), engine), 0xffff);
}

static void task_finish_records(engine_task *t, bool kernel) {
    t->record_count = 0;
    if (kernel)
        engine_task_record(t, 0x1f800, KERNEL_RECORD_ALL);
    else {
        engine_task_record(t, 0x1f800, KERNEL_RECORD_1);
        engine_task_record(t, 0x1f8c8, KERNEL_RECORD_2);
    }
    static const engine_block_id order[] = {ENGINE_BLOCK_common, ENGINE_BLOCK_source, ENGINE_BLOCK_l2,
                                            ENGINE_BLOCK_pe,     ENGINE_BLOCK_ne,     ENGINE_BLOCK_result};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        engine_task_record(t, engine_blocks[order[i]].base, engine_blocks[order[i]].words);
}

static bool task_finish_computes(const engine_task *t) {
    bool neural = engine_get_bits(t, 0x38, 20, 1);
    return !neural || engine_get_bits(t, 0xc804, 0, 4) != 12 || engine_get_bits(t, 0xc804, 16, 2);
}

static uint32_t task_finish_events(const emitted *t, bool first, bool last) {
    uint32_t word = last ? 0x6a : first ? 0x68 : 0;
    return word | (!task_finish_computes(&t->task) ? 0 : t->root ? 0xffd800 : 0xfff800);
}

static uint32_t task_finish_flags(const emitted *t) {
    bool from_memory = engine_get_bits(&t->task, 0x13800, 0, 1), to_memory = engine_get_bits(&t->task, 0x17800, 0, 1);
    uint32_t word = (uint32_t)engine_get_bits(&t->task, 0xc800, 12, 1) << 8;
    if (t->source_given && !t->second_on_chip) word |= 1u << 11;
    if (t->source_given && !from_memory) word |= 1u << 13;
    if (t->result_given && !to_memory) word |= 1u << 14;
    if (t->result_given && !t->unfinished) word |= 1u << 12 | 1u << 15;
    if (t->kernel == ENGINE_BAR_SCRATCH) word |= 1u << 24;
    return word | (uint32_t)from_memory << 28 | (uint32_t)to_memory << 29;
}

static uint32_t task_finish_bar(int bar, int low) { return bar < 0 ? 0 : (uint32_t)(bar | 0x20) << low; }

static void task_finish_header(emitter *e, int i) {
    emitted *t = &e->tasks[i];
    uint32_t *w = t->task.header;
    bool first = i == 0, last = i == e->count - 1, neural = engine_get_bits(&t->task, 0x38, 20, 1);
    w[0] = (uint32_t)i | (uint32_t)!first << 24 | (uint32_t)last << 25;
    w[1] = task_finish_cycles(t) | (last ? 0 : (uint32_t)(engine_task_words(&t[1].task) - 1) << 16);
    w[2] = 0x400 | (first ? 8 : 0) | (last ? 0x22 : 0);
    w[4] = task_finish_events(t, first, last);
    w[6] = task_finish_flags(t);
    w[7] = last ? 0 : t[1].task.offset;
    w[8] = task_finish_bar(t->source, 0) | task_finish_bar(t->source2, 6) | task_finish_bar(t->result, 12) |
           (uint32_t)!last << 23;
    if (neural) w[8] |= (uint32_t)(engine_get_bits(&t->task, 0x34, 19, 3) + 1) << 24;
    w[9] = task_finish_bar(t->kernel, 0);
    if (t->task.header_words == ENGINE_HEADER_WORDS) w[10] = (uint32_t)t->kernel_task;
}

propane_status emit_finish(emitter *e, engine_object *o, propane_error *err) {
    uint32_t at = 0;
    if (e->failed) return propane_fail_memory(err, (size_t)e->count * sizeof *e->tasks);
    for (int i = 0; i < e->count; i++) {
        emitted *t = &e->tasks[i];
        task_finish_records(&t->task, t->kernel != EMIT_NO_BAR);
        t->task.header_words = ENGINE_HEADER_WORDS - (t->kernel != ENGINE_BAR_SCRATCH);
        t->task.offset = at;
        at = (uint32_t)round_up(at + 4 * engine_task_words(&t->task), ENGINE_TASK_ALIGN);
    }
    for (int i = 0; i < e->count; i++) task_finish_header(e, i);
    o->tasks = ARENA_ARRAY(o->arena, e->count, engine_task);
    if (!o->tasks) return propane_fail_memory(err, (size_t)e->count * sizeof *o->tasks);
    o->task_count = e->count;
    for (int i = 0; i < e->count; i++) o->tasks[i] = e->tasks[i].task;
    o->first_words = engine_task_words(&o->tasks[0]);
    if (e->subtype == ENGINE_H14) {
        PROPANE_TRY(engine_h14_write(o->tasks, o->task_count, o->arena, &o->text, &o->text_bytes, err));
        o->first_words = (int)(bytes_u32(o->text + H14_PREFIX) >> 16);
        return engine_h14_read(o->text, o->text_bytes, o->arena, &o->tasks, &o->task_count,
                               err); /* reads the written text back, so that exactly this text is executed */
    }
    o->text_bytes = engine_stream_bytes(o->tasks, o->task_count);
    uint8_t *bytes = arena_alloc(o->arena, (size_t)o->text_bytes);
    if (!bytes) return propane_fail_memory(err, (size_t)o->text_bytes);
    engine_stream_write(o->tasks, o->task_count, bytes);
    o->text = bytes;
    return PROPANE_OK;
}
