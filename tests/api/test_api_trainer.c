/* SPDX-License-Identifier: MIT
 * Tests the public trainer. Options are the rows of options.def. Steps and the loop give the same bits. Runs are
 * stopped, saved and continued. Data in memory work like files. Errors are reported, and nothing is lost if memory
 * fails.
 */
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/failing.h"
#include "support/test.h"
#include "train/train_options.h"

enum { STEPS = 6, SAMPLES = 24 };

static propane_error err;
static const char said[] =
    "a small text that is long enough to learn from: one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three\n";
static const char small[] = "{\"kind\": \"chars\", \"layers\": 1, \"width\": 8, \"heads\": 2, \"hidden\": 16, "
                            "\"context\": 8, \"batch\": 2, \"steps\": 6, \"held-out\": 0.2, \"eval-batches\": 2, "
                            "\"eval-every\": 3, \"checkpoint-every\": 2, \"lr\": 1e-2, \"warmup\": 0, \"tie\": true}";
static const propane_data text_data = {.size = sizeof text_data, .text = said, .length = sizeof said - 1};

/* ---- options ---------------------------------------------------------------------------------------------------------------- */

TEST(options_are_the_rows_of_the_table) {
    for (int kind = 0; kind < TRAIN_KINDS; kind++) {
        propane_options *o = NULL;
        propane_option_info info = {.size = sizeof info};
        int index = 0;
        EXPECT_OK(propane_options_create((propane_training)kind, &o, &err));
        for (int i = 0; i < TRAIN_OPTIONS; i++) {
            const train_option *row = &train_option_rows[i];
            char *value = NULL;
            if (!row->name || !row->use[kind].help) continue;
            EXPECT(propane_options_describe(o, index, &info) && strcmp(info.name, row->name) == 0 && !info.given);
            EXPECT_OK(propane_options_get(o, row->name, &value, &err));
            if (row->use[kind].standard) {
                EXPECT_OK(propane_options_set(o, row->name, row->use[kind].standard, &err));
                EXPECT(propane_options_describe(o, index, &info) && info.given);
            }
            propane_free(value);
            index++;
        }
        EXPECT(index > 20 && !propane_options_describe(o, index, &info) && !propane_options_describe(o, -1, &info));
        propane_options_free(o);
    }
}

static void expect_value(const propane_options *o, const char *name, const char *want) {
    char *value = NULL;
    EXPECT_OK(propane_options_get(o, name, &value, &err));
    EXPECT_TEXT(value, want);
    propane_free(value);
}

TEST(options_are_set_from_texts_and_from_json) {
    static const char bad[] = "{\"lr\": 0.5, \"steps\": \"many\"}", list[] = "{\"shape\": [\"a=1,2\", \"b=3\"]}";
    propane_options *o = NULL, *p = NULL;
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, &err));
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_PROGRAM, &p, &err));
    EXPECT_OK(propane_options_set(o, "lr", "3e-4", &err));
    expect_value(o, "lr", "0.0003");
    EXPECT_FAIL(propane_options_parse(o, bad, sizeof bad - 1, "o.json", &err), PROPANE_ERR_INVALID,
                "o.json: steps: 'many' is not an integer");
    expect_value(o, "lr", "0.0003"); /* sets all or none */
    EXPECT_OK(propane_options_parse(o, small, sizeof small - 1, "o.json", &err));
    expect_value(o, "lr", "0.01");
    expect_value(o, "tie", "true");
    expect_value(o, "run", "");
    EXPECT_OK(propane_options_parse(p, list, sizeof list - 1, "o.json", &err));
    expect_value(p, "shape", "a=1,2;b=3");
    EXPECT_FAIL(propane_options_set(p, "shape", "a=1;b=2", &err), PROPANE_ERR_INVALID, "set each value separately");
    EXPECT_FAIL(propane_options_set(p, "context", "8", &err), PROPANE_ERR_NOT_FOUND, "context");
    EXPECT_FAIL(propane_options_set(o, "lr", NULL, &err), PROPANE_ERR_INVALID, "value must not be NULL");
    EXPECT_FAIL(propane_options_parse(o, "[]", 2, "o.json", &err), PROPANE_ERR_INVALID, "JSON object");
    EXPECT_FAIL(propane_options_parse(o, "{\"model_type\": \"llama\"}", 23, "c.json", &err), PROPANE_ERR_UNSUPPORTED,
                "model configuration");
    EXPECT_FAIL(propane_options_check(o, &err), PROPANE_ERR_INVALID, "--data is missing");
    propane_options_free(o);
    EXPECT_FAIL(propane_options_create((propane_training)7, &o, &err), PROPANE_ERR_INVALID, "kind is 7");
    propane_options_free(p);
}

/* ---- language models ----------------------------------------------------------------------------------------------------------- */

static propane_options *text_options(const char *run, bool resume) {
    propane_options *o = NULL;
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, &err));
    EXPECT_OK(propane_options_parse(o, small, sizeof small - 1, "o.json", &err));
    if (run) EXPECT_OK(propane_options_set(o, "run", run, &err));
    if (resume) EXPECT_OK(propane_options_set(o, "resume", "true", &err));
    return o;
}

typedef struct book {
    propane_trainer *trainer;
    double losses[STEPS + 1], held_out;
    int64_t cancel_at;
    int steps, evaluations, checkpoints;
} book;

static void on_step(void *context, const propane_step *s) {
    book *b = context;
    b->losses[s->step] = s->loss;
    b->steps++;
    if (s->step == b->cancel_at) propane_trainer_cancel(b->trainer);
}

static void on_evaluation(void *context, const propane_evaluation *e) {
    ((book *)context)->held_out = e->loss;
    ((book *)context)->evaluations++;
}

static void on_checkpoint(void *context, int64_t step, const char *path) {
    EXPECT(step > 0 && strstr(path, "checkpoint.safetensors"));
    ((book *)context)->checkpoints++;
}

static propane_trainer *open_text(const char *run, bool resume, book *b) {
    propane_options *o = text_options(run, resume);
    propane_trainer *t = NULL;
    EXPECT_OK(propane_trainer_create(o, &text_data, &t, &err));
    propane_options_free(o); /* the trainer has a copy */
    b->trainer = t;
    return t;
}

static propane_status go_on(propane_trainer *t, book *b) {
    const propane_trainer_callbacks callbacks = {sizeof callbacks, b, on_step, on_evaluation, on_checkpoint};
    return propane_trainer_run(t, &callbacks, &err);
}

static int64_t steps_done(const propane_trainer *t) {
    propane_trainer_info info = {.size = sizeof info};
    EXPECT(propane_trainer_describe(t, &info));
    EXPECT(strcmp(info.unit, "tokens") == 0 && info.steps == STEPS && info.writes && !info.restart);
    EXPECT(info.parameters > 100 && info.count > 100 && info.held_out > 10 && info.held_out < info.count / 2);
    return info.step;
}

TEST(single_steps_come_to_the_loops_bits) {
    book b = {0};
    propane_trainer *loop = open_text(NULL, false, &b), *single = open_text(NULL, false, &b);
    propane_evaluation e = {.size = sizeof e};
    EXPECT_OK(go_on(loop, &b));
    EXPECT(b.steps == STEPS && b.evaluations == 2 && b.checkpoints == 0);
    for (int i = 1; i <= STEPS; i++) {
        propane_step s = {.size = sizeof s};
        EXPECT_OK(propane_trainer_step(single, &s, &err));
        EXPECT(s.step == i && s.loss == b.losses[i] && !s.simulated && s.rate > 0 && steps_done(single) == i);
        if (i == 2) EXPECT_OK(propane_trainer_evaluate(single, &e, &err)); /* an evaluation changes nothing */
    }
    EXPECT(b.losses[STEPS] < b.losses[1]);
    EXPECT_OK(propane_trainer_evaluate(single, &e, &err));
    EXPECT(e.loss == b.held_out && e.nats_per_byte > 0 && e.accuracy < 0);
    EXPECT_FAIL(propane_trainer_step(single, NULL, &err), PROPANE_ERR_INVALID, "all 6 steps are done");
    EXPECT_FAIL(propane_trainer_save(single, &err), PROPANE_ERR_INVALID, "no run folder");
    propane_trainer_free(loop), propane_trainer_free(single);
}

/* Calls the trainer from inside its own callback, as another thread would. */
static void meddle(void *context, const propane_step *s) {
    propane_trainer *t = context;
    const propane_trainer_callbacks again = {.size = sizeof again, .context = t, .on_step = meddle};
    propane_evaluation e = {.size = sizeof e};
    propane_trainer_info info = {.size = sizeof info};
    if (s->step != 2) return;
    EXPECT_FAIL(propane_trainer_run(t, &again, &err), PROPANE_ERR_INVALID, "in use by another call");
    EXPECT_FAIL(propane_trainer_step(t, NULL, &err), PROPANE_ERR_INVALID, "in use by another call");
    EXPECT_FAIL(propane_trainer_evaluate(t, &e, &err), PROPANE_ERR_INVALID, "in use by another call");
    EXPECT_FAIL(propane_trainer_set(t, NULL, 0, &err), PROPANE_ERR_INVALID, "in use by another call");
    EXPECT_FAIL(propane_trainer_write(t, "nowhere", &err), PROPANE_ERR_INVALID, "in use by another call");
    EXPECT(propane_trainer_describe(t, &info) && info.step == 2);
}

TEST(a_trainer_is_for_one_call_at_a_time) {
    book b = {0};
    propane_trainer *t = open_text(NULL, false, &b);
    const propane_trainer_callbacks callbacks = {.size = sizeof callbacks, .context = t, .on_step = meddle};
    EXPECT_OK(propane_trainer_run(t, &callbacks, &err));
    EXPECT(steps_done(t) == STEPS);
    propane_trainer_free(t);
}

static void expect_same_file(const char *a, const char *b) {
    char *data[2];
    size_t length[2];
    EXPECT_OK(file_read(a, 1 << 24, &data[0], &length[0], &err));
    EXPECT_OK(file_read(b, 1 << 24, &data[1], &length[1], &err));
    EXPECT(length[0] == length[1] && memcmp(data[0], data[1], length[0]) == 0);
    mem_free(data[0]), mem_free(data[1]);
}

TEST(a_run_is_stopped_saved_and_gone_on_with) {
    char *dir = test_temp_dir(), whole[1200], parts[1200], written[2][1300];
    book a = {0}, b = {.cancel_at = 3};
    snprintf(whole, sizeof whole, "%s/whole", dir), snprintf(parts, sizeof parts, "%s/parts", dir);
    propane_trainer *t = open_text(whole, false, &a);
    EXPECT_OK(go_on(t, &a));
    EXPECT(a.checkpoints == 3);
    snprintf(written[0], sizeof written[0], "%s/model.safetensors", whole);
    snprintf(written[1], sizeof written[1], "%s/written.safetensors", dir);
    EXPECT_OK(propane_trainer_write(t, written[1], &err));
    expect_same_file(written[0], written[1]);
    propane_trainer_free(t);
    t = open_text(parts, false, &b);
    EXPECT_FAIL(go_on(t, &b), PROPANE_ERR_CANCELLED, "stopped after step 3 of 6");
    EXPECT(steps_done(t) == 3);
    EXPECT_OK(propane_trainer_step(t, NULL, &err)); /* the cancellation has been consumed */
    EXPECT_OK(propane_trainer_save(t, &err));
    propane_trainer_free(t);
    t = open_text(parts, true, &b);
    EXPECT(steps_done(t) == 4);
    EXPECT_OK(go_on(t, &b));
    EXPECT(b.losses[STEPS] == a.losses[STEPS] && b.held_out == a.held_out);
    snprintf(written[1], sizeof written[1], "%s/model.safetensors", parts);
    expect_same_file(written[0], written[1]);
    propane_trainer_free(t);
    mem_free(dir);
}

TEST(tokens_in_memory_are_as_good_as_their_text) {
    book b = {0};
    propane_trainer *t = open_text(NULL, false, &b), *same = NULL;
    propane_options *o = text_options(NULL, false);
    propane_data data = {.size = sizeof data, .tokenizer = propane_trainer_tokenizer(t)};
    propane_step first = {.size = sizeof first}, second = first;
    int32_t *ids = NULL, prompt[4];
    EXPECT_OK(propane_tokenizer_encode(data.tokenizer, said, sizeof said - 1, &ids, &data.id_count, &err));
    data.ids = ids;
    EXPECT_OK(propane_trainer_create(o, &data, &same, &err));
    EXPECT_OK(propane_trainer_step(t, &first, &err));
    EXPECT_OK(propane_trainer_step(same, &second, &err));
    EXPECT(first.loss == second.loss && first.gradient_norm == second.gradient_norm);
    EXPECT(propane_trainer_prompt(t, 0, 2, prompt, 4) == 4 && propane_trainer_prompt(t, 2, 2, prompt, 4) == 0);
    propane_trainer_free(same);
    data.tokenizer = NULL;
    EXPECT_FAIL(propane_trainer_create(o, &data, &same, &err), PROPANE_ERR_INVALID, "give its tokenizer");
    data.text = said;
    EXPECT_FAIL(propane_trainer_create(o, &data, &same, &err), PROPANE_ERR_INVALID, "set only one");
    EXPECT_FAIL(propane_trainer_create(o, NULL, &same, &err), PROPANE_ERR_INVALID, "--data is missing");
    EXPECT(!same);
    propane_free(ids);
    propane_options_free(o);
    propane_trainer_free(t);
}

/* ---- programs ------------------------------------------------------------------------------------------------------------------- */

static const char sum_mil[] =
    "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n"
    "        tensor<fp32, [1, 4]> w = const()[name = string(\"w\"), val = tensor<fp32, [1, 4]>([[0.5, -0.5, 0.25, "
    "0.1]])];\n        tensor<fp32, [1, 1]> y = linear(weight = w, x = x)[name = string(\"y\")];\n    } -> (y);\n}\n";
static float sample_x[SAMPLES][4], sample_y[SAMPLES];

static void make_samples(void) {
    for (int i = 0; i < SAMPLES; i++) {
        sample_y[i] = 0;
        for (int k = 0; k < 4; k++) sample_y[i] += sample_x[i][k] = (float)((i * 7 + k * 3) % 11 - 5) / 5;
    }
}

static propane_options *sum_options(const char *dir, char path[1200]) {
    static const char how[] = "{\"loss\": \"mse\", \"trainable\": \"*\", \"lr\": 0.05, \"steps\": 60, \"batch\": 4}";
    propane_options *o = NULL;
    snprintf(path, 1200, "%s/sum.mil", dir);
    EXPECT_OK(file_write(path, sum_mil, sizeof sum_mil - 1, &err));
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_PROGRAM, &o, &err));
    EXPECT_OK(propane_options_parse(o, how, sizeof how - 1, "o.json", &err));
    EXPECT_OK(propane_options_set(o, "model", path, &err));
    make_samples();
    return o;
}

TEST(a_program_learns_from_arrays_in_memory) {
    char *dir = test_temp_dir(), path[1200];
    propane_options *o = sum_options(dir, path);
    propane_tensor arrays[] = {{"x", PROPANE_FP32, 2, {SAMPLES, 4}, sample_x},
                               {"y", PROPANE_FP32, 2, {SAMPLES, 1}, sample_y}};
    const propane_tensor few[] = {{"x", PROPANE_FP32, 2, {3, 4}, sample_x}, {"y", PROPANE_FP32, 2, {3, 1}, sample_y}};
    propane_data data = {.size = sizeof data, .arrays = arrays, .array_count = 2};
    propane_trainer *t = NULL;
    propane_trainer_info info = {.size = sizeof info};
    propane_evaluation e = {.size = sizeof e};
    propane_model *none = NULL;
    EXPECT_OK(propane_trainer_create(o, &data, &t, &err));
    EXPECT(propane_trainer_describe(t, &info) && info.count == SAMPLES && info.held_out == 2 && info.parameters == 4);
    EXPECT_OK(propane_trainer_run(t, NULL, &err));
    EXPECT_OK(propane_trainer_evaluate(t, &e, &err));
    EXPECT_MSG(e.loss < 1e-2, "loss %g", e.loss);
    EXPECT_FAIL(propane_trainer_model(t, &none, &err), PROPANE_ERR_UNSUPPORTED, "not a language model");
    EXPECT(!propane_trainer_tokenizer(t) && propane_trainer_profile_count(t) == 0);
    propane_trainer_free(t);
    data.validation = few, data.validation_count = 2;
    EXPECT_OK(propane_trainer_create(o, &data, &t, &err));
    EXPECT(propane_trainer_describe(t, &info) && info.count == SAMPLES + 3 && info.held_out == 3);
    propane_trainer_free(t);
    arrays[0].dim[1] = 3;
    EXPECT_FAIL(propane_trainer_create(o, &data, &t, &err), PROPANE_ERR_INVALID, "each sample must be [1, 4]");
    arrays[0].dim[1] = 4, arrays[1].dim[0] = 7;
    EXPECT_FAIL(propane_trainer_create(o, &data, &t, &err), PROPANE_ERR_INVALID, "y has 7");
    arrays[1].dim[0] = 0;
    EXPECT_FAIL(propane_trainer_create(o, &data, &t, &err), PROPANE_ERR_INVALID, "dimension 0 cannot be 0");
    arrays[1].dim[0] = SAMPLES, arrays[1].dtype = PROPANE_BF16;
    EXPECT_FAIL(propane_trainer_create(o, &data, &t, &err), PROPANE_ERR_UNSUPPORTED, "array y");
    EXPECT_FAIL(propane_trainer_create(o, &text_data, &t, &err), PROPANE_ERR_INVALID, "a program on arrays");
    EXPECT(!t);
    propane_options_free(o);
    mem_free(dir);
}

/* Weights become the best only if their loss is a number and smaller than the best one. */
TEST(the_best_validation_is_the_first_of_the_smallest) {
    char *dir = test_temp_dir(), path[1200];
    static const float nowhere[3] = {NAN, NAN, NAN};
    propane_options *o = sum_options(dir, path);
    const propane_tensor arrays[] = {{"x", PROPANE_FP32, 2, {SAMPLES, 4}, sample_x},
                                     {"y", PROPANE_FP32, 2, {SAMPLES, 1}, sample_y}};
    propane_tensor few[] = {{"x", PROPANE_FP32, 2, {3, 4}, sample_x}, {"y", PROPANE_FP32, 2, {3, 1}, sample_y}};
    const propane_data data = {
        .size = sizeof data, .arrays = arrays, .array_count = 2, .validation = few, .validation_count = 2};
    EXPECT_OK(propane_options_set(o, "lr", "0", &err));
    for (int nan = 0; nan < 2; nan++) {
        propane_trainer *t = NULL;
        propane_trainer_info info = {.size = sizeof info};
        propane_evaluation e = {.size = sizeof e};
        few[1].values = nan ? nowhere : sample_y;
        EXPECT_OK(propane_trainer_create(o, &data, &t, &err));
        for (int step = 1; step <= 2; step++) { /* neither the weights nor the loss change */
            EXPECT_OK(propane_trainer_step(t, NULL, &err));
            EXPECT_OK(propane_trainer_evaluate(t, &e, &err));
            EXPECT(nan ? isnan(e.loss) : isfinite(e.loss));
            EXPECT(propane_trainer_describe(t, &info));
            EXPECT_MSG(info.best_step == (nan ? -1 : 1), "best step %lld", (long long)info.best_step);
        }
        propane_trainer_free(t);
    }
    propane_options_free(o);
    mem_free(dir);
}

/* ---- without memory ------------------------------------------------------------------------------------------------------------- */

static propane_status print(propane_trainer *t, text *result, propane_error *e) {
    propane_evaluation held_out = {.size = sizeof held_out};
    char *facts = NULL;
    PROPANE_TRY(propane_trainer_evaluate(t, &held_out, e));
    PROPANE_TRY(propane_trainer_facts(t, &facts, e));
    text_printf(result, "%.17g %s", held_out.loss, facts);
    propane_free(facts);
    return result->failed ? propane_fail_memory(e, 0) : PROPANE_OK;
}

static propane_status attempt_text(void *context, text *result, propane_error *e) {
    const char *run = context;
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    propane_model *m = NULL;
    PROPANE_TRY(file_remove_tree(run, e));
    propane_status status = propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, e);
    if (!status) status = propane_options_parse(o, small, sizeof small - 1, "o.json", e);
    if (!status) status = propane_options_set(o, "steps", "2", e);
    if (!status) status = propane_options_set(o, "run", run, e);
    if (!status) status = propane_trainer_create(o, &text_data, &t, e);
    if (!status) status = propane_trainer_run(t, NULL, e);
    propane_trainer_free(t);
    t = NULL;
    if (!status) status = propane_options_set(o, "resume", "true", e);
    if (!status) status = propane_options_set(o, "steps", "3", e);
    if (!status) status = propane_trainer_create(o, &text_data, &t, e);
    if (!status) status = propane_trainer_step(t, NULL, e);
    if (!status) status = propane_trainer_model(t, &m, e);
    if (!status) status = print(t, result, e);
    propane_model_free(m);
    propane_trainer_free(t);
    propane_options_free(o);
    return status;
}

static propane_status attempt_program(void *context, text *result, propane_error *e) {
    const propane_tensor arrays[] = {{"x", PROPANE_FP32, 2, {SAMPLES, 4}, sample_x},
                                     {"y", PROPANE_FP32, 2, {SAMPLES, 1}, sample_y}};
    const propane_data data = {.size = sizeof data, .arrays = arrays, .array_count = 2};
    propane_trainer *t = NULL;
    PROPANE_TRY(propane_trainer_create(context, &data, &t, e));
    propane_status status = propane_trainer_step(t, NULL, e);
    if (!status) status = print(t, result, e);
    propane_trainer_free(t);
    return status;
}

TEST(without_memory) {
    char *dir = test_temp_dir(), run[1200], path[1200];
    snprintf(run, sizeof run, "%s/run", dir);
    propane_options *o = sum_options(dir, path);
    EXPECT(test_each_failing_allocation("api trainer text", attempt_text, run) > 50);
    EXPECT(test_each_failing_allocation("api trainer program", attempt_program, o) > 50);
    propane_options_free(o);
    mem_free(dir);
}

SUITE("api/trainer", T(options_are_the_rows_of_the_table), T(options_are_set_from_texts_and_from_json),
      T(single_steps_come_to_the_loops_bits), T(a_trainer_is_for_one_call_at_a_time),
      T(a_run_is_stopped_saved_and_gone_on_with), T(tokens_in_memory_are_as_good_as_their_text),
      T(a_program_learns_from_arrays_in_memory), T(the_best_validation_is_the_first_of_the_smallest), T(without_memory))
