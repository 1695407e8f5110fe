/* SPDX-License-Identifier: MIT
 * propane diff A [B]: runs two programs, or one on two devices or in two precisions, on the same inputs and tells where
 * their values part: the first operation, and how far apart each is. Of two compiled programs it names the fields that
 * differ.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/cmd/show_compiled.h"
#include "mil/ops.h"
#include "run/session.h"

enum { MAX_GIVEN = 64 };

/* One value that both sides have. */
typedef struct row {
    const char *name;
    const mil_op *op;
    double largest, mean, scale; /* largest and mean difference; the largest value of A */
    int64_t count;
    bool broken; /* not a number on one side only */
} row;

typedef struct diff_job {
    const char *a, *b;
    session_options left, right;
    char *inputs[MAX_GIVEN], *shapes[MAX_GIVEN];
    cli_list input_list, shape_list;
    int64_t seed;
    double tolerance;
    bool all, resize;
    session_inputs given;
    mil_shape_choice choices[MAX_GIVEN];
    char *names[MAX_GIVEN];
    row *rows;
    int row_count;
} diff_job;

static double cmd_diff_relative(const row *r) {
    return r->broken ? INFINITY : r->scale > 0 ? r->largest / r->scale : r->largest;
}

/* The op that makes a value; results stand in the order of the program. */
static const mil_op *cmd_diff_maker(const mil_function *f, const char *name) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++)
            if (strcmp(op->results[i]->name, name) == 0) return op;
    return NULL;
}

static int cmd_diff_find_output(const session *s, const char *name) {
    for (int i = 0; i < s->outputs; i++)
        if (strcmp(s->run.bindings[s->inputs + i].name, name) == 0) return i;
    return -1;
}

static void cmd_diff_compare(const float *a, const float *b, int64_t count, row *out) {
    double sum = 0;
    out->count = count;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)a[i], y = (double)b[i], d = x == y ? 0 : fabs(x - y);
        if (isnan(d) && isnan(x) && isnan(y)) continue;
        if (isnan(d)) out->broken = true;
        if (isfinite(x) && fabs(x) > out->scale) out->scale = fabs(x);
        if (d > out->largest) out->largest = d;
        sum += isfinite(d) ? d : 0;
    }
    out->mean = count ? sum / (double)count : 0;
}

static propane_status cmd_diff_add_row(diff_job *j, session *a, int at, session *b, propane_error *err) {
    const propane_io *left = NULL, *right = NULL;
    float *x = NULL, *y = NULL;
    int64_t n = 0, m = 0;
    const int other = cmd_diff_find_output(b, a->run.bindings[a->inputs + at].name);
    if (other < 0) return PROPANE_OK;
    PROPANE_TRY(session_output(a, at, &left, &x, &n, err));
    propane_status status = session_output(b, other, &right, &y, &m, err);
    if (!status && n == m) {
        row *r = &j->rows[j->row_count++];
        *r = (row){.name = left->name, .op = cmd_diff_maker(a->function, left->name)};
        cmd_diff_compare(x, y, n, r);
    }
    mem_free(x);
    if (!status) mem_free(y);
    return status;
}

/* In the order of A's program; outputs come first in the list of results, so the order is made here. */
static propane_status cmd_diff_compare_all(diff_job *j, session *a, session *b, propane_error *err) {
    j->rows = mem_array((size_t)a->outputs + 1, sizeof *j->rows);
    if (!j->rows) return propane_fail_memory(err, 0);
    for (const mil_op *op = a->function->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++) {
            const int at = cmd_diff_find_output(a, op->results[i]->name);
            if (at >= 0) PROPANE_TRY(cmd_diff_add_row(j, a, at, b, err));
        }
    return PROPANE_OK;
}

static void cmd_diff_print_row(const row *r) {
    printf("%-40.40s %-24.24s %12.4g %12.4g %12.4g %10.2e\n", r->name, r->op ? r->op->info->name : "", r->largest,
           r->mean, r->scale, cmd_diff_relative(r));
}

static int cmd_diff_report(const diff_job *j) {
    const row *first = NULL, *worst = NULL;
    for (int i = 0; i < j->row_count; i++) {
        const row *r = &j->rows[i];
        if (!first && cmd_diff_relative(r) > j->tolerance) first = r;
        if (!worst || cmd_diff_relative(r) > cmd_diff_relative(worst)) worst = r;
    }
    if (j->all || first)
        printf("%-40s %-24s %12s %12s %12s %10s\n", "value", "operation", "largest", "mean", "of", "relative");
    for (int i = 0; i < j->row_count; i++)
        if (j->all || &j->rows[i] == first) cmd_diff_print_row(&j->rows[i]);
    if (!j->all && first && worst != first) cmd_diff_print_row(worst);
    printf("%d values compared; the largest relative difference is %.3g (%s)\n", j->row_count, cmd_diff_relative(worst),
           worst->name);
    if (first)
        printf("they part at %s '%s': %.3g, more than %.3g\n", first->op ? first->op->info->name : "value", first->name,
               cmd_diff_relative(first), j->tolerance);
    else
        printf("nothing differs by more than %.3g\n", j->tolerance);
    return first ? CLI_FAILED : CLI_OK;
}

static propane_status cmd_diff_run_both(diff_job *j, session *a, session *b, propane_error *err) {
    int64_t ns;
    for (int i = 0; i < j->input_list.count; i++)
        PROPANE_TRY(session_inputs_add(&j->given, j->input_list.items[i], err));
    for (int i = 0; i < j->shape_list.count; i++)
        PROPANE_TRY(session_shape(j->shape_list.items[i], &j->choices[i], &j->names[i], err));
    j->left.shapes = j->right.shapes = (mil_read_options){j->choices, j->shape_list.count};
    PROPANE_TRY(session_open(a, j->a, &j->left, err));
    PROPANE_TRY(session_open(b, j->b ? j->b : j->a, &j->right, err));
    a->resize = b->resize = j->resize;
    PROPANE_TRY(session_fill(a, &j->given, j->seed, err));
    PROPANE_TRY(session_fill(b, &j->given, j->seed, err));
    PROPANE_TRY(session_run(a, &ns, err));
    PROPANE_TRY(session_run(b, &ns, err));
    PROPANE_TRY(cmd_diff_compare_all(j, a, b, err));
    if (j->row_count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s and %s have no value of one name and size", j->a,
                        j->b ? j->b : j->a);
}

static int cmd_diff_compiled(const char *a, const char *b) {
    propane_error err = {0};
    int words = 0;
    if (show_compiled_difference(a, b, &words, &err) != PROPANE_OK) return cli_error("diff", &err);
    printf("%d word%s\n", words, words == 1 ? " differs" : "s differ");
    return words ? CLI_FAILED : CLI_OK;
}

int cmd_diff(int argc, char **argv) {
    diff_job j = {.left = {.device = "cpu", .precision = "fp32", .keep = true},
                  .right = {.device = "cpu", .precision = "typed", .keep = true},
                  .seed = -1,
                  .tolerance = 0.01};
    j.input_list.items = j.inputs;
    j.shape_list.items = j.shapes;
    const cli_flag flags[] = {
        {"A", CLI_TEXT, &j.a, .help = "a model in any form that `propane run` takes", .required = true},
        {"B", CLI_TEXT, &j.b, .help = "another model; left out: the same, on other terms"},
        {"--input", CLI_TEXTS, &j.input_list, .max = MAX_GIVEN, .words = "NAME=FILE", .help = "as for propane run"},
        {"--resize", CLI_SWITCH, &j.resize, .help = "scale pictures to the input's size"},
        {"--seed", CLI_INT, &j.seed, 0, 1e15, "N", "random numbers for the inputs that are not given"},
        {"--shape", CLI_TEXTS, &j.shape_list, .max = MAX_GIVEN, .words = "NAME=1,3,224,224", .help = "of open inputs"},
        {"--device-a", CLI_TEXT, &j.left.device, .words = "DEVICE", .help = "of A"},
        {"--device-b", CLI_TEXT, &j.right.device, .words = "DEVICE", .help = "of B"},
        {"--precision-a", CLI_CHOICE, &j.left.precision, .words = "typed|fp16|fp32|bf16", .help = "of A"},
        {"--precision-b", CLI_CHOICE, &j.right.precision, .words = "typed|fp16|fp32|bf16", .help = "of B"},
        {"--function", CLI_TEXT, &j.left.function, .words = "NAME", .help = "of models with several"},
        {"--tolerance", CLI_REAL, &j.tolerance, 0, 1e9, "X",
         "largest difference over largest value that is no parting"},
        {"--ops", CLI_SWITCH, &j.all, .help = "all values, in the order of the program"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "diff A [B] [flags]",
                  "Runs two models, or one on two devices or in two precisions (fp32 and as typed unless flags say "
                  "otherwise), on the same inputs, and names the first operation whose values part. Of two compiled "
                  "programs (.hwx, .anec) it names the fields that differ.\n"
                  "Exit code: 0 nothing parts, 1 something does (or it failed).");
    if (code >= 0) return code;
    if (j.b && show_compiled_is(j.a) && show_compiled_is(j.b)) return cmd_diff_compiled(j.a, j.b);
    propane_error err = {0};
    session a = {0}, b = {0};
    j.right.function = j.left.function;
    propane_status status = cmd_diff_run_both(&j, &a, &b, &err);
    code = status == PROPANE_OK ? cmd_diff_report(&j) : cli_error("diff", &err);
    mem_free(j.rows);
    session_close(&a);
    session_close(&b);
    session_inputs_free(&j.given);
    for (int i = 0; i < MAX_GIVEN; i++) mem_free(j.names[i]);
    return code;
}
