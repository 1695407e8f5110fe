/* SPDX-License-Identifier: MIT
 * Owns the questions about the assumptions of the ane driver: the order of symbols, dialects, limits, and surfaces.
 */
#include <stdio.h>
#include <string.h>

#include "ane/driver/objc_runtime.h"
#include "apps/ane-lab/probe/microbench.h"
#include "apps/ane-lab/probe/selftest.h"
#include "core/base/clock.h"

enum { COMPILES = 160 };

#define T "tensor<fp16, [1, 32, 1, 32]>"
enum { N = 32 * 32 };

propane_status probe_ask_order(probe_target *t, json_t *out, propane_error *err) {
    static float q[N], k[N], y[N];
    const float *in[] = {q, k};
    char uri[200], order[200];
    static const char body[] =
        T " q, " T " k) {\n        " T " y = sub(x = q, y = k)[name = string(\"y\")];\n    } -> (y);\n";
    for (int i = 0; i < N; i++) q[i] = 5, k[i] = 3;
    rig r = {0};
    propane_status status = rig_open_text(&r, probe_uri(t, "memory", "names=own", uri), body, err);
    for (int i = 0; i < 2 && status == PROPANE_OK; i++) status = rig_put(&r, i, in[i], err);
    if (status == PROPANE_OK) status = rig_run(&r, err);
    if (status == PROPANE_OK) status = rig_take(&r, 0, y, err);
    if (status == PROPANE_OK) {
        bool reported = ane_program_symbols(r.program, order, sizeof order);
        probe_say(out, "told", "%s", reported ? order : "the order is not reported; alphabetical is assumed");
        probe_say(out, "answer", "inputs (q, k) are reported as (%s); bound in that order, q - k is %s",
                  reported ? order : "?",
                  y[0] == 2    ? "right"
                  : y[0] == -2 ? "of the wrong sign: inputs are bound in another order"
                               : "wrong");
        probe_value(out, "q_minus_k", y[0]);
    }
    rig_close(&r);
    return status;
}

propane_status probe_ask_dialect(probe_target *t, json_t *out, propane_error *err) {
    static const char body[] = T " x) {\n        fp16 c = const()[name = string(\"c\"), val = fp16(0x1p-1)];\n"
                                 "        " T " y = mul(x = x, y = c)[name = string(\"y\")];\n    } -> (y);\n";
    static const char literal[] =
        T " x) {\n        " T " y = mul(x = x, y = fp16(0x1p-1))[name = string(\"y\")];\n    } -> (y);\n";
    static const struct {
        const char *key, *options;
        bool literal;
    } forms[] = {{"short", "dialect=short", false},
                 {"canonical", "dialect=canonical", false},
                 {"literals_in_calls", "dialect=short&literals=inline", true}};
    static float y[N];
    char uri[200], words[200] = "";
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        propane_error why = {0};
        bool taken = probe_run(t, probe_uri(t, "memory", forms[k].options, uri), forms[k].literal ? literal : body,
                               NULL, y, &why) == PROPANE_OK;
        size_t used = strlen(words);
        probe_say(out, forms[k].key, "%s", taken ? "taken" : why.text);
        snprintf(words + used, sizeof words - used, "%s%s %s", used ? ", " : "", forms[k].key,
                 taken ? "taken" : "refused");
    }
    probe_say(out, "answer", "%s", words);
    return PROPANE_OK;
}

/* Makes the program y = x * factor, which is a different program for each factor. */
static propane_status selftest_engine_times(int factor, propane_module **out, propane_error *err) {
    char body[400];
    snprintf(body, sizeof body,
             T " x) {\n        fp16 c = const()[name = string(\"c\"), val = fp16(%d)];\n        " T
               " y = mul(x = x, y = c)[name = string(\"y\")];\n    } -> (y);\n",
             factor);
    return rig_module(body, out, err);
}

/* Unloads one of the loaded programs and measures how long it takes until another program can be loaded. */
static void selftest_engine_time_place(propane_device *d, propane_program **kept, json_t *out) {
    enum { TRIES = 20 };
    propane_error why = {0};
    propane_program_free(*kept);
    *kept = NULL;
    const int64_t begin = clock_ns();
    for (int i = 0; i < TRIES && !*kept; i++) {
        propane_module *m = NULL;
        if (selftest_engine_times(COMPILES + 2 + i, &m, &why) != PROPANE_OK) break;
        if (propane_program_compile(d, m, NULL, kept, &why) != PROPANE_OK) probe_progress(i + 1);
        propane_module_free(m);
    }
    if (*kept)
        probe_value(out, "place_free_after_ms", (double)(clock_ns() - begin) / 1e6);
    else
        probe_say(out, "place_free_after_ms", "not by then: %s", why.text);
}

/* Loads different small programs until one is refused, at most COMPILES. With `keep`, the earlier programs stay
 * loaded. */
static propane_status selftest_engine_count_compiles(probe_target *t, const char *route, bool keep, json_t *out,
                                                     propane_error *err) {
    propane_program *kept[COMPILES] = {NULL};
    propane_device *d = NULL;
    propane_error why = {0};
    char uri[200];
    int done = 0;
    PROPANE_TRY(propane_device_open(probe_uri(t, route, "budget=0&pause=0", uri), &d, err));
    propane_status status = PROPANE_OK;
    while (done < COMPILES && status == PROPANE_OK) {
        propane_module *m = NULL;
        status = selftest_engine_times(done + 2, &m, &why);
        if (status == PROPANE_OK) status = propane_program_compile(d, m, NULL, &kept[done], &why);
        propane_module_free(m);
        if (status != PROPANE_OK) break;
        if (!keep) {
            propane_program_free(kept[done]);
            kept[done] = NULL;
        }
        probe_progress(++done);
    }
    probe_value(out, "compiles", done);
    if (keep && done > 0 && done < COMPILES) {
        probe_note(out);
        selftest_engine_time_place(d, &kept[0], out);
    }
    for (int i = 0; i < COMPILES; i++) propane_program_free(kept[i]);
    propane_device_close(d);
    if (status != PROPANE_OK) {
        probe_say(out, "why", "%s", why.text);
        t->refused = true;
    }
    probe_say(out, "answer", status == PROPANE_OK ? "more than %d" : "%d", status == PROPANE_OK ? COMPILES - 1 : done);
    return PROPANE_OK;
}

propane_status probe_ask_limit_memory(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_count_compiles(t, "memory", false, out, err);
}
propane_status probe_ask_limit_client(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_count_compiles(t, "client", false, out, err);
}
propane_status probe_ask_limit_loaded(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_count_compiles(t, "memory", true, out, err);
}

propane_status probe_ask_surfaces(probe_target *t, json_t *out, propane_error *err) {
    static const char uneven[] =
        "tensor<fp16, [1, 400, 1, 64]> a, tensor<fp16, [1, 1, 1, 64]> b) {\n"
        "        tensor<fp16, [1, 400, 1, 64]> y = add(x = a, y = b)[name = string(\"y\")];\n    } -> (y);\n";
    static const char narrow[] =
        "tensor<fp16, [1, 4, 1, 8]> a, tensor<fp16, [1, 4, 1, 8]> b) {\n"
        "        tensor<fp16, [1, 4, 1, 8]> y = sub(x = a, y = b)[name = string(\"y\")];\n    } -> (y);\n";
    static float y[400 * 64], a[32], b[32];
    char uri[200];
    propane_error why = {0};
    bool any = probe_run(t, probe_uri(t, "memory", "sizes=any", uri), uneven, NULL, y, &why) == PROPANE_OK;
    if (!any) probe_say(out, "why_uneven", "%s", why.text);
    bool even = probe_run(t, probe_uri(t, "memory", "sizes=equal", uri), uneven, NULL, y, &why) == PROPANE_OK;
    if (!even) probe_say(out, "why_even", "%s", why.text);
    for (int k = 0; k < 32; k++) a[k] = (float)k, b[k] = 1;
    rig r = {0};
    long long row = 0;
    bool right = rig_open_text(&r, t->uri, narrow, &why) == PROPANE_OK;
    if (right) row = (long long)rig_io(&r, 0)->stride[1];
    right = right && rig_put(&r, 0, a, &why) == PROPANE_OK && rig_put(&r, 1, b, &why) == PROPANE_OK &&
            rig_run(&r, &why) == PROPANE_OK && rig_take(&r, 0, y, &why) == PROPANE_OK;
    for (int k = 0; k < 32 && right; k++) right = y[k] == (float)k - 1;
    rig_close(&r);
    probe_value(out, "row_of_16_bytes_takes", (double)row);
    probe_say(out, "answer",
              "inputs of different sizes: %s; made equal: %s; rows of 16 bytes are %lld bytes apart, and the values "
              "read are %s",
              any ? "taken" : "refused", even ? "taken" : "refused", row, right ? "right" : "wrong");
    return PROPANE_OK;
}

propane_status probe_ask_unused(probe_target *t, json_t *out, propane_error *err) {
    static float x[N], y[N];
    const float *in[] = {x, x};
    static const char body[] =
        T " spare, " T " x) {\n        " T " y = add(x = x, y = x)[name = string(\"y\")];\n    } -> (y);\n";
    for (int k = 0; k < N; k++) x[k] = 2;
    PROPANE_TRY(probe_run(t, t->uri, body, in, y, err));
    probe_say(out, "answer", "a program with an unused input gives the %s result", y[0] == 4 ? "right" : "wrong");
    return PROPANE_OK;
}

/* Runs a trial on each route; the driver uses the result from then on. */
static propane_status selftest_engine_ask_routes(propane_status (*trial)(int route, text *answer, propane_error *err),
                                                 json_t *out) {
    static const char *const routes[] = {"memory", "client"};
    for (int k = 0; k < 2; k++) {
        text words = {0};
        propane_error why = {0};
        bool tried = trial(k, &words, &why) == PROPANE_OK;
        probe_say(out, routes[k], "%s", tried ? words.data : why.text);
        if (k == 0) probe_say(out, "answer", "%s", tried ? words.data : why.text);
        text_deinit(&words);
    }
    return PROPANE_OK;
}

propane_status probe_ask_ways(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_ask_routes(ane_try_ways, out);
}
propane_status probe_ask_sizes(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_ask_routes(ane_try_sizes, out);
}
propane_status probe_ask_keeping(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_ask_routes(ane_try_keeping, out);
}

/* Compiles three functions together, each with a different constant. *report states whether they became procedures of
 * one program. */
static propane_status selftest_engine_compile_three(const char *uri, propane_compile_report *report,
                                                    propane_error *err) {
    propane_module *modules[3] = {NULL};
    propane_compile_item items[3] = {{NULL}};
    propane_device *d = NULL;
    propane_status status = propane_device_open(uri, &d, err);
    for (int k = 0; k < 3 && status == PROPANE_OK; k++) {
        status = selftest_engine_times(k + 2, &modules[k], err);
        items[k].module = modules[k];
    }
    if (status == PROPANE_OK) status = propane_program_compile_all(d, items, 3, NULL, report, err);
    for (int k = 0; k < 3; k++) {
        propane_program_free(items[k].program);
        propane_module_free(modules[k]);
    }
    propane_device_close(d);
    return status;
}

propane_status probe_ask_procedures(probe_target *t, json_t *out, propane_error *err) {
    static const char *const routes[] = {"memory", "client"};
    char uri[200];
    for (int k = 0; k < 2; k++) {
        propane_compile_report report = {.size = sizeof report};
        propane_error why = {0};
        propane_status status =
            selftest_engine_compile_three(probe_uri(t, routes[k], "procedures=auto", uri), &report, &why);
        const char *words = status == PROPANE_OK ? report.how : why.text;
        probe_say(out, routes[k], "%s", words);
        if (status != PROPANE_OK || !report.procedures) t->refused = true;
        if (k == 0) probe_say(out, "answer", "%s", words);
    }
    return PROPANE_OK;
}

propane_status probe_ask_statistics(probe_target *t, json_t *out, propane_error *err) {
    rig_time time;
    PROPANE_TRY(sweep_engine(t->uri, 200000000, &time, err));
    probe_value(out, "host_us", (double)time.best_ns / 1000);
    if (time.engine_ns >= 0) {
        probe_value(out, "engine_us", (double)time.engine_ns / 1000);
        probe_say(out, "answer", "yes: %.2f us of %.2f", (double)time.engine_ns / 1000, (double)time.best_ns / 1000);
    } else {
        probe_say(out, "answer", "not reported by this engine");
    }
    return PROPANE_OK;
}

static propane_status selftest_engine_ask_trial(propane_status (*trial)(text *answer, propane_error *err), json_t *out,
                                                propane_error *err) {
    text answer = {0};
    propane_status status = trial(&answer, err);
    if (status == PROPANE_OK) probe_say(out, "answer", "%s", answer.data ? answer.data : "");
    text_deinit(&answer);
    return status;
}

propane_status probe_ask_events(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_ask_trial(ane_try_events, out, err);
}

propane_status probe_ask_chaining(probe_target *t, json_t *out, propane_error *err) {
    return selftest_engine_ask_trial(ane_try_chaining, out, err);
}

/* Lists the names that are missing or have other types, and returns their number. The list is most useful where the
 * device cannot be used. */
static int selftest_engine_list_names(json_t *out) {
    text list = {0};
    json_t *missing = json_array();
    ane_api_list(&list);
    for (char *line = list.data; line && *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "missing", 7) == 0 || strncmp(line, "differs", 7) == 0)
            json_add(missing, json_bytes(line, length));
        line += length + (line[length] == '\n');
    }
    const int count = (int)json_array_size(missing);
    json_put(out, "missing", missing);
    text_deinit(&list);
    return count;
}

static propane_status selftest_engine_describe_other(const probe_target *t, json_t *out, propane_error *err) {
    propane_device *d = NULL;
    PROPANE_TRY(propane_device_open(t->uri, &d, err));
    const propane_device_info *info = propane_device_describe(d);
    json_put(out, "simulated", json_boolean(info->simulated));
    probe_say(out, "answer", "%s", info->summary);
    propane_device_close(d);
    return PROPANE_OK;
}

static void selftest_engine_describe_dies(const ane_api *a, json_t *out) {
    char words[100];
    void *pool = a->objc_autoreleasePoolPush();
    ane_id info = ANE_CLASS(a, device_info);
    if (ANE_HAS(a, engines)) json_put(out, "numANEs", json_integer(ANE_SEND0(a, engines, info)));
    if (ANE_HAS(a, sub_type) && ane_text_of(a, ANE_SEND0(a, sub_type, info), words, sizeof words))
        probe_say(out, "aneSubType", "%s", words);
    a->objc_autoreleasePoolPop(pool);
}

propane_status probe_ask_machine(probe_target *t, json_t *out, propane_error *err) {
    char architecture[60] = "?", build[60] = "?";
    int64_t cores = 0;
    const ane_api *a;
    propane_error why = {0};
    if (!t->is_ane) return selftest_engine_describe_other(t, out, err);
    const int missing = selftest_engine_list_names(out);
    probe_note(out);
    const bool usable = ane_api_get(&a, &why) == PROPANE_OK;
    json_put(out, "usable", json_boolean(usable));
    if (!usable) {
        probe_say(out, "why", "%s", why.text);
        probe_say(out, "answer",
                  "the device cannot be used: %s; %d of the names that the driver uses are missing or differ", why.text,
                  missing);
        return PROPANE_OK;
    }
    ane_machine(a, architecture, &cores, build);
    probe_say(out, "architecture", "%s", architecture);
    probe_say(out, "build", "%s", build);
    probe_value(out, "cores", (double)cores);
    selftest_engine_describe_dies(a, out);
    for (int route = 0; route < 2; route++)
        probe_say(out, route ? "client" : "memory", "%s",
                  a->route[route].status == PROPANE_OK ? "there" : a->route[route].text);
    probe_say(out, "answer",
              "%s, %d cores, system build %s; %d names that the driver can do without are missing or differ",
              architecture, (int)cores, build, missing);
    return PROPANE_OK;
}

void probe_list_symbols(void) {
    text t = {0};
    ane_api_list(&t);
    if (t.data) fputs(t.data, stdout);
    text_deinit(&t);
}
