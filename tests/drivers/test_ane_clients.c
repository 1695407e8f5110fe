/* SPDX-License-Identifier: MIT
 * Other programs' ways to use the engine, against the stand-in. The stand-in must accept what is reported to run on a
 * Mac, and refuse what is reported to be refused, with the same code. Each test names the program whose order of calls
 * it follows, and the place where that order is documented. It contains none of that program's code. So our driver is
 * not the only evidence for the stand-in's requirements.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drivers/apple_calls.h"
#include "drivers/conformance.h"
#include "support/ane_rig.h"

enum { HALVES = 64, SURFACE = 16384, QOS = 21 };
static const char one_file[] = "weights/weight.bin";

static void sleep_ms(int ms) {
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&span, NULL);
}

static void expect_clean(void) { EXPECT_MSG(standin_counter("violations") == 0, "%s", standin_complaint()); }

/* ---- programs: out[k] = x + record k ---------------------------------------------------------------------------------------- */

typedef struct out_of {
    const char *name, *path;
    unsigned offset;
} out_of;

static void add_function(char *text, size_t size, const char *function, const char *input, int count,
                         const out_of *outputs) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, size - at, "    func %s<ios18>(tensor<fp16, [1, 1, 1, 64]> %s) {\n", function,
                           input);
    for (int k = 0; k < count; k++)
        at += (size_t)snprintf(
            text + at, size - at,
            "        tensor<fp16, [1, 1, 1, 64]> %s_w = const()[name = string(\"%s_w\"), val = tensor<fp16, [1, 1, 1, "
            "64]>(BLOBFILE(path = string(\"@model_path/%s\"), offset = uint64(%u)))];\n"
            "        tensor<fp16, [1, 1, 1, 64]> %s = add(x = %s, y = %s_w)[name = string(\"%s\")];\n",
            outputs[k].name, outputs[k].name, outputs[k].path, outputs[k].offset, outputs[k].name, input,
            outputs[k].name, outputs[k].name);
    at += (size_t)snprintf(text + at, size - at, "    } -> (");
    for (int k = 0; k < count; k++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", k ? ", " : "", outputs[k].name);
    snprintf(text + at, size - at, ");\n");
}

static void begin_text(char *text, size_t size) { snprintf(text, size, "%s", CONFORMANCE_HEAD); }
static void end_text(char *text) { strcat(text, "}\n"); }

static void program_text(char *text, size_t size, int count, const out_of *outputs) {
    begin_text(text, size);
    add_function(text, size, "main", "x", count, outputs);
    end_text(text);
}

typedef struct memory_program {
    char text[8000], folder[1400];
    id model;
} memory_program;

/* `stated` describes the files in the dictionary. The files are written to
 * NSTemporaryDirectory()/hexStringIdentifier. */
static void make_program(memory_program *p, const file_entry *stated, const file_entry *files, int count) {
    p->model = CALL(id, (id, SEL, id), calls_class("_ANEInMemoryModel"),
                    "inMemoryModelWithDescriptor:", new_descriptor(p->text, stated, count));
    EXPECT(p->model);
    snprintf(p->folder, sizeof p->folder, "%s%s", text_of(temporary_directory()),
             text_of(GET(p->model, "hexStringIdentifier")));
    write_bundle(p->folder, p->text, files, count);
}

static void expect_done(bool done, id error, const char *what) { EXPECT_MSG(done, "%s: %s", what, error_text(error)); }

static void compile_and_load(memory_program *p) {
    id error = NULL;
    expect_done(memory_compile(p->model, &error), error, "compile");
    expect_done(memory_load(p->model, &error), error, "load");
}

/* The engine may be waking up, so evaluate tries up to eight times, 3 ms apart. */
static bool evaluate_patiently(id model, id request, id options, id *error) {
    for (int i = 0; i < 8; i++) {
        *error = NULL;
        if (memory_evaluate(model, request, options, error)) return true;
        if (code_of(*error) != 34) return false;
        sleep_ms(3);
    }
    return false;
}

static void evaluate_good(id model, id request, id options) {
    id error = NULL;
    expect_done(evaluate_patiently(model, request, options, &error), error, "evaluate");
}

static void expect_sum(id surface, float want) {
    for (int i = 0; i < HALVES; i++)
        EXPECT_MSG(half_at(surface, i) == want + (float)i, "element %d: %g, not %g", i, (double)half_at(surface, i),
                   (double)want + i);
}

/* ---- PM: Epistates/pmetal/crates/pmetal-metal/src/ane/runtime.rs ------------------------------------------------------------ */

/* Loads the program if it exists; otherwise writes, compiles and loads it. One file; then neither descriptor nor
 * folder; attributes of the inner model. */
static void run_pm(memory_program *p) {
    id error = NULL, in = new_surface(SURFACE), out[] = {new_surface(SURFACE), new_surface(SURFACE)};
    EXPECT(!CALL(bool, (id, SEL, int), p->model, "compiledModelExists", 0));
    compile_and_load(p);
    ((void (*)(id, SEL, id))calls_send())(p->model, calls_selector("setDescriptor:"), NULL);
    remove_folder(p->folder);
    id attributes = GET(GET(p->model, "model"), "modelAttributes");
    EXPECT(count_of(entry_of(attributes, "NetworkStatusList")) == 1);
    id request = new_request(1, &in, 2, out, 0);
    put_halves(in, HALVES, 1, 1);
    evaluate_good(p->model, request, NULL);
    expect_sum(out[0], 1 + 10);
    expect_sum(out[1], 1 + 20);
    expect_done(memory_unload(p->model, &error), error, "unload");
    expect_done(memory_load(p->model, &error), error, "load again, without folder and descriptor");
    evaluate_good(p->model, request, NULL);
    expect_sum(out[1], 1 + 20);
    expect_done(memory_unload(p->model, &error), error, "unload");
}

TEST(pm_packs_all_weights_into_one_file) {
    static memory_program p;
    void *pool = calls_pool();
    standin_to("system", "27");
    weight_file w = make_weights(2, HALVES, (const float[]){10, 20}, 0, false);
    const out_of outputs[] = {{"a", one_file, w.offset[0]}, {"b", one_file, w.offset[1]}};
    const file_entry file = {one_file, w.bytes, w.length};
    program_text(p.text, sizeof p.text, 2, outputs);
    make_program(&p, &file, &file, 1);
    run_pm(&p);
    calls_drain(pool);
    expect_clean();
}

/* The program's issue 34: with a constant 128 in every record, the first tensor is silently read for all of them. */
TEST(pm_once_wrote_the_first_place_everywhere) {
    static memory_program p;
    void *pool = calls_pool();
    id in = new_surface(SURFACE), out[] = {new_surface(SURFACE), new_surface(SURFACE)};
    standin_to("system", "27");
    weight_file w = make_weights(2, HALVES, (const float[]){10, 20}, 128, false);
    const out_of outputs[] = {{"a", one_file, w.offset[0]}, {"b", one_file, w.offset[1]}};
    const file_entry file = {one_file, w.bytes, w.length};
    program_text(p.text, sizeof p.text, 2, outputs);
    make_program(&p, &file, &file, 1);
    compile_and_load(&p);
    put_halves(in, HALVES, 1, 1);
    evaluate_good(p.model, new_request(1, &in, 2, out, 0), NULL);
    expect_sum(out[0], 11);
    expect_sum(out[1], 11);
    calls_drain(pool);
}

/* The program's other issue: one file per tensor. macOS 26 accepts that, but 27 returns code 10. */
static void several_files(const char *system, long code) {
    static memory_program p;
    void *pool = calls_pool();
    id error = NULL, in = new_surface(SURFACE), out[] = {new_surface(SURFACE), new_surface(SURFACE)};
    standin_to("system", system);
    weight_file w[] = {make_weights(1, HALVES, (const float[]){10}, 0, false),
                       make_weights(1, HALVES, (const float[]){20}, 0, false)};
    const out_of outputs[] = {{"a", "weights/a.bin", 64}, {"b", "weights/b.bin", 64}};
    const file_entry files[] = {{outputs[0].path, w[0].bytes, w[0].length}, {outputs[1].path, w[1].bytes, w[1].length}};
    program_text(p.text, sizeof p.text, 2, outputs);
    make_program(&p, files, files, 2);
    bool done = memory_compile(p.model, &error);
    EXPECT_MSG(done == !code && code_of(error) == code, "%s: %s", system, error_text(error));
    if (code) {
        EXPECT(strcmp(text_of(GET(error, "domain")), "com.apple.appleneuralengine.compiler") == 0);
        EXPECT_MSG(strcmp(error_text(error), "verifyBundleAtPath: invalid model") == 0, "%s", error_text(error));
    } else {
        expect_done(memory_load(p.model, &error), error, "load");
        put_halves(in, HALVES, 1, 1);
        evaluate_good(p.model, new_request(1, &in, 2, out, 0), NULL);
        expect_sum(out[1], 21);
        expect_done(memory_unload(p.model, &error), error, "unload");
    }
    remove_folder(p.folder);
    calls_drain(pool);
    expect_clean();
}

TEST(several_files_run_on_15) { several_files("15", 0); }
TEST(several_files_run_on_26) { several_files("26", 0); }
TEST(several_files_are_refused_on_27) { several_files("27", 10); }

/* ---- DV: midasdf/ANEDVD/src/ane/shim.m, midasdf/ANEDVD/probe/ane_slots_probe.m ---------------------------------------------- */

/* Tries seven times with doubling pauses, which start at 1 ms here. */
static bool load_dv(id model, id *error) {
    for (int i = 0; i < 7; i++) {
        *error = NULL;
        if (memory_load(model, error)) return true;
        if (!strstr(error_text(*error), "no ANE resources (transient; retry)")) return false;
        sleep_ms(1 << i);
    }
    return false;
}

static void run_dv(const char *data, size_t length) {
    static memory_program p;
    id error = NULL, in = new_surface(SURFACE), out = new_surface(SURFACE);
    weight_file w = make_weights(1, HALVES, (const float[]){5}, 0, false);
    const out_of output = {"y", one_file, 64};
    const file_entry file = {one_file, w.bytes, w.length}, stated = {one_file, data, length};
    program_text(p.text, sizeof p.text, 1, &output);
    make_program(&p, &stated, &file, 1);
    expect_done(memory_compile(p.model, &error), error, "compile");
    expect_done(load_dv(p.model, &error), error, "load");
    EXPECT(GET(p.model, "modelAttributes"));
    remove_folder(p.folder);
    put_halves(in, HALVES, 2, 1);
    evaluate_good(p.model, new_request(1, &in, 1, &out, 0), NULL);
    expect_sum(out, 7);
    expect_done(memory_unload(p.model, &error), error, "unload");
}

TEST(dv_gives_a_digest_for_data) {
    void *pool = calls_pool();
    standin_to("system", "27");
    run_dv("0123456789abcdef0123456789abcdef", 32);
    run_dv("", 0);
    calls_drain(pool);
    expect_clean();
}

/* ---- QA: True2456/qwen-ane/runtime/ane_c_bridge.m ---------------------------------------------------------------------------- */

static id index_array(id model, const char *selector, uint64_t procedure) {
    id list[16];
    int count = 0;
    id set = ((id(*)(id, SEL, uint64_t))calls_send())(GET(model, "model"), calls_selector(selector), procedure);
    uint64_t size = ((uint64_t (*)(id, SEL))calls_send())(set, calls_selector("count"));
    uint64_t at = ((uint64_t (*)(id, SEL))calls_send())(set, calls_selector("firstIndex"));
    for (; count < (int)size; count++) {
        list[count] = new_number((int64_t)at);
        at = ((uint64_t (*)(id, SEL, uint64_t))calls_send())(set, calls_selector("indexGreaterThanIndex:"), at);
    }
    return new_array(count, list);
}

static id wrap_qa(id surface) {
    id made = GET(calls_class("_ANEIOSurfaceObject"), "alloc");
    return ((id(*)(id, SEL, id, uint64_t, bool))calls_send())(
        made, calls_selector("initWithIOSurface:startOffset:shouldRetain:"), surface, 0, true);
}

static id request_qa(id model, id in, id out, int procedure) {
    id one[] = {wrap_qa(in)}, other[] = {wrap_qa(out)}, made = GET(calls_class("_ANERequest"), "alloc");
    id inputs = index_array(model, "inputSymbolIndicesForProcedureIndex:", (uint64_t)procedure);
    id outputs = index_array(model, "outputSymbolIndicesForProcedureIndex:", (uint64_t)procedure);
    made = ((id(*)(id, SEL, id, id, id, id, id, id, id, id, id))calls_send())(
        made,
        calls_selector("initWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:"
                       "sharedEvents:transactionHandle:"),
        new_array(1, one), inputs, new_array(1, other), outputs, NULL, NULL, new_number(procedure), NULL, NULL);
    EXPECT(made);
    return made;
}

static id hints(void) {
    id keys[] = {new_string("kANEFProcedureVariantHint"), new_string("kANEFAneInstanceHint")};
    id values[] = {new_number(1), new_number(0)};
    return new_dictionary(2, keys, values);
}

/* One file with a header before every record, and two procedures, each with its own record. */
TEST(qa_repeats_the_file_header) {
    static memory_program p;
    void *pool = calls_pool();
    id error = NULL, in = new_surface(65536), out = new_surface(65536);
    standin_to("system", "27");
    weight_file w = make_weights(2, HALVES, (const float[]){3, 4}, 0, true);
    const out_of outputs[] = {{"y0", one_file, w.offset[0]}, {"y1", one_file, w.offset[1]}};
    const file_entry file = {one_file, w.bytes, w.length};
    begin_text(p.text, sizeof p.text);
    add_function(p.text, sizeof p.text, "procedure000", "x0", 1, &outputs[0]);
    add_function(p.text, sizeof p.text, "procedure001", "x1", 1, &outputs[1]);
    end_text(p.text);
    make_program(&p, &file, &file, 1);
    compile_and_load(&p);
    for (int k = 0; k < 2; k++) {
        put_halves(in, HALVES, 1, 1);
        evaluate_good(p.model, request_qa(p.model, in, out, k), hints());
        expect_sum(out, (float)(4 + k));
    }
    expect_done(memory_unload(p.model, &error), error, "unload");
    remove_folder(p.folder);
    calls_drain(pool);
    expect_clean();
}

/* ---- SY: cortexkit/synapse/crates/synapse-worker-ane-direct/resource-experiments.md ------------------------------------------ */

enum { SY_PROGRAMS = 24 };

static void make_sy(memory_program *p, int k) {
    weight_file w = make_weights(1, HALVES, (const float[]){(float)k}, 0, false);
    const out_of output = {"y", one_file, 64};
    const file_entry file = {one_file, w.bytes, w.length};
    program_text(p->text, sizeof p->text, 1, &output);
    make_program(p, &file, &file, 1);
    id error = NULL;
    ((void (*)(id, SEL, uint32_t))calls_send())(p->model, calls_selector("setPerfStatsMask:"), 1);
    expect_done(memory_compile(p->model, &error), error, "compile");
}

/* All slots of the machine are taken. One is released, and the second try, after a pause, gets it. The program's own
 * plan has 100. */
TEST(sy_replaces_a_program_when_all_places_are_taken) {
    static memory_program p[SY_PROGRAMS + 1];
    void *pool = calls_pool();
    id error = NULL, in = new_surface(SURFACE), out = new_surface(SURFACE);
    standin_to("system", "27");
    standin_to("pool", "24");
    for (int k = 0; k <= SY_PROGRAMS; k++) {
        void *inner = calls_pool();
        make_sy(&p[k], k);
        calls_retain(p[k].model);
        bool done = memory_load(p[k].model, &error);
        EXPECT_MSG(done == (k < SY_PROGRAMS), "program %d: %s", k, error_text(error));
        if (k < SY_PROGRAMS) calls_drain(inner); /* otherwise the other programs would stay */
    }
    EXPECT_MSG(code_of(error) == 54 && underlying_of(error) == 5, "%s", error_text(error));
    EXPECT(strstr(error_text(error), "(transient; retry) (underlying=0x5)"));
    expect_done(memory_unload(p[7].model, &error), error, "unload");
    EXPECT(!memory_load(p[SY_PROGRAMS].model, &error) && code_of(error) == 54);
    sleep_ms(1);
    expect_done(memory_load(p[SY_PROGRAMS].model, &error), error, "load");
    id request = new_request(1, &in, 1, &out, 0); /* reused */
    for (int k = 0; k < 10; k++) {
        put_halves(in, HALVES, (float)k, 1);
        evaluate_good(p[SY_PROGRAMS].model, request, NULL);
        expect_sum(out, (float)(k + SY_PROGRAMS));
    }
    for (int k = 0; k <= SY_PROGRAMS; k++) {
        if (k != 7) expect_done(memory_unload(p[k].model, &error), error, "unload");
        remove_folder(p[k].folder);
        calls_release(p[k].model);
    }
    calls_drain(pool);
    expect_clean();
}

/* ---- UT: IchenDEV/ANE-LM/core/ane_runtime.cpp ------------------------------------------------------------------------------- */

/* 122 programs of one file each in one process, which is more than 119 compiles. The folder stays until the end. */
TEST(ut_loads_122_programs) {
    enum { PROGRAMS = 122 };
    static memory_program p[PROGRAMS];
    void *pool = calls_pool();
    id error = NULL, in = new_surface(SURFACE), out = new_surface(SURFACE);
    standin_to("system", "27");
    standin_to("pool", "126");
    for (int k = 0; k < PROGRAMS; k++) {
        weight_file w = make_weights(1, HALVES, (const float[]){(float)k}, 0, false);
        const out_of output = {"y", one_file, 64};
        const file_entry file = {one_file, w.bytes, w.length};
        program_text(p[k].text, sizeof p[k].text, 1, &output);
        make_program(&p[k], &file, &file, 1);
        compile_and_load(&p[k]);
        memset(w.bytes, 0xff, w.length); /* no longer mapped */
    }
    EXPECT(standin_counter("compiles") == PROGRAMS);
    for (int k = 0; k < PROGRAMS; k++) {
        put_halves(in, HALVES, 1, 1);
        evaluate_good(p[k].model, new_request(1, &in, 1, &out, 0), NULL);
        expect_sum(out, (float)(k + 1));
        expect_done(memory_unload(p[k].model, &error), error, "unload");
        remove_folder(p[k].folder);
    }
    calls_drain(pool);
    expect_clean();
}

/* ---- H3: loading-awesome/MiniMax-H3-Swift/Sources/H3ANEBridge/H3ANEBridge.m -------------------------------------------------- */

static const char h3_text[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 1, 1, 64]> x, tensor<fp16, [1, 1, 1, 64]> up_weight, "
                     "tensor<fp16, [1, 1, 1, 64]> gate_weight, tensor<fp16, [1, 2, 1, 64]> down_weight) {\n"
                     "        tensor<fp16, [1, 1, 1, 64]> u = sub(x = x, y = up_weight)[name = string(\"u\")];\n"
                     "        tensor<fp16, [1, 1, 1, 64]> g = sub(x = u, y = gate_weight)[name = string(\"g\")];\n"
                     "        tensor<fp16, [1, 2, 1, 64]> y = sub(x = g, y = down_weight)[name = string(\"y\")];\n"
                     "    } -> (y);\n}\n";

/* An empty dictionary, setModelURL: to a folder of another name, weights as inputs in the order of their names,
 * surfaces of different sizes and larger than necessary, hints, the wrapper's attributes, eight repeats. */
TEST(h3_gives_weights_as_inputs) {
    void *pool = calls_pool();
    char folder[1400];
    id error = NULL;
    standin_to("system", "27");
    id model = CALL(id, (id, SEL, id), calls_class("_ANEInMemoryModel"),
                    "inMemoryModelWithDescriptor:", new_descriptor(h3_text, NULL, 0));
    snprintf(folder, sizeof folder, "%sH3ANE-island", text_of(temporary_directory()));
    write_bundle(folder, h3_text, NULL, 0);
    ((void (*)(id, SEL, id))calls_send())(model, calls_selector("setModelURL:"), new_url(folder));
    expect_done(memory_compile(model, &error), error, "compile");
    expect_done(memory_load(model, &error), error, "load");
    id description = entry_of(GET(model, "modelAttributes"), "ANEFModelDescription");
    id symbols = entry_of(description, "kANEFModelInputSymbolsArrayKey");
    static const char *const order[] = {"down_weight", "gate_weight", "up_weight", "x"};
    for (int i = 0; i < 4; i++) EXPECT(strcmp(text_of(element_of(symbols, i)), order[i]) == 0);
    id in[4], index[4], wrapped[4], out = new_surface(65536);
    static const float value[] = {1, 10, 100, 1000};
    for (int i = 0; i < 4; i++) {
        in[i] = new_surface(i == 0 ? 65536 : 16384);
        put_halves(in[i], i == 0 ? 2 * HALVES : HALVES, value[i], 0);
        wrapped[i] = ((id(*)(id, SEL, id, uint64_t))calls_send())(
            calls_class("_ANEIOSurfaceObject"), calls_selector("objectWithIOSurface:startOffset:"), in[i], 0);
        index[i] = new_number(i);
    }
    id outputs[] = {wrap_surface(out)}, zero[] = {new_number(0)};
    id request = CALL(id, (id, SEL, id, id, id, id, id, id, id), calls_class("_ANERequest"),
                      "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:",
                      new_array(4, wrapped), new_array(4, index), new_array(1, outputs), new_array(1, zero), NULL, NULL,
                      zero[0]);
    EXPECT(!memory_evaluate(model, request, hints(), &error) && code_of(error) == 34);
    EXPECT(strstr(error_text(error), "status=0x12 : statusType=0x9: Request cancelled"));
    evaluate_good(model, request, hints());
    for (int i = 0; i < 2 * HALVES; i++) EXPECT(half_at(out, i) == 1000 - 100 - 10 - 1);
    EXPECT_MSG(standin_counter("cancelled") >= 3 && standin_counter("cancelled") <= 5, "%ld",
               standin_counter("cancelled"));
    expect_done(memory_unload(model, &error), error, "unload");
    remove_folder(folder);
    calls_drain(pool);
    expect_clean();
}

/* ---- MS: allbilly/mlx-ane-sd/notes/m1_macos_capture_report.md ---------------------------------------------------------------- */

/* One file with one record for each of three outputs, which are sorted by name. */
TEST(ms_sorts_outputs_by_name) {
    static memory_program p;
    void *pool = calls_pool();
    id error = NULL, in = new_surface(SURFACE), out[3];
    standin_to("system", "27");
    weight_file w = make_weights(3, HALVES, (const float[]){100, 200, 300}, 0, false);
    const out_of outputs[] = {{"q", one_file, w.offset[0]}, {"k", one_file, w.offset[1]}, {"v", one_file, w.offset[2]}};
    const file_entry file = {one_file, w.bytes, w.length};
    program_text(p.text, sizeof p.text, 3, outputs);
    make_program(&p, &file, &file, 1);
    compile_and_load(&p);
    for (int i = 0; i < 3; i++) out[i] = new_surface(SURFACE);
    put_halves(in, HALVES, 1, 1);
    evaluate_good(p.model, new_request(1, &in, 3, out, 0), NULL);
    expect_sum(out[0], 201);
    expect_sum(out[1], 101);
    expect_sum(out[2], 301);
    expect_done(memory_unload(p.model, &error), error, "unload");
    remove_folder(p.folder);
    calls_drain(pool);
    expect_clean();
}

/* ---- OM: jundot/omlx issue 3124: release candidate 2 runs on 27, 3 calls setModelURL: and does not --------------------------- */

static void run_om(const char *system, bool set_url, long code) {
    static memory_program p;
    void *pool = calls_pool();
    id error = NULL, in = new_surface(SURFACE), out = new_surface(SURFACE);
    enum { KINDS = 8 };
    float value[KINDS];
    char name[KINDS][2][20];
    standin_to("system", system);
    for (int k = 0; k < KINDS; k++) value[k] = (float)(k + 1);
    weight_file w = make_weights(KINDS, HALVES, value, 0, false);
    const file_entry file = {one_file, w.bytes, w.length};
    begin_text(p.text, sizeof p.text);
    for (int k = 0; k < KINDS; k++) {
        char function[20];
        snprintf(function, sizeof function, "p%03d", k);
        snprintf(name[k][0], 20, "x%03d", k);
        snprintf(name[k][1], 20, "y%03d", k);
        const out_of output = {name[k][1], one_file, w.offset[k]};
        add_function(p.text, sizeof p.text, function, name[k][0], 1, &output);
    }
    end_text(p.text);
    make_program(&p, &file, &file, 1);
    if (set_url) ((void (*)(id, SEL, id))calls_send())(p.model, calls_selector("setModelURL:"), new_url(p.folder));
    bool done = memory_compile(p.model, &error);
    EXPECT_MSG(done == !code && code_of(error) == code, "%s", error_text(error));
    if (done) {
        expect_done(memory_load(p.model, &error), error, "load");
        for (int k = 0; k < KINDS; k++) {
            put_halves(in, HALVES, 1, 1);
            evaluate_good(p.model, request_qa(p.model, in, out, k), NULL);
            expect_sum(out, (float)(k + 2));
        }
        expect_done(memory_unload(p.model, &error), error, "unload");
    }
    remove_folder(p.folder);
    calls_drain(pool);
    expect_clean();
}

TEST(om_rc2_runs_procedures) { run_om("27", false, 0); }
TEST(om_rc3_sets_the_url) { run_om("27", true, 10); }
TEST(om_rc3_runs_on_26) { run_om("26", true, 0); }

/* ---- SP, PIE: incoai/splash/runtime/ane/Program.mm, pie-project/pie/crates/kernels-metal/native/ane.m ------------------------ */

typedef struct client_program {
    char text[8000], folder[1400];
    id client, model, options;
} client_program;

static id client_options(void) {
    id keys[] = {new_string("kANEFModelType"), new_string("kANEFNetPlistFilenameKey")};
    id values[] = {new_string("kANEFModelMIL"), new_string("model.mil")};
    return new_dictionary(2, keys, values);
}

static void make_client(client_program *p, int count, const char *const *paths, const weight_file *files) {
    file_entry entries[8];
    for (int k = 0; k < count; k++) entries[k] = (file_entry){paths[k], files[k].bytes, files[k].length};
    snprintf(p->folder, sizeof p->folder, "%s/client", getenv("TMPDIR"));
    write_bundle(p->folder, p->text, entries, count);
    p->client = GET(calls_class("_ANEClient"), "sharedConnection");
    p->model = CALL(id, (id, SEL, id, id), calls_class("_ANEModel"), "modelAtURL:key:", new_url(p->folder),
                    new_string(p->folder));
    p->options = client_options();
    EXPECT(p->client && p->model);
}

static bool client_call(const client_program *p, const char *selector, id *error) {
    return CALL(bool, (id, SEL, id, id, uint32_t, id *), p->client, selector, p->model, p->options, QOS, error);
}

enum { BLOCK_IS_GLOBAL = 1 << 28 };

/* A block that counts its calls. */
typedef struct block {
    const void *isa;
    int flags, reserved;
    void (*invoke)(struct block *, bool, id);
    const void *descriptor;
    atomic_int calls, good;
} block;

static void count_call(struct block *b, bool done, id error) {
    (void)error;
    atomic_fetch_add(&b->good, done);
    atomic_fetch_add(&b->calls, 1);
}

/* Makes a request that waits for `value` and signals the next one. */
static id request_with_events(id in, id out, id event, uint64_t value) {
    id one[] = {wrap_surface(in)}, other[] = {wrap_surface(out)}, zero[] = {new_number(0)};
    id wait[] = {CALL(id, (id, SEL, uint64_t, id, int64_t), calls_class("_ANESharedWaitEvent"),
                      "waitEventWithValue:sharedEvent:eventType:", value, event, 0)};
    id signal[] = {CALL(id, (id, SEL, uint64_t, uint32_t, int64_t, id), calls_class("_ANESharedSignalEvent"),
                        "signalEventWithValue:symbolIndex:eventType:sharedEvent:", value + 1, 0, 0, event)};
    id events = CALL(id, (id, SEL, id, id), calls_class("_ANESharedEvents"),
                     "sharedEventsWithSignalEvents:waitEvents:", new_array(1, signal), new_array(1, wait));
    id made = CALL(id, (id, SEL, id, id, id, id, id, id, id, id, id), calls_class("_ANERequest"),
                   "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:"
                   "sharedEvents:transactionHandle:",
                   new_array(1, one), new_array(1, zero), new_array(1, other), new_array(1, zero), NULL, NULL, zero[0],
                   events, NULL);
    EXPECT(made);
    return made;
}

static void run_client(client_program *p, bool purge_first) {
    id error = NULL, in = new_surface(SURFACE), out = new_surface(SURFACE);
    bool there = CALL(bool, (id, SEL, id), p->client, "compiledModelExistsFor:", p->model);
    if (purge_first) ((void (*)(id, SEL, id))calls_send())(p->client, calls_selector("purgeCompiledModel:"), p->model);
    if (!there || purge_first) expect_done(client_call(p, "compileModel:options:qos:error:", &error), error, "compile");
    expect_done(client_call(p, "loadModel:options:qos:error:", &error), error, "load");
    id event = GET(GET(calls_class("IOSurfaceSharedEvent"), "alloc"), "init");
    static block done = {.flags = BLOCK_IS_GLOBAL,
                         .invoke = count_call}; /* it outlives the call, and so does everything that holds it */
    done.isa = calls_find("_NSConcreteGlobalBlock");
    for (uint64_t step = 0; step < 3; step++) {
        id request = request_with_events(in, out, event, 2 * step + 1);
        ((void (*)(id, SEL, void *))calls_send())(request, calls_selector("setCompletionHandler:"), &done);
        expect_done(CALL(bool, (id, SEL, id, id, id, uint32_t, id *), p->client,
                         "evaluateWithModel:options:request:qos:error:", p->model, p->options, request, QOS, &error),
                    error, "evaluate");
        EXPECT(atomic_load(&done.calls) == (int)step); /* it waits, because the input is written after the call */
        put_halves(in, HALVES, (float)step, 1);
        ((void (*)(id, SEL, uint64_t))calls_send())(event, calls_selector("setSignaledValue:"), 2 * step + 1);
        while (atomic_load(&done.calls) == (int)step) sleep_ms(1);
        EXPECT(((uint64_t (*)(id, SEL))calls_send())(event, calls_selector("signaledValue")) == 2 * step + 2);
        expect_sum(out, (float)step + 9);
    }
    EXPECT(atomic_load(&done.good) == 3);
    expect_done(client_call(p, "unloadModel:options:qos:error:", &error), error, "unload");
}

static void sp_and_pie(bool purge_first) {
    static client_program p;
    static const char *const path = "weights.bin";
    void *pool = calls_pool();
    standin_to("system", "27");
    standin_to("idle", "off");
    weight_file w = make_weights(1, HALVES, (const float[]){9}, 0, false);
    const out_of output = {"y", path, 64};
    program_text(p.text, sizeof p.text, 1, &output);
    make_client(&p, 1, &path, &w);
    run_client(&p, purge_first);
    remove_folder(p.folder);
    calls_drain(pool);
    expect_clean();
}

TEST(sp_compiles_and_loads_without_asking) { sp_and_pie(true); }
TEST(pie_asks_first) { sp_and_pie(false); }

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case none[] = {T(the_stand_in_is_there)};
    static const test_case tests[] = {
        T(pm_packs_all_weights_into_one_file),
        T(pm_once_wrote_the_first_place_everywhere),
        T(several_files_run_on_15),
        T(several_files_run_on_26),
        T(several_files_are_refused_on_27),
        T(dv_gives_a_digest_for_data),
        T(qa_repeats_the_file_header),
        T(sy_replaces_a_program_when_all_places_are_taken),
        T(ut_loads_122_programs),
        T(h3_gives_weights_as_inputs),
        T(ms_sorts_outputs_by_name),
        T(om_rc2_runs_procedures),
        T(om_rc3_sets_the_url),
        T(om_rc3_runs_on_26),
        T(sp_compiles_and_loads_without_asking),
        T(pie_asks_first),
    };
    if (!ane_rig_enter(argv[0])) return test_main("drivers/ane_clients", none, 1, argc, argv);
    int code = test_main("drivers/ane_clients", tests, sizeof tests / sizeof tests[0], argc, argv);
    ane_rig_leave();
    return code;
}
