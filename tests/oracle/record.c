/* SPDX-License-Identifier: MIT
 * Makes the rows of the record and compares two sets of them. The cases of one operation are one row, whose hash covers
 * all their lines in order. bfloat16 products are included for kernels that have such instructions, and for plain C.
 */
#include "oracle/record.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/sha256.h"
#include "oracle/take.h"
#include "support/op_cases.h"
#include "support/reference.h"
#include "support/test.h"

enum { DIGITS = 8, ISAS = 8, FILES = 1000, THREADS = 2 };

/* ---- rows ----------------------------------------------------------------------------------------------------------------- */

static void print_row(text *out, const char *name, const char *kernels, const text *plan, const text *outputs) {
    char of_plan[DIGITS + 1], of_outputs[DIGITS + 1];
    oracle_hash(plan->data ? plan->data : "", plan->length, DIGITS, of_plan);
    oracle_hash(outputs->data ? outputs->data : "", outputs->length, DIGITS, of_outputs);
    text_printf(out, "%s\t%s\t%s\t%s\n", name, kernels, of_plan, of_outputs);
}

/* Takes at most two choices per set of kernels: the program's own, and with products of bfloat16. */
static void take_function(text *out, const char *name, const mil_function *f, oracle_choice choice) {
    const bool asked = choice.bf16;
    for (choice.isa = 0; choice.isa < oracle_isa_count(); choice.isa++) {
        const char *label = oracle_isa_label(choice.isa);
        const bool both = label && (strstr(label, "bf16") || strstr(label, "plain"));
        for (int bf16 = asked; label && bf16 <= (asked || both); bf16++) {
            char kernels[80];
            oracle_taken t;
            choice.bf16 = bf16;
            snprintf(kernels, sizeof kernels, "%s%s", label, bf16 ? "/bf16" : "");
            oracle_take(f, &choice, NULL, false, &t);
            print_row(out, name, kernels, &t.plan, &t.outputs);
            oracle_taken_deinit(&t);
        }
    }
}

static void take_file(text *out, const char *path) {
    propane_error err = {0};
    mil_module *m = NULL;
    if (oracle_load(path, &m, &err) != PROPANE_OK) return; /* tests/mil covers unreadable files */
    for (const mil_function *f = m->functions; f; f = f->next) {
        char name[600];
        snprintf(name, sizeof name, "%s:%s", path, f->name);
        take_function(out, name, f, oracle_choice_of(path));
    }
    mil_module_free(m);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void take_folder(text *out, const char *folder) {
    char *names[FILES];
    int count = 0;
    DIR *dir = opendir(folder);
    EXPECT_MSG(dir != NULL, "%s is missing: run this from the top of the source", folder);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (text_ends_with(e->d_name, ".mil") && strncmp(e->d_name, "bad_", 4) != 0 && count < FILES) {
            names[count] = mem_copy_string(e->d_name);
            EXPECT(names[count] != NULL);
            count++;
        }
    closedir(dir);
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        take_file(out, path);
        mem_free(names[i]);
    }
}

/* ---- operations ----------------------------------------------------------------------------------------------------------- */

typedef struct record_ops {
    oracle_taken all[MIL_OP_COUNT][ISAS];
} record_ops;

static void take_case(record_ops *r, mil_opcode code, const char *label, const mil_function *f,
                      const mil_tensor *inputs) {
    const oracle_inputs in = {.tensors = inputs};
    oracle_choice choice = {.fuse = true};
    for (int i = 0; i < f->param_count; i++)
        if (f->params[i]->type.container == MIL_STATE) return; /* states need a pass */
    for (; choice.isa < oracle_isa_count() && choice.isa < ISAS; choice.isa++) {
        oracle_taken t, *sum = &r->all[code][choice.isa];
        if (!oracle_isa_label(choice.isa)) continue;
        oracle_take(f, &choice, &in, false, &t);
        text_printf(&sum->plan, "%s\n%s", label, t.plan.data ? t.plan.data : "");
        text_printf(&sum->outputs, "%s\n%s", label, t.outputs.data ? t.outputs.data : "");
        oracle_taken_deinit(&t);
    }
}

static void take_op(const op_case *c, void *context) { take_case(context, c->code, c->label, c->function, c->inputs); }

static void take_reference(const reference_case *c, void *context) {
    take_case(context, c->rows[0], c->label, c->function, c->inputs);
}

static void take_ops(text *out) {
    record_ops *r = mem_alloc(sizeof *r);
    EXPECT(r != NULL);
    op_cases_each(OP_CASES_ALL, 1, take_op, r);
    reference_each(take_reference, r);
    for (int code = 0; code < MIL_OP_COUNT; code++)
        for (int isa = 0; isa < ISAS; isa++) {
            oracle_taken *t = &r->all[code][isa];
            char name[100];
            snprintf(name, sizeof name, "op %s", mil_op_get((mil_opcode)code)->name);
            if (t->plan.data) print_row(out, name, oracle_isa_label(isa), &t->plan, &t->outputs);
            oracle_taken_deinit(t);
        }
    mem_free(r);
}

void record_make(text *out) {
    propane_error err = {0};
    EXPECT_OK(pool_set_threads(THREADS, &err)); /* scratch is planned per thread */
    oracle_pin_caches();
    take_ops(out);
    take_folder(out, "tests/oracle/programs");
    take_folder(out, "tests/mil/cases");
    take_folder(out, "examples");
    EXPECT(!out->failed);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------ */

typedef struct record_row {
    const char *name, *kernels, *plan, *outputs;
    int name_length, kernels_length, plan_length, outputs_length;
} record_row;

static const char *read_field(const char *p, const char **field, int *length) {
    *field = p;
    *length = (int)strcspn(p, "\t\n");
    return p + *length + (p[*length] == '\t');
}

/* Reads the next row; returns NULL if there is none. */
static const char *read_row(const char *p, record_row *r) {
    while (*p == '#' || *p == '\n') p += strcspn(p, "\n") + (*p != '\n' ? p[strcspn(p, "\n")] != 0 : 1);
    if (!*p) return NULL;
    p = read_field(p, &r->name, &r->name_length);
    p = read_field(p, &r->kernels, &r->kernels_length);
    p = read_field(p, &r->plan, &r->plan_length);
    p = read_field(p, &r->outputs, &r->outputs_length);
    return p + strcspn(p, "\n");
}

static bool same(const char *a, int a_length, const char *b, int b_length) {
    return a_length == b_length && memcmp(a, b, (size_t)a_length) == 0;
}

/* Finds the row of `record` for the same program and kernels; `known` reports whether the program has a row for any
 * kernels. */
static bool find_row(const char *record, const record_row *like, record_row *out, bool *known) {
    *known = false;
    for (const char *p = record; (p = read_row(p, out)) != NULL;) {
        if (!same(out->name, out->name_length, like->name, like->name_length)) continue;
        *known = true;
        if (same(out->kernels, out->kernels_length, like->kernels, like->kernels_length)) return true;
    }
    return false;
}

static void compare_row(const record_row *was, const record_row *is, text *out) {
    const bool plan = same(was->plan, was->plan_length, is->plan, is->plan_length);
    const bool kept_out = same(was->outputs, was->outputs_length, "-", 1);
    const bool outputs = kept_out || same(was->outputs, was->outputs_length, is->outputs, is->outputs_length);
    if (plan && outputs) return;
    text_printf(out, "%.*s (%.*s): %s\n", is->name_length, is->name, is->kernels_length, is->kernels,
                plan      ? "other bits in the outputs"
                : outputs ? "another plan"
                          : "another plan, and other bits in the outputs");
}

int record_compare(const char *record, const char *now, text *out, int *checked, int *skipped) {
    record_row is, was;
    bool known;
    int lines = 0;
    *checked = *skipped = 0;
    for (const char *p = now; (p = read_row(p, &is)) != NULL;) {
        if (find_row(record, &is, &was, &known)) {
            ++*checked;
            compare_row(&was, &is, out);
        } else if (known) {
            ++*skipped;
        } else {
            text_printf(out, "%.*s (%.*s): is not in the record\n", is.name_length, is.name, is.kernels_length,
                        is.kernels);
        }
    }
    for (const char *p = record; (p = read_row(p, &was)) != NULL;) {
        if (find_row(now, &was, &is, &known)) continue;
        if (known)
            ++*skipped;
        else
            text_printf(out, "%.*s (%.*s): only the record has it\n", was.name_length, was.name, was.kernels_length,
                        was.kernels);
    }
    for (const char *p = out->data; p && *p; p++) lines += *p == '\n';
    return lines;
}
