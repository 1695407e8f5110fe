/* SPDX-License-Identifier: MIT
 * The rows of options.def: defaults, setting by name, refused values, texts that convert back to the same values.
 */
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
                "learning-rate: a training run has no such option");
    EXPECT_FAIL(train_options_set(&o, "shuffle", "1", &err), PROPANE_ERR_NOT_FOUND, "no such option");
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

SUITE("train/options", T(defaults_pass_their_own_check), T(every_default_can_be_set_by_name), T(names_are_unique),
      T(values_outside_of_a_row_are_refused), T(values_of_another_type_are_refused),
      T(the_value_for_not_given_may_be_given), T(printed_values_come_back_to_the_same_bits))
