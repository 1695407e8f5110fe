/* SPDX-License-Identifier: MIT
 * Owns elementwise layers: activations, functions of one or two values, comparisons, constants, biases.
 */
#include <string.h>

#include "core/base/text.h"
#include "core/mil/neural_network/network.h"

#define X(value) NETWORK_IN("x", value)
#define Y(value) NETWORK_IN("y", value)

/* ---- activations ------------------------------------------------------------------------------------------------------------ */

/* `numbers` is how many of alpha and beta the operation has; negative if they are vectors over the channels.
 * `recurrent` is the activation's name in a recurrent operation. */
static const struct {
    uint32_t field;
    mil_opcode code;
    int numbers;
    const char *recurrent;
} activations[] = {
    {5, MIL_OP_linear_activation, 2, NULL},
    {10, MIL_OP_relu, 0, "relu"},
    {15, MIL_OP_leaky_relu, 1, NULL},
    {20, MIL_OP_thresholded_relu, 1, NULL},
    {25, MIL_OP_prelu, -1, NULL},
    {30, MIL_OP_tanh, 0, "tanh"},
    {31, MIL_OP_scaled_tanh, 2, NULL},
    {40, MIL_OP_sigmoid, 0, "sigmoid"},
    {41, MIL_OP_sigmoid_hard, 2, "sigmoid_hard"},
    {50, MIL_OP_elu, 1, NULL},
    {60, MIL_OP_softsign, 0, NULL},
    {70, MIL_OP_softplus, 0, NULL},
    {71, MIL_OP_softplus_parametric, -2, NULL},
};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

/* Returns a vector over the channels. A single number in the file is repeated for all channels. */
static mil_value *elementwise_vector(network *n, const network_layer *l, wire_view message, uint32_t field,
                                     const char *name, int64_t channels) {
    wire_view weights;
    (void)wire_part(message, field, &weights);
    if (wire_floats(weights, 1, NULL, 0) == channels || wire_floats(weights, 1, NULL, 0) != 1)
        return network_weights(n, l, message, field, name, 1, &channels);
    mil_value *one = network_weights(n, l, message, field, name, 1, &(int64_t){1});
    mil_value *all = NETWORK_DO(n, tile, X(one), NETWORK_IN("reps", mil_build_ints(&n->b, &channels, 1)));
    if (!all || !mil_know(all)) return NULL;
    mil_type type = all->type;
    return mil_build_const(&n->b, name, &type, all->constant->data);
}

static mil_value *elementwise_by_channel(network *n, const network_layer *l, wire_view params, mil_opcode code,
                                         bool beta, mil_value *x) {
    mil_value *four = network_four(n, x);
    const int64_t channels = network_dim(four, 1);
    mil_value *a = elementwise_vector(n, l, params, 1, "alpha", channels);
    mil_value *b = beta ? elementwise_vector(n, l, params, 2, "beta", channels) : NULL;
    const mil_argument args[] = {X(four), NETWORK_IN("alpha", a), NETWORK_IN("beta", b)};
    return network_lead(n, network_do(n, code, args, beta ? 3 : 2), x);
}

/* Applies a message ActivationParams; returns NULL on an error. */
static mil_value *network_activate(network *n, const network_layer *l, wire_view activation, mil_value *x) {
    wire_view params;
    for (int i = 0; i < ACTIVATIONS; i++) {
        if (!wire_part(activation, activations[i].field, &params)) continue;
        const int numbers = activations[i].numbers;
        if (numbers < 0) return elementwise_by_channel(n, l, params, activations[i].code, numbers == -2, x);
        const mil_argument args[] = {X(x),
                                     NETWORK_IN("alpha", numbers > 0 ? network_real(n, wire_real(params, 1, 0)) : NULL),
                                     NETWORK_IN("beta", numbers > 1 ? network_real(n, wire_real(params, 2, 0)) : NULL)};
        return network_do(n, activations[i].code, args, 1 + numbers);
    }
    network_refuse(n, l, "an activation that Propane does not know");
    return NULL;
}

const char *network_activation_name(network *n, const network_layer *l, wire_view activation) {
    wire_view params;
    if (wire_part(activation, 5, &params) && wire_real(params, 1, 0) == 1 && wire_real(params, 2, 0) == 0)
        return "linear";
    for (int i = 0; i < ACTIVATIONS; i++)
        if (wire_part(activation, activations[i].field, &params) && activations[i].recurrent)
            return activations[i].recurrent;
    network_refuse(n, l, "an activation that recurrent operations do not have");
    return NULL;
}

void network_activation(network *n, network_layer *l) {
    l->out[0] = network_activate(n, l, l->params, l->in[0]);
    l->out_count = 1;
}

/* ---- one value -------------------------------------------------------------------------------------------------------------- */

enum { ROOT, RECIPROCAL_ROOT, RECIPROCAL, POWER, EXPONENT, LOGARITHM, ABSOLUTE, THRESHOLD };

static mil_value *elementwise_affine(network *n, mil_value *x, double scale, double shift) {
    if (scale != 1) x = NETWORK_DO(n, mul, X(x), Y(network_real(n, scale)));
    return shift != 0 ? NETWORK_DO(n, add, X(x), Y(network_real(n, shift))) : x;
}

void network_unary(network *n, network_layer *l) {
    const int64_t type = wire_whole(l->params, 1, 0);
    const double alpha = wire_real(l->params, 2, 0), given = wire_real(l->params, 3, 0),
                 scale = wire_real(l->params, 5, 0);
    mil_value *x = elementwise_affine(n, l->in[0], scale == 0 ? 1 : scale, wire_real(l->params, 4, 0));
    mil_value *e = network_real(n, given == 0 ? 1e-6 : given);
    l->out_count = 1;
    switch (type) {
    case ROOT: l->out[0] = NETWORK_DO(n, sqrt, X(x)); break;
    case RECIPROCAL_ROOT: l->out[0] = NETWORK_DO(n, rsqrt, X(x), NETWORK_IN("epsilon", e)); break;
    case RECIPROCAL: l->out[0] = NETWORK_DO(n, inverse, X(x), NETWORK_IN("epsilon", e)); break;
    case POWER: l->out[0] = NETWORK_DO(n, pow, X(x), Y(network_real(n, alpha))); break;
    case EXPONENT: l->out[0] = NETWORK_DO(n, exp, X(x)); break;
    case LOGARITHM: l->out[0] = NETWORK_DO(n, log, X(x), NETWORK_IN("epsilon", given == 0 ? NULL : e)); break;
    case ABSOLUTE: l->out[0] = NETWORK_DO(n, abs, X(x)); break;
    case THRESHOLD: l->out[0] = NETWORK_DO(n, maximum, X(x), Y(network_real(n, alpha))); break;
    default: network_refuse(n, l, "unknown function type %lld", (long long)type);
    }
}

void network_map(network *n, network_layer *l) {
    l->out[0] = network_do(n, l->row->code, NETWORK_ARGS(X(l->in[0])));
    l->out_count = 1;
}

/* Computes asinh x = sign x * log(|x| + sqrt(x^2 + 1)) or acosh x = log(x + sqrt(x^2 - 1)). */
void network_inverse_hyperbolic(network *n, network_layer *l) {
    const bool sine = l->row->flag;
    mil_value *x = sine ? NETWORK_DO(n, abs, X(l->in[0])) : l->in[0];
    mil_value *square = NETWORK_DO(n, square, X(x));
    mil_value *root = NETWORK_DO(n, sqrt, X(NETWORK_DO(n, add, X(square), Y(network_real(n, sine ? 1 : -1)))));
    mil_value *y = NETWORK_DO(n, log, X(NETWORK_DO(n, add, X(x), Y(root))));
    l->out[0] = sine ? NETWORK_DO(n, mul, X(y), Y(NETWORK_DO(n, sign, X(l->in[0])))) : y;
    l->out_count = 1;
}

void network_gelu(network *n, network_layer *l) {
    static const char *const modes[] = {"EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"};
    const int64_t mode = wire_whole(l->params, 1, 0);
    l->out_count = 1;
    if (mode < 0 || mode > 2)
        network_refuse(n, l, "mode %lld", (long long)mode);
    else
        l->out[0] = NETWORK_DO(n, gelu, X(l->in[0]), NETWORK_IN("mode", mil_build_text(&n->b, modes[mode])));
}

void network_clip(network *n, network_layer *l) {
    l->out[0] = NETWORK_DO(n, clip, X(l->in[0]), NETWORK_IN("alpha", network_real(n, wire_real(l->params, 1, 0))),
                           NETWORK_IN("beta", network_real(n, wire_real(l->params, 2, 0))));
    l->out_count = 1;
}

void network_clamped_relu(network *n, network_layer *l) {
    l->out[0] =
        NETWORK_DO(n, clamped_relu, X(l->in[0]), NETWORK_IN("alpha", network_real(n, wire_real(l->params, 1, 0))),
                   NETWORK_IN("beta", network_real(n, wire_real(l->params, 2, 0))));
    l->out_count = 1;
}

/* ---- several values --------------------------------------------------------------------------------------------------------- */

/* Adds, multiplies, or takes the maximum or minimum of all inputs, or of one input and alpha. */
void network_fold_binary(network *n, network_layer *l) {
    mil_value *x = l->in[0];
    if (l->in_count == 1) x = mil_build_binary(&n->b, l->row->code, x, network_real(n, wire_real(l->params, 1, 0)));
    for (int i = 1; i < l->in_count; i++) x = mil_build_binary(&n->b, l->row->code, x, l->in[i]);
    l->out[0] = x;
    l->out_count = 1;
}

void network_average(network *n, network_layer *l) {
    mil_value *x = l->in[0];
    for (int i = 1; i < l->in_count; i++) x = NETWORK_DO(n, add, X(x), Y(l->in[i]));
    l->out[0] = NETWORK_DO(n, mul, X(x), Y(network_real(n, 1.0 / l->in_count)));
    l->out_count = 1;
}

void network_binary(network *n, network_layer *l) {
    l->out[0] = mil_build_binary(&n->b, l->row->code, l->in[0], l->in[1]);
    l->out_count = 1;
}

/* flag is the field of the number with which a single input is compared. */
void network_compare(network *n, network_layer *l) {
    mil_value *y = l->in_count == 2 ? l->in[1] : network_real(n, wire_real(l->params, (uint32_t)l->row->flag, 0));
    l->out[0] = network_float(n, mil_build_binary(&n->b, l->row->code, l->in[0], y));
    l->out_count = 1;
}

void network_logic(network *n, network_layer *l) {
    mil_value *x = network_bool(n, l->in[0]);
    l->out[0] = network_float(n, l->row->code == MIL_OP_logical_not
                                     ? NETWORK_DO(n, logical_not, X(x))
                                     : mil_build_binary(&n->b, l->row->code, x, network_bool(n, l->in[1])));
    l->out_count = 1;
}

void network_where(network *n, network_layer *l) {
    l->out[0] = NETWORK_DO(n, select, NETWORK_IN("cond", network_bool(n, l->in[0])), NETWORK_IN("a", l->in[1]),
                           NETWORK_IN("b", l->in[2]));
    l->out_count = 1;
}

/* ---- weights ---------------------------------------------------------------------------------------------------------------- */

/* Returns weights whose shape in the file is [1], [C], [1, H, W] or [C, H, W] as three dimensions. */
static mil_value *elementwise_weights(network *n, const network_layer *l, uint32_t shape, uint32_t field,
                                      const char *name) {
    int64_t dims[3] = {1, 1, 1};
    if (wire_wholes(l->params, shape, dims, 3) == 2) network_fail(n, l, "the shape of its %s has 2 dimensions", name);
    return network_weights(n, l, l->params, field, name, 3, dims);
}

void network_bias(network *n, network_layer *l) {
    l->out[0] = NETWORK_DO(n, add, X(l->in[0]), Y(elementwise_weights(n, l, 1, 2, "bias")));
    l->out_count = 1;
}

void network_scale(network *n, network_layer *l) {
    mil_value *x = NETWORK_DO(n, mul, X(l->in[0]), Y(elementwise_weights(n, l, 1, 2, "scale")));
    if (wire_whole(l->params, 3, 0)) x = NETWORK_DO(n, add, X(x), Y(elementwise_weights(n, l, 4, 5, "bias")));
    l->out[0] = x;
    l->out_count = 1;
}

void network_constant(network *n, network_layer *l) {
    int64_t dims[5] = {1, 1, 1, 1, 1};
    if (wire_wholes(l->params, 1, dims + 2, 3) != 3) network_fail(n, l, "its shape must have 3 dimensions");
    const int drop = n->folded ? 1 : 0;
    l->out[0] = network_weights(n, l, l->params, 2, "data", 5 - drop, dims + drop);
    l->out_count = 1;
}

void network_constant_nd(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK];
    const int rank = wire_wholes(l->params, 1, dims, MIL_MAX_RANK);
    l->out[0] = network_weights(n, l, l->params, 2, "data", rank, dims);
    l->out_count = 1;
}

void network_copy(network *n, network_layer *l) {
    (void)n;
    l->out[0] = l->in[0];
    l->out_count = 1;
}

/* Refuses a layer. A layer that is implemented by an app's code names a class in field CLASS. */
void network_refused(network *n, network_layer *l) {
    enum { CUSTOM = 500, CLASS = 10 };
    char shown[80];
    const char *name = l->row->field == CUSTOM ? wire_text(n->b.module->arena, l->params, CLASS) : NULL;
    if (name)
        network_refuse(n, l, "its code is a class '%s' of an app, which is not in the file",
                       text_quote(shown, name, strlen(name)));
    else
        network_refuse(n, l, "Propane does not support layers of this type");
}
