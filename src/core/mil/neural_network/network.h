/* SPDX-License-Identifier: MIT
 * Converts a neural network of Core ML's older format to MIL. Private to src/core/mil/neural_network.
 *
 * The values of a layer are values of the function. In networks of the first versions every value has five dimensions,
 * [sequence, batch, channel, height, width]. In the program such a value has four dimensions if its sequence is 1, so
 * that convolutions need no reshape. Axes are counted from the end. That is right for both forms, and for later
 * networks, whose values have any rank.
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
    struct network_name *next; /* in the same slot */
    struct network_name *older;
    size_t slot;
} network_name;

typedef struct network {
    mil_builder b; /* holds the first error */
    bool folded;   /* five-dimensional network; a sequence of 1 is dropped */
    int depth;     /* branches and loops around the current layer */
    network_name **names, *newest;
    size_t room;                  /* slots in names */
    int64_t arrays_as, images_as; /* how inputs become values; 0 means five dimensions */
    wire_view prepared[NETWORK_MOST_PREPARED];
    int prepared_count;
} network;

typedef struct network_layer network_layer;
typedef void (*network_run)(network *n, network_layer *l);
typedef void (*network_rest)(network *n, const network_layer *l, wire_view rest);

/* The row for one type of layer. */
typedef struct network_row {
    uint32_t field;
    const char *name;
    network_run run;
    int least, most; /* number of inputs */
    mil_opcode code; /* distinguishes rows that share a function */
    int flag;        /* distinguishes rows that share a function */
} network_row;

struct network_layer {
    const char *name;
    const network_row *row;
    wire_view params;
    int in_count, out_count;
    network_rest after; /* builds the following layers if they may be skipped, else NULL */
    mil_value *in[NETWORK_MOST_VALUES], *out[NETWORK_MOST_VALUES];
};

const network_row *network_row_of(uint32_t field); /* NULL if unknown */

/* Record an error. The first error is kept; everything built after it is NULL. */
void network_fail(network *n, const network_layer *l, const char *format, ...) BASE_PRINTF(3, 4);
void network_refuse(network *n, const network_layer *l, const char *format, ...) BASE_PRINTF(3, 4);
bool network_failed(const network *n);

/* NETWORK_DO(n, relu, NETWORK_IN("x", x)) builds an operation and returns its first result. Arguments that are NULL are
 * left out; after an error the result is NULL. */
mil_op *network_op(network *n, mil_opcode code, const mil_argument *arguments, int count);
mil_value *network_do(network *n, mil_opcode code, const mil_argument *arguments, int count);
#define NETWORK_IN(name, value) ((mil_argument){name, 1, (mil_value *const[]){value}})
#define NETWORK_ARGS(...)                                                                                              \
    (mil_argument[]){__VA_ARGS__}, (int)(sizeof((mil_argument[]){__VA_ARGS__}) / sizeof(mil_argument))
#define NETWORK_DO(n, code, ...) network_do(n, MIL_OP_##code, NETWORK_ARGS(__VA_ARGS__))

int network_rank(const mil_value *v);              /* 0 after an error */
int64_t network_dim(const mil_value *v, int axis); /* negative axes count from the end; 1 if the axis does not exist */
mil_value *network_real(network *n, double value); /* a scalar of fp32 */
mil_value *network_int(network *n, int64_t value); /* a scalar of int32 */
mil_value *network_reshape(network *n, mil_value *x, const int64_t *dims, int rank);
/* Reshapes to [batch, channel, height, width], with everything before the last three dimensions combined into one.
 * network_lead restores the leading dimensions of `like`. */
mil_value *network_four(network *n, mil_value *x);
mil_value *network_lead(network *n, mil_value *y, const mil_value *like);
/* Reshape to [sequence, batch, channel, height, width], and back to the form that the network keeps. */
mil_value *network_five(network *n, mil_value *x);
mil_value *network_fold(network *n, mil_value *x);
/* Convert to bool and to int32. In a network, truth values and integers are floats. */
mil_value *network_bool(network *n, mil_value *x);
mil_value *network_whole(network *n, mil_value *x);
/* Converts to a vector of int32. Converters leave dimensions of 1 around shapes, but layers need a vector. */
mil_value *network_list(network *n, mil_value *x);
mil_value *network_float(network *n, mil_value *x);
/* Converts an axis to the form that operations require, 0 to rank-1. */
int64_t network_axis(network *n, const network_layer *l, int64_t axis, int rank);

/* Returns the weights of field `number` as a constant of fp32; the file may store them in any form. Their number must
 * match the shape. */
mil_value *network_weights(network *n, const network_layer *l, wire_view message, uint32_t number, const char *name,
                           int rank, const int64_t *dims);
/* Returns a name such as "conv1_bias", made legal for MIL. */
const char *network_weight_name(network *n, const network_layer *l, const char *name);
/* Returns the weights as floats, which the caller frees with mem_free. The scales of a quantisation run over axis
 * `channels` of `dims`. Returns NULL on an error or if there are none. */
float *network_numbers(network *n, const network_layer *l, wire_view message, uint32_t number, const char *name,
                       int rank, const int64_t *dims, int channels);

/* Returns the activation's name in recurrent operations, or NULL on an error. */
const char *network_activation_name(network *n, const network_layer *l, wire_view activation);

/* Builds all layers of a network, in order. */
void network_layers(network *n, wire_view body);
/* Returns the value called `name`, or NULL if there is none. */
mil_value *network_find(const network *n, const char *name);
bool network_define(network *n, const char *name, mil_value *v);
/* Removes all definitions made after `mark`, an earlier value of n->newest. */
void network_undefine(network *n, const network_name *mark);
/* Returns the text of a part as a string in the arena, or NULL if memory runs out. */
const char *network_text(network *n, wire_view part);

/* Declare the functions of network_rows.c, grouped by file. */
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
NETWORK_RUN(leave);
NETWORK_RUN(refused);

#endif
