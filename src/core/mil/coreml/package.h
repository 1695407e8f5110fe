/* SPDX-License-Identifier: MIT
 * Core ML's files: packages (.mlpackage), model files (.mlmodel) and compiled models (.mlmodelc), read into a module
 * and written from one. Weights stay in their file, mapped. mil_read takes every form that a program comes in.
 */
#ifndef CORE_MIL_COREML_PACKAGE_H
#define CORE_MIL_COREML_PACKAGE_H

#include "core/mil/mil.h"

typedef enum mil_feature_kind {
    MIL_FEATURE_NONE,
    MIL_FEATURE_INT64,
    MIL_FEATURE_DOUBLE,
    MIL_FEATURE_STRING,
    MIL_FEATURE_IMAGE,
    MIL_FEATURE_ARRAY,
    MIL_FEATURE_DICT_INT64,
    MIL_FEATURE_DICT_STRING,
    MIL_FEATURE_SEQUENCE,
    MIL_FEATURE_STATE
} mil_feature_kind;

/* The file's numbers. */
typedef enum mil_colour { MIL_GRAY = 10, MIL_RGB = 20, MIL_BGR = 30, MIL_GRAY_FP16 = 40 } mil_colour;

typedef struct mil_shape_range {
    int64_t lower, upper; /* upper negative: no limit */
} mil_shape_range;

/* What an app sees of one input, output or state. Arrays and states: dtype and shape. Images: colour, and shape is
 * [height, width]. */
typedef struct mil_feature {
    const char *name, *text;
    mil_feature_kind kind;
    bool optional;
    mil_dtype dtype;
    int colour;
    mil_type shape;  /* the default; rank 0 where none is given */
    int shape_count; /* enumerated shapes */
    mil_type *shapes;
    int range_count; /* ranges, one per dimension */
    mil_shape_range *ranges;
    bool has_standard; /* an optional input: what it is when it is not given */
    double standard;
    const char *rows; /* the output that counts the rows of this one, the others being zeros; NULL: all count */
} mil_feature;

typedef struct mil_interface {
    const char *function;
    int input_count, output_count, state_count;
    mil_feature *inputs, *outputs, *states;
    const char *predicted, *probabilities; /* of classifiers */
} mil_interface;

struct mil_package {
    int spec_version;
    const char *older; /* what it was in its file, if it was no program: "a linear regressor of version 1"; NULL: one */
    int interface_count;
    mil_interface *interfaces;
    const char *text, *version, *author, *license;
    int user_count;
    mil_pair *user;
};

/* The interface of a function, NULL: none is described. */
const mil_interface *mil_interface_of(const mil_module *m, const char *function);
/* NULL: none. *near (near may be NULL): where to look first; then the one after it, for a loop over values in order. */
const mil_feature *mil_feature_find(const mil_feature *features, int count, const char *name, int *near);

/* The shape to take for an input that leaves some of its dimensions open. Of several choices of one name the last
 * counts. */
typedef struct mil_shape_choice {
    const char *name;
    mil_type shape; /* rank and dim alone */
    /* It is that of an array (or height and width of an image), which may have one more dimension in front. It counts
     * for an open input of its rank; what else does not fit is seen when the array is set. */
    bool of_array, of_picture;
} mil_shape_choice;

enum { MIL_OTHER_SIZES = 7 };
typedef struct mil_read_options mil_read_options;
struct mil_read_options {
    const mil_shape_choice *shapes;
    int shape_count;
    /* 0: open inputs have the file's default; 1 to MIL_OTHER_SIZES: other sizes that it allows. *open (may be NULL)
     * becomes true where there was such an input. */
    int other_size;
    bool *open;
    bool late; /* functions whose shapes follow from values are read too (mil_function.late); else they are refused */
};

/* Reads a program in any form: .mil text, a folder with model.mil (.mlmodelc), an .mlpackage, an .mlmodel. Open
 * dimensions get the chosen shape, or the default of the file. `options` may be NULL. */
PROPANE_CHECK propane_status mil_read(const char *path, const mil_read_options *options, mil_module **out,
                                      propane_error *err);
/* The content of an .mlmodel file; `weights` is the folder that @model_path stands for (NULL: none). */
PROPANE_CHECK propane_status mil_package_parse(const void *data, size_t bytes, const char *source, const char *weights,
                                               const mil_read_options *options, mil_module **out, propane_error *err);
/* Whether the bytes begin like a model file and not like text. */
bool mil_package_looks_like(const void *data, size_t bytes);
/* Whether `path` has one of Core ML's own forms: a package, a model file, a compiled model, which is a folder with
 * model.mil and what Core ML keeps beside it (a folder of plans has model.mil alone). */
bool mil_path_is_coreml(const char *path);
/* Whether `path` is a folder with a program: a package or a compiled model. */
bool mil_is_program_folder(const char *path);

/* Writes an .mlpackage: model.mlmodel, weights/weight.bin, Manifest.json; all of it or nothing. Of a module without a
 * package description one is made from its functions. A package of that name is replaced; any other file or folder with
 * content is refused (PROPANE_ERR_INVALID). */
PROPANE_CHECK propane_status mil_package_write(mil_module *m, const char *path, propane_error *err);
/* The model file alone (mem_free), with the constants where they are. */
PROPANE_CHECK propane_status mil_package_pack(mil_module *m, uint8_t **out, size_t *bytes, propane_error *err);

#endif
