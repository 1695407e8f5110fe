/* SPDX-License-Identifier: MIT
 * Owns the public calls of the checker: a report's rows, its verdicts, and its text and JSON, which src/ane/chip
 * produces.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ane/chip/check.h"
#include "ane/chip/for_engine.h"
#include "ane/chip/placement_diff.h"
#include "core/base/memory.h"
#include "core/run/public.h"

struct propane_report {
    chip_report *r;
    const chip *targets[CHIP_COUNT];
    int target_count;
    propane_module *module; /* the module that the plan is compared with, if the report owns it */
    placement_diff plan;
    bool planned;
};

/* Returns the macOS version that belongs to a system. iOS was three versions ahead of macOS until both adopted the
 * year: iOS 17 came with macOS 14. */
static int api_check_macos_of(int major, bool ios) {
    enum { ONE_NUMBER = 26, AHEAD = 3 };
    return ios && major < ONE_NUMBER ? major - AHEAD : major;
}

/* Reads "26", "26.3", "15.7.4", "macos14" or "ios17.2" as 2600, 2603, 1507, 1400 or 1402. Returns the text after the
 * version, or NULL if there is no version. */
static const char *api_check_read_system(const char *given, int *out) {
    static const struct {
        const char *word;
        bool ios;
    } words[] = {{"macos", false}, {"ipados", true}, {"ios", true}};
    int major = 0, minor = 0, used = 0;
    bool ios = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncasecmp(given, words[i].word, strlen(words[i].word)) == 0) {
            ios = words[i].ios;
            given += strlen(words[i].word);
            break;
        }
    if (sscanf(given, "%d%n", &major, &used) != 1 || major < 1 || major > 99) return NULL;
    const char *rest = given + used;
    if (*rest == '.' && (sscanf(rest, ".%d%n", &minor, &used) != 1 || minor < 0 || minor > 99)) return NULL;
    if (*rest == '.') rest += used;
    while (*rest == '.' || (*rest >= '0' && *rest <= '9')) rest++;
    major = api_check_macos_of(major, ios);
    *out = major * 100 + minor;
    return major > 0 ? rest : NULL;
}

/* Reads a list of systems and sets *out to the oldest, because the program must run on all of them. */
static bool api_check_read_os(const char *given, int *out) {
    int os = 0;
    *out = 0;
    for (const char *at = given;; at++) {
        at = api_check_read_system(at, &os);
        if (!at || (*at && *at != ',')) return false;
        if (!*out || os < *out) *out = os;
        if (!*at) return true;
    }
}

static propane_status api_check_read(const propane_check_options *options, const chip *targets[CHIP_COUNT],
                                     chip_check_options *out, propane_error *err) {
    propane_check_options o = {0};
    propane_error why = {0};
    *out = (chip_check_options){.targets = targets};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_check_options", err));
    if (o.per_rule < 0) return propane_fail(err, PROPANE_ERR_INVALID, "per_rule is %d; 0 means 20", o.per_rule);
    if (chip_find_list(o.target ? o.target : "all", targets, &out->target_count, &why))
        return propane_fail(err, why.status, "target: %s", why.text);
    if (o.os && !api_check_read_os(o.os, &out->os))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "os must be a version such as 26, 15.7 or ios17, or a list of them, not '%.60s'", o.os);
    out->per_limit = o.per_rule;
    out->by_file = !o.path;
    if (o.path && strcmp(o.path, "coreml") == 0)
        out->path = CHIP_PATH_COREML;
    else if (o.path && strcmp(o.path, "direct") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "path must be direct or coreml, not '%.40s'", o.path);
    if (o.plan && out->target_count != 1)
        return propane_fail(err, PROPANE_ERR_INVALID, "plan is for one chip, but target names %d", out->target_count);
    if (o.plan && o.path && out->path != CHIP_PATH_COREML)
        return propane_fail(err, PROPANE_ERR_INVALID, "plan is for Core ML, but path is direct");
    return PROPANE_OK;
}

propane_status propane_check_options_test(const propane_check_options *options, propane_error *err) {
    const chip *targets[CHIP_COUNT];
    chip_check_options own;
    return api_check_read(options, targets, &own, err);
}

/* `path` applies if the options name no path. */
static propane_status api_check_create(const propane_check_options *options, chip_path path, propane_report **out,
                                       propane_error *err) {
    chip_check_options own;
    *out = NULL;
    propane_report *r = mem_alloc(sizeof *r);
    if (!r) return propane_fail_memory(err, sizeof *r);
    propane_status status = api_check_read(options, r->targets, &own, err);
    r->target_count = own.target_count;
    if (own.by_file) own.path = path;
    if (!status && !(r->r = chip_report_create(&own))) status = propane_fail_memory(err, 0);
    if (status)
        propane_report_free(r);
    else
        *out = r;
    return status;
}

static propane_status api_check_end(propane_report *r, propane_status status, propane_report **out) {
    if (status) {
        propane_report_free(r);
        *out = NULL;
    }
    return status;
}

/* Compares the rules with the plan that the options name, if any. `m` is the module, or NULL to read it from `path`. */
static propane_status api_check_compare(propane_report *r, const char *path, const propane_module *m,
                                        const propane_check_options *options, propane_error *err) {
    propane_check_options o = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_check_options", err));
    if (!o.plan) return PROPANE_OK;
    if (!m) PROPANE_TRY(propane_module_read(path, &r->module, err));
    PROPANE_TRY(placement_diff_make(m ? m : r->module, r->targets[0], chip_report_os(r->r), o.plan, &r->plan, err));
    r->planned = true;
    return PROPANE_OK;
}

propane_status propane_check_file(const char *path, const propane_check_options *options, propane_report **out,
                                  propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    API_ERROR(err);
    PROPANE_TRY(api_check_create(options, CHIP_PATH_DIRECT, out, err));
    propane_status status = chip_check_file((*out)->r, path, err);
    if (!status) status = api_check_compare(*out, path, NULL, options, err);
    return api_check_end(*out, status, out);
}

propane_status propane_check_module(const propane_module *module, const propane_check_options *options,
                                    propane_report **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, module, out);
    API_ERROR(err);
    PROPANE_TRY(api_check_create(options, module->coreml ? CHIP_PATH_COREML : CHIP_PATH_DIRECT, out, err));
    propane_status status = chip_check_module((*out)->r, module, err);
    if (!status) status = api_check_compare(*out, NULL, module, options, err);
    return api_check_end(*out, status, out);
}

void propane_report_free(propane_report *report) {
    if (!report) return;
    chip_report_free(report->r);
    placement_diff_deinit(&report->plan);
    propane_module_free(report->module);
    mem_free(report);
}

int propane_report_count(const propane_report *report) { return report ? chip_report_count(report->r) : 0; }

static propane_severity api_check_severity(chip_severity severity) {
    return severity == CHIP_REFUSE  ? PROPANE_REFUSED
           : severity == CHIP_CRASH ? PROPANE_CRASH
           : severity == CHIP_FALL  ? PROPANE_FALLBACK
           : severity == CHIP_WARN  ? PROPANE_WARNING
                                    : PROPANE_NOTE;
}

bool propane_report_get(const propane_report *report, int index, propane_finding *out) {
    if (!report || !out) return false;
    if (index < 0 || index >= chip_report_count(report->r)) return false;
    const chip_finding *f = chip_report_get(report->r, index);
    const propane_finding mine = {.rule = f->limit->id,
                                  .severity = api_check_severity(f->severity),
                                  .file = f->source,
                                  .line = f->line,
                                  .column = f->column,
                                  .function = f->function,
                                  .op = f->op,
                                  .name = f->name,
                                  .message = f->message,
                                  .sentence = f->limit->sentence,
                                  .evidence = chip_evidence_name(f->limit->evidence),
                                  .source = f->limit->source,
                                  .fix = f->limit->fix};
    return api_give(out, &mine, sizeof mine);
}

int propane_report_chips(const propane_report *report) { return report ? report->target_count : 0; }

bool propane_report_verdict(const propane_report *report, int index, propane_verdict *out) {
    if (!report || !out) return false;
    if (index < 0 || index >= report->target_count) return false;
    const chip *c = report->targets[index];
    const chip_segments *s = chip_report_segments(report->r, c);
    const propane_verdict mine = {.chip = c->name,
                                  .refusals = chip_report_total(report->r, c, CHIP_REFUSE),
                                  .warnings = chip_report_total(report->r, c, CHIP_WARN),
                                  .notes = chip_report_total(report->r, c, CHIP_NOTE),
                                  .crashes = chip_report_total(report->r, c, CHIP_CRASH),
                                  .fallbacks = chip_report_total(report->r, c, CHIP_FALL),
                                  .segments = s->engine + s->cpu,
                                  .switches = s->switches,
                                  .switch_ms = s->ms,
                                  .switches_at = s->places};
    return api_give(out, &mine, sizeof mine);
}

propane_severity propane_report_worst(const propane_report *report) {
    if (!report) return PROPANE_NOTE;
    return api_check_severity(chip_report_worst(report->r));
}

const char *propane_report_path(const propane_report *report) {
    return report ? chip_path_name(chip_report_path(report->r)) : NULL;
}

/* Prints `root` and releases it. */
static propane_status api_check_print_json(json_t *root, char **out, propane_error *err) {
    text t = {0};
    char *line = NULL;
    propane_status status = json_print(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER, &line, NULL, err);
    json_decref(root);
    if (line) text_printf(&t, "%s\n", line);
    mem_free(line);
    if (!status) status = api_give_text(&t, out, NULL, err);
    text_deinit(&t);
    return status;
}

propane_status propane_report_print(const propane_report *report, propane_form form, char **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, report, out);
    NEED_FORM(err, form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON | 1 << PROPANE_SARIF | 1 << PROPANE_GITHUB);
    text t = {0};
    if (form == PROPANE_JSON) {
        json_t *root = chip_report_json(report->r);
        if (report->planned) json_put(root, "plan", placement_diff_json(&report->plan));
        return api_check_print_json(root, out, err);
    }
    if (form == PROPANE_SARIF) return api_check_print_json(chip_report_sarif(report->r), out, err);
    if (form == PROPANE_TEXT) return propane_report_print_look(report, NULL, out, err);
    chip_report_github(report->r, &t);
    return api_give_text(&t, out, NULL, err);
}

propane_status propane_report_print_look(const propane_report *report, const propane_look *look, char **out,
                                         propane_error *err) {
    if (out) *out = NULL;
    NEED(err, report, out);
    propane_look o = {0};
    text t = {0};
    PROPANE_TRY(api_take(&o, sizeof o, look, "propane_look", err));
    if (o.width < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "width is %d; it must be at least 0 (0 means no limit)", o.width);
    chip_report_print(report->r, &(chip_print){o.styled, o.width}, &t);
    if (report->planned) placement_diff_print(&report->plan, &t);
    return api_give_text(&t, out, NULL, err);
}

propane_status propane_rules_print(propane_form form, char **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, out);
    NEED_FORM(err, form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON | 1 << PROPANE_MARKDOWN);
    text t = {0};
    if (form == PROPANE_JSON) return api_check_print_json(chip_limits_json(), out, err);
    if (form == PROPANE_MARKDOWN) chip_limits_markdown(&t);
    for (int i = 0; i < chip_limit_count() && form == PROPANE_TEXT; i++) {
        const chip_limit *l = chip_limit_get(i);
        text_printf(&t, "%-5s %-8s %-11s %s\n", l->id, chip_limit_scope(l), chip_evidence_name(l->evidence),
                    l->sentence);
    }
    return api_give_text(&t, out, NULL, err);
}

propane_status propane_chips(const char *target, const char **names, int room, int *count, propane_error *err) {
    NEED(err, target, count);
    NEED_LIST(err, names, room);
    const chip *chips[CHIP_COUNT];
    *count = 0;
    _Static_assert(CHIP_COUNT <= PROPANE_MAX_CHIPS, "the header has room for all chips");
    PROPANE_TRY(chip_find_list(target, chips, count, err));
    for (int i = 0; i < *count && i < room; i++) names[i] = chips[i]->name;
    return PROPANE_OK;
}

propane_status propane_module_for_engine(propane_module *module, int *count, char **report, propane_error *err) {
    if (report) *report = NULL;
    NEED(err, module);
    API_ERROR(err);
    text t = {0};
    int made = 0;
    text_append(&t, "");
    propane_status status = for_engine_rewrite(module, &made, &t, err);
    if (count) *count = made;
    if (status == PROPANE_OK && report) status = api_give_text(&t, report, NULL, err);
    text_deinit(&t);
    return status;
}
