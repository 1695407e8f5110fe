/* SPDX-License-Identifier: MIT
 * The cached trial results of the engine: kept between processes, trusted only on this system, and never a reason to
 * fail.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ane/driver/remembered.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/user_cache.h"
#include "support/ane_rig.h"
#include "support/test.h"

static propane_error err;

static const ane_api *fresh(void) {
    const ane_api *a = NULL;
    bool there;
    EXPECT_OK(ane_forget(&there, &err));
    EXPECT_OK(ane_api_get(&a, &err));
    return a;
}

static void write_file(const char *content) {
    char path[USER_CACHE_PATH_ROOM];
    EXPECT(user_cache_path("engine.json", path));
    EXPECT_OK(file_write(path, content, strlen(content), &err));
}

TEST(an_answer_is_kept) {
    const ane_api *a = fresh();
    ane_answer answer;
    bool there;
    EXPECT(!ane_remembered(a, 0, ANE_FACT_way, &answer) && !answer.word[0]);
    EXPECT_OK(ane_remember(a, 0, ANE_FACT_way, "direct", "0.1 ms", &err));
    EXPECT_OK(ane_remember(a, 1, ANE_FACT_sizes, "yes", "", &err));
    EXPECT(ane_remembered(a, 0, ANE_FACT_way, &answer));
    EXPECT_TEXT(answer.word, "direct");
    EXPECT_TEXT(answer.detail, "0.1 ms");
    EXPECT(ane_remembered_yes(a, 1, ANE_FACT_sizes) && !ane_remembered_yes(a, 0, ANE_FACT_sizes));
    EXPECT(!ane_remembered_yes(a, 0, ANE_FACT_way));
    EXPECT_OK(ane_remember(a, 0, ANE_FACT_way, "standard", "", &err));
    EXPECT(ane_remembered(a, 0, ANE_FACT_way, &answer));
    EXPECT_TEXT(answer.word, "standard");
    EXPECT(ane_remembered_yes(a, 1, ANE_FACT_sizes));
    EXPECT_OK(ane_forget(&there, &err));
    EXPECT(there && !ane_remembered(a, 0, ANE_FACT_way, &answer));
    EXPECT_OK(ane_forget(&there, &err));
    EXPECT(!there);
}

/* Each of these is ignored and replaced by the next answer. */
TEST(a_file_that_is_not_understood_is_no_answer) {
    static const struct {
        const char *content, *note;
    } files[] = {
        {"", "are not used: "},
        {"{\"answers_for\": ", "are not used: "},
        {"[1, 2]", "are not used: "},
        {"{\"memory\": {\"sizes\": {\"is\": \"yes\"}}}", "answers_for"},
        {"{\"answers_for\": 7}", "answers_for"},
        {"{\"answers_for\": \"system 1A1\", \"memory\": {\"sizes\": {\"is\": \"yes\"}}}",
         "they are for system 1A1, not for "},
    };
    const ane_api *a = fresh();
    EXPECT_OK(ane_remember(a, 0, ANE_FACT_way, "standard", "", &err)); /* makes the folder */
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char note[400];
        write_file(files[i].content);
        EXPECT(!ane_remembered_yes(a, 0, ANE_FACT_sizes));
        ane_remembered_note(a, note);
        EXPECT_MSG(strstr(note, files[i].note), "%d: %s", (int)i, note);
        EXPECT_OK(ane_remember(a, 0, ANE_FACT_events, "yes", "", &err));
        EXPECT(ane_remembered_yes(a, 0, ANE_FACT_events) && !ane_remembered_yes(a, 0, ANE_FACT_sizes));
        ane_remembered_note(a, note);
        EXPECT_TEXT(note, "");
    }
}

/* Entries in another form are ignored; the rest is valid. */
TEST(strange_entries_are_left_out) {
    const ane_api *a = fresh();
    char path[USER_CACHE_PATH_ROOM], *content = NULL, changed[2000];
    size_t length;
    EXPECT_OK(ane_remember(a, 0, ANE_FACT_folder, "yes", "", &err));
    EXPECT(user_cache_path("engine.json", path));
    EXPECT_OK(file_read(path, 10000, &content, &length, &err));
    const char *memory = strstr(content, "\"memory\"");
    EXPECT(memory);
    snprintf(changed, sizeof changed,
             "%.*s\"client\": 5, \"memory\": {\"way\": [], \"sizes\": {\"is\": 3}, \"events\": {\"is\": "
             "\"a word that is far longer than any\"}, \"folder\": {\"is\": \"yes\", \"why\": 0}, \"x\": {}}}",
             (int)(memory - content), content);
    mem_free(content);
    write_file(changed);
    for (int route = 0; route < 2; route++)
        for (int fact = 0; fact < ANE_FACT_COUNT; fact++) {
            ane_answer answer;
            EXPECT(ane_remembered(a, route, (ane_fact)fact, &answer) == (route == 0 && fact == ANE_FACT_folder));
        }
    EXPECT_OK(ane_remember(a, 1, ANE_FACT_sizes, "yes", "", &err));
    EXPECT(ane_remembered_yes(a, 1, ANE_FACT_sizes) && ane_remembered_yes(a, 0, ANE_FACT_folder));
}

/* Without a writable folder, only the cache fails, and nothing else. */
TEST(without_a_place_nothing_is_remembered) {
    const ane_api *a = fresh();
    ane_answer answer;
    bool there;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    EXPECT(!ane_remembered(a, 0, ANE_FACT_way, &answer));
    EXPECT_FAIL(ane_remember(a, 0, ANE_FACT_way, "direct", "", &err), PROPANE_ERR_IO,
                "neither HOME nor XDG_CACHE_HOME");
    EXPECT_OK(ane_forget(&there, &err));
    setenv("XDG_CACHE_HOME", "/dev/null/x", 1);
    EXPECT(!ane_remembered(a, 0, ANE_FACT_way, &answer));
    EXPECT_FAIL(ane_remember(a, 0, ANE_FACT_way, "direct", "", &err), PROPANE_ERR_IO, "/dev/null");
    EXPECT_OK(ane_forget(&there, &err));
}

TEST(all_answers_are_listed) {
    const ane_api *a = fresh();
    text t = {0};
    EXPECT_OK(ane_remember(a, 1, ANE_FACT_sizes, "no", "0x1d", &err));
    EXPECT_OK(ane_remember(a, 0, ANE_FACT_way, "direct", "", &err));
    ane_remembered_list(a, &t);
    EXPECT_TEXT(t.data, "memory: how a request is evaluated (standard, direct, real-time): direct\n"
                        "client: surfaces of one request may differ in size: no\n");
    text_deinit(&t);
}

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case cases[] = {T(an_answer_is_kept), T(a_file_that_is_not_understood_is_no_answer),
                                      T(strange_entries_are_left_out), T(without_a_place_nothing_is_remembered),
                                      T(all_answers_are_listed)};
    static const test_case none[] = {T(the_stand_in_is_there)};
    if (!ane_rig_enter(argv[0])) return test_main("drivers/ane_remembered", none, 1, argc, argv);
    int code = test_main("drivers/ane_remembered", cases, sizeof cases / sizeof cases[0], argc, argv);
    ane_rig_leave();
    return code;
}
