/* SPDX-License-Identifier: MIT
 * Owns the table of questions and helpers for their functions, and asks one question in this process.
 */
#include "apps/ane-lab/probe/selftest.h"

#include <stdlib.h>
#include <string.h>

#include "ane/driver/ane_lab.h"
#include "ane/driver/objc_runtime.h"
#include "apps/ane-lab/probe/question_process.h"
#include "apps/propane/cli.h"
#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/device/uri.h"

/* builds of macOS 27 have names such as 26A... */
enum { PAUSE_S = 1, FIRST_BUILD_OF_27 = 26 };

const probe_question probe_questions[] = {
#define QUESTION(id, text, whom, when, seconds, ask, detail)                                                           \
    {id, text, PROBE_##whom, PROBE_##when, seconds, ask, detail},
#include "apps/ane-lab/probe/questions.def"
#undef QUESTION
};
const int probe_question_count = sizeof probe_questions / sizeof probe_questions[0];

const probe_question *probe_find_question(const char *id) {
    for (int i = 0; i < probe_question_count; i++)
        if (strcmp(probe_questions[i].id, id) == 0) return &probe_questions[i];
    return NULL;
}

probe_target probe_make_target(const char *uri) {
    return (probe_target){.uri = uri, .is_ane = device_is(uri, "ane"), .detail = ""};
}

/* ---- helpers for questions --------------------------------------------------------------------------------------- */

const char *probe_uri(const probe_target *t, const char *route, const char *options, char out[200]) {
    if (!t->is_ane)
        snprintf(out, 200, "%s", t->uri);
    else
        snprintf(out, 200, "ane:%s%s%s", route, *options ? "?" : "", options);
    return out;
}

propane_status probe_run(probe_target *t, const char *uri, const char *body, const float *const *inputs, float *output,
                         propane_error *err) {
    rig r = {0};
    propane_status status = rig_open_text(&r, uri, body, err);
    if (status == PROPANE_ERR_UNSUPPORTED) t->refused = true;
    for (int i = 0; i < r.run.inputs && status == PROPANE_OK; i++)
        status = rig_put(&r, i, inputs ? inputs[i] : NULL, err);
    if (status == PROPANE_OK) status = rig_run(&r, err);
    if (status == PROPANE_OK) status = rig_take(&r, 0, output, err);
    rig_close(&r);
    return status;
}

/* ---- one question in this process -------------------------------------------------------------------------------- */

/* Fails before macOS 27, because evaluations after pauses have ended in kernel panics on 26.5.2
 * (loading-awesome/MiniMax-H3-Swift/docs/ANE_STATUS.md). */
static propane_status selftest_check_system(propane_error *err) {
    const ane_api *a;
    char architecture[60], build[60];
    int64_t cores;
    PROPANE_TRY(ane_api_get(&a, err));
    ane_machine(a, architecture, &cores, build);
    if (strtol(build, NULL, 10) >= FIRST_BUILD_OF_27) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "skipped on systems before macOS 27 (this build is %s): evaluating after pauses has caused "
                        "kernel panics on 26.5.2",
                        build);
}

static propane_status selftest_ask(const probe_question *q, probe_target *t, json_t *out, propane_error *err) {
    if (q->when == PROBE_ASKED_27) PROPANE_TRY(selftest_check_system(err));
    return q->ask(t, out, err);
}

static void selftest_note_folder(const char *path) {
    json_t *note = json_object();
    json_put(note, "folder", json_words(path));
    probe_note(note);
    json_decref(note);
}

int probe_ask_here(const char *uri, const char *id) {
    const probe_question *q = probe_find_question(id);
    probe_target t = probe_make_target(uri);
    propane_error err = {0};
    json_t *out = json_object();
    const int64_t begin = clock_ns();
    if (!q) return CLI_FAILED;
    t.detail = q->detail;
    ane_on_folder(selftest_note_folder);
    ane_pause_at_most(PAUSE_S);
    if (q->whom == PROBE_ANE && !t.is_ane) {
        probe_say(out, "answer", "applies to the ane device only");
    } else if (selftest_ask(q, &t, out, &err) != PROPANE_OK) {
        probe_say(out, "answer", "failed: %s", err.text);
        probe_say(out, "error", "%s", err.text);
        json_put(out, "status", json_integer(err.status));
    }
    probe_value(out, "seconds", (double)(clock_ns() - begin) / 1e9);
    if (t.refused) json_put(out, "refused", json_true());
    probe_note(out);
    json_decref(out);
    return CLI_OK;
}

void probe_words(const char *uri, const char *id, int seconds, char out[1200]) {
    json_t *answer = question_ask_elsewhere(uri, id, seconds);
    const char *words = json_string_value(json_object_get(answer, "answer"));
    snprintf(out, 1200, "%s", words ? words : "no answer");
    json_decref(answer);
}
