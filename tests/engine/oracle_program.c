/* SPDX-License-Identifier: MIT
 * Converts descriptions of published programs to MIL. Weights are those with which the programs were compiled: a weight
 * file read from its first byte, so that the first 64 elements are its header and all others are 0.5.
 */
#include "oracle_program.h"

#include <stdlib.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "oracle_chain.h"
#include "support/test.h"

static const json_t *program_get(const oracle *o, const char *key) {
    return json_object_get(json_object_get(o->json, "mil"), key);
}

static bool program_has(const char *text, const char *part) { return strncmp(text, part, strlen(part)) == 0; }

const char *oracle_class(const oracle *o) {
    const char *op = json_string_value(program_get(o, "op"));
    int64_t groups = json_integer_value(program_get(o, "groups"));
    if (strcmp(op, "chain") == 0) return "chain";
    if (strcmp(op, "conv") == 0)
        return json_integer_value(program_get(o, "stride")) == 2 ? "conv stride 2"
               : groups > 1                                      ? "conv grouped, depthwise"
                                                                 : "conv dense";
    if (strcmp(op, "matmul") == 0) return program_get(o, "weight") ? "matmul constant" : "matmul computed";
    if (program_has(op, "reduce")) return "reduction";
    if (strcmp(op, "softmax") == 0) return "softmax";
    if (strcmp(op, "layer_norm") == 0) return "layer_norm";
    if (program_has(op, "slice") || strcmp(op, "transpose") == 0) return "slice, transpose";
    if (program_get(o, "scalar") || strstr(op, "scalar")) return "scalar";
    if (!program_get(o, "y")) return strstr(op, "add(x") ? "binary" : "unary";
    return json_equal((json_t *)program_get(o, "x"), (json_t *)program_get(o, "y")) ? "binary" : "broadcast";
}

static mil_type program_type(const oracle *o, const char *key) {
    const json_t *list = program_get(o, key);
    int64_t dim[MIL_MAX_RANK];
    int rank = (int)json_array_size(list);
    for (int i = 0; i < rank; i++) dim[i] = json_integer_value(json_array_get(list, (size_t)i));
    return mil_type_tensor(MIL_fp16, rank, dim);
}

static mil_value *program_weight(mil_builder *b, const char *name, mil_type type) {
    int64_t count = mil_type_count(&type);
    uint64_t bytes = 2 * (uint64_t)count;
    uint16_t *data = mem_array((size_t)count + 64, 2);
    for (int64_t i = 64; i < count; i++) data[i] = 0x3800;
    data[0] = 1, data[2] = 2, data[32] = 0xbeef, data[33] = 0xdead, data[38] = 128;
    for (int i = 0; i < 4; i++) data[34 + i] = (uint16_t)(bytes >> 16 * i);
    mil_value *v = mil_build_const(b, name, &type, data);
    mem_free(data);
    return v;
}

typedef struct program_arguments {
    mil_argument list[16];
    mil_value *values[16];
    int count;
} program_arguments;

static void program_add(program_arguments *a, const char *param, mil_value *v) {
    a->values[a->count] = v;
    a->list[a->count] = (mil_argument){param, 1, &a->values[a->count]};
    a->count++;
}

static void program_ints(mil_builder *b, program_arguments *a, const char *param, const int64_t *values, int count) {
    program_add(a, param, mil_build_ints(b, values, count));
}

static const mil_op_info *program_operation(const char *op) { return mil_op_find(op, strcspn(op, " (")); }

static void program_conv(const oracle *o, mil_builder *b, program_arguments *a) {
    mil_type w = program_type(o, "weight");
    int64_t stride = json_integer_value(program_get(o, "stride")), strides[2] = {stride, stride}, outputs = w.dim[0];
    program_add(a, "weight", program_weight(b, "w", w));
    if (json_is_true(program_get(o, "bias")))
        program_add(a, "bias", program_weight(b, "b", mil_type_tensor(MIL_fp16, 1, &outputs)));
    program_ints(b, a, "strides", strides, 2);
    program_add(a, "pad_type", mil_build_text(b, json_string_value(program_get(o, "pad_type"))));
    program_add(a, "groups", mil_build_int(b, (int32_t)json_integer_value(program_get(o, "groups"))));
}

/* Axes that a description leaves open are all but the first. Of two programs with the same such description, the
 * second has only the last axis (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/norm_layer_norm_ax3_1x1x1x64.json has its words). */
static void program_list(const oracle *o, mil_builder *b, program_arguments *a, const char *key, int rank, bool last) {
    const json_t *list = program_get(o, key);
    int64_t values[MIL_MAX_RANK];
    int count = json_is_array(list) ? (int)json_array_size(list) : last ? 1 : rank - 1;
    for (int i = 0; i < count; i++)
        values[i] = json_is_array(list) ? json_integer_value(json_array_get(list, (size_t)i)) : rank - count + i;
    program_ints(b, a, key, values, count);
}

static void program_attributes(const oracle *o, mil_builder *b, program_arguments *a, mil_opcode code, int rank) {
    static const char *const flags[] = {"transpose_x", "transpose_y", "keep_dims"};
    for (int i = 0; i < 3; i++)
        if (program_get(o, flags[i]))
            program_add(a, flags[i], mil_build_bool(b, json_is_true(program_get(o, flags[i]))));
    if (program_get(o, "axis"))
        program_add(a, "axis", mil_build_int(b, (int32_t)json_integer_value(program_get(o, "axis"))));
    if (program_get(o, "axes")) program_list(o, b, a, "axes", rank, strstr(o->id, "formB") != NULL);
    if (program_get(o, "perm")) program_list(o, b, a, "perm", rank, false);
    if (program_get(o, "epsilon"))
        program_add(a, "epsilon", mil_build_scalar(b, MIL_fp32, json_number_value(program_get(o, "epsilon"))));
    if (code == MIL_OP_rsqrt) program_add(a, "epsilon", mil_build_scalar(b, MIL_fp32, 1e-6));
    if (code == MIL_OP_leaky_relu) program_add(a, "alpha", mil_build_scalar(b, MIL_fp32, 0.125));
    if (code == MIL_OP_slice_by_index) {
        const int64_t begin[4] = {0, 0, 0, 0};
        mil_type out = program_type(o, "out");
        program_ints(b, a, "begin", begin, 4);
        program_ints(b, a, "end", out.dim, 4);
    }
}

/* Some groups of programs name the result before x, others between x and the second operand. */
static const char *program_result_name(const oracle *o, mil_opcode code) {
    bool early = code == MIL_OP_matmul || program_has(o->id, "chain_");
    return early ? "product" : "y";
}

mil_module *oracle_program(const oracle *o, propane_error *err) {
    const char *op = json_string_value(program_get(o, "op"));
    program_arguments a = {0};
    mil_builder b = {0};
    const mil_op_info *info = program_operation(op);
    if (strcmp(op, "chain") == 0) return oracle_chain(o, err);
    if (!info) { /* MIL has no such operation */
        propane_fail(err, PROPANE_ERR_UNSUPPORTED, "'%s' is not one operation", op);
        return NULL;
    }
    mil_module *m = mil_module_create(o->id);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_type type = program_type(o, "x");
    bool clamp = strstr(op, "relu(x)") != NULL && program_has(op, "add");
    mil_opcode code = clamp ? MIL_OP_add : info->code;
    mil_value *x = mil_build_param(&b, "x", type), *y = NULL;
    program_add(&a, "x", x);
    if (clamp) y = mil_build_unary(&b, MIL_OP_relu, x);
    if (program_get(o, "y"))
        y = mil_build_param(&b,
                            code == MIL_OP_matmul          ? "w"
                            : program_has(o->id, "chain_") ? "y"
                                                           : "z",
                            program_type(o, "y"));
    if (code == MIL_OP_matmul && !y) y = program_weight(&b, "w", program_type(o, "weight"));
    if (program_get(o, "scalar")) y = mil_build_scalar(&b, MIL_fp16, json_number_value(program_get(o, "scalar")));
    if (strstr(op, " scalar")) y = mil_build_scalar(&b, MIL_fp16, strtod(strstr(op, "scalar") + 6, NULL));
    if (y) program_add(&a, "y", y);
    if (code == MIL_OP_conv) program_conv(o, &b, &a);
    program_attributes(o, &b, &a, code, type.rank);
    mil_op *last = mil_build_op(&b, code, program_result_name(o, code), a.list, a.count);
    if (last) mil_build_result(&b, last->results[0]);
    if (mil_build_end(&b, err) == PROPANE_OK) return m;
    mil_module_free(m);
    return NULL;
}
