/* SPDX-License-Identifier: MIT
 * An imported program made ready for training: which of its constants are learnt, which value the loss is taken of, and
 * the two functions that training runs: forward (outputs of several samples) and train (loss and gradients).
 */
#ifndef TRAIN_IMPORT_IMPORTED_MODEL_H
#define TRAIN_IMPORT_IMPORTED_MODEL_H

#include "core/mil/coreml/package.h"

typedef enum imported_loss { IMPORTED_MSE, IMPORTED_CROSS_ENTROPY } imported_loss;

#define IMPORTED_TARGET "propane.target" /* parameter of the train function: of the output's shape */
#define IMPORTED_LOSS   "propane.loss"   /* its first result: the sum of the loss over all samples */
#define IMPORTED_SEED   "d_propane.loss" /* parameter: what the gradients are multiplied by */

typedef struct imported_model_options {
    const char *path;
    const char *function;           /* NULL: the default */
    const char *output;             /* NULL: the only one */
    const char *trainable, *freeze; /* lists of patterns of names; freeze "": nothing */
    mil_read_options shapes;
    imported_loss loss;
    const char *class_axis; /* a number, negative from the last; NULL or "": what the program and the labels say */
} imported_model_options;

typedef struct imported_weight {
    const char *name;
    mil_type type;          /* fp32 */
    const mil_const *begin; /* what the file holds, as fp32 */
} imported_weight;

typedef struct imported_model {
    mil_module *module;
    mil_function *base;        /* in fp32, with one result: what the loss is taken of */
    const mil_interface *seen; /* what the file says of the function's inputs; NULL: nothing */
    const mil_const *labels;   /* of a classifier; NULL: none */
    imported_weight *weights;
    const char **names; /* of the weights */
    int weight_count;
    int64_t parameters; /* elements of the weights */
    int candidates;     /* constants that could be learnt */
    int masks;          /* matched, but hold numbers that no weight holds */
    int decompressed;
    imported_loss loss;
    int class_axis;      /* of the output, where the loss is cross-entropy; -1: the labels must say */
    int64_t classes;     /* likewise; else 0 */
    bool softmax;        /* the program ends in a softmax, whose input the loss is taken of */
    int ops, learnt_ops; /* of the program; of those, which depend on a weight and are differentiated */
    int gradient_ops;    /* of the newest train function */
} imported_model;

/* Reads the program, makes it fp32 and finds all of the above. PROPANE_ERR_INVALID where nothing matches, with the
 * names that are nearest. */
PROPANE_CHECK propane_status imported_model_open(const imported_model_options *options, imported_model *out,
                                                 propane_error *err);
void imported_model_close(imported_model *m);
/* Where the program alone did not say which axis the classes lie along: the one without which the output has the shape
 * of a sample's labels. PROPANE_ERR_INVALID where none is, or several are. `source` has the array; labels: with the
 * samples in front. */
PROPANE_CHECK propane_status imported_model_choose_axis(imported_model *m, const char *source, int rank,
                                                        const int64_t *labels, propane_error *err);
/* A sample's shape against the program's: ones in front do not count. */
bool imported_same_shape(int rank, const int64_t *dim, int other_rank, const int64_t *other);
/* For `batch` samples at a time; PROPANE_ERR_UNSUPPORTED names the operation that is for one sample alone. Parameters: the
 * inputs, then the weights by name. */
PROPANE_CHECK propane_status imported_model_forward(imported_model *m, int64_t batch, const char *name,
                                                    mil_function **out, propane_error *err);
/* Likewise, then IMPORTED_TARGET and IMPORTED_SEED; results: IMPORTED_LOSS, d_WEIGHT for each weight. */
PROPANE_CHECK propane_status imported_model_train(imported_model *m, int64_t batch, const char *name,
                                                  mil_function **out, propane_error *err);
/* Writes the file's program with these weights in it (fp32, in the order of m->weights) as a package. */
PROPANE_CHECK propane_status imported_model_write(const imported_model *m, const imported_model_options *options,
                                                  const float *const *weights, const char *path, propane_error *err);

#endif
