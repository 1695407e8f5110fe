/* SPDX-License-Identifier: MIT
 * Owns two passes. One replaces an op by an earlier equal op, which is found by a hash of opcode and operands; the
 * other removes unused ops. Constants are equal if all their bits are equal; constants that have not been read from
 * their weight file are equal if they are the same record.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/pass/rewrite.h"

enum { COMPARED_BYTES = 4096 }; /* larger constants are hashed by their beginning but compared in full */

static uint64_t share_mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t share_hash_const(uint64_t hash, const mil_const *c) {
    hash = share_mix(hash, &c->type.dtype, sizeof c->type.dtype);
    hash = share_mix(hash, c->type.dim, (size_t)c->type.rank * sizeof *c->type.dim);
    if (c->type.dtype == MIL_string) {
        for (int64_t i = 0; i < mil_type_count(&c->type); i++) {
            const char *s = mil_const_text(c, i);
            hash = share_mix(hash, s, strlen(s) + 1);
        }
        return hash;
    }
    if (!c->data) return share_mix(hash, &c->blob_offset, sizeof c->blob_offset);
    return share_mix(hash, c->data, (size_t)(c->bytes < COMPARED_BYTES ? c->bytes : COMPARED_BYTES));
}

static bool share_equal_const(const mil_const *a, const mil_const *b) {
    if (a == b) return true;
    if (!mil_type_equal(&a->type, &b->type)) return false;
    if (a->type.dtype == MIL_string) {
        for (int64_t i = 0; i < mil_type_count(&a->type); i++)
            if (strcmp(mil_const_text(a, i), mil_const_text(b, i)) != 0) return false;
        return true;
    }
    if (a->data && b->data) return a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0;
    return !a->data && !b->data && a->blob_path && b->blob_path && a->blob_offset == b->blob_offset &&
           strcmp(a->blob_path, b->blob_path) == 0;
}

/* Returns true if two operands are the same value or equal constants. */
static bool share_equal_value(const mil_value *a, const mil_value *b) {
    return a == b || (a->constant && b->constant && share_equal_const(a->constant, b->constant));
}

static uint64_t share_hash_op(const mil_op *op) {
    uint64_t hash = share_mix(0xcbf29ce484222325u, &op->info->code, sizeof op->info->code);
    for (int p = 0; p < op->info->param_count; p++) {
        hash = share_mix(hash, &op->operands[p].count, sizeof op->operands[p].count);
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            hash = v->constant ? share_hash_const(hash, v->constant) : share_mix(hash, &v->id, sizeof v->id);
        }
    }
    return hash;
}

static bool share_equal_op(const mil_op *a, const mil_op *b) {
    if (a->info != b->info || a->result_count != b->result_count) return false;
    for (int p = 0; p < a->info->param_count; p++) {
        if (a->operands[p].count != b->operands[p].count) return false;
        for (int i = 0; i < a->operands[p].count; i++)
            if (!share_equal_value(a->operands[p].values[i], b->operands[p].values[i])) return false;
    }
    return true;
}

static bool share_uses_state(const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++)
            if (op->operands[p].values[i]->type.container == MIL_STATE) return true;
    return false;
}

static bool share_any_result(const rewrite *r, const mil_op *op) {
    for (int i = 0; i < op->result_count; i++)
        if (rewrite_is_result(r, op->results[i])) return true;
    return false;
}

propane_status pass_share(rewrite *r, propane_error *err) {
    size_t room = 16;
    while (room < 2 * (size_t)r->function->op_count) room *= 2;
    mil_op **table = mem_array(room, sizeof *table);
    if (!table) return propane_fail_memory(err, room * sizeof *table);
    for (mil_op *op = r->function->first, *next; op; op = next) {
        next = op->next;
        rewrite_operands(r, op);
        if (op->block_count || !op->result_count || share_uses_state(op)) continue;
        size_t at = (size_t)share_hash_op(op) & (room - 1);
        while (table[at] && !share_equal_op(table[at], op)) at = (at + 1) & (room - 1);
        if (!table[at]) {
            table[at] = op;
        } else if (!share_any_result(r, op)) {
            for (int i = 0; i < op->result_count; i++) op->results[i]->replaced_by = table[at]->results[i];
            mil_op_remove(op);
            r->changes++;
        }
    }
    mem_free(table);
    return PROPANE_OK;
}

propane_status pass_drop_unused(rewrite *r, propane_error *err) {
    const mil_function *f = r->function;
    bool *used = mem_array((size_t)f->value_count + 1, sizeof *used);
    if (!used) return propane_fail_memory(err, (size_t)f->value_count);
    for (int i = 0; i < f->result_count; i++) used[f->results[i]->id] = true;
    for (mil_op *op = f->last, *prev; op; op = prev) {
        prev = op->prev;
        bool any = !op->result_count || share_uses_state(op);
        for (int i = 0; i < op->result_count; i++) any |= used[op->results[i]->id];
        for (int p = 0; any && p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++) used[op->operands[p].values[i]->id] = true;
        if (any) continue;
        mil_op_remove(op);
        r->changes++;
    }
    mem_free(used);
    return PROPANE_OK;
}
