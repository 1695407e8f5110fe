/* SPDX-License-Identifier: MIT
 * Every row of the table "Results for NaN, infinities, overflow and ties" in docs/coreml-differences.md is a case, for
 * the reference evaluation and for the cpu driver with each instruction set. Zeros must have the sign written there.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "cpu/plan/plan.h"
#include "support/op_cases.h"
#include "support/test.h"

enum { MOST = 32 };

typedef struct edge_row {
    op_case *c;
    const char *label;
    const char *refused; /* NULL if there are values */
    double want[MOST];
    int count;
} edge_row;

/* Returns the next `text` of a row and terminates it. */
static char *next_cell(char **at) {
    char *begin = strchr(*at, '`'), *end = begin ? strchr(begin + 1, '`') : NULL;
    if (!end) return NULL;
    *end = 0;
    *at = end + 1;
    return begin + 1;
}

static void read_row(edge_row *row, char *line) {
    propane_error err = {0};
    char op[64], dtype[16];
    int used = 0;
    char *text = next_cell(&line), *result = text ? next_cell(&line) : NULL;
    *row = (edge_row){.label = text};
    EXPECT_MSG(result && sscanf(text, "%63s %15s %n", op, dtype, &used) == 2, "no case in the row: %.60s", line);
    const mil_op_info *info = mil_op_find(op, strlen(op));
    EXPECT_MSG(info, "no operation %s", op);
    row->c = op_case_make(info->code, mil_dtype_from_name(dtype, strlen(dtype)), text + used, 1, &err);
    EXPECT_MSG(row->c, "%s: %s", text, err.text);
    if (!strncmp(result, "error: ", 7)) {
        row->refused = result + 7;
        return;
    }
    for (char *end; *result; result = end + strspn(end, " ")) {
        EXPECT(row->count < MOST);
        row->want[row->count++] = strtod(result, &end);
        EXPECT_MSG(end > result, "%s: not a number: %s", text, result);
    }
}

static void check_values(const edge_row *row, const char *where, int at, const mil_type *type, const double *got) {
    const bool real = mil_dtype_is_float(type->dtype);
    for (int64_t i = 0; i < mil_type_count(type); i++) {
        EXPECT_MSG(at + i < row->count, "%s: the row has %d results", row->label, row->count);
        const double want = mil_round(type->dtype, row->want[at + i]),
                     v = real ? mil_round(type->dtype, got[i]) : got[i];
        const bool whole = isnan(want) || isinf(want) || want == nearbyint(want);
        const bool same = isnan(want)   ? isnan(v)
                          : !whole      ? fabs(v - want) <= FLT_EPSILON * fabs(want)
                          : want == 0.0 ? v == 0.0 && (!real || signbit(v) == signbit(want))
                                        : v == want;
        EXPECT_MSG(same, "%s: %s gives %.9g, not %.9g", row->label, where, v, want);
    }
}

static void check_meaning(const edge_row *row, arena *a) {
    propane_error err = {0};
    mil_tensor *out = NULL;
    const propane_status status = mil_eval_function(row->c->function, row->c->inputs, false, a, &out, &err);
    if (row->refused) {
        EXPECT_MSG(status && strstr(err.text, row->refused), "%s: the meaning says '%s'", row->label, err.text);
        return;
    }
    EXPECT_MSG(!status, "%s: %s", row->label, err.text);
    int at = 0;
    for (int k = 0; k < row->c->function->result_count; at += (int)mil_type_count(&out[k++].type))
        check_values(row, "the meaning", at, &out[k].type, out[k].data);
    EXPECT_MSG(at == row->count, "%s: %d results, the row has %d", row->label, at, row->count);
}

static void check_cpu(const edge_row *row, cpu_isa isa, arena *a) {
    const op_case *c = row->c;
    const cpu_plan_options options = {.kernels = cpu_kernels_of(isa), .guard = true, .fuse = true};
    propane_error err = {0};
    cpu_program *program = NULL;
    void *inputs[OP_CASE_INPUTS], *outputs[8];
    EXPECT_OK(cpu_plan_compile(c->function, &options, a, &program, &err));
    EXPECT(program->output_count <= 8);
    for (int i = 0; i < c->input_count; i++) {
        inputs[i] = mem_alloc(program->inputs[i].bytes + 1);
        mil_pack_f64(inputs[i], c->inputs[i].type.dtype, c->inputs[i].data, mil_type_count(&c->inputs[i].type));
    }
    for (int k = 0; k < program->output_count; k++) outputs[k] = mem_alloc(program->outputs[k].bytes + 1);
    void *block = mem_pages_alloc((size_t)program->block_bytes + 64);
    const propane_status status = cpu_program_run(program, block, inputs, outputs, &err);
    if (row->refused)
        EXPECT_MSG(status && strstr(err.text, row->refused), "%s: %s says '%s'", row->label, cpu_isa_name(isa),
                   err.text);
    else
        EXPECT_MSG(!status, "%s: %s", row->label, err.text);
    for (int k = 0, at = 0; k < program->output_count; k++) {
        const mil_type *type = &c->function->results[k]->type;
        double got[MOST];
        EXPECT(mil_type_count(type) <= MOST);
        mil_unpack_f64(got, type->dtype, outputs[k], mil_type_count(type));
        if (!row->refused) check_values(row, cpu_isa_name(isa), at, type, got);
        at += (int)mil_type_count(type);
        mem_free(outputs[k]);
    }
    for (int i = 0; i < c->input_count; i++) mem_free(inputs[i]);
    mem_pages_free(block, (size_t)program->block_bytes + 64);
    cpu_program_deinit(program);
}

TEST(the_rows_of_the_table) {
    propane_error err = {0};
    char *data = NULL;
    size_t length = 0;
    int rows = 0;
    EXPECT_OK(file_read("docs/coreml-differences.md", 1 << 20, &data, &length, &err));
    char *at = strstr(data, "\n## Results for NaN, infinities, overflow and ties\n"),
         *end = at ? strstr(at + 4, "\n## ") : NULL;
    EXPECT_MSG(end, "the table is not where it was");
    *end = 0;
    for (char *line = at, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (strncmp(line, "| ", 2) != 0 || !strchr(line, '`')) continue;
        edge_row row;
        arena *a = arena_create();
        EXPECT(a != NULL);
        read_row(&row, line);
        check_meaning(&row, a);
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
            if (cpu_isa_available((cpu_isa)isa)) check_cpu(&row, (cpu_isa)isa, a);
        op_case_free(row.c);
        arena_free(a);
        rows++;
    }
    mem_free(data);
    printf("  %d rows\n", rows);
    EXPECT(rows > 60);
}

SUITE("ops/edges", T(the_rows_of_the_table))
