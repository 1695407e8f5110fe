/* SPDX-License-Identifier: MIT
 * Compiled programs in the interpreter of registers: it runs any tasks or refuses them with a sentence, and accesses
 * no byte outside their buffers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ane/h13/simulate.h"
#include "core/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 14, SURFACE = 1 << 18 };

/* Large shapes are only slow, so they are skipped. */
static bool small(const engine_task *t) {
    uint64_t in =
        (uint64_t)engine_get_bits(t, 0, 0, 15) * engine_get_bits(t, 0, 16, 15) * engine_get_bits(t, 0xc, 0, 17);
    uint64_t out =
        (uint64_t)engine_get_bits(t, 0x14, 0, 15) * engine_get_bits(t, 0x14, 16, 15) * engine_get_bits(t, 0x10, 0, 17);
    uint64_t outer = (uint64_t)(engine_get(t, 4) & 0xffff) * (engine_get_bits(t, 0x24, 0, 13) + 1);
    uint64_t taps = (uint64_t)engine_get_bits(t, 0x1c, 0, 5) * engine_get_bits(t, 0x1c, 5, 5);
    return in <= MOST && out <= MOST && outer <= 64 && in * outer <= MOST && out * outer <= MOST && taps <= 49 &&
           (uint64_t)engine_get_bits(t, 0xc, 0, 17) * engine_get_bits(t, 0x10, 0, 17) * outer <= MOST;
}

static void run(const engine_object *o, engine_arithmetic how) {
    propane_error err = {0};
    engine_memory buffers[ENGINE_BARS] = {{0}};
    engine_machine *m = engine_machine_create(how);
    if (!m) abort();
    for (int i = 0; i < o->surface_count; i++) {
        const engine_surface *s = &o->surfaces[i];
        uint64_t bytes = engine_surface_bytes(s);
        if (s->bar < 0 || buffers[s->bar].data || bytes > SURFACE) continue;
        buffers[s->bar] = (engine_memory){mem_alloc(bytes + 1), bytes};
    }
    propane_status status = engine_simulate_object(m, o, buffers, &err);
    if (status && (err.status != status || !err.text[0])) abort();
    for (int i = 0; i < ENGINE_BARS; i++) mem_free(buffers[i].data);
    engine_machine_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    engine_object *o = NULL;
    if (engine_object_parse(data, size, "fuzz", &o, &err)) return 0;
    bool fits = o->subtype == ENGINE_H13 && o->scratch_bytes <= SURFACE && o->constant_bytes <= SURFACE;
    for (int i = 0; i < o->task_count; i++) fits = fits && small(&o->tasks[i]);
    if (fits) {
        run(o, ENGINE_WIDE);
        run(o, ENGINE_ACCUMULATOR);
    }
    engine_object_free(o);
    return 0;
}
