/* SPDX-License-Identifier: MIT
 * Owns what callers read from a report: its figures and its JSON. Also prints the reference page of all rules. The text
 * for people is in check_text.c, and the forms for other tools are in check_exchange.c.
 */
#include "ane/chip/check_report.h"

#include <stdio.h>
#include <string.h>

int chip_report_count(const chip_report *r) { return r->count; }
const chip_finding *chip_report_get(const chip_report *r, int index) { return &r->findings[index]; }
int chip_report_total(const chip_report *r, const chip *target, chip_severity severity) {
    return r->totals[target->id][severity];
}

int chip_finding_rank(const chip_finding *f) { return chip_rank_of(f->severity, f->harm); }

chip_path chip_report_path(const chip_report *r) { return r->path; }
int chip_report_os(const chip_report *r) { return r->os; }

chip_severity chip_report_worst_on(const chip_report *r, const chip *c) {
    const int *n = r->totals[c->id];
    chip_severity worst = CHIP_REFUSE;
    while (worst > CHIP_NOTE && !n[worst]) worst--;
    return worst;
}

chip_severity chip_report_worst(const chip_report *r) {
    chip_severity worst = CHIP_NOTE;
    for (int t = 0; t < r->target_count; t++) {
        const chip_severity here = chip_report_worst_on(r, r->targets[t]);
        if (here > worst) worst = here;
    }
    return worst;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------------- */

void chip_report_set_text(json_t *object, const char *key, const char *value) {
    if (value) json_put(object, key, json_words(value));
}

json_t *chip_report_chips_json(const chip_report *r, uint64_t bits) {
    json_t *list = json_array();
    for (int t = 0; t < r->target_count; t++)
        if (bits >> r->targets[t]->id & 1) json_add(list, json_string(r->targets[t]->name));
    return list;
}

static json_t *check_report_finding_json(const chip_report *r, const chip_finding *f) {
    json_t *o = json_object();
    chip_report_set_text(o, "rule", f->limit->id);
    chip_report_set_text(o, "severity", chip_severity_name(f->severity));
    json_put(o, "harm", json_boolean(f->harm));
    chip_report_set_text(o, "file", f->source);
    json_put(o, "line", json_integer(f->line));
    json_put(o, "column", json_integer(f->column));
    chip_report_set_text(o, "function", f->function);
    chip_report_set_text(o, "op", f->op);
    chip_report_set_text(o, "name", f->name);
    chip_report_set_text(o, "message", f->message);
    chip_report_set_text(o, "sentence", f->limit->sentence);
    chip_report_set_text(o, "evidence", chip_evidence_name(f->limit->evidence));
    chip_report_set_text(o, "source", f->limit->source);
    chip_report_set_text(o, "fix", f->limit->fix);
    json_put(o, "refused", chip_report_chips_json(r, f->refused));
    json_put(o, "crashes_elsewhere", chip_report_chips_json(r, f->crashed));
    json_put(o, "falls_back", chip_report_chips_json(r, f->fell));
    json_put(o, "warned", chip_report_chips_json(r, f->warned));
    json_put(o, "noted", chip_report_chips_json(r, f->noted));
    return o;
}

static json_t *check_report_segments_json(const chip_segments *s) {
    json_t *o = json_object();
    json_put(o, "engine", json_integer(s->engine));
    json_put(o, "cpu", json_integer(s->cpu));
    json_put(o, "switches", json_integer(s->switches));
    json_put(o, "operations_off_engine", json_integer(s->moved));
    json_put(o, "estimated_ms", json_real(s->ms));
    chip_report_set_text(o, "at", s->places);
    return o;
}

json_t *chip_report_json(const chip_report *r) {
    json_t *root = json_object(), *chips = json_array(), *findings = json_array();
    for (int t = 0; t < r->target_count; t++) {
        const chip *target = r->targets[t];
        const int *n = r->totals[target->id];
        const chip_severity worst = chip_report_worst_on(r, target);
        json_t *c = json_object();
        chip_report_set_text(c, "chip", target->name);
        chip_report_set_text(c, "verdict", worst >= CHIP_FALL ? chip_severity_name(worst) : "no known rule refuses it");
        json_put(c, "refusals", json_integer(n[CHIP_REFUSE]));
        json_put(c, "crashes", json_integer(n[CHIP_CRASH]));
        json_put(c, "fallbacks", json_integer(n[CHIP_FALL]));
        json_put(c, "warnings", json_integer(n[CHIP_WARN]));
        json_put(c, "warnings_of_harm", json_integer(r->harms[target->id]));
        json_put(c, "notes", json_integer(n[CHIP_NOTE]));
        if (r->path == CHIP_PATH_COREML) json_put(c, "segments", check_report_segments_json(&r->segments[target->id]));
        json_add(chips, c);
    }
    for (int i = 0; i < r->count; i++) json_add(findings, check_report_finding_json(r, &r->findings[i]));
    chip_report_set_text(root, "path", chip_path_name(r->path));
    json_put(root, "chips", chips); /* if `root` is NULL, this frees `chips` */
    json_put(root, "findings", findings);
    json_put(root, "not_shown", json_integer(r->suppressed));
    return root;
}

/* ---- the rules ---------------------------------------------------------------------------------------------------------- */

/* Prints the range of systems. A bound of N.99 includes every version of N. */
static void check_report_print_os(const chip_limit *l, text *out) {
    const int min = l->os_min, max = l->os_max, last = max / 100;
    const bool whole = max % 100 == 99;
    if (min && whole && min == 100 * last)
        text_printf(out, ", macOS %d", last);
    else if (min && min == max)
        text_printf(out, ", macOS %d.%d only", last, max % 100);
    else if (min && max)
        text_printf(out, whole ? ", macOS %d.%d to %d" : ", macOS %d.%d to %d.%d", min / 100, min % 100, last,
                    max % 100);
    else if (min)
        text_printf(out, ", macOS %d.%d and later", min / 100, min % 100);
    else if (whole)
        text_printf(out, ", before macOS %d", last == 15 ? 26 : last + 1);
    else if (max)
        text_printf(out, ", macOS up to %d.%d", last, max % 100);
}

static const char *check_report_effect(const chip_limit *l, chip_path path) {
    static const char *const words[] = {"silent", "note", "warns", "falls back", "crashes elsewhere", "refused"};
    return l->on[path] == CHIP_WARN && l->harm[path] ? "warns of harm" : words[l->on[path] + 1];
}

static void check_report_print_limit(const chip_limit *l, text *out) {
    text_printf(out, "### %s\n\n%s\n\n", l->id, l->sentence);
    if (l->site != CHIP_SITE_FACT) {
        text_printf(out, "- direct: %s; Core ML: %s; seen: %s\n- on: %s", check_report_effect(l, CHIP_PATH_DIRECT),
                    check_report_effect(l, CHIP_PATH_COREML), l->seen, l->chips);
        if (*l->also) text_printf(out, "; warns on: %s", l->also);
        check_report_print_os(l, out);
        text_append(out, "\n");
    }
    text_printf(out, "- %s: %s\n- fix: %s\n\n", chip_evidence_name(l->evidence), l->source, l->fix);
}

static void check_report_print_chip_table(text *out) {
    text_append(out, "## Chips\n\nFigures in brackets are inferred, those with a question mark disputed; "
                     "`src/ane/chip/chips.def` gives the source of "
                     "each.\n\n| chip | name | design |");
    static const chip_field shown[] = {CHIP_fp16_tflops, CHIP_int8_tops, CHIP_dispatch_ms, CHIP_dram_gbs,
                                       CHIP_max_width};
    enum { SHOWN = sizeof shown / sizeof shown[0] };
    for (int i = 0; i < SHOWN; i++)
        text_printf(out, " %s%s%s |", chip_field_name(shown[i]), *chip_field_unit(shown[i]) ? ", " : "",
                    chip_field_unit(shown[i]));
    text_append(out, "\n|---|---|---|---:|---:|---:|---:|---:|\n");
    for (int c = 0; c < CHIP_COUNT; c++) {
        const chip *x = chip_get((chip_id)c);
        text_printf(out, "| %s | %s | %s |", x->name, x->arch, chip_generation_name(x->generation));
        for (int i = 0; i < SHOWN; i++) {
            const chip_figure *f = chip_know(x, shown[i]);
            bool inferred = f->evidence == CHIP_INFERRED, disputed = f->evidence == CHIP_DISPUTED;
            if (!f->source)
                text_append(out, "  |");
            else
                text_printf(out, " %s%g%s |", inferred ? "(" : "", f->value, inferred ? ")" : disputed ? "?" : "");
        }
        text_append(out, "\n");
    }
}

void chip_limits_markdown(text *out) {
    static const char *const scopes[] = {"program", "blob", "request", "process", "fact"};
    static const char *const titles[] = {"Programs", "Weight files", "Requests", "Processes",
                                         "Facts that no rule checks"};
    text_append(
        out, "# What a Neural Engine refuses\n\nGenerated from `src/ane/chip/limits.def` by `propane check --rules "
             "--markdown`. Propane has run none of this on an\nengine; each rule names its source. *measured*: the "
             "source ran it; *documented*: official, or read from\nthe system; *reported*: claimed without visible "
             "evidence; *inferred*: follows from other facts;\n*disputed*: sources contradict each other, and both "
             "are given. A rule refuses only what was measured or is\ndocumented, on the chips where it was "
             "observed or that the source names; elsewhere it warns. `propane check\nFILE` applies the rules. A "
             "program that no rule refuses may still fail.\n\nEach rule names the path on which it was *seen*: "
             "direct (MIL text passed to the engine's compiler), e5rt (the\nsystem's runtime below Core ML), coreml, "
             "coreai, or any (the engine itself, a file format). Its effect\ndiffers by path. *falls back*: Core ML "
             "runs the operation on the CPU or GPU, and the rest stays on the engine. "
             "*crashes\nelsewhere*: the CPU or GPU part of Core ML has crashed the process. *warns of harm*: wrong "
             "results, a crash or\na load that fails were seen in such programs; reports print it before what falls "
             "back.\n\n"
             "Versions are macOS's. From 26 on, iOS has the same numbers; macOS 12, 13, 14 and 15 correspond to iOS "
             "15, 16, 17 and\n18.\n\n"
             "Generations: h12 A13; h13 "
             "A14, M1; h14 A15, M2; h15 A16, M3; h16 A17 Pro, M4; h17 A18, M5; h18 A19, M6; h19 A20.\n\n");
    check_report_print_chip_table(out);
    for (int s = 0; s < 5; s++) {
        text_printf(out, "\n## %s\n\n", titles[s]);
        for (int i = 0; i < chip_limit_count(); i++)
            if (strcmp(chip_limit_scope(chip_limit_get(i)), scopes[s]) == 0)
                check_report_print_limit(chip_limit_get(i), out);
    }
}

json_t *chip_limits_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        json_t *o = json_object();
        chip_report_set_text(o, "rule", l->id);
        chip_report_set_text(o, "scope", chip_limit_scope(l));
        for (int p = 0; p < CHIP_PATH_COUNT; p++)
            chip_report_set_text(o, chip_path_name((chip_path)p),
                                 l->on[p] == CHIP_SILENT ? "silent" : chip_severity_name(l->on[p]));
        json_put(o, "warns_of_harm", json_boolean(l->harm[CHIP_PATH_COREML]));
        chip_report_set_text(o, "seen", l->seen);
        chip_report_set_text(o, "chips", l->chips);
        chip_report_set_text(o, "warns_also", l->also);
        json_put(o, "os_min", json_integer(l->os_min));
        json_put(o, "os_max", json_integer(l->os_max));
        json_put(o, "value", json_real(l->value));
        chip_report_set_text(o, "evidence", chip_evidence_name(l->evidence));
        chip_report_set_text(o, "sentence", l->sentence);
        chip_report_set_text(o, "source", l->source);
        chip_report_set_text(o, "fix", l->fix);
        json_add(list, o);
    }
    return list;
}
