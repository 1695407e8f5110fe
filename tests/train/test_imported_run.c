/* SPDX-License-Identifier: MIT
 * Fine-tuning of imported programs: which weights are trained, gradients against finite differences, several samples at
 * a time against one, resumed runs, and the resulting package.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "support/test.h"
#include "train/imported_run.h"

enum { SAMPLES = 24, CLASSES = 3, PIXELS = 2 * 6 * 6 };

static char *folder;
static char package[200];

/* ---- a program -------------------------------------------------------------------------------------------------------------- */

static rng draws;

static mil_value *weight(mil_builder *b, const char *name, int rank, const int64_t *dim, double middle) {
    mil_type type = mil_type_tensor(MIL_fp16, rank, dim);
    double data[512];
    for (int64_t i = 0; i < mil_type_count(&type); i++) data[i] = middle + 0.3 * rng_normal(&draws);
    return mil_build_const_f64(b, name, &type, data);
}

static mil_value *built(mil_builder *b, mil_opcode code, const char *name, const mil_argument *arguments, int count) {
    const mil_op *op = mil_build_op(b, code, name, arguments, count);
    return op ? op->results[0] : NULL;
}

/* Builds conv, batch_norm, relu; then tokens preceded by a class token, a head on the first token, and a softmax. */
static mil_module *make_program(bool mixes) {
    mil_module *m = mil_module_create("made");
    mil_builder b;
    rng_init(&draws, 5);
    mil_build_begin(&b, m, "main", MIL_IOS17);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 2, 6, 6}));
    mil_value *w = weight(&b, "conv_weight", 4, (int64_t[]){4, 2, 3, 3}, 0),
              *bias = weight(&b, "conv_bias", 1, (int64_t[]){4}, 0);
    mil_value *strides = mil_build_ints(&b, (int64_t[]){2, 2}, 2), *pad = mil_build_text(&b, "same");
    mil_value *y =
        built(&b, MIL_OP_conv, "conv",
              (mil_argument[]){
                  {"x", 1, &x}, {"weight", 1, &w}, {"bias", 1, &bias}, {"strides", 1, &strides}, {"pad_type", 1, &pad}},
              5);
    mil_value *mean = weight(&b, "norm_mean", 1, (int64_t[]){4}, 0),
              *variance = weight(&b, "norm_variance", 1, (int64_t[]){4}, 3);
    mil_value *gamma = weight(&b, "norm_gamma", 1, (int64_t[]){4}, 1),
              *beta = weight(&b, "norm_beta", 1, (int64_t[]){4}, 0);
    y = built(
        &b, MIL_OP_batch_norm, "norm",
        (mil_argument[]){
            {"x", 1, &y}, {"mean", 1, &mean}, {"variance", 1, &variance}, {"gamma", 1, &gamma}, {"beta", 1, &beta}},
        5);
    y = mil_build_unary(&b, MIL_OP_relu, y);
    if (mixes)
        y = mil_build_binary(&b, MIL_OP_sub, y, mil_build_reduce(&b, MIL_OP_reduce_mean, y, (int64_t[]){0}, 1, true));
    y = mil_build_transpose(&b, mil_build_reshape(&b, y, (int64_t[]){1, 4, 9}, 3), (int64_t[]){0, 2, 1}, 3);
    mil_value *token = weight(&b, "token", 3, (int64_t[]){1, 1, 4}, 0),
              *place = weight(&b, "place", 3, (int64_t[]){1, 10, 4}, 0);
    y = mil_build_binary(&b, MIL_OP_add, mil_build_concat(&b, (mil_value *[]){token, y}, 2, 1), place);
    mil_value *scores = mil_build_matmul(&b, y, y, false, true);
    double barred[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0, -3e4};
    mil_type row = mil_type_tensor(MIL_fp16, 3, (int64_t[]){1, 1, 10});
    mil_value *mask = mil_build_const_f64(&b, "mask", &row, barred);
    scores = mil_build_softmax(&b, mil_build_binary(&b, MIL_OP_add, scores, mask), 2);
    y = mil_build_matmul(&b, scores, y, false, false);
    y = mil_build_reshape(&b, mil_build_slice(&b, y, (int64_t[]){0, 0, 0}, (int64_t[]){1, 1, 4}), (int64_t[]){1, 4}, 2);
    mil_value *head = weight(&b, "head_weight", 2, (int64_t[]){CLASSES, 4}, 0),
              *last = weight(&b, "head_bias", 1, (int64_t[]){CLASSES}, 0);
    y = built(&b, MIL_OP_linear, "logits", (mil_argument[]){{"x", 1, &y}, {"weight", 1, &head}, {"bias", 1, &last}}, 3);
    mil_build_result(&b, built(&b, MIL_OP_softmax, "probabilities", (mil_argument[]){{"x", 1, &y}}, 1));
    propane_error err = {0};
    EXPECT_OK(mil_build_end(&b, &err));
    return m;
}

static void begin(bool mixes) {
    propane_error err = {0};
    folder = test_temp_dir();
    snprintf(package, sizeof package, "%s/begin.mlpackage", folder);
    mil_module *m = make_program(mixes);
    EXPECT_OK(mil_package_write(m, package, &err));
    mil_module_free(m);
}

static void end(void) { mem_free(folder); }

static imported_model_options choose(const char *trainable, const char *freeze) {
    return (imported_model_options){
        .path = package, .trainable = trainable, .freeze = freeze, .loss = IMPORTED_CROSS_ENTROPY};
}

/* ---- samples ---------------------------------------------------------------------------------------------------------------- */

typedef struct set {
    float x[SAMPLES][PIXELS];
    int label[SAMPLES];
} set;

/* The requested samples, of training and of validation. */
static int asked[2][1000], asked_count[2];

static propane_status get(void *context, int part, int64_t index, const sample_room *out, propane_error *err) {
    const set *s = context;
    (void)err;
    if (asked_count[part] < 1000) asked[part][asked_count[part]++] = (int)index;
    memcpy(out->inputs[0], s->x[index], sizeof s->x[index]);
    out->labels[0] = s->label[index];
    return PROPANE_OK;
}

/* A class is the position of the bright part of the image. */
static void fill_set(set *s) {
    rng r;
    rng_init(&r, 9);
    for (int i = 0; i < SAMPLES; i++) {
        s->label[i] = i % CLASSES;
        for (int k = 0; k < PIXELS; k++)
            s->x[i][k] = (float)(0.3 * rng_normal(&r) + (k % 6 / 2 == s->label[i] ? 1 : 0));
    }
}

static sample_source source_of(set *s) { return (sample_source){s, {SAMPLES, SAMPLES}, 77, get}; }

/* ---- which weights are trained ----------------------------------------------------------------------------------- */

TEST(weights_are_found_by_name) {
    propane_error err = {0};
    imported_model m;
    begin(false);
    imported_model_options o = choose("*", "");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    EXPECT_MSG(m.weight_count == 8 && m.candidates == 9 && m.masks == 1, "%d of %d, %d masks", m.weight_count,
               m.candidates, m.masks);
    EXPECT(m.classes == CLASSES && m.class_axis == 1 && m.softmax && m.ops == m.trained_ops);
    imported_model_close(&m);
    o = choose("head,norm_", "bias");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    EXPECT(m.weight_count == 3);
    imported_model_close(&m);
    o = choose("head", "");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    mil_function *train;
    EXPECT_OK(imported_model_train(&m, 1, "t", &train, &err));
    EXPECT_MSG(m.trained_ops == 1 && m.gradient_ops < 12, "%d operations are differentiated, %d compute gradients",
               m.trained_ops, m.gradient_ops);
    imported_model_close(&m);
    o = choose("haed_weight", "");
    EXPECT_FAIL(imported_model_open(&o, &m, &err), PROPANE_ERR_INVALID,
                "--trainable 'haed_weight' leaves nothing to train; the closest of its 9 weights are: "
                "head_weight, conv_weight");
    o = choose("mask", "");
    EXPECT_FAIL(imported_model_open(&o, &m, &err), PROPANE_ERR_INVALID, "matches only masks");
    end();
}

/* ---- gradients -------------------------------------------------------------------------------------------------------------- */

static double *copy_f64(arena *a, const mil_type *type, const void *data) {
    double *out = ARENA_ARRAY(a, mil_type_count(type), double);
    mil_unpack_f64(out, type->dtype, data, mil_type_count(type));
    return out;
}

/* Returns the inputs of a train function for the first `batch` samples. */
static mil_tensor *inputs_of(const imported_model *m, const mil_function *f, const set *s, int64_t batch, arena *a) {
    mil_tensor *in = ARENA_ARRAY(a, f->param_count, mil_tensor);
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *p = f->params[i];
        const int64_t count = mil_type_count(&p->type);
        in[i] = (mil_tensor){p->type, ARENA_ARRAY(a, count, double)};
        if (strcmp(p->name, "x") == 0)
            for (int64_t k = 0; k < count; k++) in[i].data[k] = (double)s->x[k / PIXELS][k % PIXELS];
        else if (strcmp(p->name, IMPORTED_TARGET) == 0)
            for (int64_t k = 0; k < batch; k++) in[i].data[k * CLASSES + s->label[k]] = 1;
        else if (strcmp(p->name, IMPORTED_SEED) == 0)
            in[i].data[0] = 1;
        for (int k = 0; k < m->weight_count; k++)
            if (strcmp(m->names[k], p->name) == 0) in[i].data = copy_f64(a, &p->type, m->weights[k].begin->data);
    }
    return in;
}

static double loss_of(const mil_function *f, const mil_tensor *in) {
    propane_error err = {0};
    arena *a = arena_create();
    mil_tensor *out;
    EXPECT_OK(mil_eval_function(f, in, false, a, &out, &err));
    const double loss = out[0].data[0];
    arena_free(a);
    return loss;
}

static void compare_differences(const imported_model *m, const mil_function *f, mil_tensor *in, const mil_tensor *out) {
    for (int w = 0; w < m->weight_count; w++) {
        mil_tensor *p = &in[1 + w];
        const int64_t count = mil_type_count(&p->type);
        double largest = 1e-9;
        for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(out[1 + w].data[i]));
        for (int64_t i = 0; i < count; i += 1 + count / 6) {
            const double at = p->data[i], h = 1e-5;
            p->data[i] = at + h;
            const double high = loss_of(f, in);
            p->data[i] = at - h;
            const double low = loss_of(f, in);
            p->data[i] = at;
            const double wrong = fabs((high - low) / (2 * h) - out[1 + w].data[i]) / largest;
            EXPECT_MSG(wrong < 1e-6, "%s[%lld] is wrong by %g", m->names[w], (long long)i, wrong); /* observed 2e-9 */
        }
    }
}

TEST(gradients_are_those_of_finite_differences) {
    propane_error err = {0};
    imported_model m;
    mil_function *f;
    mil_tensor *out;
    static set s;
    begin(false);
    fill_set(&s);
    const imported_model_options o = choose("*", "");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    EXPECT_OK(imported_model_train(&m, 3, "t", &f, &err));
    arena *a = arena_create();
    mil_tensor *in = inputs_of(&m, f, &s, 3, a);
    EXPECT_OK(mil_eval_function(f, in, false, a, &out, &err));
    compare_differences(&m, f, in, out);
    arena_free(a);
    imported_model_close(&m);
    end();
}

/* The cpu's fp32 gradients, of a batch at once and of single samples added up, against the reference in double. */
TEST(the_machine_computes_the_same_at_once_and_one_by_one) {
    propane_error err = {0};
    imported_model m;
    imported_step *many, *one;
    static set s;
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    const imported_model_options o = choose("*", "");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    EXPECT_OK(imported_step_create(&m, "cpu", NULL, NULL, 4, &source, &many, &err));
    EXPECT_MSG(imported_step_samples(many) == 4 && !imported_step_why(many), "%s", imported_step_why(many));
    EXPECT_OK(imported_step_create(&m, "cpu", NULL, NULL, 1, &source, &one, &err));
    EXPECT_OK(imported_step_sum(one, &err));
    double loss, part, sum = 0;
    int64_t count, ns = 0;
    for (int64_t i = 0; i < 4; i++) EXPECT_OK(imported_step_put(many, &source, 0, i, i, &err));
    EXPECT_OK(imported_step_run(many, true, &loss, &count, &ns, &err));
    EXPECT(count == 4);
    for (int64_t i = 0; i < 4; i++) {
        EXPECT_OK(imported_step_put(one, &source, 0, i, 0, &err));
        EXPECT_OK(imported_step_run(one, i == 0, &part, &count, &ns, &err));
        sum += part;
    }
    EXPECT_MSG(fabs(sum - loss) < 1e-5 * loss, "loss %g and %g", sum, loss);
    for (int w = 0; w < m.weight_count; w++) {
        const float *a = imported_step_gradient(many, w), *b = imported_step_gradient(one, w);
        double largest = 0, wrong = 0;
        for (int64_t i = 0; i < mil_type_count(&m.weights[w].type); i++) {
            largest = fmax(largest, fabs((double)a[i]));
            wrong = fmax(wrong, fabs((double)a[i] - (double)b[i]));
        }
        EXPECT_MSG(largest > 0 && wrong < 1e-5 * largest, "%s: %g of %g", m.names[w], wrong,
                   largest); /* observed 6e-7 */
    }
    imported_step_free(many);
    imported_step_free(one);
    imported_model_close(&m);
    end();
}

/* A mean over the samples is valid for every shape: only a trial reveals it. */
TEST(a_program_that_mixes_samples_gets_one_at_a_time) {
    propane_error err = {0};
    imported_model m;
    imported_step *step;
    static set s;
    begin(true);
    fill_set(&s);
    const sample_source source = source_of(&s);
    const imported_model_options o = choose("*", "");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    EXPECT_OK(imported_step_create(&m, "cpu", NULL, NULL, 4, &source, &step, &err));
    EXPECT(imported_step_samples(step) == 1);
    EXPECT_TEXT(imported_step_why(step), "an operation mixes the samples of a batch");
    imported_step_free(step);
    imported_model_close(&m);
    end();
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------- */

typedef struct book {
    const char *path; /* the program's path; NULL means package */
    double losses[64], accuracy;
    int64_t stop_at;
    atomic_bool cancel;
} book;

static void on_step(void *context, const train_report *r) {
    book *b = context;
    b->losses[r->step] = r->loss;
    if (r->step == b->stop_at) b->cancel = true;
}

static void on_evaluation(void *context, const train_evaluation *e) { ((book *)context)->accuracy = e->val_accuracy; }

static train_options options_of(const char *run) {
    train_options o;
    train_options_default(&o, TRAIN_IMPORTED);
    o.trainable = "*";
    o.loss = "cross_entropy";
    o.steps = 40;
    o.batch = 4;
    o.accumulate = 2;
    o.lr = 2e-2;
    o.run_dir = run;
    return o;
}

static propane_status go(const train_options *o, const sample_source *source, book *b, propane_error *err) {
    imported_model m;
    train_run *t = NULL;
    bool again;
    const train_callbacks callbacks = {b, on_step, on_evaluation, NULL};
    const imported_model_options how =
        imported_run_model_options(o, b->path ? b->path : package, (mil_read_options){0});
    PROPANE_TRY(imported_model_open(&how, &m, err));
    propane_status status = imported_run_create(o, &how, &m, source, &t, err);
    if (!status) status = train_run_go_until(t, INT64_MAX, &callbacks, &b->cancel, &again, err);
    train_run_free(t);
    imported_model_close(&m);
    return status;
}

static void same_files(const char *a, const char *b) {
    propane_error err = {0};
    char *x, *y;
    size_t n, k;
    EXPECT_OK(file_read(a, 1 << 24, &x, &n, &err));
    EXPECT_OK(file_read(b, 1 << 24, &y, &k, &err));
    EXPECT_MSG(n == k && memcmp(x, y, n) == 0, "%s and %s differ", a, b);
    mem_free(x);
    mem_free(y);
}

static const char *at(char out[300], const char *name) {
    snprintf(out, 300, "%s/%s", folder, name);
    return out;
}

TEST(a_resumed_run_is_the_same_run) {
    propane_error err = {0};
    static book whole, first, second;
    static set s;
    char a[300], b[300], c[300], d[300];
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    EXPECT_OK(file_make_dir(at(a, "a"), &err));
    EXPECT_OK(file_make_dir(at(b, "b"), &err));
    train_options o = options_of(a);
    EXPECT_OK(go(&o, &source, &whole, &err));
    EXPECT_MSG(whole.losses[40] < 0.3 * whole.losses[1], "%g to %g", whole.losses[1],
               whole.losses[40]); /* 1.4 to 0.03 */
    EXPECT_MSG(whole.accuracy > 0.9, "%g", whole.accuracy);
    o.run_dir = b;
    first.stop_at = 13;
    EXPECT_FAIL(go(&o, &source, &first, &err), PROPANE_ERR_CANCELLED,
                "stopped after step 13 of 40; continue with: propane train --resume ");
    o.resume = true;
    EXPECT_OK(go(&o, &source, &second, &err));
    EXPECT(second.losses[13] == 0 && second.losses[14] == whole.losses[14] && second.losses[40] == whole.losses[40]);
    same_files(at(c, "a/checkpoint.safetensors"), at(d, "b/checkpoint.safetensors"));
    same_files(at(c, "a/model.mlpackage/Data/com.apple.CoreML/weights/weight.bin"),
               at(d, "b/model.mlpackage/Data/com.apple.CoreML/weights/weight.bin"));
    o.lr = 1e-3;
    EXPECT_FAIL(go(&o, &source, &second, &err), PROPANE_ERR_INVALID,
                "was written with --lr 0.02, not 0.001; resume with the same");
    sample_source other = source;
    other.sum = 78;
    o.lr = 2e-2;
    EXPECT_FAIL(go(&o, &other, &second, &err), PROPANE_ERR_INVALID,
                "was written with data with the checksum 000000000000004d, not 000000000000004e");
    end();
}

/* The tuned package is the program that was trained: equally good, with its weights rounded to fp16, and statistics and
 * mask unchanged. */
TEST(the_package_holds_what_was_trained) {
    propane_error err = {0};
    static book b;
    static set s;
    imported_model old, tuned;
    char run[300], path[300];
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    EXPECT_OK(file_make_dir(at(run, "run"), &err));
    train_options o = options_of(run);
    o.freeze = "conv";
    EXPECT_OK(go(&o, &source, &b, &err));
    imported_model_options all = choose("*", "");
    EXPECT_OK(imported_model_open(&all, &old, &err));
    all.path = at(path, "run/model.mlpackage");
    EXPECT_OK(imported_model_open(&all, &tuned, &err));
    EXPECT(old.weight_count == tuned.weight_count && old.ops == tuned.ops);
    for (int i = 0; i < old.weight_count; i++) {
        const mil_const *x = old.weights[i].begin, *y = tuned.weights[i].begin;
        EXPECT_TEXT(old.names[i], tuned.names[i]);
        EXPECT_MSG((memcmp(x->data, y->data, (size_t)x->bytes) == 0) == (strncmp(old.names[i], "conv", 4) == 0), "%s",
                   old.names[i]);
    }
    imported_model_close(&tuned);
    book again = {.path = path, .accuracy = -1};
    o.freeze = "";
    o.run_dir = NULL;
    o.steps = 1;
    o.lr = 0;
    EXPECT_OK(go(&o, &source, &again, &err));
    EXPECT_MSG(fabs(again.accuracy - b.accuracy) < 0.05, "%g, then %g", b.accuracy, again.accuracy);
    imported_model_close(&old);
    end();
}

TEST(a_loss_that_is_no_number_ends_the_run) {
    propane_error err = {0};
    static book b;
    static set s;
    begin(false);
    fill_set(&s);
    s.x[5][7] = NAN;
    const sample_source source = source_of(&s);
    train_options o = options_of(NULL);
    o.batch = 1;
    o.accumulate = 1;
    o.shuffle = false;
    EXPECT_FAIL(go(&o, &source, &b, &err), PROPANE_ERR_LIMIT, "step 6: the loss is NaN or infinite (it was ");
    s.x[0][0] = INFINITY; /* there is no loss before the first one */
    EXPECT_FAIL(go(&o, &source, &b, &err), PROPANE_ERR_LIMIT,
                "step 1: the loss is NaN or infinite: the training has diverged");
    s.x[5][7] = s.x[0][0] = 0;
    s.label[2] = CLASSES;
    EXPECT_FAIL(go(&o, &source, &b, &err), PROPANE_ERR_INVALID,
                "sample 2 has class 3, but the output has 3 classes, 0 to 2");
    end();
}

/* ---- decisions ------------------------------------------------------------------------------------------------------ */

/* Makes a run, which takes `steps` steps by hand; the caller checks which samples were requested. */
static void made(const train_options *o, const sample_source *source, int steps, void (*look)(train_run *t)) {
    propane_error err = {0};
    imported_model m;
    train_run *t = NULL;
    train_report report;
    const imported_model_options how = imported_run_model_options(o, package, (mil_read_options){0});
    EXPECT_OK(imported_model_open(&how, &m, &err));
    EXPECT_OK(imported_run_create(o, &how, &m, source, &t, &err));
    asked_count[0] = asked_count[1] = 0;
    for (int i = 0; i < steps; i++) EXPECT_OK(train_run_step(t, &report, &err));
    if (steps) EXPECT(report.device_ms > 0 && report.host_ms > -1e3 && report.tokens_per_s > 0 && report.step == steps);
    look(t);
    train_run_free(t);
    imported_model_close(&m);
}

static int64_t steps_wanted;
static void look_at_steps(train_run *t) {
    EXPECT_MSG(train_run_options(t)->steps == steps_wanted, "%lld steps, not %lld",
               (long long)train_run_options(t)->steps, (long long)steps_wanted);
}

/* Passes over the samples are rounded up to whole steps; a given number of epochs takes precedence over steps. */
TEST(epochs_are_whole_steps) {
    static const struct {
        double epochs;
        int64_t batch, accumulate, steps, want;
        bool given;
    } cases[] = {{1, 4, 2, 0, 3, false},   {2, 4, 2, 0, 6, true},  {1.01, 4, 2, 0, 4, true},
                 {0.01, 4, 2, 0, 1, true}, {1, 5, 1, 0, 5, false}, {1, 24, 1, 0, 1, false},
                 {1, 4, 2, 7, 7, false},   {1, 4, 2, 7, 3, true},  {0.1 * 3, 2, 1, 0, 4, true}};
    static set s;
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        train_options o = options_of(NULL);
        o.epochs = cases[i].epochs, o.batch = cases[i].batch, o.accumulate = cases[i].accumulate,
        o.steps = cases[i].steps;
        o.given[TRAIN_OPTION_epochs] = cases[i].given;
        steps_wanted = cases[i].want;
        made(&o, &source, 0, look_at_steps);
    }
    end();
}

static void look_at_order(train_run *t) {
    const bool shuffles = train_run_options(t)->shuffle;
    int in_place = 0;
    EXPECT_MSG(asked_count[0] == 3 * SAMPLES, "%d samples", asked_count[0]);
    for (int epoch = 0; epoch < 3; epoch++) {
        bool seen[SAMPLES] = {false};
        for (int i = 0; i < SAMPLES; i++) seen[asked[0][epoch * SAMPLES + i]] = true;
        for (int i = 0; i < SAMPLES; i++) {
            EXPECT_MSG(seen[i], "epoch %d lacks sample %d", epoch, i);
            in_place += asked[0][epoch * SAMPLES + i] == i;
        }
    }
    EXPECT(shuffles ? in_place < SAMPLES : in_place == 3 * SAMPLES);
    EXPECT(!shuffles || memcmp(asked[0], asked[0] + SAMPLES, sizeof(int) * SAMPLES) != 0);
}

/* Every epoch uses each sample once, in a different order each time or in the order of the data. */
TEST(every_epoch_takes_every_sample_once) {
    static set s;
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    for (int shuffles = 0; shuffles < 2; shuffles++) {
        train_options o = options_of(NULL);
        o.shuffle = shuffles;
        made(&o, &source, 9, look_at_order);
    }
    end();
}

static void look_at_validation(train_run *t) {
    propane_error err = {0};
    train_evaluation e;
    EXPECT_OK(train_run_evaluate(t, &e, &err));
    EXPECT(asked_count[1] == SAMPLES && e.val_loss > 0 && e.val_nats_per_byte == -1);
    for (int i = 0; i < SAMPLES; i++) EXPECT(asked[1][i] == i);
    const double right = e.val_accuracy * SAMPLES;
    EXPECT_MSG(right >= 0 && right <= SAMPLES && fabs(right - nearbyint(right)) < 1e-9, "%g", e.val_accuracy);
    atomic_bool cancel = true;
    train_run_cancel_by(t, &cancel);
    EXPECT_FAIL(train_run_evaluate(t, &e, &err), PROPANE_ERR_CANCELLED, "stopped");
    EXPECT(asked_count[1] == SAMPLES);
}

static void look_without_validation(train_run *t) {
    propane_error err = {0};
    train_evaluation e;
    EXPECT_FAIL(train_run_evaluate(t, &e, &err), PROPANE_ERR_INVALID, "there are no samples to validate with");
    EXPECT_OK(train_run_finish(t, &err)); /* there is no folder */
}

/* The last batch of a validation may be shorter. */
TEST(a_validation_takes_every_sample_once) {
    static set s;
    begin(false);
    fill_set(&s);
    sample_source source = source_of(&s);
    train_options o = options_of(NULL);
    for (o.batch = 5; o.batch < 40; o.batch += 19) made(&o, &source, 0, look_at_validation);
    source.count[1] = 0;
    made(&o, &source, 0, look_without_validation);
    end();
}

TEST(options_that_are_missing_are_named) {
    propane_error err = {0};
    static book b;
    static set s;
    char path[300], run[300];
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    train_options o = options_of(NULL);
    o.loss = "";
    EXPECT_FAIL(go(&o, &source, &b, &err), PROPANE_ERR_INVALID, "--loss is missing; give mse or cross_entropy");
    for (int i = 0; i < SAMPLES; i++) s.label[i] = -1;
    o = options_of(NULL);
    EXPECT_FAIL(go(&o, &source, &b, &err), PROPANE_ERR_INVALID,
                "step 1: all labels of its 8 samples are -1, so there is no class to train on");
    /* a new run in a folder removes what a killed writer left there */
    fill_set(&s);
    EXPECT_OK(file_make_dir(at(run, "swept"), &err));
    EXPECT_OK(file_write(at(path, "swept/checkpoint.safetensors.tmp-0123456789abcdef"), "half", 4, &err));
    o.run_dir = run, o.steps = 1;
    EXPECT_OK(go(&o, &source, &b, &err));
    EXPECT(!file_exists(path) && file_exists(at(path, "swept/model.mlpackage")));
    end();
}

/* ---- means ---------------------------------------------------------------------------------------------------------- */

typedef struct means {
    double loss[6], norm[6];
} means;

/* Takes five steps of eight samples, in `parts` batches, and checks the first norm against the gradients themselves. */
static means steps_in_parts(const sample_source *source, int parts, double clip) {
    propane_error err = {0};
    imported_model m;
    train_run *t = NULL;
    train_report r;
    means out = {0};
    train_options o = options_of(NULL);
    o.batch = 8 / parts, o.accumulate = parts, o.shuffle = false, o.clip = clip, o.steps = 5;
    const imported_model_options how = imported_run_model_options(&o, package, (mil_read_options){0});
    EXPECT_OK(imported_model_open(&how, &m, &err));
    EXPECT_OK(imported_run_create(&o, &how, &m, source, &t, &err));
    for (int k = 1; k <= 5; k++) {
        const int64_t began = clock_ns();
        EXPECT_OK(train_run_step(t, &r, &err));
        const double ms = (double)(clock_ns() - began) / 1e6;
        EXPECT_MSG(r.device_ms > 0 && r.host_ms >= 0 && r.device_ms + r.host_ms <= ms, "%g + %g of %g ms", r.device_ms,
                   r.host_ms, ms);
        out.loss[k] = r.loss, out.norm[k] = r.gradient_norm;
        double squares = 0;
        for (int w = 0; w < m.weight_count; w++)
            for (int64_t i = 0; i < mil_type_count(&m.weights[w].type); i++)
                squares += pow((double)imported_step_gradient(imported_run_step(t), w)[i], 2);
        const set *s = source->context;
        int labels = 0;
        for (int i = 8 * (k - 1); i < 8 * k; i++) labels += s->label[i % SAMPLES] >= 0;
        EXPECT_MSG(fabs(r.gradient_norm * labels / sqrt(squares) - 1) < 1e-5, "%g of %d, sum %g", r.gradient_norm,
                   labels, sqrt(squares));
    }
    train_run_free(t);
    imported_model_close(&m);
    return out;
}

/* However its samples are cut into batches, a step is the mean over those that have a label. */
TEST(a_step_is_the_mean_over_its_labels) {
    static set s;
    begin(false);
    fill_set(&s);
    for (int i = 0; i < SAMPLES; i += 5) s.label[i] = -1;
    const sample_source source = source_of(&s);
    for (int clipped = 0; clipped < 2; clipped++) {
        const means whole = steps_in_parts(&source, 1, clipped ? 0.05 : 0);
        for (int parts = 2; parts <= 8; parts *= 2) {
            const means b = steps_in_parts(&source, parts, clipped ? 0.05 : 0);
            for (int k = 1; k <= 5; k++)
                EXPECT_MSG(fabs(b.loss[k] / whole.loss[k] - 1) < 1e-4 && fabs(b.norm[k] / whole.norm[k] - 1) < 1e-3,
                           "%d parts, step %d: loss %.9g, %.9g; norm %.9g, %.9g", parts, k, b.loss[k], whole.loss[k],
                           b.norm[k], whole.norm[k]);
        }
        EXPECT(whole.norm[1] > 0.05);
    }
    end();
}

/* AdamW's first step by its formula: the mean gradient over itself and epsilon, and a decay of matrices only. */
TEST(the_first_update_is_that_of_adamw) {
    propane_error err = {0};
    static set s;
    begin(false);
    fill_set(&s);
    const sample_source source = source_of(&s);
    for (int parts = 1; parts <= 2; parts++) {
        imported_model m;
        train_run *t = NULL;
        train_report r;
        int matrices = 0;
        train_options o = options_of(NULL);
        o.batch = 8 / parts, o.accumulate = parts, o.clip = 0, o.steps = 1, o.warmup = 0, o.lr = o.min_lr = 0.5;
        o.weight_decay = 0.5, o.epsilon = 1;
        const imported_model_options how = imported_run_model_options(&o, package, (mil_read_options){0});
        EXPECT_OK(imported_model_open(&how, &m, &err));
        EXPECT_OK(imported_run_create(&o, &how, &m, &source, &t, &err));
        EXPECT_OK(train_run_step(t, &r, &err));
        for (int w = 0; w < m.weight_count; w++) {
            const bool is_matrix = m.weights[w].type.rank > 1;
            const float *gradients = imported_step_gradient(imported_run_step(t), w),
                        *now = imported_step_weight(imported_run_step(t), w);
            matrices += is_matrix;
            for (int64_t i = 0; i < mil_type_count(&m.weights[w].type); i++) {
                const double g = (double)gradients[i] / 8, old = mil_const_f64(m.weights[w].begin, i);
                const double want = (is_matrix ? 0.75 : 1) * old - 0.5 * g / (fabs(g) + 1);
                EXPECT_MSG(fabs((double)now[i] - want) < 1e-6, "%s: %.9g, want %.9g", m.names[w], (double)now[i], want);
            }
        }
        EXPECT(matrices > 0 && matrices < m.weight_count);
        train_run_free(t);
        imported_model_close(&m);
    }
    end();
}

static train_evaluation last_evaluation;
static void look_at_means(train_run *t) {
    propane_error err = {0};
    EXPECT_OK(train_run_evaluate(t, &last_evaluation, &err));
}

/* A validation is the mean over the samples that have a label, whatever its batches; without any it is 0. */
TEST(a_validation_is_the_mean_over_its_labels) {
    static set s;
    double loss = 0, right = 0;
    int labels = 0;
    begin(false);
    fill_set(&s);
    for (int i = 0; i < SAMPLES; i += 5) s.label[i] = -1;
    train_options o = options_of(NULL);
    o.accumulate = 1;
    for (int i = 0; i < SAMPLES; i++) { /* one sample at a time */
        static set one;
        one = s;
        memcpy(one.x[0], s.x[i], sizeof one.x[0]), one.label[0] = s.label[i];
        sample_source source = source_of(&one);
        source.count[1] = 1, o.batch = 1;
        made(&o, &source, 0, look_at_means);
        if (s.label[i] < 0) {
            EXPECT(last_evaluation.val_loss == 0 && last_evaluation.val_accuracy == 0);
            continue;
        }
        loss += last_evaluation.val_loss, right += last_evaluation.val_accuracy, labels++;
    }
    const sample_source source = source_of(&s);
    for (o.batch = 1; o.batch <= 24; o.batch += 4) {
        made(&o, &source, 0, look_at_means);
        EXPECT_MSG(fabs(last_evaluation.val_loss - loss / labels) < 1e-5 && labels == 19, "%.9g, want %.9g",
                   last_evaluation.val_loss, loss / labels);
        EXPECT(fabs(last_evaluation.val_accuracy - right / labels) < 1e-9);
    }
    end();
}

static propane_status get_values(void *context, int part, int64_t index, const sample_room *out, propane_error *err) {
    const set *s = context;
    (void)part, (void)err;
    memcpy(out->inputs[0], s->x[index], sizeof s->x[index]);
    for (int k = 0; k < CLASSES; k++) out->values[k] = k == s->label[index];
    return PROPANE_OK;
}

/* Numbers have no accuracy, and a validation of them is the mean over samples and numbers, whatever its batches. */
TEST(a_validation_of_numbers_has_no_accuracy) {
    static set s;
    double first = 0;
    begin(false);
    fill_set(&s);
    sample_source source = source_of(&s);
    source.get = get_values;
    train_options o = options_of(NULL);
    o.loss = "mse";
    for (o.batch = 1; o.batch <= 24; o.batch += 4) {
        made(&o, &source, 2, look_at_means);
        EXPECT(last_evaluation.val_accuracy == -1 && last_evaluation.val_loss > 0 && last_evaluation.val_loss < 1);
        made(&o, &source, 0, look_at_means);
        if (o.batch == 1) first = last_evaluation.val_loss;
        EXPECT_MSG(fabs(last_evaluation.val_loss - first) < 1e-5, "%.9g, want %.9g", last_evaluation.val_loss, first);
    }
    end();
}

TEST(what_is_not_given_is_left_to_the_program) {
    train_options o = options_of(NULL);
    const mil_read_options shapes = {0};
    imported_model_options how = imported_run_model_options(&o, "p", shapes);
    EXPECT(!how.function && !how.output && how.loss == IMPORTED_CROSS_ENTROPY);
    o.function = "f", o.output = "y", o.loss = "mse", o.class_axis = "2", o.freeze = "b";
    how = imported_run_model_options(&o, "p", shapes);
    EXPECT_TEXT(how.path, "p");
    EXPECT_TEXT(how.function, "f");
    EXPECT_TEXT(how.output, "y");
    EXPECT_TEXT(how.trainable, "*");
    EXPECT_TEXT(how.freeze, "b");
    EXPECT_TEXT(how.class_axis, "2");
    EXPECT(how.loss == IMPORTED_MSE);
}

/* ---- compressed weights ----------------------------------------------------------------------------------------------------- */

static void write_compressed(void) {
    propane_error err = {0};
    mil_module *m = mil_module_create("made");
    mil_builder b;
    mil_type codes = mil_type_tensor(MIL_uint8, 2, (int64_t[]){CLASSES, 4}), code = mil_type_scalar(MIL_uint8);
    unsigned char data[CLASSES * 4], middle = 8;
    for (int i = 0; i < CLASSES * 4; i++) data[i] = (unsigned char)(i + 3);
    mil_build_begin(&b, m, "main", MIL_IOS17);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 2, (int64_t[]){1, 4}));
    mil_value *q = mil_build_const(&b, "codes", &codes, data), *zero = mil_build_const(&b, "zero", &code, &middle);
    mil_value *scale = mil_build_scalar(&b, MIL_fp16, 0.25), *axis = mil_build_int(&b, 0);
    mil_value *w = built(
        &b, MIL_OP_constexpr_affine_dequantize, "small_weight",
        (mil_argument[]){{"quantized_data", 1, &q}, {"zero_point", 1, &zero}, {"scale", 1, &scale}, {"axis", 1, &axis}},
        4);
    mil_build_result(&b, built(&b, MIL_OP_linear, "y", (mil_argument[]){{"x", 1, &x}, {"weight", 1, &w}}, 2));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_OK(mil_package_write(m, package, &err));
    mil_module_free(m);
}

TEST(compressed_weights_become_dense) {
    propane_error err = {0};
    imported_model m, again;
    char path[300];
    float values[CLASSES * 4];
    const float *list[] = {values};
    begin(false);
    snprintf(package, sizeof package, "%s/small.mlpackage", folder);
    write_compressed();
    imported_model_options o = choose("small", "");
    EXPECT_OK(imported_model_open(&o, &m, &err));
    EXPECT(m.decompressed == 1 && m.weight_count == 1 && !m.softmax);
    for (int i = 0; i < CLASSES * 4; i++) {
        EXPECT(mil_const_f64(m.weights[0].begin, i) == 0.25 * (i + 3 - 8));
        values[i] = (float)i / 8;
    }
    EXPECT_OK(imported_model_write(&m, &o, list, at(path, "dense.mlpackage"), &err));
    imported_model_close(&m);
    o.path = path;
    EXPECT_OK(imported_model_open(&o, &again, &err));
    EXPECT(again.decompressed == 0 && again.weight_count == 1);
    for (int i = 0; i < CLASSES * 4; i++) EXPECT(mil_const_f64(again.weights[0].begin, i) == (double)values[i]);
    values[3] = 1e30f;
    EXPECT_FAIL(imported_model_write(&again, &o, list, path, &err), PROPANE_ERR_INVALID,
                "weight 'small_weight' has become 1e+30, which fp16 cannot hold");
    imported_model_close(&again);
    end();
}

SUITE("train/tune", T(weights_are_found_by_name), T(gradients_are_those_of_finite_differences),
      T(the_machine_computes_the_same_at_once_and_one_by_one), T(a_program_that_mixes_samples_gets_one_at_a_time),
      T(a_resumed_run_is_the_same_run), T(the_package_holds_what_was_trained), T(a_loss_that_is_no_number_ends_the_run),
      T(epochs_are_whole_steps), T(every_epoch_takes_every_sample_once), T(a_validation_takes_every_sample_once),
      T(options_that_are_missing_are_named), T(a_step_is_the_mean_over_its_labels),
      T(the_first_update_is_that_of_adamw), T(a_validation_is_the_mean_over_its_labels),
      T(a_validation_of_numbers_has_no_accuracy), T(what_is_not_given_is_left_to_the_program),
      T(compressed_weights_become_dense))
