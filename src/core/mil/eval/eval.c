/* SPDX-License-Identifier: MIT
 * Owns the reference evaluation: how an element type rounds, how elements become doubles and back, and running a
 * function on doubles, op by op, through the rows' eval column. Values of integer and bool type are integers within the
 * range of their type after every op: real_div of int32 drops the fraction.
 */
#include "core/mil/eval/eval.h"

#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"

/* ---- elements ------------------------------------------------------------------------------------------------------- */

/* Rounds toward zero, like a cast. Values out of range become the nearest value in range, and NaN becomes 0. */
static double eval_to_integer(const mil_dtype_info *info, double value) {
    const bool is_signed = info->kind == MIL_KIND_INT;
    const double top = ldexp(1.0, info->bits - is_signed), low = is_signed ? -top : 0.0;
    if (isnan(value)) return 0.0;
    value = trunc(value);
    if (value >= top) return info->bits > 53 ? nextafter(top, 0.0) : top - 1.0;
    return value <= low ? low : value + 0.0; /* + 0.0 avoids -0 */
}

double mil_round(mil_dtype dtype, double value) {
    switch (dtype) {
    case MIL_fp16: return fp16_to_f32(fp16_from_f64(value));
    case MIL_fp32: return (float)value;
    case MIL_bf16: return bf16_to_f32(bf16_from_f32((float)value));
    case MIL_fp64: return value;
    case MIL_bool: return value != 0.0;
    default: break;
    }
    const mil_dtype_info *info = mil_dtype_get(dtype);
    return info->kind == MIL_KIND_INT || info->kind == MIL_KIND_UINT ? eval_to_integer(info, value) : value;
}

/* Returns the bits of an element smaller than a byte. Such elements are packed from the low bits up. */
static uint64_t eval_get_bits(const uint8_t *data, int64_t index, int bits) {
    uint64_t out = 0;
    for (int b = 0; b < bits; b++) {
        int64_t at = index * bits + b;
        out |= (uint64_t)(data[at / 8] >> (at % 8) & 1) << b;
    }
    return out;
}

static void eval_put_bits(uint8_t *data, int64_t index, int bits, uint64_t value) {
    for (int b = 0; b < bits; b++) {
        int64_t at = index * bits + b;
        data[at / 8] = (uint8_t)((data[at / 8] & ~(1 << (at % 8))) | (int)((value >> b & 1) << (at % 8)));
    }
}

#define UNPACK(type)                                                                                                   \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type element;                                                                                                  \
        memcpy(&element, bytes + i * (int64_t)sizeof element, sizeof element);                                         \
        target[i] = (double)element;                                                                                   \
    }                                                                                                                  \
    break

void mil_unpack_f64(double *target, mil_dtype dtype, const void *source, int64_t count) {
    const uint8_t *bytes = source;
    const mil_dtype_info *info = mil_dtype_get(dtype);
    uint16_t half;
    switch (dtype) {
    case MIL_fp32: UNPACK(float);
    case MIL_fp64: UNPACK(double);
    case MIL_int8: UNPACK(int8_t);
    case MIL_int16: UNPACK(int16_t);
    case MIL_int32: UNPACK(int32_t);
    case MIL_int64: UNPACK(int64_t);
    case MIL_uint8: UNPACK(uint8_t);
    case MIL_uint16: UNPACK(uint16_t);
    case MIL_uint32: UNPACK(uint32_t);
    case MIL_uint64: UNPACK(uint64_t);
    case MIL_fp16:
    case MIL_bf16:
        for (int64_t i = 0; i < count; i++) {
            memcpy(&half, bytes + 2 * i, 2);
            target[i] = dtype == MIL_fp16 ? fp16_to_f32(half) : bf16_to_f32(half);
        }
        break;
    case MIL_bool:
        for (int64_t i = 0; i < count; i++) target[i] = bytes[i] != 0;
        break;
    default:
        for (int64_t i = 0; i < count && info->bits > 0; i++) {
            uint64_t raw = eval_get_bits(bytes, i, info->bits);
            bool negative = info->kind == MIL_KIND_INT && raw >> (info->bits - 1);
            target[i] = (double)raw - (negative ? ldexp(1.0, info->bits) : 0.0);
        }
    }
}

#define PACK(type)                                                                                                     \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type element = (type)mil_round(dtype, source[i]);                                                              \
        memcpy(bytes + i * (int64_t)sizeof element, &element, sizeof element);                                         \
    }                                                                                                                  \
    break

void mil_pack_f64(void *target, mil_dtype dtype, const double *source, int64_t count) {
    uint8_t *bytes = target;
    const mil_dtype_info *info = mil_dtype_get(dtype);
    uint16_t half;
    switch (dtype) {
    case MIL_fp32: PACK(float);
    case MIL_fp64: PACK(double);
    case MIL_int8: PACK(int8_t);
    case MIL_int16: PACK(int16_t);
    case MIL_int32: PACK(int32_t);
    case MIL_int64: PACK(int64_t);
    case MIL_uint8: PACK(uint8_t);
    case MIL_uint16: PACK(uint16_t);
    case MIL_uint32: PACK(uint32_t);
    case MIL_uint64: PACK(uint64_t);
    case MIL_bool: PACK(uint8_t);
    case MIL_fp16:
    case MIL_bf16:
        for (int64_t i = 0; i < count; i++) {
            half = dtype == MIL_fp16 ? fp16_from_f64(source[i]) : bf16_from_f32((float)source[i]);
            memcpy(bytes + 2 * i, &half, 2);
        }
        break;
    default:
        for (int64_t i = 0; i < count && info->bits > 0; i++)
            eval_put_bits(bytes, i, info->bits, (uint64_t)(int64_t)mil_round(dtype, source[i]));
    }
}

/* ---- one op --------------------------------------------------------------------------------------------------------- */

const mil_tensor *mil_eval_in(const mil_eval_args *a, const char *param) {
    const int index = mil_op_param(a->op->info, param);
    return a->op->operands[index].count > 0 ? a->in[index][0] : NULL;
}

static void eval_round_tensor(mil_tensor *t) {
    const int64_t count = mil_type_count(&t->type);
    for (int64_t i = 0; i < count; i++) t->data[i] = mil_round(t->type.dtype, t->data[i]);
}

static propane_status eval_op(const mil_op *op, const mil_tensor *const *const in[MIL_MAX_PARAMS], mil_tensor *out,
                              bool round, arena *memory, propane_error *err) {
    mil_eval_args args = {.op = op, .out = out, .round = round, .memory = memory};
    if (!op->info->eval) return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "%s has no evaluation", op->info->name);
    for (int p = 0; p < op->info->param_count; p++) args.in[p] = in[p];
    PROPANE_TRY(op->info->eval(&args, err));
    for (int k = 0; k < op->result_count; k++)
        if (!mil_dtype_is_float(out[k].type.dtype)) eval_round_tensor(&out[k]);
    return PROPANE_OK;
}

propane_status mil_eval_op(const mil_op *op, const mil_tensor *const *const in[MIL_MAX_PARAMS], mil_tensor *out,
                           propane_error *err) {
    return eval_op(op, in, out, true, NULL, err);
}

/* ---- functions ------------------------------------------------------------------------------------------------------ */

typedef struct runner {
    arena *memory;
    mil_tensor *values; /* by value id; data is NULL until computed */
    bool round;
} runner;

static propane_status eval_allocate(runner *r, mil_tensor *t, const mil_type *type, propane_error *err) {
    const int64_t count = mil_type_count(type);
    t->type = *type;
    t->data = ARENA_ARRAY(r->memory, count > 0 ? count : 1, double);
    return t->data ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof(double));
}

/* Fetches the tensor of a value that is computed already or known at compile time. Strings have no data. */
static propane_status eval_fetch(runner *r, const mil_op *op, const mil_value *v, const mil_tensor **out,
                                 propane_error *err) {
    mil_tensor *t = &r->values[v->id];
    *out = t;
    if (t->data) return PROPANE_OK;
    t->type = v->type;
    if (v->type.dtype == MIL_string) return PROPANE_OK;
    if (!v->constant || !v->constant->data)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "operand '%s' has no value", v->name ? v->name : "literal");
    PROPANE_TRY(eval_allocate(r, t, &v->type, err));
    mil_unpack_f64(t->data, v->type.dtype, v->constant->data, mil_type_count(&v->type));
    return PROPANE_OK;
}

static propane_status eval_run_op(runner *r, const mil_op *op, propane_error *err) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {NULL};
    for (int p = 0; p < op->info->param_count; p++) {
        const int count = op->operands[p].count;
        const mil_tensor **list = ARENA_ARRAY(r->memory, count > 0 ? count : 1, const mil_tensor *);
        if (!list) return propane_fail_memory(err, (size_t)count * sizeof *list);
        for (int k = 0; k < count; k++) PROPANE_TRY(eval_fetch(r, op, op->operands[p].values[k], &list[k], err));
        in[p] = list;
    }
    mil_tensor *out = ARENA_ARRAY(r->memory, op->result_count, mil_tensor);
    if (!out) return propane_fail_memory(err, (size_t)op->result_count * sizeof *out);
    for (int k = 0; k < op->result_count; k++) PROPANE_TRY(eval_allocate(r, &out[k], &op->results[k]->type, err));
    PROPANE_TRY(eval_op(op, in, out, r->round, r->memory, err));
    for (int k = 0; k < op->result_count; k++) {
        if (r->round) eval_round_tensor(&out[k]);
        r->values[op->results[k]->id] = out[k];
    }
    return PROPANE_OK;
}

static bool eval_is_known(const mil_op *op) {
    if (!op->result_count) return false;
    for (int k = 0; k < op->result_count; k++)
        if (!op->results[k]->constant) return false;
    return true;
}

static propane_status eval_take_input(runner *r, const mil_function *f, int index, const mil_tensor *given,
                                      propane_error *err) {
    const mil_value *param = f->params[index];
    char have[160], want[160];
    mil_type as_tensor = mil_type_bare(&param->type); /* a state may also be passed as the tensor that it contains */
    mil_type as_made = given->type;
    if (given->grows) as_made.length = param->type.length;
    if ((!mil_type_equal(&as_made, &param->type) &&
         !(param->type.container == MIL_STATE && mil_type_equal(&given->type, &as_tensor))) ||
        !given->data)
        return propane_fail(err, PROPANE_ERR_INVALID, "input %d of %s is %s%s; parameter '%s' is %s", index, f->name,
                            mil_type_print(have, &given->type), given->data ? "" : " without data", param->name,
                            mil_type_print(want, &param->type));
    r->values[param->id] = *given;
    if (param->type.container != MIL_STATE || f->owner) return PROPANE_OK;
    PROPANE_TRY(eval_allocate(r, &r->values[param->id], &param->type, err));
    memcpy(r->values[param->id].data, given->data, (size_t)mil_type_count(&given->type) * sizeof *given->data);
    return PROPANE_OK;
}

propane_status mil_eval_block(const mil_function *f, const mil_tensor *inputs, bool round, arena *a,
                              mil_tensor **outputs, propane_error *err) {
    runner r = {
        .memory = a, .round = round, .values = ARENA_ARRAY(a, f->value_count > 0 ? f->value_count : 1, mil_tensor)};
    mil_tensor *results = ARENA_ARRAY(a, f->result_count + f->param_count + 1, mil_tensor);
    if (!r.values || !results) return propane_fail_memory(err, (size_t)f->value_count * sizeof *r.values);
    for (int i = 0; i < f->param_count; i++) PROPANE_TRY(eval_take_input(&r, f, i, &inputs[i], err));
    for (const mil_op *op = f->first; op; op = op->next)
        if (!eval_is_known(op)) PROPANE_TRY(eval_run_op(&r, op, err));
    for (int i = 0; i < f->result_count; i++) {
        const mil_tensor *t = NULL;
        PROPANE_TRY(eval_fetch(&r, f->results[i]->def, f->results[i], &t, err));
        results[i] = *t;
    }
    for (int i = 0, n = f->result_count; i < f->param_count; i++)
        if (f->params[i]->type.container == MIL_STATE) results[n++] = r.values[f->params[i]->id];
    *outputs = results;
    return PROPANE_OK;
}

propane_status mil_eval_function(const mil_function *f, const mil_tensor *inputs, bool round, arena *a,
                                 mil_tensor **outputs, propane_error *err) {
    return mil_eval_block(f, inputs, round, a, outputs, err);
}
