/* SPDX-License-Identifier: MIT
 * Owns the probe's loop and its report. This process never opens the engine, so the engine cannot crash it. The default
 * questions take at most TOTAL_S seconds in total; the report names the questions that were not asked.
 */
#include "apps/ane-lab/probe/probe_report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/ane-lab/probe/machine_facts.h"
#include "apps/ane-lab/probe/probe_explain.h"
#include "apps/ane-lab/probe/question_process.h"
#include "apps/ane-lab/probe/selftest.h"
#include "apps/propane/cli.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/user_cache.h"
#include "core/base/words.h"

enum { TOTAL_S = 120, COMPILER_PAUSE_S = 2, ID_ROOM = 40 };

typedef struct probe {
    const probe_options *o;
    probe_target target;
    json_t *report, *answers;
    const char *path; /* NULL if the report is printed */
    int64_t end;      /* time after which nothing is asked */
    bool unusable;    /* the first answer states that the device cannot be used */
} probe;

/* ---- the report ------------------------------------------------------------------------------------------------------------- */

static propane_status probe_write(const probe *p, propane_error *err) {
    json_t *shown = NULL;
    if (!p->path) return PROPANE_OK;
    if (p->target.is_ane) json_put(p->report, "profile", explain_profile(p->answers));
    PROPANE_TRY(machine_hide_home(p->report, &shown, err));
    propane_status status = json_write(p->path, shown, JSON_INDENT(2) | JSON_REAL_PRECISION(9), err);
    json_decref(shown);
    return status;
}

static propane_status probe_print_report(const probe *p, propane_error *err) {
    json_t *shown = NULL;
    char *words = NULL;
    PROPANE_TRY(machine_hide_home(p->report, &shown, err));
    propane_status status = json_print(shown, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &words, NULL, err);
    if (status == PROPANE_OK) printf("\n%s\n", words);
    mem_free(words);
    json_decref(shown);
    return status;
}

/* Chooses the report's path before the first question, and checks a path that the user gave. p->path stays NULL if
 * there is no place for a report, or no report is wanted. */
static propane_status probe_choose_path(probe *p, char place[USER_CACHE_PATH_ROOM], propane_error *err) {
    char folder[USER_CACHE_PATH_ROOM];
    p->path = p->o->output;
    if (p->o->output) return file_check_output(p->o->output, err);
    if (p->o->only || !user_cache_path("", folder) || !user_cache_path("probe.json", place)) return PROPANE_OK;
    if (file_make_dir(folder, err) == PROPANE_OK) p->path = place;
    return PROPANE_OK;
}

static void probe_describe(const probe *p) {
    const char *library = getenv("PROPANE_ANE_LIBRARY");
    probe_say(p->report, "report", "%s", PROBE_REPORT_FORM);
    probe_say(p->report, "propane", "%s", propane_version());
    probe_say(p->report, "device", "%s", p->o->uri);
    json_put(p->report, "stand_in", json_boolean(p->target.is_ane && library && *library));
    machine_describe(p->report);
    probe_say(p->report, "state", "being asked");
    json_put(p->report, "answers", json_incref(p->answers));
}

/* ---- one question ------------------------------------------------------------------------------------------------------------ */

static bool probe_is_asked(const probe *p, const probe_question *q) {
    if (p->o->only) return words_have(p->o->only, ',', q->id);
    if (q->whom == PROBE_ANE && !p->target.is_ane) return false;
    return q->when == PROBE_ALWAYS || p->o->all;
}

static int probe_limit(const probe *p, const probe_question *q) {
    int64_t limit = p->o->limit && p->o->limit < q->seconds ? p->o->limit : q->seconds;
    const int64_t left = (p->end - clock_ns() + 999999999) / 1000000000;
    if (limit > left) limit = left;
    return limit < 1 ? 1 : (int)limit;
}

static void probe_print_answer(const probe *p, const probe_question *q, const json_t *answer) {
    if (p->o->only) {
        probe_note(answer);
    } else {
        const char *words = json_string_value(json_object_get(answer, "answer"));
        printf("%s\n    ", q->text);
        cli_wrap(words ? words : "no answer", 4, 4, cli_width());
        printf("\n");
    }
    (void)cli_flush();
}

/* Pauses after a refusal, because Apple's compiler service is reported to answer unreliably after a program that it has
 * refused (C3). */
static void probe_pause(const probe *p, const json_t *answer) {
    const bool calm = json_object_get(answer, "answer") && !json_is_true(json_object_get(answer, "refused"));
    if (!p->target.is_ane || getenv("PROPANE_ANE_LIBRARY") || calm || cli_interrupted) return;
    nanosleep(&(struct timespec){.tv_sec = COMPILER_PAUSE_S}, NULL);
}

/* Returns NULL if the question can be asked, otherwise the reason. */
static const char *probe_why_not(const probe *p, const probe_question *q) {
    if (cli_interrupted) return "interrupted";
    if (p->unusable && q->whom != PROBE_HOST) return "the device cannot be used";
    return clock_ns() >= p->end ? "the time is used up; --only runs it by itself" : NULL;
}

static void probe_skip(const probe *p, const probe_question *q, const char *why) {
    json_t *answer = json_object();
    probe_say(answer, "answer", "not asked: %s", why);
    probe_say(answer, "ended", "not asked");
    json_put(p->answers, q->id, answer);
}

/* Copies facts about the device from the first answer. An error in that answer ends the probe, except for an ane device
 * with a valid uri. */
static propane_status probe_check_first(probe *p, const json_t *answer, propane_error *err) {
    const char *why = json_string_value(json_object_get(answer, "error"));
    const json_t *simulated = json_object_get(answer, "simulated");
    json_put(p->report, "simulated", json_boolean(json_is_true(simulated)));
    if (json_is_false(json_object_get(answer, "usable"))) p->unusable = true;
    const json_int_t status = json_integer_value(json_object_get(answer, "status"));
    if (!why || (p->target.is_ane && status != PROPANE_ERR_INVALID)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s", why);
}

static void probe_print_head(const probe *p) {
    if (p->o->only) return;
    const char *what = json_is_true(json_object_get(p->report, "simulated"))
                           ? " (simulated: the answers come from a model)"
                       : json_is_true(json_object_get(p->report, "stand_in")) ? " (a stand-in, not Apple's engine)"
                                                                              : "";
    printf("%s%s\n", p->o->uri, what);
    if (p->path) printf("the answers are written to %s as they arrive\n", p->path);
    printf("\n");
}

/* Asks all selected questions. A report that cannot be written now may be written with the next answer; `why` keeps the
 * last reason. */
static propane_status probe_ask_list(probe *p, propane_error *why) {
    bool first = true;
    for (int i = 0; i < probe_question_count; i++) {
        const probe_question *q = &probe_questions[i];
        if (!probe_is_asked(p, q)) continue;
        const char *why_not = probe_why_not(p, q);
        if (why_not) {
            probe_skip(p, q, why_not);
            continue;
        }
        json_t *answer = question_ask_elsewhere(p->o->uri, q->id, probe_limit(p, q));
        probe_say(answer, "question", "%s", q->text);
        json_put(p->answers, q->id, answer);
        if (first) {
            PROPANE_TRY(probe_check_first(p, answer, why));
            probe_print_head(p);
        }
        first = false;
        probe_print_answer(p, q, answer);
        *why = (propane_error){0};
        why->status = probe_write(p, why);
        probe_pause(p, answer);
    }
    return PROPANE_OK;
}

/* ---- the probe --------------------------------------------------------------------------------------------------- */

static propane_status probe_finish(probe *p, propane_error *err) {
    probe_say(p->report, "state", cli_interrupted ? "interrupted" : "complete");
    propane_status status = probe_write(p, err);
    if (status != PROPANE_OK)
        (void)propane_fail_prefix(err, status, "the report was printed above because it cannot be written");
    if (status != PROPANE_OK || (!p->path && !p->o->only)) {
        propane_error unprinted = {0};
        if (probe_print_report(p, &unprinted) != PROPANE_OK && status == PROPANE_OK)
            return cli_error("devices", &unprinted);
    } else if (p->path) {
        printf("\nThe report is in %s. docs/apple.md explains where to send it.\n", p->path);
    }
    return status;
}

static int probe_check_only(const char *only) {
    char id[ID_ROOM], known[1200] = "";
    for (const char *at = only; *at;) {
        const size_t length = strcspn(at, ",");
        snprintf(id, sizeof id, "%.*s", (int)length, at);
        if (length >= ID_ROOM || !probe_find_question(id)) {
            for (int i = 0; i < probe_question_count; i++) {
                const size_t used = strlen(known);
                snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", probe_questions[i].id);
            }
            return cli_misuse("devices", "--only: there is no question '%.*s'; the questions are %s", (int)length, at,
                              known);
        }
        at += length + (at[length] == ',');
    }
    return CLI_OK;
}

int probe_all(const probe_options *o) {
    char place[USER_CACHE_PATH_ROOM];
    propane_error err = {0};
    if (o->only && probe_check_only(o->only) != CLI_OK) return CLI_USAGE;
    probe p = {.o = o, .target = probe_make_target(o->uri), .report = json_object(), .answers = json_object()};
    p.end = o->only || o->all ? INT64_MAX - 2000000000 : clock_ns() + (int64_t)TOTAL_S * 1000000000;
    propane_status status = machine_check(p.target.is_ane, &err);
    if (status == PROPANE_OK) status = probe_choose_path(&p, place, &err);
    if (status == PROPANE_OK) {
        probe_describe(&p);
        cli_catch_signals();
        status = probe_ask_list(&p, &err);
        if (status == PROPANE_OK) status = probe_finish(&p, &err);
    }
    json_decref(p.answers);
    json_decref(p.report);
    if (status != PROPANE_OK) return cli_error("devices", &err);
    return cli_interrupted ? cli_interrupt_code() : CLI_OK;
}
