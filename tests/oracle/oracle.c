/* SPDX-License-Identifier: MIT
 * oracle [--brief] [--bf16] [--twice] [--threads N] [--root DIR] [--ops] [FILE...]: what the cpu driver makes of programs, as
 * lines "PROGRAM<tab>KERNELS<tab>STAGE<tab>..." for tools/oracle.sh to compare. `--ops`: the cases of tests/support/op_cases.c;
 * without FILEs their paths are read from standard input. Beside x.mil, x.in may hold the bytes of its inputs; a name that ends in
 * -nofuse, -bf16 or -round asks for that. PROPANE_ISA restricts the kernels to one set.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "oracle/take.h"
#include "support/op_cases.h"

typedef struct oracle_job {
    bool brief, bf16, twice, ops;
    const char *root;
    int programs, taken;
} oracle_job;

static void print_lines(const char *name, const char *kernels, const text *lines) {
    for (const char *p = lines->data; p && *p; p = strchr(p, '\n') + 1)
        printf("%s\t%s\t%.*s\n", name, kernels, (int)strcspn(p, "\n"), p);
}

static void print_taken(const oracle_job *job, const char *name, const char *kernels, const oracle_taken *t) {
    if (!job->brief) {
        print_lines(name, kernels, &t->plan);
        print_lines(name, kernels, &t->outputs);
        return;
    }
    char plan[20], outputs[20];
    oracle_hash(t->plan.data ? t->plan.data : "", t->plan.length, 16, plan);
    oracle_hash(t->outputs.data ? t->outputs.data : "", t->outputs.length, 16, outputs);
    printf("%s\t%s\tplan\t%s\n%s\t%s\toutputs\t%s\n", name, kernels, plan, name, kernels, outputs);
}

/* One function: every set of kernels that is here and wanted. */
static void each_choice(oracle_job *job, const char *name, const mil_function *f, oracle_choice base,
                        const oracle_inputs *in) {
    const char *wanted = getenv("PROPANE_ISA");
    job->programs++;
    for (int isa = 0; isa < oracle_isa_count(); isa++) {
        const char *label = oracle_isa_label(isa);
        if (!label ||
            (wanted && *wanted &&
             (strncmp(wanted, label, strlen(wanted)) != 0 || (label[strlen(wanted)] && label[strlen(wanted)] != '+'))))
            continue;
        for (int bf16 = base.bf16; bf16 <= (base.bf16 || job->bf16); bf16++) {
            oracle_choice choice = base;
            oracle_taken t;
            char kernels[60];
            choice.isa = isa, choice.bf16 = bf16;
            snprintf(kernels, sizeof kernels, "%s%s", label, bf16 ? "/bf16" : "");
            oracle_take(f, &choice, in, job->twice, &t);
            print_taken(job, name, kernels, &t);
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
    const size_t skip = job->root && !strncmp(path, job->root, strlen(job->root)) ? strlen(job->root) : 0;
    fprintf(stderr, "%s\n", path); /* the last one is what it died of */
    if (oracle_load(path, &m, &err) != PROPANE_OK) {
        printf("%s\t-\tread\t%s\n", path + skip, propane_status_name(err.status));
        return;
    }
    snprintf(beside, sizeof beside, "%.*sin", (int)strlen(path) - 3, path);
    if (text_ends_with(path, ".mil") && file_exists(beside) && file_read(beside, 256 << 20, &raw, &bytes, &err))
        raw = NULL;
    const oracle_choice choice = {.fuse = !strstr(path, "-nofuse"),
                                  .bf16 = strstr(path, "-bf16") != NULL,
                                  .round_each = strstr(path, "-round") != NULL};
    for (const mil_function *f = m->functions; f; f = f->next) {
        const oracle_inputs in = {.raw = raw, .raw_bytes = bytes};
        snprintf(name, sizeof name, "%s%s%s", path + skip, m->function_count > 1 ? ":" : "",
                 m->function_count > 1 ? f->name : "");
        each_choice(job, name, f, choice, &in);
    }
    mem_free(raw);
    mil_module_free(m);
}

static void take_op(const op_case *c, void *context) {
    const oracle_inputs in = {.tensors = c->inputs};
    char name[600];
    for (int i = 0; i < c->function->param_count; i++)
        if (c->function->params[i]->type.shell == MIL_STATE) return; /* a pass's */
    snprintf(name, sizeof name, "op %s", c->label);
    each_choice(context, name, c->function, (oracle_choice){.fuse = true}, &in);
}

/* The cases are made with Check's assertions, which want to be called from a test. */
static oracle_job *ops_job;
static void take_ops(int index) { op_cases_each(OP_CASES_ALL, 1, take_op, ops_job); }

static int each_op(oracle_job *job) {
    static const TTest test = {"ops", take_ops, "oracle.c", 0};
    TCase *tcase = tcase_create("ops");
    Suite *suite = suite_create("oracle");
    ops_job = job;
    tcase_add_test(tcase, &test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed;
}

int main(int argc, char **argv) {
    oracle_job job = {0};
    propane_error err = {0};
    int threads = 2, at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        const char *more = at + 1 < argc ? argv[at + 1] : "";
        if (!strcmp(argv[at], "--brief"))
            job.brief = true;
        else if (!strcmp(argv[at], "--bf16"))
            job.bf16 = true;
        else if (!strcmp(argv[at], "--twice"))
            job.twice = true;
        else if (!strcmp(argv[at], "--ops"))
            job.ops = true;
        else if (!strcmp(argv[at], "--root"))
            job.root = more, at++;
        else if (!strcmp(argv[at], "--threads"))
            threads = atoi(more), at++;
        else {
            fprintf(stderr, "oracle: no option %s\n", argv[at]);
            return 2;
        }
    }
    if (pool_set_threads(threads, &err)) {
        fprintf(stderr, "oracle: %s\n", err.text);
        return 2;
    }
    oracle_pin_caches();
    if (job.ops && each_op(&job)) {
        fprintf(stderr, "oracle: the cases of the operations cannot be built\n");
        return 1;
    }
    for (int i = at; i < argc; i++) take_file(&job, argv[i]);
    char line[1000];
    while (!job.ops && at == argc && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (*line) take_file(&job, line);
    }
    fprintf(stderr, "%d programs, %d times\n", job.programs, job.taken);
    return 0;
}
