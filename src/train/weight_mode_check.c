/* SPDX-License-Identifier: MIT
 * Owns the checks of the weight modes. The kernel is y = W x with integers that are exact in fp16, so no tolerance is
 * needed:
 *
 *   inputs   matmul of two inputs, W written again
 *   packed   one input that holds x followed by W; two slices of the input are multiplied
 *   baked    a 1x1 convolution with W as a constant, compiled again
 *   reload   the same convolution, but the second program is the compiled form of the first with other weights
 *   patched  the same program, with its W overwritten
 */
#include "train/weight_mode_check.h"

#include <string.h>

#include "core/base/float16.h"
#include "core/device/runner.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "train/weight_mode.h"

enum { WIDTH = 32, SPAN = 64, WEIGHTS = WIDTH * WIDTH, ACTS = WIDTH * SPAN };

/* ---- the numbers -------------------------------------------------------------------------------------------------------- */

static float mode_check_weight(int set, int o, int i) { return (float)((o * 7 + i * 3 + set * 11) % 5 - 2); }
static float mode_check_act(int i, int s) { return (float)((i + 2 * s) % 7 - 3); }

static float mode_check_product(int set, int o, int s) {
    float sum = 0;
    for (int i = 0; i < WIDTH; i++) sum += mode_check_weight(set, o, i) * mode_check_act(i, s);
    return sum;
}

/* ---- the kernels -------------------------------------------------------------------------------------------------------- */

static mil_type mode_check_shape(int64_t channels, int64_t height, int64_t width) {
    return mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, channels, height, width});
}

static mil_value *mode_check_build_inputs(mil_builder *b) {
    mil_value *w = mil_build_param(b, "w", mode_check_shape(1, WIDTH, WIDTH)),
              *x = mil_build_param(b, "x", mode_check_shape(1, WIDTH, SPAN));
    return mil_build_matmul(b, w, x, false, false);
}

/* Row i of the input holds channel i of x, then column i of W. */
static mil_value *mode_check_build_packed(mil_builder *b) {
    mil_value *p = mil_build_param(b, "p", mode_check_shape(WIDTH, 1, SPAN + WIDTH));
    mil_value *x = mil_build_slice(b, p, (int64_t[]){0, 0, 0, 0}, (int64_t[]){1, WIDTH, 1, SPAN});
    mil_value *w = mil_build_slice(b, p, (int64_t[]){0, 0, 0, SPAN}, (int64_t[]){1, WIDTH, 1, WIDTH});
    x = mil_build_reshape(b, x, (int64_t[]){1, 1, WIDTH, SPAN}, 4);
    w = mil_build_reshape(b, w, (int64_t[]){1, 1, WIDTH, WIDTH}, 4);
    return mil_build_matmul(b, w, x, true, false);
}

/* With `second`, the kernel has another constant in addition to the weights, as real kernels do. */
static mil_value *mode_check_build_baked(mil_builder *b, int set, bool second) {
    uint16_t data[WEIGHTS], ones[SPAN];
    mil_type wide = mode_check_shape(1, 1, SPAN);
    for (int k = 0; k < SPAN; k++) ones[k] = fp16_from_f32(1);
    mil_type type = mil_type_tensor(MIL_fp16, 4, (int64_t[]){WIDTH, WIDTH, 1, 1});
    for (int k = 0; k < WEIGHTS; k++) data[k] = fp16_from_f32(mode_check_weight(set, k / WIDTH, k % WIDTH));
    mil_value *x = mil_build_param(b, "x", mode_check_shape(WIDTH, 1, SPAN)), *w = mil_build_const(b, "w", &type, data);
    mil_value *y = mil_build_conv1x1(b, x, w);
    return second ? mil_build_binary(b, MIL_OP_mul, y, mil_build_const(b, "ones", &wide, ones)) : y;
}

static propane_status mode_check_build(weight_mode how, int set, mil_module **out, propane_error *err) {
    mil_builder b = {0};
    *out = mil_module_create("weight mode");
    if (!*out) return propane_fail_memory(err, 0);
    mil_build_begin(&b, *out, "prove", MIL_IOS18);
    mil_value *y = how == WEIGHT_MODE_INPUTS ? mode_check_build_inputs(&b)
                   : how == WEIGHT_MODE_PACKED
                       ? mode_check_build_packed(&b)
                       : mode_check_build_baked(&b, set, how == WEIGHT_MODE_RELOAD || how == WEIGHT_MODE_PATCHED);
    mil_build_result(&b, y);
    return mil_build_end(&b, err);
}

/* ---- running -------------------------------------------------------------------------------------------------------------- */

typedef struct mode_trial {
    propane_device *device;
    propane_program *programs[2];
    runner run;
} mode_trial;

static propane_status mode_check_compile(mode_trial *r, weight_mode how, int set, propane_error *err) {
    mil_module *m = NULL;
    propane_compile_options options = {.size = sizeof options,
                                       .donor = how == WEIGHT_MODE_RELOAD && set ? r->programs[0] : NULL,
                                       .reloadable = how == WEIGHT_MODE_RELOAD || how == WEIGHT_MODE_PATCHED};
    propane_status status = mode_check_build(how, set, &m, err);
    if (status == PROPANE_OK) status = propane_program_compile(r->device, m, &options, &r->programs[set], err);
    mil_module_free(m);
    return status;
}

static propane_status mode_check_write(runner *run, int input, weight_mode how, int set, propane_error *err) {
    float values[WIDTH * (SPAN + WIDTH)];
    int count = 0;
    if (strcmp(runner_io(run, input)->name, "w") == 0) {
        for (; count < WEIGHTS; count++) values[count] = mode_check_weight(set, count / WIDTH, count % WIDTH);
    } else {
        for (int i = 0; i < WIDTH; i++) {
            for (int s = 0; s < SPAN; s++) values[count++] = mode_check_act(i, s);
            for (int o = 0; o < WIDTH && how == WEIGHT_MODE_PACKED; o++) values[count++] = mode_check_weight(set, o, i);
        }
    }
    return runner_write(run, input, PROPANE_FP32, values, err);
}

static propane_status mode_check_compare(const runner *run, const char *name, int set, propane_error *err) {
    float y[ACTS];
    PROPANE_TRY(runner_read(run, run->inputs, PROPANE_FP32, y, err));
    for (int k = 0; k < ACTS; k++) {
        float want = mode_check_product(set, k / SPAN, k % SPAN);
        if (y[k] == want) continue;
        bool old = set == 1 && y[k] == mode_check_product(0, k / SPAN, k % SPAN);
        return propane_fail(err, PROPANE_ERR_DEVICE,
                            "weights '%s' do not work here: element (%d, %d) of a small matrix product is %g, not %g%s",
                            name, k / SPAN, k % SPAN, (double)y[k], (double)want,
                            old ? ", as with the previous weights" : "");
    }
    return PROPANE_OK;
}

static propane_status mode_check_patch(propane_program *p, int set, propane_error *err) {
    float w[WEIGHTS];
    for (int k = 0; k < WEIGHTS; k++) w[k] = mode_check_weight(set, k / WIDTH, k % WIDTH);
    return propane_program_patch(p, "w", PROPANE_FP32, w, WEIGHTS, err);
}

static propane_status mode_check_try_mode(mode_trial *r, weight_mode how, propane_error *err) {
    const bool again = how == WEIGHT_MODE_BAKED || how == WEIGHT_MODE_RELOAD;
    for (int set = 0; set < 2; set++) {
        if (set == 0 || again) {
            PROPANE_TRY(mode_check_compile(r, how, set, err));
            runner_close(&r->run);
            PROPANE_TRY(runner_open(&r->run, r->device, r->programs[set], NULL, NULL, err));
        }
        if (set && how == WEIGHT_MODE_PATCHED) PROPANE_TRY(mode_check_patch(r->programs[0], set, err));
        for (int i = 0; i < r->run.inputs; i++) PROPANE_TRY(mode_check_write(&r->run, i, how, set, err));
        PROPANE_TRY(runner_run(&r->run, NULL, err));
        PROPANE_TRY(mode_check_compare(&r->run, weight_mode_name(how), set, err));
    }
    return PROPANE_OK;
}

propane_status weight_mode_check(const char *device, const char *name, propane_error *err) {
    const weight_mode how = weight_mode_find(name);
    if (how == WEIGHT_MODE_COUNT)
        return propane_fail(err, PROPANE_ERR_INVALID, "weights is '%s'; it must be one of %s", name, WEIGHT_MODE_WORDS);
    mode_trial r = {0};
    propane_status status = propane_device_open(device, &r.device, err);
    if (status == PROPANE_OK) status = mode_check_try_mode(&r, how, err);
    runner_close(&r.run);
    for (int i = 0; i < 2; i++) propane_program_free(r.programs[i]);
    propane_device_close(r.device);
    return status;
}

propane_status weight_mode_choose(const char *device, const char **mode, text *tried, propane_error *err) {
    char said[900] = "";
    propane_device *d = NULL;
    PROPANE_TRY(propane_device_open(device, &d, err));
    bool unproven = propane_device_describe(d)->unproven, patches = propane_device_describe(d)->patches;
    propane_device_close(d);
    for (int k = 0; k < WEIGHT_MODE_COUNT; k++) {
        propane_error why = {0};
        /* overwriting constants is the cheapest mode where it works */
        *mode = weight_mode_name(!patches ? (weight_mode)k : k ? (weight_mode)(k - 1) : WEIGHT_MODE_PATCHED);
        if (!unproven || weight_mode_check(device, *mode, &why) == PROPANE_OK) return PROPANE_OK;
        if (tried) text_printf(tried, "%s\n", why.text);
        (void)strncat(said, said[0] ? "; " : "", sizeof said - strlen(said) - 1);
        (void)strncat(said, why.text, sizeof said - strlen(said) - 1);
    }
    return propane_fail(err, PROPANE_ERR_DEVICE, "device '%s': no weight mode works there: %s", device, said);
}
