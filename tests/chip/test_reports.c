/* SPDX-License-Identifier: MIT
 * Failures that people reported, against what check says of them: tests/chip/reports/reports.def has the rows. A hit names
 * the cause with the verdict that the report deserves, and nothing else is said louder; partial names the cause with another
 * verdict, or something else is louder; a miss does not name it. The outcome is docs/reports.md: this test fails where the
 * page says something else, and writes it with REPORTS_WRITE=1.
 */
#include <stdlib.h>

#include "ane/chip/check.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "support/test.h"

typedef struct told_report {
    const char *file, *source, *chip;
    int os;
    chip_path path;
    chip_severity verdict;
    const char *op, *word, *told;
} told_report;

static const told_report reports[] = {
#define REPORT(file, source, chip, os, path, verdict, op, word, told)                                                  \
    {file, source, chip, os, CHIP_PATH_##path, CHIP_##verdict, op, word, told},
#include "reports/reports.def"
};

enum { REPORTS = sizeof reports / sizeof reports[0], FIRST = 15 };
typedef enum outcome { MISS, PARTIAL, HIT, OUTCOMES } outcome;

static bool names_cause(const chip_finding *f, const told_report *t) {
    if (*t->op ? !f->op || strcmp(f->op, t->op) != 0 : f->op != NULL) return false;
    return strcasestr(f->message, t->word) || strcasestr(f->limit->sentence, t->word);
}

/* `said`: the rule that names the cause, or the loudest other one. */
static outcome judge(const told_report *t, const chip_report *r, char said[64]) {
    const chip_finding *cause = NULL, *louder = NULL;
    for (int i = 0; i < chip_report_count(r); i++) {
        const chip_finding *f = chip_report_get(r, i);
        if (names_cause(f, t)) {
            if (!cause || f->severity == t->verdict) cause = f;
        } else if (!louder || f->severity > louder->severity) {
            louder = f;
        }
    }
    const chip_finding *shown = cause ? cause : louder;
    snprintf(said, 64, "%s%s%s", shown ? shown->limit->id : "nothing", shown ? ", " : "",
             shown ? chip_severity_name(shown->severity) : "");
    if (!cause) return MISS;
    return cause->severity == t->verdict && (!louder || louder->severity <= t->verdict) ? HIT : PARTIAL;
}

static outcome check_report(const told_report *t, char said[64]) {
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

static void write_head(text *out, const int counts[2][OUTCOMES]) {
    text_append(
        out,
        "# What people reported, and what check says\n\n"
        "Failures told in public, rebuilt as the smallest program or package that shows the cause\n"
        "(`tests/chip/reports`). Expected verdicts were written before the rules. *hit*: `propane check` names the\n"
        "cause with that verdict, and says nothing else louder. *partial*: it names the cause with another verdict,\n"
        "or something else is louder. *miss*: it does not name it. Made by `tests/chip/test_reports.c`; the words of\n"
        "the reports are ours.\n\n"
        "| | hit | partial | miss |\n|---|---:|---:|---:|\n");
    for (int k = 0; k < 2; k++)
        text_printf(out, "| %s | %d | %d | %d |\n", k ? "further reports" : "the first fifteen", counts[k][HIT],
                    counts[k][PARTIAL], counts[k][MISS]);
    text_append(
        out, "\n| report | chip | path | what was told | expected | check says | |\n|---|---|---|---|---|---|---|\n");
}

static void make_page(text *out, int counts[2][OUTCOMES]) {
    static const char *const names[] = {"miss", "partial", "hit"};
    text rows = {0};
    for (int i = 0; i < REPORTS; i++) {
        const told_report *t = &reports[i];
        char said[64];
        const outcome o = check_report(t, said);
        counts[i >= FIRST][o]++;
        text_printf(&rows, "| %s | %s | %s | %s | %s | %s | %s |\n", t->source, t->chip, chip_path_name(t->path),
                    t->told, chip_severity_name(t->verdict), said, names[o]);
    }
    EXPECT(!rows.failed);
    write_head(out, (const int(*)[OUTCOMES])counts);
    text_append(out, rows.data);
    EXPECT(!out->failed);
    text_deinit(&rows);
}

TEST(reports_are_told_by_the_page) {
    propane_error err = {0};
    int counts[2][OUTCOMES] = {{0}};
    text page = {0};
    make_page(&page, counts);
    EXPECT_MSG(counts[0][HIT] >= 12, "%d of the first fifteen are hits", counts[0][HIT]);
    EXPECT_MSG(counts[1][HIT] * 10 >= (REPORTS - FIRST) * 8, "%d further ones are hits", counts[1][HIT]);
    if (getenv("REPORTS_WRITE")) EXPECT_OK(file_write("docs/reports.md", page.data, page.length, &err));
    char *there = NULL;
    size_t length = 0;
    EXPECT_OK(file_read("docs/reports.md", 1 << 20, &there, &length, &err));
    EXPECT_MSG(
        length == page.length && memcmp(there, page.data, length) == 0,
        "docs/reports.md says something else than the rules; look at the difference, then REPORTS_WRITE=1 writes it");
    mem_free(there);
    text_deinit(&page);
}

SUITE("chip/reports", T(reports_are_told_by_the_page))
