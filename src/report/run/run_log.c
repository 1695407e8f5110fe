/* SPDX-License-Identifier: MIT
 * Owns log.jsonl. Writing never makes the run fail. A record that cannot be written is left out. While the log is read,
 * an incomplete line is kept until its end arrives, and a damaged line is counted and skipped.
 */
#include "report/run/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json_memory.h"
#include "core/base/memory.h"

enum { LONGEST_LINE = 1 << 20 };

double run_peak_memory(void) {
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) != 0) return -1;
#ifdef __APPLE__
    return (double)use.ru_maxrss;
#else
    return (double)use.ru_maxrss * 1024;
#endif
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

static void run_log_lose(run_log *l, int code) {
    if (!l->reported) fprintf(stderr, "propane train: the log, " RUN_LOG ", has gaps: %s\n", strerror(code));
    l->reported = true;
}

char *run_log_path(const char *dir, const char *name) {
    const size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

void run_log_open(run_log *l, const char *dir, bool resume) {
    char *path = run_log_path(dir, RUN_LOG);
    *l = (run_log){0};
    /* O_NOFOLLOW refuses a link. O_NONBLOCK keeps a pipe from waiting for a reader; a pipe is then refused. */
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666) : -1;
    struct stat st;
    errno = path ? errno : ENOMEM;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (resume || ftruncate(fd, 0) == 0))
        l->file = fdopen(fd, "a");
    if (!l->file) run_log_lose(l, fd < 0 || errno ? errno : EINVAL);
    if (!l->file && fd >= 0) close(fd);
    mem_free(path);
}

void run_log_close(run_log *l) {
    if (l->file) fclose(l->file);
    text_deinit(&l->line);
    *l = (run_log){0};
}

static void run_log_put_line(run_log *l) {
    text_append(&l->line, "\n");
    errno = l->line.failed ? ENOMEM : errno;
    if (l->line.failed ||
        (l->file && (fwrite(l->line.data, 1, l->line.length, l->file) != l->line.length || fflush(l->file) != 0)))
        run_log_lose(l, errno);
    if (l->line.failed) text_deinit(&l->line);
    l->line.length = 0;
    mem_forget(); /* run_log_lose has reported that memory ran out */
}

void run_log_write(run_log *l, json_t *object) {
    char *data = NULL;
    propane_error err = {0};
    if (l->file && json_print(object, JSON_COMPACT, &data, NULL, &err) != PROPANE_OK) run_log_lose(l, ENOMEM);
    if (data) {
        text_append(&l->line, data);
        run_log_put_line(l);
    }
    mem_free(data);
    json_decref(object);
}

static void run_log_number(text *out, const char *name, double value) {
    if (!isfinite(value)) return;
    text_printf(out, ",\"%s\":", name);
    text_real(out, 9, value);
}

static void run_log_put_power(text *out, const energy_reading *power) {
    for (int i = 0; power && i < ENERGY_PARTS; i++) {
        char name[20];
        snprintf(name, sizeof name, "%s_j", energy_part_name((energy_part)i));
        if (power->why[i])
            text_printf(out, ",\"%s\":null", name);
        else
            run_log_number(out, name, power->joules[i]);
    }
}

void run_log_step(run_log *l, const propane_step *r, double seconds, const energy_reading *power) {
    if (!l->file) return;
    text_printf(&l->line, "{\"step\":%lld", (long long)r->step);
    run_log_number(&l->line, "loss", r->loss);
    run_log_number(&l->line, "lr", r->lr);
    run_log_number(&l->line, "gradient_norm", r->gradient_norm);
    run_log_number(&l->line, "loss_scale", r->loss_scale);
    run_log_number(&l->line, "tokens_per_s", r->rate);
    run_log_number(&l->line, "device_ms", r->device_ms);
    run_log_number(&l->line, "host_ms", r->host_ms);
    run_log_number(&l->line, "seconds", seconds);
    run_log_number(&l->line, "memory", run_peak_memory());
    if (r->staleness >= 0) text_printf(&l->line, ",\"staleness\":%lld", (long long)r->staleness);
    if (r->staleness >= 0) run_log_number(&l->line, "outer_ms", r->outer_ms);
    if (r->outer_bytes) text_printf(&l->line, ",\"outer_bytes\":%lld", (long long)r->outer_bytes);
    if (r->simulated && r->device_ms > 0) run_log_number(&l->line, "watts", r->energy_j / (r->device_ms / 1e3));
    run_log_put_power(&l->line, power);
    if (r->skipped) text_append(&l->line, ",\"skipped\":true");
    text_append(&l->line, "}");
    run_log_put_line(l);
}

void run_log_evaluation(run_log *l, const propane_evaluation *e) {
    if (!l->file) return;
    text_printf(&l->line, "{\"step\":%lld", (long long)e->step);
    run_log_number(&l->line, "val_loss", e->loss);
    if (e->nats_per_byte >= 0) run_log_number(&l->line, "val_nats_per_byte", e->nats_per_byte);
    if (e->accuracy >= 0) run_log_number(&l->line, "val_accuracy", e->accuracy);
    text_append(&l->line, "}");
    run_log_put_line(l);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

void run_history_deinit(run_history *h) {
    json_decref(h->start);
    json_decref(h->samples);
    mem_free(h->points);
    mem_free(h->values);
    text_deinit(&h->rest);
    *h = (run_history){0};
}

const char *run_history_text(const run_history *h, const char *key, const char *otherwise) {
    const char *value = json_string_value(json_object_get(h->start, key));
    return value ? value : otherwise;
}

double run_history_number(const run_history *h, const char *key, double otherwise) {
    const json_t *value = json_object_get(h->start, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

double run_history_smooth(const run_history *h) {
    const int64_t part = h->count / 20 > 0 ? h->count / 20 : 1;
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = h->count - 1; i >= 0 && n < part; i--)
        if (isfinite(h->points[i].loss)) sum += h->points[i].loss, n++;
    return n ? sum / (double)n : NAN;
}

static double run_log_get(const json_t *o, const char *key) {
    const json_t *value = json_object_get(o, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void run_log_take_power(run_point *p, const json_t *o) {
    for (int i = 0; i < ENERGY_PARTS; i++) {
        char name[20];
        snprintf(name, sizeof name, "%s_j", energy_part_name((energy_part)i));
        p->powered |= json_object_get(o, name) != NULL;
        p->joules[i] = run_log_get(o, name);
    }
}

static double run_history_mean_joules(const run_history *h, int64_t first, int64_t end, int part) {
    double sum = 0;
    int64_t known = 0;
    for (int64_t k = first; k < end; k++)
        if (h->points[k].powered && isfinite(h->points[k].joules[part])) sum += h->points[k].joules[part], known++;
    return known ? sum / (double)known : NAN;
}

double run_history_step_joules(const run_history *h, energy_part part) {
    return run_history_mean_joules(h, 0, h->count, (int)part);
}

bool run_history_joules(const run_history *h, const run_point *of, char out[200]) {
    int64_t first = of ? of - h->points : 0, end = of ? first + 1 : h->count, powered = 0;
    size_t used = 0;
    out[0] = 0;
    for (int64_t k = first; k < end; k++) powered += h->points[k].powered;
    for (int i = 0; powered && i < ENERGY_PARTS && used < 150; i++) {
        const double mean = run_history_mean_joules(h, first, end, i);
        used += (size_t)snprintf(out + used, 200 - used, "%s%s ", used ? ", " : "", energy_part_name((energy_part)i));
        used += (size_t)(isfinite(mean) ? snprintf(out + used, 200 - used, "%.3g J", mean)
                                        : snprintf(out + used, 200 - used, "unknown"));
    }
    return powered > 0;
}

bool run_history_agreement(const run_history *h, run_agreement *out) {
    const double workers = run_history_number(h, "workers", 0);
    *out = (run_agreement){.workers = workers, .last = NAN, .staleness = NAN};
    for (int64_t i = 0; i < h->count; i++) {
        const run_point *p = &h->points[i];
        if (isfinite(p->staleness)) out->staleness = p->staleness, out->stalest = fmax(out->stalest, p->staleness);
        if (isfinite(p->outer_bytes)) out->bytes += p->outer_bytes, out->last = p->outer_bytes;
    }
    out->warmup = run_history_number(h, "data_parallel_steps", 0);
    out->warms = out->warmup > 0 && (!h->count || (double)h->points[h->count - 1].step < out->warmup);
    return workers > 1;
}

/* Removes control characters from the start record, because its texts are printed on a terminal, and another user may
 * have written the log. */
static void run_log_tame(json_t *start) {
    const char *key;
    json_t *value;
    char shown[1000];
    json_object_foreach(start, key, value) {
        if (!json_is_string(value)) continue;
        text_harmless(shown, sizeof shown, json_string_value(value), json_string_length(value), "");
        (void)json_string_set_nocheck(value, shown);
    }
}

static propane_status run_log_take(run_history *h, const json_t *o, propane_error *err) {
    const char *event = json_string_value(json_object_get(o, "event"));
    int64_t step = (int64_t)json_integer_value(json_object_get(o, "step"));
    if (event) {
        const char *state = strcmp(event, "start") == 0 ? "running" : event;
        text_harmless(h->state, sizeof h->state, state, strlen(state), "");
        if (strcmp(event, "start") != 0) return PROPANE_OK;
        json_decref(h->start);
        h->start = json_deep_copy(o);
        run_log_tame(h->start);
        return h->start ? PROPANE_OK : propane_fail_memory(err, 0);
    }
    if (json_is_array(json_object_get(o, "samples"))) {
        json_decref(h->samples);
        h->samples = json_incref(json_object_get(o, "samples"));
    } else if (json_object_get(o, "val_loss")) {
        while (h->value_count > 0 && h->values[h->value_count - 1].step >= step) h->value_count--;
        run_value *values = ARRAY_MORE(h->values, h->value_count, err);
        if (!values) return PROPANE_ERR_MEMORY;
        h->values = values;
        h->values[h->value_count++] =
            (run_value){step, run_log_get(o, "val_loss"), run_log_get(o, "val_nats_per_byte")};
    } else if (json_object_get(o, "step")) { /* the step was repeated after a resume, so earlier records do not count */
        while (h->count > 0 && h->points[h->count - 1].step >= step) h->count--;
        run_point *points = ARRAY_MORE(h->points, h->count, err);
        if (!points) return PROPANE_ERR_MEMORY;
        h->points = points;
        h->points[h->count++] = (run_point){step,
                                            run_log_get(o, "loss"),
                                            run_log_get(o, "lr"),
                                            run_log_get(o, "gradient_norm"),
                                            run_log_get(o, "tokens_per_s"),
                                            run_log_get(o, "device_ms"),
                                            run_log_get(o, "host_ms"),
                                            run_log_get(o, "seconds"),
                                            run_log_get(o, "memory"),
                                            run_log_get(o, "watts"),
                                            run_log_get(o, "outer_bytes"),
                                            run_log_get(o, "staleness"),
                                            .powered = false};
        run_log_take_power(&h->points[h->count - 1], o);
    }
    return PROPANE_OK;
}

static propane_status run_log_take_line(run_history *h, const char *line, size_t length, propane_error *err) {
    const bool longer = h->skipping;
    h->skipping = false;
    if (!length || longer) return PROPANE_OK;
    json_t *o = json_memory_load(line, length, 0, NULL);
    const propane_status status = json_is_object(o) ? run_log_take(h, o, err) : PROPANE_OK;
    h->damaged += !json_is_object(o);
    json_decref(o);
    return status;
}

/* Adds bytes from the file and handles the lines that are complete. Only the new bytes are searched for newlines. A
 * line that is too long is not kept. */
static propane_status run_history_feed(run_history *h, const char *data, size_t length, propane_error *err) {
    const size_t before = h->rest.length;
    text_append_n(&h->rest, data, length);
    if (h->rest.failed) return propane_fail_memory(err, length);
    size_t at = 0;
    for (size_t from = before; from < h->rest.length; from = at) {
        const char *end = memchr(h->rest.data + from, '\n', h->rest.length - from);
        if (!end) break;
        const char *line = h->rest.data + at;
        at = (size_t)(end - h->rest.data) + 1;
        PROPANE_TRY(run_log_take_line(h, line, (size_t)(end - line), err));
    }
    if (at) memmove(h->rest.data, h->rest.data + at, h->rest.length - at);
    h->rest.length -= at;
    if (h->rest.length <= LONGEST_LINE) return PROPANE_OK;
    h->damaged += !h->skipping;
    h->skipping = true;
    text_clear(&h->rest);
    return PROPANE_OK;
}

propane_status run_history_read(run_history *h, const char *path, bool *more, propane_error *err) {
    char block[1 << 16];
    size_t got;
    *more = false;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        if (S_ISDIR(st.st_mode)) return PROPANE_OK; /* run_log_open has already reported a folder of this name */
        return propane_fail(err, PROPANE_ERR_INVALID, "cannot read %s: it is not a file", path);
    }
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "cannot open %s: this folder contains no run with a log", path);
    if (!file) {
        const int code = errno;
        if (fd >= 0) close(fd);
        return propane_fail(err, PROPANE_ERR_IO, "cannot open %s: %s", path, strerror(code));
    }
    propane_status status = PROPANE_OK;
    file_note_input(&st);
    /* a shorter file belongs to a new run in the same folder */
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) < h->offset) run_history_deinit(h);
    if (fseek(file, (long)h->offset, SEEK_SET) != 0)
        status = propane_fail(err, PROPANE_ERR_IO, "cannot read %s: it is not a file", path);
    while (status == PROPANE_OK && (got = fread(block, 1, sizeof block, file)) > 0) {
        h->offset += (int64_t)got;
        *more = true;
        status = run_history_feed(h, block, got, err);
    }
    if (status == PROPANE_OK && ferror(file))
        status = propane_fail(err, PROPANE_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    return status;
}
