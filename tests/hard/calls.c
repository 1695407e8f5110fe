/* SPDX-License-Identifier: MIT
 * Owns the folder and the loop of calls.h.
 */
#include "hard/calls.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/test.h"

static propane_error err;

void calls_take(text *result, char *given) {
    if (given) text_append(result, given);
    propane_free(given);
}

propane_status calls_end(propane_status status, const text *result, propane_error *e) {
    return !status && result->failed ? propane_fail_memory(e, result->length) : status;
}

void calls_print_folder(text *result, const char *dir) {
    char command[300], line[400];
    snprintf(command, sizeof command, "find '%s' -type f -exec cksum {} + | sort", dir);
    FILE *f = popen(command, "r"); /* after the attempt's requests: the C library's memory is not counted */
    while (f && fgets(line, sizeof line, f)) text_append(result, line);
    if (f) pclose(f);
}

static void write_file(const char *path, const char *content) {
    FILE *f = fopen(path, "w");
    EXPECT(f && fputs(content, f) >= 0 && fclose(f) == 0);
}

static void make_model(void) {
    static const char *const set[][2] = {{"kind", "bytes"},    {"layers", "1"}, {"width", "16"},     {"heads", "2"},
                                         {"context", "64"},    {"batch", "2"},  {"eval-every", "0"}, {"steps", "2"},
                                         {"data", "text.txt"}, {"run", "r"}};
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, &err));
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        EXPECT_OK(propane_options_set(o, set[i][0], set[i][1], &err));
    EXPECT_OK(propane_trainer_create(o, NULL, &t, &err));
    EXPECT_OK(propane_trainer_run(t, NULL, &err));
    propane_trainer_free(t);
    propane_options_free(o);
}

static void copy_model(const char *from, const char *dir, const char *name) {
    char path[700], *model = NULL;
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    EXPECT_OK(file_read(from, 1 << 20, &model, &length, &err));
    FILE *f = fopen(path, "w");
    EXPECT(f && fwrite(model, length, 1, f) == 1 && fclose(f) == 0);
    mem_free(model);
}

void calls_enter(bool model) {
    char *dir = test_temp_dir();
    copy_model("fuzz/corpus/package/classifier.mlmodel", dir, "classifier.mlmodel");
    copy_model("tests/mil/older/mapping.mlmodel", dir, "mapping.mlmodel");
    EXPECT(chdir(dir) == 0);
    mem_free(dir);
    EXPECT_OK(propane_set_threads(1, &err));
    FILE *f = fopen("text.txt", "w");
    EXPECT(f != NULL);
    for (int i = 0; i < 300; i++) fprintf(f, "line %d\n", i * i % 97);
    fclose(f);
    write_file("m.mil",
               "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 3]> x) {\n"
               "        tensor<fp32, [2, 3]> w = const()[name = string(\"w\"), val = tensor<fp32, [2, 3]>([[0.5, "
               "-0.5, 0.25], [1, 2, 3]])];\n"
               "        tensor<fp32, [1, 2]> s = linear(weight = w, x = x)[name = string(\"s\")];\n"
               "        tensor<fp32, [1, 2]> y = relu(x = s)[name = string(\"y\")];\n    } -> (y);\n}\n");
    write_file("examples.jsonl",
               "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\", \"completion\": \"d\"}\n");
    write_file("options.json", "{\"lr\": 0.001, \"steps\": 9}\n");
    if (model) make_model();
}

static failing_attempt trying;

/* Removes with the C library, whose memory is not counted; a shell per point would take most of the time. */
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }
static int is_temporary(const char *path, const struct stat *st, int type, struct FTW *at) {
    return strstr(path + at->base, ".tmp-") != NULL;
}

/* Runs an attempt with an empty output folder, because files are compared only if they are newly written. */
static propane_status fresh(void *context, text *result, propane_error *e) {
    (void)nftw("out", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    EXPECT(mkdir("out", 0777) == 0);
    propane_status status = trying(context, result, e);
    if (!status) calls_print_folder(result, "out");
    EXPECT_MSG(nftw(".", is_temporary, 8, FTW_PHYS) == 0, "a temporary file is left");
    return calls_end(status, result, e);
}

void calls_try(const calls_row *rows, int count) {
    for (int i = 0; i < count; i++) {
        trying = rows[i].attempt;
        const int points = test_each_failing_allocation(rows[i].name, fresh, NULL);
        printf("  %-20s %d points\n", rows[i].name, points);
        EXPECT(points > 0);
    }
}
