/* SPDX-License-Identifier: MIT
 * Declares the in-memory form of the language. A module holds functions; a function is a list of operations in static
 * single assignment; an operation has its row of ops.def, its operands and its results. Everything in a module lives in
 * the module's arena and is freed with it; names are terminated strings. A value points to its defining operation and,
 * if it is a constant, to its contents.
 *
 * Other headers: core/mil/text/mil_text.h for text, core/mil/build.h for building, core/mil/ops.h for the rows,
 * core/mil/coreml/blob.h for weight files.
 */
#ifndef CORE_MIL_MIL_H
#define CORE_MIL_MIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

#define MIL_MAX_RANK PROPANE_MAX_RANK

typedef enum mil_dtype {
    MIL_DTYPE_NONE,
#define DTYPE(name, kind, bits, blob, proto) MIL_##name,
#include "core/mil/dtypes.def"
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
    int bits;      /* of one element in memory and in a blob file; 0 for strings */
    int blob_code; /* 0 if blob files cannot hold the type */
    int proto_code;
} mil_dtype_info;

const mil_dtype_info *mil_dtype_get(mil_dtype dtype);
mil_dtype mil_dtype_from_name(const char *name, size_t length); /* MIL_DTYPE_NONE if unknown */
bool mil_dtype_is_float(mil_dtype dtype);

typedef enum mil_opset { MIL_OPSET_NONE, MIL_IOS15, MIL_IOS16, MIL_IOS17, MIL_IOS18 } mil_opset;

/* The container of a type's tensor. Nearly every type is a plain tensor (0).
 *   STATE  state<tensor<fp16, [2]>>         memory that outlives a run: read_state, write_state (parameters only)
 *   LIST   list<tensor<fp16, [2]>, 5>       `length` tensors of one shape, stored one after the other
 *   DICT   dict<string, fp64>               a map from `key` to a scalar, the result of classify; never stored */
typedef enum mil_container { MIL_TENSOR, MIL_STATE, MIL_LIST, MIL_DICT } mil_container;

/* A dense row-major tensor. Rank 0 is a scalar; `fp16` and `tensor<fp16, []>` are the same type. For other containers,
 * dtype, rank and dim describe the tensor inside. Dimensions that a file leaves open are fixed when the file is read;
 * only late functions and types that are being read have MIL_OPEN. A rank-1 tensor may have no elements, such as the
 * shape of a scalar. */
typedef struct mil_type {
    mil_dtype dtype;
    int rank;
    int64_t dim[MIL_MAX_RANK];
    mil_container container;
    mil_dtype key;  /* DICT */
    int64_t length; /* LIST */
} mil_type;

mil_type mil_type_scalar(mil_dtype dtype);
mil_type mil_type_tensor(mil_dtype dtype, int rank, const int64_t *dim);
mil_type mil_type_bare(const mil_type *type); /* the tensor inside a state or list */
bool mil_type_equal(const mil_type *a, const mil_type *b);
bool mil_shape_equal(const mil_type *a, const mil_type *b);
/* Returns the number of elements; for a list, the sum over its tensors. The verifier guarantees that the number
 * fits. */
int64_t mil_type_count(const mil_type *type);
int64_t mil_type_bytes(const mil_type *type); /* sub-byte types are packed, rounded up to whole bytes */
/* Prints a type, as in "tensor<fp16, [1, 64, 1, 32]>" or "fp16", and returns `out`. */
const char *mil_type_print(char out[160], const mil_type *type);

/* Elements as in a blob file: little endian, sub-byte types packed from the low bits up. Strings are stored as const
 * char *const *. */
typedef struct mil_const {
    mil_type type;
    const void *data; /* NULL until a blob is read */
    int64_t bytes;
    const char *blob_path; /* as written, e.g. "@model_path/weights/w.bin"; NULL if given in the text */
    uint64_t blob_offset;  /* of the metadata record */
} mil_const;

/* Reads element `index` (0 <= index < count) of a numeric or bool constant. */
double mil_const_f64(const mil_const *c, int64_t index);
int64_t mil_const_i64(const mil_const *c, int64_t index);
const char *mil_const_text(const mil_const *c, int64_t index); /* only for strings */

typedef struct propane_value mil_value;
typedef struct mil_op mil_op;
typedef struct mil_function mil_function;
typedef struct propane_module mil_module;
typedef struct mil_op_info mil_op_info;

struct propane_value {
    const char *name;
    mil_type type;
    mil_op *def;               /* NULL for a parameter and for an inline literal (constant is then set) */
    int index;                 /* index among the parameters, or among the results of `def` */
    int id;                    /* dense, unique in the function, for side tables */
    const mil_const *constant; /* the content, if it is known at compile time */
    bool is_inline;            /* written as a literal inside an argument list, not as a const statement */
    int states_before;         /* of a parameter: number of states among the parameters before it */
    mil_value *outer;          /* in a block: the outside value represented; NULL for the block's own values */
    mil_function *home;        /* the function or block that owns the value */
    mil_value *replaced_by;    /* in a pass: the value that replaces this one, or NULL */
    int line, column;          /* 0 if not from text */
};

/* Control flow. An op with blocks (cond: if true, if false; while_loop: condition, body) holds each block as a separate
 * function that nothing else can call, with its own parameters, ops, results, ids and names. A block cannot refer to
 * outside values. An outside value that the block's text uses becomes an additional parameter of the block and an
 * additional operand of the op, under the row's parameter `captured`:
 *
 *   params of each block = the block's own inputs (while_loop: one per loop variable), then one per captured operand
 *   results              = cond: the op's results; condition: one bool; body: the next loop variables
 *
 * A pass or a driver that walks operands thus sees every use, and may treat a block like any function: compile it, run
 * it, rewrite it. Constants are not captured: the block holds the same mil_const as a literal.
 *
 * States. A parameter of container STATE is memory that is read and written in the order of the ops (read_state,
 * write_state, coreml_update_state). A device need not support states: pass_states turns each state into a tensor
 * parameter and a result.
 *
 * Shapes. A value that no const op defines may still have a constant, if it follows from shapes and constants alone
 * (mil_know): reshape(x, shape = concat(...)) is legal as soon as the shape can be derived. */

/* The values of one parameter of the row. `count` is 0 if the argument is left out, otherwise 1; variadic and captured
 * parameters may have any number. */
typedef struct mil_operand {
    int count;
    mil_value **values;
} mil_operand;

struct mil_op {
    const mil_op_info *info;
    mil_operand *operands; /* [info->param_count] */
    int result_count;
    mil_value **results;
    int block_count; /* 0 without control flow */
    mil_function **blocks;
    const char *label; /* the [name = ...] attribute, or NULL */
    const char *stage; /* part of the model ("attn.qkv"); inherited by gradient ops; not in the text */
    bool backward;     /* made by src/core/grad */
    int line, column;
    mil_op *prev, *next;
    mil_function *function;
};

struct mil_function {
    const char *name;
    mil_opset opset;
    int param_count;
    mil_value **params;
    mil_op *first, *last; /* in order of definition, so operands precede their users */
    int op_count;
    int result_count;
    mil_value **results;
    int value_count; /* ids are 0 .. value_count-1 */
    mil_module *module;
    mil_function *next;
    mil_op *owner;           /* of a block: its op; NULL for a function of the module */
    bool ranged;             /* the file leaves input dimensions open without listing the possible shapes */
    int captured;            /* of a block: how many of its last parameters represent outside values */
    bool replaces_later;     /* between mil_replace_begin and mil_replace_end */
    bool was_block;          /* a block turned into a function: it may have lists as parameters and results */
    bool late;               /* some shapes follow from values of a run and are open: core/mil/specialize.h */
    struct mil_scope *scope; /* names in use and shared constants: core/mil/ir_edit.h */
    int line, column;
};

typedef struct mil_pair {
    const char *key, *value;
} mil_pair;

struct propane_module {
    arena *arena;
    const char *source;               /* name in messages: the path of the file */
    const char *model_dir;            /* the folder that @model_path refers to, or NULL */
    int version_major, version_minor; /* program(1.3) */
    int build_info_count;
    mil_pair *build_info;
    mil_function *functions; /* in order, linked by next */
    int function_count;
    struct mil_blob_map *blobs; /* weight files that constants point into; unmapped with the module */
    /* What a Core ML file contains apart from the program (core/mil/coreml/package.h), or NULL. */
    struct mil_package *package;
    const char *default_function; /* NULL means "main" */
    bool coreml;                  /* read from, or made for, a Core ML file: Core ML places the operations */
};

mil_module *mil_module_create(const char *source); /* program(1.3) with Propane's buildInfo; NULL if memory runs out */
void mil_module_free(mil_module *m);
/* Finds a function. A NULL name means the only function or, if there are several, the default function or "main".
 * Returns NULL if there is none; `err` then lists the existing names. */
mil_function *mil_module_function(const mil_module *m, const char *name, propane_error *err);
/* Removes a function from its module; the arena keeps its memory. */
void mil_module_drop(mil_module *m, const mil_function *f);

const char *mil_opset_name(mil_opset opset); /* as in "ios18" */
mil_opset mil_opset_from_name(const char *name, size_t length);

/* ---- reading an operation: the values and attributes of its parameters, by name ---------------------------------- */

/* Returns the first value of a parameter, or NULL if the argument was left out. An unknown name is a broken invariant
 * (assert). */
mil_value *mil_in(const mil_op *op, const char *param);
int mil_in_list(const mil_op *op, const char *param, mil_value *const **values);
/* Visits all operands in the order of the row: MIL_FOR_OPERANDS(op, v) { .. v is a mil_value * .. }. break and continue
 * work. */
typedef struct mil_operand_walk {
    const mil_op *op;
    int param, index; /* of the next operand */
} mil_operand_walk;
mil_value *mil_operand_next(mil_operand_walk *walk); /* NULL at the end */
#define MIL_FOR_OPERANDS(of, v)                                                                                        \
    for (mil_operand_walk v##_walk = {.op = (of)}; v##_walk.op; v##_walk.op = NULL)                                    \
        for (mil_value * v; (v = mil_operand_next(&v##_walk));)
/* Read attributes, which are constant operands or the row's default if left out. Without a default, the value is 0,
 * false or NULL, so call mil_in first. A value that is not constant or has another type is an error that names op and
 * line. */
PROPANE_CHECK propane_status mil_attr_int(const mil_op *op, const char *param, int64_t *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_ints(const mil_op *op, const char *param, int64_t out[MIL_MAX_RANK * 2],
                                           int *count, propane_error *err); /* count is 0 if left out */
PROPANE_CHECK propane_status mil_attr_bool(const mil_op *op, const char *param, bool *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_float(const mil_op *op, const char *param, double *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_text(const mil_op *op, const char *param, const char **out, propane_error *err);
/* Returns the name of the first result, or NULL if there is none, as for write_state. */
const char *mil_op_result_name(const mil_op *op);
/* Writes the beginning of a message about an operation, as in "x.mil:12:5: softmax 'p'", and returns `out`. */
const char *mil_op_where(char out[300], const mil_op *op);
/* Calls propane_fail with the text of mil_op_where in front. */
propane_status mil_op_fail(const mil_op *op, propane_error *err, propane_status status, const char *format, ...)
    BASE_PRINTF(4, 5);

/* Returns the operand of `op` that becomes parameter `index` of the block, or NULL if the parameter is the block's own
 * input. */
mil_value *mil_captured(const mil_op *op, const mil_function *block, int index);
/* Returns whether v is known at compile time: a constant, or a value that the rows' evaluation derives from constants
 * and shapes. A derived value is kept in v->constant. Values of more than 64 Ki elements are not derived. */
bool mil_know(mil_value *v);

/* ---- the verifier ------------------------------------------------------------------------------------------------ */

/* Checks types, shapes, operand classes, single assignment, definition before use, results, names and element counts up
 * to 2^40. Enforces every rule of the language that a row alone cannot express. */
PROPANE_CHECK propane_status mil_verify(const mil_module *m, propane_error *err);
PROPANE_CHECK propane_status mil_verify_op(const mil_op *op, propane_error *err);

#endif
