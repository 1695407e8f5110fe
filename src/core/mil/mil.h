/* SPDX-License-Identifier: MIT
 * The language: a module holds functions, a function a list of operations in static single assignment, an operation its
 * row of ops.def, its operands and its results. Everything in a module lives in the module's arena and dies with it;
 * names are terminated strings. Values know their defining operation and, if they are constants, what they hold.
 *
 * This header is the in-memory form. Text: core/mil/text/mil_text.h. Building: core/mil/build.h. Rows: core/mil/ops.h.
 * Weight files: core/mil/coreml/blob.h.
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
    int bits;      /* of one element in memory and in a blob file; 0: strings */
    int blob_code; /* 0: not in blob files */
    int proto_code;
} mil_dtype_info;

const mil_dtype_info *mil_dtype_get(mil_dtype dtype);
mil_dtype mil_dtype_from_name(const char *name, size_t length); /* MIL_DTYPE_NONE if unknown */
bool mil_dtype_is_float(mil_dtype dtype);

typedef enum mil_opset { MIL_OPSET_NONE, MIL_IOS15, MIL_IOS16, MIL_IOS17, MIL_IOS18 } mil_opset;

/* The container of a type's tensor. Nearly everything is a plain tensor, which is 0.
 *   STATE  state<tensor<fp16, [2]>>         memory that outlives a run: read_state, write_state (parameters only)
 *   LIST   list<tensor<fp16, [2]>, 5>       `length` tensors of one shape, stored one after the other
 *   DICT   dict<string, fp64>               what classify gives: `key` to a scalar; never stored, only a result */
typedef enum mil_container { MIL_TENSOR, MIL_STATE, MIL_LIST, MIL_DICT } mil_container;

/* A dense row-major tensor; rank 0 is a scalar (`fp16` and `tensor<fp16, []>` are the same type). Of the other shells
 * dtype, rank and dim are those of the tensor inside. Dimensions are numbers: those that a file leaves open are fixed
 * when it is read. A rank-1 tensor may have no elements (the shape of a scalar). */
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
mil_type mil_type_bare(const mil_type *type); /* the tensor inside a state or of a list */
bool mil_type_equal(const mil_type *a, const mil_type *b);
bool mil_shape_equal(const mil_type *a, const mil_type *b);
int64_t mil_type_count(const mil_type *type); /* elements, of all of a list's; the verifier guarantees that it fits */
int64_t mil_type_bytes(const mil_type *type); /* sub-byte types: packed, rounded up to whole bytes */
/* "tensor<fp16, [1, 64, 1, 32]>" or "fp16"; returns `out`. */
const char *mil_type_print(char out[160], const mil_type *type);

/* Elements as in a blob file: little endian, sub-byte types packed from the low bits up. Strings: const char *const
 * *. */
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

typedef struct propane_value mil_value;
typedef struct mil_op mil_op;
typedef struct mil_function mil_function;
typedef struct propane_module mil_module;
typedef struct mil_op_info mil_op_info;

struct propane_value {
    const char *name;
    mil_type type;
    mil_op *def;               /* NULL: a parameter of the function, or an inline literal (then constant is set) */
    int index;                 /* which parameter, or which result of `def` */
    int id;                    /* dense, unique in the function: for side tables */
    const mil_const *constant; /* what it holds, if it is known at compile time */
    bool is_inline;            /* written as a literal inside an argument list, not as a const statement */
    int states_before;         /* of a parameter: how many of those before it are states */
    mil_value *outer;          /* in a block: the value outside that it stands for; NULL: its own */
    mil_function *home;        /* the function or block that it belongs to */
    mil_value *replaced_by;    /* in a pass: what took its place when its operation was removed; NULL: nothing did */
    int line, column;          /* 0: not from text */
};

/* Control flow. An op with blocks (cond: if true, if false; while_loop: condition, body) holds each block as a function
 * of its own that nothing else can call: parameters, ops, results, ids, names. A block sees nothing outside. What its
 * text takes from around it has become one more parameter, and one more operand of the op, in the row's parameter
 * `captured`:
 *
 *   params of each block = the block's own inputs (while_loop: one per loop variable), then one per captured operand
 *   results              = cond: the op's results; condition: one bool; body: the next loop variables
 *
 * So a pass or a driver that walks operands sees every use, and may treat a block like any function: compile it, run
 * it, rewrite it. Constants are not captured: the block holds the same mil_const as a literal.
 *
 * States. A parameter of container STATE is memory that is read and written in the order of the ops (read_state,
 * write_state, coreml_update_state). A device need not know of it: pass_states turns each into a tensor parameter and a
 * result.
 *
 * Shapes. A value whose def is no const op may have a constant all the same, where it follows from shapes and constants
 * alone (mil_know): reshape(x, shape = concat(...)) is legal as soon as the shape can be worked out. */

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
    int block_count; /* 0: no control flow */
    mil_function **blocks;
    const char *label; /* the [name = ...] attribute; NULL: none */
    const char *stage; /* which part of a model it is ("attn.qkv"); gradient ops inherit it; not in the text */
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
    mil_op *first, *last; /* in order of definition: operands come before their users */
    int op_count;
    int result_count;
    mil_value **results;
    int value_count; /* ids are 0 .. value_count-1 */
    mil_module *module;
    mil_function *next;
    mil_op *owner;           /* it is a block of this op; NULL: a function of the module */
    bool ranged;             /* the file leaves dimensions of its inputs open, and not to a list of shapes */
    int captured;            /* of a block: how many of its last parameters stand for values outside */
    bool replaces_later;     /* between mil_replace_begin and mil_replace_end */
    bool was_block;          /* a block as a function by itself: it may take and give lists */
    bool late;               /* some shapes follow from values of a run, and are open: core/mil/specialize.h */
    struct mil_scope *scope; /* the names that are taken and the constants that are shared: core/mil/ir_edit.h */
    int line, column;
};

typedef struct mil_pair {
    const char *key, *value;
} mil_pair;

struct propane_module {
    arena *arena;
    const char *source;               /* its name in messages: the file's path */
    const char *model_dir;            /* what @model_path means; NULL: nothing */
    int version_major, version_minor; /* program(1.3) */
    int build_info_count;
    mil_pair *build_info;
    mil_function *functions; /* in order, linked by next */
    int function_count;
    struct mil_blob_map *blobs; /* weight files that its constants point into; closed with the module */
    /* what a Core ML file says around the program (core/mil/coreml/package.h); NULL: nothing */
    struct mil_package *package;
    const char *default_function; /* NULL: "main" */
    bool coreml;                  /* it is, or was made of, what a Core ML file holds: Core ML places its operations */
};

mil_module *mil_module_create(const char *source); /* program(1.3) with Propane's buildInfo; NULL: no memory */
void mil_module_free(mil_module *m);
/* NULL name: the default function, or "main", or the only function. NULL result: there is none; `err` lists the names
 * there are. */
mil_function *mil_module_function(const mil_module *m, const char *name, propane_error *err);
/* Takes a function off its module; its memory stays the arena's. */
void mil_module_drop(mil_module *m, const mil_function *f);

const char *mil_opset_name(mil_opset opset); /* "ios18" */
mil_opset mil_opset_from_name(const char *name, size_t length);

/* ---- reading an operation: the values and attributes of its parameters, by name ---------------------------------- */

/* NULL: the parameter was left out. An unknown name is a broken invariant (assert). */
mil_value *mil_in(const mil_op *op, const char *param);
int mil_in_list(const mil_op *op, const char *param, mil_value *const **values);
/* All operands, in the order of the row: MIL_FOR_OPERANDS(op, v) { .. v is a mil_value * .. }. break and continue
 * work. */
typedef struct mil_operand_walk {
    const mil_op *op;
    int param, index; /* of the next operand */
} mil_operand_walk;
mil_value *mil_operand_next(mil_operand_walk *walk); /* NULL: there was no more */
#define MIL_FOR_OPERANDS(of, v)                                                                                        \
    for (mil_operand_walk v##_walk = {.op = (of)}; v##_walk.op; v##_walk.op = NULL)                                    \
        for (mil_value * v; (v = mil_operand_next(&v##_walk));)
/* Attributes are constant operands, or the row's default where left out (0, false, NULL where it has none: ask mil_in
 * first). Calling one for a parameter whose class does not match is a broken invariant; a value that is not constant is
 * an error naming op and line. */
PROPANE_CHECK propane_status mil_attr_int(const mil_op *op, const char *param, int64_t *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_ints(const mil_op *op, const char *param, int64_t out[MIL_MAX_RANK * 2],
                                           int *count, propane_error *err); /* count 0: left out and no default */
PROPANE_CHECK propane_status mil_attr_bool(const mil_op *op, const char *param, bool *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_float(const mil_op *op, const char *param, double *out, propane_error *err);
PROPANE_CHECK propane_status mil_attr_text(const mil_op *op, const char *param, const char **out, propane_error *err);
/* The name of the first result; NULL: it has none, as write_state. */
const char *mil_op_result_name(const mil_op *op);
/* "x.mil:12:5: softmax 'p'": how every message about an operation begins. */
const char *mil_op_where(char out[300], const mil_op *op);
/* propane_fail with mil_op_where in front. */
propane_status mil_op_fail(const mil_op *op, propane_error *err, propane_status status, const char *format, ...)
    BASE_PRINTF(4, 5);

/* The operand of `op` that follows parameter `index` of its blocks; NULL: the block's own input. */
mil_value *mil_captured(const mil_op *op, const mil_function *block, int index);
/* Whether v is known at compile time: a constant, or worked out from constants and shapes by the rows' evaluation. What
 * is worked out is kept in v->constant. Never for more than 64 Ki elements. */
bool mil_know(mil_value *v);

/* ---- the verifier ------------------------------------------------------------------------------------------------ */

/* Types, shapes, operand classes, single assignment, definition before use, results, names, counts within 2^40
 * elements. Every rule of the language that a row cannot say by itself is here. */
PROPANE_CHECK propane_status mil_verify(const mil_module *m, propane_error *err);
PROPANE_CHECK propane_status mil_verify_op(const mil_op *op, propane_error *err);

#endif
