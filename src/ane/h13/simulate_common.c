/* SPDX-License-Identifier: MIT
 * Owns the interpreter's rounding, allocation and refusals.
 */
#include <math.h>
#include <string.h>

#include "ane/h13/accumulate.h"
#include "ane/h13/simulate.h"
#include "ane/h13/simulate_parts.h"
#include "core/base/float16.h"
#include "core/base/memory.h"

float sim_round(const sim *s, double v) {
    if (s->machine->how == ENGINE_ACCUMULATOR && fabs(v) < 65504) return accumulate_round(v);
    return fp16_to_f32(fp16_from_f64(v));
}

propane_status sim_allocate(sim *s, sim_tensor *t, sim_shape shape) {
    const int64_t dims[5] = {shape.g, shape.d, shape.c, shape.h, shape.w};
    int64_t count = 1;
    for (int i = 0; i < 5; i++) {
        if (dims[i] <= 0 || dims[i] > SIM_ELEMENTS_MAX / count)
            return sim_refuse(s, 0, "%lld x %lld x %lld x %lld x %lld elements", (long long)dims[0], (long long)dims[1],
                              (long long)dims[2], (long long)dims[3], (long long)dims[4]);
        count *= dims[i];
    }
    t->shape = shape;
    t->data = mem_array((size_t)count, sizeof *t->data);
    return t->data ? PROPANE_OK : propane_fail_memory(s->err, (size_t)count * sizeof *t->data);
}

propane_status sim_refuse(sim *s, uint32_t address, const char *format, ...) {
    va_list args;
    va_start(args, format);
    propane_status status = propane_vfail(s->err, PROPANE_ERR_UNSUPPORTED, format, args);
    va_end(args);
    if (address != 0xffffffff)
        return propane_fail_prefix(s->err, status, "task %d, register 0x%05x = 0x%08x", s->index, address,
                                   engine_get(s->t, address));
    return propane_fail_prefix(s->err, status, "task %d", s->index);
}
