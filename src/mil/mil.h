/* SPDX-License-Identifier: MIT
 * The language: a module holds functions, a function a list of operations in static single assignment, an operation its
 * row of ops.def, its operands and its results. Everything in a module lives in the module's arena and dies with it;
 * names are terminated strings. Values know who defines them and, if they are constants, what they hold.
 *
 * This header is the in-memory form. Text: mil/text.h. Building: mil/build.h. Rows: mil/ops.h. Weight files: mil/blob.h.
 */
#ifndef MIL_MIL_H
#define MIL_MIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

#define MIL_MAX_RANK PROPANE_MAX_RANK

typedef enum mil_dtype {
    MIL_DTYPE_NONE,
#define DTYPE(name, kind, bits, blob, proto) MIL_##name,
#include "mil/dtypes.def"
    MIL_DTYPE_COUNT
} mil_dtype;

typedef enum mil_dtype_kind {
    MIL_KIND_FLOAT,
    MIL_KIND_INT,
    MIL_KIND_UINT,
    MIL_KIND_BOOL,
    MIL_KIND_STRING
} mil_dtype_kind;

typedef struct mil_dtype_info {
    const char *name;
    mil_dtype_kind kind;
    int bits;      /* of one element in memory and in a blob file; 0: strings */
    int blob_code; /* 0: not in blob files */
    int proto_code;
} mil_dtype_info;

const mil_dtype_info *mil_dtype_get(mil_dtype dtype);
mil_dtype mil_dtype_from_name(const char *name, size_t length); /* MIL_DTYPE_NONE if unknown */
bool mil_dtype_is_float(mil_dtype dtype);

typedef enum mil_opset { MIL_OPSET_NONE, MIL_IOS15, MIL_IOS16, MIL_IOS17, MIL_IOS18 } mil_opset;

/* A dense row-major tensor; rank 0 is a scalar (`fp16` and `tensor<fp16, []>` are the same type). */
typedef struct mil_type {
    mil_dtype dtype;
    int rank;
    int64_t dim[MIL_MAX_RANK];
} mil_type;

mil_type mil_type_scalar(mil_dtype dtype);
mil_type mil_type_tensor(mil_dtype dtype, int rank, const int64_t *dim);
bool mil_type_equal(const mil_type *a, const mil_type *b);
bool mil_shape_equal(const mil_type *a, const mil_type *b);
int64_t mil_type_count(const mil_type *type); /* elements; the verifier guarantees that it fits */
int64_t mil_type_bytes(const mil_type *type); /* sub-byte types: packed, rounded up to whole bytes */
/* "tensor<fp16, [1, 64, 1, 32]>" or "fp16"; returns `out`. */
const char *mil_type_print(char out[160], const mil_type *type);

/* Elements as in a blob file: little endian, sub-byte types packed from the low bits up. Strings: const char *const *. */
typedef struct mil_const {
    mil_type type;
    const void *data; /* NULL while a blob has not been read yet */
    int64_t bytes;
    const char *blob_path; /* as written, e.g. "@model_path/weights/w.bin"; NULL: given in the text */
    uint64_t blob_offset;  /* of the metadata record */
} mil_const;

/* Element `index` (0 <= index < count) of a numeric or bool constant. */
double mil_const_f64(const mil_const *c, int64_t index);
int64_t mil_const_i64(const mil_const *c, int64_t index);
const char *mil_const_text(const mil_const *c, int64_t index); /* strings only */

typedef struct mil_value mil_value;
typedef struct mil_op mil_op;
typedef struct mil_function mil_function;
typedef struct mil_module mil_module;
typedef struct mil_op_info mil_op_info;

struct mil_value {
    const char *name;
    mil_type type;
    mil_op *def;            /* NULL: a parameter of the function, or an inline literal (then konst is set) */
    int index;              /* which parameter, or which result of `def` */
    int id;                 /* dense, unique in the function: for side tables */
    const mil_const *konst; /* what it holds, if it is known at compile time */
    bool is_inline;         /* written as a literal inside an argument list, not as a const statement */
    int line, column;       /* 0: not from text */
};

/* The values given to one parameter of the row: `count` is 0 (left out), 1, or any number for variadic parameters. */
typedef struct mil_operand {
    int count;
    mil_value **values;
} mil_operand;

struct mil_op {
    const mil_op_info *info;
    mil_operand *operands; /* [info->param_count] */
    int result_count;
    mil_value **results;
    const char *label; /* the [name = ...] attribute; NULL: none */
    const char *stage; /* which part of a model it is ("attn.qkv"); gradient ops inherit it; not in the text */
    bool backward;     /* made by src/grad */
    int line, column;
    mil_op *prev, *next;
    mil_function *function;
};

struct mil_function {
    const char *name;
    mil_opset opset;
    int param_count;
    mil_value **params;
    mil_op *first, *last; /* in order of definition: operands come before their users */
    int op_count;
    int result_count;
    mil_value **results;
    int value_count; /* ids are 0 .. value_count-1 */
    mil_module *module;
    mil_function *next;
    struct mil_scope *scope; /* the names that are taken and the constants that are shared: mil/make.h */
    int line, column;
};

typedef struct mil_pair {
    const char *key, *value;
} mil_pair;

struct mil_module {
    arena *arena;
    const char *source;               /* stands for the module in messages: the file's path */
    const char *model_dir;            /* what @model_path means; NULL: nothing */
    int version_major, version_minor; /* program(1.3) */
    int build_info_count;
    mil_pair *build_info;
    mil_function *functions; /* in order, linked by next */
    int function_count;
    struct mil_blob_map *blobs; /* weight files that its constants point into; closed with the module */
};

mil_module *mil_module_create(const char *source); /* program(1.3) with Propane's buildInfo; NULL: no memory */
void mil_module_free(mil_module *m);
/* NULL name: "main", or the only function. NULL result: there is none; `err` lists the names there are. */
mil_function *mil_module_function(const mil_module *m, const char *name, propane_error *err);

const char *mil_opset_name(mil_opset opset); /* "ios18" */
mil_opset mil_opset_from_name(const char *name, size_t length);

/* ---- reading an operation: the values and attributes of its parameters, by name ------------------------------------ */

/* NULL: the parameter was left out. An unknown name is a broken invariant (assert). */
mil_value *mil_in(const mil_op *op, const char *param);
int mil_in_list(const mil_op *op, const char *param, mil_value *const **values);
/* Attributes are constant operands, or the row's default where left out (0, false, NULL where it has none: ask mil_in
 * first). Calling one for a parameter whose class does not match is a broken invariant; a value that is not constant is
 * an error naming op and line. */
PROPANE_CHECK propane_status mil_attr_int(const mil_op *op, const char *param, int64_t *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_ints(const mil_op *op, const char *param, int64_t out[MIL_MAX_RANK * 2],
                                           int *count, propane_error *err); /* count 0: left out and no default */
PROPANE_CHECK propane_status mil_attr_bool(const mil_op *op, const char *param, bool *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_float(const mil_op *op, const char *param, double *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_text(const mil_op *op, const char *param, const char **out, propane_error *err);
/* "x.mil:12:5: softmax 'p'": how every message about an operation begins. */
const char *mil_op_where(char out[300], const mil_op *op);
/* propane_fail with mil_op_where in front. */
propane_status mil_op_fail(const mil_op *op, propane_error *err, propane_status status, const char *format, ...)
    BASE_PRINTF(4, 5);

/* ---- the verifier ------------------------------------------------------------------------------------------------------ */

/* Types, shapes, operand classes, single assignment, definition before use, results, names, counts within 2^40 elements.
 * Every rule of the language that a row cannot say by itself is here. */
PROPANE_CHECK propane_status mil_verify(const mil_module *m, propane_error *err);
PROPANE_CHECK propane_status mil_verify_op(const mil_op *op, propane_error *err);

#endif
