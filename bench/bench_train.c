/* SPDX-License-Identifier: MIT
 * Times a training run with a known result: the character model of nanoGPT's published CPU run (4 layers, width 128,
 * context 64, 2,000 steps of 12 sequences on tinyshakespeare: 1.88 nats per character). The run is the same as that of
 *
 *     propane train --data FILE.txt --kind chars --layers 4 --width 128 --heads 4 --context 64 --batch 12 --steps 2000
 *
 * and has the same losses.
 *
 *     bench_train [FILE.txt [STEPS [fp32|fp16|bf16 [PLAN]]]]
 *
 * Without FILE it uses tinyshakespeare.txt in $PROPANE_DATA or ../shared/data, and skips if that does not exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "lm/run/language_run.h"
#include "lm/text/tokenizer.h"

typedef struct progress {
    double loss, device_ms, host_ms, last;
    int64_t since;
} progress;

static void on_step(void *context, const train_report *r) {
    progress *p = context;
    p->loss += r->loss, p->device_ms += r->device_ms, p->host_ms += r->host_ms, p->since++;
    if (r->step % 100) return;
    double n = (double)p->since;
    printf("step %lld loss %.4f lr %.2e  %.0f tokens/s  kernels %.2f ms  host's own %.2f ms\n", (long long)r->step,
           p->loss / n, r->lr, r->tokens_per_s, p->device_ms / n, p->host_ms / n);
    fflush(stdout);
    p->loss = p->device_ms = p->host_ms = 0, p->since = 0;
}

static void on_evaluation(void *context, const train_evaluation *e) {
    progress *p = context;
    p->last = e->val_loss;
    printf("step %lld validation %.4f nats per character\n", (long long)e->step, e->val_loss);
}

static propane_status bench(const char *path, int argc, char **argv, propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    tokenizer *t = NULL;
    token_list ids = {0};
    train_run *run = NULL;
    bool restart = false;
    progress p = {0};
    PROPANE_TRY(file_read(path, (size_t)1 << 30, &data, &length, err));
    PROPANE_TRY(tokenizer_create_chars(data, length, path, &t, err));
    PROPANE_TRY(tokenizer_encode(t, data, length, &ids, err));
    model_config c;
    model_config_default(&c);
    c.hidden_size = 128, c.intermediate_size = 352, c.num_hidden_layers = 4, c.num_attention_heads = 4;
    c.num_key_value_heads = 4, c.head_dim = 32, c.vocab_size = tokenizer_vocab_size(t), c.max_position_embeddings = 64;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = true;
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.steps = argc > 2 ? atoll(argv[2]) : 2000, o.batch = 12, o.context = 64, o.checkpoint_interval = 0;
    if (argc > 3) o.precision = argv[3];
    if (argc > 4) o.plan = argv[4];
    train_input in = {
        .config = &c, .tokens = ids.ids, .token_bytes = 4, .token_count = (int64_t)ids.count, .source = path};
    train_callbacks callbacks = {.context = &p, .on_step = on_step, .on_evaluation = on_evaluation};
    int64_t start = clock_ns();
    PROPANE_TRY(language_run_create(&o, &in, &run, err));
    printf("%lld parameters, %d programs compiled in %.1f ms, %.1f MB between kernels\n",
           (long long)language_run_weights(run)->parameters, train_step_compiles(language_run_step(run)),
           (double)(clock_ns() - start) / 1e6, (double)train_step_activation_bytes(language_run_step(run)) / 1e6);
    PROPANE_TRY(train_run_go_until(run, INT64_MAX, &callbacks, NULL, &restart, err));
    printf("%lld steps in %.1f s; validation loss %.4f\n", (long long)o.steps, (double)(clock_ns() - start) / 1e9,
           p.last);
    train_run_free(run);
    tokenizer_free(t);
    token_list_deinit(&ids);
    mem_free(data);
    return PROPANE_OK;
}

int main(int argc, char **argv) {
    propane_error err = {0};
    char standard[1000];
    const char *folder = getenv("PROPANE_DATA"), *path = argc > 1 ? argv[1] : standard;
    snprintf(standard, sizeof standard, "%s/tinyshakespeare.txt", folder ? folder : "../shared/data");
    if (argc < 2 && !file_exists(path)) {
        printf("skipped: there is no %s\n", path);
        return 0;
    }
    if (bench(path, argc, argv, &err) == PROPANE_OK) return 0;
    fprintf(stderr, "bench_train: %s\n", err.text);
    return 1;
}
