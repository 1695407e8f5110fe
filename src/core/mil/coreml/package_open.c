/* SPDX-License-Identifier: MIT
 * Determines, for the writer, which dimensions of a program are open. In memory every dimension is a number; the
 * description of the inputs lists the other allowed sizes. One idea: copy the function for another allowed shape of its
 * inputs, checking each operation again. Dimensions that differ between function and copy are open. If no copy can be
 * made, the function contains a constant that depends on the shape, and has no open dimensions.
 */
#include "core/mil/coreml/package_open.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ir_edit.h"

/* Differences between two sizes: networks that halve their input need multiples of a power of two. */
static const int64_t steps[] = {1, 2, 4, 8, 16, 32, 64, 128};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* Returns the dimension in a feature's shapes that corresponds to the parameter's dimension d; negative if there is
 * none. */
static int package_open_place(int rank, const mil_type *param, int d) { return d - (param->rank - rank); }

static int64_t package_open_other_size(const mil_feature *f, const mil_type *param, int d, int64_t step) {
    const int64_t size = param->dim[d];
    for (int i = 0; i < f->shape_count; i++) {
        const int at = package_open_place(f->shapes[i].rank, param, d);
        if (at >= 0 && f->shapes[i].dim[at] != size) return f->shapes[i].dim[at];
    }
    const int at = package_open_place(f->range_count, param, d);
    if (at < 0 || at >= f->range_count) return size;
    const mil_shape_range *r = &f->ranges[at];
    if (r->upper < 0 || size + step <= r->upper) return size + step;
    return size - step >= r->lower && size - step >= 1 ? size - step : size;
}

/* Sets `out` to types of the parameters with other allowed sizes. Returns false if no dimension of the inputs is
 * open. */
static bool package_open_other_types(const mil_function *f, const mil_interface *seen, int64_t step, mil_type *out) {
    bool open = false;
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *v = f->params[i];
        const bool state = v->type.container == MIL_STATE;
        const mil_feature *feature = state ? NULL : mil_feature_find(seen, PROPANE_INPUT, v->name);
        out[i] = v->type;
        for (int d = 0; feature && d < v->type.rank; d++) {
            out[i].dim[d] = package_open_other_size(feature, &v->type, d, step);
            open |= out[i].dim[d] != v->type.dim[d];
        }
    }
    return open;
}

static void package_open_free_name(const mil_module *m, char out[40]) {
    bool taken = true;
    for (int i = 0; taken; i++) {
        snprintf(out, 40, "other_shape_%d", i);
        taken = false;
        for (const mil_function *f = m->functions; f; f = f->next) taken |= strcmp(f->name, out) == 0;
    }
}

static mil_function *package_open_do_copy(mil_module *m, const mil_function *f, const mil_type *types) {
    mil_builder b;
    propane_error err = {0};
    char name[40];
    mil_value **map = mem_array((size_t)f->value_count + 1, sizeof *map);
    if (!map) return NULL;
    package_open_free_name(m, name);
    mil_build_begin(&b, m, name, f->opset);
    for (int i = 0; i < f->param_count; i++) map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, types[i]);
    for (const mil_op *op = f->first; op && !b.err.status; op = op->next) (void)mil_build_copy(&b, op, map);
    for (int i = 0; i < f->result_count; i++) mil_build_result(&b, map[f->results[i]->id]);
    mem_free(map);
    return mil_build_end(&b, &err) ? NULL : b.function;
}

/* If a copy was added, removes it from the module's list, where it is the last function. */
static void package_open_unlink_last(mil_module *m, int count) {
    mil_function *f = m->functions;
    if (m->function_count == count) return;
    for (int i = 1; i < count; i++) f = f->next;
    f->next = NULL;
    m->function_count = count;
}

const mil_function *package_open_copy(mil_module *m, const mil_function *f) {
    const mil_interface *seen = mil_interface_of(m, f->name);
    mil_type *types = mem_array((size_t)f->param_count + 1, sizeof *types);
    const mil_function *out = NULL;
    const int count = m->function_count;
    for (int i = 0; types && seen && i < STEPS && !out; i++) {
        if (!package_open_other_types(f, seen, steps[i], types)) break;
        out = package_open_do_copy(m, f, types);
        package_open_unlink_last(m, count);
    }
    mem_free(types);
    return out;
}

mil_type package_open_type(const mil_function *other, const mil_value *v) {
    const mil_value *twin = other ? mil_scope_find(other, v->name, strlen(v->name)) : NULL;
    mil_type type = v->type;
    if (!twin || twin->type.rank != type.rank) return type;
    for (int d = 0; d < type.rank; d++)
        if (twin->type.dim[d] != type.dim[d]) type.dim[d] = MIL_OPEN;
    if (twin->type.length != type.length) type.length = MIL_OPEN;
    return type;
}

const mil_function *package_open_block(const mil_function *other, const mil_op *op, int block) {
    const mil_value *result = other && op->result_count ? op->results[0] : NULL;
    const mil_value *twin = result ? mil_scope_find(other, result->name, strlen(result->name)) : NULL;
    return twin && twin->def && twin->def->block_count > block ? twin->def->blocks[block] : NULL;
}
