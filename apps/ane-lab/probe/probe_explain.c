/* SPDX-License-Identifier: MIT
 * Reads and explains a probe's report. Findings depend only on the answers in the report, so the report of an
 * unfinished probe can be explained, too. Files that are not a report are refused.
 */
#include "apps/ane-lab/probe/probe_explain.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ane/driver/failure.h"
#include "apps/ane-lab/probe/probe_json.h"
#include "apps/propane/cli.h"
#include "core/base/text.h"
#include "core/base/words.h"

enum { MOST_REPORT = 64 << 20, DEEPEST = 40, CODE_NO_PLACE = 54, CODE_FILES = 10, CODE_SURFACES = 42 };

/* ---- looking -------------------------------------------------------------------------------------------------------------------- */

static const json_t *explain_form(const json_t *answers, const char *id, const char *form) {
    return json_object_get(json_object_get(answers, id), form);
}

static const char *explain_words(const json_t *answers, const char *id, const char *key) {
    const char *words = json_string_value(explain_form(answers, id, key));
    return words ? words : "";
}

static bool explain_holds(const json_t *answers, const char *id, const char *form) {
    return json_is_true(json_object_get(explain_form(answers, id, form), "holds"));
}

static bool explain_digits_follow(const char *at, long number) {
    char *end;
    return strtol(at, &end, 10) == number && end != at && !isdigit((unsigned char)*end);
}

/* Returns whether there is an error with this code, as a field or in words, anywhere below `v`. */
static bool explain_has_code(const json_t *v, long code, int depth) {
    const char *key;
    json_t *inner;
    size_t i;
    if (depth > DEEPEST) return false;
    if (json_is_string(v)) {
        for (const char *at = json_string_value(v); (at = strstr(at, "code ")); at += 5)
            if (explain_digits_follow(at + 5, code)) return true;
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, inner) {
        if (strcmp(key, "code") == 0 && json_is_number(inner) && json_number_value(inner) == (double)code) return true;
        if (explain_has_code(inner, code, depth + 1)) return true;
    }
    json_array_foreach(v, i, inner) if (explain_has_code(inner, code, depth + 1)) return true;
    return false;
}

/* Returns whether the form was tried and does not hold. A program for which the engine had no free slot shows
 * nothing. */
static bool explain_fails(const json_t *answers, const char *id, const char *form) {
    const json_t *tried = explain_form(answers, id, form);
    return json_is_false(json_object_get(tried, "holds")) && !explain_has_code(tried, CODE_NO_PLACE, 0);
}

/* Returns whether not even the simplest program compiles on the route that the other questions use. The other answers
 * then follow from that. */
static bool explain_nothing_compiles(const json_t *answers) {
    return explain_fails(answers, "folder", "where it is told") &&
           explain_fails(answers, "weight-files", "1 file, 1 record");
}

/* Returns whether the question's process ended without an answer. */
static bool explain_ended(const json_t *answers, const char *id) {
    const char *ended = explain_words(answers, id, "ended");
    return strcmp(ended, "crashed") == 0 || strcmp(ended, "time limit") == 0;
}

static const char *explain_exception(const json_t *answers, const char *id) {
    const char *reason = json_string_value(json_object_get(explain_form(answers, id, "exception"), "reason"));
    return reason ? reason : "";
}

/* ---- findings: what failed, and what to do ----------------------------------------------------------------------------------- */

typedef bool (*finding)(const json_t *answers, text *out);

static bool explain_is_unusable(const json_t *answers) {
    return json_is_false(json_object_get(json_object_get(answers, "machine"), "usable"));
}

static bool finding_unusable(const json_t *answers, text *out) {
    const char *why = explain_words(answers, "machine", "why");
    if (!explain_is_unusable(answers)) return false;
    if (strncmp(why, "ane: ", 5) == 0) why += 5;
    if (!strstr(why, "is missing") && !strstr(why, "has the type"))
        text_printf(out, "The engine cannot be used: %.300s.", why);
    else
        text_printf(out,
                    "This system's framework lacks methods that the driver calls, or has them with other types. They "
                    "are listed under \"missing\" in the question \"machine\". The engine cannot be used until the "
                    "driver is updated: please send the report.");
    return true;
}

static bool explain_folder_decides(const json_t *answers) {
    return explain_holds(answers, "folder-unset", "where it is told") ||
           explain_has_code(json_object_get(answers, "folder"), CODE_FILES, 0);
}

/* Reports that no program runs, unless another finding names the reason. */
static bool finding_nothing_runs(const json_t *answers, text *out) {
    static const char form[] = "1 file, 1 record";
    static const char *const phases[] = {"compile", "load", "evaluate"};
    if (!explain_fails(answers, "weight-files", form) || !explain_fails(answers, "weight-files-client", form) ||
        explain_folder_decides(answers))
        return false;
    text_printf(out, "No program runs on this engine, not even the smallest");
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        const json_t *phase = json_object_get(explain_form(answers, "weight-files", form), phases[i]);
        const json_t *error = json_object_get(phase, "error");
        const char *words = json_string_value(json_object_get(error, "description"));
        if (!error) continue;
        text_printf(out, ": it fails at %s with code %lld%s%.200s", phases[i],
                    (long long)json_number_value(json_object_get(error, "code")), words ? ", " : "",
                    words ? words : "");
        break;
    }
    text_printf(out, ". Please send the report.");
    return true;
}

static bool finding_weight_files(const json_t *answers, text *out) {
    const bool one = explain_holds(answers, "weight-files", "1 file, 1 record");
    if (one && explain_fails(answers, "weight-files", "2 files")) {
        text_printf(out,
                    "A program with several weight files is refused%s, as reported for macOS 27. The driver passes a "
                    "single file; programs from other tools must do the same.",
                    explain_has_code(json_object_get(answers, "weight-files"), CODE_FILES, 0) ? " (code 10)" : "");
        return true;
    }
    return false;
}

static bool finding_records(const json_t *answers, text *out) {
    const bool one = explain_holds(answers, "weight-files", "1 file, 1 record");
    if (!one || !explain_fails(answers, "weight-files", "1 file, 4 records")) return false;
    text_printf(out, "Only the first record of a weight file is read correctly. Programs with several constants give "
                     "wrong numbers or are refused: train with --weights inputs.");
    return true;
}

static bool finding_folder(const json_t *answers, text *out) {
    static const char form[] = "where it is told";
    if (explain_holds(answers, "folder", form) && explain_fails(answers, "folder-below", form))
        text_printf(out, "No program compiles if TMPDIR is not the user's own: unset TMPDIR before you run commands "
                         "that use the engine.");
    else if (explain_fails(answers, "folder", form) && explain_holds(answers, "folder-unset", form))
        text_printf(out,
                    "TMPDIR (%.300s) prevents programs from compiling: unset it, or set it to what 'getconf "
                    "DARWIN_USER_TEMP_DIR' prints (F5). Then probe again.",
                    explain_words(answers, "folder", "TMPDIR"));
    else if (explain_fails(answers, "folder", form) &&
             explain_has_code(json_object_get(answers, "folder"), CODE_FILES, 0))
        text_printf(out, "A program's files are not found in the folder that the framework names (code 10). The "
                         "question \"folder\" lists the folders.");
    else
        return false;
    return true;
}

/* Returns whether the wrapper class is the reason why a process ended: the question about the inner model got an
 * answer. */
static bool explain_wrapper_ends(const json_t *answers) {
    return explain_ended(answers, "attributes-wrapper") && !explain_ended(answers, "attributes-inner");
}

static bool finding_wrapper(const json_t *answers, text *out) {
    const char *why = explain_exception(answers, "attributes-wrapper");
    if (!explain_wrapper_ends(answers)) return false;
    text_printf(out,
                "Reading a program's attributes through the class of the memory route ends the process%s%.200s. The "
                "driver reads them from the inner model.",
                *why ? ": " : "", why);
    return true;
}

static bool finding_place(const json_t *answers, text *out) {
    const char *place = explain_words(answers, "folder", "place");
    if (!*place || strcmp(place, "the usual one") == 0) return false;
    text_printf(out, "The folder of a program's files is %s by localModelPath; the driver %s.", place,
                strcmp(place, "not reported") == 0 ? "uses NSTemporaryDirectory and the program's name"
                                                   : "fills both that folder and the usual one");
    return true;
}

static bool explain_ways_end(const json_t *answers) {
    return explain_ended(answers, "ways") && !explain_ended(answers, "sizes");
}

static bool finding_ways(const json_t *answers, text *out) {
    if (!explain_ways_end(answers)) return false;
    text_printf(out,
                "Trying evaluation methods other than the standard one ends or blocks the process (%.200s). The driver "
                "uses standard evaluation.",
                explain_words(answers, "ways", "answer"));
    return true;
}

static bool finding_no_place(const json_t *answers, text *out) {
    if (!explain_has_code(answers, CODE_NO_PLACE, 0)) return false;
    text_printf(out, "All of the machine's slots for loaded programs were in use (code 54): end other programs that "
                     "use the engine, and probe again.");
    return true;
}

static bool finding_types(const json_t *answers, text *out) {
    const bool fp32 = strstr(explain_words(answers, "fp32", "answer"), "refused") != NULL;
    const char *form = explain_words(answers, "dialect", "short");
    const bool dialect = *form && strcmp(form, "taken") != 0;
    if ((!fp32 && !dialect) || explain_nothing_compiles(answers)) return false;
    if (fp32)
        text_printf(out,
                    "fp32 inputs are refused, as reported for the M1 and M2 (C18a): train with --precision fp16, and "
                    "with --stream fp16 for plan layer.");
    if (dialect)
        text_printf(out, "%sThe short form of the text is refused%s.", fp32 ? " " : "",
                    strcmp(explain_words(answers, "dialect", "canonical"), "taken") == 0
                        ? "; dialect=canonical is used"
                        : ", and so is the long form: no program compiles");
    return true;
}

static bool finding_reload(const json_t *answers, text *out) {
    const char *reload = explain_words(answers, "weights", "reload");
    if (!*reload || strcmp(reload, "works") == 0 || explain_nothing_compiles(answers)) return false;
    if (explain_has_code(explain_form(answers, "weights", "reload"), CODE_NO_PLACE, 0)) return false;
    text_printf(out,
                "A compiled program cannot be reloaded with other weights (%.200s): train with --weights inputs, "
                "packed or baked, whichever works.",
                reload);
    return true;
}

static bool finding_operations(const json_t *answers, text *out) {
    /* Operations that a known rule refuses are left out: attention as one operation, gelu without its mode, int8 by
     * affine. */
    static const char *const ids[] = {"kernels", "operations", "gather", "softmax"};
    const size_t before = out->length;
    if (explain_nothing_compiles(answers)) return false;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const char *words = explain_words(answers, ids[i], "answer");
        if (!strstr(words, "refuse")) continue;
        text_printf(out, "%s%s (%.160s)", out->length == before ? "Operations are refused: " : "; ", ids[i], words);
    }
    if (out->length == before) return false;
    text_printf(out, ". 'propane run MODEL --device ane --bisect' names the refused operation in your own program.");
    return true;
}

static bool explain_identity_helps(const json_t *answers) {
    return strcmp(explain_words(answers, "read-output", "as it is"), "wrong") == 0 &&
           strcmp(explain_words(answers, "read-output", "behind identity"), "right") == 0;
}

static bool finding_read_output(const json_t *answers, text *out) {
    if (strcmp(explain_words(answers, "read-output", "as it is"), "wrong") != 0) return false;
    text_printf(out, "An output that the program also reads is wrong (C59). Training kernels have such outputs%s.",
                explain_identity_helps(answers) ? "; outputs=identity corrects it" : ", also behind identity(x)");
    return true;
}

static bool finding_background(const json_t *answers, text *out) {
    static const char form[] = "a program of a background process";
    if (!explain_fails(answers, "background", form) || !explain_holds(answers, "weight-files", "1 file, 1 record"))
        return false;
    text_printf(out, "A process in the background may not use the engine: start training from a terminal.");
    return true;
}

static bool finding_crashes(const json_t *answers, text *out) {
    const char *id;
    json_t *answer;
    const size_t before = out->length;
    json_object_foreach((json_t *)(uintptr_t)answers, id, answer) {
        const bool said = (strcmp(id, "ways") == 0 && explain_ways_end(answers)) ||
                          (strcmp(id, "attributes-wrapper") == 0 && explain_wrapper_ends(answers));
        if (said || !explain_ended(answers, id)) continue;
        text_printf(out, "%s%s: %.160s", out->length == before ? "Questions ended without an answer: " : "; ", id,
                    explain_words(answers, id, "answer"));
    }
    return out->length > before;
}

/* Adds the errors, stored as fields, for which the driver has no advice. */
static void explain_add_unknown(const json_t *v, int depth, text *out) {
    const char *key;
    json_t *inner;
    size_t i;
    const char *domain = json_string_value(json_object_get(v, "domain"));
    const json_t *code = json_object_get(v, "code"), *status = json_object_get(v, "status");
    if (depth > DEEPEST) return;
    if (domain && json_is_number(code)) {
        char line[200];
        ane_failure f = {.code = (int64_t)json_number_value(code), .has_status = json_is_number(status)};
        f.status = f.has_status ? (int64_t)json_number_value(status) : 0;
        snprintf(f.domain, sizeof f.domain, "%s", domain);
        snprintf(line, sizeof line, "%s, code %lld", f.domain, (long long)f.code);
        if (!*ane_failure_hint(&f) && !(out->data && strstr(out->data, line)))
            text_printf(out, "%s%s", out->length ? "; " : "Errors that the driver has no advice for: ", line);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, inner) explain_add_unknown(inner, depth + 1, out);
    json_array_foreach(v, i, inner) explain_add_unknown(inner, depth + 1, out);
}

/* Leaves out questions that provoke errors on purpose. */
static bool finding_unknown(const json_t *answers, text *out) {
    static const char meant[] = "reload|requests|request-statistics|types|after-refusal";
    const char *id;
    json_t *answer;
    json_object_foreach((json_t *)(uintptr_t)answers, id, answer) if (!words_have(meant, '|', id))
        explain_add_unknown(answer, 0, out);
    if (!out->length) return false;
    text_printf(out, ". The report contains their texts; please send it.");
    return true;
}

static const finding findings[] = {finding_unusable,    finding_no_place,   finding_nothing_runs, finding_weight_files,
                                   finding_records,     finding_folder,     finding_wrapper,      finding_place,
                                   finding_ways,        finding_types,      finding_reload,       finding_operations,
                                   finding_read_output, finding_background, finding_crashes,      finding_unknown};

/* ---- what holds ------------------------------------------------------------------------------------------------------------------ */

typedef struct route_facts {
    const char *name, *files, *key;
} route_facts;
static const route_facts routes[] = {{"memory", "weight-files", "memory"}, {"client", "weight-files-client", "client"}};

static bool explain_route_holds(const json_t *answers, const route_facts *r) {
    return explain_holds(answers, r->files, "1 file, 1 record");
}

static const route_facts *explain_route(const json_t *answers) {
    for (int i = 0; i < 2; i++)
        if (explain_route_holds(answers, &routes[i])) return &routes[i];
    return &routes[0];
}

/* Adds the option `first` if the answer contains `words`, and `second` for any other answer or a process that ended
 * without one. Adds nothing if the question was not asked, or if nothing compiles. */
static void explain_add_option(const json_t *answers, const char *id, const char *side, const char *words,
                               const char *first, const char *second, text *out) {
    const char *answer = explain_words(answers, id, side);
    if ((!*answer && !explain_ended(answers, id)) || explain_nothing_compiles(answers)) return;
    text_printf(out, "%s%s", out->length ? "&" : "", strstr(answer, words) ? first : second);
}

json_t *explain_profile(const json_t *answers) {
    const route_facts *r = explain_route(answers);
    const char *dialect = explain_words(answers, "dialect", "short");
    text options = {0};
    json_t *profile = json_object();
    explain_add_option(answers, "ways", r->key, "direct evaluation is used", "dispatch=direct", "dispatch=standard",
                       &options);
    explain_add_option(answers, "sizes", r->key, "accepted", "sizes=any", "sizes=equal", &options);
    explain_add_option(answers, "keeping", r->key, "descriptor not needed", "descriptor=drop", "descriptor=keep",
                       &options);
    explain_add_option(answers, "keeping", r->key, "folder not needed", "folder=drop", "folder=keep", &options);
    explain_add_option(answers, "procedures", r->key, "procedures of 1 compiled", "procedures=on", "procedures=off",
                       &options);
    if (*dialect && strcmp(dialect, "taken") != 0 && !explain_nothing_compiles(answers))
        text_printf(&options, "%sdialect=canonical", options.length ? "&" : "");
    if (explain_identity_helps(answers)) text_printf(&options, "%soutputs=identity", options.length ? "&" : "");
    json_put(profile, "route", json_words(r->name));
    json_put(profile, "options", json_words(options.data ? options.data : ""));
    json_put(profile, "build", json_words(explain_words(answers, "machine", "build")));
    text_deinit(&options);
    return profile;
}

static void explain_print(const char *title, const char *words) {
    printf("  %-12s", title);
    cli_wrap(words, 14, 14, cli_width());
    printf("\n");
}

static void explain_print_facts(const json_t *answers) {
    static const struct {
        const char *title, *id;
    } rows[] = {
        {"engine", "machine"}, {"weights", "weights"},       {"files", "weight-files"}, {"folder", "folder"},
        {"ways", "ways"},      {"surfaces", "sizes"},        {"keeping", "keeping"},    {"functions", "procedures"},
        {"text", "dialect"},   {"dictionary", "dictionary"}, {"reload", "reload"},      {"requests", "requests"},
        {"types", "types"},    {"events", "events"},         {"limits", "limit-loaded"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *words = explain_words(answers, rows[i].id, "answer");
        if (*words) explain_print(rows[i].title, words);
    }
}

/* Prints the form of errors: not a failure, but a fact that users may quote from a report. */
static void explain_print_errors(const json_t *answers) {
    const json_t *form = explain_form(answers, "requests", "one with a surface that is too small");
    const json_t *error = json_object_get(json_object_get(form, "evaluate"), "error");
    if (!error) return;
    explain_print("errors",
                  json_integer_value(json_object_get(error, "code")) == CODE_SURFACES
                      ? "have the codes and texts of macOS 27. The driver reads the codes; no action is needed"
                      : "have the codes and texts of macOS 26 and before");
}

static void explain_print_routes(const json_t *answers) {
    char words[200] = "";
    for (int i = 0; i < 2; i++) {
        const size_t used = strlen(words);
        const bool asked = explain_form(answers, routes[i].files, "1 file, 1 record") != NULL;
        snprintf(words + used, sizeof words - used, "%s%s: %s", used ? "; " : "", routes[i].name,
                 !asked                                     ? "not asked"
                 : explain_route_holds(answers, &routes[i]) ? "works"
                                                            : "does not work");
    }
    explain_print("routes", words);
}

static int explain_print_findings(const json_t *answers) {
    int count = 0;
    for (size_t i = 0; i < sizeof findings / sizeof findings[0]; i++) {
        text words = {0};
        if (findings[i](answers, &words) && words.data) {
            if (!count++) printf("What to know:\n");
            printf("  %d. ", count);
            cli_wrap(words.data, 5, 5, cli_width());
            printf("\n");
        }
        text_deinit(&words);
    }
    if (!count) printf("No question failed.\n");
    return count;
}

/* Returns whether the engine is usable, and a program ran or none was tried. */
static bool explain_may_run(const json_t *answers) {
    bool asked = false, holds = false;
    for (int i = 0; i < 2; i++) {
        asked |= json_object_get(answers, routes[i].files) != NULL;
        holds |= explain_route_holds(answers, &routes[i]);
    }
    return !explain_is_unusable(answers) && (holds || !asked);
}

static void explain_print_defaults(const json_t *answers, const char *path) {
    if (!explain_may_run(answers)) {
        printf("\nNo program ran, so no options are recommended.\n");
        return;
    }
    json_t *profile = explain_profile(answers);
    const char *options = json_string_value(json_object_get(profile, "options"));
    printf("\nRecommended: --device 'ane:%s%s%s'\n", json_string_value(json_object_get(profile, "route")),
           options && *options ? "?" : "", options ? options : "");
    printf("Equivalent: --device 'ane?profile=%s', on the system that wrote the report.\n", path);
    json_decref(profile);
}

int explain_report(const char *path) {
    propane_error err = {0};
    json_t *report = NULL;
    if (json_read(path, MOST_REPORT, &report, &err) != PROPANE_OK) return cli_error("devices", &err);
    const json_t *answers = json_object_get(report, "answers");
    const char *form = json_string_value(json_object_get(report, "report"));
    if (!form || strcmp(form, PROBE_REPORT_FORM) != 0 || !json_is_object(answers)) {
        json_decref(report);
        (void)propane_fail(&err, PROPANE_ERR_INVALID, "%s: not a report of 'propane devices --probe'", path);
        return cli_error("devices", &err);
    }
    char head[600];
    const char *state = json_string_value(json_object_get(report, "state")),
               *version = json_string_value(json_object_get(report, "propane")),
               *system = json_string_value(json_object_get(report, "system"));
    snprintf(head, sizeof head, "Propane %.40s on %.120s; %zu questions%s%s", version ? version : "?",
             system ? system : "?", json_object_size(answers),
             state && strcmp(state, "complete") == 0 ? "" : ", and the probe did not finish",
             json_is_true(json_object_get(report, "stand_in")) ? "; from a stand-in, not from Apple's engine" : "");
    cli_wrap(head, 0, 0, cli_width());
    printf("\n\n");
    explain_print_findings(answers);
    printf("\nAnswers:\n");
    explain_print_routes(answers);
    explain_print_facts(answers);
    explain_print_errors(answers);
    explain_print_defaults(answers, path);
    json_decref(report);
    return CLI_OK;
}
