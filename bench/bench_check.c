/* SPDX-License-Identifier: MIT
 * Measures a program of 5,000 operations from text to verdict: reading and verifying it, checking it against the rules
 * of all Mac chips, and estimating its time on one. CSV: subject, median of 21 in ms. Everything runs on one core.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/cost_model.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/mil/text/mil_text.h"

enum { OPS = 5000, ROUNDS = 21 };

/* Writes layers of a network: each has a convolution with an input as its weight, a separate norm, a matrix product
 * and a function. */
static void write_program(text *t) {
    text_append(
        t, "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-version\", \"3505.4.1\"}})]\n{\n"
           "    func main<ios18>(tensor<fp16, [1, 64, 1, 64]> v0, tensor<fp16, [64, 64, 1, 1]> w, "
           "tensor<fp16, [1, 1, 64, 64]> m) {\n        bool no = const()[name = string(\"no\"), val = bool(false)];\n");
    for (int i = 0; i < OPS; i++) {
        text_printf(t, "        tensor<fp16, [1, 64, 1, 64]> v%d = ", i + 1);
        switch (i % 5) {
        case 0: text_printf(t, "conv(x = v%d, weight = w)", i); break;
        case 1: text_printf(t, "matmul(x = v%d, y = m, transpose_x = no, transpose_y = no)", i); break;
        case 2: text_printf(t, "add(x = v%d, y = v%d)", i, i - 1); break;
        case 3: text_printf(t, "sigmoid(x = v%d)", i); break;
        default: text_printf(t, "mul(x = v%d, y = v%d)", i, i - 1);
        }
        text_printf(t, "[name = string(\"v%d\")];\n", i + 1);
    }
    text_printf(t, "    } -> (v%d);\n}\n", OPS);
}

static propane_status run_once(const text *t, const chip_check_options *options, int64_t ns[4], propane_error *err) {
    mil_module *m = NULL;
    int64_t start = clock_ns();
    PROPANE_TRY(mil_parse(t->data, t->length, "bench", NULL, &m, err));
    int64_t parsed = clock_ns();
    chip_report *r = chip_report_create(options);
    PROPANE_TRY(chip_check_module(r, m, err));
    int64_t checked = clock_ns();
    cost_program cost;
    arena *a = arena_create();
    PROPANE_TRY(cost_function(chip_get(CHIP_m4), COST_DIRECT, m->functions, a, &cost, err));
    int64_t end = clock_ns();
    ns[0] = parsed - start;
    ns[1] = checked - parsed;
    ns[2] = end - checked;
    ns[3] = end - start;
    arena_free(a);
    chip_report_free(r);
    mil_module_free(m);
    return PROPANE_OK;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(void) {
    propane_error err = {0};
    const chip *targets[CHIP_COUNT];
    chip_check_options options = {.targets = targets};
    static const char *const names[] = {"parse and verify", "check, all chips", "estimate, M4", "all"};
    int64_t ns[4][ROUNDS];
    text t = {0};
    write_program(&t);
    propane_status status = chip_find_list("all", targets, &options.target_count, &err);
    for (int i = 0; i < ROUNDS && status == PROPANE_OK; i++) {
        int64_t once[4] = {0};
        status = run_once(&t, &options, once, &err);
        for (int k = 0; k < 4; k++) ns[k][i] = once[k];
    }
    text_deinit(&t);
    if (status != PROPANE_OK) {
        fprintf(stderr, "bench_check: %s\n", err.text);
        return 1;
    }
    for (int k = 0; k < 4; k++) {
        qsort(ns[k], ROUNDS, sizeof ns[k][0], compare);
        printf("%d ops: %s,%.2f\n", OPS, names[k], (double)ns[k][ROUNDS / 2] / 1e6);
    }
    return 0;
}
