/* SPDX-License-Identifier: MIT
 * A neural network of Core ML's older format on its way to MIL. Private to src/core/mil/neural_network.
 *
 * Values of a layer are values of the function. Networks of the first versions see every value with five dimensions,
 * [sequence, batch, channel, height, width]; here such a value has four where its sequence is 1, so that convolutions
 * need no reshape. Axes are counted from the end, which is right for both, and for the networks of later versions,
 * whose values have any rank.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_NETWORK_H
#define CORE_MIL_NEURAL_NETWORK_NETWORK_H

#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/neural_network/wire_view.h"

enum { NETWORK_MOST_VALUES = 256, NETWORK_MOST_PREPARED = 64, NETWORK_MOST_INPUTS = 1024 };

typedef struct network_name {
    const char *name;
    mil_value *value;
    struct network_name *next; /* in its slot */
    struct network_name *older;
    size_t slot;
} network_name;

typedef struct network {
    mil_builder b; /* its error is the first one */
    bool folded;   /* five dimensions, without a sequence of 1 */
    int depth;     /* branches and loops around the layer */
    network_name **names, *newest;
    size_t room;                  /* of names */
    int64_t arrays_as, images_as; /* how inputs become values: 0 five dimensions */
    wire_view prepared[NETWORK_MOST_PREPARED];
    int prepared_count;
} network;

typedef struct network_layer network_layer;
typedef void (*network_run)(network *n, network_layer *l);

/* One type of layer. */
typedef struct network_row {
    uint32_t field;
    const char *name;
    network_run run;
    int least, most; /* inputs */
    mil_opcode code; /* for what several rows share */
    int flag;        /* likewise */
} network_row;

struct network_layer {
    const char *name;
    const network_row *row;
    wire_view params;
    int in_count, out_count;
    mil_value *in[NETWORK_MOST_VALUES], *out[NETWORK_MOST_VALUES];
};

const network_row *network_row_of(uint32_t field); /* NULL: not known */

/* The first error stays; what is built after it is NULL. */
void network_fail(network *n, const network_layer *l, const char *format, ...) BASE_PRINTF(3, 4);
void network_refuse(network *n, const network_layer *l, const char *format, ...) BASE_PRINTF(3, 4);
bool network_failed(const network *n);

/* NETWORK_DO(n, relu, NETWORK_IN("x", x)): the first result. Arguments that are NULL are left out; after an error all
 * are. */
mil_op *network_op(network *n, mil_opcode code, const mil_argument *arguments, int count);
mil_value *network_do(network *n, mil_opcode code, const mil_argument *arguments, int count);
#define NETWORK_IN(name, value) ((mil_argument){name, 1, (mil_value *const[]){value}})
#define NETWORK_ARGS(...)                                                                                              \
    (mil_argument[]){__VA_ARGS__}, (int)(sizeof((mil_argument[]){__VA_ARGS__}) / sizeof(mil_argument))
#define NETWORK_DO(n, code, ...) network_do(n, MIL_OP_##code, NETWORK_ARGS(__VA_ARGS__))

int network_rank(const mil_value *v);              /* 0 after an error */
int64_t network_dim(const mil_value *v, int axis); /* negative: from the end; 1 where there is none */
mil_value *network_real(network *n, double value); /* a scalar of fp32 */
mil_value *network_int(network *n, int64_t value); /* a scalar of int32 */
mil_value *network_reshape(network *n, mil_value *x, const int64_t *dims, int rank);
/* [batch, channel, height, width]: what is in front of the last three in one dimension. network_lead puts back what was
 * in front in `like`. */
mil_value *network_four(network *n, mil_value *x);
mil_value *network_lead(network *n, mil_value *y, const mil_value *like);
/* [sequence, batch, channel, height, width], and as the network keeps it. */
mil_value *network_five(network *n, mil_value *x);
mil_value *network_fold(network *n, mil_value *x);
/* Truth and integers are floats in a network. */
mil_value *network_bool(network *n, mil_value *x);
mil_value *network_whole(network *n, mil_value *x);
mil_value *network_float(network *n, mil_value *x);
/* Axis as the operations take it: 0 to rank-1. */
int64_t network_axis(network *n, const network_layer *l, int64_t axis, int rank);

/* The weights of field `number`, fp32 in whatever form they are; they must be as many as the shape says. */
mil_value *network_weights(network *n, const network_layer *l, wire_view message, uint32_t number, const char *name,
                           int rank, const int64_t *dims);
/* "conv1_bias", as MIL allows it. */
const char *network_weight_name(network *n, const network_layer *l, const char *name);
/* As numbers (mem_free); `channels` is over which axis of `dims` scales of a quantisation run. NULL: an error, or
 * none. */
float *network_numbers(network *n, const network_layer *l, wire_view message, uint32_t number, const char *name,
                       int rank, const int64_t *dims, int channels);

/* A message ActivationParams; NULL: an error. */
mil_value *network_activate(network *n, const network_layer *l, wire_view activation, mil_value *x);
/* The name that recurrent operations take for it; NULL: an error. */
const char *network_activation_name(network *n, const network_layer *l, wire_view activation);

/* All layers of a network, in order. */
void network_layers(network *n, wire_view body);
/* The value of a name; NULL: there is none. */
mil_value *network_find(const network *n, const char *name);
bool network_define(network *n, const char *name, mil_value *v);
/* What was defined after `mark`, n->newest of then, is not any more. */
void network_undefine(network *n, const network_name *mark);
/* The text of a part, in the arena; NULL: no memory. */
const char *network_text(network *n, wire_view part);

/* Rows of the table, by file. */
#define NETWORK_RUN(name) void network_##name(network *n, network_layer *l)
NETWORK_RUN(convolution);
NETWORK_RUN(convolution3d);
NETWORK_RUN(pooling);
NETWORK_RUN(pooling3d);
NETWORK_RUN(global_pooling3d);
NETWORK_RUN(inner_product);
NETWORK_RUN(batched_matmul);
NETWORK_RUN(embedding);
NETWORK_RUN(embedding_nd);
NETWORK_RUN(batchnorm);
NETWORK_RUN(mvn);
NETWORK_RUN(l2normalize);
NETWORK_RUN(layer_norm);
NETWORK_RUN(lrn);
NETWORK_RUN(softmax);
NETWORK_RUN(softmax_nd);
NETWORK_RUN(activation);
NETWORK_RUN(unary);
NETWORK_RUN(map);
NETWORK_RUN(inverse_hyperbolic);
NETWORK_RUN(gelu);
NETWORK_RUN(clip);
NETWORK_RUN(clamped_relu);
NETWORK_RUN(fold_binary);
NETWORK_RUN(average);
NETWORK_RUN(binary);
NETWORK_RUN(compare);
NETWORK_RUN(logic);
NETWORK_RUN(where);
NETWORK_RUN(bias);
NETWORK_RUN(scale);
NETWORK_RUN(dot);
NETWORK_RUN(constant);
NETWORK_RUN(constant_nd);
NETWORK_RUN(copy);
NETWORK_RUN(reduce);
NETWORK_RUN(reduce_nd);
NETWORK_RUN(arg);
NETWORK_RUN(top_k);
NETWORK_RUN(arg_sort);
NETWORK_RUN(cum_sum);
NETWORK_RUN(one_hot);
NETWORK_RUN(padding);
NETWORK_RUN(crop);
NETWORK_RUN(upsample);
NETWORK_RUN(resize_bilinear);
NETWORK_RUN(crop_resize);
NETWORK_RUN(reorganize);
NETWORK_RUN(reshape_old);
NETWORK_RUN(flatten);
NETWORK_RUN(permute);
NETWORK_RUN(concat);
NETWORK_RUN(split);
NETWORK_RUN(sequence_repeat);
NETWORK_RUN(slice);
NETWORK_RUN(transpose);
NETWORK_RUN(reshape_static);
NETWORK_RUN(reshape_dynamic);
NETWORK_RUN(reshape_like);
NETWORK_RUN(rank_preserving_reshape);
NETWORK_RUN(squeeze);
NETWORK_RUN(expand_dims);
NETWORK_RUN(flatten2d);
NETWORK_RUN(concat_nd);
NETWORK_RUN(split_nd);
NETWORK_RUN(stack);
NETWORK_RUN(tile);
NETWORK_RUN(slice_static);
NETWORK_RUN(slice_dynamic);
NETWORK_RUN(slice_by_size);
NETWORK_RUN(sliding_windows);
NETWORK_RUN(reverse);
NETWORK_RUN(reverse_seq);
NETWORK_RUN(gather);
NETWORK_RUN(gather_nd);
NETWORK_RUN(scatter);
NETWORK_RUN(scatter_nd);
NETWORK_RUN(get_shape);
NETWORK_RUN(fill);
NETWORK_RUN(broadcast);
NETWORK_RUN(range);
NETWORK_RUN(non_zero);
NETWORK_RUN(constant_pad);
NETWORK_RUN(band);
NETWORK_RUN(nms);
NETWORK_RUN(simple_recurrent);
NETWORK_RUN(gru);
NETWORK_RUN(lstm);
NETWORK_RUN(bi_lstm);
NETWORK_RUN(random);
NETWORK_RUN(branch);
NETWORK_RUN(loop);
NETWORK_RUN(refused);

#endif
