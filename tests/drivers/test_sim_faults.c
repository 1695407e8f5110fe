/* SPDX-License-Identifier: MIT
 * The rules about numbers against the simulator. If check warns of a program, a run on sim: differs from what the
 * program specifies (eval), or is NaN. For the program that barely satisfies the rule, it does not. So check and diff
 * cannot contradict each other. The programs are those of tests/chip/numbers; each row gives inputs for which the rule
 * applies.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ane/chip/limit.h"
#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "drivers/conformance.h"

enum { MOST = 1024 };
static propane_error err;

typedef struct numbers_case {
    const char *id;
    float first, further; /* of the first input: its first element, and all others */
    float second;         /* all of the second input */
    double keeps;         /* error bound of the good program, of 1 and of the value; at most half of it was observed */
} numbers_case;

/* Rows of zeros are not run. N9, N12, N13, N14, N18, N20 and N21 are about the program itself, on any device: its
 * angles or coordinates have lost their digits, its atan2 misses a quadrant, its norm divides 0 by 0, its inverse
 * belongs to another number. N11 is about many calls, and N23 about the rounding of any program. N19 is disputed, and
 * no source says which numbers are read. N24 is about rows of zeros on units whose rounding near 0 no source states. */
static const numbers_case numbers[] = {
    {"N1", 20, 9, 0, 0.02},    {"N2", 20, 7.9f, 0, 0.02}, {"N3", 20, 1, 0, 0.05},       {"N4", 30, -30, 0, 0.7},
    {"N5", 300, 300, 0, 0.5},  {"N5b", 300, 300, 0, 0.5}, {"N6", 1, 1, 0, 0.02},        {"N7", 1.2f, 1, 0, 0.02},
    {"N8", NAN, 1, 5, 0.02},   {"N9", 0, 0, 0, 0},        {"N10", 200, -200, 0, 0.02},  {"N11", 0, 0, 0, 0},
    {"N12", 0, 0, 0, 0},       {"N13", 0, 0, 0, 0},       {"N14", 0, 0, 0, 0},          {"N15", 60, 50, 0, 0.02},
    {"N16", 60, 60, 60, 0.02}, {"N17", 0, 0, 0, 0.02},    {"N18", 0, 0, 0, 0},          {"N19", 0, 0, 0, 0},
    {"N20", 0, 0, 0, 0},       {"N21", 0, 0, 0, 0},       {"N22", 300, 300, 300, 0.02}, {"N23", 0, 0, 0, 0},
    {"N24", 0, 0, 0, 0},
};

static char *text_of(const char *id, const char *kind) {
    char path[80], *data = NULL;
    size_t length;
    snprintf(path, sizeof path, "tests/chip/cases/%s.%s.mil", id, kind);
    EXPECT_OK(file_read(path, 1 << 20, &data, &length, &err));
    return data;
}

/* Returns the number of elements in the first result. */
static int result_count(const char *text) {
    propane_module *m = NULL;
    propane_device *d = NULL;
    propane_program *p = NULL;
    EXPECT_OK(propane_module_parse(text, strlen(text), "case.mil", NULL, &m, &err));
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    const int count = (int)propane_io_count(propane_program_output(p, 0));
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
    EXPECT(count <= MOST);
    return count;
}

/* Returns the worst difference between the chip and the cpu, which computes the specified program in fp32. Infinite if
 * either result is NaN. */
static double difference(const char *uri, const numbers_case *c, const char *kind) {
    static float x[MOST], z[MOST], here[MOST], there[MOST];
    char *text = text_of(c->id, kind);
    const int count = result_count(text);
    double worst = 0;
    for (int i = 0; i < MOST; i++) {
        x[i] = i % 32 == 0 ? c->first : c->further;
        z[i] = c->second;
    }
    conformance_run_on(uri, text, (const float *const[]){x, z}, here, count, NULL);
    conformance_run_on("cpu", text, (const float *const[]){x, z}, there, count, NULL);
    for (int i = 0; i < count; i++) {
        const double far = fabs((double)here[i] - (double)there[i]) / fmax(1, fabs((double)there[i]));
        worst = isfinite(here[i]) && isfinite(there[i]) ? fmax(worst, far) : INFINITY;
    }
    mem_free(text);
    return worst;
}

static void expect_bites(const char *uri, const numbers_case *c) {
    const double bad = difference(uri, c, "bad"), good = difference(uri, c, "good");
    EXPECT_MSG(bad > 2 * c->keeps && bad > 0.05, "%s on %s: the program that breaks it differs by %g", c->id, uri, bad);
    EXPECT_MSG(strcmp(c->id, "N8") == 0 || good <= c->keeps, "%s on %s: the one that keeps it differs by %g", c->id,
               uri, good);
}

/* Sums are fp32 here, because their loss of digits is another rule (C42), which test_sim.c tests. */
TEST(what_check_warns_of_a_run_shows) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!numbers[i].keeps) continue;
        const char *const chips[] = {"m1", "m4", "m5"};
        for (size_t k = 0; k < sizeof chips / sizeof chips[0]; k++) {
            char uri[40];
            chip_severity severity;
            const chip *c;
            EXPECT_OK(chip_find(chips[k], &c, &err));
            if (!chip_limit_on(chip_limit_find(numbers[i].id), c, 0, CHIP_PATH_COREML, &severity)) continue;
            snprintf(uri, sizeof uri, "sim:%s?refuse=0&sums=0", chips[k]);
            expect_bites(uri, &numbers[i]);
        }
    }
}

/* Without the switch it computes what the program specifies, so the differences above come from the faults. */
TEST(the_switch_turns_them_off) {
    static const char *const ids[] = {"N1", "N2", "N7", "N10"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        for (size_t k = 0; k < sizeof ids / sizeof ids[0]; k++)
            if (strcmp(ids[k], numbers[i].id) == 0) {
                const double d = difference("sim:m4?refuse=0&faults=0", &numbers[i], "bad");
                EXPECT_MSG(d <= numbers[i].keeps, "%s: %g", ids[k], d);
            }
}

/* N1 by channels, with a computed slope: 8 and 16 are on the two sides of 10.4. */
TEST(a_slope_that_is_computed) {
    static const char text[] =
        "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-version\", \"3505.4.1\"}})]\n{\n"
        "func main<ios18>(tensor<fp16, [1, 2, 1, 4]> x, tensor<fp16, [2]> z) {\n"
        "tensor<fp16, [2]> alpha = const()[name = string(\"alpha\"), val = tensor<fp16, [2]>([1, 1])];\n"
        "tensor<fp16, [2]> beta = sub(x = z, y = alpha)[name = string(\"beta\")];\n"
        "tensor<fp16, [1, 2, 1, 4]> y = softplus_parametric(x = x, alpha = alpha, beta = beta)[name = string(\"y\")];\n"
        "} -> (y);\n}\n";
    static const float x[] = {8, 8, 8, 8, 8, 8, 8, 8}, z[] = {2, 3};
    float y[8];
    conformance_run_on("sim:m4?refuse=0", text, (const float *const[]){x, z}, y, 8, NULL);
    for (int i = 0; i < 4; i++) EXPECT(y[i] == 8 && y[4 + i] == 0);
}

TEST(each_rule_about_numbers_is_here) {
    for (int i = 0; i < chip_limit_count(); i++) {
        const char *id = chip_limit_get(i)->id;
        bool there = id[0] != 'N';
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) there |= strcmp(id, numbers[k].id) == 0;
        EXPECT_MSG(there, "%s has no inputs here", id);
    }
}

SUITE("drivers/sim_faults", T(what_check_warns_of_a_run_shows), T(the_switch_turns_them_off),
      T(a_slope_that_is_computed), T(each_rule_about_numbers_is_here))
