/* SPDX-License-Identifier: MIT
 * Owns the list of generations, and finds an object's constants and surfaces.
 */
#include "ane/h13/object.h"
#include "core/base/int_math.h"

static const struct {
    uint32_t subtype;
    const char *name, *chips;
} object_generations[] = {{1, "H11", "A12"},
                          {3, "H12", "A13"},
                          {ENGINE_H13, "H13", "A14, M1"},
                          {ENGINE_H14, "H14", "A15, M2"},
                          {6, "H15", "A16, M3"},
                          {7, "H16", "A17 Pro, M4"},
                          {9, "H17", "A18, M5"},
                          {10, "H18", "A19"},
                          {11, "H18g, H19", "M6, A20 Pro"}};

uint64_t engine_object_constants_at(const engine_object *o) {
    return (uint64_t)round_up((int64_t)o->text_bytes, ENGINE_CONSTANT_ALIGN);
}

engine_surface *engine_object_bar(const engine_object *o, int bar) {
    for (int i = 0; i < o->surface_count; i++)
        if (o->surfaces[i].bar == bar) return &o->surfaces[i];
    return NULL;
}

const char *engine_generation(uint32_t subtype, const char **chips) {
    for (size_t i = 0; i < sizeof object_generations / sizeof object_generations[0]; i++)
        if (object_generations[i].subtype == subtype) {
            if (chips) *chips = object_generations[i].chips;
            return object_generations[i].name;
        }
    return NULL;
}
