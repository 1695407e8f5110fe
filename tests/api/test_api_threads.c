/* SPDX-License-Identifier: MIT
 * Tests eight threads in the public calls at once: each opens, compiles, runs and trains, on its own device and on a
 * device that all share. Every thread must get the same numbers as a single one. Also run under TSan.
 */
#include <pthread.h>
#include <string.h>

#include "core/base/status.h"
#include "support/test.h"

enum { THREADS = 8, STEPS = 4 };

static const char threads_text[] =
    "a small text that is long enough to learn from: one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three\n";
static const char threads_mil[] = "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [2, 3]> x) {\n"
                                  "        tensor<fp32, [2, 3]> y = exp(x = x)[name = string(\"y\")];\n"
                                  "        tensor<fp32, [2]> z = reduce_sum(axes = tensor<int32, [1]>([1]), keep_dims "
                                  "= bool(false), x = y)[name = string(\"z\")];\n    } -> (z);\n}\n";

typedef struct threads_result {
    float sums[2];
    double losses[STEPS], held_out;
    int64_t stopped; /* steps done when another thread cancelled */
} threads_result;

typedef struct threads_job {
    propane_device *shared; /* NULL for its own device */
    threads_result result;
    propane_status status;
    propane_error err;
} threads_job;

static propane_status threads_compute(threads_job *j, propane_device *device, propane_error *err) {
    const float x[6] = {0, 1, 2, -1, 0.5f, 0.25f};
    propane_module *m = NULL;
    propane_program *p = NULL;
    propane_buffer *b[2] = {NULL};
    propane_request *r = NULL;
    propane_status status = propane_module_parse(threads_mil, sizeof threads_mil - 1, "t.mil", NULL, &m, err);
    if (!status) status = propane_program_compile(device, m, NULL, &p, err);
    const propane_io *io[2] = {status ? NULL : propane_program_input(p, 0),
                               status ? NULL : propane_program_output(p, 0)};
    for (int i = 0; i < 2 && !status; i++) status = propane_buffer_create(device, io[i]->bytes, &b[i], err);
    const propane_binding bindings[] = {{"x", b[0]}, {"z", b[1]}};
    if (!status) status = propane_buffer_write(b[0], io[0], PROPANE_FP32, x, 6, err);
    if (!status) status = propane_request_create(p, bindings, 2, &r, err);
    for (int i = 0; i < 20 && !status; i++) {
        status = propane_submit(&r, 1, err);
        if (!status) status = propane_wait(r, NULL, err);
    }
    if (!status) status = propane_buffer_read(b[1], io[1], PROPANE_FP32, j->result.sums, 2, err);
    propane_request_free(r);
    for (int i = 0; i < 2; i++) propane_buffer_free(b[i]);
    propane_program_free(p);
    propane_module_free(m);
    return status;
}

static propane_status threads_set(propane_options *o, propane_error *err) {
    static const char *const set[][2] = {{"kind", "chars"}, {"layers", "1"},      {"width", "8"}, {"heads", "2"},
                                         {"context", "8"},  {"batch", "2"},       {"steps", "4"}, {"held-out", "0.2"},
                                         {"hidden", "16"},  {"eval-batches", "2"}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        PROPANE_TRY(propane_options_set(o, set[i][0], set[i][1], err));
    return PROPANE_OK;
}

static void *threads_cancel(void *trainer) {
    propane_trainer_cancel(trainer);
    return NULL;
}

/* A trainer that another thread cancels before it begins does nothing and can continue. */
static propane_status threads_stop(threads_job *j, propane_trainer *t, propane_error *err) {
    pthread_t other;
    propane_trainer_info info = {.size = sizeof info};
    if (pthread_create(&other, NULL, threads_cancel, t)) return propane_fail(err, PROPANE_ERR_LIMIT, "no thread");
    pthread_join(other, NULL);
    const propane_status status = propane_trainer_step(t, NULL, err);
    j->result.stopped = propane_trainer_describe(t, &info) ? info.step : -1;
    return status == PROPANE_ERR_CANCELLED ? PROPANE_OK : propane_fail(err, PROPANE_ERR_DEVICE, "it went on");
}

static propane_status threads_train(threads_job *j, propane_error *err) {
    const propane_data data = {.size = sizeof data, .text = threads_text, .length = sizeof threads_text - 1};
    propane_options *o = NULL;
    propane_trainer *t = NULL;
    propane_evaluation e = {.size = sizeof e};
    propane_status status = propane_options_create(PROPANE_TRAIN_LANGUAGE, &o, err);
    if (!status) status = threads_set(o, err);
    if (!status) status = propane_options_set_device(o, j->shared, err);
    if (!status) status = propane_trainer_create(o, &data, &t, err);
    if (!status) status = threads_stop(j, t, err);
    for (int i = 0; i < STEPS && !status; i++) {
        propane_step s = {.size = sizeof s};
        status = propane_trainer_step(t, &s, err);
        j->result.losses[i] = s.loss;
    }
    if (!status) status = propane_trainer_evaluate(t, &e, err);
    j->result.held_out = e.loss;
    propane_trainer_free(t);
    propane_options_free(o);
    return status;
}

static void *threads_work(void *context) {
    threads_job *j = context;
    propane_device *own = NULL;
    j->status = j->shared ? PROPANE_OK : propane_device_open("cpu", &own, &j->err);
    if (!j->status) j->status = threads_compute(j, j->shared ? j->shared : own, &j->err);
    if (!j->status) j->status = threads_train(j, &j->err);
    propane_device_close(own);
    return NULL;
}

static void threads_expect(const char *uri) {
    propane_error err = {0};
    propane_device *shared = NULL;
    pthread_t threads[THREADS];
    static threads_job alone, jobs[THREADS];
    memset(&alone, 0, sizeof alone), memset(jobs, 0, sizeof jobs);
    threads_work(&alone);
    EXPECT_MSG(alone.status == PROPANE_OK, "%s", alone.err.text);
    EXPECT(alone.result.losses[0] > 1 && alone.result.losses[STEPS - 1] != alone.result.losses[0]);
    EXPECT(alone.result.stopped == 0);
    if (uri) EXPECT_OK(propane_device_open(uri, &shared, &err));
    for (int i = 0; i < THREADS; i++) {
        jobs[i].shared = shared;
        EXPECT(pthread_create(&threads[i], NULL, threads_work, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        EXPECT_MSG(jobs[i].status == PROPANE_OK, "thread %d: %s", i, jobs[i].err.text);
        EXPECT_MSG(memcmp(&jobs[i].result, &alone.result, sizeof alone.result) == 0, "thread %d: loss %.9g, alone %.9g",
                   i, jobs[i].result.losses[STEPS - 1], alone.result.losses[STEPS - 1]);
    }
    propane_device_close(shared);
}

TEST(each_on_a_device_of_its_own) { threads_expect(NULL); }
TEST(all_on_one_device) { threads_expect("cpu"); }

SUITE("api/threads", T(each_on_a_device_of_its_own), T(all_on_one_device))
