/* SPDX-License-Identifier: MIT
 * Failures that people reported, compared with the findings of check; the rows are in tests/chip/reports/reports.def. A
 * hit names the cause with the report's verdict, and nothing else is more severe. Partial names the cause with another
 * verdict, or something else is more severe. A miss does not name the cause. docs/reports.md shows the outcome: this test
 * fails if the page differs, and writes it with REPORTS_WRITE=1.
 */
#include <stdlib.h>

#include "ane/chip/check.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "support/test.h"

typedef enum outcome { MISS, PARTIAL, HIT, WRONG, OUTCOMES } outcome;
enum { NEVER = -1 }; /* a rule was written from the report before check was tried on it */

typedef struct public_report {
    bool held; /* tried last: no rule was written from it */
    int first; /* outcome of the first try, or NEVER */
    const char *file, *source, *chip;
    int os;
    chip_path path;
    chip_severity verdict;
    const char *op, *word, *printed;
} public_report;

static const public_report reports[] = {
#define REPORT(file, source, chip, os, path, verdict, op, word, printed)                                               \
    {false, NEVER, file, source, chip, os, CHIP_PATH_##path, CHIP_##verdict, op, word, printed},
#define TRIED(first, file, source, chip, os, path, verdict, op, word, printed)                                         \
    {false, first, file, source, chip, os, CHIP_PATH_##path, CHIP_##verdict, op, word, printed},
#define HELD(first, file, source, chip, os, path, verdict, op, word, printed)                                          \
    {true, first, file, source, chip, os, CHIP_PATH_##path, CHIP_##verdict, op, word, printed},
#include "reports/reports.def"
};

enum { REPORTS = sizeof reports / sizeof reports[0] };
static const char *const outcome_names[OUTCOMES] = {"miss", "partial", "hit", "wrong"};

/* The outcomes of the 60 reports of 2024 to 2026 that were tried together (26 November 2026), before any rule was
 * written from them. Three did not apply. The rows contain those that a small program can show. */
static const int tried_at_once[OUTCOMES] = {[MISS] = 26, [PARTIAL] = 11, [HIT] = 14, [WRONG] = 6};

static bool names_cause(const chip_finding *f, const public_report *t) {
    if (*t->op ? !f->op || strcmp(f->op, t->op) != 0 : f->op != NULL) return false;
    return strcasestr(f->message, t->word) || strcasestr(f->limit->sentence, t->word);
}

/* `said` receives the rule that names the cause, or the most severe other one. */
static outcome judge(const public_report *t, const chip_report *r, char said[64]) {
    const chip_finding *cause = NULL, *louder = NULL;
    for (int i = 0; i < chip_report_count(r); i++) {
        const chip_finding *f = chip_report_get(r, i);
        if (names_cause(f, t)) {
            if (!cause || f->severity == t->verdict) cause = f;
        } else if (!louder || chip_finding_rank(f) > chip_finding_rank(louder)) {
            louder = f;
        }
    }
    const chip_finding *shown = cause ? cause : louder;
    snprintf(said, 64, "%s%s%s", shown ? shown->limit->id : "nothing", shown ? ", " : "",
             shown ? chip_severity_name(shown->severity) : "");
    if (!cause) return MISS;
    if (cause->severity != t->verdict) return PARTIAL;
    return !louder || chip_finding_rank(louder) <= chip_finding_rank(cause) ? HIT : PARTIAL;
}

static outcome check_report(const public_report *t, char said[64]) {
    propane_error err = {0};
    const chip *c;
    text path = {0};
    EXPECT_OK(chip_find(t->chip, &c, &err));
    text_printf(&path, "tests/chip/reports/%s", t->file);
    EXPECT(!path.failed);
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, t->os, 1000, t->path, false});
    EXPECT(r != NULL);
    EXPECT_OK(chip_check_file(r, path.data, &err));
    for (int i = 0; i < chip_report_count(r); i++)
        EXPECT_MSG(strcmp(chip_report_get(r, i)->limit->id, "L1") != 0, "%s: %s", t->file,
                   chip_report_get(r, i)->message);
    const outcome o = judge(t, r, said);
    chip_report_free(r);
    text_deinit(&path);
    return o;
}

typedef enum count_row { WRITTEN_FROM, TRIED_FIRST, TRIED_NOW, HELD_FIRST, COUNT_ROWS } count_row;
typedef int count_table[COUNT_ROWS][OUTCOMES];

static void write_counts(text *out, const count_table counts) {
    static const char *const names[COUNT_ROWS] = {
        [WRITTEN_FROM] = "rules were written from them",
        [TRIED_FIRST] = "tried after, as small programs: at first",
        [TRIED_NOW] = "the same now, since rules were written from most of them, too",
        [HELD_FIRST] = "of these, the last ones, from which no rule was written: at first",
    };
    text_append(out, "| | hit | partial | miss | wrong |\n|---|---:|---:|---:|---:|\n");
    for (int k = 0; k < COUNT_ROWS; k++)
        text_printf(out, "| %s | %d | %d | %d | %d |\n", names[k], counts[k][HIT], counts[k][PARTIAL], counts[k][MISS],
                    counts[k][WRONG]);
    text_printf(out, "| tried after, all 60 of them: at first (three did not apply) | %d | %d | %d | %d |\n",
                tried_at_once[HIT], tried_at_once[PARTIAL], tried_at_once[MISS], tried_at_once[WRONG]);
}

static void write_head(text *out, const count_table counts) {
    text_append(
        out,
        "# What people reported, and what check says\n\n"
        "Failures reported in public, rebuilt as the smallest program or package that shows the cause\n"
        "(`tests/chip/reports`). Expected verdicts were written before the rules, but \"crashes elsewhere\" became a\n"
        "verdict afterwards, and is expected of all reports of a crash. *hit*: `propane check` names the\n"
        "cause with that verdict, and reports nothing more severe. *partial*: it names the cause with another "
        "verdict,\n"
        "or something else is more severe. *miss*: it does not name it. *wrong*: it states the opposite. Made by\n"
        "`tests/chip/test_reports.c`; the reports are described in our own words.\n\n"
        "Only the reports that were tried after the rules were written show how `check` will do on a report that "
        "nobody has used yet.\n\n");
    write_counts(out, counts);
}

static void write_row(text *out, const public_report *t, const char *said, outcome now) {
    text_printf(out, "| %s | %s | %s | %s | %s | %s | ", t->source, t->chip, chip_path_name(t->path), t->printed,
                chip_severity_name(t->verdict), said);
    if (t->first != NEVER) text_printf(out, "%s | ", outcome_names[t->first]);
    text_printf(out, "%s |\n", outcome_names[now]);
}

static void make_page(text *out, count_table counts) {
    text rows[2] = {{0}, {0}};
    for (int i = 0; i < REPORTS; i++) {
        const public_report *t = &reports[i];
        const bool tried = t->first != NEVER;
        char said[64];
        const outcome now = check_report(t, said);
        counts[tried ? TRIED_NOW : WRITTEN_FROM][now]++;
        if (tried) counts[TRIED_FIRST][t->first]++;
        if (t->held) counts[HELD_FIRST][t->first]++;
        write_row(&rows[tried], t, said, now);
    }
    EXPECT(!rows[0].failed && !rows[1].failed);
    write_head(out, (const int(*)[OUTCOMES])counts);
    text_append(out, "\n## Rules were written from them\n\n"
                     "| report | chip | path | what was reported | expected | check says | |\n"
                     "|---|---|---|---|---|---|---|\n");
    text_append(out, rows[0].data);
    text_append(out, "\n## Tried after\n\n"
                     "| report | chip | path | what was reported | expected | check says | at first | now |\n"
                     "|---|---|---|---|---|---|---|---|\n");
    text_append(out, rows[1].data);
    EXPECT(!out->failed);
    text_deinit(&rows[0]);
    text_deinit(&rows[1]);
}

TEST(reports_are_explained_by_the_page) {
    propane_error err = {0};
    count_table counts = {{0}};
    text page = {0};
    make_page(&page, counts);
    if (getenv("REPORTS_WRITE")) EXPECT_OK(file_write("docs/reports.md", page.data, page.length, &err));
    const int *from = counts[WRITTEN_FROM], *now = counts[TRIED_NOW];
    const int all = from[HIT] + from[PARTIAL] + from[MISS], tried = now[HIT] + now[PARTIAL] + now[MISS];
    EXPECT_MSG(from[HIT] * 10 >= all * 8, "%d of %d are hits", from[HIT], all);
    EXPECT_MSG((now[HIT] + now[PARTIAL]) * 10 >= tried * 8, "%d of the %d tried after are named",
               now[HIT] + now[PARTIAL], tried);
    char *there = NULL;
    size_t length = 0;
    EXPECT_OK(file_read("docs/reports.md", 1 << 20, &there, &length, &err));
    EXPECT_MSG(
        length == page.length && memcmp(there, page.data, length) == 0,
        "docs/reports.md says something else than the rules; look at the difference, then REPORTS_WRITE=1 writes it");
    mem_free(there);
    text_deinit(&page);
}

SUITE("chip/reports", T(reports_are_explained_by_the_page))
