/* SPDX-License-Identifier: MIT
 * Lists whose elements have named sizes, in a package as converters write them. The cases in text are in
 * tests/cli/cases/foreign.t.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"
#include "propane.h"
#include "support/test.h"

static const char program[] =
    "program(1.3)\n{\nfunc main<ios15>(tensor<fp32, [3, 1, 2]> x) {\n"
    "string size = const()[val = string(\"is1\")];\n"
    "tensor<int32, [3]> all = const()[val = tensor<int32, [3]>([0, 1, 2])];\n"
    "list<tensor<fp32, [1, 2]>, 3> made = make_list(init_length = int32(3), dynamic_length = true, "
    "elem_shape = (int32(1), int32(2)), dtype = \"fp32\");\n"
    "list<tensor<fp32, [1, 2]>, 3> full = list_scatter(ls = made, indices = all, value = x);\n"
    "tensor<fp32, [3, 1, 2]> y = list_gather(ls = full, indices = all);\n} -> (y);\n}\n";

static void open_dimension(Coreml__Dimension *d) {
    Coreml__UnknownDimension *any = calloc(1, sizeof *any);
    EXPECT(any != NULL);
    coreml__unknown_dimension__init(any);
    free(d->constant);
    d->kind_case = COREML__DIMENSION__KIND_UNKNOWN;
    d->unknown = any;
}

/* Replaces the first size by the name in the constant "size", in the operand and in all types. */
static void name_the_size(Coreml__Block *block) {
    for (size_t i = 0; i < block->n_operations; i++) {
        Coreml__Operation *op = block->operations[i];
        if (strcmp(op->type, "list_gather") == 0) open_dimension(op->outputs[0]->type->tensor->dimensions[1]);
        if (strcmp(op->type, "list_scatter") == 0 || strcmp(op->type, "make_list") == 0)
            open_dimension(op->outputs[0]->type->list->type->tensor->dimensions[0]);
        for (size_t k = 0; k < op->n_inputs; k++) {
            if (strcmp(op->inputs[k]->key, "elem_shape") != 0) continue;
            Coreml__Binding *b = op->inputs[k]->value->bindings[0];
            if (b->kind_case == COREML__BINDING__KIND_NAME) free(b->name);
            if (b->kind_case == COREML__BINDING__KIND_VALUE) coreml__value__free_unpacked(b->value, NULL);
            b->kind_case = COREML__BINDING__KIND_NAME;
            b->name = strdup("size");
        }
    }
}

TEST(sizes_by_name_follow_what_is_written) {
    propane_error err = {0};
    mil_module *m = NULL;
    uint8_t *bytes = NULL;
    size_t count = 0;
    char *dir = test_temp_dir(), path[600];
    const float x[6] = {1, 2, 3, 4, 5, 6};
    float y[6] = {0};
    propane_session *s = NULL;
    snprintf(path, sizeof path, "%s/list.mlmodel", dir);
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    EXPECT_OK(mil_package_pack(m, &bytes, &count, &err));
    mil_module_free(m);
    Coreml__Model *model = coreml__model__unpack(NULL, count, bytes);
    EXPECT(model != NULL);
    mem_free(bytes);
    name_the_size(model->program->functions[0]->value->blocks[0]->value);
    count = coreml__model__get_packed_size(model);
    bytes = mem_alloc(count);
    EXPECT(bytes != NULL);
    coreml__model__pack(model, bytes);
    coreml__model__free_unpacked(model, NULL);
    EXPECT_OK(file_write(path, bytes, count, &err));
    mem_free(bytes);
    EXPECT_OK(propane_session_open(path, NULL, &s, &err));
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, x, 6, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT(propane_session_output(s, 0)->rank == 3 && propane_session_output(s, 0)->dim[1] == 1);
    EXPECT_OK(propane_session_get(s, "y", PROPANE_FP32, y, 6, &err));
    EXPECT(memcmp(x, y, sizeof x) == 0);
    propane_session_close(s);
    mem_free(dir);
}

SUITE("mil/list_sizes", T(sizes_by_name_follow_what_is_written))
