/* SPDX-License-Identifier: MIT
 * Owns the reading of tests/data/ops_reference.txt; tools/ops_reference.py describes its lines.
 */
#include "support/reference.h"

#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/mil/text/mil_text.h"
#include "support/op_cases.h"
#include "support/test.h"

/* Cuts a line off `at`. Returns NULL at the end. */
static char *next_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (!*line) return NULL;
    EXPECT(end != NULL);
    *end = 0;
    *at = end + 1;
    return line;
}

/* Reads "[2,3] 1 2 3 4 5 6 [] 7" and returns the number of tensors. */
static int read_tensors(arena *a, const char *label, char *at, mil_tensor *out) {
    int count = 0;
    for (at += strspn(at, " "); *at; at += strspn(at, " "), count++) {
        EXPECT_MSG(*at == '[' && count < REFERENCE_VALUES, "%s: bad values at %.40s", label, at);
        mil_tensor *t = &out[count];
        *t = (mil_tensor){.type = {.dtype = MIL_fp32}};
        at++;
        while (*at != ']') {
            EXPECT_MSG(t->type.rank < MIL_MAX_RANK, "%s: too many dimensions", label);
            t->type.dim[t->type.rank++] = strtoll(at, &at, 10);
            if (*at == ',') at++;
        }
        at++;
        const int64_t elements = mil_type_count(&t->type);
        t->data = ARENA_ARRAY(a, elements + 1, double);
        EXPECT(t->data != NULL);
        for (int64_t i = 0; i < elements; i++) {
            char *end = NULL;
            t->data[i] = strtod(at, &end);
            EXPECT_MSG(end > at, "%s: a value is missing", label);
            at = end;
        }
    }
    return count;
}

static mil_opcode row_of(const char *name, size_t length) {
    const mil_op_info *info = mil_op_find(name, length);
    EXPECT_MSG(info != NULL, "no operation %.*s", (int)length, name);
    return info->code;
}

static void visit_program(arena *a, char *line, char **at, reference_case *c, reference_visit visit, void *context) {
    propane_error err = {0};
    mil_module *m = NULL;
    mil_tensor inputs[REFERENCE_VALUES];
    char *space = strchr(line, ' ');
    c->label = space + 1;
    for (char *name = line + 1; name < space; name += strcspn(name, ", ") + 1) {
        EXPECT(c->row_count < 8);
        c->rows[c->row_count++] = row_of(name, strcspn(name, ", "));
    }
    if (mil_parse(c->label, strlen(c->label), "case", NULL, &m, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    EXPECT_OK(mil_verify(m, &err));
    c->function = m->functions;
    const int count = read_tensors(a, c->label, next_line(at), inputs);
    EXPECT_MSG(count == c->function->param_count, "%s: %d inputs", c->label, count);
    for (int i = 0; i < count; i++) inputs[i].type = mil_type_bare(&c->function->params[i]->type);
    c->inputs = inputs;
    c->want_count = read_tensors(a, c->label, next_line(at), c->want);
    visit(c, context);
    mil_module_free(m);
}

static void visit_operation(arena *a, char *line, char **at, reference_case *c, reference_visit visit, void *context) {
    propane_error err = {0};
    char name[64], dtype[16];
    int used = 0;
    c->is_distribution = *line == '~';
    EXPECT_MSG(sscanf(line + c->is_distribution, "%63s %15s %n", name, dtype, &used) == 2, "bad line %.60s", line);
    c->rows[c->row_count++] = row_of(name, strlen(name));
    const mil_dtype type = mil_dtype_from_name(dtype, strlen(dtype));
    op_case *made = op_case_make(c->rows[0], type, line + c->is_distribution + used, 1, &err);
    if (!made) ck_abort_msg("%s: %s", line, err.text);
    c->label = made->label;
    c->function = made->function;
    c->inputs = made->inputs;
    c->want_count = read_tensors(a, c->label, next_line(at), c->want);
    visit(c, context);
    op_case_free(made);
}

int reference_each(reference_visit visit, void *context) {
    propane_error err = {0};
    char *data = NULL;
    size_t length = 0;
    int count = 0;
    EXPECT_OK(file_read("tests/data/ops_reference.txt", 1 << 24, &data, &length, &err));
    char *at = data;
    for (char *line = next_line(&at); line; line = next_line(&at), count++) {
        reference_case c = {0};
        arena *a = arena_create();
        EXPECT(a != NULL);
        (*line == '@' ? visit_program : visit_operation)(a, line, &at, &c, visit, context);
        arena_free(a);
    }
    mem_free(data);
    return count;
}
