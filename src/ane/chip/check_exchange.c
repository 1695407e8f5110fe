/* SPDX-License-Identifier: MIT
 * Owns the forms of a report for other tools: SARIF 2.1.0, which code scanning services accept, and GitHub's workflow
 * commands, which become annotations. Both have fewer severities than Propane, so a fallback becomes a warning.
 */
#include <string.h>

#include "ane/chip/check_report.h"
#include "core/base/memory.h"
#include "propane.h"

/* ---- SARIF -------------------------------------------------------------------------------------------------------------- */

static const char *check_exchange_level(chip_severity s) {
    return s >= CHIP_CRASH ? "error" : s == CHIP_NOTE ? "note" : "warning";
}

/* Writes a path as a relative or absolute URI reference. Characters that RFC 3986 does not allow are
 * percent-encoded. */
static void check_exchange_put_uri(text *out, const char *path) {
    static const char plain[] = "-._~/!$&'()*+,;=@";
    const char *at = path;
    if (*path == '/') text_append(out, "file://");
    while (at[0] == '.' && at[1] == '/') at += 2;
    for (; *at; at++) {
        const unsigned char c = (unsigned char)*at;
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || strchr(plain, c))
            text_append_n(out, at, 1);
        else
            text_printf(out, "%%%02X", c);
    }
}

/* Makes a JSON string with control characters escaped, because people read names and messages. */
static json_t *check_exchange_string(const char *s) {
    char shown[2000];
    const size_t length = text_harmless(shown, sizeof shown, s, strlen(s), "");
    return json_bytes(shown, length);
}

static json_t *check_exchange_message(const char *s) {
    json_t *o = json_object();
    json_put(o, "text", check_exchange_string(s));
    return o;
}

static json_t *check_exchange_rule(const chip_limit *l) {
    json_t *o = json_object(), *properties = json_object();
    chip_report_set_text(o, "id", l->id);
    json_put(o, "shortDescription", check_exchange_message(l->sentence));
    json_put(o, "help", check_exchange_message(l->fix));
    chip_report_set_text(properties, "evidence", chip_evidence_name(l->evidence));
    chip_report_set_text(properties, "source", l->source);
    json_put(o, "properties", properties);
    return o;
}

static json_t *check_exchange_location(const chip_finding *f) {
    json_t *o = json_object(), *physical = json_object(), *artifact = json_object();
    text uri = {0}, full = {0};
    check_exchange_put_uri(&uri, f->source);
    json_put(artifact, "uri", json_string(uri.data ? uri.data : ""));
    json_put(physical, "artifactLocation", artifact);
    if (f->line) {
        json_t *region = json_object();
        json_put(region, "startLine", json_integer(f->line));
        if (f->column > 0) json_put(region, "startColumn", json_integer(f->column));
        json_put(physical, "region", region);
    }
    json_put(o, "physicalLocation", physical);
    if (f->function) {
        json_t *list = json_array(), *logical = json_object();
        text_printf(&full, "%s%s%s", f->function, f->name ? "/" : "", f->name ? f->name : "");
        json_put(logical, "fullyQualifiedName", check_exchange_string(full.data ? full.data : ""));
        json_put(logical, "name", check_exchange_string(f->name ? f->name : f->function));
        json_put(logical, "kind", json_string(f->name ? "variable" : "function"));
        json_add(list, logical);
        json_put(o, "logicalLocations", list);
    }
    text_deinit(&uri);
    text_deinit(&full);
    return o;
}

/* Writes "relu 'y' in 'main': what is wrong". */
static void check_exchange_put_message(const chip_finding *f, text *out) {
    if (f->op) text_printf(out, "%s '%s' in '%s': ", f->op, f->name ? f->name : "", f->function ? f->function : "");
    if (!f->op && f->function) text_printf(out, "function '%s': ", f->function);
    text_append(out, f->message);
}

static json_t *check_exchange_result(const chip_report *r, const chip_finding *f, int rule) {
    json_t *o = json_object(), *locations = json_array(), *properties = json_object();
    text message = {0};
    check_exchange_put_message(f, &message);
    chip_report_set_text(o, "ruleId", f->limit->id);
    json_put(o, "ruleIndex", json_integer(rule));
    chip_report_set_text(o, "level", check_exchange_level(f->severity));
    json_put(o, "message", check_exchange_message(message.data ? message.data : ""));
    json_add(locations, check_exchange_location(f));
    json_put(o, "locations", locations);
    chip_report_set_text(properties, "severity", chip_severity_name(f->severity));
    json_put(properties, "refused", chip_report_chips_json(r, f->refused));
    json_put(properties, "crashes_elsewhere", chip_report_chips_json(r, f->crashed));
    json_put(properties, "falls_back", chip_report_chips_json(r, f->fell));
    json_put(properties, "warned", chip_report_chips_json(r, f->warned));
    json_put(properties, "noted", chip_report_chips_json(r, f->noted));
    json_put(o, "properties", properties);
    text_deinit(&message);
    return o;
}

/* Lists the violated rules in the order of the findings. Each finding refers to its rule by the rule's position in that
 * list. */
static json_t *check_exchange_results(const chip_report *r, json_t *rules) {
    json_t *results = json_array();
    int *places = mem_array((size_t)chip_limit_count(), sizeof *places); /* in `rules`, from 1; 0 if not listed yet */
    for (int i = 0; places && i < r->count; i++) {
        const chip_finding *f = &r->findings[i];
        int *place = &places[f->limit - chip_limit_get(0)];
        if (!*place) {
            json_add(rules, check_exchange_rule(f->limit));
            *place = (int)json_array_size(rules);
        }
        json_add(results, check_exchange_result(r, f, *place - 1));
    }
    mem_free(places);
    return results;
}

json_t *chip_report_sarif(const chip_report *r) {
    json_t *root = json_object(), *runs = json_array(), *run = json_object(), *tool = json_object();
    json_t *driver = json_object(), *rules = json_array();
    json_put(root, "$schema", json_string("https://json.schemastore.org/sarif-2.1.0.json"));
    json_put(root, "version", json_string("2.1.0"));
    json_t *results = check_exchange_results(r, rules);
    json_put(driver, "name", json_string("propane check"));
    json_put(driver, "semanticVersion", json_string(PROPANE_VERSION));
    json_put(driver, "rules", rules);
    json_put(tool, "driver", driver);
    json_put(run, "tool", tool);
    json_put(run, "columnKind", json_string("unicodeCodePoints"));
    json_put(run, "results", results);
    json_add(runs, run);
    json_put(root, "runs", runs);
    return root;
}

/* ---- GitHub ------------------------------------------------------------------------------------------------------------- */

/* Escapes a string. A comma or a colon would end a property, and GitHub would interpret a line end or a percent sign
 * anywhere. */
static void check_exchange_put_escaped(text *out, const char *s, bool property) {
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '%' || c < 32 || c == 127 || (property && (c == ',' || c == ':')))
            text_printf(out, "%%%02X", c);
        else
            text_append_n(out, s, 1);
    }
}

static void check_exchange_put_command(const chip_finding *f, text *out) {
    text message = {0};
    const char *command = f->severity >= CHIP_CRASH ? "error" : f->severity == CHIP_NOTE ? "notice" : "warning";
    text_printf(out, "::%s file=", command);
    check_exchange_put_escaped(out, f->source, true);
    if (f->line) text_printf(out, ",line=%d", f->line);
    if (f->line && f->column > 0) text_printf(out, ",col=%d", f->column);
    text_printf(out, ",title=%s %s::", f->limit->id, chip_severity_name(f->severity));
    check_exchange_put_message(f, &message);
    check_exchange_put_escaped(out, message.data ? message.data : "", false);
    text_append(out, ". ");
    check_exchange_put_escaped(out, f->limit->sentence, false);
    text_append(out, " Fix: ");
    check_exchange_put_escaped(out, f->limit->fix, false);
    text_append(out, "\n");
    out->failed |= message.failed;
    text_deinit(&message);
}

void chip_report_github(const chip_report *r, text *out) {
    for (int rank = CHIP_RANKS - 1; rank >= 0; rank--)
        for (int i = 0; i < r->count; i++)
            if (chip_finding_rank(&r->findings[i]) == rank) check_exchange_put_command(&r->findings[i], out);
    for (int t = 0; t < r->target_count; t++) {
        text_printf(out, "%s: ", r->targets[t]->name);
        chip_report_put_verdict(r, r->targets[t], out);
        text_append(out, "\n");
    }
}
