/* SPDX-License-Identifier: MIT
 * Files and JSON: what is written is there whole or not at all; each refusal says why.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
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
    EXPECT_FAIL(file_read(path, 4, &data, &length, &err), PROPANE_ERR_LIMIT, "has 5 bytes; at most 4");
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
    EXPECT_FAIL(file_read("/dev/zero", 1000, &data, &length, &err), PROPANE_ERR_LIMIT, "more than the 1000 bytes");
    mem_free(dir);
}

TEST(a_full_disk_is_an_error_and_leaves_nothing) {
    if (access("/dev/full", W_OK) != 0) SKIP("/dev/full is not here");
    char *dir = test_temp_dir();
    /* the temporary name leads to a device that is always full */
    char temporary[1400];
    snprintf(temporary, sizeof temporary, "%s.tmp-%ld", in_dir(dir, "a"), (long)getpid());
    EXPECT(symlink("/dev/full", temporary) == 0);
    EXPECT_FAIL(file_write(path, "hello", 5, &err), PROPANE_ERR_IO, "No space left on device");
    EXPECT(entries(dir) == 0);
    mem_free(dir);
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

/* Python's "no limit" is 10^30; whole numbers that fit stay whole, digits in strings and fractions stay as they are. */
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
                "t: key 'a' must be a whole number, but is a number beyond 64 bits");
    json_decref(o);
    json_t *j;
    EXPECT_FAIL(json_parse("version https://git-lfs.github.com/spec/v1\n", 43, "f.json", &j, &err), PROPANE_ERR_INVALID,
                "f.json: not JSON: it is a pointer of Git LFS");
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
    EXPECT_FAIL(json_get_int(j, "t", "r", true, 0, 9, &n, &err), PROPANE_ERR_INVALID, "whole number, but is a number");
    EXPECT_FAIL(json_get_bool(j, "t", "n", true, &b, &err), PROPANE_ERR_INVALID,
                "must be true or false, but is a whole");
    EXPECT_FAIL(json_get_text(j, "t", "b", true, &s, &err), PROPANE_ERR_INVALID, "must be a string, but is true");
    EXPECT_FAIL(json_get_real(j, "t", "s", true, &r, &err), PROPANE_ERR_INVALID, "must be a number, but is a string");
    json_decref(j);
    j = parse("[1]");
    EXPECT_FAIL(json_get_int(j, "t", "n", true, 0, 9, &n, &err), PROPANE_ERR_INVALID, "must be an object");
    json_decref(j);
}

SUITE("base/file", T(written_files_read_back), T(a_writer_can_seek_back_and_is_atomic),
      T(refusals_name_path_and_reason), T(a_full_disk_is_an_error_and_leaves_nothing),
      T(folders_are_made_with_their_parents), T(json_of_other_programs), T(json_errors_say_where),
      T(json_values_are_checked))
