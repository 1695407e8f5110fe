/* SPDX-License-Identifier: MIT
 * Owns the form of a report for people: a paragraph per rule with the places that violate it, a table of operations by
 * chip, and one line per group of chips with the same verdict. Prints "no known rule refuses it", and never that
 * something runs.
 */
#include <stdio.h>
#include <string.h>

#include "ane/chip/check_report.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { CELL_BYTES = 32, LEAST_WIDTH = 40, NAMES_SHOWN = 8 };

static const char *const styles[] = {
    [CHIP_NOTE] = "2", [CHIP_WARN] = "33", [CHIP_FALL] = "1;33", [CHIP_CRASH] = "1;31", [CHIP_REFUSE] = "1;31"};
static const char bold[] = "1", faint[] = "2", good[] = "32";

typedef struct printer {
    const chip_report *r;
    text *out;
    bool styled;
    int width; /* 0 means no limit */
} printer;

static void check_text_style(printer *p, const char *style) {
    if (p->styled) text_printf(p->out, "\033[%sm", style ? style : "0");
}

/* Appends a name or a message with control characters escaped, because both may contain arbitrary bytes from files. */
static void check_text_put(text *out, const char *s) {
    char shown[512];
    for (size_t left = strlen(s), n; left; s += n, left -= n) {
        n = left < 80 ? left : 80;
        text_append_n(out, shown, text_harmless(shown, sizeof shown, s, n, ""));
    }
}

/* Writes words starting at `column`, breaks lines at blanks and indents further lines by `indent` blanks. Resets the
 * style and ends the line. */
static void check_text_wrap(printer *p, const char *s, int column, int indent) {
    const int width = p->width ? p->width : 1 << 30;
    for (bool first = true; *s; first = false) {
        const int n = (int)strcspn(s, " ");
        if (!first && column + 1 + n > width) {
            text_printf(p->out, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            text_append(p->out, " ");
            column++;
        }
        text_append_n(p->out, s, (size_t)n);
        column += n;
        s += n + (s[n] == ' ');
    }
    check_text_style(p, NULL);
    text_append(p->out, "\n");
}

/* ---- findings ----------------------------------------------------------------------------------------------------------- */

static void check_text_list_chips(const chip_report *r, uint64_t bits, const char *title, text *out) {
    const char *separator = "";
    int count = 0;
    for (int t = 0; t < r->target_count; t++) count += (int)(bits >> r->targets[t]->id & 1);
    if (count == 0) return;
    text_printf(out, "%s%s ", out->length ? "; " : "", title);
    if (count == r->target_count && count > 1) {
        text_append(out, "all");
        return;
    }
    for (int t = 0; t < r->target_count; t++) {
        if (!(bits >> r->targets[t]->id & 1)) continue;
        text_printf(out, "%s%s", separator, r->targets[t]->name);
        separator = ", ";
    }
}

static bool check_text_equal(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Returns true if one sentence can report both findings, because they differ only in the value and the line. */
static bool check_text_same_place(const chip_finding *a, const chip_finding *b) {
    return a->limit == b->limit && check_text_equal(a->source, b->source) &&
           check_text_equal(a->function, b->function) && check_text_equal(a->op, b->op) &&
           check_text_equal(a->message, b->message);
}

static void check_text_put_place(const chip_finding *f, bool same_source, text *line) {
    if (!same_source) check_text_put(line, f->source);
    if (f->line) text_printf(line, "%s%d:%d", same_source ? ", " : ":", f->line, f->column);
}

/* Writes "file:4:9, 7:9: gather 'a', 'b' in 'main': what is wrong", and marks the printed places. */
static void check_text_put_places(const chip_report *r, int from, bool *printed, text *line) {
    const chip_finding *f = &r->findings[from];
    int names = 0, more = 0;
    text list = {0};
    for (int i = from; i < r->count; i++) {
        const chip_finding *other = &r->findings[i];
        if (printed[i] || !check_text_same_place(f, other)) continue;
        printed[i] = true;
        if (names >= NAMES_SHOWN) {
            more++;
            continue;
        }
        check_text_put_place(other, i != from, line);
        text_append(&list, names++ ? ", '" : " '");
        check_text_put(&list, other->name ? other->name : "");
        text_append(&list, "'");
    }
    if (more) text_printf(&list, " and %d more", more);
    text_append(line, ": ");
    if (f->op) text_printf(line, "%s%s in ", f->op, list.data ? list.data : "");
    if (f->function) {
        text_append(line, f->op ? "'" : "function '");
        check_text_put(line, f->function);
        text_append(line, "': ");
    }
    check_text_put(line, f->message);
    line->failed |= list.failed;
    text_deinit(&list);
}

static void check_text_print_evidence(printer *p, const chip_finding *f) {
    text line = {0};
    check_text_list_chips(p->r, f->refused, "refused on", &line);
    check_text_list_chips(p->r, f->crashed, "crashes elsewhere on", &line);
    check_text_list_chips(p->r, f->fell, "falls back on", &line);
    check_text_list_chips(p->r, f->warned, "warning on", &line);
    check_text_list_chips(p->r, f->noted, "note on", &line);
    text_append(p->out, "    ");
    check_text_wrap(p, line.data ? line.data : "", 4, 6);
    text_clear(&line);
    text_printf(&line, "%s: %s", chip_evidence_name(f->limit->evidence), f->limit->source);
    check_text_style(p, faint);
    text_append(p->out, "    ");
    check_text_wrap(p, line.data ? line.data : "", 4, 6);
    text_append(p->out, "    fix: ");
    check_text_wrap(p, f->limit->fix, 9, 6);
    p->out->failed |= line.failed;
    text_deinit(&line);
}

/* Prints the rule of a finding once, with all its places. */
static void check_text_print_rule(printer *p, int from, bool *printed) {
    const chip_report *r = p->r;
    const chip_finding *f = &r->findings[from];
    const int hidden = r->masks[f->limit - chip_limit_get(0)].found - r->per_limit;
    const char *name = chip_severity_name(f->severity);
    text_append(p->out, "\n");
    check_text_style(p, styles[f->severity]);
    text_printf(p->out, "%s %s", name, f->limit->id);
    check_text_style(p, NULL);
    text_append(p->out, ": ");
    check_text_wrap(p, f->limit->sentence, (int)(strlen(name) + strlen(f->limit->id)) + 3, 4);
    for (int i = from; i < r->count; i++) {
        text line = {0};
        if (printed[i] || r->findings[i].limit != f->limit) continue;
        check_text_put_places(r, i, printed, &line);
        text_append(p->out, "  ");
        check_text_wrap(p, line.data ? line.data : "", 2, 6);
        p->out->failed |= line.failed;
        text_deinit(&line);
    }
    if (hidden > 0) text_printf(p->out, "  and in %d more place%s\n", hidden, text_plural(hidden));
    check_text_print_evidence(p, f);
}

static void check_text_print_findings(printer *p) {
    bool *printed = mem_array((size_t)p->r->count + 1, sizeof *printed);
    if (!printed) p->out->failed = true;
    for (int rank = CHIP_RANKS - 1; printed && rank >= 0; rank--)
        for (int i = 0; i < p->r->count; i++)
            if (!printed[i] && chip_finding_rank(&p->r->findings[i]) == rank) check_text_print_rule(p, i, printed);
    mem_free(printed);
}

/* ---- the table ---------------------------------------------------------------------------------------------------------- */

/* Writes a cell's text. Returns the cell's severity, or CHIP_SILENT if the cell has no findings. */
static chip_severity check_text_cell(const chip_cell *c, char out[CELL_BYTES]) {
    static const struct {
        const char *word;
        chip_severity severity;
    } ranks[CHIP_RANKS] = {{"note", CHIP_NOTE}, {"warn", CHIP_WARN},   {"cpu", CHIP_FALL},
                           {"warn", CHIP_WARN}, {"crash", CHIP_CRASH}, {"no", CHIP_REFUSE}};
    for (int i = CHIP_RANKS - 1; i >= 0; i--)
        if (c->count[i]) {
            snprintf(out, CELL_BYTES, "%s %s", ranks[i].word, chip_limit_get(c->limit[i])->id);
            return ranks[i].severity;
        }
    snprintf(out, CELL_BYTES, "-");
    return CHIP_SILENT;
}

static const chip_cell *check_text_cell_of(const chip_report *r, int row, int target) {
    return &r->cells[row * CHIP_COUNT + (int)r->targets[target]->id];
}

static bool check_text_same_column(const chip_report *r, int a, int b) {
    for (int row = 0; row < CHIP_ROWS; row++) {
        char x[CELL_BYTES], y[CELL_BYTES];
        (void)check_text_cell(check_text_cell_of(r, row, a), x);
        (void)check_text_cell(check_text_cell_of(r, row, b), y);
        if (strcmp(x, y) != 0) return false;
    }
    return true;
}

typedef struct column { /* chips with the same findings share one column, whose head names the first chip */
    int target, width, others;
    uint64_t targets; /* bits, in the order of the report */
    char head[CELL_BYTES];
} column;

static int check_text_columns(const chip_report *r, column out[CHIP_COUNT]) {
    int group[CHIP_COUNT], count = 0;
    for (int t = 0; t < r->target_count; t++) {
        group[t] = t;
        for (int first = 0; first < t && group[t] == t; first++)
            if (group[first] == first && check_text_same_column(r, first, t)) group[t] = first;
    }
    for (int t = 0; t < r->target_count; t++) {
        if (group[t] != t) continue;
        column *c = &out[count++];
        *c = (column){.target = t};
        for (int k = t; k < r->target_count; k++)
            if (group[k] == t) c->targets |= (uint64_t)1 << k;
        for (int k = t + 1; k < r->target_count; k++) c->others += group[k] == t;
        snprintf(c->head, sizeof c->head, c->others ? "%s +%d" : "%s", r->targets[t]->name, c->others);
        c->width = (int)strlen(c->head);
        for (int row = 0; row < CHIP_ROWS; row++) {
            char cell[CELL_BYTES];
            (void)check_text_cell(check_text_cell_of(r, row, t), cell);
            if ((int)strlen(cell) > c->width) c->width = (int)strlen(cell);
        }
    }
    return count;
}

/* Returns true if there is no finding about the operation on any target. */
static bool check_text_is_silent(const chip_report *r, int row) {
    char cell[CELL_BYTES];
    for (int t = 0; t < r->target_count; t++)
        if (check_text_cell(check_text_cell_of(r, row, t), cell) != CHIP_SILENT) return false;
    return true;
}

static void check_text_print_cells(printer *p, int row, const column *columns, int count) {
    char cell[CELL_BYTES];
    for (int i = 0; i < count; i++) {
        const chip_severity s = check_text_cell(check_text_cell_of(p->r, row, columns[i].target), cell);
        text_append(p->out, "  ");
        if (s != CHIP_SILENT) check_text_style(p, styles[s]);
        text_append(p->out, cell);
        if (s != CHIP_SILENT) check_text_style(p, NULL);
        if (i + 1 < count) text_printf(p->out, "%*s", columns[i].width - (int)strlen(cell), "");
    }
    text_append(p->out, "\n");
}

/* Prints one row for all operations without findings. */
static void check_text_print_silent(printer *p, int left, const column *columns, int count) {
    int kinds = 0, operations = 0;
    char name[CELL_BYTES];
    for (int row = 0; row < MIL_OP_COUNT; row++)
        if (p->r->op_counts[row] && check_text_is_silent(p->r, row)) {
            kinds++;
            operations += p->r->op_counts[row];
        }
    if (!kinds) return;
    snprintf(name, sizeof name, "(%d other%s)", kinds, text_plural(kinds));
    text_printf(p->out, "%-*s %6d", left, name, operations);
    for (int i = 0; i < count; i++) text_printf(p->out, i + 1 < count ? "  %-*s" : "  -", columns[i].width, "-");
    text_append(p->out, "\n");
}

static void check_text_print_columns(printer *p, int left, const column *columns, int count) {
    const chip_report *r = p->r;
    text_append(p->out, "\n");
    check_text_style(p, bold);
    text_printf(p->out, "%-*s %6s", left, "operation", "count");
    for (int i = 0; i < count; i++)
        text_printf(p->out, i + 1 < count ? "  %-*s" : "  %.*s", i + 1 < count ? columns[i].width : CELL_BYTES,
                    columns[i].head);
    check_text_style(p, NULL);
    text_append(p->out, "\n");
    for (int row = 0; row < MIL_OP_COUNT; row++) {
        if (!r->op_counts[row] || check_text_is_silent(r, row)) continue;
        text_printf(p->out, "%-*s %6d", left, mil_op_get((mil_opcode)row)->name, r->op_counts[row]);
        check_text_print_cells(p, row, columns, count);
    }
    check_text_print_silent(p, left, columns, count);
    text_printf(p->out, "%-*s %6s", left, r->checked_program ? "(program)" : "(file)", "");
    check_text_print_cells(p, CHIP_ROW_WHOLE, columns, count);
}

/* Prints the chips that share a column, such as "m1 +2". */
static void check_text_print_shared(printer *p, const column *columns, int count) {
    for (int i = 0; i < count; i++) {
        const char *separator = ":";
        if (!columns[i].others) continue;
        text_append(p->out, columns[i].head);
        for (int t = 0; t < p->r->target_count; t++) {
            if (!(columns[i].targets >> t & 1)) continue;
            text_printf(p->out, "%s %s", separator, p->r->targets[t]->name);
            separator = ",";
        }
        text_append(p->out, "\n");
    }
}

/* Prints the table in groups of columns that fit the width. */
static void check_text_print_table(printer *p) {
    column columns[CHIP_COUNT];
    const int count = check_text_columns(p->r, columns);
    int left = (int)strlen("(99 others)");
    for (int row = 0; row < MIL_OP_COUNT; row++)
        if (p->r->op_counts[row] && !check_text_is_silent(p->r, row)) {
            const int n = (int)strlen(mil_op_get((mil_opcode)row)->name);
            if (n > left) left = n;
        }
    for (int from = 0, n; from < count; from += n) {
        int used = left + 7;
        for (n = 0; from + n < count; n++) {
            used += 2 + columns[from + n].width;
            if (n && p->width && used > p->width) break;
        }
        check_text_print_columns(p, left, columns + from, n);
    }
    check_text_print_shared(p, columns, count);
}

/* ---- verdicts ----------------------------------------------------------------------------------------------------------- */

/* Lists the violated rules that have this severity on a chip, in the order of limits.def. Of the warnings, lists only
 * those about harm. */
static void check_text_list_rules(const chip_report *r, const chip *c, chip_severity severity, text *out) {
    const char *separator = " ";
    for (int i = 0; i < chip_limit_count(); i++)
        if (r->masks[i].found && r->masks[i].by[severity] >> c->id & 1 &&
            (severity != CHIP_WARN || chip_limit_get(i)->harm[r->path])) {
            text_printf(out, "%s%s", separator, chip_limit_get(i)->id);
            separator = ", ";
        }
}

void chip_report_put_verdict(const chip_report *r, const chip *c, text *out) {
    static const chip_severity order[] = {CHIP_REFUSE, CHIP_CRASH, CHIP_WARN, CHIP_FALL};
    const int *n = r->totals[c->id], harms = r->harms[c->id], others = n[CHIP_WARN] - harms;
    const chip_segments *s = &r->segments[c->id];
    const chip_severity worst = chip_report_worst_on(r, c);
    const char *separator = "";
    if (worst < CHIP_FALL) {
        text_append(out, "no known rule refuses it");
        separator = "; ";
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const chip_severity w = order[i];
        /* a refused program does not run, so nothing is printed about how it would run */
        if (!(w == CHIP_WARN ? harms : n[w]) || (worst == CHIP_REFUSE && w < CHIP_REFUSE)) continue;
        text_printf(out, "%s%s by", separator, w == CHIP_WARN ? "may fail" : chip_severity_name(w));
        check_text_list_rules(r, c, w, out);
        separator = "; ";
    }
    const int warnings = worst == CHIP_REFUSE ? n[CHIP_WARN] : others;
    if (warnings) text_printf(out, "; %d warning%s", warnings, text_plural(warnings));
    if (n[CHIP_FALL] && !s->engine && s->cpu) {
        text_append(out, "; nothing is left on the engine");
    } else if (n[CHIP_FALL] && s->moved) {
        text_printf(out, "; %d operation%s off the engine, %d switch%s%s", s->moved, text_plural(s->moved), s->switches,
                    s->switches == 1 ? "" : "es", *s->places ? " at " : "");
        check_text_put(out, s->places);
        text_printf(out, ", about %.2f ms (estimated)", s->ms);
    }
}

static void check_text_print_verdicts(printer *p) {
    const chip_report *r = p->r;
    text own = {0}, other = {0}, line = {0};
    bool printed[CHIP_COUNT] = {false};
    for (int t = 0; t < r->target_count; t++) {
        if (printed[t]) continue;
        text_clear(&own), text_clear(&line);
        chip_report_put_verdict(r, r->targets[t], &own);
        text_append(&line, r->targets[t]->name);
        for (int k = t + 1; k < r->target_count; k++) {
            text_clear(&other);
            chip_report_put_verdict(r, r->targets[k], &other);
            printed[k] |= check_text_equal(own.data, other.data);
            if (check_text_equal(own.data, other.data)) text_printf(&line, ", %s", r->targets[k]->name);
        }
        const chip_severity worst = chip_report_worst_on(r, r->targets[t]);
        text_append(&line, ": ");
        check_text_style(p, worst >= CHIP_FALL ? styles[worst] : good);
        text_append(&line, own.data ? own.data : "");
        check_text_wrap(p, line.data ? line.data : "", 0, 4);
    }
    p->out->failed |= own.failed || other.failed || line.failed;
    text_deinit(&own), text_deinit(&other), text_deinit(&line);
}

static const char *check_text_path(const chip_report *r) {
    return r->path == CHIP_PATH_COREML
               ? "through Core ML (--path direct: as MIL text passed to the engine's compiler)"
               : "direct, as MIL text passed to the engine's compiler (--path coreml: through Core ML)";
}

void chip_report_print(const chip_report *r, const chip_print *how, text *out) {
    printer p = {r, out, how->styled, how->width && how->width < LEAST_WIDTH ? LEAST_WIDTH : how->width};
    if (r->checked_program) {
        text_append(out, "path: ");
        check_text_wrap(&p, check_text_path(r), 6, 6);
    }
    check_text_print_findings(&p);
    check_text_print_table(&p);
    text_append(out, "\n");
    check_text_print_verdicts(&p);
}
