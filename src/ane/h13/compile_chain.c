/* SPDX-License-Identifier: MIT
 * Decides which values stay on chip between operations, and owns the reasons why others go through memory.
 */
#include <stdio.h>

#include "ane/h13/compile_parts.h"

/* Returns the value whose memory v shares. */
static const mil_value *compile_chain_owner(const compile *c, const mil_value *v) {
    while (c->places[v->id].owner != v->id && v->def) v = mil_in(v->def, "x");
    return v;
}

/* Follows the views from v to the value that owns the memory. Returns the number of uses of the first value that is not
 * used exactly once, or 1 if there is none. */
static int compile_chain_uses(const compile *c, const mil_value *v) {
    for (;; v = mil_in(v->def, "x"))
        if (c->users[v->id] != 1 || c->places[v->id].owner == v->id || !v->def) return c->users[v->id];
}

/* Tries to keep on chip an operand that an earlier operation made. Returns NULL on success, else the reason why the
 * operand comes from memory. */
static const char *compile_chain_one(compile *c, const mil_value *v, int before, bool alone, char *room, size_t bytes) {
    const mil_value *owner = compile_chain_owner(c, v);
    int uses = compile_chain_uses(c, v);
    emitted *b = &c->e.tasks[before];
    if (c->places[v->id].bar != ENGINE_BAR_SCRATCH) return "it is a result";
    if (uses != 1) {
        snprintf(room, bytes, "it is used %d times", uses);
        return room;
    }
    bool stored = before > 0 && b[-1].result == ENGINE_BAR_SCRATCH &&
                  c->places[v->id].base == (int64_t)engine_get(&b[-1].task, 0x17804);
    if (!stored) return c->last == owner->def ? "several tasks store it" : "another operation is in between";
    if (!alone) return "its reader takes several tasks";
    if (c->places[v->id].base != (int64_t)engine_get(&b->task, 0x13808)) return "its reader has two sources";
    return emit_chain(b - 1, b);
}

bool compile_chain(compile *c, const mil_op *op, int before, text *reasons) {
    bool alone = c->e.count == before + 1, chained = false;
    for (int p = 0; p < op->info->param_count && !c->e.failed && c->e.count > before; p++)
        for (int k = 0; k < op->operands[p].count && !chained; k++) {
            const mil_value *v = op->operands[p].values[k];
            char room[60];
            /* no task reads a part of the result that was made in place */
            if (c->places[v->id].owner == c->places[op->results[0]->id].owner) continue;
            if (v->constant || !c->places[v->id].known || !compile_chain_owner(c, v)->def) continue;
            const char *why = compile_chain_one(c, v, before, alone, room, sizeof room);
            chained = !why;
            if (why && reasons) text_printf(reasons, "%20s '%s' comes from memory: %s\n", "", v->name, why);
        }
    if (c->e.count > before) c->last = op;
    return chained;
}
