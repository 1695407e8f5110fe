/* SPDX-License-Identifier: MIT
 * Declares the rows of ops.def as data. The columns of other layers (gradient, CPU binding) are not included; their
 * readers include ops.def themselves.
 */
#ifndef CORE_MIL_OPS_H
#define CORE_MIL_OPS_H

#include "core/mil/mil.h"

typedef enum mil_opcode {
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) MIL_OP_##name,
#include "core/mil/ops.def"
    MIL_OP_COUNT
} mil_opcode;

/* The kinds of value that a parameter accepts. Values of the K_ classes must be constant. */
typedef enum mil_class {
    MIL_CLASS_FLOAT,  /* fp16 or fp32 tensor; all FLOAT, NUM and CHOSEN operands of an op share one element type */
    MIL_CLASS_NUM,    /* float or int32 tensor; shares the element type */
    MIL_CLASS_CHOSEN, /* float, int32 or bool tensor; shares the element type */
    MIL_CLASS_TENSOR, /* any numeric or bool tensor; its element type is independent */
    MIL_CLASS_EITHER, /* any numeric or bool tensor, or a list */
    MIL_CLASS_BOOL,
    MIL_CLASS_INT,     /* int32 (or int8, uint8, int16, uint16) tensor */
    MIL_CLASS_WEIGHT,  /* fp16 or fp32 tensor; its element type may differ from the others' */
    MIL_CLASS_FACTOR,  /* float or int32 tensor of independent element type; the op's rule decides which types match */
    MIL_CLASS_ORDERED, /* float or integer tensor of independent element type */
    MIL_CLASS_SHAPE,   /* any tensor; only its shape is read, so the result is known at compile time */
    MIL_CLASS_ANY,     /* any tensor, list or state */
    MIL_CLASS_STATE,
    MIL_CLASS_LIST,
    MIL_CLASS_QUANT,  /* int8 or uint8 tensor */
    MIL_CLASS_K_INT,  /* scalar of an integer type, usually int32 */
    MIL_CLASS_K_INTS, /* vector of an integer type, usually int32 */
    MIL_CLASS_K_BOOL,
    MIL_CLASS_K_BOOLS,
    MIL_CLASS_K_TEXT,
    MIL_CLASS_K_FLOAT, /* scalar float */
    MIL_CLASS_K_NUM,   /* scalar of any type except string */
    MIL_CLASS_K_TENSOR /* constant tensor or list of any type */
} mil_class;

/* A CAPTURED parameter holds any number of outside values that the op's blocks use. It is never written to a file. */
typedef enum mil_need { MIL_REQUIRED, MIL_OPTIONAL, MIL_VARIADIC, MIL_CAPTURED } mil_need;

typedef struct mil_param {
    const char *name;
    mil_class type_class;
    mil_need need;
    const char *standard; /* the default as text ("0", "-1", "false", "valid", "1e-05"), or NULL */
    int blocks;           /* CAPTURED: number of blocks of the op */
} mil_param;

#define MIL_MAX_PARAMS 20

/* Computes the types and shapes of the results. `out` has room for info->result_count or, if that is 0, for
 * MIL_MAX_RESULTS. */
#define MIL_MAX_RESULTS 256
typedef propane_status (*mil_rule)(const mil_op *op, mil_type *out, int *out_count, propane_error *err);

/* The reference evaluation of an op, which is slow. Operands and results are dense double arrays, and all sums are in
 * double. Nothing is rounded to the element type unless the op's meaning requires it (cast, integer division). Tests
 * compare with this evaluation, and constant folding uses it; devices have separate kernels. */
typedef struct mil_tensor {
    mil_type type; /* of a list: `length` is its current length */
    double *data;
    bool grows; /* a list of dynamic length: writing past its end makes it longer */
} mil_tensor;

typedef struct mil_eval_args {
    const mil_op *op;
    const mil_tensor *const *in[MIL_MAX_PARAMS]; /* in[param][k]; constants are converted too, but not strings */
    mil_tensor *out;                             /* [op->result_count]; types are set, data is allocated and zeroed */
    bool round;                                  /* blocks round every result to its element type */
    arena *memory;                               /* for lists that grow; NULL means that they cannot */
} mil_eval_args;
typedef propane_status (*mil_eval)(const mil_eval_args *a, propane_error *err);

/* The amount of work, for the cost model and the profile. Filled in per op by mil_op_cost. */
typedef struct mil_cost {
    double flops;       /* a multiply-add counts 2 */
    double bytes_in;    /* each operand read once, constants included */
    double bytes_const; /* the part of bytes_in that is constants */
    double bytes_out;
    bool is_matrix; /* a sum of products, such as conv, matmul or linear */
} mil_cost;

typedef enum mil_draw {                    /* random operands that are legal and smooth, for generated tests */
                        MIL_DRAW_any,      /* normal, 0 +- 1 */
                        MIL_DRAW_positive, /* [0.2, 3] */
                        MIL_DRAW_nonzero,  /* |x| in [0.3, 3] */
                        MIL_DRAW_unit,     /* [-0.9, 0.9] */
                        /* No two elements closer than 0.01, none close to 0, +-1 or +-6: away from kinks. */
                        MIL_DRAW_apart,
                        MIL_DRAW_integer, /* small integers */
                        MIL_DRAW_custom   /* tests/support/op_cases.c lists its operands */
} mil_draw;

struct mil_op_info {
    const char *name;
    mil_opcode code;
    mil_opset since;
    int param_count;
    mil_param params[MIL_MAX_PARAMS];
    mil_rule rule;
    mil_eval eval;
    /* Per element of the result; if negative, the cost follows from the shapes (conv, matmul, reductions). */
    double flops_per_element;
    mil_draw draw;
};

const mil_op_info *mil_op_get(mil_opcode code);
const mil_op_info *mil_op_find(const char *name, size_t length); /* NULL if there is no such op */
int mil_op_param(const mil_op_info *info, const char *name);     /* index, -1 if there is none */
int mil_op_captured(const mil_op_info *info); /* index of the captured values; -1 for an op without blocks */
int mil_op_blocks(const mil_op_info *info);   /* number of blocks of an op of this row */
bool mil_op_compressed(
    const mil_op *op); /* constexpr_*: a constant that is compressed in its file and expanded when it is used */
void mil_op_cost(const mil_op *op, mil_cost *out);

/* Limit of a list that an index makes longer: bytes on the cpu device, elements in mil_eval. */
#define MIL_LIST_MOST ((int64_t)1 << 27)

/* Runs the evaluation of one op; lists cannot grow. */
PROPANE_CHECK propane_status mil_eval_op(const mil_op *op, const mil_tensor *const *const in[MIL_MAX_PARAMS],
                                         mil_tensor *out, propane_error *err);
/* Runs a whole function on doubles. The inputs are in the order of its parameters and are not changed; the outputs are
 * allocated in `a`. With `round`, every result is rounded to its element type, as on a device that stores it. After the
 * outputs come the final values of the states, one per state parameter, in their order. */
PROPANE_CHECK propane_status mil_eval_function(const mil_function *f, const mil_tensor *inputs, bool round, arena *a,
                                               mil_tensor **outputs, propane_error *err);
/* Rounds to a value that `dtype` can hold. */
double mil_round(mil_dtype dtype, double value);
/* Convert `count` elements of `dtype` to doubles and back. */
void mil_unpack_f64(double *target, mil_dtype dtype, const void *source, int64_t count);
void mil_pack_f64(void *target, mil_dtype dtype, const double *source, int64_t count);

#endif
