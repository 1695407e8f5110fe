/* SPDX-License-Identifier: MIT
 * Prints the cpu driver's plans and results of programs, as lines "PROGRAM<tab>KERNELS<tab>STAGE<tab>..." for
 * tools/oracle.sh:
 *
 *     oracle [--bf16] [--twice] [--threads N] FILE... | -      "-": paths from standard input
 *     oracle [--bf16] [--twice] [--threads N] --ops           the cases of tests/support/op_cases.c
 *     oracle --record                                         the rows of record.txt
 *
 * --bf16 adds matrix products of bfloat16. --twice adds a run on one thread, which must give the same bits. x.in next
 * to x.mil may hold the bytes of its inputs. PROPANE_ISA restricts the kernels to one set.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "oracle/record.h"
#include "oracle/take.h"
#include "support/op_cases.h"

typedef struct oracle_job {
    bool bf16, twice;
    int programs, taken;
} oracle_job;

static void print_lines(const char *name, const char *kernels, const text *lines) {
    for (const char *p = lines->data; p && *p; p = strchr(p, '\n') + 1)
        printf("%s\t%s\t%.*s\n", name, kernels, (int)strcspn(p, "\n"), p);
}

static bool wanted(const char *label) {
    const char *name = getenv("PROPANE_ISA");
    const size_t n = name ? strlen(name) : 0;
    return label && (!n || (strncmp(name, label, n) == 0 && (!label[n] || label[n] == '+')));
}

/* Processes one function with every available and requested set of kernels. */
static void each_choice(oracle_job *job, const char *name, const mil_function *f, oracle_choice base,
                        const oracle_inputs *in) {
    job->programs++;
    for (int isa = 0; isa < oracle_isa_count(); isa++) {
        const char *label = oracle_isa_label(isa);
        if (!wanted(label)) continue;
        for (int bf16 = base.bf16; bf16 <= (base.bf16 || job->bf16); bf16++) {
            oracle_choice choice = base;
            oracle_taken t;
            char kernels[60];
            choice.isa = isa, choice.bf16 = bf16;
            snprintf(kernels, sizeof kernels, "%s%s", label, bf16 ? "/bf16" : "");
            oracle_take(f, &choice, in, job->twice, &t);
            print_lines(name, kernels, &t.plan);
            print_lines(name, kernels, &t.outputs);
            oracle_taken_deinit(&t);
            job->taken++;
        }
    }
    fflush(stdout);
}

static void take_file(oracle_job *job, const char *path) {
    propane_error err = {0};
    mil_module *m = NULL;
    char name[1000], beside[1000], *raw = NULL;
    size_t bytes = 0;
    fprintf(stderr, "%s\n", path); /* the last path printed is the one that ended the process */
    if (oracle_load(path, &m, &err) != PROPANE_OK) {
        printf("%s\t-\tread\t%s\n", path, propane_status_name(err.status));
        return;
    }
    snprintf(beside, sizeof beside, "%.*sin", (int)strlen(path) - 3, path);
    if (text_ends_with(path, ".mil") && file_exists(beside) && file_read(beside, 256 << 20, &raw, &bytes, &err))
        raw = NULL;
    for (const mil_function *f = m->functions; f; f = f->next) {
        const oracle_inputs in = {.raw = raw, .raw_bytes = bytes};
        snprintf(name, sizeof name, "%s%s%s", path, m->function_count > 1 ? ":" : "",
                 m->function_count > 1 ? f->name : "");
        each_choice(job, name, f, oracle_choice_of(path), &in);
    }
    mem_free(raw);
    mil_module_free(m);
}

static void take_op(const op_case *c, void *context) {
    const oracle_inputs in = {.tensors = c->inputs};
    char name[600];
    for (int i = 0; i < c->function->param_count; i++)
        if (c->function->params[i]->type.container == MIL_STATE) return; /* states need a pass */
    snprintf(name, sizeof name, "op %s", c->label);
    each_choice(context, name, c->function, (oracle_choice){.fuse = true}, &in);
}

static oracle_job *ops_job;
static void take_ops(int index) { op_cases_each(OP_CASES_ALL, 1, take_op, ops_job); }

static void print_record(int index) {
    text rows = {0};
    record_make(&rows);
    fputs(rows.data, stdout);
    text_deinit(&rows);
}

/* Runs `body` as a test, because the cases of operations use Check's assertions, which must be called from a test. */
static int as_test(TFun body) {
    const TTest test = {"oracle", body, "oracle.c", 0};
    TCase *tcase = tcase_create("oracle");
    Suite *suite = suite_create("oracle");
    tcase_add_test(tcase, &test);
    tcase_set_timeout(tcase, 0);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed) fprintf(stderr, "oracle: the cases of the operations cannot be built; test_rows says why\n");
    return failed ? 1 : 0;
}

static void take_listed(oracle_job *job) {
    char line[1000];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (*line) take_file(job, line);
    }
}

int main(int argc, char **argv) {
    oracle_job job = {0};
    propane_error err = {0};
    int threads = 2;
    bool ops = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--record")) return as_test(print_record);
        if (!strcmp(argv[i], "--bf16")) job.bf16 = true;
        if (!strcmp(argv[i], "--twice")) job.twice = true;
        if (!strcmp(argv[i], "--ops")) ops = true;
        if (!strcmp(argv[i], "--threads") && i + 1 < argc) threads = atoi(argv[++i]);
    }
    if (pool_set_threads(threads, &err)) {
        fprintf(stderr, "oracle: %s\n", err.text);
        return 2;
    }
    oracle_pin_caches();
    ops_job = &job;
    if (ops && as_test(take_ops)) return 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--threads"))
            i++;
        else if (!strcmp(argv[i], "-"))
            take_listed(&job);
        else if (strncmp(argv[i], "--", 2) != 0)
            take_file(&job, argv[i]);
    }
    fprintf(stderr, "%d programs, %d times\n", job.programs, job.taken);
    return 0;
}
