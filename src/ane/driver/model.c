/* SPDX-License-Identifier: MIT
 * Owns compiled programs: both routes from a source to a loaded model, the process's compile budget, and what is
 * dropped once a program is loaded.
 *
 *   memory   _ANEInMemoryModelDescriptor -> _ANEInMemoryModel; files at the model's own localModelPath, and where the
 *            system's temporary folder would have it, if that is another place
 *   client   _ANEModel at a folder of the driver -> _ANEClient. Of an _ANEInMemoryModel, the client never gets anything
 *            but the inner _ANEModel
 *
 * A program that the system has compiled before is loaded without a compile and does not use the budget. After a failed
 * compile, the next compile waits, because the shared compiler service returns unreliable answers for some seconds
 * (C3). A load is retried for six seconds if the system reports that this may help, because all processes of a machine
 * share its slots for programs. A compile beyond the budget is refused, because the system would fail without giving a
 * reason (C1).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "ane/driver/ane.h"
#include "ane/driver/ane_lab.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/base/temporary.h"
#include "core/base/text.h"

enum {
    FIRST_RETRY_MS = 100, /* doubled each time */
    LOAD_TRIES = 7,
    MANY_LOADED = 58, /* half of the slots that a machine has been seen to have */
    STATISTICS_MASK = 1 /* execution time */,
    NAME_BYTES = 400,
    REASON_BYTES = 700,
    POSIX_PATH = 0
};

/* Waits for `ns` nanoseconds. Returns early with PROPANE_ERR_CANCELLED if the host requests a stop. */
static propane_status model_wait(int64_t ns, const char *name, propane_error *err) {
    poll_scope scope;
    bool ended = false;
    poll_begin(&scope);
    for (int64_t until = clock_ns() + ns, left = ns; left > 0 && !(ended = poll_stop()); left = until - clock_ns()) {
        int64_t slice = left < POLL_MS * INT64_C(1000000) ? left : POLL_MS * INT64_C(1000000);
        nanosleep(&(struct timespec){.tv_nsec = (long)slice}, NULL);
    }
    return poll_end(&scope,
                    ended ? propane_fail(err, PROPANE_ERR_CANCELLED, "ane: stopped while '%s' was waiting", name)
                          : PROPANE_OK,
                    err);
}

/* ---- the process ------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t process_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t compile_mutex = PTHREAD_MUTEX_INITIALIZER;
static int compiles;
static atomic_int loaded; /* number of programs that are loaded now */
static int64_t pause_until;

int ane_compile_count(void) {
    pthread_mutex_lock(&process_mutex);
    int count = compiles;
    pthread_mutex_unlock(&process_mutex);
    return count;
}

static propane_status model_take_compile(const ane_options *o, const char *name, propane_error *err) {
    pthread_mutex_lock(&process_mutex);
    propane_status status = PROPANE_OK;
    int64_t wait = pause_until - clock_ns();
    if (o->budget && compiles >= o->budget)
        status = propane_fail(
            err, PROPANE_ERR_LIMIT,
            "ane: '%s' would be compile %d of this process, and after about %d the compiler fails without "
            "giving a reason (C1): use --weights inputs, or write a checkpoint and exec() the process again",
            name, compiles + 1, o->budget);
    else
        compiles++;
    pthread_mutex_unlock(&process_mutex);
    return status == PROPANE_OK ? model_wait(wait, name, err) : status;
}

static void model_compile_failed(const ane_options *o) {
    pthread_mutex_lock(&process_mutex);
    pause_until = clock_ns() + (int64_t)o->pause_s * 1000000000;
    pthread_mutex_unlock(&process_mutex);
}

/* ---- parts shared by both routes --------------------------------------------------------------------------------- */

typedef struct job {
    const ane_api *a;
    const ane_options *o;
    const ane_source *s;
    const char *name;
    ane_model *m;
} job;

static bool model_call_exists(const job *j) {
    if (j->o->route == ANE_ROUTE_MEMORY)
        return ANE_HAS(j->a, memory_exists) && ANE_SEND0(j->a, memory_exists, j->m->object);
    return ANE_HAS(j->a, client_exists) && ANE_SEND(j->a, client_exists, j->m->client, j->m->object);
}

/* Returns a dictionary of `count` pairs, and releases the keys and values. Returns NULL if memory runs out. */
static ane_id model_make_pairs(const ane_api *a, ane_id *key, ane_id *value, int count) {
    ane_id all = NULL;
    bool made = true;
    for (int i = 0; i < count; i++) made = made && key[i] && value[i];
    if (made) all = ane_dictionary(a, (const void *const *)(const void *)key, value, count);
    for (int i = 0; i < count; i++) {
        ane_release(a, key[i]);
        ane_release(a, value[i]);
    }
    return all;
}

/* Returns the client's compile options, which name the model type and the program's file. */
static ane_id model_client_options(const ane_api *a) {
    ane_id key[2] = {ane_string(a, "kANEFModelType"), ane_string(a, "kANEFNetPlistFilenameKey")},
           value[2] = {ane_string(a, "kANEFModelMIL"), ane_string(a, "model.mil")};
    return model_make_pairs(a, key, value, 2);
}

static bool model_call_compile(const job *j, ane_id *error) {
    uint32_t qos = (uint32_t)j->o->qos;
    if (j->o->route == ANE_ROUTE_MEMORY) return ANE_SEND(j->a, memory_compile, j->m->object, qos, j->a->empty, error);
    ane_id options = model_client_options(j->a);
    bool done = options && ANE_SEND(j->a, client_compile, j->m->client, j->m->object, options, qos, error);
    ane_release(j->a, options);
    return done;
}

static bool model_call_load(const job *j, ane_id *error) {
    uint32_t qos = (uint32_t)j->o->qos;
    if (j->o->route == ANE_ROUTE_MEMORY) return ANE_SEND(j->a, memory_load, j->m->object, qos, j->a->empty, error);
    return ANE_SEND(j->a, client_load, j->m->client, j->m->object, j->a->empty, qos, error);
}

static size_t model_folder_length(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

/* Writes a hint if TMPDIR is not the user's own folder and may explain the error. One client reports that nothing
 * compiles then on macOS 27 (F5). */
static void model_say_foreign_tmpdir(const job *j, ane_id error, char *out, size_t size) {
    enum { FILES = 10 };
    ane_failure f;
    char own[ANE_PATH_BYTES];
    const char *set = getenv("TMPDIR");
    ane_error_read(j->a, error, &f);
    if (f.code != FILES || !set || !*set || j->o->route != ANE_ROUTE_MEMORY ||
        !ane_text_of(j->a, j->a->NSTemporaryDirectory(), own, sizeof own))
        return;
    const size_t length = model_folder_length(set);
    if (length == model_folder_length(own) && strncmp(set, own, length) == 0) return;
    snprintf(out, size, "; TMPDIR is %.200s, not the user's own folder %.200s: unset it and try again (F5)", set, own);
}

static propane_status model_compile(const job *j, propane_error *err) {
    char reason[REASON_BYTES], late[500] = "";
    ane_id error = NULL;
    PROPANE_TRY(model_take_compile(j->o, j->name, err));
    if (model_call_compile(j, &error)) return PROPANE_OK;
    model_compile_failed(j->o);
    const char *other = ane_folder_other(j->m->folder);
    if (ane_compile_count() > ANE_BUDGET) /* since macOS 27 there is no limit, as far as is known */
        snprintf(late, sizeof late,
                 "; more than %d compiles in one process have failed without giving a reason (C1): use budget=%d",
                 ANE_BUDGET, ANE_BUDGET);
    else
        model_say_foreign_tmpdir(j, error, late, sizeof late);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "ane: Apple's compiler refuses '%s' (compile %d of this process): %s%s%s%.250s%s%.250s",
                        j->name, ane_compile_count(), ane_reason(j->a, error, reason, sizeof reason), late,
                        *other ? "; the system reports two folders for it: " : "",
                        *other ? ane_folder_path(j->m->folder) : "", *other ? " and " : "", other);
}

/* Requests statistics before the load. Afterwards, model_keeps_mask shows whether the engine keeps the mask. */
static void model_ask_for_statistics(const job *j) {
    if (!j->o->statistics) return;
    if (j->o->route == ANE_ROUTE_MEMORY && ANE_HAS(j->a, memory_set_mask))
        ANE_SEND(j->a, memory_set_mask, j->m->object, (uint32_t)STATISTICS_MASK);
    if (j->o->route == ANE_ROUTE_CLIENT && ANE_HAS(j->a, model_set_mask))
        ANE_SEND(j->a, model_set_mask, j->m->object, (uint32_t)STATISTICS_MASK);
}

static bool model_keeps_mask(const job *j) {
    if (!j->o->statistics) return false;
    if (j->o->route == ANE_ROUTE_MEMORY)
        return ANE_HAS(j->a, memory_mask) && ANE_SEND0(j->a, memory_mask, j->m->object) != 0;
    return ANE_HAS(j->a, model_mask) && ANE_SEND0(j->a, model_mask, j->m->object) != 0;
}

/* Reports a failed load. If all slots are taken, the advice depends on which processes hold them. */
static propane_status model_fail_load(const job *j, const ane_failure *failure, const char *tried, propane_error *err) {
    char reason[REASON_BYTES], holders[160] = "";
    const int own = atomic_load(&loaded);
    const bool full = ane_failure_no_place(failure);
    if (full)
        snprintf(holders, sizeof holders, "; this process has %d program%s loaded: %s", own, text_plural(own),
                 own < MANY_LOADED ? "other processes use the rest of the engine's slots"
                                   : "it uses most of the slots");
    return propane_fail(err, full ? PROPANE_ERR_LIMIT : PROPANE_ERR_DEVICE,
                        "ane: '%s' compiled but cannot be loaded%s: %s%s", j->name, tried,
                        ane_failure_print(failure, reason, sizeof reason), holders);
}

/* Loads the model, and tries again while the failure is transient. `failure` receives the reason for a failed load. */
static propane_status model_load(const job *j, ane_failure *failure, propane_error *err) {
    char tried[40] = "";
    model_ask_for_statistics(j);
    for (int tries = 1;; tries++) {
        ane_id error = NULL;
        j->m->loaded = model_call_load(j, &error);
        if (j->m->loaded) break;
        ane_error_read(j->a, error, failure);
        if (tries > 1) snprintf(tried, sizeof tried, ", tried %d times", tries);
        if (!failure->transient || tries == LOAD_TRIES) return model_fail_load(j, failure, tried, err);
        PROPANE_TRY(model_wait(((int64_t)FIRST_RETRY_MS << (tries - 1)) * 1000000, j->name, err));
    }
    atomic_fetch_add(&loaded, 1);
    j->m->counts = model_keeps_mask(j);
    return PROPANE_OK;
}

static propane_status model_compile_and_load(const job *j, const ane_model *donor, propane_error *err) {
    propane_error why = {0};
    ane_failure failure = {0};
    if (donor && j->s->weights.length) { /* without weights, the program is the donor itself */
        PROPANE_TRY(ane_folder_patch(j->m->folder, j->s, donor->folder, err));
        return model_load(j, &failure, err);
    }
    if (model_call_exists(j)) { /* compiled before; if it cannot be loaded, it is compiled again */
        propane_status status = model_load(j, &failure, &why);
        if (status == PROPANE_OK) return PROPANE_OK;
        if (failure.transient) return propane_fail(err, status, "%s", why.text);
    }
    PROPANE_TRY(model_compile(j, err));
    return model_load(j, &failure, err);
}

/* ---- the memory route ------------------------------------------------------------------------------------------------------ */

/* Returns {"@model_path/weights/weights2.bin": {"offset": 0, "data": ...}}, or an empty dictionary if there are no
 * weights, never nil (C5). */
static ane_id model_make_weights(const ane_api *a, const ane_source *s) {
    char path[80];
    if (!s->weights.length) return ane_dictionary(a, NULL, NULL, 0);
    snprintf(path, sizeof path, "@model_path/%s", s->weights_path);
    ane_id key[2] = {ane_string(a, "offset"), ane_string(a, "data")},
           value[2] = {ane_number(a, 0), ane_data(a, s->weights.data, s->weights.length)}, name = ane_string(a, path),
           entry = model_make_pairs(a, key, value, 2);
    return model_make_pairs(a, &name, &entry, 1);
}

/* Makes a descriptor, autoreleased. */
static propane_status model_make_descriptor(const job *j, ane_id *out, propane_error *err) {
    const ane_api *a = j->a;
    ane_id program = ane_data(a, j->s->program.data, j->s->program.length), weights = model_make_weights(a, j->s);
    bool made = program && weights;
    *out = made ? ANE_SEND(a, descriptor, ANE_CLASS(a, descriptor), program, weights, NULL) : NULL;
    ane_release(a, program);
    ane_release(a, weights);
    if (!made) return propane_fail_memory(err, j->s->program.length);
    return *out ? PROPANE_OK
                : propane_fail(err, PROPANE_ERR_DEVICE, "ane: '%s': _ANEInMemoryModelDescriptor rejects the program",
                               j->name);
}

/* Sets `path` to the folder that the model reports for its files, and `other` to the model's folder in the system's
 * temporary folder. The framework is reported to look in both folders; as far as anybody has seen, they are the same.
 * TMPDIR affects neither. */
static propane_status model_memory_paths(const job *j, char path[ANE_PATH_BYTES], char other[ANE_PATH_BYTES],
                                         propane_error *err) {
    const ane_api *a = j->a;
    char name[NAME_BYTES] = "", temporary[ANE_PATH_BYTES - NAME_BYTES] = "";
    path[0] = other[0] = 0;
    if (ane_text_of(a, ANE_SEND0(a, memory_name, j->m->object), name, sizeof name) && name[0] && !strchr(name, '/') &&
        ane_text_of(a, a->NSTemporaryDirectory(), temporary, sizeof temporary)) {
        size_t length = strlen(temporary);
        snprintf(other, ANE_PATH_BYTES, "%s%s%s", temporary, length && temporary[length - 1] == '/' ? "" : "/", name);
    }
    if (ANE_HAS(a, memory_path)) (void)ane_text_of(a, ANE_SEND0(a, memory_path, j->m->object), path, ANE_PATH_BYTES);
    if (!path[0]) memcpy(path, other, ANE_PATH_BYTES);
    if (path[0]) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_DEVICE, "ane: '%s': the model reports no folder for its files", j->name);
}

/* Gets the inner model's attributes. Reading the wrapper's attributes has raised an exception on macOS 27, so they are
 * read only if there is no inner model. */
static void model_memory_attributes(const job *j) {
    const ane_api *a = j->a;
    ane_model *m = j->m;
    if (ANE_HAS(a, memory_inner)) m->inner = ANE_SEND0(a, memory_inner, m->object);
    if (m->inner && ANE_HAS(a, model_attributes)) m->attributes = ANE_SEND0(a, model_attributes, m->inner);
    if (!m->inner && ANE_HAS(a, memory_attributes)) m->attributes = ANE_SEND0(a, memory_attributes, m->object);
    if (m->inner && a->classes[ANE_CLASS_client] && ANE_HAS(a, client))
        m->client = ANE_SEND0(a, client, ANE_CLASS(a, client));
}

static propane_status model_memory_create(const job *j, const ane_model *donor, propane_error *err) {
    const ane_api *a = j->a;
    char path[ANE_PATH_BYTES], other[ANE_PATH_BYTES];
    ane_id descriptor = NULL;
    PROPANE_TRY(model_make_descriptor(j, &descriptor, err));
    j->m->object = ANE_SEND(a, memory_model, ANE_CLASS(a, memory_model), descriptor);
    if (!j->m->object)
        return propane_fail(err, PROPANE_ERR_DEVICE, "ane: '%s': _ANEInMemoryModel rejects the descriptor", j->name);
    a->objc_retain(j->m->object);
    PROPANE_TRY(model_memory_paths(j, path, other, err));
    PROPANE_TRY(ane_folder_open(path, &j->m->folder, err));
    PROPANE_TRY(ane_folder_fill(j->m->folder, other, j->s, err));
    PROPANE_TRY(model_compile_and_load(j, donor, err));
    model_memory_attributes(j);
    return PROPANE_OK;
}

/* ---- the client route ------------------------------------------------------------------------------------------------------ */

static ane_id model_make_url(const ane_api *a, const char *path, ane_id *key) {
    *key = ane_string(a, path);
    return *key ? a->CFURLCreateWithFileSystemPath(NULL, *key, POSIX_PATH, 1) : NULL;
}

static propane_status model_client_create(const job *j, const ane_model *donor, propane_error *err) {
    const ane_api *a = j->a;
    char *path = NULL;
    PROPANE_TRY(temporary_scratch("propane-ane", &path, err));
    propane_status status = strlen(path) < ANE_PATH_BYTES
                                ? ane_folder_open(path, &j->m->folder, err)
                                : propane_fail(err, PROPANE_ERR_LIMIT, "TMPDIR is too long: %.200s", path);
    if (status) (void)!file_remove_tree(path, NULL);
    mem_free(path);
    PROPANE_TRY(status);
    PROPANE_TRY(ane_folder_fill(j->m->folder, "", j->s, err));
    ane_id key = NULL, url = model_make_url(a, ane_folder_path(j->m->folder), &key);
    if (url) j->m->object = ANE_SEND(a, model, ANE_CLASS(a, model), url, key);
    if (j->m->object) a->objc_retain(j->m->object);
    ane_release(a, url);
    ane_release(a, key);
    j->m->client = ANE_SEND0(a, client, ANE_CLASS(a, client));
    if (!j->m->object || !j->m->client)
        return propane_fail(err, PROPANE_ERR_DEVICE, "ane: '%s': %s", j->name,
                            j->m->object ? "_ANEClient returns no connection" : "_ANEModel rejects the folder");
    PROPANE_TRY(model_compile_and_load(j, donor, err));
    j->m->inner = j->m->object;
    if (ANE_HAS(a, model_attributes)) j->m->attributes = ANE_SEND0(a, model_attributes, j->m->object);
    return PROPANE_OK;
}

/* ---- both -------------------------------------------------------------------------------------------------------------------- */

propane_status ane_model_create(const ane_api *a, const ane_options *o, const ane_source *s, const ane_model *donor,
                                const char *name, ane_model *out, propane_error *err) {
    *out = (ane_model){.has_weights = s->weights.length > 0};
    job j = {a, o, s, name, out};
    /* Equal programs share a folder, and the system compiles one program at a time. */
    pthread_mutex_lock(&compile_mutex);
    void *pool = a->objc_autoreleasePoolPush();
    propane_status status =
        o->route == ANE_ROUTE_MEMORY ? model_memory_create(&j, donor, err) : model_client_create(&j, donor, err);
    if (out->attributes) a->objc_retain(out->attributes);
    if (out->inner) a->objc_retain(out->inner);
    if (out->client) a->objc_retain(out->client);
    a->objc_autoreleasePoolPop(pool);
    pthread_mutex_unlock(&compile_mutex);
    if (status != PROPANE_OK) ane_model_deinit(a, o, out);
    return status;
}

/* Drops the descriptor and the files, without which a loaded program is reported to work (Epistates/pmetal). Holds the
 * mutex, because other threads may be compiling equal programs. */
void ane_model_trim(const ane_api *a, const ane_options *o, ane_model *m) {
    pthread_mutex_lock(&compile_mutex);
    void *pool = a->objc_autoreleasePoolPush();
    if (o->descriptor == ANE_DROP && o->route == ANE_ROUTE_MEMORY && ANE_HAS(a, memory_set_descriptor))
        ANE_SEND(a, memory_set_descriptor, m->object, NULL);
    if (o->folder == ANE_DROP) ane_folder_empty(m->folder);
    a->objc_autoreleasePoolPop(pool);
    pthread_mutex_unlock(&compile_mutex);
}

/* Removes a program with weights from the system's cache, because it is unlikely to be used again. */
static void model_purge(const ane_api *a, const ane_options *o, const ane_model *m) {
    if (!m->has_weights || ane_folder_shared(m->folder)) return;
    if (o->route == ANE_ROUTE_MEMORY && ANE_HAS(a, memory_purge)) ANE_SEND0(a, memory_purge, m->object);
    if (o->route == ANE_ROUTE_CLIENT && ANE_HAS(a, client_purge)) ANE_SEND(a, client_purge, m->client, m->object);
}

void ane_model_deinit(const ane_api *a, const ane_options *o, ane_model *m) {
    void *pool = a->objc_autoreleasePoolPush();
    ane_id error = NULL;
    if (m->loaded && o->route == ANE_ROUTE_MEMORY)
        (void)ANE_SEND(a, memory_unload, m->object, (uint32_t)o->qos, &error);
    if (m->loaded && o->route == ANE_ROUTE_CLIENT)
        (void)ANE_SEND(a, client_unload, m->client, m->object, a->empty, (uint32_t)o->qos, &error);
    if (m->loaded) {
        model_purge(a, o, m);
        atomic_fetch_sub(&loaded, 1);
    }
    ane_release(a, m->attributes);
    ane_release(a, m->inner);
    ane_release(a, m->client);
    ane_release(a, m->object);
    a->objc_autoreleasePoolPop(pool);
    if (m->folder) ane_folder_close(m->folder);
    *m = (ane_model){0};
}

void ane_model_abandon(ane_model *m) {
    if (m->folder) ane_folder_close(m->folder);
    m->folder = NULL;
}
