/* SPDX-License-Identifier: MIT
 * An imported program that is prepared for training: the constants that are trained, the value from which the loss is
 * computed, and the two functions that training runs. These are forward (outputs of several samples) and train (loss
 * and gradients).
 */
#ifndef TRAIN_IMPORT_IMPORTED_MODEL_H
#define TRAIN_IMPORT_IMPORTED_MODEL_H

#include "core/mil/coreml/package.h"

typedef enum imported_loss { IMPORTED_MSE, IMPORTED_CROSS_ENTROPY } imported_loss;

#define IMPORTED_TARGET "propane.target" /* parameter of the train function with the output's shape */
#define IMPORTED_LOSS   "propane.loss"   /* first result of the train function: the loss summed over all samples */
#define IMPORTED_SEED   "d_propane.loss" /* parameter of the train function: the factor of the gradients */

typedef struct imported_model_options {
    const char *path;
    const char *function;           /* NULL for the default */
    const char *output;             /* name of the output for the loss; may be NULL if there is only one output */
    const char *trainable, *freeze; /* lists of name patterns; freeze "" means nothing */
    mil_read_options shapes;
    imported_loss loss;
    /* number of the class axis, negative to count from the last axis; NULL or "" if the program and the labels
     * determine the axis */
    const char *class_axis;
} imported_model_options;

typedef struct imported_weight {
    const char *name;
    mil_type type;          /* fp32 */
    const mil_const *begin; /* the file's values as fp32 */
} imported_weight;

typedef struct imported_model {
    mil_module *module;
    mil_function *base;        /* in fp32, with one result: the value from which the loss is computed */
    const mil_interface *seen; /* the file's description of the function's inputs, or NULL */
    const mil_const *labels;   /* labels of a classifier, or NULL */
    imported_weight *weights;
    const char **names; /* names of the weights */
    int weight_count;
    int64_t parameters; /* elements of all weights */
    int candidates;     /* constants that could be trained */
    int masks;          /* constants whose names match but which hold numbers that weights do not have */
    int decompressed;
    imported_loss loss;
    int class_axis;  /* the output's class axis for cross-entropy; -1 if the labels must determine it */
    int64_t classes; /* for cross-entropy, otherwise 0 */
    bool softmax;    /* the program ends in a softmax, and the loss uses its input */
    /* number of operations of the program, and number of those that depend on a weight and are differentiated */
    int ops, trained_ops;
    int gradient_ops; /* operations for gradients in the latest train function */
} imported_model;

/* Reads the program, converts it to fp32 and fills in *out. Returns PROPANE_ERR_INVALID with the closest names if no
 * weight matches. */
PROPANE_CHECK propane_status imported_model_open(const imported_model_options *options, imported_model *out,
                                                 propane_error *err);
void imported_model_close(imported_model *m);
/* Finds the class axis if the program does not determine it. Without the class axis, the output must have the shape of
 * a sample's labels. Returns PROPANE_ERR_INVALID if no axis or several axes fit. `source` names the data in messages;
 * the first dimension of `labels` is the number of samples. */
PROPANE_CHECK propane_status imported_model_choose_axis(imported_model *m, const char *source, int rank,
                                                        const int64_t *labels, propane_error *err);
/* Returns whether two shapes are equal, apart from leading dimensions of 1. */
bool imported_same_shape(int rank, const int64_t *dim, int other_rank, const int64_t *other);
/* Builds the forward function for `batch` samples at a time. Its parameters are the inputs, then the weights by name.
 * Returns PROPANE_ERR_UNSUPPORTED, with the reason, if the program supports only one sample at a time. */
PROPANE_CHECK propane_status imported_model_forward(imported_model *m, int64_t batch, const char *name,
                                                    mil_function **out, propane_error *err);
/* Builds the train function. Its parameters are those of the forward function, then IMPORTED_TARGET and IMPORTED_SEED.
 * Its results are IMPORTED_LOSS and one d_WEIGHT per weight. */
PROPANE_CHECK propane_status imported_model_train(imported_model *m, int64_t batch, const char *name,
                                                  mil_function **out, propane_error *err);
/* Writes the file's program with these weights (fp32, in the order of m->weights) as a package. */
PROPANE_CHECK propane_status imported_model_write(const imported_model *m, const imported_model_options *options,
                                                  const float *const *weights, const char *path, propane_error *err);

#endif
