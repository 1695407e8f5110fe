/* SPDX-License-Identifier: MIT
 * Owns the questions about a program's files: how many there may be, where they must be, and which users may read them.
 * Other questions are what must be passed to the framework about the files, and what the framework reports.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/ane-lab/probe/lab_recipe.h"
#include "apps/ane-lab/probe/selftest.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "core/base/temporary.h"
#include "core/base/user_cache.h"

typedef struct files_form {
    const char *name;
    int files, records;
    lab_data data;
    bool open_modes;
} files_form;

static int selftest_files_route(const probe_target *t) { return strcmp(t->detail, "client") == 0; }

static propane_status selftest_files_try(probe_target *t, const files_form *f, const char *folder, json_t *out,
                                         text *words, bool *holds, propane_error *err) {
    lab_recipe r;
    propane_status status = lab_recipe_make(&r, selftest_files_route(t), f->files, f->records, 1, true, err);
    if (status == PROPANE_OK) {
        r.p.data = f->data;
        r.p.open_modes = f->open_modes;
        r.p.folder = folder;
        *holds = lab_recipe_try(&r, f->name, out, words);
        if (!*holds) t->refused = true;
    }
    lab_recipe_free(&r);
    return status;
}

static propane_status selftest_files_try_all(probe_target *t, const files_form *forms, int count, json_t *out,
                                             propane_error *err) {
    text words = {0};
    bool holds;
    for (int i = 0; i < count; i++) PROPANE_TRY(selftest_files_try(t, &forms[i], NULL, out, &words, &holds, err));
    lab_recipe_answer(out, &words);
    return PROPANE_OK;
}

/* Begins with programs that are known to be accepted, because after a refusal the compiler may be unreliable (C3). */
propane_status probe_ask_weight_files(probe_target *t, json_t *out, propane_error *err) {
    static const files_form forms[] = {{"1 file, 1 record", 1, 1, LAB_BYTES, false},
                                       {"1 file, 2 records", 1, 2, LAB_BYTES, false},
                                       {"1 file, 4 records", 1, 4, LAB_BYTES, false},
                                       {"1 file, 8 records", 1, 8, LAB_BYTES, false},
                                       {"1 file, 24 records", 1, 24, LAB_BYTES, false},
                                       {"8 files", 8, 8, LAB_BYTES, false},
                                       {"4 files", 4, 4, LAB_BYTES, false},
                                       {"2 files", 2, 2, LAB_BYTES, false}};
    return selftest_files_try_all(t, forms, sizeof forms / sizeof forms[0], out, err);
}

propane_status probe_ask_dictionary(probe_target *t, json_t *out, propane_error *err) {
    static const files_form forms[] = {{"its bytes", 1, 4, LAB_BYTES, false},
                                       {"files that other users may read", 1, 4, LAB_BYTES, true},
                                       {"its digest", 1, 4, LAB_DIGEST, false},
                                       {"no bytes", 1, 4, LAB_NOTHING, false}};
    return selftest_files_try_all(t, forms, sizeof forms / sizeof forms[0], out, err);
}

/* ---- folders ----------------------------------------------------------------------------------------------------------------- */

/* Sets TMPDIR as the question's row requires. Must be called before any of Apple's libraries is loaded. */
static propane_status selftest_files_move_temporary(const probe_target *t, json_t *out, propane_error *err) {
    char *below = NULL;
    if (strcmp(t->detail, "unset") == 0) unsetenv("TMPDIR");
    if (strcmp(t->detail, "tmp") == 0) setenv("TMPDIR", "/tmp", 1);
    if (strcmp(t->detail, "below") == 0) {
        PROPANE_TRY(temporary_scratch("propane-ane", &below, err));
        setenv("TMPDIR", below, 1);
        json_put(out, "folder", json_words(below)); /* the parent removes the folder if this process crashes */
        probe_note(out);
        mem_free(below);
    }
    const char *now = getenv("TMPDIR");
    json_put(out, "TMPDIR", now ? json_words(now) : json_null());
    return PROPANE_OK;
}

/* Records for each part of the program's name whether it is the hash of the text, the hash of nothing, or neither. */
static void selftest_files_print_name(const json_t *form, const lab_recipe *r, json_t *out) {
    static const char nothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const char *hex = json_string_value(json_object_get(form, "hex"));
    char text_hash[65];
    uint8_t digest[32];
    sha256 h;
    sha256_init(&h);
    sha256_update(&h, r->program.data, r->program.length);
    sha256_final(&h, digest);
    sha256_hex(digest, text_hash);
    json_t *parts = json_array();
    for (const char *at = hex; at && *at;) {
        const size_t length = strcspn(at, "_");
        const bool whole = length == 64;
        json_add(parts, json_words(whole && strncmp(at, text_hash, 64) == 0 ? "text"
                                   : whole && strncmp(at, nothing, 64) == 0 ? "nothing"
                                                                            : "other"));
        at += length + (at[length] == '_');
    }
    json_put(out, "name_parts", parts);
}

/* Checks whether the folder that the framework reports is the usual one: the program's name in NSTemporaryDirectory. */
static void selftest_files_compare_folders(const json_t *form, json_t *out, text *words) {
    const char *given = json_string_value(json_object_get(form, "localModelPath")),
               *temporary = json_string_value(json_object_get(form, "temporary")),
               *hex = json_string_value(json_object_get(form, "hex"));
    char meant[1700];
    const size_t length = temporary ? strlen(temporary) : 0;
    snprintf(meant, sizeof meant, "%s%s%s", temporary ? temporary : "",
             length && temporary[length - 1] == '/' ? "" : "/", hex ? hex : "");
    const char *state = !given ? "not reported" : strcmp(given, meant) == 0 ? "the usual one" : "a different one";
    probe_say(out, "place", "%s", state);
    text_printf(words, "the model's folder is %s; ", state);
}

propane_status probe_ask_folder(probe_target *t, json_t *out, propane_error *err) {
    text words = {0};
    lab_recipe r;
    bool there = false;
    PROPANE_TRY(selftest_files_move_temporary(t, out, err));
    propane_status status = lab_recipe_make(&r, 0, 1, 1, 1, true, err);
    if (status == PROPANE_OK) {
        text tried = {0};
        if (!lab_recipe_try(&r, "where it is told", out, &tried)) t->refused = true;
        const json_t *form = json_object_get(out, "where it is told");
        selftest_files_compare_folders(form, out, &words);
        selftest_files_print_name(form, &r, out);
        text_printf(&words, "a program whose files are there%s", tried.data ? strstr(tried.data, "told") + 4 : "");
        text_deinit(&tried);
    }
    lab_recipe_free(&r);
    const char *now = getenv("TMPDIR");
    const files_form moved = {"in TMPDIR", 1, 1, LAB_BYTES, false};
    if (status == PROPANE_OK && now && *now) status = selftest_files_try(t, &moved, now, out, &words, &there, err);
    if (strcmp(t->detail, "below") == 0 && now) (void)rmdir(now);
    lab_recipe_answer(out, &words);
    return status;
}

/* Uses a program without weights whose name is always the same, so the system may still have it from an earlier
 * probe. */
propane_status probe_ask_cache(probe_target *t, json_t *out, propane_error *err) {
    lab_recipe r;
    lab *l = NULL;
    propane_status status = lab_recipe_make(&r, 0, 0, 0, 1, false, err);
    lab_recipe_begin("cache");
    if (status == PROPANE_OK) status = lab_open(&r.p, out, &l, err);
    if (status == PROPANE_OK) {
        const bool there = lab_do(l, LAB_EXISTS, out), loaded = there && lab_do(l, LAB_LOAD, out);
        if (!there) lab_do_all(l, LAB_WRITE, LAB_LOAD, out);
        probe_say(
            out, "answer", there ? "the program of an earlier process is there, and %s" : "%s",
            !there
                ? "there is no program of an earlier process; run this test again to see whether the system keeps them"
            : loaded ? "loads"
                     : "does not load");
        (void)t;
    }
    lab_close(l);
    lab_recipe_free(&r);
    return status;
}

propane_status probe_ask_client_folder(probe_target *t, json_t *out, propane_error *err) {
    char cache[USER_CACHE_PATH_ROOM];
    text words = {0};
    bool holds;
    static const files_form forms[] = {{"in TMPDIR", 1, 2, LAB_BYTES, false},
                                       {"with files that other users may read", 1, 2, LAB_BYTES, true},
                                       {"in /tmp", 1, 2, LAB_BYTES, false},
                                       {"in the user's cache", 1, 2, LAB_BYTES, false}};
    const char *const folders[] = {NULL, NULL, "/tmp", user_cache_path("", cache) ? cache : NULL};
    for (int i = 0; i < 4; i++)
        if (i < 3 || folders[i]) PROPANE_TRY(selftest_files_try(t, &forms[i], folders[i], out, &words, &holds, err));
    lab_recipe_answer(out, &words);
    return PROPANE_OK;
}

/* ---- attributes --------------------------------------------------------------------------------------------------------------- */

propane_status probe_ask_attributes(probe_target *t, json_t *out, propane_error *err) {
    const bool wrapper = strcmp(t->detail, "wrapper") == 0, bare = strcmp(t->detail, "bare") == 0;
    lab_recipe r;
    lab *l = NULL;
    propane_status status = lab_recipe_make(&r, 0, 0, 0, 1, true, err);
    lab_recipe_begin(t->detail);
    if (status == PROPANE_OK) status = lab_open(&r.p, out, &l, err);
    if (status == PROPANE_OK && lab_do_all(l, LAB_EXISTS, LAB_LOAD, out)) {
        const bool dropped = bare && lab_do(l, LAB_DROP_DESCRIPTOR, out);
        probe_note(out);
        const bool given = lab_do(l, wrapper ? LAB_WRAPPER_ATTRIBUTES : LAB_ATTRIBUTES, out);
        probe_say(out, "answer", "%s%s", given ? "its attributes can be read" : "its attributes cannot be read",
                  bare && !dropped ? "; the descriptor could not be dropped" : "");
    } else if (status == PROPANE_OK) {
        probe_say(out, "answer", "the program does not load");
    }
    lab_close(l);
    lab_recipe_free(&r);
    return status;
}
