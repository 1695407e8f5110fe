/* SPDX-License-Identifier: MIT
 * Owns the form of a program whose compiled net can be loaded with other weights: all its larger constants become parts of
 * one, which goes into one weight file, because how a compiled net holds several is not known. Each part is cut out again
 * by operations, as weights that are inputs are.
 *
 * Constants of another element type than the first stay as they are; then there are several files, and a program that
 * names this one as its donor is refused.
 */
#include <string.h>

#include "base/memory.h"
#include "drivers/ane/ane.h"
#include "mil/build.h"
#include "mil/ops.h"

/* The one constant is [1, C, H, WIDTH]; a part begins at a channel. Dimensions beyond 65,536 are not taken (C27). */
enum { WIDTH = 64, TALL = 32, MOST_CHANNELS = 65536 };

typedef struct merge {
    mil_function *f;
    mil_op **parts;
    int count;
    mil_dtype dtype;
    int64_t height, channels; /* of the whole */
} merge;

static bool merge_is_part(const merge *m, const mil_op *op) {
    if (op->info->code != MIL_OP_const || !op->results[0]->konst || !op->results[0]->konst->data) return false;
    const mil_type *t = &op->results[0]->type;
    for (int i = 0; i < m->f->result_count; i++)
        if (m->f->results[i] == op->results[0]) return false;
    return mil_type_count(t) > ANE_LITERAL_ELEMENTS && mil_dtype_get(t->dtype)->blob_code &&
           mil_dtype_get(t->dtype)->bits >= 8 && (!m->dtype || t->dtype == m->dtype);
}

static int64_t merge_channels_of(const merge *m, const mil_op *op) {
    int64_t unit = m->height * WIDTH;
    return (mil_type_count(&op->results[0]->type) + unit - 1) / unit;
}

static propane_status merge_collect(merge *m, propane_error *err) {
    m->parts = mem_array((size_t)m->f->op_count + 1, sizeof(mil_op *));
    if (!m->parts) return propane_fail_memory(err, (size_t)m->f->op_count * sizeof(mil_op *));
    for (mil_op *op = m->f->first; op; op = op->next) {
        if (!merge_is_part(m, op)) continue;
        m->dtype = op->results[0]->type.dtype;
        m->parts[m->count++] = op;
    }
    for (m->height = 1; m->height <= TALL; m->height *= TALL) {
        m->channels = 0;
        for (int k = 0; k < m->count; k++) m->channels += merge_channels_of(m, m->parts[k]);
        if (m->channels <= MOST_CHANNELS || m->height == TALL) break;
    }
    return PROPANE_OK;
}

static mil_value *merge_build_whole(const merge *m, mil_builder *b, propane_error *err) {
    size_t element = (size_t)mil_dtype_get(m->dtype)->bits / 8, unit = (size_t)(m->height * WIDTH) * element, at = 0;
    mil_type type = mil_type_tensor(m->dtype, 4, (int64_t[]){1, m->channels, m->height, WIDTH});
    unsigned char *data = mem_array((size_t)m->channels, unit);
    if (!data) {
        (void)propane_fail_memory(err, (size_t)m->channels * unit);
        return NULL;
    }
    for (int k = 0; k < m->count; k++) {
        const mil_value *v = m->parts[k]->results[0];
        memcpy(data + at, v->konst->data, (size_t)mil_type_count(&v->type) * element);
        at += (size_t)merge_channels_of(m, m->parts[k]) * unit;
    }
    b->before = m->f->first;
    mil_value *whole = mil_build_const(b, "constants", &type, data);
    mem_free(data);
    return whole;
}

/* The part of `whole` that begins at channel `first`, in the constant's own shape. */
static mil_value *merge_cut_out(const merge *m, mil_builder *b, mil_value *whole, const mil_op *op, int64_t first) {
    const mil_type *t = &op->results[0]->type;
    int64_t channels = merge_channels_of(m, op), held = channels * m->height * WIDTH, count = mil_type_count(t);
    mil_value *v = mil_build_slice(b, whole, (int64_t[]){0, first, 0, 0}, (int64_t[]){1, channels, m->height, WIDTH});
    if (held != count) {
        v = mil_build_reshape(b, v, (int64_t[]){1, 1, 1, held}, 4);
        v = mil_build_slice(b, v, (int64_t[]){0, 0, 0, 0}, (int64_t[]){1, 1, 1, count});
    }
    return mil_build_reshape(b, v, t->dim, t->rank);
}

static propane_status merge_rewrite(const merge *m, propane_error *err) {
    mil_builder b = {0};
    int64_t first = 0;
    mil_build_resume(&b, m->f);
    mil_value *whole = merge_build_whole(m, &b, err);
    mil_op *user = m->f->first; /* constants stand at the head; after them, nothing has used one yet */
    while (user && user->info->code == MIL_OP_const) user = user->next;
    if (!whole) return b.err.status ? propane_fail(err, b.err.status, "%s", b.err.text) : PROPANE_ERR_MEMORY;
    for (int k = 0; k < m->count; k++) {
        mil_op *op = m->parts[k];
        b.before = user;
        mil_value *v = merge_cut_out(m, &b, whole, op, first);
        if (b.err.status) return propane_fail(err, b.err.status, "%s", b.err.text);
        first += merge_channels_of(m, op);
        mil_replace_uses(m->f, op->results[0], v);
        mil_op_remove(op);
    }
    return PROPANE_OK;
}

propane_status ane_merge_constants(mil_function *f, propane_error *err) {
    merge m = {.f = f};
    propane_status status = merge_collect(&m, err);
    if (status == PROPANE_OK && m.count > 1) status = merge_rewrite(&m, err);
    mem_free(m.parts);
    return status;
}
