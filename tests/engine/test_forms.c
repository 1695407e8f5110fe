/* SPDX-License-Identifier: MIT
 * Words of published programs that h13_oracles.jsonl does not contain and that distinguish one rule from another:
 * places on chip, patches, flags. The rows are facts of single files, joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/NAME.json (Apple's compiler of macOS 26.6.2); "-" replaces words that add nothing.
 */
#include <stdlib.h>

#include "ane/h13/compile.h"
#include "core/base/memory.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"
#include "support/test.h"

enum { HEADER = 1 }; /* not a register's address: the words are the task's header */

typedef struct form_words {
    int task;
    uint32_t address;
    const char *words;
} form_words;

typedef struct form {
    const char *name, *parameters, *body;
    int tasks;
    form_words rows[8];
} form;

#define SUM(out)                                                                                                       \
    "tensor<int32, [1]> a = const()[name = string(\"a\"), val = tensor<int32, [1]>([3])];"                             \
    "tensor<fp16, " out "> y = reduce_sum(x = x, axes = a, keep_dims = true)[name = string(\"y\")];"
#define CHANNELS                                                                                                       \
    "tensor<int32, [1]> a = const()[name = string(\"a\"), val = tensor<int32, [1]>([1])];"                             \
    "tensor<fp16, [1, 1, 8, 8]> y = reduce_sum(x = x, axes = a, keep_dims = true)[name = string(\"y\")];"
#define MAXIMUM(out)                                                                                                   \
    "tensor<int32, [1]> a = const()[name = string(\"a\"), val = tensor<int32, [1]>([2])];"                             \
    "tensor<fp16, " out "> y = reduce_max(x = x, axes = a, keep_dims = true)[name = string(\"y\")];"
#define NORM(shape)                                                                                                    \
    "tensor<int32, [3]> a = const()[name = string(\"a\"), val = tensor<int32, [3]>([1, 2, 3])];"                       \
    "tensor<fp16, " shape "> y = layer_norm(x = x, axes = a, epsilon = fp32(1e-5))[name = string(\"y\")];"
#define PRODUCT                                                                                                        \
    "tensor<fp16, [64, 64]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = true)[name = string(\"y\")];"
#define CONV(outputs, inputs, kernel, groups, shape)                                                                   \
    "tensor<fp16, [" outputs ", " inputs ", " kernel ", " kernel "]> w = fill(shape = tensor<int32, [4]>([" outputs    \
    ", " inputs ", " kernel ", " kernel "]), value = fp16(0.5))[name = string(\"w\")];"                                \
    "tensor<int32, [2]> one = const()[name = string(\"one\"), val = tensor<int32, [2]>([1, 1])];"                      \
    "tensor<fp16, " shape "> y = conv(x = x, weight = w, strides = one, pad_type = string(\"same\"), "                 \
    "pad = tensor<int32, [4]>([0, 0, 0, 0]), dilations = one, groups = int32(" groups "))[name = string(\"y\")];"
#define OPERATION(op, shape) "tensor<fp16, " shape "> y = " op "(x = x, y = z)[name = string(\"y\")];"

static const form forms[] = {
    {"reduce_probe_sum_ax3_1x1x1x512",
     "tensor<fp16, [1, 1, 1, 512]> x",
     SUM("[1, 1, 1, 1]"),
     1,
     {{0, 0x0, "40080"}, {0, 0x2c, "26"}, {0, 0x480c, "80 80 80 80"}, {0, 0x4834, "200"}}},
    {"reduce_probe_sum_ax3_1x8x1x128",
     "tensor<fp16, [1, 8, 1, 128]> x",
     SUM("[1, 8, 1, 1]"),
     1,
     {{0, 0x0, "40020"},
      {0, 0x2c, "25"},
      {0, 0x480c, "40 210 200 200"},
      {0, 0x4834, "840"},
      {0, 0x1380c, "40 100 800"}}},
    {"reduce_probe_max_ax2_1x64x8x8",
     "tensor<fp16, [1, 64, 8, 8]> x",
     MAXIMUM("[1, 64, 1, 8]"),
     3,
     {{0, HEADER, "0 7d0000 408 0 68 0 10000800 200 4800024"},
      {0, 0x28, "40 0 0 101c4401"},
      {0, 0x4808, "2400 10 80 80 80 0 0 0 0 0 500170 0 10 90 80"},
      {1, HEADER, "1000001 7d0001 400 0 fff800 0 0 400 800000"},
      {1, 0x4804, "120 0 90 80 80 10 0 0 0 0 0 140 2400 10 2000 400 400"},
      {2, HEADER, "3000002 0 422 0 6a 0 20009000 0 4025000"},
      {2, 0x28, "10 0 0 101c4401"},
      {2, 0x4804, "400100 2400 400 10 400 0 0 0 0 0 0 14a 4400 0 0 0 0"}}},
    {"reduce_sum_axes_1",
     "tensor<fp16, [1, 64, 8, 8]> x",
     CHANNELS,
     2,
     {{0, HEADER, "0 7d0000 408 0 68 0 10000800 200 4800024"},
      {0, 0x0, "80008 1 22 40 40 80008 1 - - 14001 8 0 0 101b0001 100000"},
      {0, 0x4804, "500172 2100 10 430 400 400 0 0 0 0 0 500170 0 80 420 400 0"},
      {1, HEADER, "3000001 0 422 0 fff86a 0 20009000 0 25000"},
      {1, 0x0, "10040 1 22 8 8 10040 1 - - 10008 1 6 400 51"},
      {1, 0x4804, "120 0 80 400 400 420 0 0 0 0 0 141 2100 10 80 10 0"},
      {1, 0x17800, "c1 0 200 200 200 40 1302031"}}},
    {"norm_layer_norm_ax1_2_3_1x64x1x1",
     "tensor<fp16, [1, 64, 1, 1]> x",
     NORM("[1, 64, 1, 1]"),
     3,
     {{0, HEADER, "0 7d0000 408 0 fff868 0 10000900 200 800024"},
      {0, 0x0, "400001 1 22 1 1 400001 1 - - 10001 20 54 0 51"},
      {0, 0x4804, "500171 40 10 20 10 10 0 0 0 0 0 500170 0 10 20 10"},
      {1, 0x28, "40 44 2 61"},
      {1, 0x4804, "400100 0 10 20 10 0 40 10 20 10 0 140 20 10 20 10"},
      {2, 0x13800, "33b01 8880 0 40 40 1000 1000"},
      {2, 0x4804, "400142 40 10 420 400 400 0 10 20 10 0 14a 460"}}},
    {"norm_layer_norm_ax1_2_3_1x4096x1x1",
     "tensor<fp16, [1, 4096, 1, 1]> x",
     NORM("[1, 4096, 1, 1]"),
     3,
     {{0, HEADER, "0 7d0007"},
      {0, 0x880c, "39800000"},
      {0, 0x13800, "3bb81 8880 0 40 40000 40 40000"},
      {2, HEADER, "3000002 12 422 0 fff86a 0 30009000 0 25024"},
      {2, 0x28, "1 4 80 41"},
      {2, 0x4804, "400142 40 10 10020 10000 10000 0 10 20 10 0 14a 10060"}}},
    {"binary_real_div_c512_constant_scalar",
     "tensor<fp16, [1, 512, 1, 1]> x",
     "tensor<fp16, [1, 512, 1, 1]> y = real_div(x = x, y = fp16(0.5))[name = string(\"y\")];",
     2,
     {{0, 0x4808, "840 100 100 100 100 0 0 0 0 0 500170 0 400 420 400"},
      {1, 0x4808, "840 10 2020 2000 2000 0 400 420 400 0 14a 2860"}}},
    {"env_bcast_mul_1x96x8x8_runtime_1x1x8x8",
     "tensor<fp16, [1, 96, 8, 8]> x, tensor<fp16, [1, 1, 8, 8]> z",
     OPERATION("mul", "[1, 96, 8, 8]"),
     2,
     {{0, 0x4808, "100 10 30 10 10 0 0 0 0 0 500170 0 10 20 10"},
      {1, 0x4808, "100 10 610 600 600 0 10 20 10 0 14a 3180"}}},
    {"rrmm_r2rr_m64_k128_n64_tx0_ty1",
     "tensor<fp16, [64, 128]> x, tensor<fp16, [64, 128]> w",
     PRODUCT,
     3,
     {{1, 0x4804, "172 4800 100 4000"}, {1, 0x4830, "400170 0 90 4800"}}},
    {"rrmm_r2rr_m64_k64_n64_tx0_ty1",
     "tensor<fp16, [64, 64]> x, tensor<fp16, [64, 64]> w",
     PRODUCT,
     3,
     {{1, 0x4804, "172 2400 80 2000"}, {1, 0x4830, "400170 0 90 2400"}}},
    {"rrmm_r2rr_m256_k64_n64_tx0_ty0",
     "tensor<fp16, [256, 64]> x, tensor<fp16, [64, 64]> w",
     "tensor<fp16, [256, 64]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = false)"
     "[name = string(\"y\")];",
     3,
     {{0, 0x0, "10040 1 22 100 100 10040 1 5000a021 2041 14001 1 0 0 200001 100000"},
      {0, 0x4804, "500172 0 80 8000 8000 8000 0 0 0 0 0 50087a 8000 0 0 0 0"},
      {0, 0x17800, "40003c1 0 400 400 8000 8000 8302031"},
      {1, HEADER, "1000001 9d0001 400 0 fff800 0 31000800 500"},
      {1, 0x4804, "171 0 80 2000 2000 2000 0 0 0 0 0 17a 2000 0 0 0 0"},
      {1, 0x17800, "40000c1 4000 8000 80 8000 8000 1302031"},
      {2, HEADER, "3000002 0 422 0 fff86a 0 21009000 0"},
      {2, 0x4804, "100 0 80 2000 2000 0 0 0 0 0 0 14a 2000 0 0 0 0"}}},
    {"batched/bmm_r3rr_m375_k128_n749_tx1_ty0_b8",
     "tensor<fp16, [8, 128, 375]> x, tensor<fp16, [8, 128, 749]> w",
     "tensor<fp16, [8, 375, 749]> y = matmul(x = x, y = w, transpose_x = true, transpose_y = false)"
     "[name = string(\"y\")];",
     209,
     {{0, 0x0, "80177 1 22 80 80 80177 1 5000a021 2041 14001 8 0 0 10200001 100000"},
      {0, 0x4804, "500172 0 100 8000 8000 8000 0 0 0 0 0 500172 40000 100 17700 17700 17700"},
      {0, 0x17800, "3c1 0 100 800 bb800 bb800 1302031"},
      {1, 0x1380c, "30000 600 180000 180000"},
      {1, 0x4804, "171 0 5e0 2f000 2f000 2f000 0 0 0 0 0 17a 2f000 0 0 0 0"},
      {1, 0x17800, "40000c1 464a00 8ca00 600 465000 465000 1302031"},
      {3, 0x1f848, "b8700 b8f00 b9700 b9f00 0"},
      {27, 0x17800, "40000c1 3d8000 8ca00 600 465000 465000 1302031"}}},
    {"batched/bmm_r3rr_m375_k128_n749_tx0_ty1_b8",
     "tensor<fp16, [8, 375, 128]> x, tensor<fp16, [8, 749, 128]> w",
     "tensor<fp16, [8, 375, 749]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = true)"
     "[name = string(\"y\")];",
     209,
     {{0, 0x0, "80080 1 22 2ed 2ed 80080 1 5000a021 2041 14001"},
      {0, 0x4804, "500172 178000 - - - - 0 0 0 0 0 500170 0 5e0 2f000 2f000"},
      {0, 0x17800, "c0 0 0 0 0 0 1000000"},
      {1, 0x4804, "120 149000 5e0 2f000 2f000 0 0 0 0 0 0 14a 178000"},
      {1, 0x1f848, "bb700"},
      {1, 0x13800, "8880 8880 0 0 0 0 0"}}},
    {"env_bcast_sub_1x8192x1x1_runtime_1x8192x1x1",
     "tensor<fp16, [1, 8192, 1, 1]> x, tensor<fp16, [1, 8192, 1, 1]> z",
     OPERATION("sub", "[1, 8192, 1, 1]"),
     1,
     {{0, HEADER, "2000000 48"}}},
    {"conv_known_k3_c64_n128_s16_st1_g4_bias1_same",
     "tensor<fp16, [1, 64, 16, 16]> x",
     CONV("128", "16", "3", "4", "[1, 128, 16, 16]"),
     1,
     {{0, 0x1c, "5042a463"},
      {0, 0x24, "10004 10"},
      {0, 0x34, "230001"},
      {0, 0x480c, "20 220 200 200"},
      {0, 0x4834, "2200"},
      {0, 0x1380c, "40 400 10000 4000"},
      {0, 0x17808, "40 400 20000 8000"}}},
    {"conv_probe_k1_c64_n64_s32_st1_g1_bias0_same",
     "tensor<fp16, [1, 64, 32, 32]> x",
     CONV("64", "64", "1", "1", "[1, 64, 32, 32]"),
     1,
     {{0, 0x1c, "5000a821"},
      {0, 0x28, "20"},
      {0, 0x34, "220001"},
      {0, 0x480c, "40 1050 1000 1000"},
      {0, 0x4834, "20a00"}}},
    {"conv_probe_k3_c256_n256_s16_st1_g4_bias0_same",
     "tensor<fp16, [1, 256, 16, 16]> x",
     CONV("256", "64", "3", "4", "[1, 256, 16, 16]"),
     1,
     {{0, 0x34, "233301"}, {0, 0x480c, "20 830 800 800"}, {0, 0x4834, "8300"}, {0, 0x1f84c, "4800"}}},
    {"rrmm_r2rr_m32_k64_n64_tx0_ty0",
     "tensor<fp16, [32, 64]> x, tensor<fp16, [64, 64]> w",
     "tensor<fp16, [32, 64]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = false)[name = string(\"y\")];",
     2,
     {{0, HEADER, "0 9d0000 408 0 fff868 0 30009800 200"},
      {0, 0x24, "10001 1 6 0 21 0"},
      {0, 0x4804, "500172 0 80 1000 1000 1000 0 0 0 0 0 50027a 1000"},
      {0, 0x17800, "40003c1 0 100 100 1000 1000 2302031"},
      {1, HEADER, "3000001 0 422 0 fff86a 0 31009800 0"},
      {1, 0x4804, "400172 0 80 2000 2000 2000 0 0 0 0 0 17a 2000"},
      {1, 0x1f848, "0 100 200"}}},
    {"rrmm_r2rr_m128_k64_n64_tx0_ty0",
     "tensor<fp16, [128, 64]> x, tensor<fp16, [64, 64]> w",
     "tensor<fp16, [128, 64]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = false)[name = "
     "string(\"y\")];",
     2,
     {{0, 0x24, "10001 1 6 0 21 0"},
      {0, 0x4804, "500172 0 80 4000 4000 4000 0 0 0 0 0 50087a 4000"},
      {0, 0x17800, "40003c1 0 400 400 4000 4000 8302031"},
      {1, HEADER, "3000001 1 422 0 fff86a 0 31009800 0"},
      {1, 0x4804, "100172 0 80 2000 2000 2000 0 0 0 0 0 40017a 2000"},
      {1, 0x1f848, "0 400 800"}}},
    {"rrmm_r2rr_m96_k64_n64_tx0_ty0",
     "tensor<fp16, [96, 64]> x, tensor<fp16, [64, 64]> w",
     "tensor<fp16, [96, 64]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = false)[name = string(\"y\")];",
     4,
     {{0, 0x34, "200001"},
      {0, 0x4804, "500172 0 80 3000 3000 3000 0 0 0 0 0 50027a 3000"},
      {0, 0x17800, "40003c1 0 100 100 3000 3000 2302031"},
      {1, HEADER, "1000001 9d0000 400 0 fff800 0 31000800 500"},
      {1, 0x10, "20 10040 1 5000a421"},
      {1, 0x17800, "40000c1 2000 3000 80 3000 3000 1302031"},
      {1, 0x1f848, "2000 2100 2200"},
      {2, 0x4804, "100 0 80 2000 2000 0 0 0 0 0 0 14a 2000"}}},
    {"rrmm_r2rr_m192_k64_n64_tx0_ty0",
     "tensor<fp16, [192, 64]> x, tensor<fp16, [64, 64]> w",
     "tensor<fp16, [192, 64]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = false)[name = "
     "string(\"y\")];",
     4,
     {{1, HEADER, "1000001 9d0000 400 0 fff800 0 31000800 500"},
      {1, 0x4804, "171 0 80 2000 2000 2000 0 0 0 0 0 17a 2000"},
      {1, 0x17800, "40000c1 4000 6000 80 6000 6000 1302031"},
      {2, 0x1f848, "2000 2200 2400"},
      {2, 0x17800, "40000c1 2000 6000 80 6000 6000 1302031"}}},
    {"rrmm_r2rr_m64_k64_n32_tx0_ty1",
     "tensor<fp16, [64, 64]> x, tensor<fp16, [32, 64]> w",
     "tensor<fp16, [64, 32]> y = matmul(x = x, y = w, transpose_x = false, transpose_y = true)[name = string(\"y\")];",
     3,
     {{1, HEADER, "1000001 9d0000 400 0 0 0 10000800 400"},
      {1, 0x4804, "400172 1400 80 1000 1000 1000 0 0 0 0 0 170 0 50 1400 1400"},
      {2, HEADER, "3000002 0 422 0 fff86a 0 21009000 0"},
      {2, 0x4804, "120 0 50 1400 1400 0 0 0 0 0 0 14a 1400"}}},
    {"reduce_probe_max_ax3_1x8x1x64",
     "tensor<fp16, [1, 8, 1, 64]> x",
     "tensor<int32, [1]> a = const()[name = string(\"a\"), val = tensor<int32, [1]>([3])];"
     "tensor<fp16, [1, 8, 1, 1]> y = reduce_max(x = x, axes = a, keep_dims = true)[name = string(\"y\")];",
     1,
     {{0, 0x2c, "6"}, {0, 0x480c, "80 420 400 400"}, {0, 0x4834, "420"}}},
    {"reduce_probe_max_ax2_1x32x4x4",
     "tensor<fp16, [1, 32, 4, 4]> x",
     MAXIMUM("[1, 32, 1, 4]"),
     3,
     {{0, HEADER, "0 7d0000 408 0 68 0 10000800 200 4800024"},
      {0, 0x28, "20 0 0 101c4401"},
      {0, 0x4804, "500172 800 10 40 40 40 0 0 0 0 0 500170 0 10 40 40"},
      {1, 0x4804, "120 0 40 40 40 10 0 0 0 0 0 140 800 10 800 200 200"},
      {2, 0x28, "10 0 0 101c4401"},
      {2, 0x4804, "400100 800 200 10 200 0 0 0 0 0 0 14a 1000"},
      {2, 0x17800, "40000c1 0 40 40 800 800 1302031"}}},
    {"reduce_probe_sum_ax1_1x32x4x4",
     "tensor<fp16, [1, 32, 4, 4]> x",
     "tensor<int32, [1]> a = const()[name = string(\"a\"), val = tensor<int32, [1]>([1])];"
     "tensor<fp16, [1, 1, 4, 4]> y = reduce_sum(x = x, axes = a, keep_dims = true)[name = string(\"y\")];",
     2,
     {{0, 0x28, "4 0 0 101a0001"},
      {0, 0x4804, "500172 440 10 200 200 200 0 0 0 0 0 500170 0 40 110 100"},
      {1, 0x24, "10004 1 5 400 51"},
      {1, 0x4804, "120 0 40 100 100 110 0 0 0 0 0 141 440 10 40 10 0"},
      {1, 0x17800, "c1 0 100 100 100 40 1302031"}}},
    {"reduce_probe_sum_ax1_1x64x1x64",
     "tensor<fp16, [1, 64, 1, 64]> x",
     "tensor<int32, [1]> a = const()[name = string(\"a\"), val = tensor<int32, [1]>([1])];"
     "tensor<fp16, [1, 1, 1, 64]> y = reduce_sum(x = x, axes = a, keep_dims = true)[name = string(\"y\")];",
     2,
     {{0, HEADER, "0 7d0000 408 0 68 0 1000d800 200 5823024"},
      {0, 0x34, "10200001"},
      {0, 0x4804, "500172 2400 80 2000 2000 2000 0 0 0 0 0 500170 0 90 2400 2400"},
      {0, 0x17800, "c0 0 80 80 2000 2000 1302031"},
      {1, HEADER, "3000001 0 422 0 fff86a 0 2000b800 0 25023"},
      {1, 0x13800, "48880 8880 0 80 80 2000 2000"},
      {1, 0x4804, "160 0 90 2400 2400 0 0 0 0 0 0 141 2400 80 80 80 80"},
      {1, 0x17800, "c1 0 80 80 80 80 1302031"}}},
    {"norm_softmax_a3_1x1x64x64",
     "tensor<fp16, [1, 1, 64, 64]> x",
     "tensor<fp16, [1, 1, 64, 64]> y = softmax(x = x, axis = int32(3))[name = string(\"y\")];",
     6,
     {{1, 0x0, "10040 1 22 40 40 10040 1 5000a021 2041 10001 1 6 0 51"},
      {1, 0x4800, "4 120 0 80 80 80 0 0 0 0 0 0 140 4000 10 400 400 0"},
      {2, 0x28, "40 44 10 31"},
      {2, 0x4804, "400100 0 80 80 80 0 4000 400 10 400 0 140 2000 80 80 80 0"},
      {3, 0x34, "44401"},
      {3, 0x4804, "108 2000 80 80 80 0 0 0 0 0 0 140 2000 80 80 80 0"}}},
    {"env_act_gelu_1x64x8x8_exact",
     "tensor<fp16, [1, 64, 8, 8]> x",
     "tensor<fp16, [1, 64, 8, 8]> y = gelu(x = x, mode = string(\"EXACT\"))[name = string(\"y\")];",
     1,
     {{0, 0x24, "14001 8"}, {0, 0x34, "230001"}, {0, 0x480c, "10 430 400 400"}, {0, 0x4834, "2180"}}}};

static mil_module *forms_parse(const char *parameters, const char *body) {
    char program[1000];
    mil_module *m = NULL;
    propane_error err = {0};
    int length = snprintf(program, sizeof program, "program(1.3)\n{\nfunc main<ios18>(%s) {\n%s\n} -> (y);\n}\n",
                          parameters, body);
    EXPECT_OK(mil_parse(program, (size_t)length, "form", ".", &m, &err));
    EXPECT_OK(pass_run(m->functions, &pass_all, &err));
    return m;
}

static void forms_compare(const form *f, const form_words *row, const engine_task *t) {
    int word = 0;
    for (const char *at = row->words; *at; word++) {
        char *end;
        uint32_t address = row->address + 4u * (uint32_t)word, want = (uint32_t)strtoul(at, &end, 16);
        if (*at == '-')
            end = (char *)at + 1;
        else {
            uint32_t got = row->address == HEADER ? t->header[word] : engine_get(t, address);
            EXPECT_MSG(got == want, "%s, task %d, %s %x: %08x, Apple's %08x", f->name, row->task,
                       row->address == HEADER ? "header word" : "register",
                       row->address == HEADER ? (unsigned)word : address, got, want);
        }
        at = end + strspn(end, " ");
    }
}

TEST(words_of_single_forms) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const form *f = &forms[i];
        engine_object *o = NULL;
        propane_error err = {0};
        mil_module *m = forms_parse(f->parameters, f->body);
        EXPECT_OK(engine_compile(m->functions, NULL, &o, &err));
        EXPECT_MSG(o->task_count == f->tasks, "%s: %d tasks, Apple's %d", f->name, o->task_count, f->tasks);
        for (const form_words *row = f->rows; row < f->rows + 8 && row->words; row++)
            forms_compare(f, row, &o->tasks[row->task]);
        engine_object_free(o);
        mil_module_free(m);
    }
}

/* Base registers and addresses ascend with the names, whatever the role of the surfaces. */
TEST(surfaces_ascend_by_name) {
    engine_object *o = NULL, *again = NULL;
    propane_error err = {0};
    uint8_t *file = NULL;
    size_t bytes = 0;
    mil_module *m =
        forms_parse("tensor<fp16, [1, 8, 4, 4]> z, tensor<fp16, [1, 8, 4, 4]> b, tensor<fp16, [1, 8, 4, 4]> x",
                    "tensor<fp16, [1, 8, 4, 4]> c = add(x = z, y = b)[name = string(\"c\")];"
                    "tensor<fp16, [1, 8, 4, 4]> y = mul(x = c, y = x)[name = string(\"y\")];");
    EXPECT_OK(engine_compile(m->functions, NULL, &o, &err));
    EXPECT_OK(engine_hwx_write(o, &file, &bytes, &err));
    EXPECT_OK(engine_object_parse(file, bytes, "forms.hwx", &again, &err));
    static const char *const names[] = {"b", "x", "y", "z"};
    uint64_t before = 0;
    for (int i = 0; i < 4; i++) {
        const engine_surface *s = engine_object_bar(again, ENGINE_BAR_SURFACES + i);
        EXPECT(s && strcmp(s->name, names[i]) == 0);
        EXPECT(s->output == (i == 2) && s->address > before);
        before = s->address;
    }
    mem_free(file);
    engine_object_free(again);
    engine_object_free(o);
    mil_module_free(m);
}

SUITE("engine/forms", T(words_of_single_forms), T(surfaces_ascend_by_name))
