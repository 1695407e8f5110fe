/* SPDX-License-Identifier: MIT
 * Owns the interpreter's loop: it checks a task bit by bit, reads the sources, computes on the planar or neural engine,
 * and stores the result.
 */
#include "ane/h13/simulate.h"

#include <string.h>

#include "ane/h13/simulate_parts.h"
#include "core/base/memory.h"

engine_arithmetic engine_arithmetic_of(uint32_t subtype) {
    enum { H16 = 7 };
    return subtype >= H16 ? ENGINE_ACCUMULATOR : ENGINE_WIDE;
}

engine_machine *engine_machine_create(engine_arithmetic how) {
    engine_machine *m = mem_alloc(sizeof *m);
    if (!m) return NULL;
    m->how = how;
    m->buffer = mem_pages_alloc(ENGINE_BUFFER);
    m->valid = mem_pages_alloc(ENGINE_BUFFER / 2);
    if (m->buffer && m->valid) return m;
    engine_machine_free(m);
    return NULL;
}

void engine_machine_free(engine_machine *m) {
    if (!m) return;
    mem_pages_free(m->buffer, ENGINE_BUFFER);
    mem_pages_free(m->valid, ENGINE_BUFFER / 2);
    mem_free(m);
}

/* Checks that every set bit is known and that fixed fields have their value. */
static propane_status sim_check_bits(sim *s) {
    for (int i = 0; i < ENGINE_REGISTERS; i++) {
        uint32_t address = engine_address(i), word = s->t->word[i], known = engine_known_bits(false, address);
        if (word & ~known) return sim_refuse(s, address, "unknown bits 0x%x", word & ~known);
    }
    for (int i = 0; i < engine_field_count; i++) {
        const engine_field *f = &engine_fields[i];
        if (f->role != ENGINE_IS) continue;
        for (int k = 0; k < f->times; k++) {
            bool header = f->block == ENGINE_BLOCK_header;
            uint32_t address = f->address + 4u * (uint32_t)k;
            uint32_t word = header ? s->t->header[address / 4] : engine_get(s->t, address);
            if (!header && !s->t->written[engine_index(address)]) continue;
            if (engine_bits(word, f->low, f->bits) == f->value) continue;
            if (header)
                return sim_refuse(s, 0xffffffff, "header word %u = 0x%08x: %s must be %u", address / 4, word, f->name,
                                  f->value);
            return sim_refuse(s, address, "%s must be %u", f->name, f->value);
        }
    }
    return PROPANE_OK;
}

/* Refuses a task that needs a register but does not write it. The register would keep an earlier task's value, and
 * no known program relies on that. */
static propane_status simulate_written(sim *s) {
    for (int i = 0; i < ENGINE_REGISTERS; i++) {
        uint32_t address = engine_address(i);
        bool lane = address >= 0x1f848 && address < 0x1f8c8;
        if (!s->t->written[i] && !(lane && !sim_bits(s, 0x1f800, 6, 1)))
            return sim_refuse(s, address, "the task does not write it");
    }
    return PROPANE_OK;
}

static propane_status simulate_task(sim *s) {
    s->neural = sim_bits(s, 0x38, 20, 1);
    uint32_t mode = sim_bits(s, 0x34, 4, 3);
    PROPANE_TRY(simulate_written(s));
    PROPANE_TRY(sim_check_bits(s));
    if (s->neural ? mode != 0 : mode < 2 || mode > 6) return sim_refuse(s, 0x34, "PeMode %u", mode);
    PROPANE_TRY(sim_read_sources(s));
    PROPANE_TRY(s->neural ? sim_neural(s) : sim_planar(s));
    return sim_write_result(s);
}

propane_status engine_simulate(engine_machine *m, const engine_task *tasks, int count,
                               const engine_memory buffers[ENGINE_BARS], propane_error *err) {
    memset(m->valid, 0, ENGINE_BUFFER / 2);
    for (int i = 0; i < count; i++) {
        sim s = {.machine = m, .buffers = buffers, .t = &tasks[i], .index = i, .err = err};
        propane_status status = simulate_task(&s);
        mem_free(s.a.data);
        mem_free(s.b.data);
        mem_free(s.y.data);
        if (status) return status;
    }
    return PROPANE_OK;
}

/* Returns whether a surface's elements fit into its bytes. Divides, because products of a damaged file's numbers may
 * exceed 64 bits. */
static bool simulate_surface_fits(const engine_surface *s) {
    if (s->n < 1 || s->c < 1 || s->h < 1 || s->w < 1) return false;
    uint64_t n = (uint64_t)s->n, c = (uint64_t)s->c, h = (uint64_t)s->h, w = (uint64_t)s->w;
    return s->bytes <= INT64_MAX / n && s->batch <= s->bytes && s->plane <= s->bytes / c && s->row <= s->plane / h &&
           w <= s->row / 2;
}

static propane_status simulate_surface_check(const engine_surface *s, uint64_t most, propane_error *err) {
    if (!simulate_surface_fits(s))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "surface '%s': [%lld, %lld, %lld, %lld] with strides of %llu, %llu and %llu bytes does not "
                            "fit into %llu bytes",
                            s->name, (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
                            (unsigned long long)s->batch, (unsigned long long)s->plane, (unsigned long long)s->row,
                            (unsigned long long)s->bytes);
    if (engine_surface_bytes(s) > most)
        return propane_fail(err, PROPANE_ERR_INVALID, "surface '%s': %llu bytes; at most %llu are possible", s->name,
                            (unsigned long long)engine_surface_bytes(s), (unsigned long long)most);
    return PROPANE_OK;
}

propane_status engine_object_runs(const engine_object *o, propane_error *err) {
    if (o->subtype != ENGINE_H13 && o->subtype != ENGINE_H14)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: tasks of %s are not supported, only those of H13 and H14", o->source,
                            engine_generation(o->subtype, NULL));
    if (o->unread) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s", o->source, o->unread);
    for (int i = 0; i < o->surface_count; i++)
        if (o->surfaces[i].bar >= 0 && simulate_surface_check(&o->surfaces[i], 2 * (uint64_t)SIM_ELEMENTS_MAX, err))
            return propane_fail_prefix(err, err->status, "%s", o->source);
    return PROPANE_OK;
}

propane_status engine_simulate_object(engine_machine *m, const engine_object *o,
                                      const engine_memory surfaces[ENGINE_BARS], propane_error *err) {
    engine_memory buffers[ENGINE_BARS];
    PROPANE_TRY(engine_object_runs(o, err));
    memcpy(buffers, surfaces, sizeof buffers);
    uint8_t *constants = mem_alloc((size_t)o->constant_bytes), *scratch = mem_alloc((size_t)o->scratch_bytes);
    propane_status status = PROPANE_OK;
    if (!constants || !scratch)
        status = propane_fail_memory(err, (size_t)(o->constant_bytes + o->scratch_bytes));
    else {
        if (o->constant_bytes) memcpy(constants, o->constants, (size_t)o->constant_bytes);
        buffers[ENGINE_BAR_CONSTANTS] = (engine_memory){constants, o->constant_bytes};
        buffers[ENGINE_BAR_SCRATCH] = (engine_memory){scratch, o->scratch_bytes};
        status = engine_simulate(m, o->tasks, o->task_count, buffers, err);
        if (status) status = propane_fail_prefix(err, status, "%s", o->source);
    }
    mem_free(constants);
    mem_free(scratch);
    return status;
}

/* ---- surfaces ---------------------------------------------------------------------------------------------------------------- */

uint64_t engine_surface_bytes(const engine_surface *s) { return (uint64_t)s->n * s->bytes; }

static propane_status simulate_surface(const engine_surface *s, engine_memory m, uint16_t *dense, bool fill,
                                       propane_error *err) {
    PROPANE_TRY(simulate_surface_check(s, m.bytes, err));
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t h = 0; h < s->h; h++, dense += s->w) {
                uint8_t *at = m.data + (uint64_t)n * s->batch + (uint64_t)c * s->plane + (uint64_t)h * s->row;
                if (fill)
                    memcpy(at, dense, 2 * (size_t)s->w);
                else
                    memcpy(dense, at, 2 * (size_t)s->w);
            }
    return PROPANE_OK;
}

propane_status engine_surface_fill(const engine_surface *s, const uint16_t *dense, engine_memory to,
                                   propane_error *err) {
    return simulate_surface(s, to, (uint16_t *)(uintptr_t)dense, true, err);
}

propane_status engine_surface_take(const engine_surface *s, engine_memory from, uint16_t *dense, propane_error *err) {
    return simulate_surface(s, from, dense, false, err);
}
