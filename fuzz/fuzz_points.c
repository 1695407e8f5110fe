/* SPDX-License-Identifier: MIT
 * Tables of published points: each table is read or refused, and every covered row, program or step, has a
 * finite time.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/cost_step.h"
#include "core/base/arena.h"
#include "core/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    cost_point *points = NULL;
    int count = 0;
    arena *a = arena_create();
    char *text = mem_alloc(size + 1); /* terminated, as by file_read */
    if (!a || !text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    if (cost_points_read(text, size, "fuzz", a, &points, &count, &err) == PROPANE_OK)
        for (int i = 0; i < count; i++) {
            const cost_point *p = &points[i];
            cost_step_point s;
            if (p->covered ? !(p->time.ms > 0) || !isfinite(p->time.ms) : !p->reason) abort();
            const bool step = cost_step_point_read(p->id, p->chip, p->workload, p->shape, p->note, p->published_ms, &s);
            if (step && (s.covered ? !(s.step.ms > 0) || !isfinite(s.step.ms) : !s.reason)) abort();
        }
    arena_free(a);
    mem_free(text);
    return 0;
}
