/* SPDX-License-Identifier: MIT
 * Checkpoints, by a run without a model: their contents, which runs may resume from them, damaged files, and which of
 * the best validations are kept. A run changes nothing before its checkpoint has been accepted completely.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/test.h"
#include "train/scripted_run.h"
#include "train/top_checkpoints.h"

static propane_error err;
static char folder[1000], checkpoint[1100], best[1100];

static void begin(void) {
    char *dir = test_temp_dir();
    snprintf(folder, sizeof folder, "%s", dir);
    snprintf(checkpoint, sizeof checkpoint, "%s/%s", folder, TRAIN_CHECKPOINT);
    snprintf(best, sizeof best, "%s/%s", folder, TRAIN_BEST);
    mem_free(dir);
}

/* Makes a run in which every number is different. */
static scripted_run *filled(train_options *o) {
    scripted_run *s = scripted_made(o);
    int n = 0;
    for (int b = 0; b < TRAIN_BLOCKS; b++)
        for (int i = 0; i < SCRIPT_TENSORS; i++)
            for (int k = 0; k < 6; k++) s->data[b][i][k] = (float)++n / 8;
    s->run.state = (train_state){.step = 7,
                                 .updates = 5,
                                 .position = 70,
                                 .evaluated = 6,
                                 .best = 4,
                                 .stale = 2,
                                 .best_loss = 0.1,
                                 .norm = 1e-300,
                                 .scaler = {.scale = 4096, .good = 3, .skipped = 2, .dynamic = true}};
    return s;
}

/* Returns the text of a key in a file's metadata, or NULL; valid until the next call. */
static const char *key_of(const char *path, const char *key) {
    static char value[400];
    safetensors *file = NULL;
    EXPECT_OK(safetensors_open(path, &file, &err));
    const char *text = safetensors_metadata(file, key);
    if (text) snprintf(value, sizeof value, "%s", text);
    safetensors_close(file);
    return text ? value : NULL;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

TEST(a_checkpoint_holds_state_weights_and_moments) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    safetensors *file = NULL;
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    EXPECT_OK(safetensors_open(checkpoint, &file, &err));
    static const char *const names[] = {"first",
                                        "second",
                                        "fixed",
                                        "optimizer.1.first",
                                        "optimizer.1.second",
                                        "optimizer.2.first",
                                        "optimizer.2.second"};
    EXPECT(safetensors_count(file) == 7);
    for (int i = 0; i < 7; i++) EXPECT_TEXT(safetensors_at(file, i)->name, names[i]);
    EXPECT_TEXT(safetensors_metadata(file, "format"), "propane-checkpoint-1");
    EXPECT_TEXT(safetensors_metadata(file, "fingerprint"), "this one");
    EXPECT_TEXT(safetensors_metadata(file, "best_loss"), "0x1.999999999999ap-4");
    EXPECT_TEXT(safetensors_metadata(file, "position"), "70");
    EXPECT(!safetensors_metadata(file, "val_loss"));
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        char room[TRAIN_VALUE_ROOM];
        const char *stored = safetensors_metadata(file, row->key);
        const bool holds = row->use[TRAIN_LANGUAGE].help && row->keep != TRAIN_FORGOTTEN;
        EXPECT_MSG(holds == (stored != NULL), "%s", row->key);
        EXPECT(!holds || strcmp(stored, train_option_print(row, &o, room)) == 0);
    }
    safetensors_close(file);
    o.resume = true;
    scripted_run *t = NULL;
    EXPECT_OK(scripted_create(&o, &t, &err));
    EXPECT(memcmp(&s->run.state, &t->run.state, sizeof s->run.state) == 0);
    for (int b = 0; b < TRAIN_OUTER_BLOCK; b++)
        for (int i = 0; i < (b ? 2 : 3); i++) {
            const size_t count = i == 0 ? 6 : i == 1 ? 4 : 3;
            EXPECT(memcmp(s->data[b][i], t->data[b][i], count * sizeof(float)) == 0);
        }
    EXPECT(t->kept == 7 && t->data[1][2][0] == 0 && t->data[TRAIN_OUTER_BLOCK][0][0] == 0 && t->data[0][2][3] == 0);
    train_run_free(&s->run), train_run_free(&t->run);
}

/* The momentum of outer steps is read if it is there; a run that begins with it has none in its first checkpoint. */
TEST(momentum_of_outer_steps_may_be_absent) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    scripted_run *t = scripted_made(&o);
    t->has_outer = true;
    EXPECT_OK(train_run_load(&t->run, 0, TRAIN_BLOCKS - 1, &err));
    EXPECT(t->data[TRAIN_OUTER_BLOCK][0][0] == 0 && t->kept == 7);
    s->has_outer = true;
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    EXPECT_OK(train_run_load(&t->run, 0, TRAIN_BLOCKS - 1, &err));
    EXPECT(memcmp(t->data[TRAIN_OUTER_BLOCK][0], s->data[TRAIN_OUTER_BLOCK][0], 6 * sizeof(float)) == 0 &&
           t->kept == 15);
    train_run_free(&s->run), train_run_free(&t->run);
}

/* Blocks may be read one after the other; the state is read with the first. */
TEST(blocks_are_read_apart) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o), *t = scripted_made(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    EXPECT_OK(train_run_load(&t->run, 1, 2, &err));
    EXPECT(t->run.state.step == 0 && t->run.saved == -1 && t->data[0][0][0] == 0 && t->kept == 4);
    EXPECT(t->data[1][0][0] == s->data[1][0][0] && t->data[2][1][3] == s->data[2][1][3]);
    EXPECT_OK(train_run_load(&t->run, 0, 0, &err));
    EXPECT(t->run.state.step == 7 && t->run.saved == -1 && t->data[0][0][0] == s->data[0][0][0] && t->kept == 7);
    EXPECT_OK(train_run_load(&t->run, TRAIN_BLOCKS - 1, TRAIN_BLOCKS - 1, &err));
    EXPECT(t->run.saved == 7);
    train_run_free(&s->run), train_run_free(&t->run);
}

/* Remains of killed writers are removed when the state is read, by the rank that writes. */
TEST(remains_of_killed_writers_are_removed_when_a_run_is_read) {
    char path[1200];
    begin();
    snprintf(path, sizeof path, "%s.tmp-0123456789abcdef", checkpoint);
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    EXPECT_OK(file_write(path, "half", 4, &err));
    EXPECT_OK(train_run_load(&s->run, 1, 1, &err));
    EXPECT(file_exists(path));
    EXPECT_OK(train_run_load(&s->run, 0, 0, &err));
    EXPECT(!file_exists(path));
    train_run_free(&s->run);
}

/* A failed write leaves the older file and no partial new one. */
TEST(a_failed_write_leaves_the_older_checkpoint) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    s->run.state.step = 8;
    s->fingerprint = "\xff\xfe"; /* JSON cannot represent it */
    EXPECT(train_checkpoint_write(&s->run, &err) != PROPANE_OK);
    EXPECT_TEXT(key_of(checkpoint, "step"), "7");
    EXPECT(rmdir(folder) != 0 && unlink(checkpoint) == 0 && rmdir(folder) == 0); /* the folder contains nothing else */
    s->fingerprint = "this one";
    EXPECT_FAIL(train_checkpoint_write(&s->run, &err), PROPANE_ERR_NOT_FOUND, checkpoint);
    train_run_free(&s->run);
    EXPECT(mkdir(folder, 0700) == 0);
}

/* ---- another run ------------------------------------------------------------------------------------------------- */

/* Tries to resume from the checkpoint; whatever is wrong with it, no number of the run has changed. */
static void expect_status(const train_options *o, const char *fingerprint, propane_status status, const char *message) {
    scripted_run *s = scripted_made(o), *untouched = scripted_made(o);
    s->fingerprint = fingerprint;
    EXPECT_FAIL(train_run_load(&s->run, 0, TRAIN_BLOCKS - 1, &err), status, message);
    EXPECT(memcmp(s->data, untouched->data, sizeof s->data) == 0 && s->kept == 0 && s->run.saved == -1);
    train_run_free(&s->run), train_run_free(&untouched->run);
}

static void expect_refused(const train_options *o, const char *fingerprint, const char *message) {
    expect_status(o, fingerprint, PROPANE_ERR_INVALID, message);
}

/* Every FIXED option must be unchanged; others may change. */
TEST(fixed_options_must_be_the_same) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    int fixed = 0;
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        scripted_run *t = scripted_made(&o);
        char message[200];
        if (!row->use[TRAIN_LANGUAGE].help || row->type == TRAIN_TEXT || row->type == TRAIN_LIST) {
            train_run_free(&t->run);
            continue;
        }
        void *at = train_option_at(row, &t->run.options);
        if (row->type == TRAIN_INT) *(int64_t *)at += 20;
        if (row->type == TRAIN_REAL) *(double *)at = nextafter(*(double *)at, 9);
        if (row->type == TRAIN_BOOL) *(bool *)at = !*(bool *)at;
        if (row->type == TRAIN_CHOICE) *(const char **)at = "other";
        snprintf(message, sizeof message, "was written with --%s ", row->name);
        const propane_status status = train_run_load(&t->run, 0, TRAIN_BLOCKS - 1, &err);
        if (row->keep == TRAIN_FIXED)
            EXPECT_MSG(status == PROPANE_ERR_INVALID && strstr(err.text, message) && t->kept == 0, "%s", row->key);
        else
            EXPECT_MSG(status == PROPANE_OK, "%s: %s", row->key, err.text);
        fixed += row->keep == TRAIN_FIXED;
        train_run_free(&t->run);
    }
    EXPECT(fixed > 15);
    train_run_free(&s->run);
}

TEST(another_run_is_named) {
    begin();
    train_options o = scripted_options(folder, 9), other;
    scripted_run *s = filled(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    other = o, other.lr = 0.75;
    expect_refused(&other, "this one", "was written with --lr 0.5, not 0.75; resume with the same, or start a new run");
    other = o, other.batch = 3;
    expect_refused(&other, "this one", "was written with --batch 8, not 3");
    other = o, other.plan = "six";
    expect_refused(&other, "this one", "was written with --plan layer, not six");
    expect_refused(&o, "that one", "was written with the fingerprint this one, not that one");
    train_run_free(&s->run);
    other = o, other.kind = TRAIN_IMPORTED;
    EXPECT_TEXT(checkpoint_format(TRAIN_IMPORTED), "propane-finetune-1");
    arena *a = arena_create();
    EXPECT_FAIL(train_checkpoint_recall(checkpoint, a, &other, &err), PROPANE_ERR_INVALID,
                "its format is 'propane-checkpoint-1', not 'propane-finetune-1'");
    arena_free(a);
}

TEST(recalled_options_are_those_of_the_run) {
    begin();
    train_options o = scripted_options(folder, 9), back;
    o.patience = 3, o.weight_decay = 1.0 / 3, o.plan = "six", o.recompute = true, o.threads = 2, o.keep = "4";
    scripted_run *s = filled(&o);
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    arena *a = arena_create();
    train_options_default(&back, TRAIN_LANGUAGE);
    EXPECT_OK(train_checkpoint_recall(checkpoint, a, &back, &err));
    EXPECT(unlink(checkpoint) == 0); /* the texts are copies */
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        char one[TRAIN_VALUE_ROOM], two[TRAIN_VALUE_ROOM];
        if (!row->use[TRAIN_LANGUAGE].help || row->keep == TRAIN_FORGOTTEN) continue;
        EXPECT_TEXT(train_option_print(row, &back, one), train_option_print(row, &o, two));
    }
    EXPECT(back.threads == 0 && !back.run_dir && !back.given[TRAIN_OPTION_patience]);
    EXPECT_FAIL(train_checkpoint_recall(checkpoint, a, &back, &err), PROPANE_ERR_NOT_FOUND, checkpoint);
    arena_free(a);
    train_run_free(&s->run);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Writes a file with the metadata of the run's checkpoint, in which one key has another text (NULL: is missing). */
static void write_with(scripted_run *s, const char *key, const char *value, bool tensors) {
    safetensors *old = NULL;
    safetensors_writer *w = NULL;
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    EXPECT_OK(safetensors_open(checkpoint, &old, &err));
    char other[1200];
    snprintf(other, sizeof other, "%s/other", folder);
    EXPECT_OK(safetensors_writer_open(other, &w, &err));
    static const char *const state[] = {"format",      "fingerprint",    "step",        "updates",   "position",
                                        "evaluated",   "best",           "stale",       "best_loss", "norm",
                                        "scaler_good", "scaler_skipped", "scaler_scale"};
    for (int i = 0; i < 13 + TRAIN_OPTIONS; i++) {
        const char *name = i < 13 ? state[i] : train_option_rows[i - 13].key, *text = safetensors_metadata(old, name);
        if (strcmp(name, key) == 0) text = value;
        if (text) EXPECT_OK(safetensors_writer_metadata(w, name, text, &err));
    }
    for (int i = 0; tensors && i < safetensors_count(old); i++) {
        const safetensors_tensor *t = safetensors_at(old, i);
        EXPECT_OK(safetensors_writer_declare(w, t->name, t->dtype, t->rank, t->dim, &err));
    }
    for (int i = 0; tensors && i < safetensors_count(old); i++) {
        const safetensors_tensor *t = safetensors_at(old, i);
        EXPECT_OK(safetensors_writer_data(w, t->data, t->bytes, &err));
    }
    EXPECT_OK(safetensors_writer_commit(w, &err));
    safetensors_close(old);
    EXPECT(rename(other, checkpoint) == 0);
}

TEST(numbers_of_the_state_are_checked) {
    static const char *const whole[] = {"step", "updates", "position",    "evaluated",
                                        "best", "stale",   "scaler_good", "scaler_skipped"};
    static const char *const real[] = {"best_loss", "norm", "scaler_scale"};
    static const char *const bad_whole[] = {"", "x", "7x", "-2", "9223372036854775808", "1.5", "-9223372036854775809"};
    static const char *const bad_real[] = {"", "x", "0x1p+0x", "-0x1p-1", "nan", "inf", "-inf"};
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    char message[200];
    for (int k = 0; k < 11; k++) {
        const char *key = k < 8 ? whole[k] : real[k - 8];
        for (int i = 0; i < 7; i++) {
            const char *bad = k < 8 ? bad_whole[i] : bad_real[i];
            write_with(s, key, bad, true);
            snprintf(message, sizeof message, "has '%s' as '%s'; the file is damaged", bad, key);
            expect_refused(&o, "this one", message);
        }
    }
    write_with(s, "scaler_scale", "0x0p+0", true);
    expect_refused(&o, "this one", "has a loss scale of 0; the file is damaged");
    for (int k = 0; k < 8; k++) { /* -1 means that there was none */
        write_with(s, whole[k], "-1", true);
        scripted_run *t = scripted_made(&o);
        EXPECT_OK(train_run_load(&t->run, 0, TRAIN_BLOCKS - 1, &err));
        train_run_free(&t->run);
    }
    train_run_free(&s->run);
}

TEST(keys_that_are_missing_are_named_unless_they_are_new) {
    static const char *const must[] = {"format",       "fingerprint", "step",        "updates",
                                       "position",     "evaluated",   "scaler_good", "scaler_skipped",
                                       "scaler_scale", "lr",          "batch",       "clip"};
    static const char *const may[] = {"best",     "stale",     "best_loss", "norm",
                                      "clipping", "gradients", "keep",      "patience"};
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    char message[200];
    for (int i = 0; i < 12; i++) {
        write_with(s, must[i], NULL, true);
        snprintf(message, sizeof message, "its metadata has no '%s'; this is not a checkpoint of a training run",
                 must[i]);
        expect_refused(&o, "this one", message);
    }
    for (int i = 0; i < 8; i++) {
        write_with(s, may[i], NULL, true);
        scripted_run *t = scripted_made(&o);
        EXPECT_OK(train_run_load(&t->run, 0, TRAIN_BLOCKS - 1, &err));
        if (i == 0) EXPECT(t->run.state.best == -1);
        if (i == 1) EXPECT(t->run.state.stale == 0);
        if (i == 2) EXPECT(t->run.state.best_loss == 0);
        if (i == 3) EXPECT(t->run.state.norm == 0);
        train_run_free(&t->run);
    }
    write_with(s, "schedule", NULL, true); /* it was cosine */
    expect_refused(&o, "this one", "was written with --schedule cosine, not linear");
    write_with(s, "format", "propane-finetune-1", true);
    expect_refused(&o, "this one", "its format is 'propane-finetune-1', not 'propane-checkpoint-1'");
    train_run_free(&s->run);
}

TEST(tensors_are_all_there_before_one_is_filled) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    write_with(s, "", NULL, false);
    expect_status(&o, "this one", PROPANE_ERR_NOT_FOUND, "there is no tensor 'first'");
    EXPECT_OK(train_checkpoint_write_kept(&s->run, checkpoint, 1, &err)); /* weights without moments */
    expect_status(&o, "this one", PROPANE_ERR_NOT_FOUND, "there is no tensor 'optimizer.1.first'");
    train_run_free(&s->run);
}

/* The checksums detect every changed byte of the tensors, and the length detects every truncated file. */
TEST(damaged_and_shortened_files_are_refused) {
    begin();
    train_options o = scripted_options(folder, 9);
    scripted_run *s = filled(&o);
    char *data;
    size_t length;
    EXPECT_OK(train_checkpoint_write(&s->run, &err));
    EXPECT_OK(file_read(checkpoint, 1 << 20, &data, &length, &err));
    for (size_t i = 1; i <= 200; i += 9) {
        data[length - i] ^= 4;
        EXPECT_OK(file_write(checkpoint, data, length, &err));
        data[length - i] ^= 4;
        expect_refused(&o, "this one", checkpoint);
    }
    for (size_t i = 1; i < length; i += 97) {
        EXPECT_OK(file_write(checkpoint, data, length - i, &err));
        expect_refused(&o, "this one", checkpoint);
    }
    mem_free(data);
    train_run_free(&s->run);
}

/* ---- the best weights -------------------------------------------------------------------------------------------- */

TEST(the_best_file_is_read_if_it_is_of_the_best_step) {
    begin();
    train_options o = scripted_options(folder, 9);
    o.eval_interval = 1;
    scripted_run *s = filled(&o);
    bool taken = true;
    EXPECT_OK(train_checkpoint_read_best(&s->run, &taken, &err)); /* there is none */
    EXPECT(!taken);
    EXPECT_OK(train_checkpoint_write_best(&s->run, &err));
    EXPECT_TEXT(key_of(best, "best"), "4");
    safetensors *file = NULL;
    EXPECT_OK(safetensors_open(best, &file, &err));
    EXPECT(safetensors_count(file) == 3 && !safetensors_metadata(file, "val_loss"));
    safetensors_close(file);
    scripted_run *t = scripted_made(&o);
    t->run.state.best = 5;
    EXPECT_OK(train_checkpoint_read_best(&t->run, &taken, &err));
    EXPECT(!taken && t->data[0][0][0] == 0 && t->kept == 0);
    t->run.state.best = 4;
    EXPECT_OK(train_checkpoint_read_best(&t->run, &taken, &err));
    EXPECT(taken && memcmp(t->data[0][0], s->data[0][0], 24) == 0 && t->data[1][0][0] == 0 && t->kept == 3);
    EXPECT(t->run.state.step == 0); /* the state stays */
    char *data;
    size_t length;
    EXPECT_OK(file_read(best, 1 << 20, &data, &length, &err));
    data[length - 3] ^= 1;
    EXPECT_OK(file_write(best, data, length, &err));
    t->data[0][0][0] = -1;
    EXPECT_FAIL(train_checkpoint_read_best(&t->run, &taken, &err), PROPANE_ERR_INVALID, best);
    EXPECT(t->data[0][0][0] == -1);
    mem_free(data);
    train_run_free(&s->run), train_run_free(&t->run);
}

/* Returns which of the steps 1 to 20 have a file, as "1 3 7". */
static const char *steps_kept(void) {
    static char text[200];
    size_t n = 0;
    text[0] = 0;
    for (int step = 1; step <= 20; step++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/best.%d.safetensors", folder, step);
        if (file_exists(path)) n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? " " : "", step);
    }
    return text;
}

static void offer(scripted_run *s, int64_t step, double loss) {
    s->run.state.step = step;
    EXPECT_OK(top_checkpoints_offer(&s->run, loss, &err));
}

/* With equal losses the earlier file is kept, and the later one is written only below the limit. */
TEST(the_files_of_the_best_validations_stay) {
    begin();
    train_options o = scripted_options(folder, 9);
    o.keep = "3", o.eval_interval = 1;
    scripted_run *s = filled(&o);
    static const struct {
        double loss;
        const char *kept;
    } rows[] = {{5, "1"},     {6, "1 2"},    {6, "1 2 3"},   {6, "1 2 3"},   {7, "1 2 3"},
                {4, "1 2 6"}, {-1, "1 6 7"}, {4.5, "6 7 8"}, {4.5, "6 7 8"}, {4.25, "6 7 10"}};
    for (int i = 0; i < 10; i++) {
        offer(s, i + 1, rows[i].loss);
        EXPECT_MSG(strcmp(steps_kept(), rows[i].kept) == 0, "after %d: %s, not %s", i + 1, steps_kept(), rows[i].kept);
    }
    char path[1200];
    snprintf(path, sizeof path, "%s/best.10.safetensors", folder);
    EXPECT_TEXT(key_of(path, "val_loss"), "0x1.1p+2");
    EXPECT_TEXT(key_of(path, "step"), "10");
    train_run_free(&s->run);
}

/* Files of later steps are from a run that was killed; other names are left alone; a file that cannot be read, or has
 * no loss, is removed first. */
TEST(other_files_of_the_folder) {
    begin();
    train_options o = scripted_options(folder, 9);
    o.keep = "3", o.eval_interval = 1;
    scripted_run *s = filled(&o);
    offer(s, 2, 5);
    offer(s, 7, 6);
    offer(s, 9, 1);
    static const char *const others[] = {"best.x.safetensors", "best.8.safetensors.tmp", "best.safetensors", "best.8",
                                         "bestX8.safetensors", "best.-8.safetensors"};
    char path[1200];
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        EXPECT_OK(file_write(path, "nothing", 7, &err));
    }
    offer(s, 7, 4); /* 7 is written again, 9 is removed */
    EXPECT_TEXT(steps_kept(), "2 7");
    snprintf(path, sizeof path, "%s/best.3.safetensors", folder);
    EXPECT_OK(file_write(path, "broken", 6, &err));
    EXPECT_TEXT(steps_kept(), "2 3 7");
    offer(s, 8, 9);
    EXPECT_TEXT(steps_kept(), "2 7 8");
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        EXPECT_MSG(file_exists(path), "%s is gone", others[i]);
    }
    s->run.options.keep = "1"; /* a smaller limit removes the surplus */
    offer(s, 10, 8);
    EXPECT_TEXT(steps_kept(), "7");
    s->run.options.keep = "2";
    snprintf(path, sizeof path, "%s/best.12.safetensors", folder); /* a folder cannot be removed as a file */
    EXPECT(mkdir(path, 0700) == 0);
    s->run.state.step = 11;
    EXPECT_FAIL(top_checkpoints_offer(&s->run, 1, &err), PROPANE_ERR_IO, "cannot remove ");
    train_run_free(&s->run);
}

/* In a run: each validation is offered unless its loss is not a number, and with "best" there are no such files. */
TEST(a_run_keeps_its_best_validations) {
    begin();
    train_options o = scripted_options(folder, 6);
    bool restart;
    o.keep = "2", o.eval_interval = 1;
    scripted_run *s = scripted_made(&o);
    const double val[] = {3, 2, NAN, 1, 2, 5};
    memcpy(s->val, val, sizeof val);
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    EXPECT_TEXT(steps_kept(), "2 4");
    EXPECT(s->finished == 4);
    train_run_free(&s->run);
    begin();
    o.run_dir = folder, o.keep = "1";
    s = scripted_made(&o);
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    EXPECT_TEXT(steps_kept(), "");
    EXPECT(file_exists(best));
    train_run_free(&s->run);
}

SUITE("train/checkpoint", T(a_checkpoint_holds_state_weights_and_moments), T(momentum_of_outer_steps_may_be_absent),
      T(blocks_are_read_apart), T(remains_of_killed_writers_are_removed_when_a_run_is_read),
      T(a_failed_write_leaves_the_older_checkpoint), T(fixed_options_must_be_the_same), T(another_run_is_named),
      T(recalled_options_are_those_of_the_run), T(numbers_of_the_state_are_checked),
      T(keys_that_are_missing_are_named_unless_they_are_new), T(tensors_are_all_there_before_one_is_filled),
      T(damaged_and_shortened_files_are_refused), T(the_best_file_is_read_if_it_is_of_the_best_step),
      T(the_files_of_the_best_validations_stay), T(other_files_of_the_folder), T(a_run_keeps_its_best_validations))
