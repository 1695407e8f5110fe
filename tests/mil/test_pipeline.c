/* SPDX-License-Identifier: MIT
 * Pipelines of Core ML models: the joined program computes the same as the models in sequence. The files are made here
 * as messages, from programs that are packed first.
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

enum { BOXES = 6, CLASSES = 2 };

/* Both parts use the same names for their values, and one of them is the name of an output of the pipeline. */
static const char detector[] = "program(1.3)\n{\n"
                               "    func main<%s>(tensor<fp32, [6, 4]> at, tensor<fp32, [6, 2]> how) {\n"
                               "        tensor<fp32, [6, 4]> confidence = add(x = at, y = fp32(0));\n"
                               "        tensor<fp32, [6, 4]> raw_at = mul(x = confidence, y = fp32(1));\n"
                               "        tensor<fp32, [6, 2]> raw_how = mul(x = how, y = fp32(1));\n"
                               "    } -> (raw_at, raw_how);\n}\n";
static const char doubles[] = "program(1.3)\n{\n"
                              "    func main<%s>(tensor<fp32, [3]> x) {\n"
                              "        tensor<fp32, [3]> t = add(x = x, y = x);\n"
                              "        tensor<fp32, [3]> y = add(x = t, y = fp32(0.5));\n    } -> (y);\n}\n";
static const char squares[] = "program(1.3)\n{\n"
                              "    func main<%s>(tensor<fp16, [3]> y) {\n"
                              "        tensor<fp16, [3]> t = mul(x = y, y = y);\n"
                              "        tensor<fp16, [3]> z = sub(x = t, y = fp16(1));\n    } -> (z);\n}\n";

/* Boxes by centre and size. The second overlaps the first by 0.6; the fourth overlaps the third by 0.8 but has another
 * class. */
static const float boxes[BOXES * 4] = {10, 10, 8, 8, 12, 10, 8, 8, 40, 40, 9, 9,
                                       41, 40, 9, 9, 70, 70, 5, 5, 90, 90, 4, 4};
static const float scores[BOXES * CLASSES] = {.9f, .1f, .8f, .1f, .7f, .2f, .1f, .6f, .3f, .2f, .05f, .01f};

static char *dir;

static const char *at(const char *name) {
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Messages point to strings and do not change them. */
static char *word(const char *s) { return (char *)(uintptr_t)s; }

static Coreml__Model *packed(const char *source, const char *opset) {
    propane_error err = {0};
    mil_module *m = NULL;
    uint8_t *bytes = NULL;
    size_t count = 0;
    char program[2000];
    snprintf(program, sizeof program, source, opset); // NOLINT: formats of this file
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    EXPECT_OK(mil_package_pack(m, &bytes, &count, &err));
    Coreml__Model *model = coreml__model__unpack(NULL, count, bytes);
    EXPECT(model != NULL);
    mem_free(bytes);
    mil_module_free(m);
    return model;
}

static void feature(Coreml__Feature *f, const char *name) {
    coreml__feature__init(f);
    f->name = word(name);
}

/* Writes a pipeline of `parts` with these inputs and outputs as the file p.mlmodel. */
static void write_pipeline(Coreml__Model **parts, size_t part_count, const char *const *inputs, size_t input_count,
                           const char *const *outputs, size_t output_count) {
    Coreml__Model model = COREML__MODEL__INIT;
    Coreml__ModelDescription d = COREML__MODEL_DESCRIPTION__INIT;
    Coreml__Pipeline pipeline = COREML__PIPELINE__INIT;
    Coreml__Feature in[4], out[4], *in_list[4], *out_list[4];
    char *names[] = {word("first"), word("second"), word("third")};
    propane_error err = {0};
    for (size_t i = 0; i < input_count; i++) feature(&in[i], inputs[i]), in_list[i] = &in[i];
    for (size_t i = 0; i < output_count; i++) feature(&out[i], outputs[i]), out_list[i] = &out[i];
    model.specification_version = 5;
    model.description = &d;
    d.n_input = input_count, d.input = in_list, d.n_output = output_count, d.output = out_list;
    pipeline.models = parts, pipeline.n_models = part_count;
    pipeline.names = names, pipeline.n_names = part_count;
    model.pipeline = &pipeline;
    const size_t bytes = coreml__model__get_packed_size(&model);
    uint8_t *data = mem_alloc(bytes + 1);
    EXPECT(data != NULL);
    coreml__model__pack(&model, data);
    EXPECT_OK(file_write(at("p.mlmodel"), data, bytes, &err));
    mem_free(data);
}

static void write_detector(const char *opset, bool per_class, int64_t fixed_rows, bool thresholds) {
    static const char *const inputs[] = {"at", "how", "iou", "least"}, *const outputs[] = {"confidence", "coordinates"};
    Coreml__Model *network = packed(detector, opset), nms = COREML__MODEL__INIT, *parts[] = {network, &nms};
    Coreml__Suppression s = COREML__SUPPRESSION__INIT;
    Coreml__PickTop pick = COREML__PICK_TOP__INIT;
    Coreml__ModelDescription d = COREML__MODEL_DESCRIPTION__INIT;
    Coreml__Feature out, *out_list[] = {&out};
    Coreml__FeatureType type = COREML__FEATURE_TYPE__INIT;
    Coreml__ArrayType array = COREML__ARRAY_TYPE__INIT;
    int64_t shape[] = {fixed_rows, CLASSES};
    nms.suppression = &s;
    pick.per_class = per_class;
    s.pick_top = &pick;
    s.iou_threshold = 0.5, s.confidence_threshold = 0.25;
    s.confidence_in = word("raw_how"), s.coordinates_in = word("raw_at");
    s.confidence_out = word(outputs[0]), s.coordinates_out = word(outputs[1]);
    s.iou_threshold_in = word("iou"), s.confidence_threshold_in = word("least");
    if (fixed_rows) {
        feature(&out, outputs[0]);
        out.type = &type, type.kind_case = COREML__FEATURE_TYPE__KIND_ARRAY, type.array = &array;
        array.shape = shape, array.n_shape = 2;
        d.output = out_list, d.n_output = 1, nms.description = &d;
    }
    write_pipeline(parts, 2, inputs, thresholds ? 4 : 2, outputs, 2);
    coreml__model__free_unpacked(network, NULL);
}

static propane_session *opened(void) {
    propane_error err = {0};
    propane_session *s = NULL;
    EXPECT_OK(propane_session_open(at("p.mlmodel"), NULL, &s, &err));
    return s;
}

/* Checks which boxes come out, in order, as in "0 2". */
static void expect_boxes(propane_session *s, const char *rows_name, const char *wanted) {
    propane_error err = {0};
    float confidence[BOXES * CLASSES], coordinates[BOXES * 4];
    int32_t rows = -1;
    char list[100] = "";
    size_t used = 0;
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "confidence", PROPANE_FP32, confidence, BOXES * CLASSES, &err));
    EXPECT_OK(propane_session_get(s, "coordinates", PROPANE_FP32, coordinates, BOXES * 4, &err));
    EXPECT_OK(propane_session_get(s, rows_name, PROPANE_INT32, &rows, 1, &err));
    for (int k = 0; k < BOXES; k++) {
        int from = 0;
        while (from < BOXES && memcmp(coordinates + 4 * k, boxes + 4 * from, 4 * sizeof(float)) != 0) from++;
        if (k >= rows) { /* zeros */
            for (int i = 0; i < 4; i++) EXPECT(coordinates[4 * k + i] == 0);
            for (int i = 0; i < CLASSES; i++) EXPECT(confidence[CLASSES * k + i] == 0);
            continue;
        }
        EXPECT(from < BOXES && memcmp(confidence + CLASSES * k, scores + CLASSES * from, sizeof(float) * CLASSES) == 0);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", k ? " " : "", from);
    }
    EXPECT_TEXT(list, wanted);
}

static void give(propane_session *s, const char *name, const float *values, int count) {
    propane_error err = {0};
    EXPECT_OK(propane_session_set(s, name, PROPANE_FP32, values, count, &err));
}

static void give_boxes(propane_session *s) {
    give(s, "at", boxes, BOXES * 4);
    give(s, "how", scores, BOXES * CLASSES);
}

TEST(boxes_are_suppressed_in_both_forms_of_the_operation) {
    static const char *const opsets[] = {"ios15", "ios17"};
    for (int i = 0; i < 2; i++) {
        dir = test_temp_dir();
        for (int per_class = 0; per_class < 2; per_class++) {
            write_detector(opsets[i], per_class, 0, false);
            propane_session *s = opened();
            give_boxes(s);
            expect_boxes(s, "part2_rows", per_class ? "0 2 3 4" : "0 2 4");
            propane_session_close(s);
        }
        mem_free(dir);
    }
}

TEST(thresholds_are_inputs_with_a_standard) {
    const float none = 0, all = 1, half = 0.65f, more = 2;
    dir = test_temp_dir();
    write_detector("ios15", true, 0, true);
    propane_session *s = opened();
    give_boxes(s);
    expect_boxes(s, "part2_rows", "0 2 3 4"); /* the model's thresholds */
    give(s, "iou", &all, 1);
    expect_boxes(s, "part2_rows", "0 1 2 3 4");
    give(s, "least", &none, 1);
    expect_boxes(s, "part2_rows", "0 1 2 3 4 5");
    give(s, "least", &half, 1);
    expect_boxes(s, "part2_rows", "0 1 2");
    give(s, "least", &more, 1);
    expect_boxes(s, "part2_rows", "");
    propane_error err = {0};
    EXPECT_OK(propane_session_clear(s, "least", &err));
    expect_boxes(s, "part2_rows", "0 1 2 3 4"); /* the model's value again, and `iou` as it was set */
    EXPECT_OK(propane_session_clear(s, "iou", &err));
    expect_boxes(s, "part2_rows", "0 2 3 4");
    propane_session_close(s);
    mem_free(dir);
}

TEST(features_name_standards_and_rows) {
    propane_error err = {0};
    propane_module *m = NULL;
    propane_feature f = {.size = sizeof f};
    propane_estimate *e = NULL;
    dir = test_temp_dir();
    write_detector("ios15", true, 0, true);
    EXPECT_OK(propane_module_read(at("p.mlmodel"), &m, &err));
    EXPECT(propane_module_feature_count(m, NULL, PROPANE_INPUT) == 4);
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(propane_module_feature(m, NULL, PROPANE_INPUT, i, &f, &err));
        EXPECT(f.has_standard == (strcmp(f.name, "iou") == 0 || strcmp(f.name, "least") == 0));
        EXPECT(f.standard == (!f.has_standard ? 0 : strcmp(f.name, "iou") == 0 ? 0.5 : 0.25));
    }
    EXPECT_OK(propane_module_feature(m, NULL, PROPANE_OUTPUT, 0, &f, &err));
    EXPECT_TEXT(f.rows, "part2_rows");
    EXPECT_OK(propane_estimate_module(m, NULL, &e, &err)); /* with the default values */
    propane_estimate_free(e);
    propane_module_free(m);
    mem_free(dir);
}

/* An output described with a fixed number of rows always has that number. */
TEST(fixed_rows_need_no_count) {
    propane_error err = {0};
    float confidence[3 * CLASSES];
    dir = test_temp_dir();
    write_detector("ios15", true, 3, false);
    propane_session *s = opened();
    give_boxes(s);
    EXPECT(propane_session_output_count(s) == 2);
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "confidence", PROPANE_FP32, confidence, 3 * CLASSES, &err));
    EXPECT(confidence[0] == .9f && confidence[2] == .7f && confidence[5] == .6f);
    propane_session_close(s);
    mem_free(dir);
}

/* The second part accepts in fp16 what the first produces in fp32. */
TEST(programs_behind_one_another) {
    static const char *const inputs[] = {"x"}, *const outputs[] = {"z", "y"};
    const float x[3] = {1, -2, 0.25f};
    float z[3], y[3];
    propane_error err = {0};
    dir = test_temp_dir();
    Coreml__Model *parts[] = {packed(doubles, "ios16"), packed(squares, "ios16")};
    write_pipeline(parts, 2, inputs, 1, outputs, 2);
    propane_session *s = opened();
    give(s, "x", x, 3);
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "z", PROPANE_FP32, z, 3, &err));
    EXPECT_OK(propane_session_get(s, "y", PROPANE_FP32, y, 3, &err));
    for (int i = 0; i < 3; i++) EXPECT(y[i] == 2 * x[i] + 0.5f && z[i] == y[i] * y[i] - 1);
    propane_session_close(s);
    for (int i = 0; i < 2; i++) coreml__model__free_unpacked(parts[i], NULL);
    mem_free(dir);
}

static void expect_refused(propane_status status, const char *words) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_FAIL(mil_read(at("p.mlmodel"), NULL, &m, &err), status, words);
}

TEST(what_cannot_be_joined_is_named) {
    static const char *const inputs[] = {"x"}, *const other[] = {"w"}, *const outputs[] = {"z"}, *const none[] = {"q"};
    Coreml__Model empty = COREML__MODEL__INIT;
    dir = test_temp_dir();
    Coreml__Model *parts[] = {packed(doubles, "ios16"), packed(squares, "ios17")};
    write_pipeline(parts, 2, inputs, 1, outputs, 1);
    expect_refused(PROPANE_ERR_UNSUPPORTED, "the pipeline mixes models of opset CoreML6 and CoreML7");
    write_pipeline(parts, 1, other, 1, outputs, 1);
    expect_refused(PROPANE_ERR_INVALID, "model 'first' of the pipeline reads 'x', which no model produces");
    write_pipeline(parts, 1, inputs, 1, none, 1);
    expect_refused(PROPANE_ERR_INVALID, "no model of the pipeline produces its output 'q'");
    write_pipeline(parts, 0, inputs, 1, none, 1);
    expect_refused(PROPANE_ERR_INVALID, "the pipeline has no models");
    Coreml__Model *with[] = {parts[0], &empty};
    write_pipeline(with, 2, inputs, 1, none, 1);
    expect_refused(PROPANE_ERR_UNSUPPORTED, "model 'second' of the pipeline is empty");
    for (int i = 0; i < 2; i++) coreml__model__free_unpacked(parts[i], NULL);
    mem_free(dir);
}

TEST(any_byte_of_a_pipeline_may_be_anything) {
    propane_error err = {0};
    char *model = NULL;
    size_t n = 0;
    dir = test_temp_dir();
    write_detector("ios15", true, 0, true);
    EXPECT_OK(file_read(at("p.mlmodel"), 1 << 20, &model, &n, &err));
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            mil_module *m = NULL;
            model[i] = (char)(model[i] ^ (1 << bit));
            if (mil_package_parse(model, n, "t", dir, &(mil_read_options){.late = true}, &m, &err) == PROPANE_OK)
                EXPECT_OK(mil_verify(m, &err));
            mil_module_free(m);
            model[i] = (char)(model[i] ^ (1 << bit));
        }
    mem_free(model);
    mem_free(dir);
}

SUITE("mil/pipeline", T(boxes_are_suppressed_in_both_forms_of_the_operation), T(thresholds_are_inputs_with_a_standard),
      T(features_name_standards_and_rows), T(fixed_rows_need_no_count), T(programs_behind_one_another),
      T(what_cannot_be_joined_is_named), T(any_byte_of_a_pipeline_may_be_anything))
