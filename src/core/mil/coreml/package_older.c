/* SPDX-License-Identifier: MIT
 * Owns the table of the model kinds before ML Programs, with the function that reads each kind. There is one row per
 * kind, by the number of the kind's field in the model. A kind that is not read has a row with advice on what to do
 * instead.
 */
#include "core/mil/coreml/package_older.h"

#include "core/mil/neural_network/network_read.h"
#include "core/mil/neural_network/tabular_read.h"
#include "core/mil/neural_network/wire_view.h"

typedef propane_status (*older_read)(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                     const mil_read_options *options, propane_error *err);

#define VECTORS                                                                                                        \
    "no tool converts it to an ML Program: predict with the library that trained it, or train a linear model or a "    \
    "small neural network in its place"
#define APPLE                                                                                                          \
    "its first half is part of Apple's systems and not in the file: train your own network (in PyTorch, for "          \
    "example) and convert it with coremltools, ct.convert(..., convert_to=\"mlprogram\")"
#define CODE                                                                                                           \
    "its code belongs to an app: convert the original network with coremltools, ct.convert(..., "                      \
    "convert_to=\"mlprogram\")"

static const struct {
    unsigned field;
    const char *name;
    older_read read;    /* NULL if the kind is refused */
    const char *advice; /* what to do instead, if the kind is refused */
} older[] = {
    {300, "a linear regressor", tabular_read_glm_regressor, NULL},
    {301, "a support vector regressor", NULL, VECTORS},
    {302, "a tree ensemble", tabular_read_tree_regressor, NULL},
    {303, "a neural network of the older format", network_read, NULL},
    {304, "a Bayesian probit regressor", NULL, VECTORS},
    {400, "a linear classifier", tabular_read_glm_classifier, NULL},
    {401, "a support vector classifier", NULL, VECTORS},
    {402, "a tree ensemble", tabular_read_tree_classifier, NULL},
    {403, "a neural network of the older format", network_read, NULL},
    {404, "a nearest-neighbour classifier", NULL, VECTORS},
    {500, "a neural network of the older format", network_read, NULL},
    {501, "a recommender", NULL, VECTORS},
    {555, "a custom model", NULL, CODE},
    {556, "a link to another model", NULL, "give the model that it links to"},
    {560, "a table of class thresholds", NULL, "apply the thresholds to the probabilities in the app"},
    {600, "a one-hot encoder", tabular_read_one_hot, NULL},
    {601, "an imputer", tabular_read_imputer, NULL},
    {602, "a feature vectorizer", tabular_read_vectorizer, NULL},
    {603, "a vectorizer of dictionaries", tabular_read_dictionary, NULL},
    {604, "a scaler", tabular_read_scaler, NULL},
    {606, "a mapping of categories", tabular_read_mapping, NULL},
    {607, "a normalizer", tabular_read_normalizer, NULL},
    {609, "an extractor of array elements", tabular_read_extractor, NULL},
    {900, "an identity model", tabular_read_identity, NULL},
    {2000, "a text classifier of Create ML", NULL, APPLE},
    {2001, "a word tagger of Create ML", NULL, APPLE},
    {2002, "Apple's vision feature print", NULL, APPLE},
    {2003, "Apple's preprocessing of sounds", NULL, APPLE},
    {2004, "a gazetteer of Create ML", NULL, APPLE},
    {2005, "a word embedding of Create ML", NULL, APPLE},
    {2006, "Apple's audio feature print", NULL, APPLE},
    {3000, "a serialized model", NULL, APPLE},
};
enum { OLDER = sizeof older / sizeof older[0], FIRST_KIND = 200 };

/* Returns the field with the content of a model of an older kind, or NULL if there is none. */
static const ProtobufCMessageUnknownField *package_older_field(const Coreml__Model *model) {
    for (unsigned i = 0; i < model->base.n_unknown_fields; i++)
        if (model->base.unknown_fields[i].tag >= FIRST_KIND &&
            model->base.unknown_fields[i].wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            return &model->base.unknown_fields[i];
    return NULL;
}

static int package_older_row(const Coreml__Model *model) {
    const ProtobufCMessageUnknownField *field = package_older_field(model);
    for (int i = 0; field && i < OLDER; i++)
        if (older[i].field == field->tag) return i;
    return -1;
}

const char *package_older_name(const Coreml__Model *model) {
    const int row = package_older_row(model);
    if (model->suppression) return "a non-maximum suppression";
    return row >= 0 ? older[row].name : package_older_field(model) ? "a model of an unknown kind" : "empty";
}

bool package_older_known(const Coreml__Model *model) {
    const int row = package_older_row(model);
    return row >= 0 && older[row].read;
}

propane_status package_older_refuse(const Coreml__Model *model, const char *what, propane_error *err) {
    const int row = package_older_row(model);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s is %s, which Propane does not support; %s", what,
                        package_older_name(model),
                        row >= 0             ? older[row].advice
                        : model->suppression ? "it follows a detector: give the pipeline that contains both"
                                             : "convert the original model with coremltools, ct.convert(..., "
                                               "convert_to=\"mlprogram\")");
}

/* Returns the content of the field, without the length at the beginning of the stored bytes. */
static wire_view package_older_content(const ProtobufCMessageUnknownField *field, bool *broken) {
    wire_view whole = {field->data, field->len, broken};
    for (size_t i = 0; i < field->len && i < 10; i++) {
        whole.data++;
        whole.bytes--;
        if (!(field->data[i] & 0x80)) break;
    }
    return whole;
}

propane_status package_older_read(mil_module *m, const Coreml__Model *model, mil_opset opset,
                                  const mil_read_options *options, propane_error *err) {
    bool broken = false;
    const wire_view content = package_older_content(package_older_field(model), &broken);
    return older[package_older_row(model)].read(m, content.data, content.bytes, opset, options, err);
}
