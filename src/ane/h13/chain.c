/* SPDX-License-Identifier: MIT
 * Joins two consecutive tasks if the second is the only reader of what the first stores, so that the value stays in the
 * on-chip buffer. The value is placed after the first task's data, with the strides of the second task's source, and
 * the words of both DMAs are reset to "off". Only forms of published programs are joined: a planar or neural task that
 * streams its result out, followed by a neural task or a planar task with one source. All other values are stored in
 * memory.
 *
 * Configuration words follow published chains. The source's word names the engine that made the value (4 neural, 8
 * planar), and a pair of planar tasks marks the handover (joshuaswarren/mil-hwx-compiler research/h13-td-fields.md,
 * softmax and layer_norm).
 */
#include "ane/h13/task_emit.h"
#include "core/base/int_math.h"

enum { CHAIN_HAND = 0x1000, CHAIN_TAKE = 0x4000 };

static bool chain_neural(const emitted *t) { return engine_get_bits(&t->task, 0x38, 20, 1); }

/* Returns the reason why the task's result cannot stay on chip, or NULL if it can. The result must stream out plane by
 * plane, untiled. */
static const char *chain_gives(const emitted *t) {
    const engine_task *w = &t->task;
    uint32_t mode = engine_get_bits(w, 0x34, 4, 3), ne = engine_get_bits(w, 0xc804, 0, 4);
    if (chain_neural(t) ? ne != 0 && ne != 8 && ne != 12 : mode != 2 && mode != 3)
        return "no published program keeps the result of such a task";
    if (engine_get_bits(w, 0x34, 28, 1) || engine_get_bits(w, 0x30, 10, 1))
        return "it is transposed while it is stored";
    if (engine_get(w, 0x17800) != 0x040000c1) return "it is assembled on chip before it is stored";
    if (engine_get_bits(w, 0x17818, 24, 4) != 1) return "its channels are stored side by side";
    if (engine_get_bits(w, 0x24, 0, 13) != 1 || engine_get(w, 0x04) != 1 || engine_get(w, 0x18) != 1)
        return "it has groups or depth";
    return engine_get(w, 0x28) == engine_get_bits(w, 0x14, 16, 15) ? NULL : "it is computed in parts";
}

/* Returns the reason why the task cannot read a value on chip, or NULL if it can. The task must have a single source,
 * which it reads by DMA, untiled. */
static const char *chain_takes(const emitted *t) {
    const engine_task *w = &t->task;
    uint32_t mode = engine_get_bits(w, 0x34, 4, 3), ne = engine_get_bits(w, 0xc804, 0, 4);
    if (engine_get_bits(w, 0x8, 2, 2) || t->second_on_chip || mode == 3) return "its reader has two sources";
    if (chain_neural(t) ? ne != 0 && ne != 8 && ne != 12 : mode != 2)
        return "no published program has such a reader of a value on chip";
    if (!engine_get_bits(w, 0x13800, 0, 1) || engine_get_bits(w, 0x4804, 0, 2) != 2 || engine_get(w, 0x30))
        return "its reader keeps or repeats its source";
    if (engine_get_bits(w, 0x24, 0, 13) != 1 || engine_get(w, 0x04) != 1) return "its reader has groups or depth";
    if (engine_get_bits(w, 0x14, 16, 15) != engine_get_bits(w, 0, 16, 15)) return "its reader changes the height";
    return engine_get(w, 0x28) == engine_get_bits(w, 0x14, 16, 15) ? NULL : "its reader works in parts";
}

/* Returns whether b reads exactly the tensor that a stores in scratch memory, and no kernel from scratch memory. */
static bool chain_same(const emitted *a, const emitted *b) {
    const engine_task *x = &a->task, *y = &b->task;
    return a->result == b->source && a->result == ENGINE_BAR_SCRATCH &&
           engine_get(x, 0x17804) == engine_get(y, 0x13808) && engine_get(x, 0x17808) == engine_get(y, 0x1380c) &&
           engine_get(x, 0x1780c) == engine_get(y, 0x13810) && engine_get(x, 0x14) == engine_get(y, 0) &&
           engine_get(x, 0x10) == engine_get(y, 0xc) && b->kernel != ENGINE_BAR_SCRATCH;
}

/* Returns the first free byte on chip after the data of the first task. */
static int64_t chain_end(const emitted *t) {
    const engine_task *w = &t->task;
    int64_t h = engine_get_bits(w, 0, 16, 15);
    int64_t first = engine_get(w, 0x4808) + h * (int64_t)engine_get(w, 0x4810);
    int64_t second = engine_get(w, 0x481c) + h * (int64_t)engine_get(w, 0x4820);
    return round_up(max_i64(max_i64(first, second), engine_get(w, 0x4834)), 16);
}

/* Returns a place on chip for the whole value, with the strides of its reader b. If b reads wide rows in parts, the
 * place has the strides of whole rows instead. */
static emit_l2 chain_place(const emitted *a, const emitted *b) {
    const engine_task *y = &b->task;
    int64_t w = engine_get_bits(y, 0, 0, 15), c = engine_get_bits(y, 0xc, 0, 17), wide = round_up(2 * w, 16);
    emit_l2 at = {chain_end(a), engine_get(y, 0x480c), engine_get(y, 0x4810), engine_get(y, 0x4814), 0};
    if (at.channel < wide || at.row < c * at.channel) at.channel = wide, at.row = at.depth = c * wide;
    /* if a's source is on chip, the space before that source is free again */
    int64_t bytes = (int64_t)engine_get_bits(y, 0, 16, 15) * at.row;
    if (!engine_get_bits(&a->task, 0x13800, 0, 1) && bytes <= (int64_t)engine_get(&a->task, 0x4808)) at.base = 0;
    return at;
}

static void chain_clear(emitted *t, uint32_t address, int words) {
    for (int i = 0; i < words; i++) emit_set(t, address + 4u * (uint32_t)i, 0);
}

const char *emit_chain(emitted *a, emitted *b) {
    const char *why = chain_gives(a);
    if (!why) why = chain_takes(b);
    if (!why && !chain_same(a, b)) why = "its reader reads it in another shape, or as a kernel";
    if (why) return why;
    emit_l2 at = chain_place(a, b);
    const engine_task *y = &b->task;
    int64_t bytes = (int64_t)engine_get_bits(y, 0, 16, 15) * at.row;
    int64_t moved = (int64_t)engine_get_bits(y, 0xc, 0, 17) * engine_get_bits(y, 0, 16, 15) *
                    round_up(2 * (int64_t)engine_get_bits(y, 0, 0, 15), 64);
    if (at.base + bytes + (int64_t)engine_get_bits(y, 0x14, 16, 15) * at.row > ENGINE_BUFFER)
        return "it does not fit on chip together with its reader's result";
    bool neural = chain_neural(a), on_chip = !engine_get_bits(&a->task, 0x13800, 0, 1);
    emit_keep(a, &at, on_chip ? 0x140 : 0x500170);
    emit_set(a, 0x17800, 0xc0);
    emit_set(a, 0x17818, 0x01000000);
    chain_clear(a, 0x17804, 5);
    a->result = EMIT_NO_BAR;
    a->result_given = false;
    a->bytes -= min_i64(a->bytes, moved);
    at.group = at.row;
    emit_source_l2(b, &at, (chain_neural(b) || !neural ? 0x100 : 0x400100) | (neural ? 4 : 8));
    chain_clear(b, 0x13808, 5);
    emit_set(b, 0x13800, 0x8880);
    emit_set(b, 0x13838, 0x01000000);
    emit_set(b, 0x4834, at.base + bytes);
    emit_set(b, 0x4830, (engine_get(y, 0x4830) & ~0xffffffu) | 0x14a);
    b->source = EMIT_NO_BAR;
    b->source_given = false;
    b->bytes -= min_i64(b->bytes, moved);
    b->channel_visits = 0;
    if (!neural && !chain_neural(b)) emit_or(a, 0xc800, CHAIN_HAND), emit_or(b, 0xc800, CHAIN_TAKE);
    return NULL;
}
