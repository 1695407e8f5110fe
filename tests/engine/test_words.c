/* SPDX-License-Identifier: MIT
 * Compares the compiler with Apple's: the words of every published program of one operation. The printed table shows,
 * by class, the number of programs and tasks that are the same word for word. Any difference must be in a field named
 * here, and the program must keep its meaning (tests/engine/test_simulate).
 *
 *   test_words [CASE...]      h13_oracles.jsonl of the test data, against the numbers below
 *   test_words FILE.jsonl     the same table for any such file, and the differences of its programs
 *
 * ENGINE_WORDS=1 prints every word that differs.
 */
#include <stdlib.h>

#include "ane/h13/compile.h"
#include "ane/h13/describe.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "oracle_program.h"
#include "support/test.h"

enum { CLASSES = 24 };

/* Programs of each class that are the same word for word. Not reached: the explicit on-chip place of a slice's
 * result, and one product that Apple folds into an 8x8 image. */
static const struct {
    const char *name;
    int programs;
} words_floor[] = {{"binary", 26},          {"scalar", 5},     {"unary", 14},      {"matmul constant", 8},
                   {"matmul computed", 9},  {"broadcast", 3},  {"conv dense", 11}, {"conv grouped, depthwise", 5},
                   {"conv stride 2", 5},    {"reduction", 11}, {"layer_norm", 4},  {"softmax", 3},
                   {"slice, transpose", 3}, {"chain", 2}};

typedef struct words_class {
    const char *name;
    int programs, same_programs, tasks, same_tasks, words, same_words;
} words_class;

typedef struct words_table {
    words_class classes[CLASSES];
    int count, refused;
    bool verbose, each; /* verbose: print words; each: print one line per program that differs */
} words_table;

static words_class *words_find(words_table *t, const char *name) {
    int i = 0;
    while (i < t->count && strcmp(t->classes[i].name, name) != 0) i++;
    if (i == t->count) t->classes[t->count++].name = name;
    return &t->classes[i];
}

static void words_compare(words_table *table, words_class *c, const oracle *o, const engine_object *ours) {
    int same = 0, all = 0, wrong = 0;
    for (int i = 0; i < o->task_count; i++) {
        text lines = {0};
        int words = engine_task_words(&o->tasks[i]);
        int differ =
            i < ours->task_count ? engine_task_difference(&ours->tasks[i], &o->tasks[i], "    ", &lines) : words;
        c->same_words += words - differ;
        same += differ == 0;
        all += words, wrong += differ;
        if (differ && table->verbose)
            printf("%s task %d: %d words\n%s", o->id, i, differ, lines.data ? lines.data : "");
        text_deinit(&lines);
    }
    if ((table->verbose || table->each) && ours->task_count != o->task_count)
        printf("%s: %d tasks, Apple's %d\n", o->id, ours->task_count, o->task_count);
    if (table->each && wrong)
        printf("%s: %d of %d words differ, in %d of %d tasks\n", o->id, wrong, all, o->task_count - same,
               o->task_count);
    c->same_tasks += same;
    c->same_programs += same == o->task_count && ours->task_count == o->task_count;
}

static void words_oracle(const oracle *o, void *context) {
    words_table *table = context;
    words_class *c = words_find(table, oracle_class(o));
    propane_error err = {0};
    engine_object *ours = NULL;
    mil_module *m = oracle_program(o, &err);
    c->programs++;
    c->tasks += o->task_count;
    for (int i = 0; i < o->task_count; i++) c->words += engine_task_words(&o->tasks[i]);
    if (m && engine_compile(m->functions, NULL, &ours, &err) == PROPANE_OK)
        words_compare(table, c, o, ours);
    else {
        table->refused += m != NULL;
        if (m || table->each) printf("%s: %s\n", o->id, err.text);
    }
    engine_object_free(ours);
    mil_module_free(m);
}

static void words_print(const words_table *t) {
    words_class all = {.name = "all"};
    printf("%-26s %12s %12s %14s\n", "class", "programs", "tasks", "words");
    for (int i = 0; i <= t->count; i++) {
        const words_class *c = i < t->count ? &t->classes[i] : &all;
        printf("%-26s %5d of %3d %5d of %3d %6d of %6d\n", c->name, c->same_programs, c->programs, c->same_tasks,
               c->tasks, c->same_words, c->words);
        all.programs += c->programs, all.same_programs += c->same_programs, all.tasks += c->tasks;
        all.same_tasks += c->same_tasks, all.words += c->words, all.same_words += c->same_words;
    }
}

TEST(words_are_apples) {
    words_table t = {.verbose = getenv("ENGINE_WORDS") != NULL};
    if (oracle_each("h13_oracles.jsonl", words_oracle, &t) < 0) SKIP("h13_oracles.jsonl is not in the shared data");
    words_print(&t);
    for (size_t i = 0; i < sizeof words_floor / sizeof words_floor[0]; i++)
        EXPECT_MSG(words_find(&t, words_floor[i].name)->same_programs >= words_floor[i].programs,
                   "%s: %d programs are the same, not %d", words_floor[i].name,
                   words_find(&t, words_floor[i].name)->same_programs, words_floor[i].programs);
    EXPECT(t.refused == 0);
}

static const char *words_file;

TEST(words_of_a_file) {
    words_table t = {.verbose = getenv("ENGINE_WORDS") != NULL, .each = true};
    int programs = oracle_each_of(words_file, words_oracle, &t);
    EXPECT_MSG(programs > 0, "%s has no program", words_file);
    words_print(&t);
    printf("%s: %d programs, %d refused\n", words_file, programs, t.refused);
}

int main(int argc, char **argv) {
    static const test_case always[] = {T(words_are_apples)}, of_a_file[] = {T(words_of_a_file)};
    const char *dot = argc == 2 ? strrchr(argv[1], '.') : NULL;
    if (!dot || strcmp(dot, ".jsonl") != 0) return test_main("engine/words", always, 1, argc, argv);
    words_file = argv[1];
    return test_main("engine/words", of_a_file, 1, 1, argv);
}
