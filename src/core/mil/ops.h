/* SPDX-License-Identifier: MIT
 * The rows of ops.def as data. Columns that belong to other layers (gradient, CPU binding) are not here: their readers
 * include ops.def themselves.
 */
#ifndef CORE_MIL_OPS_H
#define CORE_MIL_OPS_H

#include "core/mil/mil.h"

typedef enum mil_opcode {
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) MIL_OP_##name,
#include "core/mil/ops.def"
    MIL_OP_COUNT
} mil_opcode;

/* What may be given to a parameter. K_ classes must be constant. */
typedef enum mil_class {
    MIL_CLASS_FLOAT,  /* fp16 or fp32 tensor; all FLOAT and NUM operands of an op share one element type */
    MIL_CLASS_NUM,    /* float or int32 tensor; likewise shares */
    MIL_CLASS_CHOSEN, /* float, int32 or bool tensor; likewise shares */
    MIL_CLASS_TENSOR, /* any numeric or bool tensor, on its own */
    MIL_CLASS_EITHER, /* such a tensor, or a list */
    MIL_CLASS_BOOL,
    MIL_CLASS_INT,     /* int32 (or int8, uint8, int16, uint16) tensor */
    MIL_CLASS_WEIGHT,  /* fp16 or fp32 tensor of its own element type, which need not be that of the others */
    MIL_CLASS_FACTOR,  /* float or int32 tensor of its own element type; its rule says which go together */
    MIL_CLASS_ORDERED, /* float or integers, on their own */
    MIL_CLASS_SHAPE,   /* any tensor; only its shape is looked at, so the result is known at compile time */
    MIL_CLASS_ANY,     /* any tensor, list or state */
    MIL_CLASS_STATE,
    MIL_CLASS_LIST,
    MIL_CLASS_QUANT,  /* int8 or uint8 tensor */
    MIL_CLASS_K_INT,  /* scalar int32 */
    MIL_CLASS_K_INTS, /* int32 vector */
    MIL_CLASS_K_BOOL,
    MIL_CLASS_K_BOOLS,
    MIL_CLASS_K_TEXT,
    MIL_CLASS_K_FLOAT, /* scalar float */
    MIL_CLASS_K_NUM,   /* scalar of any element type */
    MIL_CLASS_K_TENSOR /* constant tensor of any type */
} mil_class;

/* CAPTURED: any number, never written: the values that the op's blocks take from outside. */
typedef enum mil_need { MIL_REQUIRED, MIL_OPTIONAL, MIL_VARIADIC, MIL_CAPTURED } mil_need;

typedef struct mil_param {
    const char *name;
    mil_class type_class;
    mil_need need;
    const char *standard; /* the default as text ("0", "-1", "false", "valid", "1e-05"); NULL: none */
    int blocks;           /* CAPTURED: how many blocks the op has */
} mil_param;

#define MIL_MAX_PARAMS 20

/* Types and shapes of the results. `out` has room for info->result_count or, where that is 0, for MIL_MAX_RESULTS. */
#define MIL_MAX_RESULTS 256
typedef propane_status (*mil_rule)(const mil_op *op, mil_type *out, int *out_count, propane_error *err);

/* The meaning of an op, slowly: operands and results as dense double arrays, all sums in double, no rounding to the
 * element type except where the op's meaning needs it (cast, integer division). This is the truth in tests and what
 * constant folding uses; devices have their own kernels. */
typedef struct mil_tensor {
    mil_type type; /* of a list: `length` is what it has now */
    double *data;
    bool grows; /* a list of dynamic length: an index past its end makes it longer */
} mil_tensor;

typedef struct mil_eval_args {
    const mil_op *op;
    const mil_tensor *const *in[MIL_MAX_PARAMS]; /* in[param][k]; constants are converted too (strings are not) */
    mil_tensor *out;                             /* [op->result_count]; types and data are there, data zeroed */
    bool round;                                  /* blocks round every result to its element type */
    arena *memory;                               /* of lists that grow; NULL: they cannot */
} mil_eval_args;
typedef propane_status (*mil_eval)(const mil_eval_args *a, propane_error *err);

/* How much work: for the cost model and the profile. Filled per op by mil_op_cost. */
typedef struct mil_cost {
    double flops;       /* a multiply-add is 2 */
    double bytes_in;    /* operands read once, constants included */
    double bytes_const; /* of those, constants */
    double bytes_out;
    bool is_matrix; /* runs on the multiply-add array: conv, matmul, linear */
} mil_cost;

typedef enum mil_draw {                    /* which random operands are legal and smooth, for generated tests */
                        MIL_DRAW_any,      /* normal, 0 +- 1 */
                        MIL_DRAW_positive, /* [0.2, 3] */
                        MIL_DRAW_nonzero,  /* |x| in [0.3, 3] */
                        MIL_DRAW_unit,     /* [-0.9, 0.9] */
                        /* no two elements closer than 0.01, none close to 0, +-1, +-6: away from kinks */
                        MIL_DRAW_apart,
                        MIL_DRAW_integer, /* small integers */
                        MIL_DRAW_custom   /* tests/ops has a case list for it */
} mil_draw;

struct mil_op_info {
    const char *name;
    mil_opcode code;
    mil_opset since;
    int param_count;
    mil_param params[MIL_MAX_PARAMS];
    mil_rule rule;
    mil_eval eval;
    double flops_per_element; /* of the result; negative: cost comes from the shapes (conv, matmul, reductions) */
    mil_draw draw;
};

const mil_op_info *mil_op_get(mil_opcode code);
const mil_op_info *mil_op_find(const char *name, size_t length); /* NULL: no such op */
int mil_op_param(const mil_op_info *info, const char *name);     /* index, -1 if there is none */
int mil_op_captured(const mil_op_info *info);                    /* index of the captured values, -1: no blocks */
int mil_op_blocks(const mil_op_info *info);                      /* how many an op of this row has */
bool mil_op_compressed(
    const mil_op *op); /* constexpr_*: a constant that is small in its file, spread when it is used */
void mil_op_cost(const mil_op *op, mil_cost *out);

/* What a list may hold at most when an index makes it longer: bytes on the cpu device, elements in the slow meaning. */
#define MIL_LIST_MOST ((int64_t)1 << 27)

/* Runs the eval column of one op; a list cannot grow. */
PROPANE_CHECK propane_status mil_eval_op(const mil_op *op, const mil_tensor *const *const in[MIL_MAX_PARAMS],
                                         mil_tensor *out, propane_error *err);
/* Runs a whole function on doubles: inputs in the order of its parameters, outputs allocated in `a`. With `round`,
 * every result is rounded to its element type, as a device that stores it would. Behind the outputs stand the states as
 * they are at the end, one for each state parameter, in their order; the inputs themselves are not changed. */
PROPANE_CHECK propane_status mil_eval_function(const mil_function *f, const mil_tensor *inputs, bool round, arena *a,
                                               mil_tensor **outputs, propane_error *err);
/* Rounds to what `dtype` can hold. */
double mil_round(mil_dtype dtype, double value);
/* Elements of type->dtype to doubles and back. */
void mil_unpack_f64(double *target, mil_dtype dtype, const void *source, int64_t count);
void mil_pack_f64(void *target, mil_dtype dtype, const double *source, int64_t count);

#endif
