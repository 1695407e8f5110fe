/* SPDX-License-Identifier: MIT
 * Overwrites a constant's elements at the places that the compiler recorded.
 */
#include "ane/h13/patch.h"

#include <string.h>

static void patch_copy(const engine_patch *p, const uint16_t *values, uint8_t *constants) {
    for (int64_t i = 0; i < p->count[0]; i++)
        for (int64_t j = 0; j < p->count[1]; j++) {
            const uint16_t *from = values + p->start + i * p->from[0] + j * p->from[1];
            uint8_t *to = constants + p->at + i * p->to[0] + j * p->to[1];
            for (int64_t k = 0; k < p->count[2]; k++, from += p->from[2], to += p->to[2]) {
                to[0] = (uint8_t)(*from & 0xff);
                to[1] = (uint8_t)(*from >> 8);
            }
        }
}

propane_status engine_patch_apply(const engine_object *o, const char *constant, const uint16_t *values, int64_t count,
                                  uint8_t *constants, propane_error *err) {
    int found = 0;
    for (int i = 0; i < o->patch_count; i++) {
        const engine_patch *p = &o->patches[i];
        if (strcmp(p->constant, constant) != 0) continue;
        found++;
        if (p->elements == ENGINE_PATCH_NEVER)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: constant '%s' cannot be overwritten, because it became part of an instruction, "
                                "another constant or a kernel without zeros",
                                o->source, constant);
        if (p->elements != count)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: constant '%s' has %lld elements, not %lld", o->source,
                                constant, (long long)p->elements, (long long)count);
    }
    if (!found)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: there is no constant '%s' that can be overwritten",
                            o->source, constant);
    for (int i = 0; i < o->patch_count; i++)
        if (strcmp(o->patches[i].constant, constant) == 0) patch_copy(&o->patches[i], values, constants);
    return PROPANE_OK;
}
