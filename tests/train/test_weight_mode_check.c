/* SPDX-License-Identifier: MIT
 * The check of weight modes on a device with faults: the cpu's driver, which keeps old weights, forgets a patch or
 * returns one wrong number on request. Linking this file replaces the library's list of drivers.
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/device/driver.h"
#include "support/test.h"
#include "train/weight_mode.h"
#include "train/weight_mode_check.h"

enum { WIDTH = 32, SPAN = 64 };

extern const propane_driver cpu_driver;

static struct {
    bool unproven, patches;
    int wrong_run,
        wrong_element;   /* the run, from 1, in which a number is too large by one, and which number; 0: none */
    bool stale;          /* the second program runs with the first one's weights */
    bool forgets;        /* a patch does nothing */
    const char *refuses; /* the name of an input: programs with it cannot be compiled; "*": none can */
    int opened, closed, compiled, freed, runs, donors, reloadable, patched, writes[2];
    driver_program *first;
    uint16_t patch[WIDTH * WIDTH];
} faulty;

static propane_status faulty_open(const char *rest, void **impl, propane_error *err) {
    faulty.opened++;
    return cpu_driver.open("", impl, err);
}

static void faulty_close(void *impl) {
    faulty.closed++;
    cpu_driver.close(impl);
}

static void faulty_describe(const void *impl, propane_device_info *out) {
    cpu_driver.describe(impl, out);
    out->unproven = faulty.unproven;
    out->patches = faulty.patches;
}

static propane_status faulty_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                     driver_program *out, propane_error *err) {
    for (int i = 0; faulty.refuses && i < f->param_count; i++)
        if (*faulty.refuses == '*' || strcmp(f->params[i]->name, faulty.refuses) == 0)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "faulty: no input '%s'", faulty.refuses);
    if (faulty.compiled++ == 0) faulty.first = out;
    faulty.donors += options->donor != NULL;
    faulty.reloadable += options->reloadable;
    propane_compile_options own = *options;
    own.donor = NULL, own.reloadable = false;
    return cpu_driver.compile(impl, f, &own, out, err);
}

static void faulty_program_free(void *impl, driver_program *program) {
    faulty.freed++;
    cpu_driver.program_free(impl, program);
}

static propane_status faulty_patch(void *impl, driver_program *program, const char *constant, const uint16_t *values,
                                   int64_t count, propane_error *err) {
    if (strcmp(constant, "w") != 0 || count != WIDTH * WIDTH)
        return propane_fail(err, PROPANE_ERR_INVALID, "faulty: %lld numbers for '%s'", (long long)count, constant);
    faulty.patched++;
    memcpy(faulty.patch, values, sizeof faulty.patch);
    return PROPANE_OK;
}

/* The product with the weights of the patch. */
static void faulty_multiply(const uint16_t *x, uint16_t *y) {
    for (int o = 0; o < WIDTH; o++)
        for (int s = 0; s < SPAN; s++) {
            float sum = 0;
            for (int i = 0; i < WIDTH; i++)
                sum += fp16_to_f32(faulty.patch[o * WIDTH + i]) * fp16_to_f32(x[i * SPAN + s]);
            y[o * SPAN + s] = fp16_from_f32(sum);
        }
}

static propane_status faulty_execute(void *impl, const driver_execution *e, propane_completion *out,
                                     propane_error *err) {
    driver_execution old = *e;
    uint16_t *y = e->outputs[0]->memory;
    if (faulty.stale) old.program = faulty.first;
    PROPANE_TRY(cpu_driver.execute(impl, &old, out, err));
    if (faulty.patched && !faulty.forgets) faulty_multiply(e->inputs[0]->memory, y);
    if (++faulty.runs == faulty.wrong_run) {
        uint16_t *wrong = &y[faulty.wrong_element];
        *wrong = fp16_from_f32(fp16_to_f32(*wrong) + 1);
    }
    return PROPANE_OK;
}

static propane_status faulty_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                      propane_error *why) {
    return cpu_driver.supports(impl, f, options, why);
}
static propane_status faulty_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    return cpu_driver.buffer_create(impl, bytes, out, err);
}
static void faulty_buffer_free(void *impl, driver_buffer *buffer) { cpu_driver.buffer_free(impl, buffer); }

#define FAULTY(its_name, ...)                                                                                          \
    {.name = its_name,                                                                                                 \
     .summary = "the cpu with faults",                                                                                 \
     .open = faulty_open,                                                                                              \
     .close = faulty_close,                                                                                            \
     .describe = faulty_describe,                                                                                      \
     .supports = faulty_supports,                                                                                      \
     .compile = faulty_compile,                                                                                        \
     .program_free = faulty_program_free,                                                                              \
     .buffer_create = faulty_buffer_create,                                                                            \
     .buffer_free = faulty_buffer_free,                                                                                \
     .execute = faulty_execute,                                                                                        \
     __VA_ARGS__}
static const propane_driver faulty_driver = FAULTY("faulty", .reloads = true, .patch = faulty_patch);
static const propane_driver rigid_driver = FAULTY("rigid", .reloads = false);

const propane_driver *const propane_drivers[] = {&faulty_driver, &rigid_driver};
const int propane_drivers_count = 2;

static propane_error err;

/* Checks a mode; everything that was opened and compiled must have ended. */
static propane_status checked(const char *uri, const char *mode) {
    const propane_status status = weight_mode_check(uri, mode, &err);
    EXPECT(faulty.opened == faulty.closed && faulty.compiled == faulty.freed);
    return status;
}

TEST(every_mode_holds_on_a_device_without_faults) {
    static const struct {
        const char *mode;
        int compiled, donors, reloadable, patched;
    } cases[] = {{"inputs", 1, 0, 0, 0},
                 {"packed", 1, 0, 0, 0},
                 {"baked", 2, 0, 0, 0},
                 {"reload", 2, 1, 2, 0},
                 {"patched", 1, 0, 1, 1}};
    for (int i = 0; i < 5; i++) {
        memset(&faulty, 0, sizeof faulty);
        EXPECT_OK(checked("faulty", cases[i].mode));
        EXPECT_MSG(faulty.opened == 1 && faulty.compiled == cases[i].compiled && faulty.runs == 2 &&
                       faulty.donors == cases[i].donors && faulty.reloadable == cases[i].reloadable &&
                       faulty.patched == cases[i].patched,
                   "%s: %d compiled, %d donors, %d reloadable, %d patched, %d runs", cases[i].mode, faulty.compiled,
                   faulty.donors, faulty.reloadable, faulty.patched, faulty.runs);
    }
}

TEST(modes_that_a_device_lacks_are_refused) {
    memset(&faulty, 0, sizeof faulty);
    EXPECT_FAIL(checked("rigid", "reload"), PROPANE_ERR_UNSUPPORTED, "compile it again");
    EXPECT_FAIL(checked("rigid", "patched"), PROPANE_ERR_UNSUPPORTED, "compile it again");
    EXPECT_OK(checked("rigid", "baked"));
    EXPECT_FAIL(checked("faulty", "gold"), PROPANE_ERR_INVALID,
                "weights is 'gold'; it must be one of inputs|packed|baked|reload|patched");
    EXPECT_FAIL(checked("nothing", "inputs"), PROPANE_ERR_NOT_FOUND, "unknown device 'nothing'");
    faulty.refuses = "p";
    EXPECT_FAIL(checked("faulty", "packed"), PROPANE_ERR_UNSUPPORTED, "no input 'p'");
}

/* One wrong number anywhere, with either set of weights, is found and named; it is not mistaken for the old weights. */
TEST(one_wrong_number_is_found) {
    static const int elements[] = {0, 1, SPAN - 1, SPAN, WIDTH * SPAN - 1};
    for (int k = 0; k < WEIGHT_MODE_COUNT; k++)
        for (int run = 1; run <= 2; run++)
            for (int i = 0; i < 5; i++) {
                char message[100];
                memset(&faulty, 0, sizeof faulty);
                faulty.wrong_run = run, faulty.wrong_element = elements[i];
                snprintf(message, sizeof message,
                         "weights '%s' do not work here: element (%d, %d) of a small matrix product is ",
                         weight_mode_name((weight_mode)k), elements[i] / SPAN, elements[i] % SPAN);
                EXPECT_FAIL(checked("faulty", weight_mode_name((weight_mode)k)), PROPANE_ERR_DEVICE, message);
                EXPECT(faulty.runs == run && !strstr(err.text, "as with the previous weights"));
            }
}

/* Weights that stay are recognised as such. */
TEST(old_weights_are_found) {
    static const char *const modes[] = {"baked", "reload"};
    for (int i = 0; i < 2; i++) {
        memset(&faulty, 0, sizeof faulty);
        faulty.stale = true;
        EXPECT_FAIL(checked("faulty", modes[i]), PROPANE_ERR_DEVICE, ", as with the previous weights");
        EXPECT(faulty.runs == 2);
    }
    memset(&faulty, 0, sizeof faulty);
    faulty.forgets = true;
    EXPECT_FAIL(checked("faulty", "patched"), PROPANE_ERR_DEVICE, ", as with the previous weights");
}

/* A device that needs no proof gets the first mode, patching if it works; any other device gets the first mode that
 * passes. */
TEST(the_first_mode_that_holds_is_chosen) {
    const char *mode = NULL;
    text tried = {0};
    memset(&faulty, 0, sizeof faulty);
    EXPECT_OK(weight_mode_choose("faulty", &mode, &tried, &err));
    EXPECT_TEXT(mode, "inputs");
    EXPECT(faulty.runs == 0 && !tried.length);
    faulty.patches = true;
    EXPECT_OK(weight_mode_choose("faulty", &mode, &tried, &err));
    EXPECT_TEXT(mode, "patched");
    faulty.unproven = true;
    EXPECT_OK(weight_mode_choose("faulty", &mode, &tried, &err));
    EXPECT_TEXT(mode, "patched");
    EXPECT(faulty.patched == 1 && !tried.length);
    memset(&faulty, 0, sizeof faulty);
    faulty.unproven = faulty.patches = faulty.forgets = true;
    EXPECT_OK(weight_mode_choose("faulty", &mode, &tried, &err));
    EXPECT_TEXT(mode, "inputs");
    EXPECT(strstr(tried.data, "weights 'patched' do not work here") && faulty.opened == faulty.closed);
    text_clear(&tried);
    faulty.refuses = "x";
    EXPECT_OK(weight_mode_choose("faulty", &mode, &tried, &err));
    EXPECT_TEXT(mode, "packed");
    EXPECT_TEXT(tried.data, "faulty: no input 'x'\nfaulty: no input 'x'\n");
    text_clear(&tried);
    faulty.refuses = "*";
    EXPECT_FAIL(weight_mode_choose("faulty", &mode, &tried, &err), PROPANE_ERR_DEVICE,
                "device 'faulty': no weight mode works there: faulty: no input '*'; faulty: no input '*'");
    EXPECT_FAIL(weight_mode_choose("faulty", &mode, NULL, &err), PROPANE_ERR_DEVICE, "no weight mode works there:");
    EXPECT_FAIL(weight_mode_choose("nothing", &mode, NULL, &err), PROPANE_ERR_NOT_FOUND, "unknown");
    text_deinit(&tried);
}

SUITE("train/weight_mode_check", T(every_mode_holds_on_a_device_without_faults),
      T(modes_that_a_device_lacks_are_refused), T(one_wrong_number_is_found), T(old_weights_are_found),
      T(the_first_mode_that_holds_is_chosen))
