/* SPDX-License-Identifier: MIT
 * Owns the questions for any device: how it rounds, sums and saturates, which operations it accepts, how weights reach
 * it, and how fast it is.
 */
#include <math.h>
#include <string.h>

#include "apps/ane-lab/probe/microbench.h"
#include "apps/ane-lab/probe/selftest.h"
#include "core/base/clock.h"
#include "core/base/float16.h"
#include "train/weight_mode.h"
#include "train/weight_mode_check.h"

#define T "tensor<fp16, [1, 32, 1, 32]>"
enum { N = 32 * 32 };

/* One operation on [1, 32, 1, 32]. */
#define UNARY(expression) T " x) {\n        " T " y = " expression "[name = string(\"y\")];\n    } -> (y);\n"

static void selftest_numbers_fill(float *x, float value) {
    for (int k = 0; k < N; k++) x[k] = value;
}

propane_status probe_ask_saturation(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x};
    selftest_numbers_fill(x, 300);
    PROPANE_TRY(probe_run(t, t->uri, UNARY("mul(x = x, y = x)"), in, y, err));
    float square = y[0];
    static const char product[] =
        "tensor<fp16, [1, 1, 32, 32]> x) {\n"
        "        bool no = const()[name = string(\"no\"), val = bool(false)];\n"
        "        tensor<fp16, [1, 1, 32, 32]> y = matmul(x = x, y = x, transpose_x = no, transpose_y = no)[name = "
        "string(\"y\")];\n    } -> (y);\n";
    selftest_numbers_fill(x, 37.5f); /* 32 * 37.5^2 = 45,000 */
    PROPANE_TRY(probe_run(t, t->uri, product, in, y, err));
    probe_say(out, "answer", "300 * 300 is %g; a matrix product that sums to 45,000 is %g", (double)square,
              (double)y[0]);
    probe_value(out, "square", square);
    probe_value(out, "product", y[0]);
    return PROPANE_OK;
}

propane_status probe_ask_reductions(probe_target *t, json_t *out, propane_error *err) {
    static float x[4096], y[32];
    const float *in[] = {x};
    static const char sum[] =
        "tensor<fp16, [1, 4096, 1, 1]> x) {\n"
        "        tensor<int32, [1]> axes = const()[name = string(\"axes\"), val = tensor<int32, [1]>([1])];\n"
        "        bool keep = const()[name = string(\"keep\"), val = bool(true)];\n"
        "        tensor<fp16, [1, 1, 1, 1]> y = reduce_sum(x = x, axes = axes, keep_dims = keep)[name = "
        "string(\"y\")];\n    } -> (y);\n";
    static const char product[] =
        "tensor<fp16, [1, 1, 1, 4096]> x) {\n"
        "        bool no = const()[name = string(\"no\"), val = bool(false)];\n"
        "        bool yes = const()[name = string(\"yes\"), val = bool(true)];\n"
        "        tensor<fp16, [1, 1, 1, 1]> y = matmul(x = x, y = x, transpose_x = no, transpose_y = yes)[name = "
        "string(\"y\")];\n    } -> (y);\n";
    for (int k = 0; k < 4096; k++) x[k] = 1;
    PROPANE_TRY(probe_run(t, t->uri, sum, in, y, err));
    float by_sum = y[0];
    PROPANE_TRY(probe_run(t, t->uri, product, in, y, err));
    probe_say(out, "answer", "4,096 ones: reduce_sum returns %g, matmul %g (an fp16 sum in order stops at 2048)",
              (double)by_sum, (double)y[0]);
    probe_value(out, "reduce_sum", by_sum);
    probe_value(out, "matmul", y[0]);
    return PROPANE_OK;
}

propane_status probe_ask_tables(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x};
    double worst = 0;
    for (int k = 0; k < N; k++) x[k] = fp16_to_f32(fp16_from_f32((float)(k - N / 2) / 64));
    PROPANE_TRY(probe_run(t, t->uri, UNARY("sigmoid(x = x)"), in, y, err));
    for (int k = 0; k < N; k++) worst = fmax(worst, fabs((double)y[k] - 1 / (1 + exp(-(double)x[k]))));
    probe_say(out, "answer", "the largest error of sigmoid on -8..8 is %.3g (exact fp16 would have 2.4e-4)", worst);
    probe_value(out, "sigmoid_error", worst);
    return PROPANE_OK;
}

propane_status probe_ask_subnormals(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x};
    selftest_numbers_fill(x, fp16_to_f32(0x00a8)); /* 1.0014e-5, which is 1e-5 in fp16 */
    PROPANE_TRY(probe_run(t, t->uri, UNARY("add(x = x, y = x)"), in, y, err));
    bool kept = y[0] == 2 * x[0];
    probe_say(out, "answer", kept ? "kept" : y[0] == 0 ? "flushed to zero" : "changed to %g", (double)y[0]);
    probe_value(out, "twice_1e-5", y[0]);
    return PROPANE_OK;
}

propane_status probe_ask_width_slices(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x};
    static const char slice[] = T " x) {\n        tensor<int32, [4]> begin = const()[name = string(\"begin\"), val = "
                                  "tensor<int32, [4]>([0, 0, 0, 16])];\n"
                                  "        tensor<int32, [4]> size = const()[name = string(\"size\"), val = "
                                  "tensor<int32, [4]>([1, 32, 1, 16])];\n"
                                  "        tensor<fp16, [1, 32, 1, 16]> y = slice_by_size(x = x, begin = begin, size = "
                                  "size)[name = string(\"y\")];\n"
                                  "    } -> (y);\n";
    selftest_numbers_fill(x, 5000);
    PROPANE_TRY(probe_run(t, t->uri, slice, in, y, err));
    probe_say(out, "answer", "5000 after a slice that starts inside the width is %g (C29)", (double)y[0]);
    return PROPANE_OK;
}

propane_status probe_ask_softmax(probe_target *t, json_t *out, propane_error *err) {
    static const char *const bodies[2] = {
        "tensor<fp16, [1, 4, 32, 64]> x) {\n        int32 axis = const()[name = string(\"axis\"), val = int32(-1)];\n"
        "        tensor<fp16, [1, 4, 32, 64]> y = softmax(x = x, axis = axis)[name = string(\"y\")];\n    } -> (y);\n",
        "tensor<fp16, [1, 4, 32, 96]> x) {\n        int32 axis = const()[name = string(\"axis\"), val = int32(-1)];\n"
        "        tensor<fp16, [1, 4, 32, 96]> y = softmax(x = x, axis = axis)[name = string(\"y\")];\n    } -> (y);\n"};
    static float y[4 * 32 * 96];
    bool taken[2];
    for (int k = 0; k < 2; k++) {
        propane_error why = {0};
        taken[k] = probe_run(t, t->uri, bodies[k], NULL, y, &why) == PROPANE_OK;
        if (!taken[k]) probe_say(out, k ? "why_96" : "why_64", "%s", why.text);
    }
    probe_say(out, "answer", "over 64: %s; over 96, not a power of two: %s (C31)", taken[0] ? "taken" : "refused",
              taken[1] ? "taken" : "refused");
    return PROPANE_OK;
}

/* ---- forms ---------------------------------------------------------------------------------------------------------------- */

propane_status probe_ask_concat(probe_target *t, json_t *out, propane_error *err) {
    static const char head[] = "tensor<fp16, [1, 16, 1, 32]> a, tensor<fp16, [1, 16, 1, 32]> b) {\n"
                               "        int32 axis = const()[name = string(\"axis\"), val = int32(1)];\n"
                               "        bool no = const()[name = string(\"no\"), val = bool(false)];\n";
    static const char tail[] = "[name = string(\"y\")];\n    } -> (y);\n";
    static const struct {
        const char *key, *call, *options;
    } forms[] = {{"named_axis_and_interleave", "concat(values = (a, b), axis = axis, interleave = no)", ""},
                 {"without_interleave", "concat(values = (a, b), axis = axis)", "defaults=left"},
                 {"axis_inside_the_call", "concat(values = (a, b), axis = 1, interleave = false)",
                  "literals=inline&defaults=left"}};
    static float y[N];
    char body[900], uri[200], words[200] = "";
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        propane_error why = {0};
        snprintf(body, sizeof body, "%s        " T " y = %s%s", head, forms[k].call, tail);
        bool taken = probe_run(t, probe_uri(t, "memory", forms[k].options, uri), body, NULL, y, &why) == PROPANE_OK;
        probe_say(out, forms[k].key, "%s", taken ? "taken" : why.text);
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s %s", used ? ", " : "", forms[k].key,
                 taken ? "taken" : "refused");
    }
    probe_say(out, "answer", "%s", words);
    return PROPANE_OK;
}

propane_status probe_ask_fp32(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x};
    static const char cast[] =
        "tensor<fp32, [1, 32, 1, 32]> x) {\n"
        "        string half = const()[name = string(\"half\"), val = string(\"fp16\")];\n"
        "        string full = const()[name = string(\"full\"), val = string(\"fp32\")];\n"
        "        " T " h = cast(x = x, dtype = half)[name = string(\"h\")];\n"
        "        " T " s = add(x = h, y = h)[name = string(\"s\")];\n"
        "        tensor<fp32, [1, 32, 1, 32]> y = cast(x = s, dtype = full)[name = string(\"y\")];\n"
        "    } -> (y);\n";
    static const char plain[] =
        "tensor<fp32, [1, 32, 1, 32]> x) {\n"
        "        tensor<fp32, [1, 32, 1, 32]> y = add(x = x, y = x)[name = string(\"y\")];\n    } -> (y);\n";
    selftest_numbers_fill(x, 1.0001f);
    propane_error why = {0};
    bool casts = probe_run(t, t->uri, cast, in, y, &why) == PROPANE_OK;
    if (!casts) probe_say(out, "why_cast", "%s", why.text);
    bool adds = probe_run(t, t->uri, plain, in, y, &why) == PROPANE_OK;
    if (!adds) probe_say(out, "why_fp32", "%s", why.text);
    probe_say(out, "answer", "fp32 inputs with casts: %s; arithmetic on fp32: %s%s", casts ? "taken" : "refused",
              adds ? "taken" : "refused",
              !adds              ? ""
              : y[0] == 2 * x[0] ? ", in fp32"
                                 : ", rounded to less");
    if (adds) probe_value(out, "twice_1.0001", y[0]);
    return PROPANE_OK;
}

propane_status probe_ask_gelu(probe_target *t, json_t *out, propane_error *err) {
    static float y[N];
    static const char mode[] =
        T " x) {\n        string m = const()[name = string(\"m\"), val = string(\"TANH_APPROXIMATION\")];\n"
          "        " T " y = gelu(x = x, mode = m)[name = string(\"y\")];\n    } -> (y);\n";
    propane_error why = {0};
    bool with = probe_run(t, t->uri, mode, NULL, y, &why) == PROPANE_OK;
    if (!with) probe_say(out, "why_mode", "%s", why.text);
    char uri[200];
    bool without =
        probe_run(t, probe_uri(t, "memory", "defaults=left", uri), UNARY("gelu(x = x)"), NULL, y, &why) == PROPANE_OK;
    if (!without) probe_say(out, "why_plain", "%s", why.text);
    probe_say(out, "answer", "with mode: %s; without: %s (C20)", with ? "taken" : "refused",
              without ? "taken" : "refused");
    return PROPANE_OK;
}

propane_status probe_ask_int8(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x};
    static const char chain[] =
        T " x) {\n        fp16 s = const()[name = string(\"s\"), val = fp16(0x1p-3)];\n"
          "        string type = const()[name = string(\"type\"), val = string(\"int8\")];\n"
          "        tensor<int8, [1, 32, 1, 32]> q = quantize(input = x, output_dtype = type, scale = s)[name = "
          "string(\"q\")];\n"
          "        " T " y = dequantize(input = q, scale = s)[name = string(\"y\")];\n    } -> (y);\n";
    static const char affine[] = T
        " x) {\n"
        "        tensor<fp16, [1, 4, 1, 1]> w = constexpr_affine_dequantize()[axis = int32(0), name = string(\"w\"), "
        "quantized_data = tensor<int8, [1, 4, 1, 1]>([[[[8]], [[16]], [[24]], [[32]]]]), scale = fp16(0x1p-3), "
        "zero_point = int8(0)];\n"
        "        tensor<int32, [4]> begin = const()[name = string(\"begin\"), val = tensor<int32, [4]>([0, 0, 0, "
        "0])];\n"
        "        tensor<int32, [4]> size = const()[name = string(\"size\"), val = tensor<int32, [4]>([1, 4, 1, 32])];\n"
        "        tensor<fp16, [1, 4, 1, 32]> h = slice_by_size(x = x, begin = begin, size = size)[name = "
        "string(\"h\")];\n"
        "        tensor<fp16, [1, 4, 1, 32]> y = mul(x = h, y = w)[name = string(\"y\")];\n    } -> (y);\n";
    selftest_numbers_fill(x, 1.3f);
    propane_error why = {0};
    bool chains = probe_run(t, t->uri, chain, in, y, &why) == PROPANE_OK;
    if (chains)
        probe_value(out, "1.3_in_steps_of_0.125", y[0]);
    else
        probe_say(out, "why_quantize", "%s", why.text);
    selftest_numbers_fill(x, 1);
    bool constants = probe_run(t, t->uri, affine, in, y, &why) == PROPANE_OK;
    if (constants)
        probe_value(out, "weight_of_3", y[64]);
    else
        probe_say(out, "why_constant", "%s", why.text);
    probe_say(out, "answer", "quantize and dequantize: %s; constexpr_affine_dequantize: %s%s",
              chains ? "taken" : "refused", constants ? "taken" : "refused",
              constants && y[64] != 3 ? ", with a wrong value" : "");
    return PROPANE_OK;
}

/* ---- weights ---------------------------------------------------------------------------------------------------------------- */

propane_status probe_ask_weights(probe_target *t, json_t *out, propane_error *err) {
    char words[300] = "";
    for (int k = 0; k < WEIGHT_MODE_COUNT; k++) {
        propane_error why = {0};
        if (t->is_ane && k == WEIGHT_MODE_PATCHED) continue; /* Apple's systems do not support this mode */
        const char *mode = weight_mode_name((weight_mode)k);
        bool holds = weight_mode_check(t->uri, mode, &why) == PROPANE_OK;
        size_t used = strlen(words);
        probe_say(out, mode, "%s", holds ? "works" : why.text);
        snprintf(words + used, sizeof words - used, "%s%s: %s", used ? ", " : "", mode,
                 holds                              ? "works"
                 : why.status == PROPANE_ERR_DEVICE ? "does not work"
                                                    : "cannot be done");
        t->refused |= !holds;
    }
    probe_say(out, "answer", "%s", words);
    return PROPANE_OK;
}

/* ---- speed ------------------------------------------------------------------------------------------------------------------ */

#define POINT_NS ((int64_t)200 * 1000 * 1000)

propane_status probe_ask_dispatch(probe_target *t, json_t *out, propane_error *err) {
    static const char *const ways[] = {"standard", "direct", "realtime"};
    char words[200] = "", uri[200], option[40];
    for (int k = 0; k < (t->is_ane ? 3 : 1); k++) {
        propane_error why = {0};
        rig r = {0};
        rig_time time = {0};
        snprintf(option, sizeof option, "dispatch=%s", ways[k]);
        propane_status status =
            rig_open_text(&r, probe_uri(t, "memory", option, uri), UNARY("add(x = x, y = x)"), &why);
        if (status == PROPANE_OK) status = rig_measure(&r, 1000, POINT_NS, &time, &why);
        rig_close(&r);
        size_t used = strlen(words);
        if (status != PROPANE_OK) {
            probe_say(out, ways[k], "%s", why.text);
            snprintf(words + used, sizeof words - used, "%s%s: not available", used ? ", " : "", ways[k]);
            continue;
        }
        probe_value(out, ways[k], (double)time.median_ns / 1000);
        snprintf(words + used, sizeof words - used, "%s%s %.1f us, at best %.1f", used ? ", " : "", ways[k],
                 (double)time.median_ns / 1000, (double)time.best_ns / 1000);
    }
    probe_say(out, "answer", "%s", words);
    return PROPANE_OK;
}

propane_status probe_ask_depth(probe_target *t, json_t *out, propane_error *err) {
    double best[2] = {0, 0};
    int at[2] = {0, 0};
    for (int kind = 0; kind < 2; kind++) {
        json_t *list = json_array();
        for (int depth = 1; depth <= 32; depth *= 4) {
            sweep_point p = {
                .kind = kind ? SWEEP_MATMUL : SWEEP_CONV, .n = 256, .m = kind ? 256 : 1024, .depth = depth};
            propane_error why = {0};
            if (sweep_measure(t->uri, &p, POINT_NS, &why) != PROPANE_OK) {
                probe_say(out, kind ? "why_matmul" : "why_conv", "%s", why.text);
                t->refused = true;
                break;
            }
            json_add(list, json_real(sweep_gflops(&p)));
            if (sweep_gflops(&p) > best[kind]) best[kind] = sweep_gflops(&p), at[kind] = depth;
        }
        json_put(out, kind ? "matmul_gflops" : "conv_gflops", list);
    }
    probe_say(out, "answer", "conv %.0f GFLOP/s at depth %d, matmul %.0f at depth %d (256 wide)", best[0], at[0],
              best[1], at[1]);
    return PROPANE_OK;
}

propane_status probe_ask_stream(probe_target *t, json_t *out, propane_error *err) {
    double best = 0;
    int64_t at = 0;
    json_t *list = json_array();
    for (int64_t n = 512; n <= 4096; n *= 2) {
        sweep_point p = {.kind = SWEEP_STREAM, .n = n};
        propane_error why = {0};
        if (sweep_measure(t->uri, &p, POINT_NS, &why) != PROPANE_OK) {
            probe_say(out, "why", "%s", why.text);
            t->refused = true;
            break;
        }
        json_add(list, json_real(sweep_gbs(&p)));
        if (sweep_gbs(&p) > best) best = sweep_gbs(&p), at = n;
    }
    json_put(out, "gb_per_s", list);
    probe_say(out, "answer", "%.1f GB/s at %lld by %lld", best, (long long)at, (long long)at);
    return PROPANE_OK;
}

propane_status probe_ask_queue(probe_target *t, json_t *out, propane_error *err) {
    double one = 0, many = 0;
    bool simulated;
    PROPANE_TRY(sweep_queue(t->uri, 1, 256, &one, &simulated, err));
    PROPANE_TRY(sweep_queue(t->uri, 64, 4, &many, &simulated, err));
    probe_value(out, "one_in_flight", one);
    probe_value(out, "sixty_four_in_flight", many);
    probe_say(out, "answer", "%.0f per second one by one, %.0f with 64 in flight", one, many);
    return PROPANE_OK;
}
