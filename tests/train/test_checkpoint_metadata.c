/* SPDX-License-Identifier: MIT
 * The metadata of a checkpoint in both of its forms: every key of the older one, the values that it lacks, and texts
 * that are neither.
 */
#include <stdlib.h>

#include "core/base/memory.h"
#include "support/test.h"
#include "train/checkpoint_metadata.h"

static propane_error err;
static char path[1200];

static void write_keys(const char *const (*pairs)[2], int count) {
    safetensors_writer *w = NULL;
    char *dir = test_temp_dir();
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", dir);
    EXPECT_OK(safetensors_writer_open(path, &w, &err));
    for (int i = 0; i < count; i++) EXPECT_OK(safetensors_writer_metadata(w, pairs[i][0], pairs[i][1], &err));
    EXPECT_OK(safetensors_writer_declare(w, "w", ST_F32, 1, (int64_t[]){1}, &err));
    EXPECT_OK(safetensors_writer_data(w, &(float){1}, 4, &err));
    EXPECT_OK(safetensors_writer_commit(w, &err));
    mem_free(dir);
}

static void expect_values(const char *const (*want)[2], int count) {
    checkpoint_metadata m = {0};
    EXPECT_OK(checkpoint_metadata_open(path, &m, &err));
    EXPECT_TEXT(m.source, path);
    for (int i = 0; i < count; i++) {
        const char *value = "unset";
        EXPECT_OK(checkpoint_metadata_find(&m, want[i][0], &value, &err));
        EXPECT_MSG(want[i][1] ? value && strcmp(value, want[i][1]) == 0 : value == NULL, "%s is '%s', not '%s'",
                   want[i][0], value, want[i][1]);
    }
    checkpoint_metadata_close(&m);
    EXPECT(!m.file && !m.old && !m.arena);
}

#define COUNT(list) (int)(sizeof(list) / sizeof(list)[0])

TEST(the_older_form_is_read_as_the_newer_one) {
    static const char *const keys[][2] = {
        {"propane",
         "{\"format\":\"propane-tune-1\",\"step\":4,\"evaluated\":3,\"samples\":24,\"data\":\"abc\",\"loss\":\"mse\","
         "\"options\":{\"batch\":5,\"accumulate\":2,\"lr\":0.25,\"shuffle\":true,\"resize\":false,\"class-axis\":\"1\","
         "\"eval-every\":7,\"loss\":\"other\"}}"}};
    static const char *const want[][2] = {{"format", "propane-finetune-1"},
                                          {"step", "4"},
                                          {"updates", "4"},
                                          {"scaler_good", "4"},
                                          {"evaluated", "3"},
                                          {"position", "40"},
                                          {"samples", "24"},
                                          {"data", "abc"},
                                          {"scaler_scale", "0x1p+0"},
                                          {"scaler_skipped", "0"},
                                          {"best", "-1"},
                                          {"stale", "0"},
                                          {"best_loss", "0x0p+0"},
                                          {"norm", "0x0p+0"},
                                          {"schedule", "cosine"},
                                          {"keep", "best"},
                                          {"patience", "0"},
                                          {"clipping", "exact"},
                                          {"gradients", "auto"},
                                          {"batch", "5"},
                                          {"accumulate", "2"},
                                          {"lr", "0x1p-2"},
                                          {"shuffle", "1"},
                                          {"resize", "0"},
                                          {"class_axis", "1"},
                                          {"eval_interval", "7"},
                                          {"loss", "mse"}, /* the choice is stored separately from the options */
                                          {"min_lr", ""},  /* was not stored */
                                          {"threads", ""}, /* is never stored */
                                          {"nothing", ""}};
    write_keys(keys, 1);
    expect_values(want, COUNT(want));
}

TEST(the_newer_form_goes_first) {
    static const char *const keys[][2] = {{"propane", "{\"format\":\"propane-tune-1\",\"step\":4}"},
                                          {"format", "propane-finetune-1"},
                                          {"step", "9"},
                                          {"stale", "3"}};
    static const char *const want[][2] = {{"format", "propane-finetune-1"},
                                          {"step", "9"},
                                          {"stale", "3"},
                                          {"best", "-1"},
                                          {"updates", NULL},
                                          {"position", NULL},
                                          {"scaler_scale", NULL},
                                          {"clipping", "exact"},
                                          {"lr", NULL}};
    write_keys(keys, COUNT(keys));
    expect_values(want, COUNT(want));
}

TEST(other_forms_are_refused) {
    static const struct {
        const char *line, *message;
        propane_status status;
    } cases[] = {{"{\"format\":\"propane-tune-2\"}",
                  "its format is 'propane-tune-2'; this version reads propane-finetune-1 and propane-tune-1",
                  PROPANE_ERR_INVALID},
                 {"{\"step\":1}", "'format'", PROPANE_ERR_INVALID},
                 {"{", "not valid JSON", PROPANE_ERR_INVALID}};
    for (int i = 0; i < 3; i++) {
        const int64_t live = mem_live_count();
        checkpoint_metadata m = {0};
        write_keys((const char *const[][2]){{"propane", cases[i].line}}, 1);
        EXPECT_FAIL(checkpoint_metadata_open(path, &m, &err), cases[i].status, cases[i].message);
        EXPECT(strstr(err.text, path));
        checkpoint_metadata_close(&m);
        EXPECT(i == 0 || mem_live_count() == live);
    }
    static const char *const want[][2] = {{"format", NULL}, {"step", NULL}, {"best", "-1"}};
    write_keys(NULL, 0); /* no metadata at all */
    expect_values(want, COUNT(want));
    EXPECT_TEXT(checkpoint_format(TRAIN_LANGUAGE), "propane-checkpoint-1");
    EXPECT_TEXT(checkpoint_format(TRAIN_IMPORTED), "propane-finetune-1");
}

SUITE("train/checkpoint_metadata", T(the_older_form_is_read_as_the_newer_one), T(the_newer_form_goes_first),
      T(other_forms_are_refused))
