/* SPDX-License-Identifier: MIT
 * Models of Core ML's older kinds. Models that tools/older_models.py made with coremltools must compute what PyTorch
 * and NumPy computed there, both when read directly and when written as an ML Program and read again. Broken files are
 * refused.
 */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"
#include "propane.h"
#include "support/test.h"

#define FOLDER "tests/mil/older"
enum { SAMPLES = 16, MOST = 64 };

/* fp32 against PyTorch; the largest difference seen is 3e-7 of the largest element. */
static const double tolerance = 2e-6;
/* Reads as a session does: shapes may follow from values. */
static const mil_read_options late = {.late = true};
static char *names[MOST];
static int name_count;

static void list(void) {
    DIR *dir = opendir(FOLDER);
    EXPECT(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) && name_count < MOST;)
        if (strstr(entry->d_name, ".mlmodel")) names[name_count++] = mem_copy_string(entry->d_name);
    closedir(dir);
    EXPECT(name_count >= 1);
}

static void unlist(void) {
    while (name_count) mem_free(names[--name_count]);
}

/* Sets element i to ((37 i + 11) mod 64 - 32) / 16. */
static void give_values(propane_session *s) {
    propane_error err = {0};
    for (int i = 0; i < propane_session_input_count(s); i++) {
        const propane_io *io = propane_session_input(s, i);
        int64_t count = 1;
        for (int d = 0; d < io->rank; d++) count *= io->dim[d];
        float *values = mem_array((size_t)count, sizeof *values);
        for (int64_t k = 0; k < count; k++) values[k] = (float)((37 * k + 11) % 64 - 32) / 16;
        for (int64_t k = 0; k < count && io->dtype == PROPANE_INT32; k++) values[k] = truncf(values[k]);
        EXPECT_OK(propane_session_set(s, io->name, PROPANE_FP32, values, count, &err));
        mem_free(values);
    }
}

static const propane_io *output_named(const propane_session *s, const char *name) {
    for (int i = 0; i < propane_session_output_count(s); i++)
        if (strcmp(propane_session_output(s, i)->name, name) == 0) return propane_session_output(s, i);
    return NULL;
}

/* The format of `want` is "count sum element element ...". */
static void expect_numbers(propane_session *s, const char *file, const char *name, const char *want) {
    propane_error err = {0};
    char *at;
    const int64_t count = strtoll(want, &at, 10);
    const double sum = strtod(at, &at);
    const propane_io *io = output_named(s, name);
    double total = 0, weight = 0, largest = 1;
    EXPECT_MSG(io != NULL, "%s: there is no output %s", file, name);
    float *got = mem_array((size_t)count, sizeof *got);
    EXPECT_OK(propane_session_get(s, name, PROPANE_FP32, got, count, &err));
    for (int64_t i = 0; i < count; i++) {
        total += (double)got[i] * (double)(i % 7 + 1);
        weight += fabs((double)got[i]) * (double)(i % 7 + 1);
        largest = fmax(largest, fabs((double)got[i]));
    }
    EXPECT_MSG(fabs(total - sum) <= tolerance * fmax(weight, 1), "%s: %s: the sum is %.9g, not %.9g", file, name, total,
               sum);
    for (int k = 0; k < SAMPLES && k < count; k++) {
        const double value = strtod(at, &at);
        const int64_t i = count > SAMPLES ? k * count / SAMPLES : k;
        EXPECT_MSG(fabs(value - (double)got[i]) <= tolerance * largest, "%s: %s: element %lld is %.9g, not %.9g", file,
                   name, (long long)i, (double)got[i], value);
    }
    mem_free(got);
}

/* The file's name of a label may have spaces. */
static bool is_label(const propane_session *s, const char *name) {
    const char *label = propane_session_label_name(s);
    if (!label || strlen(label) != strlen(name)) return false;
    for (; *name; name++, label++)
        if (*name != *label && !(*name == '_' && *label == ' ')) return false;
    return true;
}

static int expect_wanted(propane_session *s, const char *file, const struct mil_package *p) {
    propane_error err = {0};
    char label[200];
    int wanted = 0;
    for (int i = 0; i < p->user_count; i++) {
        if (strncmp(p->user[i].key, "want.", 5) != 0) continue;
        const char *name = p->user[i].key + 5;
        wanted++;
        if (is_label(s, name)) {
            double got = 0;
            const char *space = strchr(p->user[i].value, ' ');
            EXPECT_OK(propane_session_label(s, 0, label, sizeof label, &got, &err));
            EXPECT_MSG(strncmp(label, p->user[i].value, strlen(label)) == 0 &&
                           strlen(label) == (size_t)(space - p->user[i].value),
                       "%s: the label is %s", file, label);
            EXPECT_MSG(fabs(got - strtod(space, NULL)) <= tolerance, "%s: the probability is %.9g", file, got);
        } else {
            expect_numbers(s, file, name, p->user[i].value);
        }
    }
    return wanted;
}

static void expect_file(const char *path, const char *file, const struct mil_package *p) {
    propane_error err = {0};
    propane_session *s = NULL;
    EXPECT_OK(propane_session_open(path, NULL, &s, &err));
    give_values(s);
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_MSG(expect_wanted(s, file, p) > 0, "%s says nothing of what it must give", file);
    propane_session_close(s);
}

static void each(void (*visit)(const char *path, const char *file)) {
    char path[400];
    list();
    for (int i = 0; i < name_count; i++) {
        snprintf(path, sizeof path, "%s/%s", FOLDER, names[i]);
        visit(path, names[i]);
    }
    unlist();
}

static void gives(const char *path, const char *file) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_read(path, &late, &m, &err));
    expect_file(path, file, m->package);
    mil_module_free(m);
}

static void becomes_a_program(const char *path, const char *file) {
    propane_error err = {0};
    mil_module *m = NULL;
    char written[700], *dir = test_temp_dir();
    snprintf(written, sizeof written, "%s/p.mlpackage", dir);
    EXPECT_OK(mil_read(path, &late, &m, &err));
    EXPECT_OK(mil_package_write(m, written, &err));
    expect_file(written, file, m->package);
    mil_module_free(m);
    mem_free(dir);
}

/* Changes one byte in each stretch of 7. */
static void may_be_broken(const char *path, const char *file) {
    propane_error err = {0};
    char *model = NULL;
    size_t n = 0;
    EXPECT_OK(file_read(path, 1 << 20, &model, &n, &err));
    for (size_t i = 0; i < n; i += 7) {
        mil_module *m = NULL;
        const char was = model[i];
        model[i] = (char)(was ^ (1 << i / 7 % 8));
        err = (propane_error){0};
        if (mil_package_parse(model, n, "t", NULL, &late, &m, &err) == PROPANE_OK)
            EXPECT_OK(mil_verify(m, &err));
        else
            EXPECT_MSG(strncmp(err.text, "t", 1) == 0, "%s, byte %zu: '%s' does not name the file", file, i, err.text);
        mil_module_free(m);
        model[i] = was;
    }
    for (size_t i = 0; i < n; i += 1 + i / 16) {
        mil_module *m = NULL;
        (void)!mil_package_parse(model, i, "t", NULL, &late, &m, &err);
        mil_module_free(m);
    }
    mem_free(model);
}

/* A missing value goes to the side that each node of a tree specifies. */
TEST(trees_take_missing_values) {
    propane_error err = {0};
    mil_module *m = NULL;
    propane_session *s = NULL;
    float nothing[6], got = 0;
    const char *want = NULL;
    for (int i = 0; i < 6; i++) nothing[i] = NAN;
    EXPECT_OK(mil_read(FOLDER "/trees.mlmodel", &late, &m, &err));
    for (int i = 0; i < m->package->user_count; i++)
        if (strcmp(m->package->user[i].key, "missing.y") == 0) want = m->package->user[i].value;
    EXPECT(want != NULL);
    EXPECT_OK(propane_session_open(FOLDER "/trees.mlmodel", NULL, &s, &err));
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, nothing, 6, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "y", PROPANE_FP32, &got, 1, &err));
    EXPECT_MSG(fabs((double)got - strtod(want, NULL)) <= 1e-5, "%.9g, not %s", (double)got, want);
    propane_session_close(s);
    mil_module_free(m);
}

static double price(const char *path, const char *place) {
    static const char *const words[] = {"pool", "balcony", "pool"};
    propane_error err = {0};
    propane_session *s = NULL;
    float got = 0;
    EXPECT_OK(propane_session_open(path, NULL, &s, &err));
    EXPECT_OK(propane_session_set_keys(s, place, &(const char *){"harbour"}, NULL, 1, &err));
    EXPECT_OK(
        propane_session_set_keys(s, "words", words, (const double[]){5, 6, 2}, 3, &err)); /* the last pool counts */
    EXPECT_OK(propane_session_set(s, "area", PROPANE_FP32, &(float){0.5f}, 1, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "price", PROPANE_FP32, &got, 1, &err));
    EXPECT_FAIL(propane_session_set_keys(s, place, &(const char *){"moon"}, NULL, 1, &err), PROPANE_ERR_INVALID,
                "does not know 'moon'; it must be one of: 'old town', 'harbour', 'Z\xc3\xbcrich'");
    EXPECT_FAIL(propane_session_set_keys(s, "words", words, NULL, 1, &err), PROPANE_ERR_INVALID,
                "takes a dictionary of numbers");
    EXPECT_FAIL(propane_session_set_keys(s, place, words, (const double[]){1}, 1, &err), PROPANE_ERR_INVALID,
                "takes one text");
    EXPECT_FAIL(propane_session_set_keys(s, "area", words, NULL, 1, &err), PROPANE_ERR_INVALID, "takes an array");
    propane_session_close(s);
    return (double)got;
}

/* Text and dictionaries are given by key: 1 * 2 + 6 * 0.5 + 8 * 1 + 0.25. The written package keeps the keys. */
TEST(text_and_dictionaries_are_given_by_key) {
    propane_error err = {0};
    mil_module *m = NULL;
    propane_feature f = {.size = sizeof f};
    char written[700], key[40], *dir = test_temp_dir();
    snprintf(written, sizeof written, "%s/p.mlpackage", dir);
    EXPECT_OK(mil_read(FOLDER "/categories.mlmodel", &late, &m, &err));
    EXPECT_OK(propane_module_feature(m, NULL, PROPANE_INPUT, 0, &f, &err));
    EXPECT(f.kind == PROPANE_CATEGORY && f.key_count == 3 && strcmp(f.called, "place of it") == 0);
    EXPECT(propane_module_key(m, NULL, f.name, 1, key, sizeof key) == 7 && strcmp(key, "harbour") == 0);
    EXPECT(propane_module_key(m, NULL, f.name, 3, key, sizeof key) == 0);
    EXPECT_OK(mil_package_write(m, written, &err));
    mil_module_free(m);
    EXPECT(fabs(price(FOLDER "/categories.mlmodel", "place of it") - 13.25) < 1e-6);
    EXPECT(fabs(price(written, "place_of_it") - 13.25) < 1e-6);
    mem_free(dir);
}

TEST(each_model_gives_what_it_says) { each(gives); }
TEST(each_model_becomes_a_program) { each(becomes_a_program); }
TEST(any_byte_may_be_anything) { each(may_be_broken); }

SUITE("mil/older", T(trees_take_missing_values), T(text_and_dictionaries_are_given_by_key),
      T(each_model_gives_what_it_says), T(each_model_becomes_a_program), T(any_byte_may_be_anything))
