/* SPDX-License-Identifier: MIT
 * Core ML packages: a written package reads back as the same program. Files broken in many different ways are refused
 * with a message that names the file.
 */
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ops.h"
#include "core/mil/text/mil_text.h"
#include "support/test.h"

/* Constants of every kind, long ones for the weight file, blocks, a state, and several results. */
static const char program[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"a\", \"b\"}})]\n{\n"
    "    func main<ios18>(tensor<fp16, [2, 3]> x, int32 n, state<tensor<fp16, [2, 3]>> s) {\n"
    "        tensor<fp32, [20]> w = const()[val = tensor<fp32, [20]>([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "
    "14, 15, "
    "16, 17, 18, 0x1.8p-3])];\n"
    "        tensor<int32, [2]> axes = const()[name = string(\"op_1\"), val = tensor<int32, [2]>([0, 1])];\n"
    "        bool p = equal(x = n, y = int32(1));\n"
    "        tensor<fp16, [2, 3]> old = read_state(input = s);\n"
    "        tensor<fp16, [2, 3]> y = cond(pred = p)[name = string(\"pick\")] {\n"
    "            tensor<fp16, [2, 3]> a = mul(x = x, y = old);\n        } -> (a), {\n"
    "            tensor<fp16, [2, 3]> a = add(x = x, y = fp16(0x1p-2));\n        } -> (a);\n"
    "        write_state(input = s, data = y)[name = string(\"w_1\")];\n"
    "        tensor<fp16, [1, 1]> r = reduce_sum(x = y, axes = axes, keep_dims = true);\n"
    "        fp32 v = reduce_sum(x = w, axes = [0]);\n"
    "    } -> (r, v);\n}\n";

static char *dir;

static const char *at(const char *name) {
    static char path[4][700];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
    return path[next];
}

static void write_package(void) {
    propane_error err = {0};
    mil_module *m = NULL;
    mem_free(dir);
    dir = test_temp_dir();
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    EXPECT_OK(mil_package_write(m, at("m.mlpackage"), &err));
    mil_module_free(m);
}

static void printed(const mil_module *m, text *out) {
    mil_print(out, m, &(mil_print_options){MIL_SHORT, true});
    EXPECT(!out->failed);
}

TEST(what_is_written_is_read) {
    propane_error err = {0};
    mil_module *m = NULL, *again = NULL, *third = NULL;
    text first = {0}, second = {0}, last = {0};
    char *a = NULL, *b = NULL;
    size_t n = 0, k = 0;
    write_package();
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    EXPECT_OK(mil_read(at("m.mlpackage"), NULL, &again, &err));
    printed(m, &first);
    printed(again, &second);
    EXPECT_TEXT(second.data, first.data);
    const mil_interface *seen = mil_interface_of(again, "main");
    EXPECT(again->package->spec_version == 9 && seen->input_count == 2 && seen->state_count == 1 &&
           seen->output_count == 2);
    EXPECT(seen->inputs[0].kind == MIL_FEATURE_ARRAY && seen->inputs[0].dtype == MIL_fp16 &&
           seen->inputs[0].shape.dim[1] == 3);
    EXPECT(seen->states[0].kind == MIL_FEATURE_STATE);
    EXPECT(again->functions->first->results[0]->constant->blob_path != NULL); /* mapped, not copied */
    EXPECT_OK(mil_package_write(again, at("n.mlpackage"), &err));
    EXPECT_OK(mil_read(at("n.mlpackage"), NULL, &third, &err));
    printed(third, &last);
    EXPECT_TEXT(last.data, first.data);
    EXPECT_OK(file_read(at("m.mlpackage/Data/com.apple.CoreML/model.mlmodel"), 1 << 20, &a, &n, &err));
    EXPECT_OK(file_read(at("n.mlpackage/Data/com.apple.CoreML/model.mlmodel"), 1 << 20, &b, &k, &err));
    EXPECT(n == k && memcmp(a, b, n) == 0);
    mem_free(a);
    mem_free(b);
    text_deinit(&first);
    text_deinit(&second);
    text_deinit(&last);
    mil_module_free(m);
    mil_module_free(again);
    mil_module_free(third);
}

/* ---- results that are a parameter, or another result ------------------------------------------------------------------- */

/* The first two occurrences of a result's name are in the interface and in the block's outputs; the operation comes
 * after them. */
static void change_model(const char *from, const char *to) {
    propane_error err = {0};
    char *data = NULL;
    size_t n = 0;
    EXPECT_OK(file_read(at("m.mlpackage/Data/com.apple.CoreML/model.mlmodel"), 1 << 20, &data, &n, &err));
    int times = 2;
    for (size_t i = 0; i + 4 <= n && times; i++)
        if (memcmp(data + i, from, 4) == 0) {
            memcpy(data + i, to, 4);
            times--;
        }
    EXPECT_OK(file_write(at("m.mlpackage/Data/com.apple.CoreML/model.mlmodel"), data, n, &err));
    mem_free(data);
}

static void read_changed(const char *from, const char *to, mil_module **m) {
    static const char two[] = "program(1.3)\n{\n    func main<ios18>(tensor<fp16, [2]> aaaa) {\n"
                              "        tensor<fp16, [2]> bbbb = relu(x = aaaa);\n"
                              "        tensor<fp16, [2]> cccc = relu(x = bbbb);\n    } -> (bbbb, cccc);\n}\n";
    propane_error err = {0};
    mem_free(dir);
    dir = test_temp_dir();
    EXPECT_OK(mil_parse(two, strlen(two), "t", NULL, m, &err));
    EXPECT_OK(mil_package_write(*m, at("m.mlpackage"), &err));
    mil_module_free(*m);
    change_model(from, to);
    EXPECT_OK(mil_read(at("m.mlpackage"), NULL, m, &err));
}

TEST(a_result_may_be_a_parameter_or_stand_twice) {
    propane_error err = {0};
    mil_module *m = NULL;
    read_changed("cccc", "aaaa", &m);
    const mil_function *f = m->functions;
    EXPECT(f->result_count == 2 && f->results[1]->def->info->code == MIL_OP_identity);
    EXPECT_TEXT(f->results[1]->name, "aaaa_out");
    EXPECT_TEXT(mil_interface_of(m, "main")->outputs[1].name, "aaaa_out");
    EXPECT_OK(mil_package_write(m, at("n.mlpackage"), &err));
    mil_module_free(m);
    EXPECT_OK(mil_read(at("n.mlpackage"), NULL, &m, &err));
    mil_module_free(m);
    read_changed("cccc", "bbbb", &m);
    EXPECT(m->functions->result_count == 1 && mil_interface_of(m, "main")->output_count == 1);
    EXPECT_TEXT(mil_interface_of(m, "main")->outputs[0].name, "bbbb");
    mil_module_free(m);
    read_changed("cccc", "aaaa", &m); /* both are the parameter */
    mil_module_free(m);
    change_model("bbbb", "aaaa");
    EXPECT_OK(mil_read(at("m.mlpackage"), NULL, &m, &err));
    EXPECT(m->functions->result_count == 1 && mil_interface_of(m, "main")->output_count == 1);
    EXPECT_TEXT(mil_interface_of(m, "main")->outputs[0].name, "aaaa_out");
    mil_module_free(m);
}

/* ---- broken files ------------------------------------------------------------------------------------------------------------ */

static int broken;

static void expect_refused(const char *path, const char *what) {
    propane_error err = {0};
    mil_module *m = NULL;
    propane_status status = mil_read(path, NULL, &m, &err);
    EXPECT_MSG(status != PROPANE_OK && err.text[0], "%s is not refused", what);
    EXPECT_MSG(strstr(err.text, dir) != NULL, "%s: the message does not name the file: %s", what, err.text);
    broken++;
}

static void put(const char *name, const void *data, size_t n) {
    propane_error err = {0};
    EXPECT_OK(file_write(at(name), data, n, &err));
}

/* Checks the model file with one change, next to the package's weights. */
static void refuse_model(const uint8_t *data, size_t n, const char *what) {
    put("m.mlpackage/Data/com.apple.CoreML/changed.mlmodel", data, n);
    expect_refused(at("m.mlpackage/Data/com.apple.CoreML/changed.mlmodel"), what);
}

static const uint8_t *find(const uint8_t *data, size_t n, const char *part) {
    const size_t m = strlen(part);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(data + i, part, m) == 0) return data + i;
    return NULL;
}

/* Replaces every occurrence of `from` by `to`, which has the same length. */
static void refuse_renamed(const uint8_t *data, size_t n, const char *from, const char *to) {
    uint8_t *copy = mem_alloc(n);
    memcpy(copy, data, n);
    EXPECT_MSG(find(copy, n, from) != NULL, "'%s' does not stand in the file", from);
    for (const uint8_t *p; (p = find(copy, n, from)) != NULL;) memcpy(copy + (p - copy), to, strlen(to));
    refuse_model(copy, n, to);
    mem_free(copy);
}

static void refuse_manifest(const char *content) {
    put("m.mlpackage/Manifest.json", content, strlen(content));
    expect_refused(at("m.mlpackage"), content);
}

TEST(sixty_broken_packages_are_refused) {
    propane_error err = {0};
    char *model = NULL, *weights = NULL, *manifest = NULL;
    size_t n = 0, w = 0, k = 0;
    write_package();
    EXPECT_OK(file_read(at("m.mlpackage/Data/com.apple.CoreML/model.mlmodel"), 1 << 20, &model, &n, &err));
    EXPECT_OK(file_read(at("m.mlpackage/Data/com.apple.CoreML/weights/weight.bin"), 1 << 20, &weights, &w, &err));
    EXPECT_OK(file_read(at("m.mlpackage/Manifest.json"), 1 << 20, &manifest, &k, &err));
    const uint8_t *bytes = (const uint8_t *)model;
    for (int i = 0; i < 24; i++) refuse_model(bytes, (size_t)i * n / 24, "a file that was cut");
    static const struct {
        const char *from, *to;
    } renamed[] = {{"read_state", "read_stone"},
                   {"reduce_sum", "reduce_sun"},
                   {"CoreML8", "CoreML9"},
                   {"CoreML8", "CoreXX8"},
                   {"keep_dims", "keep_dimz"},
                   {"weight.bin", "weight.bon"},
                   {"@model_path", "@nodel_path"},
                   {"weights/weight", "../../../../wei"},
                   {"write_state", "write_stale"},
                   {"cond", "conf"},
                   {"const", "canst"},
                   {"pred", "prod"},
                   {"old", "o d"},
                   {"axes", "axis"}};
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
        if (strlen(renamed[i].from) == strlen(renamed[i].to)) refuse_renamed(bytes, n, renamed[i].from, renamed[i].to);
    static const uint8_t others[][8] = {{0x08, 5},
                                        {0x08, 10},
                                        {0x08, 99},
                                        {0x08, 9, 0xa2, 0x1f, 0},
                                        {0x08, 9, 0xca, 0x0c, 0},
                                        {0x08, 9, 0xe2, 0x12, 0},
                                        {0x08, 9, 0x0b},
                                        {0x08, 9, 0xff, 0xff},
                                        {0x08, 9, 0xb2, 0x1f, 0x7f},
                                        {0x08, 9, 0xb2, 0x1f, 0},
                                        {0x08, 9, 0x00, 0x01},
                                        {0x08, 9, 0xb2, 0x1f, 2, 0x08, 7},
                                        {0x08, 9, 0xb2, 0x1f, 2, 0x12, 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t length = 8;
        while (length > 2 && !others[i][length - 1]) length--;
        if (i == 3 || i == 4 || i == 5 || i == 9) length = 5;
        if (i == 12) length = 7;
        refuse_model(others[i], length, "a file of a few bytes");
    }
    uint8_t *deep = mem_alloc(30000); /* the program nested inside itself ten thousand times */
    for (int i = 0; i < 10000; i++) memcpy(deep + 3 * i, "\x1a\xff\x7f", 3);
    put("deep.mlmodel", deep, 30000);
    uint8_t head[] = {0x08, 9, 0xb2, 0x1f, 0xb0, 0xea, 0x01};
    uint8_t *nested = mem_alloc(30007);
    memcpy(nested, head, 7);
    memcpy(nested + 7, deep, 30000);
    refuse_model(nested, 30007, "deep nesting");
    mem_free(deep);
    mem_free(nested);
    refuse_manifest("");
    refuse_manifest("[]");
    refuse_manifest("{");
    refuse_manifest("{\"fileFormatVersion\": \"2.0.0\"}");
    refuse_manifest("{\"fileFormatVersion\": \"1.0.0\"}");
    refuse_manifest("{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"A\"}");
    refuse_manifest(
        "{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"A\", \"itemInfoEntries\": {\"B\": {}}}");
    refuse_manifest(
        "{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"A\", \"itemInfoEntries\": {\"A\": {}}}");
    refuse_manifest(
        "{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"A\", \"itemInfoEntries\": {\"A\": {\"path\": "
        "\"../x\"}}}");
    refuse_manifest(
        "{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"A\", \"itemInfoEntries\": {\"A\": {\"path\": "
        "\"/etc/passwd\"}}}");
    refuse_manifest(
        "{\"fileFormatVersion\": \"1.0.0\", \"rootModelIdentifier\": \"A\", \"itemInfoEntries\": {\"A\": {\"path\": "
        "\"none.mlmodel\"}}}");
    put("m.mlpackage/Manifest.json", manifest, k);
    for (int i = 0; i < 4; i++) { /* weights: truncated, of another version, an invalid record, another element type */
        static const size_t places[] = {0, 4, 64, 68};
        memcpy(head, weights + places[i], 4);
        weights[places[i]] ^= 3;
        put("m.mlpackage/Data/com.apple.CoreML/weights/weight.bin", weights, i ? w : 100);
        expect_refused(at("m.mlpackage"), "broken weights");
        weights[places[i]] ^= 3;
    }
    EXPECT(unlink(at("m.mlpackage/Data/com.apple.CoreML/weights/weight.bin")) == 0);
    expect_refused(at("m.mlpackage"), "no weights");
    EXPECT(unlink(at("m.mlpackage/Data/com.apple.CoreML/model.mlmodel")) == 0);
    expect_refused(at("m.mlpackage"), "no model");
    EXPECT_OK(file_make_dir(at("empty.mlpackage"), &err));
    expect_refused(at("empty.mlpackage"), "an empty folder");
    printf("  %d broken packages\n", broken);
    EXPECT_MSG(broken >= 60, "only %d broken packages", broken);
    mem_free(model);
    mem_free(weights);
    mem_free(manifest);
}

/* Any byte of a model file may have any value: the file is read or refused, without other effects. */
TEST(any_byte_may_be_anything) {
    propane_error err = {0};
    char *model = NULL;
    size_t n = 0;
    write_package();
    EXPECT_OK(file_read(at("m.mlpackage/Data/com.apple.CoreML/model.mlmodel"), 1 << 20, &model, &n, &err));
    for (size_t i = 0; i < n; i += 2)
        for (int bit = 0; bit < 8; bit += 3) {
            mil_module *m = NULL;
            model[i] = (char)(model[i] ^ (1 << bit));
            if (mil_package_parse(model, n, "t", at("m.mlpackage/Data/com.apple.CoreML"), NULL, &m, &err) == PROPANE_OK)
                EXPECT_OK(mil_verify(m, &err));
            mil_module_free(m);
            model[i] = (char)(model[i] ^ (1 << bit));
        }
    mem_free(model);
}

SUITE("mil/package", T(what_is_written_is_read), T(a_result_may_be_a_parameter_or_stand_twice),
      T(sixty_broken_packages_are_refused), T(any_byte_may_be_anything))
