/* SPDX-License-Identifier: MIT
 * Owns the packed form of a kernel: the place of each parameter, the function that cuts the parameters out again, and
 * the copies into the packed input. Kernels whose parameters have different types are refused, because a surface has
 * one type.
 */
#include "lm/step/weight_packing.h"

#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "lm/step/kernel_rewrite.h"

/* Describes a parameter as items, rows and columns. The last dimension is the columns. In a parameter of rank 4, a
 * first dimension equal to the batch size (if that is more than 1) counts items. */
static packing_part weight_packing_part_of(const mil_value *v, int64_t batch) {
    const mil_type *t = &v->type;
    packing_part p = {.name = v->name, .type = *t, .items = 1, .rows = 1, .columns = 1};
    int first = t->rank == 4 && batch > 1 && t->dim[0] == batch;
    if (first) p.items = batch;
    for (int d = first; d < t->rank - 1; d++) p.rows *= t->dim[d];
    if (t->rank > 0) p.columns = t->dim[t->rank - 1];
    return p;
}

/* Assigns the parameters' places and sets *rows and *columns to the size of the packed input. */
static void weight_packing_place(packing *p, int64_t *rows, int64_t *columns) {
    bool one_width = true;
    for (int i = 1; i < p->count; i++) one_width &= p->parts[i].columns == p->parts[0].columns;
    *rows = *columns = 0;
    for (int i = 0; i < p->count; i++) {
        packing_part *part = &p->parts[i];
        if (one_width) {
            part->first_row = *rows;
            *rows += part->rows;
            *columns = part->columns;
        } else {
            part->first_column = *columns;
            *columns += part->columns;
            if (part->rows > *rows) *rows = part->rows;
        }
    }
}

/* State while the function is built. */
typedef struct cutting {
    const packing *packing;
    const int64_t *dim; /* dimensions of the whole input */
    mil_value *whole;
} cutting;

static mil_value *weight_packing_cut_out(void *context, mil_builder *b, int index) {
    cutting *c = context;
    const packing_part *p = &c->packing->parts[index];
    if (!c->whole) c->whole = mil_build_param(b, PACKING_INPUT, mil_type_tensor(p->type.dtype, 4, c->dim));
    if (!c->whole) return NULL;
    int64_t begin[4] = {0, p->first_row, 0, p->first_column}, size[4] = {p->items, p->rows, 1, p->columns};
    bool all = memcmp(size, c->dim, sizeof size) == 0;
    mil_value *v = all ? c->whole : mil_build_slice(b, c->whole, begin, size);
    return v && !mil_shape_equal(&v->type, &p->type) ? mil_build_reshape(b, v, p->type.dim, p->type.rank) : v;
}

static propane_status weight_packing_same_types(const mil_function *f, propane_error *err) {
    for (int i = 1; i < f->param_count; i++)
        if (f->params[i]->type.dtype != f->params[0]->type.dtype)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "kernel '%s' reads '%s' in %s and '%s' in %s, but a packed input has one type; use "
                                "--plan six or ten, or --weights inputs",
                                f->name, f->params[0]->name, mil_dtype_get(f->params[0]->type.dtype)->name,
                                f->params[i]->name, mil_dtype_get(f->params[i]->type.dtype)->name);
    return PROPANE_OK;
}

static propane_status weight_packing_fill(packing *p, const mil_function *f, int64_t batch, propane_error *err) {
    int64_t dim[4] = {1, 0, 1, 0};
    p->module = mil_module_create(f->name);
    if (p->module) p->parts = ARENA_ARRAY(p->module->arena, f->param_count, packing_part);
    if (!p->parts) return propane_fail_memory(err, (size_t)f->param_count * sizeof *p->parts);
    p->count = f->param_count;
    for (int i = 0; i < p->count; i++) {
        p->parts[i] = weight_packing_part_of(f->params[i], batch);
        p->parts[i].name = arena_string(p->module->arena, f->params[i]->name);
        if (!p->parts[i].name) return propane_fail_memory(err, strlen(f->params[i]->name));
        if (p->parts[i].items > dim[0]) dim[0] = p->parts[i].items;
    }
    weight_packing_place(p, &dim[1], &dim[3]);
    return train_cut(f, p->module, f->name, weight_packing_cut_out, &(cutting){p, dim, NULL}, &p->function, err);
}

propane_status packing_create(const mil_function *f, int64_t batch, packing **out, propane_error *err) {
    *out = NULL;
    PROPANE_TRY(weight_packing_same_types(f, err));
    packing *p = mem_alloc(sizeof *p);
    if (!p) return propane_fail_memory(err, sizeof *p);
    propane_status status = weight_packing_fill(p, f, batch, err);
    if (status == PROPANE_OK)
        *out = p;
    else
        packing_free(p);
    return status;
}

void packing_free(packing *p) {
    if (!p) return;
    mil_module_free(p->module);
    mem_free(p);
}

propane_io packing_dense_io(const packing_part *part) {
    bool half = part->type.dtype == MIL_fp16;
    propane_io io = {.name = part->name, .dtype = half ? PROPANE_FP16 : PROPANE_FP32, .rank = part->type.rank};
    int64_t stride = half ? 2 : 4;
    for (int d = io.rank - 1; d >= 0; d--) {
        io.dim[d] = part->type.dim[d];
        io.stride[d] = stride;
        stride *= io.dim[d];
    }
    io.bytes = (size_t)stride;
    return io;
}

/* ---- copies ------------------------------------------------------------------------------------------------------------- */

static char *weight_packing_row_at(void *target, const packing_part *p, const propane_io *packed, int64_t item,
                                   int64_t row) {
    return (char *)target + item * packed->stride[0] + (p->first_row + row) * packed->stride[1] +
           p->first_column * packed->stride[3];
}

/* Returns a row of a tensor of any rank. `index` counts through all dimensions but the last. */
static const char *weight_packing_source_row(const packing_part *p, const void *source, const propane_io *io,
                                             int64_t index) {
    int64_t offset = 0;
    for (int d = p->type.rank - 2; d >= 0; d--) {
        offset += index % p->type.dim[d] * io->stride[d];
        index /= p->type.dim[d];
    }
    return (const char *)source + offset;
}

void packing_put(const packing_part *part, void *target, const propane_io *packed, const void *source,
                 const propane_io *io) {
    size_t size = (size_t)mil_dtype_get(part->type.dtype)->bits / 8;
    int64_t step = part->type.rank > 0 ? io->stride[part->type.rank - 1] : (int64_t)size;
    bool dense = (step == (int64_t)size || part->columns == 1) && packed->stride[3] == (int64_t)size;
    for (int64_t item = 0; item < part->items; item++)
        for (int64_t row = 0; row < part->rows; row++) {
            char *to = weight_packing_row_at(target, part, packed, item, row);
            const char *from = weight_packing_source_row(part, source, io, item * part->rows + row);
            if (dense) memcpy(to, from, (size_t)part->columns * size);
            for (int64_t c = 0; !dense && c < part->columns; c++)
                memcpy(to + c * packed->stride[3], from + c * step, size);
        }
}

void packing_put_f32(const packing_part *part, void *target, const propane_io *packed, const float *source) {
    bool half = part->type.dtype == MIL_fp16;
    bool dense = packed->stride[3] == (half ? 2 : 4);
    for (int64_t row = 0; row < part->items * part->rows; row++) {
        char *to = weight_packing_row_at(target, part, packed, row / part->rows, row % part->rows);
        const float *from = source + row * part->columns;
        if (half && dense)
            fp16_from_f32_array((uint16_t *)to, from, (size_t)part->columns);
        else if (dense)
            memcpy(to, from, (size_t)part->columns * sizeof(float));
        for (int64_t c = 0; !dense && c < part->columns; c++) {
            uint16_t narrow = fp16_from_f32(from[c]);
            memcpy(to + c * packed->stride[3], half ? (const void *)&narrow : (const void *)&from[c], half ? 2 : 4);
        }
    }
}
