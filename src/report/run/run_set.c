/* SPDX-License-Identifier: MIT
 * Owns the summary of a run and the comparison of settings. Reads logs and train.json files, and writes no files.
 */
#include "report/run/run_set.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/memory.h"

static const char *run_set_last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

propane_status run_set_open(run_set *s, const char *const *dirs, int count, propane_error *err) {
    *s = (run_set){0};
    if (count > RUN_SET_MOST)
        return propane_fail(err, PROPANE_ERR_INVALID, "%d runs were given; the maximum is %d", count, RUN_SET_MOST);
    s->runs = mem_array((size_t)count, sizeof *s->runs);
    if (!s->runs) return propane_fail_memory(err, (size_t)count * sizeof *s->runs);
    for (; s->count < count; s->count++) {
        run_seen *r = &s->runs[s->count];
        *r = (run_seen){.dir = dirs[s->count], .name = run_set_last_part(dirs[s->count]), .state = "interrupted"};
        if (!(r->log = run_log_path(r->dir, RUN_LOG))) return propane_fail_memory(err, strlen(r->dir));
    }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (k != i && strcmp(run_set_last_part(dirs[i]), run_set_last_part(dirs[k])) == 0)
                s->runs[i].name = dirs[i];
    return PROPANE_OK;
}

void run_set_close(run_set *s) {
    for (int i = 0; i < s->count; i++) {
        run_history_deinit(&s->runs[i].history);
        mem_free(s->runs[i].log);
    }
    mem_free(s->runs);
    *s = (run_set){0};
}

/* Returns whether a process holds a lock on the folder, which it does while it trains there. */
static bool run_set_is_locked(const char *dir) {
    const int fd = open(dir, O_RDONLY | O_CLOEXEC);
    const bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return held;
}

static const char *run_set_state_of(const run_seen *r) {
    const char *state = r->history.state;
    if (strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "stopped") == 0) return state;
    return run_set_is_locked(r->dir) ? "running" : "interrupted";
}

/* ---- the summary ------------------------------------------------------------------------------------------------------------ */

static double run_set_least(double a, double b) { return isnan(a) ? b : fmin(a, b); }

/* Returns the lowest mean loss over a twentieth of the steps, because the losses of single steps are too noisy. */
static double run_set_best_stretch(const run_history *h) {
    const int64_t part = h->count / 20 > 0 ? h->count / 20 : 1;
    double sum = 0, best = NAN;
    int64_t n = 0;
    for (int64_t i = 0; i < h->count; i++) {
        const double gone = i >= part ? h->points[i - part].loss : NAN;
        if (isfinite(gone)) sum -= gone, n--;
        if (isfinite(h->points[i].loss)) sum += h->points[i].loss, n++;
        if (i + 1 >= part && n > 0) best = run_set_least(best, sum / (double)n);
    }
    return best;
}

static void run_set_sum_points(const run_history *h, run_summary *s) {
    double watts = 0, speed = 0, device = 0;
    int64_t speeds = 0, watted = 0, devices = 0;
    for (int64_t i = 0; i < h->count; i++) {
        const run_point *p = &h->points[i];
        if (isfinite(p->loss) && isnan(s->first)) s->first = p->loss;
        if (isfinite(p->tokens_per_s)) speed += p->tokens_per_s, speeds++;
        if (isfinite(p->memory)) s->memory = isnan(s->memory) ? p->memory : fmax(s->memory, p->memory);
        if (isfinite(p->device_ms)) device += p->device_ms, devices++;
        if (isfinite(p->watts)) watts += p->watts, watted++;
        if (isfinite(p->seconds)) s->seconds = p->seconds;
    }
    if (speeds) s->speed = speed / (double)speeds;
    if (watted) s->watts = watts / (double)watted;
    if (devices) s->device_ms = device / (double)devices;
    for (int i = 0; i < ENERGY_PARTS; i++) s->joules[i] = run_history_step_joules(h, (energy_part)i);
}

/* Returns the mean of the last 20 speeds, so that a single slow step does not alarm the reader. */
static double run_set_recent_speed(const run_history *h) {
    double sum = 0;
    int n = 0;
    for (int64_t i = h->count - 1; i >= 0 && n < 20; i--)
        if (isfinite(h->points[i].tokens_per_s)) sum += h->points[i].tokens_per_s, n++;
    return n ? sum / n : NAN;
}

static void run_set_summarise(run_seen *r) {
    const run_history *h = &r->history;
    run_summary *s = &r->summary;
    for (size_t i = 0; i < sizeof *s / sizeof(double); i++) memcpy((double *)s + i, &(double){NAN}, sizeof(double));
    s->planned = run_history_number(h, "steps", NAN);
    const double each = run_history_number(h, "tokens_per_step", NAN);
    if (h->count) s->steps = (double)h->points[h->count - 1].step;
    s->tokens = s->steps * each;
    run_set_sum_points(h, s);
    s->last = run_history_smooth(h);
    s->best = run_set_best_stretch(h);
    for (int64_t i = 0; i < h->value_count; i++) {
        const run_value *v = &h->values[i];
        s->val_last = v->loss;
        if (!isfinite(v->loss) || v->loss >= s->val_best) continue;
        s->val_best = v->loss, s->val_step = (double)v->step, s->per_byte = v->per_byte;
    }
    const bool goes_on = strcmp(r->state, "running") == 0;
    if (goes_on) s->speed = run_set_recent_speed(h);
    if (s->speed > 0) s->step_ms = 1000 * each / s->speed;
    if (!goes_on) return;
    if (s->speed > 0 && s->planned > s->steps) s->left = (s->planned - s->steps) * each / s->speed;
}

propane_status run_set_read(run_set *s, propane_error *err) {
    bool more;
    for (int i = 0; i < s->count; i++) {
        run_seen *r = &s->runs[i];
        PROPANE_TRY(run_history_read(&r->history, r->log, &more, err));
        r->state = run_set_state_of(r);
        run_set_summarise(r);
    }
    return PROPANE_OK;
}

bool run_set_goes_on(const run_set *s) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->runs[i].state, "running") == 0) return true;
    return false;
}

/* ---- settings --------------------------------------------------------------------------------------------------------------- */

/* Returns whether a key is a setting, and not a fact about the time or the place of a run. */
static bool run_set_is_setting(const char *key) {
    static const char *const others[] = {"event", "time", "command", "tokens_per_step", "run", "unit"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(key, others[i]) == 0) return false;
    return strncmp(key, "machine_", 8) != 0;
}

static void run_set_take_settings(json_t *into, const json_t *from) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value) {
        char name[64];
        size_t n = 0;
        for (; key[n] && n < sizeof name - 1; n++) name[n] = key[n] == '_' ? '-' : key[n];
        name[n] = 0;
        if (run_set_is_setting(key)) json_put(into, name, json_incref(value));
    }
}

bool run_set_settings(const run_set *s, json_t *settings[RUN_SET_MOST]) {
    bool ok = true;
    for (int i = 0; i < s->count; i++) {
        propane_error none = {0};
        json_t *flags = NULL;
        char *path = run_log_path(s->runs[i].dir, "train.json");
        ok = (settings[i] = json_object()) && path && ok;
        const propane_status status = path ? json_read(path, 1 << 20, &flags, &none) : PROPANE_OK;
        if (status != PROPANE_OK) flags = NULL; /* the log contains most of the settings */
        ok = ok && status != PROPANE_ERR_MEMORY;
        run_set_take_settings(settings[i], flags);
        run_set_take_settings(settings[i], s->runs[i].history.start);
        json_decref(flags);
        mem_free(path);
    }
    return ok;
}

static bool run_set_is_same(json_t *const settings[], int count, const char *key) {
    const json_t *first = json_object_get(settings[0], key);
    for (int i = 1; i < count; i++) {
        const json_t *own = json_object_get(settings[i], key);
        const bool numbers = json_is_number(first) && json_is_number(own);
        if (numbers ? json_number_value(first) != json_number_value(own) : !first || !json_equal(first, own))
            return first == own; /* equal only if both are missing */
    }
    return true;
}

json_t *run_set_differing(json_t *const settings[], int count) {
    json_t *list = json_array(), *seen = json_object();
    for (int i = 0; i < count; i++) {
        const char *key;
        json_t *value;
        json_object_foreach(settings[i], key, value) {
            if (json_object_get(seen, key)) continue;
            json_put(seen, key, json_true());
            if (!run_set_is_same(settings, count, key)) json_add(list, json_words(key));
        }
    }
    json_decref(seen);
    return list;
}

void run_set_print_setting(const json_t *value, char out[160]) {
    const size_t room = 160;
    size_t used = 0, i;
    const json_t *part;
    out[0] = 0;
    if (json_is_integer(value)) snprintf(out, room, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) snprintf(out, room, "%.6g", json_real_value(value));
    if (json_is_boolean(value)) snprintf(out, room, "%s", json_is_true(value) ? "yes" : "no");
    if (json_is_string(value)) text_harmless(out, room, json_string_value(value), json_string_length(value), "");
    if (!json_is_array(value)) return;
    json_array_foreach(value, i, part) {
        char one[160];
        run_set_print_setting(part, one);
        if (used + strlen(one) + 2 > room) break;
        used += (size_t)snprintf(out + used, room - used, "%s%s", used ? " " : "", one);
    }
}
