/* SPDX-License-Identifier: MIT
 * Files and JSON: a written file appears whole or not at all, and each refusal gives the reason.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/checksum.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/temporary.h"
#include "core/base/thread.h"
#include "support/test.h"

static propane_error err;
static char path[1200];

static const char *in_dir(const char *dir, const char *name) {
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int entries(const char *dir) {
    int count = 0;
    DIR *d = opendir(dir);
    while (readdir(d)) count++;
    closedir(d);
    return count - 2;
}

TEST(written_files_read_back) {
    char *dir = test_temp_dir(), *data;
    size_t length;
    EXPECT_OK(file_write(in_dir(dir, "a"), "hello", 5, &err));
    EXPECT_OK(file_read(path, 5, &data, &length, &err));
    EXPECT(length == 5 && strcmp(data, "hello") == 0);
    mem_free(data);
    EXPECT_FAIL(file_read(path, 4, &data, &length, &err), PROPANE_ERR_LIMIT, "has 5 bytes; the limit here is 4");
    EXPECT_OK(file_write(path, "", 0, &err));
    EXPECT_OK(file_read(path, 4, &data, &length, &err));
    EXPECT(length == 0 && data[0] == 0);
    mem_free(data);
    file_map map;
    EXPECT_OK(file_map_open(path, &map, &err));
    EXPECT(map.bytes == 0);
    file_map_close(&map);
    EXPECT(entries(dir) == 1);
    mem_free(dir);
}

TEST(a_writer_can_seek_back_and_is_atomic) {
    char *dir = test_temp_dir();
    file_writer *w;
    EXPECT_OK(file_write(in_dir(dir, "a"), "old", 3, &err));
    EXPECT_OK(file_writer_open(path, &w, &err));
    static char big[200000];
    memset(big, 'x', sizeof big);
    EXPECT_OK(file_writer_write(w, "12345678", 8, &err));
    EXPECT_OK(file_writer_write(w, big, sizeof big, &err));
    EXPECT_OK(file_writer_write(w, "end", 3, &err));
    EXPECT(file_writer_offset(w) == sizeof big + 11);
    EXPECT_OK(file_writer_seek(w, 2, &err));
    EXPECT_OK(file_writer_write(w, "ab", 2, &err));
    file_map map;
    EXPECT_OK(file_map_open(path, &map, &err));
    EXPECT(map.bytes == 3 && memcmp(map.data, "old", 3) == 0);
    file_map_close(&map);
    EXPECT_OK(file_writer_commit(w, &err));
    EXPECT_OK(file_map_open(path, &map, &err));
    EXPECT(map.bytes == sizeof big + 11 && memcmp(map.data, "12ab5678xx", 10) == 0);
    EXPECT(memcmp(map.data + map.bytes - 4, "xend", 4) == 0);
    file_map_close(&map);
    EXPECT_OK(file_writer_open(path, &w, &err));
    EXPECT_OK(file_writer_write(w, "lost", 4, &err));
    file_writer_abort(w);
    EXPECT(entries(dir) == 1);
    mem_free(dir);
}

TEST(refusals_name_path_and_reason) {
    char *dir = test_temp_dir(), *data;
    size_t length;
    file_map map;
    file_writer *w;
    EXPECT_FAIL(file_read(in_dir(dir, "none"), 10, &data, &length, &err), PROPANE_ERR_NOT_FOUND, "none: No such file");
    EXPECT_FAIL(file_map_open(path, &map, &err), PROPANE_ERR_NOT_FOUND, "none: No such file");
    EXPECT_FAIL(file_read(dir, 10, &data, &length, &err), PROPANE_ERR_INVALID, "it is a folder");
    EXPECT_FAIL(file_map_open("/dev/null", &map, &err), PROPANE_ERR_INVALID, "a device or pipe");
    EXPECT_FAIL(file_writer_open(dir, &w, &err), PROPANE_ERR_INVALID, "it is a folder");
    EXPECT_FAIL(file_writer_open("", &w, &err), PROPANE_ERR_INVALID, "empty name");
    EXPECT_FAIL(file_write(in_dir(dir, "no/such/x"), "a", 1, &err), PROPANE_ERR_NOT_FOUND, "no/such/x: No such file");
    EXPECT_FAIL(file_read("/dev/zero", 1000, &data, &length, &err), PROPANE_ERR_INVALID, "a device or pipe");
    EXPECT_FAIL(file_read_stream("/dev/zero", 1000, &data, &length, &err), PROPANE_ERR_INVALID, "it is a device");
    EXPECT_OK(file_read_stream("/dev/null", 1000, &data, &length, &err));
    EXPECT(length == 0);
    mem_free(data);
    mem_free(dir);
}

/* The bytes of a pipe are counted as they arrive. */
TEST(a_pipe_is_read_to_the_limit) {
    err = (propane_error){0};
    static const char bytes[1002];
    for (size_t more = 0; more < 2; more++) {
        char *data = NULL, name[40];
        size_t length = 0;
        int ends[2];
        EXPECT(pipe(ends) == 0 && write(ends[1], bytes, 1000 + more) == (ssize_t)(1000 + more));
        close(ends[1]);
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        if (more)
            EXPECT_FAIL(file_read_stream(name, 1000, &data, &length, &err), PROPANE_ERR_LIMIT,
                        "has more than 1000 bytes");
        else
            EXPECT_OK(file_read_stream(name, 1000, &data, &length, &err));
        EXPECT(length == (more ? 0 : 1000));
        mem_free(data);
        close(ends[0]);
    }
}

TEST(a_full_disk_is_an_error_and_leaves_nothing) {
    char *dir = test_temp_dir();
    const struct rlimit small = {4, 4};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_OK(file_write(in_dir(dir, "a"), "old", 3, &err));
    EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
    EXPECT_FAIL(file_write(path, "hello", 5, &err), PROPANE_ERR_IO, "a: File too large");
    EXPECT(entries(dir) == 1);
    mem_free(dir);
}

/* The name differs each time, is never a link's, and can only be opened by its maker. */
TEST(temporary_names_cannot_be_foretold) {
    char *dir = test_temp_dir(), *names[50];
    int fds[50];
    struct stat st;
    in_dir(dir, "a");
    for (int i = 0; i < 50; i++) {
        EXPECT_OK(i % 2 ? temporary_file(path, &names[i], &fds[i], &err)
                        : temporary_folder(path, &names[i], &fds[i], &err));
        EXPECT(strncmp(names[i], path, strlen(path)) == 0 && lstat(names[i], &st) == 0);
        EXPECT(i % 2 ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode));
        for (int k = 0; k < i; k++) EXPECT(strcmp(names[i], names[k]) != 0);
    }
    temporary_sweep(path); /* all are locked */
    EXPECT(entries(dir) == 50);
    for (int i = 0; i < 50; i++) {
        close(fds[i]);
        temporary_forget(names[i]);
        mem_free(names[i]);
    }
    EXPECT(!temporary_exists());
    temporary_sweep(path);
    EXPECT(entries(dir) == 0);
    char *scratch;
    setenv("TMPDIR", dir, 1);
    EXPECT_OK(temporary_scratch("x", &scratch, &err));
    EXPECT(stat(scratch, &st) == 0 && (st.st_mode & 0777) == 0700);
    EXPECT_FAIL(file_make_private_dir(scratch, &err), PROPANE_ERR_IO, "File exists");
    mem_free(scratch);
    mem_free(dir);
}

/* In a child: files that it is writing are removed, files that its parent is writing stay, and no file gets its final
 * name afterwards. */
static void remove_what_is_mine(const char *dir, bool writes) {
    file_writer *file = NULL;
    folder_writer *folder = NULL;
    char inside[1300];
    if (temporary_exists()) _exit(1); /* the child does not use the parent's list */
    if (writes) {
        if (file_writer_open(in_dir(dir, "mine"), &file, &err)) _exit(2);
        if (folder_writer_open(in_dir(dir, "my folder"), &folder, &err)) _exit(3);
        snprintf(inside, sizeof inside, "%s/part", folder_writer_path(folder));
        if (file_write(inside, "x", 1, &err) || !temporary_exists()) _exit(4);
    }
    temporary_remove_all();
    if (!writes) _exit(0);
    if (entries(dir) != 3) _exit(5);
    signal(SIGALRM, SIG_DFL);
    alarm(1);
    _exit((int)file_writer_commit(file, &err)); /* waits for the alarm */
}

TEST(what_is_being_written_can_be_removed) {
    char *dir = test_temp_dir();
    file_writer *file;
    folder_writer *folder;
    EXPECT_OK(file_write(in_dir(dir, "whole"), "x", 1, &err));
    EXPECT_OK(file_writer_open(in_dir(dir, "file"), &file, &err));
    EXPECT_OK(folder_writer_open(in_dir(dir, "folder"), &folder, &err));
    EXPECT(entries(dir) == 3 && temporary_exists());
    for (int writes = 0; writes < 2; writes++) {
        const pid_t child = fork();
        if (child == 0) remove_what_is_mine(dir, writes == 1);
        int state;
        EXPECT(child > 0 && waitpid(child, &state, 0) == child);
        EXPECT_MSG(writes ? WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM : state == 0, "state %d", state);
        EXPECT(entries(dir) == 3);
    }
    file_writer_abort(file);
    EXPECT(folder_writer_end(folder, PROPANE_ERR_IO, NULL) == PROPANE_ERR_IO);
    EXPECT(entries(dir) == 1 && !temporary_exists());
    mem_free(dir);
}

/* Only files whose names have the form of this library, that are not locked and that are not links are swept. */
TEST(only_rubbish_is_swept) {
    char *dir = test_temp_dir();
    static const char *const kept[] = {"a.tmp-notes", "a.tmp-0123456789abcdeX", "b.tmp-4711", "a.tmp-12345678",
                                       "a",           "c.old-0123456789abcdef"};
    static const char *const gone[] = {"a.tmp-0123456789abcdef", "a.tmp-4711", "a.old-0123456789abcdef"};
    for (int i = 0; i < 6; i++) EXPECT_OK(file_write_scratch(in_dir(dir, kept[i]), "x", 1, &err));
    for (int i = 0; i < 2; i++) EXPECT_OK(file_write_scratch(in_dir(dir, gone[i]), "x", 1, &err));
    EXPECT_OK(file_make_dir(in_dir(dir, gone[2]), &err));
    EXPECT(symlink("a", in_dir(dir, "a.tmp-ffffffffffffffff")) == 0);
    temporary_sweep(in_dir(dir, "a"));
    EXPECT(entries(dir) == 7);
    temporary_sweep(in_dir(dir, "c"));
    for (int i = 0; i < 6; i++) EXPECT(file_exists(in_dir(dir, kept[i])));
    temporary_sweep_folder(dir);
    EXPECT(entries(dir) == 6 && !file_exists(in_dir(dir, "b.tmp-4711")));
    mem_free(dir);
}

/* Nothing is written through a link at the place of a new file. */
TEST(links_are_not_followed) {
    char *dir = test_temp_dir(), *data;
    size_t length;
    EXPECT_OK(file_write(in_dir(dir, "victim"), "precious", 8, &err));
    EXPECT(symlink("victim", in_dir(dir, "scratch")) == 0);
    EXPECT_OK(file_write_scratch(path, "mine", 4, &err));
    EXPECT_OK(file_read(in_dir(dir, "victim"), 100, &data, &length, &err));
    EXPECT_TEXT(data, "precious");
    mem_free(data);
    mem_free(dir);
}

static propane_status put_in(const folder_writer *w, const char *name, const char *text) {
    char inner[1600];
    snprintf(inner, sizeof inner, "%s/%s", folder_writer_path(w), name);
    return file_write(inner, text, strlen(text), &err);
}

TEST(folders_are_written_as_one) {
    char *dir = test_temp_dir(), *data;
    size_t length;
    folder_writer *w;
    for (int round = 0; round < 2; round++) {
        EXPECT_OK(folder_writer_open(in_dir(dir, "out/model/"), &w, &err));
        EXPECT_OK(put_in(w, round ? "new" : "old", "x"));
        EXPECT(file_exists(in_dir(dir, "out/model")) == (round > 0));
        EXPECT_OK(folder_writer_end(w, PROPANE_OK, &err));
        EXPECT(entries(in_dir(dir, "out")) == 1 && entries(in_dir(dir, "out/model")) == 1);
    }
    EXPECT_OK(file_read(in_dir(dir, "out/model/new"), 9, &data, &length, &err));
    mem_free(data);
    EXPECT_OK(folder_writer_open(in_dir(dir, "out/model"), &w, &err));
    EXPECT_OK(put_in(w, "a", "x"));
    /* A message names the folder as the caller did. */
    propane_fail(&err, PROPANE_ERR_IO, "%s/a and %s/b: full", folder_writer_path(w), folder_writer_path(w));
    char want[2600];
    snprintf(want, sizeof want, "%s/a and %s/b: full", path, path);
    EXPECT(folder_writer_end(w, err.status, &err) == PROPANE_ERR_IO);
    EXPECT_TEXT(err.text, want);
    EXPECT(entries(in_dir(dir, "out")) == 1 && file_exists(in_dir(dir, "out/model/new")));
    EXPECT(symlink("model", in_dir(dir, "out/link")) == 0); /* the link's target is replaced, not the link */
    EXPECT_OK(folder_writer_open(path, &w, &err));
    EXPECT_OK(put_in(w, "third", "x"));
    EXPECT_OK(folder_writer_end(w, PROPANE_OK, &err));
    EXPECT(file_exists(in_dir(dir, "out/model/third")) && !file_exists(in_dir(dir, "out/model/new")));
    EXPECT_FAIL(folder_writer_open(in_dir(dir, "out/model/third"), &w, &err), PROPANE_ERR_INVALID, "not a folder");
    mem_free(dir);
}

static void *read_byte(void *at) {
    static char read;
    read = *(const char *)at;
    return &read;
}

/* A file is truncated while it is mapped: the check reports an error, and the process survives, in whichever of the
 * library's threads the page is missing. */
TEST(a_mapped_file_that_shrinks_is_an_error) {
    char *dir = test_temp_dir();
    static char block[70000];
    file_map map;
    memset(block, 'x', sizeof block);
    file_map_guard();
    EXPECT_OK(file_write(in_dir(dir, "a"), block, sizeof block, &err));
    EXPECT_OK(file_map_open(path, &map, &err));
    EXPECT(map.data[69999] == 'x');
    EXPECT(truncate(path, 100) == 0);
    EXPECT_OK(file_map_check(&err));
    pthread_t thread;
    void *read = NULL;
    EXPECT(thread_start(&thread, read_byte, (void *)(map.data + 40000)) == 0);
    EXPECT(pthread_join(thread, &read) == 0 && *(const char *)read == 0);
    EXPECT(map.data[69999] == 0 && map.data[50] == 'x');
    EXPECT_FAIL(file_map_check(&err), PROPANE_ERR_IO, "/a was truncated while it was being read");
    EXPECT_FAIL(file_write(in_dir(dir, "b"), "x", 1, &err), PROPANE_ERR_IO, "was truncated");
    EXPECT(entries(dir) == 1);
    file_map_close(&map);
    mem_free(dir);
}

/* A command overwrites none of its inputs; a library may write a file, read it and write it again. */
TEST(an_input_is_no_output_once_a_command_asked_for_that) {
    char *dir = test_temp_dir(), *data = NULL;
    size_t length;
    const char *file = in_dir(dir, "a");
    EXPECT_OK(file_write(file, "one", 3, &err));
    EXPECT_OK(file_read(file, 10, &data, &length, &err));
    mem_free(data);
    EXPECT_OK(file_check_output(file, &err));
    file_keep_inputs();
    EXPECT_OK(file_check_output(file, &err));
    EXPECT_OK(file_read(file, 10, &data, &length, &err));
    mem_free(data);
    EXPECT_FAIL(file_check_output(file, &err), PROPANE_ERR_INVALID,
                "/a is also an input: give the output another name");
    EXPECT_OK(file_check_output(in_dir(dir, "b"), &err));
    mem_free(dir);
}

/* The hash detects any changed byte, any two exchanged bytes, and any missing end. */
TEST(checksums_find_damage) {
    uint8_t data[300];
    char whole[17], other[17];
    checksum c;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
    checksum_init(&c);
    checksum_update(&c, data, sizeof data);
    checksum_final(&c, whole);
    for (size_t i = 0; i < sizeof data; i++) { /* in two parts: the same; with one bit changed: different */
        checksum_init(&c);
        checksum_update(&c, data, i);
        checksum_update(&c, data + i, sizeof data - i);
        checksum_final(&c, other);
        EXPECT_TEXT(other, whole);
        data[i] ^= (uint8_t)(1 << i % 8);
        checksum_init(&c);
        checksum_update(&c, data, sizeof data);
        checksum_final(&c, other);
        EXPECT(strcmp(other, whole) != 0);
        data[i] ^= (uint8_t)(1 << i % 8);
        checksum_init(&c);
        checksum_update(&c, data, i);
        checksum_final(&c, other);
        EXPECT(strcmp(other, whole) != 0);
    }
}

TEST(folders_are_made_with_their_parents) {
    char *dir = test_temp_dir();
    EXPECT_OK(file_make_dir(in_dir(dir, "a/b//c/"), &err));
    EXPECT(file_is_dir(in_dir(dir, "a/b/c")) && file_exists(path));
    EXPECT_OK(file_make_dir(path, &err));
    EXPECT_OK(file_write(in_dir(dir, "f"), "x", 1, &err));
    EXPECT(!file_is_dir(path));
    EXPECT_FAIL(file_make_dir(path, &err), PROPANE_ERR_IO, "cannot make the folder");
    EXPECT_FAIL(file_make_dir(in_dir(dir, "f/g"), &err), PROPANE_ERR_IO, "cannot make the folder");
    mem_free(dir);
}

static json_t *parse(const char *s) {
    json_t *j;
    EXPECT_OK(json_parse(s, strlen(s), "t", &j, &err));
    return j;
}

/* Python's "no limit" is 10^30. Integers that fit stay integers; digits in strings and fractions stay unchanged. */
TEST(json_of_other_programs) {
    json_t *o = parse("\xef\xbb\xbf{\"a\":1000000000000000019884624838656,\"b\":9223372036854775807,"
                      "\"c\":\"1000000000000000019884624838656\",\"d\":[-1000000000000000019884624838656,"
                      "0.1000000000000000019884624838656,1e10,3]}");
    int64_t whole = 0;
    EXPECT(json_real_value(json_object_get(o, "a")) == 1e30);
    EXPECT(json_real_value(json_object_get(o, "b")) == 0x1p63 ||
           json_integer_value(json_object_get(o, "b")) == INT64_MAX);
    EXPECT_TEXT(json_string_value(json_object_get(o, "c")), "1000000000000000019884624838656");
    const json_t *d = json_object_get(o, "d");
    EXPECT(json_real_value(json_array_get(d, 0)) == -1e30 && json_real_value(json_array_get(d, 1)) == 0.1);
    EXPECT(json_real_value(json_array_get(d, 2)) == 1e10 && json_is_integer(json_array_get(d, 3)));
    EXPECT_FAIL(json_get_int(o, "t", "a", true, 0, 5, &whole, &err), PROPANE_ERR_INVALID,
                "t: key 'a' must be an integer, but is a number beyond 64 bits");
    json_decref(o);
    json_t *j;
    EXPECT_FAIL(json_parse("version https://git-lfs.github.com/spec/v1\n", 43, "f.json", &j, &err), PROPANE_ERR_INVALID,
                "f.json: not JSON: it is a Git LFS pointer");
    EXPECT_FAIL(json_parse("{\"a\":1e999}", 11, "f", &j, &err), PROPANE_ERR_INVALID, "real number overflow");
}

TEST(json_errors_say_where) {
    json_t *j;
    EXPECT_FAIL(json_parse("{\"a\": 1,\n  }", 12, "f.json", &j, &err), PROPANE_ERR_INVALID, "f.json: line 2, column 3");
    EXPECT_FAIL(json_parse("", 0, "f", &j, &err), PROPANE_ERR_INVALID, "not valid JSON");
    EXPECT_FAIL(json_parse("{\"a\":1,\"a\":2}", 13, "f", &j, &err), PROPANE_ERR_INVALID, "duplicate");
    EXPECT_FAIL(json_parse("{} x", 4, "f", &j, &err), PROPANE_ERR_INVALID, "f: line 1");
    EXPECT_FAIL(json_read("/nonexistent.json", 10, &j, &err), PROPANE_ERR_NOT_FOUND, "/nonexistent.json");
    EXPECT(j == NULL);
}

TEST(json_values_are_checked) {
    json_t *j = parse("{\"n\": 5, \"r\": 1.5, \"b\": true, \"s\": \"x\", \"z\": null}");
    int64_t n = -1;
    double r = 0;
    bool b = false;
    const char *s = NULL;
    EXPECT_OK(json_get_int(j, "t", "n", true, 0, 9, &n, &err));
    EXPECT_OK(json_get_real(j, "t", "r", true, &r, &err));
    EXPECT_OK(json_get_bool(j, "t", "b", true, &b, &err));
    EXPECT_OK(json_get_text(j, "t", "s", true, &s, &err));
    EXPECT(n == 5 && r == 1.5 && b && strcmp(s, "x") == 0);
    EXPECT_OK(json_get_real(j, "t", "n", true, &r, &err));
    EXPECT(r == 5);
    EXPECT_OK(json_get_int(j, "t", "z", false, 0, 9, &n, &err));
    EXPECT_OK(json_get_int(j, "t", "none", false, 0, 9, &n, &err));
    EXPECT(n == 5);
    EXPECT_FAIL(json_get_int(j, "t", "z", true, 0, 9, &n, &err), PROPANE_ERR_INVALID, "t: key 'z' is missing");
    EXPECT_FAIL(json_get_int(j, "t", "n", true, 6, 9, &n, &err), PROPANE_ERR_INVALID,
                "'n' is 5; it must be from 6 to 9");
    EXPECT_FAIL(json_get_int(j, "t", "r", true, 0, 9, &n, &err), PROPANE_ERR_INVALID, "integer, but is a number");
    EXPECT_FAIL(json_get_bool(j, "t", "n", true, &b, &err), PROPANE_ERR_INVALID,
                "must be true or false, but is an integer");
    EXPECT_FAIL(json_get_text(j, "t", "b", true, &s, &err), PROPANE_ERR_INVALID, "must be a string, but is true");
    EXPECT_FAIL(json_get_real(j, "t", "s", true, &r, &err), PROPANE_ERR_INVALID, "must be a number, but is a string");
    json_decref(j);
    j = parse("[1]");
    EXPECT_FAIL(json_get_int(j, "t", "n", true, 0, 9, &n, &err), PROPANE_ERR_INVALID, "must be an object");
    json_decref(j);
}

SUITE("base/file", T(written_files_read_back), T(an_input_is_no_output_once_a_command_asked_for_that),
      T(a_writer_can_seek_back_and_is_atomic), T(refusals_name_path_and_reason), T(a_pipe_is_read_to_the_limit),
      T(a_full_disk_is_an_error_and_leaves_nothing), T(temporary_names_cannot_be_foretold),
      T(what_is_being_written_can_be_removed), T(only_rubbish_is_swept), T(links_are_not_followed),
      T(folders_are_written_as_one), T(a_mapped_file_that_shrinks_is_an_error), T(checksums_find_damage),
      T(folders_are_made_with_their_parents), T(json_of_other_programs), T(json_errors_say_where),
      T(json_values_are_checked))
