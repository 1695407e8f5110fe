/* SPDX-License-Identifier: MIT
 * An imported program made ready for training: which of its constants are learnt, which value the loss is taken of, and the
 * two functions that training runs: forward (outputs of several samples) and train (loss and gradients).
 */
#ifndef TRAIN_IMPORT_IMPORTED_MODEL_H
#define TRAIN_IMPORT_IMPORTED_MODEL_H

#include "mil/coreml/package.h"

typedef enum tune_loss { TUNE_MSE, TUNE_CROSS_ENTROPY } tune_loss;

#define TUNE_TARGET "propane.target" /* parameter of the train function: of the output's shape */
#define TUNE_LOSS   "propane.loss"   /* its first result: the sum of the loss over all samples */
#define TUNE_SEED   "d_propane.loss" /* parameter: what the gradients are multiplied by */

typedef struct tune_model_options {
    const char *path;
    const char *function;           /* NULL: the default */
    const char *output;             /* NULL: the only one */
    const char *trainable, *freeze; /* lists of patterns of names; freeze "": nothing */
    mil_read_options shapes;
    tune_loss loss;
} tune_model_options;

typedef struct tune_weight {
    const char *name;
    mil_type type;          /* fp32 */
    const mil_const *begin; /* what the file holds, as fp32 */
} tune_weight;

typedef struct tune_model {
    mil_module *module;
    mil_function *base;        /* in fp32, with one result: what the loss is taken of */
    const mil_interface *seen; /* what the file says of the function's inputs; NULL: nothing */
    const mil_const *labels;   /* of a classifier; NULL: none */
    tune_weight *weights;
    const char **names; /* of the weights */
    int weight_count;
    int64_t parameters; /* elements of the weights */
    int candidates;     /* constants that could be learnt */
    int masks;          /* matched, but hold numbers that no weight holds */
    int decompressed;
    tune_loss loss;
    int class_axis;      /* of the output, where the loss is cross-entropy */
    int64_t classes;     /* likewise; else 0 */
    bool softmax;        /* the program ends in a softmax, whose input the loss is taken of */
    int ops, learnt_ops; /* of the program; of those, which depend on a weight and are differentiated */
    int gradient_ops;    /* of the newest train function */
} tune_model;

/* Reads the program, makes it fp32 and finds all of the above. PROPANE_ERR_INVALID where nothing matches, with the names
 * that are nearest. */
PROPANE_CHECK propane_status tune_model_open(const tune_model_options *options, tune_model *out, propane_error *err);
void tune_model_close(tune_model *m);
/* For `batch` samples at a time; PROPANE_ERR_UNSUPPORTED tells which operation is for one sample alone. Parameters: the
 * inputs, then the weights by name. */
PROPANE_CHECK propane_status tune_model_forward(tune_model *m, int64_t batch, const char *name, mil_function **out,
                                                propane_error *err);
/* Likewise, then TUNE_TARGET and TUNE_SEED; results: TUNE_LOSS, d_WEIGHT for each weight. */
PROPANE_CHECK propane_status tune_model_train(tune_model *m, int64_t batch, const char *name, mil_function **out,
                                              propane_error *err);
/* Writes the file's program with these weights in it (fp32, in the order of m->weights) as a package. */
PROPANE_CHECK propane_status tune_model_write(const tune_model *m, const tune_model_options *options,
                                              const float *const *weights, const char *path, propane_error *err);

#endif
