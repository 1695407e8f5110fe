/* SPDX-License-Identifier: MIT
 * Memory that values and gradients share. A step's calls are simulated with a record of the owner of each word, so a
 * tap or gradient that something else overwrites too early is found. Steps on one queue, whose memory is one block,
 * must give the same bits as steps on two, where nothing shares memory with a gradient.
 */
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/step/dataflow.h"
#include "lm/step/step.h"
#include "support/test.h"
#include "train/step_bytes.h"

enum { BATCH = 2, CONTEXT = 16, COUNT = BATCH * CONTEXT, VOCAB = 64, PIECE = 16, LAYERS = 4 };

static propane_error err;

typedef struct shape {
    const char *plan_title, *adapted;
    bool (*keep)(const model_tensor *t); /* NULL for all, or the adapters */
    bool tied, pieces, recompute, accumulate;
    const char *architecture;
} shape;

static bool two_layers(const model_tensor *t) {
    return t->layer == 3 || (t->layer == 1 && t->param && strcmp(t->param, "q_proj") == 0);
}
static bool not_embedded(const model_tensor *t) { return t->part != MODEL_EMBED; }
static bool only_embedded(const model_tensor *t) { return t->part == MODEL_EMBED; }

static const shape shapes[] = {
    {"layer", .tied = true},
    {"layer"},
    {"six", .tied = true},
    {"ten"},
    {"layer", .tied = true, .recompute = true},
    {"six", .recompute = true},
    {"layer", .tied = true, .accumulate = true},
    {"ten", .accumulate = true, .recompute = true},
    {"layer", .tied = true, .pieces = true},
    {"layer", .pieces = true},
    {"six", .pieces = true, .recompute = true},
    {"ten", .tied = true, .pieces = true, .accumulate = true},
    {"layer", "q_proj,o_proj,down_proj"},
    {"six", "all", .recompute = true},
    {"layer", "v_proj", .pieces = true},
    {"layer", .keep = two_layers},
    {"six", .keep = two_layers, .accumulate = true},
    {"ten", .keep = not_embedded},
    {"layer", .keep = only_embedded, .tied = true},
    {"layer", .keep = only_embedded},
    {"layer", .tied = true, .architecture = "gpt2"},
    {"six", .tied = true, .pieces = true, .architecture = "gpt2"},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static model_weights *make_weights(const shape *h) {
    model_config c;
    model_weights *w = NULL;
    EXPECT_OK(model_config_default_of(&c, h->architecture ? h->architecture : "llama", &err));
    c.hidden_size = 16, c.intermediate_size = 48, c.num_hidden_layers = LAYERS, c.num_attention_heads = 4;
    c.num_key_value_heads = h->architecture ? 4 : 2, c.head_dim = 4, c.vocab_size = VOCAB;
    c.max_position_embeddings = CONTEXT;
    c.bos_token_id = c.eos_token_id = -1, c.tie_word_embeddings = h->tied;
    c.vocab_piece = h->pieces ? PIECE : 0;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 5, 0.4);
    if (h->adapted) {
        model_lora l = {.rank = 2, .alpha = 4, .dropout = 0.2};
        EXPECT_OK(model_lora_choose(&l, &c, h->adapted, &err));
        EXPECT_OK(model_weights_add_lora(w, &l, &err));
        model_lora_init(w, 9);
        for (int64_t i = 0; i < w->adapter_floats; i++) w->adapter_data[i] += 0.01F * (float)(i % 13);
    }
    return w;
}

static bool *choose(const shape *h, const model_weights *w) {
    bool *trained = mem_array((size_t)model_weights_total(w), sizeof *trained);
    EXPECT(trained);
    for (int i = 0; i < model_weights_total(w); i++)
        trained[i] = h->keep ? h->keep(&w->tensors[i]) : h->adapted ? i >= w->count : true;
    return trained;
}

/* ---- ownership --------------------------------------------------------------------------------------------------- */

typedef struct play {
    const shape *how;
    dataflow *w;
    int *owner; /* per word of the block: a buffer's number + 1 */
    int call;
} play;

typedef struct chosen {
    const model_weights *w;
    const bool *trained;
} chosen;

static bool trained_anywhere(const void *context, model_part part, const char *param) {
    const chosen *c = context;
    for (int layer = 0; layer < LAYERS; layer++) {
        const model_tensor *t = model_weights_param(c->w, part, layer, param);
        if (t && c->trained[t - c->w->tensors]) return true;
    }
    return false;
}

static propane_io dense(const mil_value *v) {
    propane_io io = {.name = v->name, .dtype = PROPANE_FP32, .rank = v->type.rank};
    int64_t stride = 4;
    for (int d = io.rank - 1; d >= 0; d--) {
        io.dim[d] = v->type.dim[d], io.stride[d] = stride;
        stride *= io.dim[d];
    }
    io.bytes = (size_t)stride;
    return io;
}

static void lay_out(dataflow *w) {
    for (int c = 0; c < w->call_count; c++) {
        const mil_function *f = w->plan->kernels[w->calls[c].kernel].function;
        for (int i = 0; i < f->param_count + f->result_count; i++) {
            propane_io io = dense(i < f->param_count ? f->params[i] : f->results[i - f->param_count]);
            EXPECT_OK(dataflow_layout(w, &w->calls[c], &io, &err));
        }
    }
}

static void take(play *p, int buffer) {
    size_t begin = p->w->buffer_offset[buffer] / 4;
    EXPECT(begin * 4 + p->w->buffer_bytes[buffer] <= p->w->block_bytes);
    for (size_t i = 0; i < p->w->buffer_bytes[buffer] / 4; i++) p->owner[begin + i] = buffer + 1;
}

static void need(play *p, int buffer, const char *what) {
    size_t begin = p->w->buffer_offset[buffer] / 4, count = p->w->buffer_bytes[buffer] / 4, i = 0;
    while (i < count && p->owner[begin + i] == buffer + 1) i++;
    EXPECT_MSG(i == count, "shape %d: call %d of %d reads %s, but its word %zu is buffer %d's, not %d's",
               (int)(p->how - shapes), p->call, p->w->call_count, what, i, p->owner[begin + i] - 1, buffer);
}

static int buffer_of(const play *p, const dataflow_call *c, const char *name) {
    dataflow_ref ref = dataflow_resolve(p->w, c, name);
    return ref.kind == DATAFLOW_VALUE      ? p->w->values[ref.index].buffer
           : ref.kind == DATAFLOW_GRADIENT ? p->w->gradients[ref.index].buffer
                                           : -1;
}

static void need_inputs(play *p, const dataflow_call *c, const mil_function *f) {
    for (int i = 0; i < f->param_count; i++) {
        const char *name = f->params[i]->name;
        int b = buffer_of(p, c, name);
        bool unwanted = strncmp(name, "sum_", 4) == 0 && dataflow_resolve(p->w, c, name).kind == DATAFLOW_VALUE;
        if (b >= 0 && !unwanted) need(p, b, name);
    }
}

static void run(play *p, int begin, int end, bool add) {
    for (p->call = begin; p->call < end; p->call++) {
        const dataflow_call *c = &p->w->calls[p->call];
        const partition_kernel *k = &p->w->plan->kernels[c->kernel];
        const mil_function *f = add && k->accumulate ? k->accumulate : k->function;
        need_inputs(p, c, f);
        for (int i = 0; i < f->result_count; i++) {
            int b = buffer_of(p, c, f->results[i]->name);
            EXPECT(b >= 0);
            take(p, b);
        }
        need_inputs(p, c, f); /* a kernel reads while it writes */
    }
}

static int value_buffer(const play *p, int instance, const char *name) {
    return p->w->values[dataflow_find(p->w, instance, name)].buffer;
}

/* The host's part between a piece's passes: logits become their gradient. */
static void take_loss(play *p, int piece) {
    int b = value_buffer(p, p->w->head + piece, "logits");
    need(p, b, "logits");
    take(p, b);
}

static void run_head_in_pieces(play *p, bool first) {
    const dataflow *w = p->w;
    int pieces = w->instance_count - w->head;
    for (int i = 0; i < pieces; i++) {
        run(p, w->pieces[i].begin, w->pieces[i].middle, false);
        take_loss(p, i);
    }
    for (int i = 0; i < model_weights_total(w->weights) && first; i++)
        if (w->gradients[i].wanted && w->gradients[i].first == w->pieces[0].begin) take(p, w->gradients[i].buffer);
    for (int i = 0; i < pieces; i++) {
        run(p, w->pieces[i].begin, w->pieces[i].middle, false);
        take_loss(p, i);
        run(p, w->pieces[i].middle, w->pieces[i].end, true);
        need(p, value_buffer(p, w->head, "d_x"), "d_x of the first piece");
        need(p, value_buffer(p, w->head + i, "d_x"), "d_x of a piece");
    }
}

/* Runs a batch in the same order as train_step_batch. */
static void run_batch(play *p, bool first) {
    const dataflow *w = p->w;
    int pieces = w->instance_count - w->head, tensors = model_weights_total(w->weights);
    take(p, w->values[0].buffer);
    run(p, 0, pieces == 1 ? w->pieces[0].middle : w->pieces[0].begin, false);
    if (pieces == 1)
        take_loss(p, 0);
    else
        run_head_in_pieces(p, first);
    run(p, pieces == 1 ? w->pieces[0].middle : w->pieces[pieces - 1].end, w->call_count, !first);
    if (dataflow_trains_embedding(w)) need(p, value_buffer(p, 0, "d_x"), "d_x at the end");
    for (int i = 0; i < tensors; i++) {
        if (!w->gradients[i].wanted) continue;
        EXPECT(w->gradients[i].first <= w->gradients[i].made);
        bool made = w->gradients[i].first < w->call_count || !first;
        if (made) need(p, w->gradients[i].buffer, w->weights->tensors[i].name);
        take(p, w->gradients[i].buffer); /* the host adds the table's rows */
    }
    for (int i = 0; i < tensors; i++)
        if (w->gradients[i].wanted) need(p, w->gradients[i].buffer, w->weights->tensors[i].name);
    for (int i = 0; i < w->value_count; i++)
        if (partition_is_dropout(w->values[i].name)) need(p, w->values[i].buffer, "dropout");
}

/* Counts values and gradients together, in the call that needs most. */
static size_t needed_at_once(const dataflow *w, bool accumulate) {
    size_t most = 0;
    for (int c = -1; c <= w->call_count; c++) {
        size_t sum = 0;
        for (int i = 0; i < w->value_count; i++)
            if (w->values[i].first <= c && c <= w->values[i].last) sum += w->values[i].bytes;
        for (int i = 0; i < model_weights_total(w->weights); i++)
            if (w->gradients[i].wanted && (accumulate || w->gradients[i].first <= c)) sum += w->gradients[i].bytes;
        if (sum > most) most = sum;
    }
    return most;
}

static void check_shape(const shape *h) {
    model_weights *weights = make_weights(h);
    bool *trained = choose(h, weights);
    const chosen which = {weights, trained};
    partition *cut = NULL;
    partition_options o = {.name = h->plan_title,
                           .precision = MIL_fp32,
                           .batch = BATCH,
                           .context = CONTEXT,
                           .lora = weights->lora.rank > 0 ? &weights->lora : NULL,
                           .trained = trained_anywhere,
                           .trained_context = &which};
    play p = {.how = h};
    EXPECT_OK(partition_create(&weights->config, &o, &cut, &err));
    EXPECT_OK(dataflow_create(cut, weights, trained, h->recompute, &p.w, &err));
    lay_out(p.w);
    EXPECT_OK(dataflow_place(p.w, false, h->accumulate, &err));
    p.owner = mem_array(p.w->block_bytes / 4 + 1, sizeof *p.owner);
    EXPECT(p.owner);
    for (int i = 0; i < p.w->value_count; i++)
        if (partition_is_dropout(p.w->values[i].name)) take(&p, p.w->values[i].buffer);
    run_batch(&p, true);
    run_batch(&p, !h->accumulate);
    size_t least = needed_at_once(p.w, h->accumulate);
    if (getenv("TEST_VERBOSE"))
        printf("shape %d: %zu bytes, %g of what is needed at once\n", (int)(h - shapes), p.w->block_bytes,
               (double)p.w->block_bytes / (double)least);
    EXPECT_MSG((double)p.w->block_bytes <= 1.15 * (double)least, "shape %d: %zu bytes for %zu", (int)(h - shapes),
               p.w->block_bytes, least); /* observed 1.103 */
    mem_free(p.owner);
    dataflow_free(p.w);
    partition_free(cut);
    mem_free(trained);
    model_weights_free(weights);
}

TEST(nothing_is_overwritten_before_its_last_reader) {
    for (int i = 0; i < SHAPES; i++) check_shape(&shapes[i]);
}

/* ---- whole steps ------------------------------------------------------------------------------------------------------- */

static int32_t tokens[2 * COUNT + 1];

static train_step *make_step(const shape *h, model_weights *w, const bool *trained, bool two_queues) {
    train_step *s = NULL;
    train_step_options o = {
        .partition = {.name = h->plan_title, .precision = MIL_fp32, .batch = BATCH, .context = CONTEXT},
        .device = "cpu",
        .two_queues = two_queues,
        .accumulate = h->accumulate,
        .recompute = h->recompute,
        .trained = trained};
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    EXPECT_OK(train_step_dropout(s, 3, &err));
    return s;
}

static void same_gradients(const shape *h, train_step *a, train_step *b, const model_weights *w) {
    for (int i = 0; i < train_step_updated_count(a); i++) {
        const model_tensor *t = &w->tensors[train_step_updated(a, i)];
        float *x = mem_array((size_t)t->count, 4), *y = mem_array((size_t)t->count, 4);
        bool there = false;
        EXPECT(x && y);
        EXPECT_OK(train_step_gradient(a, train_step_updated(a, i), x, &err));
        EXPECT_OK(train_step_gradient(b, train_step_updated(b, i), y, &err));
        EXPECT_MSG(memcmp(x, y, (size_t)t->count * 4) == 0, "shape %d: the gradient of %s is another",
                   (int)(h - shapes), t->name);
        for (int64_t k = 0; k < t->count; k++) there |= x[k] != 0;
        EXPECT_MSG(there, "shape %d: %s has no gradient", (int)(h - shapes), t->name);
        mem_free(x);
        mem_free(y);
    }
}

static void check_bits(const shape *h) {
    model_weights *w = make_weights(h);
    bool *trained = choose(h, w);
    train_step *block = make_step(h, w, trained, false), *apart = make_step(h, w, trained, true);
    double one, two, norms[2];
    for (int pass = 0; pass < 3;
         pass++) { /* the second pass sees the contents of the first; the third is added to the second */
        bool first = pass < 2 || !h->accumulate;
        const int32_t *at = tokens + pass * 3;
        EXPECT_OK(train_step_batch(block, at, at + 1, first, 4, &one, &err));
        EXPECT_OK(train_step_batch(apart, at, at + 1, first, 4, &two, &err));
        EXPECT_MSG(one == two, "shape %d: losses %.17g and %.17g", (int)(h - shapes), one, two);
        same_gradients(h, block, apart, w);
    }
    EXPECT_OK(train_step_evaluate(block, tokens, tokens + 1, NULL, &one, &err));
    EXPECT_OK(train_step_evaluate(apart, tokens, tokens + 1, NULL, &two, &err));
    EXPECT(one == two);
    if (h->accumulate) {
        same_gradients(h, block, apart, w);
        EXPECT_OK(train_step_gradient_norm(block, &norms[0], &err));
        EXPECT_OK(train_step_gradient_norm(apart, &norms[1], &err));
        EXPECT(norms[0] == norms[1]);
    } else {
        EXPECT_FAIL(train_step_gradient_norm(block, &norms[0], &err), PROPANE_ERR_INVALID, "run their batch again");
    }
    EXPECT(step_state_bytes(block) == step_state_bytes(apart));
    EXPECT_MSG(train_step_activation_bytes(block) <= train_step_activation_bytes(apart), "shape %d: %zu bytes, %zu",
               (int)(h - shapes), train_step_activation_bytes(block), train_step_activation_bytes(apart));
    train_step_free(block);
    train_step_free(apart);
    mem_free(trained);
    model_weights_free(w);
}

TEST(a_block_gives_the_same_bits) {
    rng r;
    rng_init(&r, 21);
    for (int i = 0; i < 2 * COUNT + 1; i++) tokens[i] = (int32_t)rng_below(&r, VOCAB);
    for (int i = 0; i < SHAPES; i++) check_bits(&shapes[i]);
}

/* Gradients are stored where activations were: without accumulation a step needs less memory. */
TEST(gradients_take_the_place_of_activations) {
    shape h = shapes[0];
    model_weights *w = make_weights(&h);
    bool *trained = choose(&h, w);
    train_step *once = make_step(&h, w, trained, false);
    h.accumulate = true;
    train_step *several = make_step(&h, w, trained, false);
    size_t gradients = step_state_bytes(once) / 3, less = train_step_activation_bytes(once),
           more = train_step_activation_bytes(several);
    EXPECT_MSG(more - less > gradients * 7 / 10, "%zu and %zu bytes, with %zu of gradients", less, more,
               gradients); /* observed 0.75: the table's gradient, 4096 bytes, is made while most values are live */
    train_step_free(once);
    train_step_free(several);
    mem_free(trained);
    model_weights_free(w);
}

SUITE("train/wiring", T(nothing_is_overwritten_before_its_last_reader), T(a_block_gives_the_same_bits),
      T(gradients_take_the_place_of_activations))
