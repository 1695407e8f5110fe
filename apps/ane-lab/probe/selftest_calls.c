/* SPDX-License-Identifier: MIT
 * Owns the questions about single calls of the framework: which files a load reads, and which forms of requests and
 * element types are accepted. Other questions are what an idle engine does, how soon the compiler recovers, and how
 * many programs two processes can load.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "apps/ane-lab/probe/lab_recipe.h"
#include "apps/ane-lab/probe/question_process.h"
#include "apps/ane-lab/probe/selftest.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/mil/coreml/blob.h"

static void selftest_calls_sleep_ms(int64_t ms) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* ---- files that a load reads ------------------------------------------------------------------------------------- */

enum { RELOAD_RECORDS = 4 };

typedef enum reload_form { RELOAD_DATA, RELOAD_FILE, RELOAD_NET, RELOAD_DIGEST, RELOAD_FORMS } reload_form;

static const char *const reload_names[RELOAD_FORMS] = {"data written over", "weight file written over",
                                                       "another model with the first one's net.plist",
                                                       "another model that was given the digest"};

/* Replaces a file of the folder `to` by `bytes` or, if `from` is not NULL, by the file of the same name in the folder
 * `from`. */
static propane_status selftest_calls_put_file(const char *to, const char *name, const text *bytes, const char *from,
                                              propane_error *err) {
    char path[1400], *data = NULL;
    size_t length = 0;
    if (from) {
        snprintf(path, sizeof path, "%.1300s/%s", from, name);
        PROPANE_TRY(file_read(path, (size_t)1 << 28, &data, &length, err));
    }
    snprintf(path, sizeof path, "%.1300s/%s", to, name);
    propane_status status =
        from ? file_write_scratch(path, data, length, err) : file_write_scratch(path, bytes->data, bytes->length, err);
    mem_free(data);
    return status;
}

/* Makes a second model with the text of the first model and the weights of `r`. Writes the model's files, but does not
 * compile it. */
static propane_status selftest_calls_open_second(reload_form how, const lab *first, lab_recipe *r, lab **second,
                                                 json_t *form, propane_error *err) {
    json_t *steps = json_object();
    if (how == RELOAD_DIGEST) r->p.data = LAB_DIGEST;
    json_put(form, "second", steps);
    PROPANE_TRY(lab_open(&r->p, steps, second, err));
    lab_do(*second, LAB_EXISTS, steps);
    if (!lab_do(*second, LAB_WRITE, steps)) return propane_fail(err, PROPANE_ERR_IO, "its files cannot be written");
    if (how == RELOAD_DIGEST) return PROPANE_OK;
    PROPANE_TRY(selftest_calls_put_file(lab_folder(*second), "net.plist", NULL, lab_folder(first), err));
    return selftest_calls_put_file(lab_folder(*second), "data", &r->bytes[0], NULL, err);
}

static propane_status selftest_calls_load_again(reload_form how, lab *first, lab_recipe *r, json_t *form, bool *holds,
                                                propane_error *err) {
    lab *second = NULL;
    propane_status status = PROPANE_OK;
    json_t *again = json_object();
    if (how == RELOAD_DATA) status = selftest_calls_put_file(lab_folder(first), "data", &r->bytes[0], NULL, err);
    if (how == RELOAD_FILE) status = selftest_calls_put_file(lab_folder(first), r->paths[0], &r->bytes[0], NULL, err);
    if (how == RELOAD_NET || how == RELOAD_DIGEST)
        status = selftest_calls_open_second(how, first, r, &second, form, err);
    lab *l = second ? second : first;
    *holds = status == PROPANE_OK && lab_do(l, LAB_LOAD, again) && lab_recipe_value(l, r->wanted, again);
    json_put(form, "again", again);
    lab_close(second);
    return status;
}

static void selftest_calls_print_reload(reload_form how, const json_t *form, bool holds, float old,
                                        const propane_error *err, text *words) {
    const json_t *again = json_object_get(form, "again"), *value = json_object_get(again, "value");
    json_int_t code = 0;
    text_printf(words, "%s%s: ", words->length ? ", " : "", reload_names[how]);
    if (holds)
        text_append(words, "the new weights");
    else if (value)
        text_append(words, json_number_value(value) == (double)old ? "the old weights" : "other numbers");
    else if (lab_recipe_code(again, &code))
        text_printf(words, "fails with code %lld", (long long)code);
    else
        text_printf(words, "cannot be done%s%.160s", err->status ? ": " : "", err->text);
}

static propane_status selftest_calls_reload(reload_form how, json_t *out, text *words, propane_error *err) {
    lab_recipe old, new;
    lab *l = NULL;
    bool holds = false;
    propane_error why = {0};
    json_t *form = json_object();
    lab_recipe_begin(reload_names[how]);
    propane_status status = lab_recipe_make(&old, 0, 1, RELOAD_RECORDS, 1, true, err);
    if (status == PROPANE_OK) status = lab_recipe_make(&new, 0, 1, RELOAD_RECORDS, 2, true, err);
    if (status == PROPANE_OK) {
        new.p.text = old.p.text;
        if (lab_open(&old.p, form, &l, &why) == PROPANE_OK && lab_do_all(l, LAB_EXISTS, LAB_LOAD, form) &&
            lab_recipe_value(l, old.wanted, form) && lab_do(l, LAB_UNLOAD, form))
            (void)!selftest_calls_load_again(how, l, &new, form, &holds, &why); /* `why` is the answer */
        selftest_calls_print_reload(how, form, holds, old.wanted, &why, words);
        json_put(form, "holds", json_boolean(holds));
        json_put(out, reload_names[how], form);
        probe_note(out);
        lab_close(l);
        lab_recipe_free(&new);
    } else {
        json_decref(form);
    }
    lab_recipe_free(&old);
    return status;
}

propane_status probe_ask_reload(probe_target *t, json_t *out, propane_error *err) {
    text words = {0};
    (void)t;
    for (int how = 0; how < RELOAD_FORMS; how++) PROPANE_TRY(selftest_calls_reload((reload_form)how, out, &words, err));
    lab_recipe_answer(out, &words);
    return PROPANE_OK;
}

/* ---- requests -------------------------------------------------------------------------------------------------------------------- */

/* y = b + 320 a for an a with equal elements. The surface of a takes two pages of 16 KB, and the surface of b takes
 * one. */
static const char calls_uneven[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}, {\"coremlc-version\", "
    "\"3505.4.1\"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 320, 1, 32]> a, tensor<fp16, [1, 32, 1, 32]> b) {\n"
    "        tensor<int32, [1]> axes = const()[name = string(\"axes\"), val = tensor<int32, [1]>([1])];\n"
    "        bool keep = const()[name = string(\"keep\"), val = bool(true)];\n"
    "        tensor<fp16, [1, 1, 1, 32]> s = reduce_sum(axes = axes, keep_dims = keep, x = a)[name = string(\"s\")];\n"
    "        tensor<fp16, [1, 32, 1, 32]> y = add(x = b, y = s)[name = string(\"y\")];\n    } -> (y);\n}\n";

static propane_status selftest_calls_request(const char *name, const lab_request *request, json_t *out, text *words,
                                             propane_error *err) {
    const lab_program p = {.text = calls_uneven, .inputs = 2, .values = {320 * 32}};
    lab *l = NULL;
    json_t *form = json_object();
    json_int_t code = 0;
    lab_recipe_begin(name);
    propane_status status = lab_open(&p, form, &l, err);
    if (status == PROPANE_OK) lab_request_as(l, request);
    const bool loaded = status == PROPANE_OK && lab_do_all(l, LAB_EXISTS, LAB_LOAD, form);
    const bool holds = loaded && lab_put(l, 1, 1, err) == PROPANE_OK && lab_recipe_value(l, 321, form);
    text_printf(words, "%s%s ", words->length ? ", " : "", name);
    if (holds)
        text_append(words, "is taken");
    else if (lab_recipe_code(form, &code))
        text_printf(words, "is refused with code %lld", (long long)code);
    else
        text_append(words, loaded ? "gives wrong numbers" : "could not be tried");
    json_put(form, "holds", json_boolean(holds));
    json_put(out, name, form);
    probe_note(out);
    lab_close(l);
    return status;
}

propane_status probe_ask_requests(probe_target *t, json_t *out, propane_error *err) {
    static const struct {
        const char *name;
        lab_request request;
        bool statistics;
    } forms[] = {{"a request with surfaces of different sizes", {.statistics = LAB_NO_STATISTICS}, false},
                 {"one with a surface that is too small", {.bytes = {16384}}, false},
                 {"one whose inputs are swapped", {.swapped = true}, false},
                 {"an empty list of statistics", {.statistics = LAB_EMPTY_STATISTICS, .bytes = {32768, 32768}}, true},
                 {"a list with statistics", {.statistics = LAB_ONE_STATISTICS, .bytes = {32768, 32768}}, true}};
    text words = {0};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].statistics == (strcmp(t->detail, "statistics") == 0))
            PROPANE_TRY(selftest_calls_request(forms[i].name, &forms[i].request, out, &words, err));
    lab_recipe_answer(out, &words);
    return PROPANE_OK;
}

/* ---- element types ------------------------------------------------------------------------------------------------------------------ */

#define CALLS_T "tensor<fp16, [1, 32, 1, 32]>"
static const char calls_head[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}, {\"coremlc-version\", "
    "\"3505.4.1\"}})]\n{\n    func main<ios18>(";

typedef struct types_form {
    const char *name, *body;
    float wanted; /* value of y for x = 1; 0 if the program is only compiled and loaded */
} types_form;

static const types_form calls_types[] = {
    {"int8 weights by blocks with a scale for each channel",
     CALLS_T
     " x) {\n"
     "        string valid = const()[name = string(\"valid\"), val = string(\"valid\")];\n"
     "        tensor<int32, [2]> ones = const()[name = string(\"ones\"), val = tensor<int32, [2]>([1, 1])];\n"
     "        tensor<int32, [4]> none = const()[name = string(\"none\"), val = tensor<int32, [4]>([0, 0, 0, 0])];\n"
     "        int32 one = const()[name = string(\"one\"), val = int32(1)];\n"
     "        tensor<fp16, [32, 32, 1, 1]> w = constexpr_blockwise_shift_scale(data = tensor<int8, [32, 32, 1, "
     "1]>(BLOBFILE(path = string(\"@model_path/weights/lab0.bin\"), offset = uint64(64))), scale = tensor<fp16, [32, "
     "1, "
     "1, 1]>(BLOBFILE(path = string(\"@model_path/weights/lab0.bin\"), offset = uint64(1152))))[name = "
     "string(\"w\")];\n"
     "        " CALLS_T
     " y = conv(dilations = ones, groups = one, pad = none, pad_type = valid, strides = ones, weight = w, "
     "x = x)[name = string(\"y\")];\n    } -> (y);\n",
     3},
    {"quantize with a scale for each channel",
     CALLS_T
     " x) {\n"
     "        int32 axis = const()[name = string(\"axis\"), val = int32(1)];\n"
     "        string type = const()[name = string(\"type\"), val = string(\"int8\")];\n"
     "        tensor<fp16, [32]> s = const()[name = string(\"s\"), val = tensor<fp16, [32]>([0x1p-3, 0x1p-3, 0x1p-3, "
     "0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, "
     "0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, 0x1p-3, "
     "0x1p-3, 0x1p-3, 0x1p-3])];\n"
     "        tensor<int8, [1, 32, 1, 32]> q = quantize(axis = axis, input = x, output_dtype = type, scale = s)[name "
     "= string(\"q\")];\n"
     "        " CALLS_T " y = dequantize(axis = axis, input = q, scale = s)[name = string(\"y\")];\n    } -> (y);\n",
     1},
    {"int8 in a signature",
     "tensor<int8, [1, 32, 1, 64]> x) {\n"
     "        string half = const()[name = string(\"half\"), val = string(\"fp16\")];\n"
     "        tensor<fp16, [1, 32, 1, 64]> y = cast(dtype = half, x = x)[name = string(\"y\")];\n    } -> (y);\n",
     0}};

/* Appends int8 weights of 24 on the diagonal, and scales of 0x1p-3. The record of the scales begins after 64 + 64 +
 * 1024 bytes. */
static propane_status selftest_calls_make_blocks(text *file, propane_error *err) {
    int8_t data[32 * 32] = {0};
    uint16_t scales[32];
    uint64_t offset;
    for (int c = 0; c < 32; c++) data[c * 33] = 24, scales[c] = fp16_from_f32(0.125f);
    PROPANE_TRY(mil_blob_append(file, MIL_int8, 32 * 32, data, &offset, err));
    return mil_blob_append(file, MIL_fp16, 32, scales, &offset, err);
}

static propane_status selftest_calls_type(const types_form *f, const text *file, json_t *out, text *words,
                                          propane_error *err) {
    text program = {0};
    lab *l = NULL;
    json_t *form = json_object();
    json_int_t code = 0;
    const lab_file files[] = {{"weights/lab0.bin", file->data, file->length}};
    text_printf(&program, "%s%s}\n", calls_head, f->body);
    const lab_program p = {
        .text = program.data, .inputs = 1, .files = files, .file_count = strstr(f->body, "BLOBFILE") != NULL};
    lab_recipe_begin(f->name);
    propane_status status = program.failed ? propane_fail_memory(err, program.length) : lab_open(&p, form, &l, err);
    const bool loaded = status == PROPANE_OK && lab_do_all(l, LAB_EXISTS, LAB_LOAD, form),
               holds = loaded && (f->wanted == 0 || lab_recipe_value(l, f->wanted, form)); /* 0 means no evaluation */
    text_printf(words, "%s%s: ", words->length ? ", " : "", f->name);
    if (!loaded && lab_recipe_code(form, &code))
        text_printf(words, "refused with code %lld", (long long)code);
    else
        text_append(words, holds ? "taken" : loaded ? "accepted, with wrong numbers" : "could not be tried");
    json_put(form, "holds", json_boolean(holds));
    json_put(out, f->name, form);
    probe_note(out);
    lab_close(l);
    text_deinit(&program);
    return status;
}

propane_status probe_ask_types(probe_target *t, json_t *out, propane_error *err) {
    text words = {0}, file = {0};
    propane_status status = selftest_calls_make_blocks(&file, err);
    for (size_t i = 0; i < sizeof calls_types / sizeof calls_types[0] && status == PROPANE_OK; i++)
        status = selftest_calls_type(&calls_types[i], &file, out, &words, err);
    if (strstr(words.data ? words.data : "", "refused")) t->refused = true;
    text_deinit(&file);
    lab_recipe_answer(out, &words);
    return status;
}

/* ---- time: idle engines, a compiler after a refusal, the background ---------------------------------------------- */

typedef struct idle_count {
    int calls, refused, most_repeats, given_up;
    double worst_ms;
} idle_count;

/* Evaluates the program, and repeats a refused evaluation every 3 ms, as the driver does. */
static void selftest_calls_evaluate_idle(lab *l, idle_count *c, json_t *form) {
    enum { MOST_REPEATS = 40, PAUSE_MS = 3 };
    const int64_t begin = clock_ns();
    int repeats = 0;
    while (!lab_do(l, LAB_EVALUATE, form) && repeats < MOST_REPEATS) {
        json_put(form, "refusal", json_incref(json_object_get(json_object_get(form, "evaluate"), "error")));
        selftest_calls_sleep_ms(PAUSE_MS);
        repeats++;
    }
    const double ms = (double)(clock_ns() - begin) / 1e6;
    c->calls++;
    c->refused += repeats > 0;
    c->given_up += repeats == MOST_REPEATS;
    if (repeats > c->most_repeats) c->most_repeats = repeats;
    if (ms > c->worst_ms) c->worst_ms = ms;
}

static void selftest_calls_idle(lab *l, const char *name, int pause_ms, int times, json_t *out, text *words) {
    idle_count c = {0};
    json_t *form = json_object();
    lab_recipe_begin(name);
    for (int i = 0; i < times; i++) {
        selftest_calls_sleep_ms(pause_ms);
        selftest_calls_evaluate_idle(l, &c, form);
    }
    probe_value(form, "calls", c.calls), probe_value(form, "refused", c.refused),
        probe_value(form, "given_up", c.given_up);
    probe_value(form, "most_repeats", c.most_repeats), probe_value(form, "worst_ms", c.worst_ms);
    text_printf(words, "%s%s: %d of %d refused", words->length ? ", " : "", name, c.refused, c.calls);
    if (c.refused) text_printf(words, ", up to %d repeats", c.most_repeats);
    json_put(out, name, form);
    probe_note(out);
}

propane_status probe_ask_idle(probe_target *t, json_t *out, propane_error *err) {
    static const struct {
        const char *name;
        int pause_ms, times;
    } rows[] = {{"the first call", 0, 1}, {"no pause", 0, 20}, {"1 s", 1000, 20},  {"2 s", 2000, 20}, {"4 s", 4000, 10},
                {"5 s", 5000, 10},        {"6 s", 6000, 10},   {"10 s", 10000, 6}, {"30 s", 30000, 3}};
    lab_recipe r;
    lab *l = NULL;
    text words = {0};
    (void)t;
    propane_status status = lab_recipe_make(&r, 0, 0, 0, 1, true, err);
    if (status == PROPANE_OK) status = lab_open(&r.p, out, &l, err);
    if (status == PROPANE_OK && lab_do_all(l, LAB_EXISTS, LAB_LOAD, out))
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            selftest_calls_idle(l, rows[i].name, rows[i].pause_ms, rows[i].times, out, &words);
    lab_close(l);
    lab_recipe_free(&r);
    if (status == PROPANE_OK && !words.length) text_append(&words, "the program does not load");
    lab_recipe_answer(out, &words);
    return status;
}

/* Compiles a text that is not a program, then valid programs until one is accepted. This shows whether the compiler is
 * unreliable after a refusal (C3). */
propane_status probe_ask_after_refusal(probe_target *t, json_t *out, propane_error *err) {
    enum { TRIES = 17, STEP_MS = 1000 };
    const lab_program bad = {.text = "no program", .inputs = 1};
    lab *l = NULL;
    text words = {0};
    int64_t begin = 0;
    (void)t;
    lab_recipe_begin("a refusal");
    PROPANE_TRY(lab_open(&bad, out, &l, err));
    const bool taken = lab_do_all(l, LAB_EXISTS, LAB_COMPILE, out);
    begin = clock_ns();
    lab_close(l);
    bool good = false;
    int tries = 0;
    for (; tries < TRIES && !good; tries++) {
        lab_recipe r;
        if (tries) selftest_calls_sleep_ms(STEP_MS);
        propane_status status = lab_recipe_make(&r, 0, 1, 1, 1, true, err);
        text_clear(&words);
        if (status == PROPANE_OK) good = lab_recipe_try(&r, "a good program", out, &words);
        lab_recipe_free(&r);
        if (status != PROPANE_OK) break;
    }
    text_deinit(&words);
    probe_value(out, "seconds_after", (double)(clock_ns() - begin) / 1e9);
    probe_say(out, "answer", "%s; a valid program is %s %.1f s later, at try %d",
              taken ? "a text that is not a program is accepted" : "a text that is not a program is refused",
              good ? "taken" : "still refused", (double)(clock_ns() - begin) / 1e9, tries);
    return PROPANE_OK;
}

propane_status probe_ask_background(probe_target *t, json_t *out, propane_error *err) {
    text words = {0};
    lab_recipe r;
    (void)t;
#ifdef PRIO_DARWIN_BG
    const bool moved = setpriority(PRIO_DARWIN_PROCESS, 0, PRIO_DARWIN_BG) == 0;
#else
    const bool moved = setpriority(PRIO_PROCESS, 0, 19) == 0;
#endif
    json_put(out, "in_the_background", json_boolean(moved));
    propane_status status = lab_recipe_make(&r, 0, 1, 1, 1, true, err);
    if (status == PROPANE_OK) (void)lab_recipe_try(&r, "a program of a background process", out, &words);
    lab_recipe_free(&r);
    lab_recipe_answer(out, &words);
    return status;
}

/* ---- two processes -------------------------------------------------------------------------------------------------------------------- */

/* Loads some programs in this process, then as many as possible in another process. */
propane_status probe_ask_limit_two(probe_target *t, json_t *out, propane_error *err) {
    enum { HERE = 40, SECONDS = 150 };
    lab *kept[HERE] = {NULL};
    propane_status status = PROPANE_OK;
    int here = 0;
    for (bool good = true; here < HERE && good && status == PROPANE_OK; here += good) {
        lab_recipe r;
        json_t *form = json_object();
        status = lab_recipe_make(&r, 0, 0, 0, 1, true, err);
        if (status == PROPANE_OK) status = lab_open(&r.p, form, &kept[here], err);
        good = status == PROPANE_OK && lab_do_all(kept[here], LAB_EXISTS, LAB_LOAD, form);
        if (!good) {
            lab_close(kept[here]);
            kept[here] = NULL;
        }
        lab_recipe_free(&r);
        json_decref(form);
        probe_progress(here + good);
    }
    json_t *other = status == PROPANE_OK ? question_ask_elsewhere(t->uri, "limit-loaded", SECONDS) : json_object();
    const char *words = json_string_value(json_object_get(other, "answer"));
    probe_value(out, "here", here);
    probe_say(out, "answer", "%d in one process, and at the same time in another: %s", here,
              words ? words : "no answer");
    json_put(out, "other", other);
    for (int i = 0; i < here; i++) lab_close(kept[i]);
    return status;
}
