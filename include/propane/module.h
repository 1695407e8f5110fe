/* SPDX-License-Identifier: MIT
 * Owns modules, which are MIL programs: read, written, looked at, built. A module knows nothing of devices. What
 * holds for every call is at the top of propane.h.
 */
#ifndef PROPANE_MODULE_H
#define PROPANE_MODULE_H

#include "propane/status.h"

PROPANE_BEGIN

/* ---- modules: MIL programs --------------------------------------------------------------------------------------- */

typedef struct propane_module propane_module;

typedef enum propane_dtype {
    PROPANE_FP16,
    PROPANE_FP32,
    PROPANE_INT32,
    PROPANE_BOOL,
    PROPANE_INT8,
    PROPANE_UINT8,
    PROPANE_INT16,
    PROPANE_UINT16,
    PROPANE_BF16,           /* of inputs; engines are not known to take it */
    PROPANE_DTYPE_NONE = -1 /* a type that no buffer holds: a string, int64, ... */
} propane_dtype;

#define PROPANE_MAX_RANK 8

/* The shape to take for an input that a file leaves open. */
typedef struct propane_shape {
    const char *name;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
} propane_shape;

/* Parses MIL text. `name` is the text's name in messages ("file:line:column: ...", NULL: "text"); BLOBFILE paths that start with
 * @model_path are looked up in `model_dir` (NULL: such a path is an error). The module is verified. */
PROPANE_CHECK propane_status propane_module_parse(const char *text, size_t length, const char *name,
                                                  const char *model_dir, propane_module **out, propane_error *err);
/* Reads a .mil file (its own folder is the model_dir), a Core ML package (.mlpackage), a compiled model (.mlmodelc) or
 * a model file (.mlmodel). Dimensions that a file leaves open get its default shape. Those that follow from values of a
 * run stay open: such a module can be printed and run by a session, not compiled. */
PROPANE_CHECK propane_status propane_module_read(const char *path, propane_module **out, propane_error *err);
/* The same with chosen shapes for inputs that the file leaves open. A shape that the file does not allow, or a name
 * that it does not have, is PROPANE_ERR_INVALID. */
PROPANE_CHECK propane_status propane_module_read_shaped(const char *path, const propane_shape *shapes, int count,
                                                        propane_module **out, propane_error *err);
/* "NAME=1,3,224,224" as a shape; its name is yours to propane_free. */
PROPANE_CHECK propane_status propane_shape_parse(const char *given, propane_shape *out, propane_error *err);
/* A module of its own with the same functions and constants; what a package says around them stays behind. Constants
 * that are still in files are read. */
PROPANE_CHECK propane_status propane_module_copy(const propane_module *module, propane_module **out,
                                                 propane_error *err);
void propane_module_free(propane_module *module);

typedef enum propane_dialect {
    PROPANE_MIL_SHORT,    /* program(1.3), literals in arguments */
    PROPANE_MIL_CANONICAL /* program(1.0), as Core ML's own tools write it */
} propane_dialect;

/* The program as text, terminated; propane_free it. Constants that came from a weight file are printed as
 * references. */
PROPANE_CHECK propane_status propane_module_print(const propane_module *module, propane_dialect dialect, char **out,
                                                  size_t *length, propane_error *err);
/* The file name decides the format: NAME.mlpackage is a Core ML package with its weights; NAME.mil is text, with
 * weights/weight.bin beside it for large constants that do not come from a file beside it; anything else is a folder
 * with model.mil and weights/weight.bin. Written whole or not at all. One thread at a time for one module. */
PROPANE_CHECK propane_status propane_module_write(propane_module *module, const char *path, propane_dialect dialect,
                                                  propane_error *err);

/* Its functions in their order; NULL: the index is out of range. Everywhere else `function` NULL means the default
 * function: "main", or the only one. */
int propane_module_function_count(const propane_module *module);
const char *propane_module_function(const propane_module *module, int index);
const char *propane_module_default_function(const propane_module *module); /* NULL: none of several is it */

typedef enum propane_role { PROPANE_INPUT, PROPANE_OUTPUT, PROPANE_STATE } propane_role;
typedef enum propane_feature_kind {
    PROPANE_ARRAY,
    PROPANE_IMAGE,        /* an array that holds an image */
    PROPANE_LABEL,        /* a classifier's best class; a session computes it */
    PROPANE_PROBABILITIES /* of its classes by name; a session gives them as an array */
} propane_feature_kind;

/* One input, output or state of a function, as the program declares it. Strings belong to the module. */
typedef struct propane_feature {
    size_t size; /* sizeof(propane_feature), set by the caller */
    const char *name;
    propane_feature_kind kind;
    const char *description; /* NULL: none */
    const char *type;        /* of its elements: "fp16" */
    propane_dtype dtype;     /* PROPANE_DTYPE_NONE: no buffer holds `type` */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t least[PROPANE_MAX_RANK], most[PROPANE_MAX_RANK]; /* what the file allows; most < 0: any; both dim: fixed */
    int shape_count;                                         /* enumerated shapes: propane_module_shape; 0: none */
    bool optional;
    const char *colour; /* of an image: "gray", "gray_fp16", "rgb", "bgr"; NULL otherwise */
    bool has_standard;  /* an input that may be left out: it is `standard` then, in a session too */
    double standard;
    /* The output that counts how many leading rows of this one are results, the others being zeros; NULL: all are. */
    const char *rows;
} propane_feature;

/* Negative: there is no such function. */
int propane_module_feature_count(const propane_module *module, const char *function, propane_role role);
PROPANE_CHECK propane_status propane_module_feature(const propane_module *module, const char *function,
                                                    propane_role role, int index, propane_feature *out,
                                                    propane_error *err);
/* One of the enumerated shapes of an input. */
PROPANE_CHECK propane_status propane_module_shape(const propane_module *module, const char *function, const char *input,
                                                  int index, propane_shape *out, propane_error *err);
/* The number of a classifier's classes; 0: it is not a classifier. The label is written as snprintf does (NULL: not
 * at all); the length that it needs is returned. */
int64_t propane_module_label_count(const propane_module *module, const char *function);
size_t propane_module_label(const propane_module *module, const char *function, int64_t index, char *out, size_t room);
/* What the package says about the model: "author", "description", "version", "license", or a key of its own; NULL:
 * nothing. */
const char *propane_module_metadata(const propane_module *module, const char *key);

/* The results of a function's operations in the program's order: the first with `after` NULL, NULL after the last, and
 * where `after` is another module's. Those inside blocks are not included. The values belong to the module and are invalid after it is changed. */
typedef struct propane_value propane_value;
const propane_value *propane_module_next_value(const propane_module *module, const char *function,
                                               const propane_value *after);
const char *propane_value_name(const propane_value *value);
const char *propane_value_op(const propane_value *value); /* the operation that makes it; NULL: an input */
/* elements of a tensor; 0: another type, or its shape is open */
int64_t propane_value_count(const propane_value *value);

/* Reverse mode. The new module has one function, `name` (NULL: "gradient"): the parameters of `function` and d_RESULT for each of its
 * float results (the adjoint that comes in); its results, and d_PARAM for each of the inputs named in `wrt` (NULL:
 * every float input). An operation without a gradient is PROPANE_ERR_UNSUPPORTED and named. `module` stays as it is. */
PROPANE_CHECK propane_status propane_module_gradient(propane_module *module, const char *function, const char *name,
                                                     const char *const *wrt, int wrt_count, propane_module **out,
                                                     propane_error *err);
/* Every fp16 of the function becomes fp32, its inputs, outputs and constants included. Changes the module. */
PROPANE_CHECK propane_status propane_module_widen(propane_module *module, const char *function, propane_error *err);
/* Each state becomes an input NAME and, where it is written, an output NAME_out: what a device can compile. (A session
 * does that by itself.) Changes the module. */
PROPANE_CHECK propane_status propane_module_open_states(propane_module *module, const char *function,
                                                        propane_error *err);

/* The function ends with the operation that makes `value`, a name at the top of the function: what it makes are the
 * outputs, what comes later goes, and what nothing reads. Inputs and states stay. Changes the module. */
PROPANE_CHECK propane_status propane_module_until(propane_module *module, const char *function, const char *value,
                                                  propane_error *err);

/* The rows of the operation table; `index` from 0, NULL after the last one. Static. */
typedef struct propane_op_info {
    size_t size;              /* sizeof(propane_op_info), set by the caller */
    const char *name, *since; /* the first opset that has it: "ios15" */
    const char *gradient;     /* the rule's name; "none" */
    const char *cpu;          /* how the cpu driver runs it; "none", "reference", "fold" */
    bool evaluated;           /* the reference can compute it */
    bool stateful;            /* on states: passes take it away before a device sees it */
    int parameter_count;
} propane_op_info;
typedef struct propane_op_parameter {
    size_t size; /* sizeof(propane_op_parameter), set by the caller */
    const char *name, *class_name,
        *need;            /* "float", "const ints", ...; "required", "optional", "variadic", "captured" (by blocks) */
    const char *standard; /* the default as text; NULL: none */
} propane_op_parameter;
int propane_op_count(void);
bool propane_op_get(int index, propane_op_info *out);
bool propane_op_get_parameter(int index, int parameter, propane_op_parameter *out);

/* ---- building a module ------------------------------------------------------------------------------------------- */

/* One function, operation by operation. The first error, also a wrong argument, stays in the builder and all later
 * calls do nothing and give NULL, so that a program is written as straight code and checked once, at propane_builder_finish. One thread. */
typedef struct propane_builder propane_builder;

/* An argument of an operation: one value (a builder's values belong to it), or `count` of them for a list such as
 * concat's. */
typedef struct propane_argument {
    const char *name;
    propane_value *value;
    propane_value *const *values;
    int count; /* of values; 0: `value` alone, and that may be NULL: left out */
} propane_argument;

/* `function` NULL: "main". */
PROPANE_CHECK propane_status propane_builder_create(const char *function, propane_builder **out, propane_error *err);
void propane_builder_free(propane_builder *builder);
propane_value *propane_build_input(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                   const int64_t *dim);
/* Dense elements of that type, copied. `name` may be NULL. */
propane_value *propane_build_constant(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                      const int64_t *dim, const void *data);
propane_value *propane_build_int(propane_builder *b, int32_t value);
propane_value *propane_build_ints(propane_builder *b, const int64_t *values, int count);
propane_value *propane_build_bool(propane_builder *b, bool value);
propane_value *propane_build_text(propane_builder *b, const char *value);
propane_value *propane_build_real(propane_builder *b, propane_dtype dtype, double value);
/* `op` as in the operation table ("matmul"); `name` is the result's, or NULL. The first result; the others are
 * propane_build_result. Operations with blocks (cond, while_loop) are written as text. */
propane_value *propane_build_op(propane_builder *b, const char *op, const char *name, const propane_argument *arguments,
                                int count);
propane_value *propane_build_result(propane_builder *b, propane_value *first, int index);
/* Makes a value an output of the function. */
void propane_build_output(propane_builder *b, propane_value *value);
/* Verifies the module and reports the first error. Afterwards the builder is empty and can only be freed. */
PROPANE_CHECK propane_status propane_builder_finish(propane_builder *builder, propane_module **out, propane_error *err);

PROPANE_END

#endif
