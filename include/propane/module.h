/* SPDX-License-Identifier: MIT
 * Owns modules, which are MIL programs: reading, writing, inspecting and building them. A module is independent of
 * devices. The rules that hold for every call are at the top of propane.h.
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
    PROPANE_BF16,           /* of inputs; no engine is known to accept it */
    PROPANE_DTYPE_NONE = -1 /* a type that no buffer holds: a string, int64, ... */
} propane_dtype;

#define PROPANE_MAX_RANK 8

/* The chosen shape of an input whose shape a file leaves open. */
typedef struct propane_shape {
    const char *name;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
} propane_shape;

/* Parses MIL text and verifies the module. `name` is the text's name in messages ("file:line:column: ...", NULL
 * means "text"). BLOBFILE paths that start with @model_path are looked up in `model_dir`; if it is NULL, such a
 * path is an error. */
PROPANE_CHECK propane_status propane_module_parse(const char *text, size_t length, const char *name,
                                                  const char *model_dir, propane_module **out, propane_error *err);
/* Reads a .mil file (its folder is the model_dir), a Core ML package (.mlpackage), a compiled model (.mlmodelc) or
 * a model file (.mlmodel). Dimensions that the file leaves open get its default values. Dimensions that depend on
 * values of a run stay open. Such a module can be printed, and a session can run it, but propane_program_compile
 * refuses it. */
PROPANE_CHECK propane_status propane_module_read(const char *path, propane_module **out, propane_error *err);
/* Reads a file as propane_module_read does, with chosen shapes for inputs whose shapes the file leaves open. Returns
 * PROPANE_ERR_INVALID for a shape that the file does not allow, or for a name that no input has. */
PROPANE_CHECK propane_status propane_module_read_shaped(const char *path, const propane_shape *shapes, int count,
                                                        propane_module **out, propane_error *err);
/* Parses "NAME=1,3,224,224" as a shape. Free its name with propane_free. */
PROPANE_CHECK propane_status propane_shape_parse(const char *given, propane_shape *out, propane_error *err);
/* Copies the functions and constants into a new module, without the metadata of the package. Reads the constants that
 * are still in files. */
PROPANE_CHECK propane_status propane_module_copy(const propane_module *module, propane_module **out,
                                                 propane_error *err);
void propane_module_free(propane_module *module);

typedef enum propane_dialect {
    PROPANE_MIL_SHORT,    /* program(1.3), literals in arguments */
    PROPANE_MIL_CANONICAL /* program(1.0), as Core ML's tools write it */
} propane_dialect;

/* Prints the program as text, terminated; free it with propane_free. Constants that came from a weight file are
 * printed as references. */
PROPANE_CHECK propane_status propane_module_print(const propane_module *module, propane_dialect dialect, char **out,
                                                  size_t *length, propane_error *err);
/* Writes the module completely or not at all. The file name decides the format. NAME.mlpackage is a Core ML package
 * with its weights. NAME.mil is text; large constants are written to weights/NAME.bin next to the text (for model.mil,
 * to weights/weight.bin), unless they come from a file next to it. Any other name becomes a folder with model.mil and
 * weights/weight.bin. Only one thread at a time may write a module. */
PROPANE_CHECK propane_status propane_module_write(propane_module *module, const char *path, propane_dialect dialect,
                                                  propane_error *err);

/* Return the number of functions, and the name of function `index`, or NULL if the index is out of range. In all other
 * calls, a NULL `function` means the default function, which is "main" or the only one. */
int propane_module_function_count(const propane_module *module);
const char *propane_module_function(const propane_module *module, int index);
const char *propane_module_default_function(const propane_module *module); /* NULL if none of several is the default */

typedef enum propane_role { PROPANE_INPUT, PROPANE_OUTPUT, PROPANE_STATE } propane_role;
typedef enum propane_feature_kind {
    PROPANE_ARRAY,
    PROPANE_IMAGE,         /* an array that holds an image */
    PROPANE_LABEL,         /* a classifier's best class, computed by a session */
    PROPANE_PROBABILITIES, /* a classifier's probability of each class; a session returns them as an array */
    PROPANE_CATEGORY,      /* an input that is one of a list of texts, as an array with 1 at the place of the text */
    PROPANE_DICTIONARY     /* an input with numbers by key, as an array of the numbers in the order of the keys */
} propane_feature_kind;

/* One input, output or state of a function, as the program declares it. Strings belong to the module. */
typedef struct propane_feature {
    size_t size; /* sizeof(propane_feature), set by the caller */
    const char *name;
    propane_feature_kind kind;
    const char *description; /* NULL if there is none */
    const char *type;        /* type of the elements: "fp16" */
    propane_dtype dtype;     /* PROPANE_DTYPE_NONE if no buffer holds `type` */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    /* The smallest and largest allowed dimensions. A negative `most` means no limit. Both are equal to `dim` if the
     * dimension is fixed. */
    int64_t least[PROPANE_MAX_RANK], most[PROPANE_MAX_RANK];
    int shape_count; /* number of enumerated shapes (propane_module_shape), or 0 */
    bool optional;
    const char *colour; /* for an image: "gray", "gray_fp16", "rgb", "bgr"; NULL otherwise */
    bool has_standard;  /* the input may be left out, also in a session; all its elements are then `standard` */
    double standard;
    /* The name of the output that holds the number of leading rows of this output that are results; the other rows are
     * zeros. NULL if all rows are results. */
    const char *rows;
    /* The feature's name in a file of an older kind, if MIL does not allow that name; otherwise NULL. A session accepts
     * both names. */
    const char *called;
    int64_t key_count; /* number of keys (propane_module_key) of a category or dictionary; otherwise 0 */
} propane_feature;

/* Returns the number of inputs, outputs or states of a function; negative if there is no such function. */
int propane_module_feature_count(const propane_module *module, const char *function, propane_role role);
PROPANE_CHECK propane_status propane_module_feature(const propane_module *module, const char *function,
                                                    propane_role role, int index, propane_feature *out,
                                                    propane_error *err);
/* Returns one of the enumerated shapes of an input. */
PROPANE_CHECK propane_status propane_module_shape(const propane_module *module, const char *function, const char *input,
                                                  int index, propane_shape *out, propane_error *err);
/* Returns the number of a classifier's classes, or 0 if the model is not a classifier. propane_module_label writes
 * a label as snprintf does (NULL to omit it) and returns the length that it needs. */
int64_t propane_module_label_count(const propane_module *module, const char *function);
size_t propane_module_label(const propane_module *module, const char *function, int64_t index, char *out, size_t room);
/* Writes key `index` of a PROPANE_CATEGORY or PROPANE_DICTIONARY input as snprintf does (NULL to omit it) and returns
 * the length that it needs; 0 if there is no such key. */
size_t propane_module_key(const propane_module *module, const char *function, const char *input, int64_t index,
                          char *out, size_t room);
/* Returns an entry of the package's metadata, or NULL if there is no such entry. `key` is "author", "description",
 * "version", "license", or another key that the package defines. */
const char *propane_module_metadata(const propane_module *module, const char *key);

/* Iterates over the results of a function's operations in program order. Returns the result that follows `after`, or
 * the first one if `after` is NULL. Returns NULL after the last one, and if `after` belongs to another module. Results
 * inside blocks are not included. The values belong to the module and become invalid when the module is changed. */
typedef struct propane_value propane_value;
const propane_value *propane_module_next_value(const propane_module *module, const char *function,
                                               const propane_value *after);
const char *propane_value_name(const propane_value *value);
const char *propane_value_op(const propane_value *value); /* the operation that computes it; NULL for an input */
/* Returns the number of elements of a tensor; 0 for another type or an open shape. */
int64_t propane_value_count(const propane_value *value);

/* Differentiates a function in reverse mode. The new module has one function, `name` (NULL means "gradient"). The
 * parameters of this function are those of `function`, and d_RESULT (the incoming adjoint) for each float result.
 * Its outputs are the results of `function`, and d_PARAM for each input named in `wrt` (NULL means every float
 * input). Returns PROPANE_ERR_UNSUPPORTED for an operation without a gradient and names the operation. `module` is
 * not changed. */
PROPANE_CHECK propane_status propane_module_gradient(propane_module *module, const char *function, const char *name,
                                                     const char *const *wrt, int wrt_count, propane_module **out,
                                                     propane_error *err);
/* Changes every fp16 of the function to fp32, including its inputs, outputs and constants. Changes the module. */
PROPANE_CHECK propane_status propane_module_widen(propane_module *module, const char *function, propane_error *err);
/* Turns each state into an input NAME and, if the function writes the state, an output NAME_out, so that a device can
 * compile the function. A session does this automatically. Changes the module. */
PROPANE_CHECK propane_status propane_module_open_states(propane_module *module, const char *function,
                                                        propane_error *err);

/* Cuts the function after the operation that computes `value`, a name at the top level of the function. The results of
 * that operation become the outputs. Later operations are removed, and so are operations whose results are no longer
 * read. Inputs and states stay. Changes the module. */
PROPANE_CHECK propane_status propane_module_until(propane_module *module, const char *function, const char *value,
                                                  propane_error *err);

/* A row of the operation table. Its strings are static. */
typedef struct propane_op_info {
    size_t size;              /* sizeof(propane_op_info), set by the caller */
    const char *name, *since; /* `since` is the first opset that has it: "ios15" */
    /* The name of the rule; "none"; "zero"; or "expanded" if operations that have rules replace it. */
    const char *gradient;
    const char *cpu; /* how the cpu driver runs the operation: "none", "reference", "fold", ... */
    bool evaluated;  /* the reference evaluator can compute it */
    bool stateful;   /* works on states: passes remove it before a device sees it */
    int parameter_count;
} propane_op_info;
typedef struct propane_op_parameter {
    size_t size; /* sizeof(propane_op_parameter), set by the caller */
    const char *name, *class_name,
        *need;            /* "float", "const ints", ...; "required", "optional", "variadic", "captured" (by blocks) */
    const char *standard; /* the default as text; NULL if there is none */
} propane_op_parameter;
/* Both calls describe a row or a parameter by its index from 0, and return false after the last one. */
int propane_op_count(void);
bool propane_op_get(int index, propane_op_info *out);
bool propane_op_get_parameter(int index, int parameter, propane_op_parameter *out);

/* ---- building a module ------------------------------------------------------------------------------------------- */

/* Builds one function, operation by operation. The builder keeps the first error, including a wrong argument, and all
 * later calls do nothing and return NULL. A caller can therefore build a program without checks and test the status of
 * propane_builder_finish. For one thread at a time. */
typedef struct propane_builder propane_builder;

/* An argument of an operation. It is one value, or `count` values for a list such as concat's. The values belong to
 * their builder. */
typedef struct propane_argument {
    const char *name;
    propane_value *value;
    propane_value *const *values;
    int count; /* length of `values`; 0 means that `value` is the argument, or that it is left out if `value` is NULL */
} propane_argument;

/* Creates a builder for a function called `function` (NULL means "main"). */
PROPANE_CHECK propane_status propane_builder_create(const char *function, propane_builder **out, propane_error *err);
void propane_builder_free(propane_builder *builder);
propane_value *propane_build_input(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                   const int64_t *dim);
/* Adds a constant with dense elements of that type, which are copied. `name` may be NULL. */
propane_value *propane_build_constant(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                      const int64_t *dim, const void *data);
propane_value *propane_build_int(propane_builder *b, int32_t value);
propane_value *propane_build_ints(propane_builder *b, const int64_t *values, int count);
propane_value *propane_build_bool(propane_builder *b, bool value);
propane_value *propane_build_text(propane_builder *b, const char *value);
propane_value *propane_build_real(propane_builder *b, propane_dtype dtype, double value);
/* Adds an operation and returns its first result; propane_build_result returns the others. `op` is a name in the
 * operation table ("matmul"); `name` is the result's name, or NULL. Operations with blocks (cond, while_loop) can
 * only be written as text. */
propane_value *propane_build_op(propane_builder *b, const char *op, const char *name, const propane_argument *arguments,
                                int count);
propane_value *propane_build_result(propane_builder *b, propane_value *first, int index);
/* Makes a value an output of the function. */
void propane_build_output(propane_builder *b, propane_value *value);
/* Verifies the module and reports the first error. Afterwards the builder is empty and can only be freed. */
PROPANE_CHECK propane_status propane_builder_finish(propane_builder *builder, propane_module **out, propane_error *err);

PROPANE_END

#endif
