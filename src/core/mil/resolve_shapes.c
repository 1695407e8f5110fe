/* SPDX-License-Identifier: MIT
 * Owns inputs whose shape a file leaves open. One shape is chosen when the program is read, so that all later shapes
 * are known. Refuses shapes that the file does not allow, and lists the allowed ones.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/resolve_shapes.h"

/* Prints the type's shape, as in "[1, ?, 64]". */
static const char *resolve_shown(char out[160], const mil_type *type) {
    int used = snprintf(out, 160, "[");
    for (int i = 0; i < type->rank && used < 140; i++)
        used += type->dim[i] == MIL_OPEN
                    ? snprintf(out + used, (size_t)(160 - used), "%s?", i ? ", " : "")
                    : snprintf(out + used, (size_t)(160 - used), "%s%lld", i ? ", " : "", (long long)type->dim[i]);
    snprintf(out + used, (size_t)(160 - used), "]");
    return out;
}

static bool resolve_fits(const mil_type *type, const mil_type *shape) {
    if (type->rank != shape->rank) return false;
    for (int i = 0; i < type->rank; i++)
        if ((type->dim[i] != MIL_OPEN && type->dim[i] != shape->dim[i]) || shape->dim[i] < 1) return false;
    return true;
}

/* Compares `described` with the last dimensions of `shape`: images are described by height and width alone. */
static bool resolve_same_end(const mil_type *described, const mil_type *shape) {
    if (described->rank > shape->rank) return false;
    for (int i = 0; i < described->rank; i++)
        if (described->dim[i] != shape->dim[shape->rank - described->rank + i]) return false;
    return true;
}

static bool resolve_in_ranges(const mil_feature *f, const mil_type *shape) {
    if (f->range_count > shape->rank) return false;
    for (int i = 0; i < f->range_count; i++) {
        const int64_t dim = shape->dim[shape->rank - f->range_count + i];
        if (dim < f->ranges[i].lower || (f->ranges[i].upper >= 0 && dim > f->ranges[i].upper)) return false;
    }
    return true;
}

static propane_status resolve_check_allowed(const char *source, const mil_feature *f, const mil_type *shape,
                                            propane_error *err) {
    char given[160], one[160], list[500] = "";
    size_t used = 0;
    bool allowed = !f->shape_count;
    for (int i = 0; i < f->shape_count; i++) {
        allowed |= resolve_same_end(&f->shapes[i], shape);
        if (used < sizeof list - 170)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                     resolve_shown(one, &f->shapes[i]));
    }
    if (!allowed)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: input '%.60s' cannot have the shape %s; the file allows %s",
                            source, f->name, resolve_shown(given, shape), list);
    if (resolve_in_ranges(f, shape)) return PROPANE_OK;
    for (int i = 0; i < f->range_count && used < sizeof list - 60; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, f->ranges[i].upper < 0 ? "%s%lld.." : "%s%lld..%lld",
                                 i ? ", " : "", (long long)f->ranges[i].lower, (long long)f->ranges[i].upper);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: input '%.60s' cannot have the shape %s; the file allows [%s]",
                        source, f->name, resolve_shown(given, shape), list);
}

bool mil_read_late(const mil_read_options *options, const mil_op *op) {
    mil_function *f = op->function;
    if (!options || !options->late || f->owner || op->block_count || !mil_op_waits(op)) return false;
    f->late = true;
    return true;
}

/* Sets the file's default shape; returns false if there is none. */
static bool resolve_standard_shape(const mil_feature *f, const mil_type *type, mil_type *out) {
    if (!f || !f->shape.rank) return false;
    *out = f->shape;
    if (f->kind != MIL_FEATURE_IMAGE || type->rank != 4) return true;
    const int channels = f->colour == MIL_RGB || f->colour == MIL_BGR ? 3 : 1;
    *out = (mil_type){.rank = 4, .dim = {1, channels, f->shape.dim[0], f->shape.dim[1]}};
    return true;
}

/* Sets the shape that was chosen for this input; returns false if there is none. */
static bool resolve_chosen(const mil_read_options *options, const char *name, const mil_type *type, mil_type *out) {
    bool chosen = false;
    for (int i = 0; options && i < options->shape_count; i++) {
        const mil_shape_choice *c = &options->shapes[i];
        const int front = c->shape.rank - type->rank;
        if (strcmp(c->name, name) != 0) continue;
        if ((c->of_array || c->of_picture) && !mil_type_is_open(type)) continue;
        if (c->of_picture ? type->rank < 3 : c->of_array && front != 0 && front != 1) continue;
        *out = c->of_picture ? *type : c->shape;
        if (c->of_picture) memcpy(out->dim + type->rank - 2, c->shape.dim, 2 * sizeof *out->dim);
        if (c->of_array) memmove(out->dim, out->dim + front, (size_t)type->rank * sizeof *out->dim);
        if (c->of_array) out->rank = type->rank;
        chosen = true;
    }
    return chosen;
}

/* Picks the k-th alternative to the default shape. If the file lists shapes, takes another of the list. Otherwise each
 * open dimension with a range gets a size within that range: for k = 1 the upper bound, or 4 if there is none up to
 * LARGEST; for larger k, 2^k. */
static void resolve_other_size(const mil_feature *f, const mil_type *type, int k, mil_type *shape) {
    enum { LARGEST = 4096 };
    if (f->shape_count && f->shapes[k % f->shape_count].rank == shape->rank) *shape = f->shapes[k % f->shape_count];
    for (int i = 0; !f->shape_count && i < type->rank; i++) {
        const int at = i - (type->rank - f->range_count);
        if (type->dim[i] != MIL_OPEN || at < 0 || at >= f->range_count) continue;
        const mil_shape_range *r = &f->ranges[at];
        const bool bound = r->upper >= 1 && r->upper <= LARGEST;
        int64_t size = k == 1 ? (bound ? r->upper : 4) : (int64_t)1 << k;
        if (size < r->lower) size = r->lower;
        shape->dim[i] = r->upper >= 1 && size > r->upper ? r->upper : size;
    }
}

propane_status mil_open_settle(const mil_read_options *options, const char *source, const char *name,
                               const mil_feature *feature, const mil_type *standard, mil_type *type,
                               propane_error *err) {
    mil_type shape;
    char given[160], wanted[160], why[200];
    const bool chosen = resolve_chosen(options, name, type, &shape);
    if (!chosen && !mil_type_is_open(type)) return PROPANE_OK;
    if (!chosen && standard)
        shape = *standard;
    else if (!chosen && !resolve_standard_shape(feature, type, &shape))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: input '%.60s' has flexible dimensions, %s, and no default: give its shape (--shape %.60s=...)", source,
            name, resolve_shown(wanted, type), name);
    if (!chosen && feature && options && options->other_size && mil_type_is_open(type)) {
        resolve_other_size(feature, type, options->other_size, &shape);
        if (options->open) *options->open = true;
    }
    if (!resolve_fits(type, &shape))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: input '%.60s' cannot have the shape %s; it is %s", source,
                            name, resolve_shown(given, &shape), resolve_shown(wanted, type));
    if (feature && mil_type_is_open(type)) PROPANE_TRY(resolve_check_allowed(source, feature, &shape, err));
    for (int i = 0; i < type->rank; i++) type->dim[i] = shape.dim[i];
    if (mil_type_legal(type, why)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: input '%.60s' is invalid: %s", source, name, why);
}

propane_status mil_open_check(const mil_module *m, const mil_read_options *options, propane_error *err) {
    for (int k = 0; options && k < options->shape_count; k++) {
        /* Choices from arrays and images are reported when they are applied. */
        bool found = options->shapes[k].of_array || options->shapes[k].of_picture;
        char quoted[80], list[400] = "";
        size_t used = 0;
        for (const mil_function *f = m->functions; f; f = f->next)
            for (int i = 0; i < f->param_count; i++) {
                found |= strcmp(f->params[i]->name, options->shapes[k].name) == 0;
                if (used < sizeof list - 70)
                    used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s", used ? ", " : "",
                                             f->params[i]->name);
            }
        if (!found)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: there is no input '%s' to give a shape to; the inputs are: %s", m->source,
                                text_quote(quoted, options->shapes[k].name, strlen(options->shapes[k].name)), list);
    }
    return PROPANE_OK;
}
