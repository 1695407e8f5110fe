/* SPDX-License-Identifier: MIT
 * Makes the small programs, and tries a program from its model to its numbers.
 */
#include "apps/ane-lab/probe/lab_recipe.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/mil/coreml/blob.h"

enum { CHANNELS = 32 };

static char recipe_form[80];

static void recipe_note_step(const char *step) {
    json_t *note = json_object();
    probe_say(note, "phase", "%s/%s", recipe_form, step);
    probe_note(note);
    json_decref(note);
}

void lab_recipe_begin(const char *name) {
    snprintf(recipe_form, sizeof recipe_form, "%s", name);
    lab_on_step(recipe_note_step);
}

/* ---- the program -------------------------------------------------------------------------------------------------------------- */

static propane_status recipe_add_record(lab_recipe *r, int file, int k, float scale, uint64_t *offset,
                                        propane_error *err) {
    uint16_t data[CHANNELS * CHANNELS] = {0};
    for (int c = 0; c < CHANNELS; c++) data[c * CHANNELS + c] = fp16_from_f32((float)(k + 1) * scale);
    r->wanted += (float)(k + 1) * scale;
    return mil_blob_append(&r->bytes[file], MIL_fp16, CHANNELS * CHANNELS, data, offset, err);
}

static const char recipe_head[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}, {\"coremlc-version\", "
    "\"3505.4.1\"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 32, 1, 32]> x) {\n";

static const char recipe_constants[] =
    "        string valid = const()[name = string(\"valid\"), val = string(\"valid\")];\n"
    "        tensor<int32, [2]> ones = const()[name = string(\"ones\"), val = tensor<int32, [2]>([1, 1])];\n"
    "        tensor<int32, [4]> none = const()[name = string(\"none\"), val = tensor<int32, [4]>([0, 0, 0, 0])];\n"
    "        int32 one = const()[name = string(\"one\"), val = int32(1)];\n";

/* Adds convolution k and its sum to the program: c0, then s1 = c0 + c1, s2 = s1 + c2, and so on. The last value is
 * y. */
static void recipe_add_convolution(lab_recipe *r, int file, int k, int records, uint64_t offset, const char *mark) {
    text_printf(
        &r->program,
        "        tensor<fp16, [32, 32, 1, 1]> w%d%s = const()[name = string(\"w%d%s\"), val = tensor<fp16, [32, "
        "32, 1, 1]>(BLOBFILE(path = string(\"@model_path/%s\"), offset = uint64(%llu)))];\n"
        "        tensor<fp16, [1, 32, 1, 32]> %s%d = conv(dilations = ones, groups = one, pad = none, pad_type = "
        "valid, strides = ones, weight = w%d%s, x = x)[name = string(\"%s%d\")];\n",
        k, mark, k, mark, r->paths[file], (unsigned long long)offset, records == 1 ? "y" : "c", k, k, mark,
        records == 1 ? "y" : "c", k);
    if (!k) return;
    text_printf(&r->program,
                "        tensor<fp16, [1, 32, 1, 32]> %s%d = add(x = %s%d, y = c%d)[name = string(\"%s%d\")];\n",
                k == records - 1 ? "y" : "s", k, k == 1 ? "c" : "s", k - 1, k, k == records - 1 ? "y" : "s", k);
}

static propane_status recipe_fill(lab_recipe *r, int files, int records, float scale, const char *mark,
                                  propane_error *err) {
    text_append(&r->program, recipe_head);
    if (!files) {
        text_printf(&r->program,
                    "        tensor<fp16, [1, 32, 1, 32]> y0 = add(x = x, y = x)[name = string(\"y0%s\")];\n", mark);
        r->wanted = 2;
    } else {
        text_append(&r->program, recipe_constants);
    }
    for (int k = 0; k < (files ? records : 0); k++) {
        const int file = k * files / records;
        uint64_t offset = 0;
        PROPANE_TRY(recipe_add_record(r, file, k, scale, &offset, err));
        recipe_add_convolution(r, file, k, records, offset, mark);
    }
    text_printf(&r->program, "    } -> (y%d);\n}\n", files ? records - 1 : 0);
    return r->program.failed ? propane_fail_memory(err, r->program.length) : PROPANE_OK;
}

propane_status lab_recipe_make(lab_recipe *r, int route, int files, int records, float scale, bool own,
                               propane_error *err) {
    char mark[24] = "";
    uint32_t bits = 0;
    *r = (lab_recipe){.p = {.route = route, .inputs = 1, .files = r->files, .file_count = files}};
    if (own && getentropy(&bits, sizeof bits) != 0) bits = (uint32_t)getpid();
    if (own) snprintf(mark, sizeof mark, "_%08x", bits);
    for (int i = 0; i < files; i++)
        snprintf(r->paths[i], sizeof r->paths[i], "%slab%d.bin", route ? "" : "weights/", i);
    PROPANE_TRY(recipe_fill(r, files, records, scale, mark, err));
    for (int i = 0; i < files; i++) r->files[i] = (lab_file){r->paths[i], r->bytes[i].data, r->bytes[i].length};
    r->p.text = r->program.data;
    return PROPANE_OK;
}

void lab_recipe_free(lab_recipe *r) {
    for (int i = 0; i < RECIPE_FILES; i++) text_deinit(&r->bytes[i]);
    text_deinit(&r->program);
}

/* ---- a try --------------------------------------------------------------------------------------------------------------------- */

bool lab_recipe_code(const json_t *form, json_int_t *code) {
    for (int step = 0; step < LAB_STEP_COUNT; step++) {
        const json_t *error = json_object_get(json_object_get(form, lab_step_name((lab_step)step)), "error");
        if (!error) continue;
        *code = json_integer_value(json_object_get(error, "code"));
        return true;
    }
    return false;
}

/* Evaluates the program, and repeats an evaluation that was cancelled, as the driver does. macOS 27 cancels evaluations
 * while the engine changes its power state, including a process's first evaluation. */
static bool recipe_evaluate(lab *l, json_t *out) {
    enum { CANCELLED = 34, REPEATS = 8, PAUSE_NS = 3000000 };
    for (int repeats = 0;; repeats++) {
        json_int_t code = 0;
        if (repeats) json_put(out, "repeats", json_integer(repeats));
        if (lab_do(l, LAB_EVALUATE, out)) return true;
        if (repeats == REPEATS || !lab_recipe_code(out, &code) || code != CANCELLED) return false;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

bool lab_recipe_value(lab *l, float wanted, json_t *out) {
    float value = 0;
    bool uniform = false;
    propane_error err = {0};
    const bool run = lab_put(l, 0, 1, &err) == PROPANE_OK && recipe_evaluate(l, out);
    if (run && lab_take(l, &value, &uniform, &err) == PROPANE_OK) {
        probe_value(out, "value", value);
        if (value != wanted || !uniform) probe_value(out, "wanted", wanted);
    }
    if (err.status) probe_say(out, "why", "%s", err.text);
    return run && !err.status && uniform && value == wanted;
}

static const char *recipe_failed_step(const json_t *form) {
    for (int step = LAB_WRITE; step < LAB_STEP_COUNT; step++)
        if (json_is_false(json_object_get(json_object_get(form, lab_step_name((lab_step)step)), "done")))
            return lab_step_name((lab_step)step);
    return NULL;
}

static void recipe_describe(const json_t *form, const char *name, bool holds, text *words) {
    json_int_t code = 0;
    const char *step = recipe_failed_step(form), *why = json_string_value(json_object_get(form, "why"));
    const json_t *value = json_object_get(form, "value");
    text_printf(words, "%s%s: ", words->length ? "; " : "", name);
    if (holds)
        text_append(words, "works");
    else if (step && lab_recipe_code(form, &code))
        text_printf(words, "fails at %s with code %lld", step, (long long)code);
    else if (value)
        text_printf(words, "gives %g, not %g", json_number_value(value),
                    json_number_value(json_object_get(form, "wanted")));
    else
        text_printf(words, "fails%s%s%s%.200s", step ? " at " : "", step ? step : "", why ? ": " : "", why ? why : "");
}

bool lab_recipe_try(const lab_recipe *r, const char *name, json_t *out, text *words) {
    propane_error err = {0};
    lab *l = NULL;
    json_t *form = json_object();
    lab_recipe_begin(name);
    bool holds = lab_open(&r->p, form, &l, &err) == PROPANE_OK;
    if (!holds) probe_say(form, "why", "%s", err.text);
    holds = holds && lab_do_all(l, LAB_EXISTS, LAB_LOAD, form) && lab_recipe_value(l, r->wanted, form);
    if (l) json_put(form, "files", lab_list_folder(l));
    if (l && json_is_true(json_object_get(json_object_get(form, "load"), "done"))) lab_do(l, LAB_UNLOAD, form);
    lab_close(l);
    json_put(form, "holds", json_boolean(holds));
    recipe_describe(form, name, holds, words);
    json_put(out, name, form);
    probe_note(out);
    return holds;
}

void lab_recipe_answer(json_t *out, text *words) {
    probe_say(out, "answer", "%s", words->data ? words->data : "");
    text_deinit(words);
}
