/* SPDX-License-Identifier: MIT
 * The compiler against Apple's: the words of every published program that is one operation. The table that is printed
 * says, by class, how many programs and tasks are the same word for word. What differs must be one of the fields that are
 * named here; the program keeps its meaning (tests/engine/test_simulate).
 */
#include <stdlib.h>

#include "ane/h13/compile.h"
#include "ane/h13/describe.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "oracle_program.h"
#include "support/test.h"

enum { CLASSES = 24 };

/* Programs of each class that are the same, word for word. What is missing: ExeCycles (an estimate) of tasks that stay on
 * chip in one reduction and one softmax; a broadcast flag that two programs of one description have differently
 * (layer_norm); the explicit on-chip place of a slice's result; one product that Apple folds into an 8x8 image; chains. */
static const struct {
    const char *name;
    int programs;
} words_floor[] = {{"binary", 26},         {"scalar", 5},     {"unary", 14},      {"matmul constant", 8},
                   {"matmul computed", 9}, {"broadcast", 3},  {"conv dense", 11}, {"conv grouped, depthwise", 5},
                   {"conv stride 2", 5},   {"reduction", 10}, {"layer_norm", 3},  {"softmax", 2},
                   {"slice, transpose", 3}};

typedef struct words_class {
    const char *name;
    int programs, same_programs, tasks, same_tasks, words, same_words;
} words_class;

typedef struct words_table {
    words_class classes[CLASSES];
    int count, refused;
    bool verbose;
} words_table;

static words_class *words_find(words_table *t, const char *name) {
    int i = 0;
    while (i < t->count && strcmp(t->classes[i].name, name) != 0) i++;
    if (i == t->count) t->classes[t->count++].name = name;
    return &t->classes[i];
}

static void words_compare(words_table *table, words_class *c, const oracle *o, const engine_object *ours) {
    int same = 0;
    for (int i = 0; i < o->task_count; i++) {
        text lines = {0};
        int words = engine_task_words(&o->tasks[i]);
        int differ =
            i < ours->task_count ? engine_task_difference(&ours->tasks[i], &o->tasks[i], "    ", &lines) : words;
        c->words += words;
        c->same_words += words - differ;
        same += differ == 0;
        if (differ && table->verbose)
            printf("%s task %d: %d words\n%s", o->id, i, differ, lines.data ? lines.data : "");
        text_deinit(&lines);
    }
    if (table->verbose && ours->task_count != o->task_count)
        printf("%s: %d tasks, Apple's %d\n", o->id, ours->task_count, o->task_count);
    c->same_tasks += same;
    c->same_programs += same == o->task_count && ours->task_count == o->task_count;
}

static void words_oracle(const oracle *o, void *context) {
    words_table *table = context;
    words_class *c = words_find(table, oracle_class(o));
    propane_error err = {0};
    engine_object *ours = NULL;
    mil_module *m = oracle_program(o);
    c->programs++;
    c->tasks += o->task_count;
    if (!m) return;
    if (engine_compile(m->functions, NULL, &ours, &err) == PROPANE_OK)
        words_compare(table, c, o, ours);
    else {
        table->refused++;
        printf("%s: %s\n", o->id, err.text);
    }
    engine_object_free(ours);
    mil_module_free(m);
}

TEST(words_are_apples) {
    words_table t = {.verbose = getenv("ENGINE_WORDS") != NULL};
    if (oracle_each(words_oracle, &t) < 0) SKIP("h13_oracles.jsonl is not in the shared data");
    words_class all = {.name = "all"};
    printf("%-26s %12s %12s %14s\n", "class", "programs", "tasks", "words");
    for (int i = 0; i <= t.count; i++) {
        const words_class *c = i < t.count ? &t.classes[i] : &all;
        printf("%-26s %5d of %3d %5d of %3d %6d of %6d\n", c->name, c->same_programs, c->programs, c->same_tasks,
               c->tasks, c->same_words, c->words);
        all.programs += c->programs, all.same_programs += c->same_programs, all.tasks += c->tasks;
        all.same_tasks += c->same_tasks, all.words += c->words, all.same_words += c->same_words;
    }
    for (size_t i = 0; i < sizeof words_floor / sizeof words_floor[0]; i++)
        EXPECT_MSG(words_find(&t, words_floor[i].name)->same_programs >= words_floor[i].programs,
                   "%s: %d programs are the same, not %d", words_floor[i].name,
                   words_find(&t, words_floor[i].name)->same_programs, words_floor[i].programs);
    EXPECT(t.refused == 0);
}

SUITE("engine/words", T(words_are_apples))
