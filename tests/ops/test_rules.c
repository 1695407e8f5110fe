/* SPDX-License-Identifier: MIT
 * Type and shape rules: the types of results, and each refusal with its message. Lines are in the language of
 * tests/support/op_cases.c.
 */
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "support/op_cases.h"
#include "support/test.h"

typedef struct shape_case {
    mil_opcode code;
    const char *line;
    const char *types; /* of the results, one after the other */
} shape_case;

static const shape_case good[] = {
    {MIL_OP_const, "val=$[2,3]", "tensor<fp32, [2, 3]>"},
    {MIL_OP_constexpr_affine_dequantize, "quantized_data=int8[4,3] zero_point=int8(0) scale=fp16(0.5) axis=0",
     "tensor<fp16, [4, 3]>"},
    {MIL_OP_add, "x=[] y=[]", "fp32"},
    {MIL_OP_add, "x=[2,1,3] y=[4,1]", "tensor<fp32, [2, 4, 3]>"},
    {MIL_OP_less, "x=[5] y=[2,5]", "tensor<bool, [2, 5]>"},
    {MIL_OP_logical_and, "x=[5] y=[2,1]", "tensor<bool, [2, 5]>"},
    {MIL_OP_select, "cond=[2,1] a=[3] b=[4,1,1]", "tensor<fp32, [4, 2, 3]>"},
    {MIL_OP_cast, "x=[2] dtype=uint16", "tensor<uint16, [2]>"},
    {MIL_OP_reduce_sum, "x=[2,3,4]", "fp32"},
    {MIL_OP_reduce_sum, "x=[2,3,4] keep_dims=true", "tensor<fp32, [1, 1, 1]>"},
    {MIL_OP_reduce_max, "x=[2,3,4] axes=[-1,0]", "tensor<fp32, [3]>"},
    {MIL_OP_reduce_max, "x=[2,3,4] axes=[1] keep_dims=true", "tensor<fp32, [2, 1, 4]>"},
    {MIL_OP_reduce_argmax, "x=[2,3,4] axis=1", "tensor<int32, [2, 4]>"},
    {MIL_OP_reduce_argmin, "x=[2,3,4] keep_dims=true output_dtype=uint16", "tensor<uint16, [2, 3, 1]>"},
    {MIL_OP_matmul, "x=[5] y=[5]", "fp32"},
    {MIL_OP_matmul, "x=[4] y=[10,4,3]", "tensor<fp32, [10, 3]>"},
    {MIL_OP_matmul, "x=[10,3,4] y=[4]", "tensor<fp32, [10, 3]>"},
    {MIL_OP_matmul, "x=[10,4,3] y=[5,10,3,2]", "tensor<fp32, [5, 10, 4, 2]>"},
    {MIL_OP_matmul, "x=[3,4] y=[5,4] transpose_y=true", "tensor<fp32, [3, 5]>"},
    {MIL_OP_linear, "x=[2,3,5] weight=[7,5]", "tensor<fp32, [2, 3, 7]>"},
    {MIL_OP_conv, "x=[2,3,10] weight=[4,3,3] strides=[2] dilations=[2]", "tensor<fp32, [2, 4, 3]>"},
    {MIL_OP_conv, "x=[1,3,7,8] weight=[4,3,3,2] pad_type=same strides=[2,3]", "tensor<fp32, [1, 4, 4, 3]>"},
    {MIL_OP_conv, "x=[1,2,3,4,5] weight=[6,1,3,1,2] groups=2 pad_type=custom pad=[1,1,0,0,2,0]",
     "tensor<fp32, [1, 6, 3, 4, 6]>"},
    {MIL_OP_einsum, "values=[2,3]|[3,4]|[4,5] equation=ab,bc,cd->da", "tensor<fp32, [5, 2]>"},
    {MIL_OP_einsum, "values=[3,3] equation=ii->", "fp32"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,4,3,8] key=[2,4,5,8] value=[2,4,5,6]",
     "tensor<fp32, [2, 4, 3, 6]>"},
    {MIL_OP_reshape, "x=[2,3,4] shape=[0,-1]", "tensor<fp32, [3, 8]>"},
    {MIL_OP_reshape, "x=[2,3] shape=[1,0,-1,0]", "tensor<fp32, [1, 1, 2, 3]>"},
    {MIL_OP_reshape, "x=[2,3,4] shape=[0,-1,2]", "tensor<fp32, [2, 6, 2]>"},
    {MIL_OP_transpose, "x=[2,3,4] perm=[2,-3,1]", "tensor<fp32, [4, 2, 3]>"},
    {MIL_OP_expand_dims, "x=[2,3] axes=[-1,1]", "tensor<fp32, [2, 1, 3, 1]>"},
    {MIL_OP_squeeze, "x=[1,2,1]", "tensor<fp32, [2]>"},
    {MIL_OP_squeeze, "x=[1,2,1] axes=[1,2]", "tensor<fp32, [1, 2]>"},
    {MIL_OP_squeeze, "x=[1,1]", "fp32"},
    {MIL_OP_slice_by_size, "x=[5,6] begin=[-3,2] size=[2,-1]", "tensor<fp32, [2, 4]>"},
    {MIL_OP_slice_by_index, "x=[5,6] begin=[0,5] end=[99,1] stride=[2,-2]", "tensor<fp32, [3, 2]>"},
    {MIL_OP_slice_by_index, "x=[5,6] begin=[4,0] end=[0,0] squeeze_mask=[true,false] end_mask=[false,true]",
     "tensor<fp32, [6]>"},
    {MIL_OP_split, "x=[2,6] split_sizes=[1,5] axis=-1", "tensor<fp32, [2, 1]> tensor<fp32, [2, 5]>"},
    {MIL_OP_split, "x=[6] num_splits=3 axis=0", "tensor<fp32, [2]> tensor<fp32, [2]> tensor<fp32, [2]>"},
    {MIL_OP_concat, "values=[2,3]|[2,4] axis=1", "tensor<fp32, [2, 7]>"},
    {MIL_OP_concat, "values=[]|[] axis=-1", "tensor<fp32, [2]>"},
    {MIL_OP_stack, "values=[2,3]|[2,3] axis=-1", "tensor<fp32, [2, 3, 2]>"},
    {MIL_OP_tile, "x=[2,3] reps=[2,1]", "tensor<fp32, [4, 3]>"},
    {MIL_OP_pad, "x=[2,3] pad=[1,2]", "tensor<fp32, [2, 6]>"},
    {MIL_OP_gather, "x=[5,6,7] indices=[2,3]~index:6 axis=1", "tensor<fp32, [5, 2, 3, 7]>"},
    {MIL_OP_gather, "x=[5,6,7] indices=[5,3]~index:7 axis=2 batch_dims=1", "tensor<fp32, [5, 6, 3]>"},
    {MIL_OP_gather, "x=[5,6,7] indices=[]~index:5", "tensor<fp32, [6, 7]>"},
    {MIL_OP_one_hot, "indices=[2,3]~below:4 one_hot_vector_size=4 axis=1", "tensor<int32, [2, 4, 3]>"},
    {MIL_OP_upsample_nearest_neighbor, "x=[1,3,6,10] scale_factor_height=fp32(2.3) scale_factor_width=fp32(2.3)",
     "tensor<fp32, [1, 3, 13, 23]>"},
    {MIL_OP_upsample_bilinear, "x=[1,3,6,10] scale_factor_width=fp32(1.7)", "tensor<fp32, [1, 3, 6, 17]>"},
    {MIL_OP_fill, "shape=[2,3]", "tensor<fp32, [2, 3]>"},
    {MIL_OP_fill, "shape=[2] value=bool(1)", "tensor<bool, [2]>"},
    {MIL_OP_quantize, "input=[2,3] scale=$(0.5) output_dtype=uint8", "tensor<uint8, [2, 3]>"},
    {MIL_OP_dequantize, "input=int8[2,3] scale=fp16(0.5)", "tensor<fp16, [2, 3]>"},
};

TEST(results_have_the_right_types) {
    for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
        propane_error err = {0};
        op_case *c = op_case_make(good[k].code, MIL_fp32, good[k].line, 1, &err);
        if (!good[k].types) {
            EXPECT_MSG(c == NULL, "%s was taken", good[k].line);
            continue;
        }
        if (!c) ck_abort_msg("%s", err.text);
        char have[400] = "", type[160];
        for (int r = 0; r < c->op->result_count; r++)
            snprintf(have + strlen(have), sizeof have - strlen(have), "%s%s", r ? " " : "",
                     mil_type_print(type, &c->op->results[r]->type));
        EXPECT_MSG(!strcmp(have, good[k].types), "%s: got %s, want %s", c->label, have, good[k].types);
        op_case_free(c);
    }
}

typedef struct bad_case {
    mil_opcode code;
    const char *line, *message;
} bad_case;

static const bad_case bad[] = {
    {MIL_OP_add, "x=[2,3] y=[4]", "x [2, 3] and y [4] cannot be broadcast: dimension -1 is 3 and 4"},
    {MIL_OP_add, "x=[2,3] y=int32[3]", "one element type"},
    {MIL_OP_less, "x=[2,3] y=[3,3]", "dimension -2 is 2 and 3"},
    {MIL_OP_select, "cond=[2] a=[3] b=[3]", "cond [2] and a and b [3]"},
    {MIL_OP_select, "cond=[3] a=[2] b=[3]", "a [2] and b [3]"},
    {MIL_OP_gelu, "x=[2] mode=FAST", "mode is \"FAST\""},
    {MIL_OP_cast, "x=[2] dtype=fp8", "dtype is \"fp8\""},
    {MIL_OP_cast, "x=[2] dtype=string", "dtype is \"string\""},
    {MIL_OP_reduce_sum, "x=[2,3] axes=[2]", "axes is 2, but a tensor of rank 2 has axes -2 to 1"},
    {MIL_OP_reduce_sum, "x=[2,3] axes=[1,-1]", "axes names dimension 1 twice"},
    {MIL_OP_reduce_sum, "x=[] axes=[0]", "a scalar has no axes"},
    {MIL_OP_reduce_argmax, "x=[2] output_dtype=int8", "output_dtype is \"int8\""},
    {MIL_OP_reduce_argmax, "x=[2] axis=-3", "axis is -3"},
    {MIL_OP_softmax, "x=[2,3] axis=2", "axis is 2"},
    {MIL_OP_cumsum, "x=[2,3] axis=5", "axis is 5"},
    {MIL_OP_layer_norm, "x=[2,3] axes=[1] gamma=[2]", "gamma is [2]; it must be [3]"},
    {MIL_OP_layer_norm, "x=[2,3] axes=[1] beta=[3,1]", "beta is [3, 1]; it must be [3]"},
    {MIL_OP_batch_norm, "x=[2,3] mean=[3] variance=[3]", "rank 3 to 5"},
    {MIL_OP_batch_norm, "x=[2,3,4] mean=[4] variance=[3]", "mean is [4]; it must be [3]"},
    {MIL_OP_instance_norm, "x=[1,2,3,4,5,6]", "rank 3 to 5"},
    {MIL_OP_l2_norm, "x=[2,3]", "last three dimensions"},
    {MIL_OP_matmul, "x=[2,3] y=[4,5]", "x [2, 3] has 3 columns, but y [4, 5] has 4 rows"},
    {MIL_OP_matmul, "x=[2,3] y=[3,5] transpose_x=true", "x [2, 3] transposed has 2 columns"},
    {MIL_OP_matmul, "x=[] y=[3,5]", "x is a scalar"},
    {MIL_OP_matmul, "x=[3] y=[3,5] transpose_x=true", "x is a vector"},
    {MIL_OP_matmul, "x=[2,3,4] y=[3,4,5]", "batch dimension 0"},
    {MIL_OP_linear, "x=[2,3] weight=[5,4]", "weight has 4 inputs"},
    {MIL_OP_linear, "x=[2,3] weight=[5,3] bias=[3]", "bias is [3]; it must be [5]"},
    {MIL_OP_linear, "x=[2,3] weight=[3]", "[outputs, inputs]"},
    {MIL_OP_conv, "x=[2,3] weight=[5,3]", "x is [2, 3]"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,2,1]", "weight has 2 input channels, but x has 3 in 1 groups"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1,1]", "weight has rank 4"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,5]",
     "spatial dimension 0 has 4 elements with padding, fewer than the kernel's 5"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] strides=[0]", "strides[0] is 0"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] dilations=[1,1]", "dilations has 2 entries"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] groups=2", "groups is 2"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] pad_type=full", "pad_type is \"full\""},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] pad_type=custom pad=[1]", "pad has 1 entries; 1 spatial dimensions need 2"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] pad_type=custom pad=[0,-1]", "pad[1] is -1"},
    {MIL_OP_conv, "x=[1,3,4] weight=[5,3,1] bias=[1]", "bias is [1]; it must be [5]"},
    {MIL_OP_einsum, "values=[2,3]|[3,4] equation=ij,jk", "no \"->\""},
    {MIL_OP_einsum, "values=[2,3]|[4,5] equation=ij,jk->ik", "'j' is 3 and 4"},
    {MIL_OP_einsum, "values=[2,3]|[3,5] equation=ij,jk->iz", "no operand has the result's 'z'"},
    {MIL_OP_einsum, "values=[2,3]|[3,5] equation=ij->i", "one term for each of the 2 values"},
    {MIL_OP_einsum, "values=[2,3]|[3,5] equation=ij,j->i", "1 letters for operand 1 of rank 2"},
    {MIL_OP_einsum, "values=[2,3] equation=ij->ii", "names 'i' twice"},
    {MIL_OP_einsum, "values=[2,3] equation=i.->i", "'.' is not a letter"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,3] key=[2,3] value=[2,3]", "at least 3"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,3,4] key=[2,5,6] value=[2,5,4]",
     "query has 4 features, but key has 6"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,3,4] key=[2,5,4] value=[2,6,4]",
     "key has 5 positions, but value has 6"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,3,4] key=[3,5,4] value=[1,5,4]", "batch dimension 0"},
    {MIL_OP_matmul, "x=int32[2,3] y=fp16[3,2]", "one must be a constant"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,3,4] key=[2,5,4] value=[2,5,4] attn_mask=bool[4,5]",
     "attn_mask [4, 5] cannot"},
    {MIL_OP_scaled_dot_product_attention, "query=[2,3,4] key=[2,5,4] value=[2,5,4] attn_mask=int32[3,5]",
     "attn_mask is int32"},
    {MIL_OP_reshape, "x=[2,3] shape=[4,2]", "x [2, 3] has 6 elements, which do not fit shape [4, 2]"},
    {MIL_OP_reshape, "x=[2,3] shape=[-1,-1]", "-1 more than once"},
    {MIL_OP_reshape, "x=[2,3] shape=[0,3,1]", "do not fit shape"},
    {MIL_OP_reshape, "x=[2,3] shape=[-2,3]", "shape[0] is -2"},
    {MIL_OP_reshape, "x=[2,3] shape=[2000000000,2000000000,-1]", "2^40"},
    {MIL_OP_transpose, "x=[2,3] perm=[0]", "perm has 1 entries"},
    {MIL_OP_transpose, "x=[2,3] perm=[1,-1]", "perm names dimension 1 twice"},
    {MIL_OP_expand_dims, "x=[2,3] axes=[3]", "axes is 3"},
    {MIL_OP_expand_dims, "x=[1,1,1,1,1,1,1] axes=[0,1]", "rank 9"},
    {MIL_OP_squeeze, "x=[2,1] axes=[2]", "axes is 2"},
    {MIL_OP_slice_by_size, "x=[5] begin=[3] size=[3]", "begin[0] 3 and size[0] 3 end beyond dimension 0"},
    {MIL_OP_slice_by_size, "x=[5] begin=[5] size=[-1]", "begin[0] is 5"},
    {MIL_OP_slice_by_size, "x=[5] begin=[0] size=[-2]", "size[0] is -2"},
    {MIL_OP_slice_by_size, "x=[5] begin=[0,0] size=[1]", "begin has 2 entries"},
    {MIL_OP_slice_by_index, "x=[5] begin=[0] end=[3] stride=[0]", "stride[0] is 0"},
    {MIL_OP_slice_by_index, "x=[5] begin=[-6] end=[3] squeeze_mask=[true]", "begin[0] is -6"},
    {MIL_OP_slice_by_index, "x=[5] begin=[0] end=[3] end_mask=[true,false]", "end_mask has 2 entries"},
    {MIL_OP_split, "x=[5] num_splits=2 axis=0", "num_splits 2 does not divide dimension 0"},
    {MIL_OP_split, "x=[5] split_sizes=[2,2] axis=0", "split_sizes add up to 4"},
    {MIL_OP_split, "x=[5] split_sizes=[2,4] axis=0", "split_sizes[1] is 4, with 3 elements left"},
    {MIL_OP_split, "x=[5] split_sizes=[2,3] num_splits=3 axis=0", "num_splits is 3, but split_sizes has 2"},
    {MIL_OP_split, "x=[5] axis=0", "num_splits or split_sizes is required"},
    {MIL_OP_concat, "values=[2,3]|[3,3] axis=1",
     "values[1] is [3, 3], which differs from values[0] [2, 3] not only in dimension 1"},
    {MIL_OP_concat, "values=[2,3]|int32[2,3] axis=1", "values[1] is int32"},
    {MIL_OP_concat, "values=[2,3]|[2,4] axis=1 interleave=true", "values[1] is [2, 4]"},
    {MIL_OP_concat, "values=[2]|[3] axis=1", "axis is 1"},
    {MIL_OP_stack, "values=[2]|[3] axis=0", "values[1] is [3], but values[0] is [2]"},
    {MIL_OP_stack, "values=[2]|[2] axis=2", "axis is 2"},
    {MIL_OP_tile, "x=[2] reps=[-1]", "reps[0] is -1; it must not be negative"},
    {MIL_OP_tile, "x=[2,2] reps=[2]", "reps has 1 entries"},
    {MIL_OP_tile, "x=[2,2] reps=[2000000000,2000000000]", "2^40"},
    {MIL_OP_pad, "x=[2] pad=[1]", "pad has 1 entries"},
    {MIL_OP_pad, "x=[2] pad=[1,1,1,1]", "at most 2 for rank 1"},
    {MIL_OP_pad, "x=[2] pad=[-1,0]", "pad[0] is -1"},
    {MIL_OP_pad, "x=[2] pad=[0,2] mode=reflect", "allows at most 1"},
    {MIL_OP_pad, "x=[2] pad=[0,2] mode=wrap", "mode is \"wrap\""},
    {MIL_OP_gather, "x=[2,3] indices=[4]~index:2 axis=2", "axis is 2"},
    {MIL_OP_gather, "x=[2,3] indices=[3,1]~index:3 axis=1 batch_dims=1",
     "batch dimension 0 is 2 in x and 3 in indices"},
    {MIL_OP_gather, "x=[2,3] indices=[2,1]~index:2 axis=0 batch_dims=1", "batch_dims is 1"},
    {MIL_OP_one_hot, "indices=[2]~below:2 one_hot_vector_size=0", "one_hot_vector_size is 0"},
    {MIL_OP_one_hot, "indices=[2]~below:2 one_hot_vector_size=2 on_value=fp32(1) off_value=fp16(0)",
     "on_value is fp32"},
    {MIL_OP_one_hot, "indices=[2]~below:2 one_hot_vector_size=2 on_value=fp32[2]", "it must be one number"},
    {MIL_OP_band_part, "x=[5]", "band_part takes matrices"},
    {MIL_OP_fill, "shape=[2,-1]", "dimension 1 of the result would be -1"},
    {MIL_OP_quantize, "input=[4] scale=$(1) output_dtype=int32", "output_dtype is \"int32\""},
    {MIL_OP_quantize, "input=[4] scale=$(1) zero_point=uint8(3) output_dtype=int8", "zero_point is uint8"},
    {MIL_OP_quantize, "input=[4] scale=fp16(1) output_dtype=int8", "scale is fp16, but input is fp32"},
    {MIL_OP_quantize, "input=[4] scale=$[4]~positive output_dtype=int8", "axis is missing"},
    {MIL_OP_dequantize, "input=int8[4] scale=fp32[3] axis=0", "scale has 3 entries, but dimension 0 has 4"},
    {MIL_OP_dequantize, "input=int8[4] scale=int32(3)", "scale is int32"},
    {MIL_OP_dequantize, "input=int8[4] scale=fp32(3) zero_point=uint8(1)", "zero_point is uint8, but input is int8"},
    {MIL_OP_constexpr_affine_dequantize, "quantized_data=fp32[4] zero_point=int8(0) scale=fp32(1) axis=0",
     "quantized_data is fp32"},
};

TEST(wrong_shapes_are_refused_with_a_reason) {
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        propane_error err = {0};
        const char *name = mil_op_get(bad[k].code)->name;
        op_case *c = op_case_make(bad[k].code, MIL_fp32, bad[k].line, 1, &err);
        EXPECT_MSG(c == NULL, "%s was taken: %s", name, bad[k].line);
        EXPECT_MSG(err.status != PROPANE_OK && strstr(err.text, bad[k].message), "%s: %s: got '%s', want '...%s...'",
                   name, bad[k].line, err.text, bad[k].message);
        EXPECT_MSG(strstr(err.text, name) != NULL, "the message does not name %s: %s", name, err.text);
    }
}

/* Its second result is a dictionary, so it is printed as text. */
TEST(classify_gives_a_label_and_a_dictionary) {
    static const char *const endings[] = {"[\"cat\", \"dog\"]", "[\"cat\", \"dog\", \"fox\"]"};
    for (int k = 0; k < 2; k++) {
        propane_error err = {0};
        mil_module *m = NULL;
        char program[700];
        snprintf(program, sizeof program,
                 "program(1.3)\n{\n    func main<ios15>(tensor<fp32, [1, 2]> x) {\n"
                 "        list<string, %d> names = const()[name = string(\"names\"), val = list<string, %d>(%s)];\n"
                 "        string label, dict<string, fp64> all = classify(classes = names, probabilities = x)"
                 "[name = string(\"c\")];\n    } -> (label, all);\n}\n",
                 k + 2, k + 2, endings[k]);
        const propane_status status = mil_parse(program, strlen(program), "c.mil", NULL, &m, &err);
        if (k == 0) EXPECT_MSG(status == PROPANE_OK, "%s", err.text);
        if (k == 1) EXPECT_MSG(strstr(err.text, "3 classes for 2 probabilities"), "%s", err.text);
        mil_module_free(m);
    }
}

/* 10 * 2.3 is 23 in fp32 and 22.9999995 in double. Packages have been written with either size, but not with others. */
TEST(upsampled_sizes_are_rounded_as_declared) {
    for (int width = 21; width <= 24; width++) {
        propane_error err = {0};
        mil_module *m = NULL;
        char program[700];
        snprintf(program, sizeof program,
                 "program(1.3)\n{\n    func main<ios17>(tensor<fp32, [1, 1, 2, 10]> x) {\n"
                 "        fp32 f = const()[name = string(\"f\"), val = fp32(2.3)];\n"
                 "        tensor<fp32, [1, 1, 2, %d]> y = upsample_nearest_neighbor(x = x, scale_factor_width = f)"
                 "[name = string(\"y\")];\n    } -> (y);\n}\n",
                 width);
        const propane_status status = mil_parse(program, strlen(program), "u.mil", NULL, &m, &err);
        EXPECT_MSG((status == PROPANE_OK) == (width == 22 || width == 23), "%d: %s", width, err.text);
        mil_module_free(m);
    }
}

SUITE("ops/rules", T(results_have_the_right_types), T(wrong_shapes_are_refused_with_a_reason),
      T(classify_gives_a_label_and_a_dictionary), T(upsampled_sizes_are_rounded_as_declared))
