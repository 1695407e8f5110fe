/* SPDX-License-Identifier: MIT
 * The refusals, results and reports of the stand-in for Apple's libraries, as macOS 15, 26 and 27 and with each switch.
 * Tested by plain calls, without Propane's driver.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drivers/apple_calls.h"
#include "drivers/conformance.h"
#include "support/ane_rig.h"

enum { QOS = 21, HALVES = 32, SURFACE = 16384, LARGE = 65536 };

#define MAIN(parameters, body) CONFORMANCE_HEAD "    func main<ios18>(" parameters ") {\n" body "}\n"

/* Names and shapes in the wrong order do not fit. */
static const char subtract[] =
    MAIN("tensor<fp16, [1, 400, 1, 32]> b, tensor<fp16, [1, 1, 1, 32]> a",
         "        tensor<fp16, [1, 400, 1, 32]> z = sub(x = b, y = a)[name = string(\"z\")];\n    } -> (z);\n");

static void sleep_ms(int ms) {
    const struct timespec span = {.tv_nsec = ms * 1000000L};
    nanosleep(&span, NULL);
}

static id make_model(const char *text, const file_entry *files, int count, char folder[1400]) {
    id model = CALL(id, (id, SEL, id), calls_class("_ANEInMemoryModel"),
                    "inMemoryModelWithDescriptor:", new_descriptor(text, files, count));
    snprintf(folder, 1400, "%s%s", text_of(temporary_directory()), text_of(GET(model, "hexStringIdentifier")));
    write_bundle(folder, text, files, count);
    return model;
}

static id load_model(const char *text) {
    char folder[1400];
    id error = NULL, model = make_model(text, NULL, 0, folder);
    EXPECT_MSG(memory_compile(model, &error), "%s", error_text(error));
    EXPECT_MSG(memory_load(model, &error), "%s", error_text(error));
    remove_folder(folder);
    return model;
}

static void end(id model, void *pool) {
    if (model) EXPECT(memory_unload(model, NULL));
    calls_drain(pool);
    EXPECT_MSG(standin_counter("violations") == 0, "%s", standin_complaint());
}

/* ---- errors ------------------------------------------------------------------------------------------------------------------ */

/* Evaluates a request with surfaces of these sizes and returns the error. */
static id refused(id model, size_t a, size_t b, bool swapped) {
    id error = NULL, in[] = {new_surface(swapped ? b : a), new_surface(swapped ? a : b)}, out = new_surface(LARGE);
    id request = new_request(2, in, 1, &out, 0);
    return memory_evaluate(model, request, NULL, &error) ? NULL : error;
}

typedef struct texts {
    const char *system;
    long code, underlying;
    const char *text;
    bool mixed; /* whether surfaces of different sizes are accepted */
} texts;

static const texts surface_texts[] = {
    {"15", 8, -1, "status=0x1d : statusType=0x9: Program Inference error", false},
    {"26", 8, -1, "status=0x1d : statusType=0x9: Program Inference error", false},
    {"27", 42, 0x1d,
     "evaluateWithQoS:options:request:error:: Inference failed — IOSurface smaller than the model "
     "expects (underlying=0x1D)",
     true},
};

static void surfaces_by(const texts *t) {
    void *pool = calls_pool();
    standin_to("system", t->system);
    standin_to("idle", "off");
    id model = load_model(subtract), errors[3] = {refused(model, 64, LARGE, false), refused(model, 64, LARGE, true),
                                                  refused(model, 2 * LARGE, 2 * LARGE, false)};
    EXPECT_MSG(!errors[2], "larger surfaces: %s", error_text(errors[2]));
    EXPECT_MSG(!errors[0] == t->mixed, "mixed sizes: %s", errors[0] ? error_text(errors[0]) : "taken");
    id error = t->mixed ? errors[1] : errors[0];
    EXPECT_MSG(code_of(error) == t->code && strstr(error_text(error), t->text), "code %ld: %s", code_of(error),
               error_text(error));
    EXPECT(underlying_of(error) == t->underlying);
    EXPECT(strcmp(text_of(GET(error, "domain")), "com.apple.appleneuralengine") == 0);
    EXPECT(strstr(text_of(GET(error, "description")), error_text(error)));
    end(model, pool);
}

TEST(surfaces_on_15) { surfaces_by(&surface_texts[0]); }
TEST(surfaces_on_26) { surfaces_by(&surface_texts[1]); }
TEST(surfaces_on_27) { surfaces_by(&surface_texts[2]); }

/* ---- exceptions --------------------------------------------------------------------------------------------------------------- */

static int heard;

static void handler(id exception) {
    char text[700];
    int length =
        snprintf(text, sizeof text, "%s: %s", text_of(GET(exception, "name")), text_of(GET(exception, "reason")));
    (void)!write(heard, text, (size_t)length);
}

/* Runs the call in a child: checks what its handler received, and that it ended with SIGABRT. */
static void expect_raise(void (*call)(void), const char *want) {
    int ends[2], how = 0;
    char text[800] = "";
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        heard = ends[1];
        (void)!freopen("/dev/null", "w", stderr);
        ((void (*)(void (*)(id)))(uintptr_t)calls_find("NSSetUncaughtExceptionHandler"))(handler);
        signal(SIGABRT, SIG_DFL);
        calls_pool();
        call();
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    EXPECT_MSG(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT, "it ended with %#x", (unsigned)how);
    EXPECT_MSG(length > 0 && strstr(text, want) && strncmp(text, "NSInvalidArgumentException: ", 28) == 0, "'%s'",
               text);
}

static id request_of(id statistics, id indices) {
    id in = new_surface(LARGE), one[] = {wrap_surface(in)}, zero[] = {new_number(0)};
    id list = indices ? indices : new_array(1, zero);
    return CALL(id, (id, SEL, id, id, id, id, id, id, id), calls_class("_ANERequest"),
                "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:",
                new_array(1, one), list, new_array(1, one), new_array(1, zero), NULL, statistics, zero[0]);
}

static void give_statistics(void) {
    memory_evaluate(load_model(subtract), request_of(new_number(1), NULL), NULL, NULL);
}
static void give_index_set(void) {
    id model = load_model(subtract), inner = GET(model, "model");
    id set = ((id(*)(id, SEL, uint64_t))calls_send())(inner, calls_selector("inputSymbolIndicesForProcedureIndex:"), 0);
    memory_evaluate(model, request_of(NULL, set), NULL, NULL);
}
static void give_wrapper(void) {
    id error = NULL, model = load_model(subtract), client = GET(calls_class("_ANEClient"), "sharedConnection");
    CALL(bool, (id, SEL, id, id, uint32_t, id *), client, "loadModel:options:qos:error:", model,
         new_dictionary(0, NULL, NULL), QOS, &error);
}
static void ask_wrapper(void) {
    standin_to("wrapper", "attributes");
    GET(load_model(subtract), "modelAttributes");
}

TEST(calls_that_raise_on_27) {
    standin_to("system", "27");
    standin_to("idle", "off");
    expect_raise(give_statistics, "-[NSNumber count]: unrecognized selector");
    expect_raise(give_index_set, "-[NSIndexSet objectAtIndexedSubscript:]: unrecognized selector");
    expect_raise(give_wrapper, "-[_ANEInMemoryModel getUUID]: unrecognized selector");
    expect_raise(ask_wrapper, "externConstants]: unrecognized selector");
}

/* A list of statistics is accepted, and on macOS 26 a single object is, too. */
TEST(statistics_that_do_not_raise) {
    void *pool = calls_pool();
    id error = NULL;
    standin_to("system", "27");
    standin_to("idle", "off");
    id model = load_model(subtract);
    EXPECT(!memory_evaluate(model, request_of(new_array(0, NULL), NULL), NULL, &error) && code_of(error) == 42);
    standin_to("system", "26");
    EXPECT(!memory_evaluate(model, request_of(new_number(1), NULL), NULL, &error) && code_of(error) == 8);
    end(model, pool);
}

/* ---- the machine -------------------------------------------------------------------------------------------------------------- */

/* Loads `count` programs and returns how many the machine accepted. */
static int load_many(int count) {
    char text[2000];
    int loaded = 0;
    for (int k = 0; k < count; k++) {
        char folder[1400];
        snprintf(text, sizeof text,
                 MAIN("tensor<fp16, [1, 1, 1, 32]> x%d_%d",
                      "        tensor<fp16, [1, 1, 1, 32]> z = add(x = x%d_%d, y = x%d_%d)[name = string(\"z\")];\n"
                      "    } -> (z);\n"),
                 (int)getpid(), k, (int)getpid(), k, (int)getpid(), k);
        id error = NULL, model = make_model(text, NULL, 0, folder);
        EXPECT_MSG(memory_compile(model, &error), "%s", error_text(error));
        loaded += memory_load(model, &error);
        remove_folder(folder);
    }
    return loaded;
}

/* Two processes share the slots; those of a killed process become free again. */
TEST(places_are_shared_between_processes) {
    int ends[2], loaded = 0;
    standin_to("system", "27");
    standin_to("pool", "5");
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        calls_pool();
        loaded = load_many(3);
        (void)!write(ends[1], &loaded, sizeof loaded);
        for (;;) sleep_ms(100);
    }
    EXPECT(child > 0 && read(ends[0], &loaded, sizeof loaded) == sizeof loaded);
    EXPECT_MSG(loaded == 3, "%d", loaded);
    calls_pool();
    EXPECT_MSG((loaded = load_many(4)) == 2, "%d of 4 in 2 places", loaded);
    kill(child, SIGKILL);
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT_MSG((loaded = load_many(5)) == 3, "%d of 5 in the 3 places of a killed process", loaded);
}

/* A child has none of its parent's slots and does not release them. */
TEST(a_child_does_not_give_its_parents_places_back) {
    int how = 0, loaded = 0;
    standin_to("system", "27");
    standin_to("pool", "3");
    calls_pool();
    EXPECT((loaded = load_many(2)) == 2);
    pid_t child = fork();
    if (child == 0) _exit(load_many(3));
    EXPECT(child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 1);
    EXPECT_MSG((loaded = load_many(3)) == 1, "%d", loaded);
}

static bool evaluate_once(id model, id *error) {
    id in[] = {new_surface(LARGE), new_surface(LARGE)}, out = new_surface(LARGE);
    return memory_evaluate(model, new_request(2, in, 1, &out, 0), NULL, error);
}

/* Sends requests 3 ms apart until one is accepted; all others return code 34. */
static int refusals(id model) {
    for (int n = 0; n < 9; n++) {
        id error = NULL;
        if (evaluate_once(model, &error)) return n;
        EXPECT_MSG(code_of(error) == 34 && underlying_of(error) == 0x12, "%s", error_text(error));
        sleep_ms(3);
    }
    return -1;
}

TEST(the_engine_comes_up_after_a_pause) {
    void *pool = calls_pool();
    id error = NULL;
    standin_to("system", "27");
    id model = load_model(subtract);
    EXPECT(refusals(model) == 3);
    EXPECT(refusals(model) == 0); /* within 5 s */
    for (int n = 4; n < 9; n++) {
        standin_to("idle", "1");
        sleep_ms(5);
        EXPECT(!evaluate_once(model, &error) && code_of(error) == 34);
        standin_to("idle", "60000");
        EXPECT_MSG(refusals(model) <= 5, "after pause %d", n);
    }
    standin_to("system", "26");
    standin_to("idle", "");
    EXPECT(refusals(model) == 0);
    end(model, pool);
}

/* The system determines the user's folder. */
TEST(the_temporary_folder_does_not_follow_TMPDIR) {
    void *pool = calls_pool();
    id error = NULL;
    char folder[1400], other[1400];
    setenv("TMPDIR", "/nowhere", 1);
    standin_to("system", "27");
    id model = make_model(subtract, NULL, 0, folder);
    EXPECT_MSG(strcmp(text_of(GET(model, "localModelPath")), folder) == 0, "%s", folder);
    remove_folder(folder);
    snprintf(other, sizeof other, "%sother", text_of(temporary_directory()));
    write_bundle(other, subtract, NULL, 0);
    EXPECT(!memory_compile(model, &error) && code_of(error) == 10);
    remove_folder(other);
    end(NULL, pool);
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------- */

static bool load_real_time(id *error) {
    id client = GET(calls_class("_ANEClient"), "sharedConnection"), model = load_model(subtract);
    EXPECT(memory_unload(model, NULL));
    bool done =
        CALL(bool, (id, SEL, id, id, uint32_t, id *), client,
             "loadRealTimeModel:options:qos:error:", GET(model, "model"), new_dictionary(0, NULL, NULL), QOS, error);
    if (done) EXPECT(memory_unload(model, NULL));
    return done;
}

TEST(real_time_does_not_load_on_27) {
    void *pool = calls_pool();
    id error = NULL;
    standin_to("system", "26");
    EXPECT(load_real_time(&error));
    standin_to("system", "27");
    EXPECT(!load_real_time(&error) && !error);
    end(NULL, pool);
}

TEST(names_have_three_hashes_in_the_systems_order) {
    static const char nothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    void *pool = calls_pool();
    const file_entry file = {"weights/w.bin", "abc", 3};
    for (int k = 0; k < 2; k++) {
        char folder[1400];
        standin_to("system", k ? "27" : "26");
        const char *name = text_of(GET(make_model(subtract, &file, 1, folder), "hexStringIdentifier"));
        EXPECT_MSG(strlen(name) == 194 && strncmp(name + (k ? 130 : 65), nothing, 64) == 0, "%s", name);
        remove_folder(folder);
    }
    id hashes = GET(new_descriptor(subtract, &file, 1), "perFileHashes");
    EXPECT(strcmp(text_of(entry_of(hashes, "@model_path/weights/w.bin")),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0);
    end(NULL, pool);
}

TEST(the_system_says_its_version) {
    static const char *const systems[] = {"15", "26", "27"};
    void *pool = calls_pool();
    for (int k = 0; k < 3; k++) {
        char want[20];
        standin_to("system", systems[k]);
        snprintf(want, sizeof want, "Version %s.", systems[k]);
        id info = GET(calls_class("NSProcessInfo"), "processInfo");
        EXPECT(strncmp(text_of(GET(info, "operatingSystemVersionString")), want, strlen(want)) == 0);
    }
    end(NULL, pool);
}

/* ---- programs ----------------------------------------------------------------------------------------------------------------- */

static const char int8_in[] =
    MAIN("tensor<int8, [1, 1, 1, 32]> x",
         "        string t = const()[name = string(\"t\"), val = string(\"fp16\")];\n"
         "        tensor<fp16, [1, 1, 1, 32]> z = cast(x = x, dtype = t)[name = string(\"z\")];\n    } -> (z);\n");
static const char fp32_in[] =
    MAIN("tensor<fp32, [1, 1, 1, 32]> x",
         "        string t = const()[name = string(\"t\"), val = string(\"fp16\")];\n"
         "        tensor<fp16, [1, 1, 1, 32]> z = cast(x = x, dtype = t)[name = string(\"z\")];\n    } -> (z);\n");
#define DEQUANTIZE(scale)                                                                                              \
    MAIN("tensor<fp16, [2, 4]> x",                                                                                     \
         "        tensor<fp16, [2, 4]> w = constexpr_affine_dequantize()[axis = int32(0), name = string(\"w\"), "      \
         "quantized_data = tensor<int8, [2, 4]>([[1, 2, 3, 4], [5, 6, 7, 8]]), scale = " scale                         \
         ", zero_point = int8(0)];\n"                                                                                  \
         "        tensor<fp16, [2, 4]> z = add(x = x, y = w)[name = string(\"z\")];\n    } -> (z);\n")

typedef struct verdict {
    const char *what, *text;
    const char *key, *value; /* an additional switch; NULL if there is none */
    bool good[3];            /* on 15, 26, 27 */
} verdict;

static const verdict verdicts[] = {
    {"int8 in a signature", int8_in, NULL, NULL, {true, true, false}},
    {"fp32 in a signature", fp32_in, NULL, NULL, {true, true, true}},
    {"fp32 in a signature, refused", fp32_in, "float32", "refused", {false, false, false}},
    {"dequantize, scalar scale", DEQUANTIZE("fp16(0x1p-1)"), NULL, NULL, {true, false, true}},
    {"dequantize, scales", DEQUANTIZE("tensor<fp16, [2]>([0x1p-1, 0x1p-2])"), NULL, NULL, {true, false, false}},
    {"dequantize, none at all", DEQUANTIZE("fp16(0x1p-1)"), "affine", "refused", {false, false, false}},
};

TEST(programs_by_system) {
    static const char *const systems[] = {"15", "26", "27"};
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        for (int k = 0; k < 3; k++) {
            const verdict *v = &verdicts[i];
            void *pool = calls_pool();
            char folder[1400];
            id error = NULL;
            standin_to("system", systems[k]);
            if (v->key) standin_to(v->key, v->value);
            id model = make_model(v->text, NULL, 0, folder);
            bool done = memory_compile(model, &error);
            EXPECT_MSG(done == v->good[k], "%s on %s: %s", v->what, systems[k], error_text(error));
            if (!done)
                EXPECT_MSG(code_of(error) == 1 && strstr(error_text(error), "InvalidMILProgram"), "%s",
                           error_text(error));
            if (v->key) standin_to(v->key, "");
            remove_folder(folder);
            end(NULL, pool);
        }
}

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case none[] = {T(the_stand_in_is_there)};
    static const test_case tests[] = {
        T(surfaces_on_15),
        T(surfaces_on_26),
        T(surfaces_on_27),
        T(calls_that_raise_on_27),
        T(statistics_that_do_not_raise),
        T(places_are_shared_between_processes),
        T(a_child_does_not_give_its_parents_places_back),
        T(the_engine_comes_up_after_a_pause),
        T(the_temporary_folder_does_not_follow_TMPDIR),
        T(real_time_does_not_load_on_27),
        T(names_have_three_hashes_in_the_systems_order),
        T(the_system_says_its_version),
        T(programs_by_system),
    };
    if (!ane_rig_enter(argv[0])) return test_main("drivers/standin", none, 1, argc, argv);
    int code = test_main("drivers/standin", tests, sizeof tests / sizeof tests[0], argc, argv);
    ane_rig_leave();
    return code;
}
