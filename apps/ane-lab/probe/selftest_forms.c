/* SPDX-License-Identifier: MIT
 * Owns the probe's questions about single operations on which notes contradict each other, and about one surface in two
 * requests. The result of an accepted operation is also checked. This shows whether the operation was computed or
 * skipped.
 */
#include <math.h>
#include <string.h>

#include "apps/ane-lab/probe/selftest.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/temporary.h"
#include "core/refusal/refusal.h"

#define T "tensor<fp16, [1, 32, 1, 32]>"
#define S "tensor<fp16, [1, 1, 32, 32]>"
enum { N = 32 * 32 };

/* Adds "NAME taken" or "NAME refused" to `words`, and the largest error of the values or the reason for the refusal to
 * `out`. */
static void selftest_forms_print(json_t *out, char *words, size_t size, const char *name, bool taken, double worst,
                                 const propane_error *why) {
    const size_t used = strlen(words);
    snprintf(words + used, size - used, "%s%s %s", used ? ", " : "", name, taken ? "taken" : "refused");
    if (taken)
        probe_value(out, name, worst);
    else
        probe_say(out, name, "%s", why->text);
}

propane_status probe_ask_operations(probe_target *t, json_t *out, propane_error *err) {
    static const char mean_head[] =
        "        tensor<int32, [1]> axes = const()[name = string(\"axes\"), val = tensor<int32, [1]>([1])];\n";
    static const struct {
        const char *name, *constants, *result, *call;
    } forms[] = {
        {"silu", "", T, "silu(x = x)"},
        {"reduce_mean", "        bool keep = const()[name = string(\"keep\"), val = bool(true)];\n",
         "tensor<fp16, [1, 1, 1, 32]>", "reduce_mean(x = x, axes = axes, keep_dims = keep)"},
        {"layer_norm", "        fp16 epsilon = const()[name = string(\"epsilon\"), val = fp16(0x1p-10)];\n", T,
         "layer_norm(x = x, axes = axes, epsilon = epsilon)"},
    };
    static float x[N], y[N];
    const float *in[] = {x};
    char body[700], words[200] = "";
    for (int k = 0; k < N; k++)
        x[k] = (float)(k / 32 % 4) - 1; /* channels -1, 0, 1, 2 and so on: mean 0.5, variance 1.25 */
    for (int f = 0; f < 3; f++) {
        propane_error why = {0};
        double worst = 0;
        snprintf(body, sizeof body, T " x) {\n%s%s        %s y = %s[name = string(\"y\")];\n    } -> (y);\n",
                 f ? mean_head : "", forms[f].constants, forms[f].result, forms[f].call);
        const bool taken = probe_run(t, t->uri, body, in, y, &why) == PROPANE_OK;
        for (int k = 0; k < (f == 1 ? 32 : N) && taken; k++) {
            const double v = (double)x[k], want[] = {v / (1 + exp(-v)), 0.5, (v - 0.5) / sqrt(1.25 + 0x1p-10)};
            worst = fmax(worst, fabs((double)y[k] - want[f]));
        }
        selftest_forms_print(out, words, sizeof words, forms[f].name, taken, worst, &why);
    }
    (void)err;
    probe_say(out, "answer", "%s; the numbers are their largest errors", words);
    return PROPANE_OK;
}

/* Queries of zeros give all keys the same weight, so the result is the mean of the rows that the mask leaves. */
propane_status probe_ask_attention_mask(probe_target *t, json_t *out, propane_error *err) {
    static const char body[] =
        S " q, " S " k, " S " v, " S " mask) {\n        " S
          " y = scaled_dot_product_attention(query = q, key = k, value = v, attn_mask = mask)[name = string(\"y\")];\n"
          "    } -> (y);\n";
    static float q[N], v[N], mask[N], y[N];
    const float *in[] = {q, q, v, mask};
    for (int k = 0; k < N; k++) v[k] = (float)(k / 32), mask[k] = k % 32 < 8 ? 0 : -30000;
    PROPANE_TRY(probe_run(t, t->uri, body, in, y, err));
    const bool obeyed = fabsf(y[0] - 3.5f) < 0.1f, ignored = fabsf(y[0] - 15.5f) < 0.1f;
    probe_value(out, "mean_of_rows", y[0]);
    probe_say(out, "answer", "scaled_dot_product_attention is accepted; its mask is %s",
              obeyed    ? "obeyed"
              : ignored ? "ignored"
                        : "neither obeyed nor ignored");
    return PROPANE_OK;
}

propane_status probe_ask_gather(probe_target *t, json_t *out, propane_error *err) {
    static const char body[] = T
        " x) {\n        int32 axis = const()[name = string(\"axis\"), val = int32(1)];\n"
        "        tensor<int32, [4]> rows = const()[name = string(\"rows\"), val = tensor<int32, [4]>([3, 0, 31, 3])];\n"
        "        tensor<fp16, [1, 4, 1, 32]> y = gather(x = x, indices = rows, axis = axis)[name = "
        "string(\"y\")];\n    } -> (y);\n";
    static const float want[4] = {3, 0, 31, 3};
    static float x[N], y[4 * 32];
    const float *in[] = {x};
    bool right = true;
    for (int k = 0; k < N; k++) x[k] = (float)(k / 32);
    PROPANE_TRY(probe_run(t, t->uri, body, in, y, err));
    for (int k = 0; k < 4 * 32; k++) right = right && y[k] == want[k / 32];
    probe_say(out, "answer", "gather by constant indices is accepted and %s", right ? "right" : "wrong");
    return PROPANE_OK;
}

/* Lends the first request's input surface to the second request. */
static propane_status selftest_forms_lend_input(void *context, const propane_io *io, int index, propane_buffer **out,
                                                bool *lent, propane_error *err) {
    const rig *r = context;
    (void)io, (void)err;
    *lent = index == 0;
    if (*lent) *out = r->run.bindings[0].buffer;
    return PROPANE_OK;
}

/* Runs two requests that share an input surface and are in flight together. y receives the second result. */
static propane_status selftest_forms_share_input(rig *r, runner *second, float *y, propane_error *err) {
    PROPANE_TRY(runner_open(second, r->device, r->program, selftest_forms_lend_input, r, err));
    propane_request *const both[] = {r->run.request, second->request};
    PROPANE_TRY(propane_submit(both, 2, err));
    PROPANE_TRY(propane_wait(r->run.request, NULL, err));
    PROPANE_TRY(propane_wait(second->request, NULL, err));
    return runner_read(second, 1, PROPANE_FP32, y, err);
}

propane_status probe_ask_shared(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    rig r = {0};
    runner second = {0};
    for (int k = 0; k < N; k++) x[k] = 3;
    propane_status status = rig_open_text(
        &r, t->uri, T " x) {\n        " T " y = add(x = x, y = x)[name = string(\"y\")];\n    } -> (y);\n", err);
    if (status == PROPANE_OK) status = rig_put(&r, 0, x, err);
    if (status == PROPANE_OK) status = selftest_forms_share_input(&r, &second, y, err);
    runner_close(&second);
    rig_close(&r);
    if (status != PROPANE_OK) return status;
    probe_say(out, "answer", "an input surface in two requests at once is accepted; the second result is %s",
              y[0] == 6 && y[N - 1] == 6 ? "right" : "wrong");
    return PROPANE_OK;
}

/* Tests an output that another operation also reads; one client of an M5 Max got NaN in such an output (C59). Training
 * kernels have such outputs: values for the backward pass are results of the forward kernel, which also reads them
 * itself. */
propane_status probe_ask_read_output(probe_target *t, json_t *out, propane_error *err) {
    static const char *const bodies[2] = {
        T " x) {\n        " T " m = mul(x = x, y = fp16(2))[name = string(\"m\")];\n        " T
          " z = add(x = m, y = fp16(1))[name = string(\"z\")];\n    } -> (m, z);\n",
        T " x) {\n        " T " m = mul(x = x, y = fp16(2))[name = string(\"m\")];\n        " T
          " a = identity(x = m)[name = string(\"a\")];\n        " T
          " z = add(x = m, y = fp16(1))[name = string(\"z\")];\n    } -> (a, z);\n"};
    static const char *const sides[2] = {"as it is", "behind identity"};
    static float x[N], y[2][N];
    bool right[2] = {true, true};
    for (int k = 0; k < N; k++) x[k] = (float)(k % 61);
    for (int i = 0; i < 2; i++) {
        rig r = {0};
        propane_status status = rig_open_text(&r, t->uri, bodies[i], err);
        if (status == PROPANE_OK) status = rig_put(&r, 0, x, err);
        if (status == PROPANE_OK) status = rig_run(&r, err);
        for (int o = 0; o < 2 && status == PROPANE_OK; o++) status = rig_take(&r, o, y[o], err);
        rig_close(&r);
        PROPANE_TRY(status);
        for (int k = 0; k < N; k++) right[i] = right[i] && y[0][k] == 2 * x[k] && y[1][k] == 2 * x[k] + 1;
        probe_say(out, sides[i], right[i] ? "right" : "wrong");
    }
    probe_say(out, "answer", "an output that the program also reads is %s, and after an identity %s",
              right[0] ? "right" : "wrong", right[1] ? "right" : "wrong");
    return PROPANE_OK;
}

/* ---- a layer as in training -------------------------------------------------------------------------------------- */

#define H           "tensor<fp16, [1, 2, 16, 32]>"
#define NAMED(name) "[name = string(\"" name "\")];\n        "
static const char forms_layer[] = T
    " x, " S " wa, " S " wb) {\n        "
    "tensor<int32, [1]> axes = const()[name = string(\"axes\"), val = tensor<int32, [1]>([1])];\n        "
    "bool yes = const()[name = string(\"yes\"), val = bool(true)];\n        "
    "bool no = const()[name = string(\"no\"), val = bool(false)];\n        "
    "fp16 small = const()[name = string(\"small\"), val = fp16(0x1p-10)];\n        "
    "int32 last = const()[name = string(\"last\"), val = int32(-1)];\n        "
    "tensor<int32, [4]> flat = const()[name = string(\"flat\"), val = tensor<int32, [4]>([1, 1, 32, 32])];\n        "
    "tensor<int32, [4]> heads = const()[name = string(\"heads\"), val = tensor<int32, [4]>([1, 2, 16, 32])];\n        "
    "tensor<int32, [4]> turn = const()[name = string(\"turn\"), val = tensor<int32, [4]>([0, 1, 3, 2])];\n        "
    "tensor<int32, [4]> back = const()[name = string(\"back\"), val = tensor<int32, [4]>([1, 32, 1, 32])];\n        " T
    " squares = mul(x = x, y = x)" NAMED("squares") "tensor<fp16, [1, 1, 1, 32]> mean = reduce_mean(x = squares, axes "
                                                    "= axes, keep_dims = yes)" NAMED(
                                                        "mean") "tensor<fp16, [1, 1, 1, 32]> scale = rsqrt(x = mean, "
                                                                "epsilon = small)" NAMED("scale") T
    " normed = mul(x = x, y = scale)" NAMED("normed") S " n = reshape(x = normed, shape = flat)" NAMED("n") S
    " qa = matmul(x = wa, y = n, transpose_x = no, transpose_y = no)" NAMED("qa") S
    " ka = matmul(x = wb, y = n, transpose_x = no, transpose_y = no)" NAMED("ka") H
    " q = reshape(x = qa, shape = heads)" NAMED("q") H " k = reshape(x = ka, shape = heads)" NAMED(
        "k") "tensor<fp16, [1, 2, 32, 16]> qt = transpose(x = q, perm = "
             "turn)" NAMED("qt") "tensor<fp16, [1, 2, 32, 32]> scores = "
                                 "matmul(x = qt, y = k, transpose_x = no, "
                                 "transpose_y = no)" NAMED("scores") "tensor<fp16, [1, 2, 32, 32]> "
                                                                     "shares = softmax(x = scores, "
                                                                     "axis = last)" NAMED("shares") H
    " mixed = matmul(x = k, y = shares, transpose_x = no, transpose_y = yes)" NAMED("mixed") S
    " joined = reshape(x = mixed, shape = flat)" NAMED("joined") S " gate = silu(x = joined)" NAMED("gate") S
    " gated = mul(x = gate, y = qa)" NAMED("gated") S
    " down = matmul(x = wb, y = gated, transpose_x = yes, transpose_y = no)" NAMED("down") T
    " ahead = reshape(x = down, shape = back)" NAMED("ahead") T
    " y = add(x = x, y = ahead)[name = string(\"y\")];\n    } -> (y);\n";

/* Compiles parts of the function until the failing operation is found. Stores the text of the smallest refused part in
 * `out`. */
static void selftest_forms_bisect(propane_device *d, const mil_function *f, json_t *out, propane_error *why) {
    static const propane_compile_options options = {.size = sizeof options};
    char path[1300], *folder = NULL, *smallest = NULL;
    size_t length = 0;
    if (temporary_scratch("propane-ane", &folder, NULL) != PROPANE_OK) return;
    snprintf(path, sizeof path, "%.1200s/refused", folder);
    (void)refusal_explain(d, f, &options, path, why); /* returns the status that is known already */
    snprintf(path, sizeof path, "%.1200s/refused/model.mil", folder);
    if (file_read(path, 1 << 20, &smallest, &length, NULL) == PROPANE_OK)
        json_put(out, "smallest", json_bytes(smallest, length));
    char *place = strstr(why->text, folder); /* the message must not name the folder, because it is removed */
    if (place) snprintf(place, sizeof why->text - (size_t)(place - why->text), "\"smallest\"");
    mem_free(smallest);
    (void)!file_remove_tree(folder, NULL);
    mem_free(folder);
}

propane_status probe_ask_kernels(probe_target *t, json_t *out, propane_error *err) {
    propane_module *m = NULL;
    propane_device *d = NULL;
    propane_program *p = NULL;
    propane_error why = {0};
    PROPANE_TRY(rig_module(forms_layer, &m, err));
    propane_status status = propane_device_open(t->uri, &d, err);
    if (status == PROPANE_OK && propane_program_compile(d, m, NULL, &p, &why) != PROPANE_OK) {
        probe_say(out, "first_error", "%s", why.text);
        probe_note(out);
        t->refused = refusal_is(why.status);
        if (t->refused) selftest_forms_bisect(d, m->functions, out, &why);
    }
    if (status == PROPANE_OK)
        probe_say(out, "answer", "%s%s",
                  p ? "every operation of a layer is accepted" : "a layer is refused: ", why.text);
    propane_program_free(p);
    propane_device_close(d);
    propane_module_free(m);
    return status;
}
