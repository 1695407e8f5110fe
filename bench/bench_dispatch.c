/* SPDX-License-Identifier: MIT
 * Measures the cost of handing over work: an empty program from submit to completion on the null driver, and an empty
 * loop of the thread pool. CSV: subject, median and 99th percentile in microseconds. Usage: bench_dispatch [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/pool.h"

enum { DEPTH = 127 };

static const char program_text[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n{\n"
    "    func main<ios18>(tensor<fp16, [1, 8, 1, 8]> x) {\n"
    "        tensor<fp16, [1, 8, 1, 8]> y = add(x = x, y = x)[name = string(\"y\")];\n"
    "    } -> (y);\n}\n";

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void report(const char *subject, int64_t *ns, int count, int parts) {
    qsort(ns, (size_t)count, sizeof *ns, compare);
    printf("%s,%.2f,%.2f\n", subject, (double)ns[count / 2] / 1000 / parts,
           (double)ns[count * 99 / 100] / 1000 / parts);
}

static void nothing(void *context, int task, int worker) {}

/* Keeps the host busy between two rounds, so that the device's thread goes to sleep. */
static void pause_ns(int64_t ns) {
    for (int64_t end = clock_ns() + ns; clock_ns() < end;) {
    }
}

static propane_status measure(int rounds, int64_t *ns, propane_error *err) {
    propane_device *d = NULL;
    propane_module *m = NULL;
    propane_program *p = NULL;
    propane_buffer *x = NULL, *y = NULL;
    propane_request *r[DEPTH];
    PROPANE_TRY(propane_device_open("null", &d, err));
    PROPANE_TRY(propane_module_parse(program_text, strlen(program_text), "bench", NULL, &m, err));
    PROPANE_TRY(propane_program_compile(d, m, NULL, &p, err));
    PROPANE_TRY(propane_buffer_create(d, 128, &x, err));
    PROPANE_TRY(propane_buffer_create(d, 128, &y, err));
    propane_binding bindings[] = {{"x", x}, {"y", y}};
    for (int i = 0; i < DEPTH; i++) PROPANE_TRY(propane_request_create(p, bindings, 2, &r[i], err));

    for (int pause = 0; pause < 2; pause++) {
        for (int i = -100; i < rounds; i++) {
            if (pause) pause_ns(20000);
            int64_t begin = clock_ns();
            PROPANE_TRY(propane_submit(r, 1, err));
            PROPANE_TRY(propane_wait(r[0], NULL, err));
            if (i >= 0) ns[i] = clock_ns() - begin;
        }
        report(pause ? "submit+wait of one after 20 us of other work" : "submit+wait of one", ns, rounds, 1);
    }
    for (int i = 0; i < rounds; i++) {
        int64_t begin = clock_ns();
        PROPANE_TRY(propane_submit(r, DEPTH, err));
        PROPANE_TRY(propane_wait(r[DEPTH - 1], NULL, err));
        ns[i] = clock_ns() - begin;
    }
    report("a request in a chain of 127", ns, rounds, DEPTH);
    for (int i = 0; i < DEPTH; i++) propane_request_free(r[i]);
    propane_buffer_free(x);
    propane_buffer_free(y);
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
    return PROPANE_OK;
}

static void measure_pool(int rounds, int64_t *ns) {
    char subject[60];
    for (int pause = 0; pause < 2; pause++) {
        for (int i = -100; i < rounds; i++) {
            if (pause) pause_ns(200000);
            int64_t begin = clock_ns();
            pool_run(nothing, NULL, 64);
            if (i >= 0) ns[i] = clock_ns() - begin;
        }
        snprintf(subject, sizeof subject, "pool loop of 64 empty tasks%s, %d threads", pause ? " after 200 us" : "",
                 pool_threads());
        report(subject, ns, rounds, 1);
    }
    pool_stop();
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5000;
    if (rounds < 100 || rounds > 10000000) {
        fprintf(stderr, "usage: bench_dispatch [ROUNDS]   (100 to 10,000,000)\n");
        return 2;
    }
    propane_error err = {0};
    int64_t *ns = mem_array((size_t)rounds, sizeof *ns);
    if (!ns) return 1;
    printf("subject,median_us,p99_us\n");
    if (measure(rounds, ns, &err) != PROPANE_OK) {
        fprintf(stderr, "bench_dispatch: %s\n", err.text);
        return 1;
    }
    measure_pool(rounds < 2000 ? rounds : 2000, ns);
    mem_free(ns);
    return 0;
}
