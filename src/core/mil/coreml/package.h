/* SPDX-License-Identifier: MIT
 * Declares reading and writing of Core ML's files. Packages (.mlpackage) and model files (.mlmodel) are read and
 * written; compiled models (.mlmodelc) are only read. Weights stay in their file, mapped. mil_read reads a program in
 * any form.
 */
#ifndef CORE_MIL_COREML_PACKAGE_H
#define CORE_MIL_COREML_PACKAGE_H

#include "core/base/map.h"
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

/* The values are those of the file format. */
typedef enum mil_colour { MIL_GRAY = 10, MIL_RGB = 20, MIL_BGR = 30, MIL_GRAY_FP16 = 40 } mil_colour;

/* The keys of an input that an app gives as text or as a dictionary. The program reads an array of fp32 [count] whose
 * element i belongs to key i. A text becomes 1 at its key and 0 elsewhere; a dictionary becomes the numbers of its
 * keys, and 0 for keys that it lacks. Keys that are integers are written in decimal. */
typedef struct mil_keys {
    bool text;   /* one key, given as text, instead of a dictionary */
    bool strict; /* a key that is not in the list is an error; otherwise such a key is ignored */
    int64_t count;
    const char **list;
} mil_keys;

typedef struct mil_shape_range {
    int64_t lower, upper; /* a negative upper bound means no limit */
} mil_shape_range;

/* One input, output or state as an app sees it. Arrays and states have dtype and shape. Images have a colour, and their
 * shape is [height, width]. */
typedef struct mil_feature {
    const char *name, *text;
    mil_feature_kind kind;
    bool optional;
    mil_dtype dtype;
    int colour;
    mil_type shape;  /* the default; rank 0 if there is none */
    int shape_count; /* number of enumerated shapes */
    mil_type *shapes;
    int range_count; /* number of ranges, one per dimension */
    mil_shape_range *ranges;
    bool has_standard; /* `standard` is the value of an optional input that is not given */
    double standard;
    /* Name of the output that counts this output's valid rows (the others are zeros); NULL if all rows are valid. */
    const char *rows;
    const mil_keys *keys; /* of an input of text or a dictionary; NULL for any other feature */
    const char *passed;   /* of an output that is an input in the file: that input's name; NULL for any other feature */
    /* The name in a file of an older kind if MIL does not allow that name; NULL if `name` is the name in the file. */
    const char *called;
} mil_feature;
/* Returns whether a range in the file allows several sizes of an axis. */
static inline bool mil_feature_is_flexible(const mil_feature *f, int axis) {
    return axis < f->range_count && f->ranges[axis].lower != f->ranges[axis].upper;
}

typedef struct mil_interface {
    const char *function;
    int input_count, output_count, state_count;
    mil_feature *inputs, *outputs, *states;
    const char *predicted, *probabilities; /* only for classifiers */
    piece_map by_name[PROPANE_STATE + 1];  /* per role: index of each name in its list; empty if not made */
} mil_interface;

struct mil_package {
    int spec_version;
    /* The kind of model in the file, such as "a linear regressor, version 1", or NULL for a program. */
    const char *older;
    int interface_count;
    mil_interface *interfaces;
    const char *text, *version, *author, *license;
    int user_count;
    mil_pair *user;
};

/* Returns the interface of a function, or NULL if none is described. */
const mil_interface *mil_interface_of(const mil_module *m, const char *function);
/* Returns the feature called `name`, or NULL if there is none or `seen` is NULL. */
mil_feature *mil_feature_find(const mil_interface *seen, propane_role role, const char *name);
/* Returns the program's name of the feature that an older file calls `called`, or NULL if no feature has such a
 * name. */
const char *mil_feature_inside(const mil_interface *seen, propane_role role, const char *called);
/* Builds the index that mil_feature_find uses instead of comparing all names. Call it again when a list has changed.
 * Returns false if memory runs out. */
bool mil_interface_index(mil_interface *seen);
/* Renames output `from`, which is an input in the file, to `to`, and records `from` in `passed`. Returns false if
 * memory runs out. */
bool mil_interface_rename_output(mil_interface *seen, const char *from, const char *to);
/* Keeps only the first of several outputs with the same name, and builds the index. Returns false if memory runs
 * out. */
bool mil_interface_unite_outputs(mil_interface *seen);
/* Frees what the arena does not own. `p` may be NULL. */
void mil_package_deinit(struct mil_package *p);

/* The shape chosen for an input with open dimensions. If an input has several choices, the last one counts. */
typedef struct mil_shape_choice {
    const char *name;
    mil_type shape; /* only rank and dim */
    /* The shape comes from an array, which may have one more dimension in front, or from the height and width of an
     * image. It applies only to an open input whose rank fits; any other mismatch is detected when the array is set. */
    bool of_array, of_picture;
} mil_shape_choice;

enum { MIL_OTHER_SIZES = 7 };
typedef struct mil_read_options mil_read_options;
struct mil_read_options {
    const mil_shape_choice *shapes;
    int shape_count;
    /* 0 gives open inputs the file's default; 1 to MIL_OTHER_SIZES give them other sizes that the file allows. `open`
     * may be NULL; *open becomes true if an input got such a size. */
    int other_size;
    bool *open;
    bool late; /* read functions whose shapes follow from values (mil_function.late) instead of refusing them */
};

/* Reads a program in any form: .mil text, a folder with model.mil (.mlmodelc), an .mlpackage, an .mlmodel. Open
 * dimensions get the chosen shape or the file's default. `options` may be NULL. */
PROPANE_CHECK propane_status mil_read(const char *path, const mil_read_options *options, mil_module **out,
                                      propane_error *err);
/* Reads the content of an .mlmodel file; `weights` is the folder to which @model_path refers, or NULL. */
PROPANE_CHECK propane_status mil_package_parse(const void *data, size_t bytes, const char *source, const char *weights,
                                               const mil_read_options *options, mil_module **out, propane_error *err);
/* Returns whether `path` is in one of Core ML's forms: a model file (.mlmodel), a folder without model.mil (a package),
 * or a compiled model. A folder with model.mil is a compiled model if it has coremldata.bin or is named .mlmodelc; a
 * folder of plans has neither. */
bool mil_path_is_coreml(const char *path);
/* Returns whether `path` is a folder with a program: a package or a compiled model. */
bool mil_is_program_folder(const char *path);

/* Writes an .mlpackage (model.mlmodel, weights/weight.bin and Manifest.json), either completely or not at all. If the
 * module has no package description, one is made from its functions. Replaces a folder of that name that holds a
 * program, but refuses any other file or nonempty folder (PROPANE_ERR_INVALID). */
PROPANE_CHECK propane_status mil_package_write(mil_module *m, const char *path, propane_error *err);
/* Packs only the model file into *out, which the caller frees with mem_free. Weights stay where they are. */
PROPANE_CHECK propane_status mil_package_pack(mil_module *m, uint8_t **out, size_t *bytes, propane_error *err);

#endif
