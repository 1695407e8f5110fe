/* SPDX-License-Identifier: MIT
 * propane diff A [B]: runs two programs, or one program on two devices or in two precisions, on the same inputs.
 * Prints the first operation whose values differ, and the differences of all values. For two compiled programs it
 * prints the fields that differ.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/diff_values.h"
#include "apps/propane/cmd/input_flags.h"
#include "apps/propane/cmd/nonfinite_report.h"
#include "apps/propane/cmd/page_file.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/npy.h"
#include "core/base/text.h"

static double cmd_diff_relative(const diff_row *r) {
    return r->broken ? INFINITY : r->scale > 0 ? r->largest / r->scale : r->largest;
}

/* Returns whether a row counts as a difference. With `beyond`, one side is infinite and the other is too large for
 * fp16. An intermediate value with `beyond` counts only if `strictly` is set, because a later operation such as a
 * softmax may remove the infinity. */
static bool cmd_diff_parts(const diff_job *j, const diff_row *r, bool strictly) {
    return cmd_diff_relative(r) > j->tolerance || (r->beyond && (r->output || strictly));
}

static void cmd_diff_print_row(const diff_row *r) {
    printf("%-40.40s %-24.24s %12.4g %12.4g %12.4g %10.2e\n", r->name, r->op ? r->op : "", r->largest, r->mean,
           r->scale, r->beyond ? INFINITY : cmd_diff_relative(r));
}

static bool cmd_diff_has_none(const nonfinite_tally *t) { return t->nan || t->infinite; }

/* For each side, prints how many values of each output are not finite, and where the first of them comes from. */
static void cmd_diff_print_nonfinite(const diff_job *j) {
    char words[80];
    for (int side = 0; side < 2; side++) {
        const propane_nonfinite *found = side ? &j->found_b : &j->found_a;
        if (!found->nan && !found->infinite) continue;
        for (int i = 0; i < j->row_count; i++) {
            const nonfinite_tally *t = side ? &j->rows[i].b : &j->rows[i].a;
            if (!j->rows[i].output || !cmd_diff_has_none(t)) continue;
            nonfinite_words(words, t->nan, t->infinite);
            printf("%s: output '%s' has %s of %lld\n", side ? "B" : "A", j->rows[i].name, words, (long long)t->numbers);
        }
        printf("%s: %s\n", side ? "B" : "A", found->text);
    }
}

/* Returns the first row that differs, or NULL, and sets *worst to the row that differs most. An infinity in an
 * intermediate value counts only if some other row differs. */
static const diff_row *cmd_diff_find_first(const diff_job *j, const diff_row **worst) {
    const diff_row *first = NULL;
    bool any = false;
    for (int i = 0; i < j->row_count; i++) any |= cmd_diff_parts(j, &j->rows[i], false);
    *worst = NULL;
    for (int i = 0; i < j->row_count; i++) {
        const diff_row *r = &j->rows[i];
        if (!first && any && cmd_diff_parts(j, r, true)) first = r;
        if (!*worst || cmd_diff_relative(r) > cmd_diff_relative(*worst)) *worst = r;
    }
    return first;
}

static bool cmd_diff_any_nonfinite(const diff_job *j) {
    return j->found_a.nan || j->found_a.infinite || j->found_b.nan || j->found_b.infinite;
}

static int cmd_diff_code(const diff_job *j, const diff_row *first) {
    if (cmd_diff_any_nonfinite(j) && (j->found_a.made || j->found_b.made)) return CLI_NOT_FINITE;
    return first ? CLI_FAILED : CLI_OK;
}

static int cmd_diff_report(const diff_job *j) {
    const diff_row *worst, *first = cmd_diff_find_first(j, &worst);
    const bool finite = !cmd_diff_any_nonfinite(j);
    if (j->all || first)
        printf("%-40s %-24s %12s %12s %12s %10s\n", "value", "operation", "largest", "mean", "of", "relative");
    for (int i = 0; i < j->row_count; i++)
        if (j->all || &j->rows[i] == first) cmd_diff_print_row(&j->rows[i]);
    if (!j->all && first && worst != first) cmd_diff_print_row(worst);
    printf("%d value%s compared; the largest relative difference is %.3g (%s)\n", j->row_count,
           text_plural(j->row_count), cmd_diff_relative(worst), worst->name);
    cmd_diff_print_nonfinite(j);
    if (first && first->beyond)
        printf("they differ at %s '%s': infinite on one side\n", first->op ? first->op : "value", first->name);
    else if (first)
        printf("they differ at %s '%s': by %.*g, more than %.3g\n", first->op ? first->op : "value", first->name,
               cmd_diff_relative(first) < 1.01 * j->tolerance ? 6 : 3, cmd_diff_relative(first), j->tolerance);
    if (first && first->scale > 0 && first->scale < 0x1p-14)
        printf("all values of '%s' are below 6.1e-5, the smallest normal fp16 number, where fp16 has few digits; "
               "untrained weights may be the reason\n",
               first->name);
    if (first) return cmd_diff_code(j, first);
    if (finite)
        printf("nothing differs by more than %.3g\n", j->tolerance);
    else
        printf("where both sides are finite, no value differs by more than %.3g\n", j->tolerance);
    return cmd_diff_code(j, first);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------- */

/* Returns a JSON number, or null for a difference that is infinite because one side is not finite. */
static json_t *cmd_diff_json_real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *cmd_diff_json_row(const diff_row *r) {
    return json_pack("{s:s, s:s?, s:b, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "name", r->name, "op", r->op,
                     "output", r->output, "largest", cmd_diff_json_real(r->largest), "mean",
                     cmd_diff_json_real(r->mean), "of", cmd_diff_json_real(r->scale), "relative",
                     cmd_diff_json_real(r->beyond ? INFINITY : cmd_diff_relative(r)), "numbers", (json_int_t)r->count,
                     "nan_a", (json_int_t)r->a.nan, "infinite_a", (json_int_t)r->a.infinite, "nan_b",
                     (json_int_t)r->b.nan, "infinite_b", (json_int_t)r->b.infinite);
}

static int cmd_diff_print_json(const diff_job *j, propane_error *err) {
    const diff_row *worst, *first = cmd_diff_find_first(j, &worst);
    char *line = NULL;
    json_t *root = json_object(), *rows = json_array();
    for (int i = 0; i < j->row_count; i++)
        if (j->all || j->rows[i].output) json_add(rows, cmd_diff_json_row(&j->rows[i]));
    json_put(root, "values", json_integer(j->row_count));
    json_put(root, "tolerance", json_real(j->tolerance));
    json_put(root, "largest", cmd_diff_json_row(worst));
    json_put(root, "parts_at", first ? cmd_diff_json_row(first) : json_null());
    json_put(root, j->all ? "rows" : "outputs", rows);
    json_put(root, "nonfinite",
             json_pack("{s:o, s:o}", "a", nonfinite_json(&j->found_a), "b", nonfinite_json(&j->found_b)));
    propane_status status = json_print(root, JSON_COMPACT | JSON_REAL_PRECISION(9), &line, NULL, err);
    json_decref(root);
    if (status) return cli_error("diff", err);
    printf("%s\n", line);
    mem_free(line);
    return cmd_diff_code(j, first);
}

/* ---- the page --------------------------------------------------------------------------------------------------------------- */

/* Reads A again from its file, because the session's module has every value as an output, and the types of
 * --precision-a. Inputs whose shapes the file leaves open get the shapes of the run, which may come from --input
 * arrays. If the file does not allow these shapes, because another function has an input of the same name and another
 * shape, only the shapes of --shape are used. */
static propane_status cmd_diff_read_anew(const diff_job *j, propane_module **out, propane_error *err) {
    propane_error why = {0};
    if (j->ran_count && propane_module_read_shaped(j->a, j->ran, j->ran_count, out, &why) == PROPANE_OK)
        return PROPANE_OK;
    return propane_module_read_shaped(j->a, j->chosen, j->shape_list.count, out, err);
}

/* Writes A's graph with the differences of its values. */
static propane_status cmd_diff_write_page(const diff_job *j, propane_error *err) {
    char lead[400];
    propane_module *m = NULL;
    PROPANE_TRY(cmd_diff_read_anew(j, &m, err));
    propane_page_value *values = mem_array((size_t)j->row_count + 1, sizeof *values);
    if (!values) {
        propane_module_free(m);
        return propane_fail_memory(err, (size_t)j->row_count * sizeof *values);
    }
    for (int i = 0; i < j->row_count; i++) {
        const diff_row *r = &j->rows[i];
        values[i] = (propane_page_value){.size = sizeof *values,
                                         .name = r->name,
                                         .us = -1,
                                         .compared = true,
                                         .broken = r->broken || r->beyond,
                                         .largest = r->largest,
                                         .mean = r->mean,
                                         .scale = r->scale};
    }
    snprintf(lead, sizeof lead,
             "Differences between %.100s (%.40s, %.20s) and %.100s (%.40s, %.20s) on the same inputs; tolerance %g.",
             j->a, j->left.device, j->left.precision, j->b ? j->b : j->a, j->right.device, j->right.precision,
             j->tolerance);
    const propane_page_options options = {.size = sizeof options,
                                          .lead = lead,
                                          .function = j->left.function,
                                          .colour = "error",
                                          .values = values,
                                          .value_count = j->row_count,
                                          .tolerance = j->tolerance};
    propane_status status = page_file_write(m, &options, j->html, err);
    propane_module_free(m);
    mem_free(values);
    return status;
}

/* ---- recorded outputs ------------------------------------------------------------------------------------------------------- */

static propane_status cmd_diff_unexpected(const diff_job *j, propane_session *s, const char *name, propane_error *err) {
    const propane_program *p = propane_session_program(s);
    char known[300] = "";
    for (int i = 0; i < propane_program_output_count(p); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%.60s", used ? ", " : "", propane_program_output(p, i)->name);
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: '%.80s' is not an output of %s, which has %s", j->expect, name,
                        j->a, known);
}

/* Adds a row that compares a recorded array (as side A) with the model's result (as side B). */
static propane_status cmd_diff_add_expected(diff_job *j, propane_session *s, const char *name, const npy *array,
                                            propane_error *err) {
    const propane_io *io = diff_values_find(s, name);
    float *got = NULL, *wanted = mem_array((size_t)array->count + 1, sizeof *wanted);
    propane_status status = wanted ? PROPANE_OK : propane_fail_memory(err, (size_t)array->count * sizeof *wanted);
    if (!status && !io) status = cmd_diff_unexpected(j, s, name, err);
    if (!status && propane_io_count(io) != array->count)
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: '%.80s' has %lld numbers, but the model's output has %lld",
                              j->expect, name, (long long)array->count, (long long)propane_io_count(io));
    if (!status) status = diff_values_take(s, io, &got, err);
    if (!status) {
        for (int64_t i = 0; i < array->count; i++) wanted[i] = (float)npy_element(array, i);
        diff_row *r = &j->rows[j->row_count];
        *r = (diff_row){.name = mem_copy_string(io->name), .output = true};
        diff_values_compare(wanted, got, array->count, r);
        if (r->name)
            j->row_count++;
        else
            status = propane_fail_memory(err, strlen(io->name));
    }
    mem_free(wanted);
    mem_free(got);
    return status;
}

static propane_status cmd_diff_expect_archive(diff_job *j, propane_session *s, propane_error *err) {
    npz file;
    PROPANE_TRY(npz_read(j->expect, &file, err));
    j->rows = mem_array((size_t)file.count + 1, sizeof *j->rows);
    propane_status status = j->rows ? PROPANE_OK : propane_fail_memory(err, 0);
    for (int i = 0; i < file.count && !status; i++)
        status = cmd_diff_add_expected(j, s, file.names[i], &file.arrays[i], err);
    npz_free(&file);
    return status;
}

/* Reads NAME.npy for each output from a folder that `propane run --output FOLDER` wrote. */
static propane_status cmd_diff_expect_folder(diff_job *j, propane_session *s, propane_error *err) {
    const propane_program *p = propane_session_program(s);
    const int count = propane_program_output_count(p);
    j->rows = mem_array((size_t)count + 1, sizeof *j->rows);
    if (!j->rows) return propane_fail_memory(err, 0);
    for (int i = 0; i < count; i++) {
        const char *name = propane_program_output(p, i)->name;
        char path[1200];
        npy array = {0};
        snprintf(path, sizeof path, "%.900s/%.200s.npy", j->expect, name);
        if (!file_exists(path)) continue;
        propane_status status = npy_read(path, &array, err);
        if (!status) status = cmd_diff_add_expected(j, s, name, &array, err);
        npy_free(&array);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

/* If a recorded value and a result differ because one of them is not finite, finds the operation that causes it. */
static propane_status cmd_diff_explain_broken(diff_job *j, propane_error *err) {
    bool broken = false;
    for (int i = 0; i < j->row_count; i++) broken |= j->rows[i].broken || j->rows[i].beyond;
    return broken ? nonfinite_trace(j->a, &j->left, j->seed, 0, 1, &j->found_b, err) : PROPANE_OK;
}

static propane_status cmd_diff_run_expected(diff_job *j, propane_session **s, propane_error *err) {
    PROPANE_TRY(diff_values_prepare(j, err));
    j->left.keep = false;
    PROPANE_TRY(diff_values_open(j, j->a, &j->left, s, err));
    PROPANE_TRY(propane_session_run(*s, NULL, err));
    PROPANE_TRY(file_is_dir(j->expect) ? cmd_diff_expect_folder(j, *s, err) : cmd_diff_expect_archive(j, *s, err));
    if (j->row_count) return cmd_diff_explain_broken(j, err);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: it records no output of %s", j->expect, j->a);
}

static int cmd_diff_compiled(const char *a, const char *b) {
    propane_error err = {0};
    propane_object *left = NULL, *right = NULL;
    char *printed = NULL;
    int words = 0;
    propane_status status = propane_object_open(a, &left, &err);
    if (!status) status = propane_object_open(b, &right, &err);
    if (!status) status = propane_object_compare(left, right, &words, &printed, &err);
    if (!status) printf("%s%d word%s\n", printed, words, words == 1 ? " differs" : "s differ");
    propane_free(printed);
    propane_object_free(left);
    propane_object_free(right);
    return status ? cli_error("diff", &err) : words ? CLI_FAILED : CLI_OK;
}

/* Refuses flags that would have no effect. Returns -1 if there are none, otherwise the exit code. */
static int cmd_diff_refuse(const diff_job *j, bool compiled) {
    if (j->expect && (j->b || j->html))
        return cli_misuse("diff", "--expect replaces B and cannot be combined with --html");
    if (compiled)
        return cli_refuse("diff",
                          "--input|--resize|--seed|--shape|--device-a|--device-b|--precision-a|--precision-b|"
                          "--function|--tolerance|--memory|--html|--ops|--json",
                          "compiled programs, whose fields are compared");
    const int code = j->expect ? cli_refuse("diff", "--device-b|--precision-b", "recorded outputs (--expect)") : -1;
    return code < 0 ? input_flags_check("diff", &j->input_list) : code;
}

int cmd_diff(int argc, char **argv) {
    static const char wide[] = "fp32";
    diff_job j = {.left = {.size = sizeof j.left, .device = "cpu", .precision = wide, .keep = true},
                  .right = {.size = sizeof j.right, .device = "cpu", .precision = "typed", .keep = true},
                  .seed = -1,
                  .tolerance = 0.01,
                  .memory = 128,
                  .found_a = {.size = sizeof j.found_a},
                  .found_b = {.size = sizeof j.found_b}};
    j.input_list.items = j.inputs;
    j.shape_list.items = j.shapes;
    const cli_flag flags[] = {
        {"A", CLI_TEXT, &j.a, .help = "a model in any format that 'propane run' accepts", .required = true},
        {"B", CLI_TEXT, &j.b, .help = "another model; default: A with the options for B"},
        {"--expect", CLI_TEXT, &j.expect, .words = "FILE.npz",
         .help = "recorded outputs by name instead of B, or a folder of NAME.npy; A then runs in its own types"},
        {"--input", CLI_TEXTS, &j.input_list, .max = DIFF_MAX_GIVEN, .words = "NAME=FILE",
         .help = "as for 'propane run'"},
        {"--resize", CLI_SWITCH, &j.resize, .help = "scale images to the input's size"},
        {"--seed", CLI_INT, &j.seed, 0, 1e15, "N", "fill inputs without --input with random values of this seed",
         .standard = ""},
        {"--shape", CLI_TEXTS, &j.shape_list, .max = DIFF_MAX_GIVEN, .words = "NAME=1,3,224,224",
         .help = "shape of an input of flexible size; default: that of its --input, else the file's"},
        {"--device-a", CLI_TEXT, &j.left.device, .words = "DEVICE", .help = "device for A"},
        {"--device-b", CLI_TEXT, &j.right.device, .words = "DEVICE", .help = "device for B"},
        {"--precision-a", CLI_CHOICE, &j.left.precision, .words = "typed|fp16|fp32|bf16", .help = "types for A"},
        {"--precision-b", CLI_CHOICE, &j.right.precision, .words = "typed|fp16|fp32|bf16", .help = "types for B"},
        {"--function", CLI_TEXT, &j.left.function, .words = "NAME", .help = "function to use; default: the first"},
        {"--tolerance", CLI_REAL, &j.tolerance, 0, 1e9, "X",
         "largest difference that counts as equal, as a fraction of the largest number in the same array"},
        {"--memory", CLI_INT, &j.memory, 1, 1 << 20, "MB",
         "memory for the values to compare; if they need more, both models run once per part"},
        {"--html", CLI_TEXT, &j.html, .words = "FILE",
         .help = "also write A's graph, coloured by difference, as an HTML page", .writes = "page"},
        {"--ops", CLI_SWITCH, &j.all, .help = "print all values in program order"},
        {"--json", CLI_SWITCH, &j.json,
         .help = "print one JSON object: outputs (all values with --ops), first difference, non-finite values"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "diff A [B] [flags]",
                         "Runs two models, or one model on two devices or in two precisions, on the same inputs, and "
                         "names the first operation whose values differ. By default it compares fp32 with the types of "
                         "the program. For two compiled programs (.hwx, .anec), it prints the fields that differ.\n"
                         "Exit code: 0 no difference, 1 a difference or an error, 4 an output of either side has NaN "
                         "or infinity that does not come from the inputs; the first such operation is named.");
    const bool compiled = j.b && cli_file_is(j.a, "compiled") && cli_file_is(j.b, "compiled");
    if (code < 0) code = cmd_diff_refuse(&j, compiled);
    if (code >= 0) return code;
    if (j.expect && j.left.precision == wide) j.left.precision = "typed";
    if (compiled) return cmd_diff_compiled(j.a, j.b);
    propane_error err = {0};
    propane_session *recorded = NULL;
    j.right.function = j.left.function;
    propane_status status = j.expect ? cmd_diff_run_expected(&j, &recorded, &err) : diff_values_run(&j, &err);
    code = status ? cli_error("diff", &err) : j.json ? cmd_diff_print_json(&j, &err) : cmd_diff_report(&j);
    if (!status && j.html && cmd_diff_write_page(&j, &err)) code = cli_error("diff", &err);
    propane_session_close(recorded);
    diff_values_free(&j);
    return code;
}
