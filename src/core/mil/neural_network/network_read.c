/* SPDX-License-Identifier: MIT
 * Owns reading a neural network of the older format: its inputs and the preprocessing of images, its layers one after
 * the other, and its outputs. One idea: each layer has a row (network_rows.c) that builds operations, so no later code
 * depends on the older format. Refuses layers without a row by name, undefined values, and layers that produce another
 * number of values than they name.
 */
#include "core/mil/neural_network/network_read.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/neural_network/interface_program.h"
#include "core/mil/neural_network/network.h"

/* Fields of a network, of a layer, and of the preprocessing. */
enum { LAYERS = 1, PREPROCESSING = 2, ARRAYS_AS = 5, IMAGES_AS = 6, LABELS = 100, NUMBERS = 101, PROBABILITIES = 200 };
enum { NAME = 1, INPUTS = 2, OUTPUTS = 3, FIRST_KIND = 100, FIRST_OF_ANY_RANK = 600 };
enum { FEATURE = 1, SCALER = 10, MEAN = 11 };
enum { SCALE = 10, BLUE = 20, GREEN = 21, RED = 22, GRAY = 30 };

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static size_t read_slot(const network *n, const char *name) {
    size_t hash = 5381;
    for (; *name; name++) hash = hash * 33 + (unsigned char)*name;
    return hash % n->room;
}

mil_value *network_find(const network *n, const char *name) {
    for (const network_name *at = n->names[read_slot(n, name)]; at; at = at->next)
        if (strcmp(at->name, name) == 0) return at->value;
    return NULL;
}

bool network_define(network *n, const char *name, mil_value *v) {
    network_name *entry = ARENA_NEW(n->b.module->arena, network_name);
    if (!entry) (void)!propane_fail_memory(&n->b.err, 0);
    if (!entry) return false;
    const size_t slot = read_slot(n, name);
    *entry = (network_name){name, v, n->names[slot], n->newest, slot};
    n->names[slot] = n->newest = entry;
    return true;
}

void network_undefine(network *n, const network_name *mark) {
    for (; n->newest != mark; n->newest = n->newest->older) n->names[n->newest->slot] = n->newest->next;
}

const char *network_text(network *n, wire_view part) {
    char *out = arena_alloc(n->b.module->arena, part.bytes + 1);
    if (!out) (void)!propane_fail_memory(&n->b.err, part.bytes);
    if (out && part.bytes) memcpy(out, part.data, part.bytes);
    return out;
}

/* ---- layers ----------------------------------------------------------------------------------------------------------------- */

static void read_inputs(network *n, network_layer *l, wire_view layer) {
    char shown[80];
    for (wire_view part; !network_failed(n) && wire_each(&layer, INPUTS, &part);) {
        const char *name = network_text(n, part);
        if (!name) return;
        if (l->in_count == NETWORK_MOST_VALUES) {
            network_refuse(n, l, "more than %d inputs", NETWORK_MOST_VALUES);
            return;
        }
        if (!(l->in[l->in_count++] = network_find(n, name)))
            network_fail(n, l, "its input '%s' is not defined by an input of the model or an earlier layer",
                         text_quote(shown, name, strlen(name)));
    }
    if (l->in_count < l->row->least || l->in_count > l->row->most)
        network_fail(n, l, "it has %d inputs; it must have %d to %d", l->in_count, l->row->least, l->row->most);
}

/* Gives a value that this layer made the name that the file uses. */
static void read_name(network *n, mil_value *v, const char *wanted, int first_new) {
    if (v->home != n->b.function || v->id < first_new || !v->def || v->def->info->code == MIL_OP_const) return;
    const char *name = interface_name(n->b.module->arena, wanted);
    if (name) name = mil_scope_unique(n->b.function, name);
    if (!name) (void)!propane_fail_memory(&n->b.err, 0);
    if (name) (void)!mil_rename(n->b.function, v, name, &n->b.err);
}

static void read_outputs(network *n, network_layer *l, wire_view layer, int first_new) {
    int count = 0;
    for (wire_view part; !network_failed(n) && wire_each(&layer, OUTPUTS, &part); count++) {
        const char *name = network_text(n, part);
        if (!name) return;
        if (count >= l->out_count || !l->out[count]) {
            network_fail(n, l, "it names %d or more outputs, but produces %d", count + 1, l->out_count);
            return;
        }
        read_name(n, l->out[count], name, first_new);
        if (!network_define(n, name, l->out[count])) return;
    }
    if (!count && l->out_count && !network_failed(n)) network_fail(n, l, "it has no output");
}

static void read_layer(network *n, network_layer *l, wire_view layer) {
    uint32_t field = 0;
    wire_view rest = layer;
    *l = (network_layer){.params.broken = layer.broken};
    l->name = wire_text(n->b.module->arena, layer, NAME);
    if (!l->name) (void)!propane_fail_memory(&n->b.err, 0);
    if (!l->name) return;
    for (wire_item item; wire_next(&rest, &item);)
        if (item.number >= FIRST_KIND && item.kind == 2) field = item.number, l->params = item.part;
    l->row = network_row_of(field);
    if (!l->row) {
        network_refuse(n, l, field ? "field %u is a layer that Propane does not know" : "it has no type", field);
        return;
    }
    read_inputs(n, l, layer);
    if (network_failed(n)) return;
    /* Set before the row's function runs, which may need the number of outputs that it must produce. */
    l->out_count = wire_count(layer, OUTPUTS);
    const int first_new = n->b.function->value_count;
    if (l->out_count > NETWORK_MOST_VALUES) network_refuse(n, l, "more than %d outputs", NETWORK_MOST_VALUES);
    if (!network_failed(n)) l->row->run(n, l);
    if (*layer.broken) network_fail(n, l, "its message ends early or has too many numbers");
    if (!network_failed(n)) read_outputs(n, l, layer, first_new);
}

/* Puts the layer's name in front of an operation's message. */
static void read_say_layer(network *n, const network_layer *l) {
    propane_error said = n->b.err;
    char shown[80];
    const char *source = n->b.module->source, *rest = said.text;
    if (!l->name || strstr(said.text, "layer '")) return;
    if (strncmp(rest, source, strlen(source)) == 0 && strncmp(rest + strlen(source), ": ", 2) == 0)
        rest += strlen(source) + 2;
    (void)!propane_fail(&n->b.err, said.status, "%s: layer '%s': %s", source,
                        text_quote(shown, l->name, strlen(l->name)), rest);
}

void network_layers(network *n, wire_view body) {
    network_layer *l = mem_array(1, sizeof *l);
    if (!l) (void)!propane_fail_memory(&n->b.err, sizeof *l);
    for (wire_view layer; l && !network_failed(n) && wire_each(&body, LAYERS, &layer);) {
        read_layer(n, l, layer);
        if (network_failed(n)) read_say_layer(n, l);
        if (!l->after || network_failed(n)) continue;
        l->after(n, l, body);
        break;
    }
    mem_free(l);
}

/* ---- inputs ----------------------------------------------------------------------------------------------------------------- */

/* Reads the network's description of its inputs, once. */
static void read_head(network *n, wire_view body) {
    for (wire_item item; wire_next(&body, &item);) {
        if (item.number == ARRAYS_AS && item.kind == 0) n->arrays_as = (int64_t)item.bits;
        if (item.number == IMAGES_AS && item.kind == 0) n->images_as = (int64_t)item.bits;
        if (item.number == PREPROCESSING && item.kind == 2 && n->prepared_count < NETWORK_MOST_PREPARED)
            n->prepared[n->prepared_count++] = item.part;
        else if (item.number == PREPROCESSING)
            *item.part.broken = true;
    }
}

static wire_view read_preprocessing(network *n, wire_view body, const char *feature, bool image) {
    const wire_view none = {.broken = body.broken};
    for (int i = 0; i < n->prepared_count; i++) {
        const char *name = wire_text(n->b.module->arena, n->prepared[i], FEATURE);
        if (name && (strcmp(name, feature) == 0 || (image && !*name))) return n->prepared[i];
    }
    return none;
}

static mil_value *read_scaled(network *n, wire_view scaler, const mil_feature *f, mil_value *x) {
    const bool bgr = f->colour == MIL_BGR, gray = network_dim(x, -3) == 1;
    const double scale = wire_real(scaler, SCALE, 0), red = wire_real(scaler, RED, 0),
                 blue = wire_real(scaler, BLUE, 0);
    const double bias[3] = {gray  ? wire_real(scaler, GRAY, 0)
                            : bgr ? blue
                                  : red,
                            wire_real(scaler, GREEN, 0), bgr ? red : blue};
    const mil_type type = {.dtype = MIL_fp32, .rank = 4, .dim = {1, gray ? 1 : 3, 1, 1}};
    if (scale != 1) x = NETWORK_DO(n, mul, NETWORK_IN("x", x), NETWORK_IN("y", network_real(n, scale)));
    if (bias[0] == 0 && (gray || (bias[1] == 0 && bias[2] == 0))) return x;
    mil_value *c = mil_build_const_f64(&n->b, "image_bias", &type, bias);
    return NETWORK_DO(n, add, NETWORK_IN("x", x), NETWORK_IN("y", c));
}

static mil_value *read_mean(network *n, const network_layer *l, wire_view mean, mil_value *x) {
    mil_type type = x->type;
    const int64_t count = network_dim(x, -1) * network_dim(x, -2) * network_dim(x, -3),
                  have = wire_floats(mean, 1, NULL, 0);
    for (int i = 0; i < type.rank - 3; i++) type.dim[i] = 1;
    if (have != count) {
        network_fail(n, l, "its mean image has %lld values, but the input has %lld", (long long)have, (long long)count);
        return NULL;
    }
    float *data = mem_array((size_t)count, sizeof *data);
    if (!data) (void)!propane_fail_memory(&n->b.err, (size_t)count * 4);
    if (!data) return NULL;
    (void)wire_floats(mean, 1, data, count);
    for (int64_t i = 0; i < count; i++)
        if (isnan(data[i])) data[i] = NAN;
    mil_value *c = mil_build_const(&n->b, "mean_image", &type, data);
    mem_free(data);
    return NETWORK_DO(n, sub, NETWORK_IN("x", x), NETWORK_IN("y", c));
}

/* Uses a chosen shape with [sequence, batch] in front of the described one, which networks of the first versions
 * accept: [S, B, C] for [C], or five dimensions. Returns true for [S, B, C]. */
static bool read_sequence(network *n, mil_feature *f, const mil_read_options *options) {
    const char *name = interface_name(n->b.module->arena, f->name);
    const int rank = f->shape.rank;
    for (int i = 0; name && options && n->folded && f->kind == MIL_FEATURE_ARRAY && i < options->shape_count; i++) {
        const mil_type *given = &options->shapes[i].shape;
        bool fits = strcmp(options->shapes[i].name, name) == 0 &&
                    ((rank == 1 && (given->rank == 3 || given->rank == 5)) || (rank == 3 && given->rank == 5));
        for (int d = 2; fits && d < given->rank; d++) fits = given->dim[d] == (d - 2 < rank ? f->shape.dim[d - 2] : 1);
        if (!fits) continue;
        f->shape.rank = given->rank;
        memcpy(f->shape.dim, given->dim, sizeof f->shape.dim);
        f->shape_count = f->range_count = 0;
        return given->rank == 3;
    }
    return false;
}

/* Maps an input to the dimensions of a network of the first versions: [C] and [C, H, W] in a batch of one. */
static mil_value *read_mapped(network *n, const network_layer *l, mil_value *x, bool image, int64_t images_as) {
    const int rank = network_rank(x);
    if (image && (n->folded || images_as)) return x;
    if (image) return network_five(n, x);
    if (!n->folded || rank == 4) return x;
    if (rank == 5) return network_fold(n, x);
    if (rank == 1) return network_reshape(n, x, (int64_t[]){1, x->type.dim[0], 1, 1}, 4);
    if (rank == 3) return network_reshape(n, x, (int64_t[]){1, x->type.dim[0], x->type.dim[1], x->type.dim[2]}, 4);
    if (rank == 2) return network_reshape(n, x, (int64_t[]){1, 1, x->type.dim[0], x->type.dim[1]}, 4);
    network_refuse(n, l, "an array of %d dimensions; the network supports [C] or [C, H, W]", rank);
    return NULL;
}

static void read_input(network *n, wire_view body, mil_feature *f, const mil_read_options *options) {
    static const network_row row = {.name = "input"};
    const network_layer as_layer = {.name = f->name, .row = &row};
    const char *name = f->name;
    const bool image = f->kind == MIL_FEATURE_IMAGE, exact = n->arrays_as != 0;
    wire_view part;
    const bool sequence = read_sequence(n, f, options);
    mil_value *x = interface_param(&n->b, f, options);
    if (!x) return;
    x = network_float(n, x);
    if (sequence) x = network_reshape(n, x, (int64_t[]){f->shape.dim[0], f->shape.dim[1], f->shape.dim[2], 1, 1}, 5);
    x = read_mapped(n, &as_layer, x, image, n->images_as);
    if (!image && !exact && !n->folded) x = network_five(n, x);
    const wire_view first = read_preprocessing(n, body, name, image);
    if (x && wire_part(first, SCALER, &part)) x = read_scaled(n, part, f, x);
    if (x && wire_part(first, MEAN, &part)) x = read_mean(n, &as_layer, part, x);
    if (x) (void)network_define(n, name, x);
}

/* ---- outputs ---------------------------------------------------------------------------------------------------------------- */

/* Shapes an output as the model describes it, if that is possible. */
static mil_value *read_described(network *n, const mil_feature *f, mil_value *v) {
    if (!v) return NULL;
    if (f->kind == MIL_FEATURE_IMAGE) return network_four(n, v);
    if (mil_type_is_open(&v->type)) return v;
    if (f->shape.rank && mil_type_count(&f->shape) == mil_type_count(&v->type))
        return network_reshape(n, v, f->shape.dim, f->shape.rank);
    return v;
}

static void read_classes(network *n, wire_view body, mil_interface *seen) {
    static const network_row row = {.name = "classifier"};
    const network_layer as_layer = {.name = seen->predicted, .row = &row};
    wire_view strings, numbers, last = {.broken = body.broken}, rest = body;
    (void)wire_part(body, LABELS, &strings);
    (void)wire_part(body, NUMBERS, &numbers);
    const char *name = wire_text(n->b.module->arena, body, PROBABILITIES);
    mil_value *from = name && *name ? network_find(n, name) : NULL;
    while (!from && wire_each(&rest, LAYERS, &last)) continue;
    if (!from) {
        name = wire_text(n->b.module->arena, last, OUTPUTS);
        from = name ? network_find(n, name) : NULL;
    }
    mil_value *labels = from ? interface_labels(&n->b, strings, numbers) : NULL;
    if (!from || !labels) {
        network_fail(n, &as_layer, from ? "the model has no labels" : "no layer produces the probabilities");
        return;
    }
    interface_classify(&n->b, seen, from, labels);
}

static void read_results(network *n, wire_view body, mil_interface *seen) {
    static const network_row row = {.name = "output"};
    const bool classes = seen->predicted[0] && (wire_count(body, LABELS) || wire_count(body, NUMBERS));
    const char *predicted = seen->predicted, *probabilities = seen->probabilities;
    for (int i = 0; i < seen->output_count && !network_failed(n); i++) {
        mil_feature *f = &seen->outputs[i];
        if (classes && (strcmp(f->name, predicted) == 0 || strcmp(f->name, probabilities) == 0)) continue;
        mil_value *v = network_find(n, f->name);
        const network_layer as_layer = {.name = f->name, .row = &row};
        if (!v) network_fail(n, &as_layer, "no layer produces it");
        interface_result(&n->b, f, read_described(n, f, v));
    }
    if (classes && !network_failed(n)) read_classes(n, body, seen);
}

/* ---- the whole network ------------------------------------------------------------------------------------------- */

static bool read_is_old(wire_view body) {
    bool old = wire_whole(body, ARRAYS_AS, 0) == 0;
    for (wire_view layer; wire_each(&body, LAYERS, &layer);)
        for (wire_item item; wire_next(&layer, &item);) old &= item.number < FIRST_OF_ANY_RANK || item.kind != 2;
    return old;
}

propane_status network_read(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                            const mil_read_options *options, propane_error *err) {
    bool broken = false;
    const wire_view body = {data, bytes, &broken};
    network n = {.folded = read_is_old(body), .room = (size_t)wire_count(body, LAYERS) * 2 + 64};
    mil_interface *seen = &m->package->interfaces[0];
    n.names = ARENA_ARRAY(m->arena, n.room, network_name *);
    if (!n.names) return propane_fail_memory(err, n.room * sizeof *n.names);
    if (seen->input_count > NETWORK_MOST_INPUTS || seen->output_count > NETWORK_MOST_INPUTS)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: the neural network has more than %d inputs or outputs",
                            m->source, NETWORK_MOST_INPUTS);
    mil_build_begin(&n.b, m, "main", opset);
    n.b.waits = options && options->late;
    read_head(&n, body);
    for (int i = 0; i < seen->input_count && !network_failed(&n); i++) read_input(&n, body, &seen->inputs[i], options);
    network_layers(&n, body);
    read_results(&n, body, seen);
    if (!network_failed(&n) && broken)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the neural network's message ends early", m->source);
    return mil_build_end(&n.b, err);
}
