/* SPDX-License-Identifier: MIT
 * An imported program prepared for training: which of its constants are trained, which value the loss is computed from,
 * and the two functions that training runs: forward (outputs of several samples) and train (loss and gradients).
 */
#ifndef TRAIN_IMPORT_IMPORTED_MODEL_H
#define TRAIN_IMPORT_IMPORTED_MODEL_H

#include "core/mil/coreml/package.h"

typedef enum imported_loss { IMPORTED_MSE, IMPORTED_CROSS_ENTROPY } imported_loss;

#define IMPORTED_TARGET "propane.target" /* parameter of the train function with the output's shape */
#define IMPORTED_LOSS   "propane.loss"   /* its first result: the loss summed over all samples */
#define IMPORTED_SEED   "d_propane.loss" /* parameter: the factor of the gradients */

typedef struct imported_model_options {
    const char *path;
    const char *function;           /* NULL for the default */
    const char *output;             /* NULL if there is only one */
    const char *trainable, *freeze; /* lists of name patterns; freeze "" means nothing */
    mil_read_options shapes;
    imported_loss loss;
    /* a number, negative to count from the last; NULL or "" to use the program and the labels */
    const char *class_axis;
} imported_model_options;

typedef struct imported_weight {
    const char *name;
    mil_type type;          /* fp32 */
    const mil_const *begin; /* the file's values, as fp32 */
} imported_weight;

typedef struct imported_model {
    mil_module *module;
    mil_function *base;        /* in fp32, with one result: the value that the loss is computed from */
    const mil_interface *seen; /* the file's description of the function's inputs, or NULL */
    const mil_const *labels;   /* labels of a classifier, or NULL */
    imported_weight *weights;
    const char **names; /* names of the weights */
    int weight_count;
    int64_t parameters; /* elements of all weights */
    int candidates;     /* constants that could be trained */
    int masks;          /* constants that matched, but hold numbers that no weight would */
    int decompressed;
    imported_loss loss;
    int class_axis;       /* the output's class axis for cross-entropy; -1 if the labels must determine it */
    int64_t classes;      /* for cross-entropy, otherwise 0 */
    bool softmax;         /* the program ends in a softmax, and the loss uses its input */
    int ops, trained_ops; /* operations of the program, and those that depend on a weight and are differentiated */
    int gradient_ops;     /* in the newest train function */
} imported_model;

/* Reads the program, converts it to fp32 and fills in all of the above. Returns PROPANE_ERR_INVALID with the nearest
 * names if nothing matches. */
PROPANE_CHECK propane_status imported_model_open(const imported_model_options *options, imported_model *out,
                                                 propane_error *err);
void imported_model_close(imported_model *m);
/* Finds the class axis if the program did not determine it: removing it must give the shape of a sample's labels.
 * Returns PROPANE_ERR_INVALID if no axis or several fit. `source` names the array; the labels' shape starts with the
 * samples. */
PROPANE_CHECK propane_status imported_model_choose_axis(imported_model *m, const char *source, int rank,
                                                        const int64_t *labels, propane_error *err);
/* Compares a sample's shape with the program's, ignoring leading ones. */
bool imported_same_shape(int rank, const int64_t *dim, int other_rank, const int64_t *other);
/* Builds the function for `batch` samples at a time. PROPANE_ERR_UNSUPPORTED names an operation that supports only one
 * sample. Parameters: the inputs, then the weights by name. */
PROPANE_CHECK propane_status imported_model_forward(imported_model *m, int64_t batch, const char *name,
                                                    mil_function **out, propane_error *err);
/* Builds the train function. It has the same parameters, then IMPORTED_TARGET and IMPORTED_SEED; its results are
 * IMPORTED_LOSS and one d_WEIGHT per weight. */
PROPANE_CHECK propane_status imported_model_train(imported_model *m, int64_t batch, const char *name,
                                                  mil_function **out, propane_error *err);
/* Writes the file's program with these weights (fp32, in the order of m->weights) as a package. */
PROPANE_CHECK propane_status imported_model_write(const imported_model *m, const imported_model_options *options,
                                                  const float *const *weights, const char *path, propane_error *err);

#endif
