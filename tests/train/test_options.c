/* SPDX-License-Identifier: MIT
 * The rows of options.def: defaults, setting by name, refused values, texts that convert back to the same values.
 */
#include <math.h>
#include <string.h>

#include "support/test.h"
#include "train/train_options.h"

static propane_error err;

TEST(defaults_pass_their_own_check) {
    for (int kind = 0; kind < TRAIN_KINDS; kind++) {
        train_options o;
        train_options_default(&o, (train_kind)kind);
        EXPECT_OK(train_options_check(&o, &err));
        for (int i = 0; i < TRAIN_OPTIONS; i++) EXPECT(!o.given[i]);
    }
}

/* Every default, as written, can be set and results in the default. */
TEST(every_default_can_be_set_by_name) {
    for (int kind = 0; kind < TRAIN_KINDS; kind++)
        for (int i = 0; i < TRAIN_OPTIONS; i++) {
            const train_option *row = &train_option_rows[i];
            char room[TRAIN_VALUE_ROOM], after[TRAIN_VALUE_ROOM], before[200];
            train_options o;
            train_options_default(&o, (train_kind)kind);
            if (!row->name || !row->use[kind].help || !row->use[kind].standard) continue;
            snprintf(before, sizeof before, "%s", train_option_print(row, &o, room));
            EXPECT_OK(train_options_set(&o, row->name, row->use[kind].standard, &err));
            EXPECT_TEXT(before, train_option_print(row, &o, after));
            EXPECT(o.given[i]);
        }
}

TEST(names_are_unique) {
    for (int i = 0; i < TRAIN_OPTIONS; i++)
        for (int k = 0; k < i; k++) {
            const train_option *a = &train_option_rows[i], *b = &train_option_rows[k];
            EXPECT(strcmp(a->key, b->key) != 0 && a->offset != b->offset);
            EXPECT(!a->name || !b->name || strcmp(a->name, b->name) != 0);
        }
}

/* Tries every number beyond both ends, by name and in the struct. */
TEST(values_outside_of_a_row_are_refused) {
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        const train_kind kind = row->use[TRAIN_LANGUAGE].help ? TRAIN_LANGUAGE : TRAIN_IMPORTED;
        char value[40];
        train_options o;
        if (row->type != TRAIN_INT && row->type != TRAIN_REAL) continue;
        train_options_default(&o, kind);
        snprintf(value, sizeof value, row->type == TRAIN_INT ? "%.0f" : "%g", row->max * 2 + 1);
        EXPECT_FAIL(train_options_set(&o, row->name, value, &err), PROPANE_ERR_INVALID, row->name);
        EXPECT(!o.given[i]);
        EXPECT_OK(train_options_check(&o, &err));
        EXPECT(train_option_parse(row, "-3", &o));
        EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, row->name);
    }
}

TEST(values_of_another_type_are_refused) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    EXPECT_FAIL(train_options_set(&o, "steps", "1e3", &err), PROPANE_ERR_INVALID,
                "steps: '1e3' is not an integer from 1 to 1000000000000");
    EXPECT_FAIL(train_options_set(&o, "lr", "nan", &err), PROPANE_ERR_INVALID,
                "lr: 'nan' is not a number from 0 to 100");
    EXPECT_FAIL(train_options_set(&o, "lr", "", &err), PROPANE_ERR_INVALID, "lr: '' is not a number");
    EXPECT_FAIL(train_options_set(&o, "pack", "yes", &err), PROPANE_ERR_INVALID,
                "pack: 'yes' is neither true nor false");
    EXPECT_FAIL(train_options_set(&o, "weights", "frozen", &err), PROPANE_ERR_INVALID,
                "weights: 'frozen' is not one of auto|inputs|packed|baked|reload");
    EXPECT_FAIL(train_options_set(&o, "learning-rate", "1", &err), PROPANE_ERR_NOT_FOUND,
                "learning-rate: unknown option of a training run");
    EXPECT_FAIL(train_options_set(&o, "shuffle", "1", &err), PROPANE_ERR_NOT_FOUND, "unknown option of a training run");
    EXPECT(o.steps == 0 && o.lr == -1 && o.pack);
}

/* A default outside the range means "not given": only that one value outside the range is allowed. */
TEST(the_value_for_not_given_may_be_given) {
    train_options o;
    train_options_default(&o, TRAIN_IMPORTED);
    EXPECT_OK(train_options_set(&o, "min-lr", "-1", &err));
    EXPECT_FAIL(train_options_set(&o, "min-lr", "-2", &err), PROPANE_ERR_INVALID, "min-lr: '-2'");
    EXPECT_OK(train_options_set(&o, "steps", "0", &err));
    EXPECT_FAIL(train_options_set(&o, "batch", "0", &err), PROPANE_ERR_INVALID, "batch: '0'");
}

TEST(printed_values_come_back_to_the_same_bits) {
    static const double values[] = {0.1, 3e-4, 1e-8, 0.9999999, 1e30};
    const train_option *row = &train_option_rows[TRAIN_OPTION_clip];
    char text[TRAIN_VALUE_ROOM];
    train_options o, back;
    train_options_default(&o, TRAIN_LANGUAGE);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        o.clip = values[i];
        EXPECT(train_option_parse(row, train_option_print(row, &o, text), &back) && back.clip == values[i]);
    }
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Both ends of a range are inside, by name and in the struct, for each kind of run; the next number is not. */
TEST(both_ends_of_a_range_are_allowed) {
    int ends = 0;
    for (int kind = 0; kind < TRAIN_KINDS; kind++)
        for (int i = 0; i < TRAIN_OPTIONS; i++) {
            const train_option *row = &train_option_rows[i];
            if (!row->use[kind].help || (row->type != TRAIN_INT && row->type != TRAIN_REAL)) continue;
            for (int end = 0; end < 2; end++) {
                char text[60];
                train_options o, by_name;
                train_options_default(&o, (train_kind)kind);
                o.min_lr = 0, o.lr = 100;
                by_name = o;
                const double value = end ? row->max : row->min;
                snprintf(text, sizeof text, row->type == TRAIN_INT ? "%.0f" : "%.17g", value);
                EXPECT(train_option_parse(row, text, &o));
                EXPECT_OK(train_options_check(&o, &err));
                EXPECT_OK(train_options_set(&by_name, row->name, text, &err));
                EXPECT(by_name.given[i]);
                if (row->type == TRAIN_INT) {
                    snprintf(text, sizeof text, "%.0f", value + (end ? 1 : -1));
                    *(int64_t *)train_option_at(row, &o) = (int64_t)value + (end ? 1 : -1);
                } else {
                    const double beyond = nextafter(value, end ? INFINITY : -INFINITY);
                    snprintf(text, sizeof text, "%.17g", beyond);
                    *(double *)train_option_at(row, &o) = beyond;
                }
                train_options standard;
                train_options_default(&standard, (train_kind)kind);
                ends++;
                if (strcmp(train_option_print(row, &o, (char[TRAIN_VALUE_ROOM]){0}),
                           train_option_print(row, &standard, (char[TRAIN_VALUE_ROOM]){0})) == 0)
                    continue; /* it means "not given" */
                by_name = o;
                EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, row->name);
                EXPECT_FAIL(train_options_set(&by_name, row->name, text, &err), PROPANE_ERR_INVALID, row->name);
            }
        }
    EXPECT(ends > 100);
}

/* Leaves nonzero bytes on the stack, so that a text without a terminator is detected. */
__attribute__((noinline)) static void fill_the_stack(void) {
    volatile char room[4000];
    for (size_t i = 0; i < sizeof room; i++) room[i] = i % 500 == 499 ? 0 : 'x';
}

TEST(every_word_of_a_choice_is_allowed_and_no_other) {
    for (int kind = 0; kind < TRAIN_KINDS; kind++)
        for (int i = 0; i < TRAIN_OPTIONS; i++) {
            const train_option *row = &train_option_rows[i];
            if (!row->use[kind].help || row->type != TRAIN_CHOICE) continue;
            train_options o;
            train_options_default(&o, (train_kind)kind);
            char words[200], *rest = words;
            snprintf(words, sizeof words, "%s", row->words);
            for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
                char longer[200], shorter[200];
                EXPECT_OK(train_options_set(&o, row->name, word, &err));
                EXPECT_TEXT(*(const char **)train_option_at(row, &o), word);
                EXPECT_OK(train_options_check(&o, &err));
                snprintf(longer, sizeof longer, "%sx", word);
                snprintf(shorter, sizeof shorter, "%.*s", (int)strlen(word) - 1, word);
                EXPECT_FAIL(train_options_set(&o, row->name, longer, &err), PROPANE_ERR_INVALID, row->words);
                EXPECT_FAIL(train_options_set(&o, row->name, shorter, &err), PROPANE_ERR_INVALID, row->words);
                EXPECT_FAIL(train_options_set(&o, row->name, row->words, &err), PROPANE_ERR_INVALID, row->words);
                EXPECT_TEXT(*(const char **)train_option_at(row, &o), word);
            }
            *(const char **)train_option_at(row, &o) = "other";
            EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, "is 'other'; it must be ");
        }
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.schedule = "steep";
    fill_the_stack();
    EXPECT(train_options_check(&o, &err) == PROPANE_ERR_INVALID);
    EXPECT_TEXT(err.text, "--schedule is 'steep'; it must be cosine, linear, constant or wsd");
    o.schedule = NULL;
    EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, "--schedule is ''; it must be ");
    train_options_default(&o, TRAIN_LANGUAGE);
    o.clipping = "late"; /* a shorter list than the one before it */
    fill_the_stack();
    EXPECT(train_options_check(&o, &err) == PROPANE_ERR_INVALID);
    EXPECT_TEXT(err.text, "--clip-norm is 'late'; it must be exact or lagged");
}

/* Which texts are valid, by the type of the option. */
TEST(texts_of_numbers) {
    static const struct {
        const char *name, *text;
        bool good;
    } cases[] = {{"steps", "5", true},    {"steps", "+5", true},   {"steps", "05", true},
                 {"steps", "5 ", false},  {"steps", "", false},    {"steps", "-", false},
                 {"steps", "0x5", false}, {"steps", "5.0", false}, {"steps", "9223372036854775808", false},
                 {"lr", "3e-4", true},    {"lr", ".5", true},      {"lr", "0x1p-3", false},
                 {"lr", "3e-4x", false},  {"lr", "inf", false},    {"lr", "-nan", false},
                 {"lr", "1e999", false},  {"lr", "x", false},      {"clip", "-0.5", false},
                 {"pack", "1", true},     {"pack", "0", true},     {"pack", "true", true},
                 {"pack", "false", true}, {"pack", "", false},     {"pack", "2", false},
                 {"pack", "True", false}, {"chat", "", true},      {"chat", "anything at all", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        train_options o;
        train_options_default(&o, TRAIN_LANGUAGE);
        const propane_status status = train_options_set(&o, cases[i].name, cases[i].text, &err);
        EXPECT_MSG((status == PROPANE_OK) == cases[i].good, "%s=%s: %d", cases[i].name, cases[i].text, status);
    }
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    EXPECT_OK(train_options_set(&o, "pack", "0", &err));
    EXPECT(!o.pack);
    EXPECT_OK(train_options_set(&o, "pack", "true", &err));
    EXPECT(o.pack);
    EXPECT_OK(train_options_set(&o, "pack", "false", &err));
    EXPECT(!o.pack);
}

/* The last of several values counts, a refused one changes nothing, and only given options are marked. */
TEST(a_repeated_option_has_its_last_value) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    EXPECT_OK(train_options_set(&o, "batch", "4", &err));
    EXPECT_OK(train_options_set(&o, "batch", "6", &err));
    EXPECT_FAIL(train_options_set(&o, "batch", "0", &err), PROPANE_ERR_INVALID, "batch");
    EXPECT_FAIL(train_options_set(&o, "batch", "7x", &err), PROPANE_ERR_INVALID, "batch");
    EXPECT(o.batch == 6);
    for (int i = 0; i < TRAIN_OPTIONS; i++) EXPECT(o.given[i] == (i == TRAIN_OPTION_batch));
}

/* ---- options together ------------------------------------------------------------------------------------------------ */

TEST(options_that_do_not_fit_together_are_refused) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.lr = 0.25, o.min_lr = 0.25;
    EXPECT_OK(train_options_check(&o, &err));
    o.min_lr = 0.375;
    EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, "--min-lr is 0.375; it must be 0 to 0.25");
    o.lr = -1; /* the rate is not known yet */
    EXPECT_OK(train_options_check(&o, &err));
    o.lr = 0, o.min_lr = 0;
    EXPECT_OK(train_options_check(&o, &err));
    o.min_lr = 1e-9;
    EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, "--min-lr is 1e-09; it must be 0 to 0");
    train_options_default(&o, TRAIN_IMPORTED);
    EXPECT_OK(train_options_check(&o, &err));
    o.resume = true;
    EXPECT_FAIL(train_options_check(&o, &err), PROPANE_ERR_INVALID, "--resume needs the run's folder");
    o.run_dir = "run";
    EXPECT_OK(train_options_check(&o, &err));
    o.resume = false;
    EXPECT_OK(train_options_check(&o, &err));
    o.pack = true, o.context = -5; /* options of the other kind are ignored */
    EXPECT_OK(train_options_check(&o, &err));
}

TEST(how_many_best_weights_are_kept) {
    static const struct {
        const char *text;
        int64_t count;
    } cases[] = {
        {"last", 0}, {"best", 1}, {"1", 1},   {"2", 2},  {"1000", 1000}, {"1001", -1}, {"0", -1},
        {"-1", -1},  {"", -1},    {"3x", -1}, {"b", -1}, {"bestx", -1},  {"1.5", -1},  {"99999999999999999999", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        train_options o;
        train_options_default(&o, TRAIN_LANGUAGE);
        o.keep = cases[i].text;
        EXPECT_MSG(train_options_keeps(o.keep) == cases[i].count, "%s", o.keep);
        const propane_status status = train_options_check(&o, &err);
        EXPECT((status == PROPANE_OK) == (cases[i].count >= 0));
        EXPECT(status == PROPANE_OK || strstr(err.text, "it must be best, last or a number from 1 to 1000"));
    }
}

TEST(early_updates_are_asked_for_by_overlap) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    EXPECT(!train_options_speculates(&o));
    o.overlap = "early";
    EXPECT(train_options_speculates(&o));
    o.overlap = "off";
    EXPECT(!train_options_speculates(&o));
    o.overlap = NULL;
    EXPECT(!train_options_speculates(&o));
}

/* An option that this kind of run lacks has the default of its type. */
TEST(defaults_are_those_of_the_kind) {
    train_options a, b;
    train_options_default(&a, TRAIN_LANGUAGE), train_options_default(&b, TRAIN_IMPORTED);
    EXPECT(a.kind == TRAIN_LANGUAGE && b.kind == TRAIN_IMPORTED);
    EXPECT(a.batch == 8 && b.batch == 16 && a.lr == -1 && b.lr == 1e-4 && a.clip == 1 && b.clip == 0);
    EXPECT(a.beta2 == 0.95 && b.beta2 == 0.999 && a.pack && !b.pack && b.shuffle && !a.shuffle);
    EXPECT_TEXT(a.overlap, "on");
    EXPECT_TEXT(b.overlap, "");
    EXPECT_TEXT(a.loss, "");
    EXPECT(!a.run_dir && !b.run_dir && !a.mpi && !a.shared);
    char room[TRAIN_VALUE_ROOM];
    EXPECT_TEXT(train_option_print(&train_option_rows[TRAIN_OPTION_run_dir], &a, room), "");
    EXPECT_TEXT(train_option_print(&train_option_rows[TRAIN_OPTION_pack], &a, room), "1");
    EXPECT_TEXT(train_option_print(&train_option_rows[TRAIN_OPTION_pack], &b, room), "0");
    EXPECT_TEXT(train_option_print(&train_option_rows[TRAIN_OPTION_clip], &a, room), "0x1p+0");
    EXPECT_TEXT(train_option_print(&train_option_rows[TRAIN_OPTION_lr], &a, room), "-0x1p+0");
    EXPECT_TEXT(train_option_print(&train_option_rows[TRAIN_OPTION_warmup], &a, room), "-1");
}

SUITE("train/options", T(defaults_pass_their_own_check), T(every_default_can_be_set_by_name), T(names_are_unique),
      T(values_outside_of_a_row_are_refused), T(values_of_another_type_are_refused),
      T(the_value_for_not_given_may_be_given), T(printed_values_come_back_to_the_same_bits),
      T(both_ends_of_a_range_are_allowed), T(every_word_of_a_choice_is_allowed_and_no_other), T(texts_of_numbers),
      T(a_repeated_option_has_its_last_value), T(options_that_do_not_fit_together_are_refused),
      T(how_many_best_weights_are_kept), T(early_updates_are_asked_for_by_overlap), T(defaults_are_those_of_the_kind))
