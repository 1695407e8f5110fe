/* SPDX-License-Identifier: MIT
 * Owns branches and loops. A network has one set of names: layers inside a branch or a loop write to the names of the
 * surrounding network. In the program, every name that such layers write and that existed before becomes a result of
 * the operation. A loop carries these results from iteration to iteration. MIL has no break: in the body of a loop, two
 * bools under separate names record that the loop ends (STOPS) and that the rest of this iteration does not run
 * (SKIPS). The layers after a branch with a break or a continue become the other side of a condition on SKIPS.
 */
#include <string.h>

#include "core/mil/ir_edit.h"
#include "core/mil/neural_network/network.h"

enum { LAYERS = 1, OUTPUTS = 3, MOST_DEPTH = 8, BRANCH = 605, LOOP = 615, BREAK = 620, CONTINUE = 625 };

static const char STOPS[] = "\001stops", SKIPS[] = "\001skips"; /* no file has such names */

typedef struct control {
    const char *names[NETWORK_MOST_VALUES];
    mil_value *values[NETWORK_MOST_VALUES + 2];
    int count;
} control;

static bool control_has(const control *c, const char *name) {
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->names[i], name) == 0) return true;
    return false;
}

static void control_add(network *n, const network_layer *l, control *c, const char *name) {
    if (c->count == NETWORK_MOST_VALUES)
        network_refuse(n, l, "more than %d values are written", NETWORK_MOST_VALUES);
    else
        c->names[c->count++] = name;
}

/* Collects the names that the layers of `body` write. With `before`, collects only names that exist already. */
static void control_written(network *n, const network_layer *l, wire_view body, bool before, control *c) {
    for (wire_view layer; !network_failed(n) && wire_each(&body, LAYERS, &layer);) {
        for (wire_view rest = layer, part; !network_failed(n) && wire_each(&rest, OUTPUTS, &part);) {
            const char *name = network_text(n, part);
            if (name && !control_has(c, name) && (!before || network_find(n, name))) control_add(n, l, c, name);
        }
        for (wire_item item; wire_next(&layer, &item);) { /* in the layer's branches and loops */
            static const uint32_t inner[2][2] = {{1, 2}, {3, 4}};
            const int kind = item.number == BRANCH ? 0 : item.number == LOOP ? 1 : -1;
            wire_view part;
            if (++n->depth <= MOST_DEPTH)
                for (int i = 0; kind >= 0 && item.kind == 2 && i < 2; i++)
                    if (wire_part(item.part, inner[kind][i], &part)) control_written(n, l, part, before, c);
            n->depth--;
        }
    }
}

/* Returns whether `body` has a layer of kind `what`, BREAK or CONTINUE, for the loop around it. Skips inner loops. */
static bool control_leaves(wire_view body, uint32_t what, int depth) {
    wire_view side;
    if (depth > MOST_DEPTH) return false; /* refused when the layers are read */
    for (wire_view layer; wire_each(&body, LAYERS, &layer);)
        for (wire_item item; wire_next(&layer, &item);) {
            if (item.kind != 2) continue;
            if (item.number == what) return true;
            for (uint32_t i = 1; item.number == BRANCH && i <= 2; i++)
                if (wire_part(item.part, i, &side) && control_leaves(side, what, depth + 1)) return true;
        }
    return false;
}

static bool control_leaves_any(wire_view body) {
    return control_leaves(body, BREAK, 0) || control_leaves(body, CONTINUE, 0);
}

static bool control_enter(network *n, const network_layer *l) {
    if (++n->depth > MOST_DEPTH) network_refuse(n, l, "branches and loops are nested more than %d deep", MOST_DEPTH);
    return !network_failed(n);
}

/* Begins a block of `op` whose inputs are the written values. */
static network_name *control_block(network *n, mil_op *op, const control *c, int inputs) {
    network_name *mark = n->newest;
    mil_build_block(&n->b, op);
    for (int i = 0; i < inputs && !network_failed(n); i++) {
        const char *name = mil_scope_unique(n->b.function, i < c->count ? "carried" : "turn");
        mil_value *v = name ? mil_build_param(&n->b, name, c->values[i]->type) : NULL;
        if (!name) (void)!propane_fail_memory(&n->b.err, 0);
        if (v && i < c->count) (void)network_define(n, c->names[i], v);
    }
    return mark;
}

static void control_leave(network *n, network_name *mark) {
    mil_build_block_end(&n->b);
    network_undefine(n, mark);
}

static void control_results(network *n, const control *c) {
    for (int i = 0; i < c->count && !network_failed(n); i++) mil_build_result(&n->b, network_find(n, c->names[i]));
}

static void control_give(network *n, const control *c, const mil_op *op) {
    for (int i = 0; op && i < c->count; i++) (void)network_define(n, c->names[i], op->results[i]);
}

static mil_value *control_scalar(network *n, mil_value *v) {
    return network_rank(v) ? network_reshape(n, v, NULL, 0) : v;
}

/* Builds the layers that follow in the same body, which run unless SKIPS is set. Values that only these layers make are
 * not visible after them. */
static void control_after(network *n, const network_layer *l, wire_view rest) {
    control c = {.count = 0};
    mil_value *skips = network_find(n, SKIPS);
    if (network_failed(n) || (mil_know(skips) && mil_const_i64(skips->constant, 0))) return;
    if (mil_know(skips)) {
        network_layers(n, rest);
        return;
    }
    if (control_leaves_any(rest)) control_add(n, l, &c, STOPS), control_add(n, l, &c, SKIPS);
    control_written(n, l, rest, true, &c);
    if (!c.count || !control_enter(n, l)) return;
    mil_op *op = mil_build_open(&n->b, MIL_OP_cond, NETWORK_ARGS(NETWORK_IN("pred", skips)));
    for (int i = 0; i < 2 && op && !network_failed(n); i++) {
        network_name *mark = control_block(n, op, &c, 0);
        if (i == 1) network_layers(n, rest);
        control_results(n, &c);
        control_leave(n, mark);
    }
    if (op && !network_failed(n)) control_give(n, &c, mil_build_close(&n->b, op, NULL));
    n->depth--;
}

/* ---- branches --------------------------------------------------------------------------------------------------------------- */

/* If the condition is known, builds only the side that is taken, inline with the surrounding layers. Recurrent layers
 * from TensorFlow compare shapes before they make a list again, and the other side would not fit. */
static bool control_known(network *n, mil_value *pred, const wire_view side[2]) {
    if (network_failed(n) || !mil_know(pred)) return false;
    network_layers(n, side[mil_const_i64(pred->constant, 0) ? 0 : 1]);
    return true;
}

/* Refuses a break or a continue outside of a loop. */
static bool control_inside(network *n, const network_layer *l) {
    if (l->after && !network_find(n, SKIPS)) network_fail(n, l, "a break or a continue is outside of a loop");
    return !network_failed(n);
}

void network_branch(network *n, network_layer *l) {
    control c = {.count = 0}, other = {.count = 0};
    wire_view side[2];
    l->out_count = 0;
    (void)wire_part(l->params, 1, &side[0]);
    (void)wire_part(l->params, 2, &side[1]);
    if (control_leaves_any(side[0]) || control_leaves_any(side[1])) l->after = control_after;
    if (!control_enter(n, l) || !control_inside(n, l)) return;
    mil_value *pred = control_scalar(n, network_bool(n, l->in[0]));
    if (control_known(n, pred, side)) {
        n->depth--;
        return;
    }
    if (l->after) control_add(n, l, &c, STOPS), control_add(n, l, &c, SKIPS);
    for (int i = 0; i < 2; i++) control_written(n, l, side[i], true, &c);
    control_written(n, l, side[0], false, &c);
    control_written(n, l, side[1], false, &other);
    int kept = 0;
    for (int i = 0; i < c.count; i++) /* a name made on one side only does not exist afterwards */
        if (network_find(n, c.names[i]) || control_has(&other, c.names[i])) c.names[kept++] = c.names[i];
    c.count = kept;
    /* A branch that writes nothing has no effect. */
    mil_op *op = network_failed(n) || !c.count
                     ? NULL
                     : mil_build_open(&n->b, MIL_OP_cond, NETWORK_ARGS(NETWORK_IN("pred", pred)));
    for (int i = 0; i < 2 && op && !network_failed(n); i++) {
        network_name *mark = control_block(n, op, &c, 0);
        network_layers(n, side[i]);
        control_results(n, &c);
        control_leave(n, mark);
    }
    if (op && !network_failed(n)) control_give(n, &c, mil_build_close(&n->b, op, NULL));
    n->depth--;
}

/* ---- breaks ----------------------------------------------------------------------------------------------------------------- */

static void control_set(network *n, const char *name, bool value) {
    mil_value *v = mil_build_bool(&n->b, value);
    if (v) (void)network_define(n, name, v);
}

void network_leave(network *n, network_layer *l) {
    l->out_count = 0;
    l->after = control_after;
    if (!control_inside(n, l)) return;
    if (l->row->flag) control_set(n, STOPS, true);
    control_set(n, SKIPS, true);
}

/* ---- loops ------------------------------------------------------------------------------------------------------------------ */

/* Sets *name to the value that the loop names as its condition. Returns false if the loop has no condition. */
static bool control_has_condition(network *n, const network_layer *l, const char **name) {
    *name = wire_text(n->b.module->arena, l->params, 2);
    if (!*name) (void)!propane_fail_memory(&n->b.err, 0);
    return *name && **name;
}

/* Computes whether there is another iteration. `runs` is false after a break, and NULL in a loop without breaks. */
static void control_condition(network *n, network_layer *l, mil_value *most, mil_value *turn, mil_value *runs) {
    wire_view part;
    mil_value *goes_on = NULL, *left = NULL;
    const char *name;
    if (control_has_condition(n, l, &name)) {
        (void)wire_part(l->params, 3, &part);
        network_layers(n, part);
        goes_on = network_failed(n) ? NULL : network_find(n, name);
        if (!goes_on) network_fail(n, l, "its condition does not produce the value that it names");
        goes_on = control_scalar(n, network_bool(n, goes_on));
    }
    if (goes_on && runs) goes_on = NETWORK_DO(n, logical_and, NETWORK_IN("x", goes_on), NETWORK_IN("y", runs));
    if (!goes_on) goes_on = runs;
    if (most) left = NETWORK_DO(n, less, NETWORK_IN("x", turn), NETWORK_IN("y", most));
    if (goes_on && left) goes_on = NETWORK_DO(n, logical_and, NETWORK_IN("x", goes_on), NETWORK_IN("y", left));
    if (!network_failed(n)) mil_build_result(&n->b, goes_on ? goes_on : left);
}

static mil_op *control_loop(network *n, network_layer *l, control *c, mil_value *most) {
    wire_view body;
    (void)wire_part(l->params, 4, &body);
    const bool breaks = control_leaves(body, BREAK, 0);
    const int inputs = c->count + (most != NULL) + breaks;
    if (breaks) c->values[inputs - 1] = mil_build_bool(&n->b, true);
    const mil_argument vars[] = {{"loop_vars", inputs, c->values}};
    mil_op *op = network_failed(n) ? NULL : mil_build_open(&n->b, MIL_OP_while_loop, vars, 1);
    for (int i = 0; i < 2 && op && !network_failed(n); i++) {
        network_name *mark = control_block(n, op, c, inputs);
        mil_value *turn = most && !network_failed(n) ? n->b.function->params[c->count] : NULL;
        if (i == 0) {
            control_condition(n, l, most, turn,
                              breaks && !network_failed(n) ? n->b.function->params[inputs - 1] : NULL);
        } else {
            control_set(n, STOPS, false), control_set(n, SKIPS, false);
            network_layers(n, body);
            control_results(n, c);
            if (most)
                mil_build_result(&n->b, NETWORK_DO(n, add, NETWORK_IN("x", turn), NETWORK_IN("y", network_int(n, 1))));
            if (breaks) mil_build_result(&n->b, NETWORK_DO(n, logical_not, NETWORK_IN("x", network_find(n, STOPS))));
        }
        control_leave(n, mark);
    }
    return network_failed(n) ? NULL : mil_build_close(&n->b, op, NULL);
}

void network_loop(network *n, network_layer *l) {
    control c = {.count = 0};
    wire_view part;
    const char *name;
    const int64_t turns = wire_whole(l->params, 1, 0);
    l->out_count = 0;
    if (!control_enter(n, l)) return;
    for (uint32_t i = 3; i <= 4; i++)
        if (wire_part(l->params, i, &part)) control_written(n, l, part, true, &c);
    for (int i = 0; i < c.count; i++) c.values[i] = network_find(n, c.names[i]);
    mil_value *most = l->in_count  ? control_scalar(n, network_whole(n, l->in[0]))
                      : turns != 0 ? network_int(n, turns)
                                   : NULL;
    if (most) c.values[c.count] = network_int(n, 0);
    if (!most && !control_has_condition(n, l, &name))
        network_fail(n, l, "it has neither a condition nor a number of iterations");
    if (!c.count) network_fail(n, l, "it writes no value that existed before it");
    control_give(n, &c, control_loop(n, l, &c, most));
    n->depth--;
}
