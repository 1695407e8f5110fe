/* SPDX-License-Identifier: MIT
 * Tests access to a trainer's trained tensors: they are read, replaced and refused, and a run in parts gives the same
 * bits as a run in one part.
 */
#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "support/test.h"

enum { STEPS = 6, TENSORS = 32 };

static propane_error err;
static const char said[] =
    "a small text that is long enough to learn from: one two three four five six seven eight nine ten "
    "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty\n";
static const char small[] = "{\"kind\": \"chars\", \"layers\": 1, \"width\": 8, \"heads\": 2, \"hidden\": 16, "
                            "\"context\": 8, \"batch\": 2, \"steps\": 6, \"held-out\": 0.2, \"eval-batches\": 2, "
                            "\"eval-every\": 3, \"lr\": 1e-2, \"warmup\": 0, \"freeze\": \"norm\"}";

typedef struct book {
    double losses[STEPS + 1], held_out;
    int steps, evaluations;
} book;

static void on_step(void *context, const propane_step *s) {
    book *b = context;
    b->losses[s->step] = s->loss;
    b->steps++;
}

static void on_evaluation(void *context, const propane_evaluation *e) {
    book *b = context;
    b->held_out = e->loss;
    b->evaluations++;
}

static propane_trainer *open_text(const char *name, const char *value) {
    const propane_data data = {.size = sizeof data, .text = said, .length = sizeof said - 1};
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, &err));
    EXPECT_OK(propane_options_parse(o, small, sizeof small - 1, "o.json", &err));
    if (name) EXPECT_OK(propane_options_set(o, name, value, &err));
    EXPECT_OK(propane_trainer_create(o, &data, &t, &err));
    propane_options_free(o);
    return t;
}

static propane_status go_on(propane_trainer *t, int64_t steps, book *b) {
    const propane_trainer_callbacks callbacks = {sizeof callbacks, b, on_step, on_evaluation, NULL};
    return propane_trainer_advance(t, steps, &callbacks, &err);
}

TEST(a_run_in_parts_is_the_run_in_one) {
    propane_trainer *one = open_text(NULL, NULL), *parts = open_text(NULL, NULL);
    book a = {0}, b = {0};
    EXPECT_OK(go_on(one, 0, &a));
    EXPECT_OK(go_on(parts, 3, &b));
    EXPECT(b.steps == 3 && b.evaluations == 1); /* the evaluation that is due there */
    EXPECT_OK(go_on(parts, 2, &b));
    EXPECT(b.steps == 5 && b.evaluations == 1);
    EXPECT_OK(go_on(parts, INT64_MAX, &b));
    EXPECT(b.steps == STEPS && b.evaluations == a.evaluations && b.held_out == a.held_out);
    EXPECT(memcmp(a.losses, b.losses, sizeof a.losses) == 0);
    EXPECT_OK(go_on(parts, 4, &b)); /* all steps are done */
    EXPECT(b.steps == STEPS);
    propane_trainer_free(one), propane_trainer_free(parts);
}

/* Copies all trained tensors into separate memory. */
static int take(const propane_trainer *t, propane_tensor out[TENSORS]) {
    propane_trained_tensor l = {.size = sizeof l};
    int n = 0;
    for (; n < TENSORS && propane_trainer_tensor(t, n, &l); n++) {
        float *values = mem_array((size_t)l.count, sizeof *values);
        EXPECT_OK(propane_trainer_get(t, n, values, l.count, &err));
        out[n] = (propane_tensor){.name = l.name, .dtype = PROPANE_FP32, .rank = l.rank, .values = values};
        for (int d = 0; d < l.rank; d++) out[n].dim[d] = l.dim[d];
    }
    return n;
}

static void drop(propane_tensor *list, int count) {
    for (int i = 0; i < count; i++) mem_free((void *)(uintptr_t)list[i].values);
}

static double held_out(propane_trainer *t) {
    propane_evaluation e = {.size = sizeof e};
    EXPECT_OK(propane_trainer_evaluate(t, &e, &err));
    return e.loss;
}

TEST(weights_move_to_another_trainer) {
    static const char *const modes[] = {"inputs", "packed", "baked"};
    for (int m = 0; m < 3; m++) {
        propane_trainer *from = open_text(NULL, NULL), *to = open_text("weights", modes[m]);
        propane_tensor list[TENSORS];
        propane_trainer_info info = {.size = sizeof info};
        int64_t sum = 0;
        EXPECT_OK(propane_trainer_run(from, NULL, &err));
        const double want = held_out(from);
        const int count = take(from, list);
        for (int i = 0; i < count; i++) {
            int64_t elements = 1;
            for (int d = 0; d < list[i].rank; d++) elements *= list[i].dim[d];
            EXPECT(!strstr(list[i].name, "norm")); /* norms are frozen */
            sum += elements;
        }
        EXPECT(propane_trainer_describe(from, &info) && info.parameters == sum && count == 8);
        EXPECT(held_out(to) != want);
        EXPECT_OK(propane_trainer_set(to, list, count, &err));
        EXPECT(held_out(to) == want);
        EXPECT_OK(propane_trainer_step(to, NULL, &err));
        drop(list, count);
        propane_trainer_free(from), propane_trainer_free(to);
    }
}

TEST(what_does_not_fit_changes_nothing) {
    propane_trainer *t = open_text(NULL, NULL);
    propane_tensor list[TENSORS], one;
    propane_trained_tensor l = {.size = sizeof l};
    const int count = take(t, list);
    const double want = held_out(t);
    float few[1] = {0};
    float *last = (float *)(uintptr_t)list[count - 1].values;
    ((float *)(uintptr_t)list[0].values)[0] += 1;
    last[3] = NAN;
    EXPECT_FAIL(propane_trainer_set(t, list, count, &err), PROPANE_ERR_INVALID, "element 3 is");
    EXPECT(strstr(err.text, list[count - 1].name) != NULL);
    last[3] = -INFINITY;
    EXPECT_FAIL(propane_trainer_set(t, list, count, &err), PROPANE_ERR_INVALID, "element 3 is -inf");
    EXPECT(held_out(t) == want);
    one = list[0], one.name = "model.nothing";
    EXPECT_FAIL(propane_trainer_set(t, &one, 1, &err), PROPANE_ERR_NOT_FOUND, "trains no tensor 'model.nothing'");
    one = list[0], one.dim[0]++;
    EXPECT_FAIL(propane_trainer_set(t, &one, 1, &err), PROPANE_ERR_INVALID, "this run trains one of shape [");
    one = list[0], one.rank = 99;
    EXPECT_FAIL(propane_trainer_set(t, &one, 1, &err), PROPANE_ERR_INVALID, "has the shape [");
    one = list[0], one.dtype = PROPANE_FP16;
    EXPECT_FAIL(propane_trainer_set(t, &one, 1, &err), PROPANE_ERR_INVALID, "must be fp32");
    EXPECT_FAIL(propane_trainer_set(t, NULL, 1, &err), PROPANE_ERR_INVALID, "tensors must not be NULL");
    EXPECT_OK(propane_trainer_set(t, NULL, 0, &err));
    EXPECT_FAIL(propane_trainer_get(t, count, few, 1, &err), PROPANE_ERR_NOT_FOUND, "index");
    EXPECT_FAIL(propane_trainer_get(t, 0, few, 1, &err), PROPANE_ERR_INVALID, "elements, not 1");
    EXPECT(!propane_trainer_tensor(t, -1, &l) && !propane_trainer_tensor(t, count, &l));
    EXPECT(held_out(t) == want);
    drop(list, count);
    propane_trainer_free(t);
    t = open_text("compact-vocab", "true");
    EXPECT_FAIL(propane_trainer_get(t, 0, few, 1, &err), PROPANE_ERR_UNSUPPORTED, "compact-vocab");
    propane_trainer_free(t);
}

SUITE("api/weights", T(a_run_in_parts_is_the_run_in_one), T(weights_move_to_another_trainer),
      T(what_does_not_fit_changes_nothing))
