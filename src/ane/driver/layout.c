/* SPDX-License-Identifier: MIT
 * Owns the reading of modelAttributes, which describe the order of a program's symbols and how the engine lays out each
 * tensor. Names are matched, never guessed. A symbol that the program does not have, or a shape that is not the
 * tensor's, is reported as an error.
 *
 * The engine uses five dimensions, N C D H W. A tensor's dimensions other than 1 are matched to them in order.
 */
#include <stdio.h>
#include <string.h>

#include "ane/chip/check.h"
#include "ane/driver/ane.h"
#include "core/base/int_math.h"

enum { AXES = 5 };

static int64_t layout_element_bytes(const propane_io *io) {
    return io->dtype == PROPANE_FP32 || io->dtype == PROPANE_INT32                                ? 4
           : io->dtype == PROPANE_BOOL || io->dtype == PROPANE_INT8 || io->dtype == PROPANE_UINT8 ? 1
                                                                                                  : 2;
}

/* Lays out rows with the alignment of rule C13, as a fallback. */
static void layout_standard_layout(propane_io *io) {
    int64_t wide = io->rank ? io->dim[io->rank - 1] * layout_element_bytes(io) : layout_element_bytes(io);
    int64_t step = (int64_t)chip_row_bytes();
    wide = round_up(wide, step);
    for (int k = io->rank - 2; k >= 0; k--) {
        io->stride[k] = wide;
        wide *= io->dim[k];
    }
    io->bytes = (size_t)wide;
}

/* Returns true if `symbol` is `name`, perhaps followed by "@" and more, as in "name@output". */
static bool layout_is_symbol(const char *symbol, const char *name) {
    size_t length = strlen(name);
    return strncmp(symbol, name, length) == 0 && (symbol[length] == 0 || symbol[length] == '@');
}

/* Returns the entry for `name` in a list such as LiveInputList, or NULL if there is none. */
static ane_id layout_find_entry(const ane_api *a, ane_id list, const char *name) {
    char symbol[300];
    for (int i = 0; i < ane_array_count(a, list); i++) {
        ane_id entry = ane_array_at(a, list, i);
        if (ane_text_of(a, ane_entry(a, entry, "Symbol"), symbol, sizeof symbol) && layout_is_symbol(symbol, name))
            return entry;
        if (ane_text_of(a, ane_entry(a, entry, "Name"), symbol, sizeof symbol) && layout_is_symbol(symbol, name))
            return entry;
    }
    return NULL;
}

static propane_status layout_given_layout(const ane_api *a, ane_id entry, propane_io *io, propane_error *err) {
    static const char *const sizes[AXES] = {"Batches", "Channels", "Depth", "Height", "Width"};
    static const char *const strides[AXES - 1] = {"BatchStride", "PlaneStride", "DepthStride", "RowStride"};
    int64_t size[AXES], stride[AXES];
    for (int k = 0; k < AXES; k++) {
        size[k] = 1;
        stride[k] = k == AXES - 1 ? layout_element_bytes(io) : 0;
        (void)ane_entry_number(a, entry, sizes[k], &size[k]);
        if (k < AXES - 1) (void)ane_entry_number(a, entry, strides[k], &stride[k]);
        if (size[k] < 1 || stride[k] < 0 || size[k] > ((int64_t)1 << 40) || stride[k] > ((int64_t)1 << 40) ||
            (size[k] > 1 && stride[k] < 1))
            return propane_fail(err, PROPANE_ERR_DEVICE,
                                "ane: '%s': the engine reports a %s of %lld with steps of %lld bytes", io->name,
                                sizes[k], (long long)size[k], (long long)stride[k]);
    }
    if (size[AXES - 1] > 1 && stride[AXES - 2] > 0 && stride[AXES - 2] < size[AXES - 1] * layout_element_bytes(io))
        return propane_fail(err, PROPANE_ERR_DEVICE,
                            "ane: '%s': the engine reports rows of %lld bytes for %lld elements of %lld bytes, so its "
                            "element type differs from the program's",
                            io->name, (long long)stride[AXES - 2], (long long)size[AXES - 1],
                            (long long)layout_element_bytes(io));
    int axis = AXES - 1;
    int64_t inner = layout_element_bytes(io), extent = layout_element_bytes(io);
    for (int k = io->rank - 1; k >= 0; k--) { /* from the last dimension backwards */
        if (io->dim[k] == 1) {
            io->stride[k] = inner;
            continue;
        }
        while (axis >= 0 && size[axis] == 1) axis--;
        if (axis < 0 || size[axis] != io->dim[k])
            return propane_fail(err, PROPANE_ERR_DEVICE,
                                "ane: '%s': the engine reports the shape [%lld, %lld, %lld, %lld, %lld], which lacks "
                                "the dimension of %lld",
                                io->name, (long long)size[0], (long long)size[1], (long long)size[2],
                                (long long)size[3], (long long)size[4], (long long)io->dim[k]);
        io->stride[k] = stride[axis];
        extent += (io->dim[k] - 1) * stride[axis];
        inner = stride[axis] * size[axis];
        axis--;
    }
    int64_t whole = size[0] * stride[0];
    io->bytes = (size_t)(whole > extent ? whole : extent);
    return PROPANE_OK;
}

/* Returns the entry for `name` in `list` of any entry of NetworkStatusList, or NULL if there is none. If each procedure
 * has its own entry, the names distinguish them. */
static ane_id layout_find_live(const ane_api *a, ane_id networks, const char *list, const char *name) {
    ane_id entry = NULL;
    for (int i = 0; !entry && i < ane_array_count(a, networks); i++)
        entry = layout_find_entry(a, ane_entry(a, ane_array_at(a, networks, i), list), name);
    return entry;
}

/* `other` is the list to search if `list` does not have the name, or NULL. */
static propane_status layout_lay_out(const ane_api *a, ane_id networks, const char *list, const char *other,
                                     mil_value *const *values, propane_io *ios, int count, propane_error *err) {
    for (int i = 0; i < count; i++) {
        ane_id entry = layout_find_live(a, networks, list, values[i]->name);
        if (!entry && other) entry = layout_find_live(a, networks, other, values[i]->name);
        if (!entry)
            layout_standard_layout(&ios[i]);
        else
            PROPANE_TRY(layout_given_layout(a, entry, &ios[i], err));
    }
    return PROPANE_OK;
}

static int layout_find_value(const char *symbol, mil_value *const *values, int count) {
    int i = 0;
    while (i < count && !layout_is_symbol(symbol, values[i]->name)) i++;
    return i;
}

/* `first` is the number of symbols of the preceding functions. A symbol that names none of `values` belongs to another
 * procedure, or is an error if the function is `alone`. */
static propane_status layout_read_side(const ane_api *a, ane_id symbols, const char *what, mil_value *const *values,
                                       int count, int first, bool alone, ane_side *out, propane_error *err) {
    int reported = ane_array_count(a, symbols);
    char symbol[300] = "?";
    out->count = 0;
    for (int i = 0; i < count && !reported; i++, out->count++) {
        /* alphabetical order, which the names make equal to the declared order */
        out->bound[i] = i;
        out->symbol[i] = first + i;
    }
    for (int k = 0; k < reported; k++) {
        (void)ane_text_of(a, ane_array_at(a, symbols, k), symbol, sizeof symbol);
        int i = layout_find_value(symbol, values, count);
        if (i == count && alone)
            return propane_fail(err, PROPANE_ERR_DEVICE,
                                "ane: the engine reports %s number %d as '%s', which the program does not have", what,
                                k, symbol);
        if (i == count) continue;
        if (out->count == count)
            return propane_fail(err, PROPANE_ERR_DEVICE, "ane: the engine reports %s '%s' twice", what, symbol);
        out->bound[out->count] = i;
        out->symbol[out->count++] = k;
    }
    if (out->count || !count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_DEVICE, "ane: the engine reports no %s of '%s', but '%s'", what,
                        values[0]->name, symbol);
}

propane_status ane_layout(const ane_api *a, ane_id attributes, const ane_source *s, int index, driver_program *p,
                          ane_order *order, propane_error *err) {
    const mil_function *f = s->module->functions;
    int inputs = 0, outputs = 0;
    bool alone = s->module->function_count == 1;
    for (int k = 0; k < index; k++, f = f->next) {
        inputs += f->param_count;
        outputs += f->result_count;
    }
    ane_id networks = ane_entry(a, attributes, "NetworkStatusList"),
           model = ane_entry(a, attributes, "ANEFModelDescription"),
           input_symbols = ane_entry(a, model, "kANEFModelInputSymbolsArrayKey");
    int64_t procedure = index;
    (void)ane_entry_number(a, ane_entry(a, model, "kANEFModelProcedureNameToIDMapKey"), f->name, &procedure);
    if (procedure < 0 || procedure >= ANE_MAX_PROCEDURES)
        return propane_fail(err, PROPANE_ERR_DEVICE, "ane: the engine reports '%s' as procedure %lld", f->name,
                            (long long)procedure);
    order->procedure = (int)procedure;
    order->reported = ane_array_count(a, input_symbols) > 0;
    PROPANE_TRY(
        layout_lay_out(a, networks, "LiveInputList", "LiveInputParamList", f->params, p->inputs, p->input_count, err));
    PROPANE_TRY(layout_lay_out(a, networks, "LiveOutputList", NULL, f->results, p->outputs, p->output_count, err));
    PROPANE_TRY(
        layout_read_side(a, input_symbols, "input", f->params, p->input_count, inputs, alone, &order->inputs, err));
    return layout_read_side(a, ane_entry(a, model, "kANEFModelOutputSymbolsArrayKey"), "output", f->results,
                            p->output_count, outputs, alone, &order->outputs, err);
}
