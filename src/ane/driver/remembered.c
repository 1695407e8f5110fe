/* SPDX-License-Identifier: MIT
 * Owns the file of remembered answers:
 *
 *   {"answers_for": "SYSTEM BUILD, ENGINE, PROPANE VERSION", "memory": {"way": {"is": "direct", "why": "..."}},
 *    "client": {}}
 *
 * The file is read for each question. It is written as a whole under a temporary name and then renamed. A file that
 * cannot be read, or that is from another system, is ignored, and the next answer replaces it.
 */
#include "ane/driver/remembered.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/user_cache.h"

enum { FILE_LIMIT = 1 << 16, KEY_ROOM = 400 };

static const char file_name[] = "engine.json", key_name[] = "answers_for";
static const char *const routes[] = {"memory", "client"};
static const struct {
    const char *id, *words;
} facts[] = {
#define FACT(id, words) {#id, words},
#include "ane/driver/remembered.def"
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* threads of this process write one at a time */

/* Writes the key, which names the system, engine and version for which the answers are valid. */
static void remembered_key(const ane_api *a, char key[KEY_ROOM]) {
    char architecture[60], build[60];
    int64_t cores;
    ane_system_version system;
    ane_machine(a, architecture, &cores, build);
    (void)ane_system(a, &system); /* all zero if unknown */
    snprintf(key, KEY_ROOM, "system %d.%d.%d %s %s, engine %s, propane %s%s%.200s", system.major, system.minor,
             system.patch, system.build, build, architecture, propane_version(), a->library ? ", library " : "",
             a->library ? a->library : "");
}

/* Returns the file's content if it is for this system. Otherwise returns NULL, with the reason or "" in `note`. */
static json_t *remembered_load(const ane_api *a, char note[400]) {
    char path[USER_CACHE_PATH_ROOM], key[KEY_ROOM];
    json_t *all = NULL;
    propane_error why = {0};
    *note = 0;
    if (!user_cache_path(file_name, path) || !file_exists(path)) return NULL;
    const char *of = NULL;
    propane_status status = json_read(path, FILE_LIMIT, &all, &why);
    if (status == PROPANE_OK) status = json_get_text(all, path, key_name, true, &of, &why);
    remembered_key(a, key);
    if (status == PROPANE_OK && strcmp(of, key) == 0) return all;
    if (status == PROPANE_OK)
        snprintf(note, 400, "the cached trial results of the engine are not used: they are for %.120s, not for %.120s",
                 of, key);
    else
        snprintf(note, 400, "the cached trial results of the engine are not used: %.300s", why.text);
    json_decref(all);
    return NULL;
}

static json_t *remembered_entry(const json_t *all, int route, ane_fact fact) {
    return json_object_get(json_object_get(all, routes[route]), facts[fact].id);
}

bool ane_remembered(const ane_api *a, int route, ane_fact fact, ane_answer *out) {
    char note[400];
    json_t *all = remembered_load(a, note);
    const json_t *entry = remembered_entry(all, route, fact);
    const char *word = json_string_value(json_object_get(entry, "is")),
               *detail = json_string_value(json_object_get(entry, "why"));
    *out = (ane_answer){0};
    bool known = word && *word && strlen(word) < sizeof out->word;
    if (known) {
        snprintf(out->word, sizeof out->word, "%s", word);
        snprintf(out->detail, sizeof out->detail, "%s", detail ? detail : "");
    }
    json_decref(all);
    return known;
}

bool ane_remembered_yes(const ane_api *a, int route, ane_fact fact) {
    ane_answer answer;
    return ane_remembered(a, route, fact, &answer) && strcmp(answer.word, "yes") == 0;
}

static propane_status remembered_write(const json_t *all, propane_error *err) {
    char folder[USER_CACHE_PATH_ROOM], path[USER_CACHE_PATH_ROOM];
    if (!user_cache_path("", folder) || !user_cache_path(file_name, path))
        return propane_fail(
            err, PROPANE_ERR_IO,
            "ane: the trial results of the engine cannot be cached: neither HOME nor XDG_CACHE_HOME names a folder");
    PROPANE_TRY(file_make_dir(folder, err));
    return json_write(path, all, JSON_INDENT(2), err);
}

propane_status ane_remember(const ane_api *a, int route, ane_fact fact, const char *word, const char *detail,
                            propane_error *err) {
    char note[400], key[KEY_ROOM];
    pthread_mutex_lock(&mutex);
    json_t *all = remembered_load(a, note), *entry = json_object();
    if (!all) {
        all = json_object();
        remembered_key(a, key);
        json_put(all, key_name, json_words(key));
    }
    if (!json_is_object(json_object_get(all, routes[route]))) json_put(all, routes[route], json_object());
    json_put(entry, "is", json_words(word));
    json_put(entry, "why", json_words(detail));
    json_put(json_object_get(all, routes[route]), facts[fact].id, entry);
    propane_status status = remembered_write(all, err);
    json_decref(all);
    pthread_mutex_unlock(&mutex);
    return status;
}

propane_status ane_forget(bool *there, propane_error *err) {
    char path[USER_CACHE_PATH_ROOM];
    *there = user_cache_path(file_name, path) && unlink(path) == 0;
    if (*there || !user_cache_path(file_name, path) || errno == ENOENT || errno == ENOTDIR) return PROPANE_OK;
    return file_fail(err, "remove", path, errno);
}

void ane_remembered_note(const ane_api *a, char note[400]) { json_decref(remembered_load(a, note)); }

void ane_remembered_list(const ane_api *a, text *out) {
    char note[400];
    json_t *all = remembered_load(a, note);
    if (*note) text_printf(out, "%s\n", note);
    for (int route = 0; route < 2; route++)
        for (int fact = 0; fact < ANE_FACT_COUNT; fact++) {
            const json_t *entry = remembered_entry(all, route, (ane_fact)fact);
            const char *word = json_string_value(json_object_get(entry, "is"));
            if (word) text_printf(out, "%s: %s: %s\n", routes[route], facts[fact].words, word);
        }
    json_decref(all);
}
