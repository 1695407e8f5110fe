/* SPDX-License-Identifier: MIT
 * Owns a model that runs. Two sets of three programs, one for a single position and one for a chunk, work on the same
 * weights and the same cache; a request is made for each layer and set, once. Reading a chunk is
 *
 *     host: embed, tables of angles, mask  ->  per layer: [attn] host: add, store keys and values  [ffn] host: add  ->  [head]
 *
 * A prompt's last, shorter chunk is filled up with its last id: later positions cannot change earlier ones, and what they
 * wrote is not kept.
 */
#include "infer/generate.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "model/forward.h"

enum { ATTN, FFN, HEAD, PARTS, SETS = 2, MAX_WEIGHTS = 24 };

static const model_part part_of[PARTS] = {MODEL_ATTN, MODEL_FFN, MODEL_HEAD};

/* Programs for `positions` positions at once, and the buffers that only they use. */
typedef struct set {
    int64_t positions;
    propane_program *programs[PARTS];
    propane_buffer *x, *cos, *sin, *mask, *out, *k_new, *v_new, *logits;
    propane_request **attn, **ffn; /* [layers] */
    propane_request *head;
} set;

struct infer {
    arena *arena;
    propane_device *device;
    const model_weights *weights;
    model_config config;
    mil_dtype dtype;
    int64_t context, position;
    set sets[SETS]; /* one position, a chunk */
    propane_buffer *(
        *layers)[MAX_WEIGHTS +
                 1]; /* [2 * layers + 1]: attn 0, ffn 0, attn 1, ..., head; in the order of the function's parameters */
    propane_buffer **k_cache, **v_cache; /* [layers] */
    float *stream;                       /* [D, chunk]: the residual stream */
    float *result;                       /* [D or V, chunk] */
    float *table_cos, *table_sin;        /* [positions, HD] */
    float *angles;                       /* [HD, chunk] */
    float *mask;                         /* [chunk, context + chunk] */
    int32_t *history;                    /* [context]: the ids that were read */
};

static int64_t layer_count(const infer *m) { return m->config.num_hidden_layers; }

static bool turns(const infer *m) { return model_arch_of(&m->config)->position == ARCH_ROPE; }

/* ---- making --------------------------------------------------------------------------------------------------------------------- */

static propane_status build(const infer *m, mil_module *module, int part, int64_t positions, propane_error *err) {
    model_build_options o = {.batch = 1, .sequence = positions, .dtype = m->dtype};
    mil_function *f;
    if (part == ATTN) return model_build_attn_decode(module, "attn", &m->config, &o, 0, m->context, &f, err);
    if (part == FFN) return model_build_ffn(module, "ffn", &m->config, &o, 0, &f, err);
    return model_build_head(module, "head", &m->config, &o, &f, err);
}

static propane_status compile(infer *m, set *s, propane_error *err) {
    for (int part = 0; part < PARTS; part++) {
        mil_module *module = mil_module_create("generate");
        if (!module) return propane_fail_memory(err, 0);
        propane_status status = build(m, module, part, s->positions, err);
        if (!status) status = propane_program_compile(m->device, module, NULL, &s->programs[part], err);
        mil_module_free(module);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

static propane_status io_of(const propane_program *p, const char *name, const propane_io **out, propane_error *err) {
    *out = propane_program_find(p, name);
    return *out ? PROPANE_OK : propane_fail(err, PROPANE_ERR_DEVICE, "the compiled program has no '%s'", name);
}

static propane_status buffer_for(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                 propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(io_of(p, name, &io, err));
    return propane_buffer_create(m->device, io->bytes, out, err);
}

/* Both sets read the same buffers, so both must see them in the same layout. */
static propane_status check_same_layout(const infer *m, int part, const char *name, propane_error *err) {
    const propane_io *a, *b;
    PROPANE_TRY(io_of(m->sets[0].programs[part], name, &a, err));
    PROPANE_TRY(io_of(m->sets[1].programs[part], name, &b, err));
    bool same = a->rank == b->rank && a->dtype == b->dtype && a->bytes == b->bytes;
    for (int i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same ? PROPANE_OK
                : propane_fail(err, PROPANE_ERR_DEVICE,
                               "the device lays out '%s' differently for one position and for %lld; use a chunk of 1",
                               name, (long long)m->sets[1].positions);
}

static propane_status load_weights(infer *m, int part, int layer, propane_buffer **out, propane_error *err) {
    const arch_tensor *row;
    for (int i = 0; i < MAX_WEIGHTS && (row = model_arch_param(&m->config, part_of[part], i)); i++) {
        const char *name = row->param;
        const propane_program *p = m->sets[0].programs[part];
        const model_tensor *t = model_weights_param(m->weights, part_of[part], layer, name);
        const propane_io *io;
        PROPANE_TRY(io_of(p, name, &io, err));
        PROPANE_TRY(check_same_layout(m, part, name, err));
        PROPANE_TRY(buffer_for(m, p, name, &out[i], err));
        PROPANE_TRY(propane_buffer_write(out[i], io, PROPANE_FP32, model_weights_data(m->weights, t), t->count, err));
    }
    return PROPANE_OK;
}

static propane_status load_all(infer *m, propane_error *err) {
    int layers = (int)layer_count(m);
    for (int layer = 0; layer < layers; layer++) {
        PROPANE_TRY(load_weights(m, ATTN, layer, m->layers[2 * layer], err));
        PROPANE_TRY(load_weights(m, FFN, layer, m->layers[2 * layer + 1], err));
        PROPANE_TRY(buffer_for(m, m->sets[0].programs[ATTN], "k_cache", &m->k_cache[layer], err));
        PROPANE_TRY(buffer_for(m, m->sets[0].programs[ATTN], "v_cache", &m->v_cache[layer], err));
    }
    PROPANE_TRY(check_same_layout(m, ATTN, "k_cache", err));
    PROPANE_TRY(check_same_layout(m, ATTN, "v_cache", err));
    return load_weights(m, HEAD, -1, m->layers[2 * layers], err);
}

/* The named bindings of a function, then those of its weights. */
static propane_status request(const infer *m, const set *s, int part, const propane_binding *own, int count,
                              propane_buffer *const *weights, propane_request **out, propane_error *err) {
    propane_binding all[MAX_WEIGHTS + 16];
    const arch_tensor *row;
    int used = 0;
    for (int i = 0; i < count; i++) /* a function without RoPE has no angles */
        if (own[i].buffer) all[used++] = own[i];
    for (int i = 0; i < MAX_WEIGHTS && (row = model_arch_param(&m->config, part_of[part], i)); i++)
        all[used++] = (propane_binding){row->param, weights[i]};
    count = used;
    return propane_request_create(s->programs[part], all, count, out, err);
}

static propane_status make_requests(infer *m, set *s, propane_error *err) {
    const propane_program *attn = s->programs[ATTN];
    PROPANE_TRY(buffer_for(m, attn, "x", &s->x, err));
    if (turns(m)) {
        PROPANE_TRY(buffer_for(m, attn, "cos", &s->cos, err));
        PROPANE_TRY(buffer_for(m, attn, "sin", &s->sin, err));
    }
    PROPANE_TRY(buffer_for(m, attn, "mask", &s->mask, err));
    PROPANE_TRY(buffer_for(m, attn, "o", &s->out, err));
    PROPANE_TRY(buffer_for(m, attn, "k_new", &s->k_new, err));
    PROPANE_TRY(buffer_for(m, attn, "v_new", &s->v_new, err));
    PROPANE_TRY(buffer_for(m, s->programs[HEAD], "logits", &s->logits, err));
    int layers = (int)layer_count(m);
    for (int i = 0; i < layers; i++) {
        const propane_binding own[] = {{"x", s->x},
                                       {"k_cache", m->k_cache[i]},
                                       {"v_cache", m->v_cache[i]},
                                       {"cos", s->cos},
                                       {"sin", s->sin},
                                       {"mask", s->mask},
                                       {"o", s->out},
                                       {"k_new", s->k_new},
                                       {"v_new", s->v_new}};
        const propane_binding half[] = {{"x", s->x}, {"y", s->out}};
        PROPANE_TRY(request(m, s, ATTN, own, 9, m->layers[2 * i], &s->attn[i], err));
        PROPANE_TRY(request(m, s, FFN, half, 2, m->layers[2 * i + 1], &s->ffn[i], err));
    }
    const propane_binding head[] = {{"x", s->x}, {"logits", s->logits}};
    return request(m, s, HEAD, head, 2, m->layers[2 * layers], &s->head, err);
}

static propane_status allocate(infer *m, propane_error *err) {
    int64_t layers = layer_count(m), chunk = m->sets[1].positions, hd = m->config.head_dim;
    int64_t widest = m->config.vocab_size > m->config.hidden_size ? m->config.vocab_size : m->config.hidden_size;
    int64_t positions = m->context + chunk;
    double *tables = mem_array((size_t)(2 * hd * positions), sizeof *tables);
    m->layers = arena_array(m->arena, (size_t)(2 * layers + 1), sizeof *m->layers);
    m->k_cache = ARENA_ARRAY(m->arena, layers, propane_buffer *);
    m->v_cache = ARENA_ARRAY(m->arena, layers, propane_buffer *);
    m->stream = ARENA_ARRAY(m->arena, m->config.hidden_size * chunk, float);
    m->result = ARENA_ARRAY(m->arena, widest * chunk, float);
    m->table_cos = ARENA_ARRAY(m->arena, positions * hd, float);
    m->table_sin = ARENA_ARRAY(m->arena, positions * hd, float);
    m->angles = ARENA_ARRAY(m->arena, hd * chunk, float);
    m->mask = ARENA_ARRAY(m->arena, chunk * positions, float);
    m->history = ARENA_ARRAY(m->arena, m->context, int32_t);
    bool ok = tables && m->layers && m->k_cache && m->v_cache && m->stream && m->result && m->table_cos &&
              m->table_sin && m->angles && m->mask && m->history;
    for (int i = 0; i < SETS; i++) {
        m->sets[i].attn = ARENA_ARRAY(m->arena, layers, propane_request *);
        m->sets[i].ffn = ARENA_ARRAY(m->arena, layers, propane_request *);
        ok = ok && m->sets[i].attn && m->sets[i].ffn;
    }
    if (ok) {
        model_rope_tables(&m->config, 0, positions, tables, tables + hd * positions);
        for (int64_t t = 0; t < positions; t++)
            for (int64_t i = 0; i < hd; i++) {
                m->table_cos[t * hd + i] = (float)tables[i * positions + t];
                m->table_sin[t * hd + i] = (float)tables[hd * positions + i * positions + t];
            }
    }
    mem_free(tables);
    return ok ? PROPANE_OK : propane_fail_memory(err, (size_t)(widest * chunk) * sizeof(float));
}

static propane_status set_up(infer *m, propane_error *err) {
    PROPANE_TRY(allocate(m, err));
    for (int i = 0; i < SETS; i++) PROPANE_TRY(compile(m, &m->sets[i], err));
    PROPANE_TRY(load_all(m, err));
    for (int i = 0; i < SETS; i++) PROPANE_TRY(make_requests(m, &m->sets[i], err));
    return PROPANE_OK;
}

propane_status infer_create(propane_device *device, const model_weights *weights, const infer_options *options,
                            infer **out, propane_error *err) {
    *out = NULL;
    const model_config *c = &weights->config;
    int64_t context = options->context ? options->context : c->max_position_embeddings;
    int64_t chunk = options->chunk ? options->chunk : 32;
    if (context < 1 || context > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "a context of %lld positions; the model has max_position_embeddings = %lld",
                            (long long)context, (long long)c->max_position_embeddings);
    if (chunk < 1 || chunk > 4096)
        return propane_fail(err, PROPANE_ERR_INVALID, "a chunk of %lld positions; it must be from 1 to 4096",
                            (long long)chunk);
    infer *m = mem_alloc(sizeof *m);
    if (!m) return propane_fail_memory(err, sizeof *m);
    *m = (infer){.device = device, .weights = weights, .config = *c, .dtype = options->dtype, .context = context};
    m->sets[0].positions = 1;
    m->sets[1].positions = chunk < context ? chunk : context;
    m->arena = arena_create();
    propane_status status = m->arena ? set_up(m, err) : propane_fail_memory(err, sizeof(void *));
    if (status)
        infer_free(m);
    else
        *out = m;
    return status;
}

static void free_set(set *s, int64_t layers) {
    for (int64_t i = 0; i < layers; i++) {
        if (s->attn) propane_request_free(s->attn[i]);
        if (s->ffn) propane_request_free(s->ffn[i]);
    }
    propane_request_free(s->head);
    propane_buffer *const buffers[] = {s->x, s->cos, s->sin, s->mask, s->out, s->k_new, s->v_new, s->logits};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) propane_buffer_free(buffers[i]);
    for (int part = 0; part < PARTS; part++) propane_program_free(s->programs[part]);
}

void infer_free(infer *m) {
    if (!m) return;
    int64_t layers = layer_count(m);
    for (int i = 0; i < SETS; i++) free_set(&m->sets[i], layers);
    for (int64_t i = 0; m->layers && i < 2 * layers + 1; i++)
        for (int k = 0; k < MAX_WEIGHTS; k++) propane_buffer_free(m->layers[i][k]);
    for (int64_t i = 0; i < layers; i++) {
        if (m->k_cache) propane_buffer_free(m->k_cache[i]);
        if (m->v_cache) propane_buffer_free(m->v_cache[i]);
    }
    arena_free(m->arena);
    mem_free(m);
}

int64_t infer_context(const infer *m) { return m->context; }
int64_t infer_position(const infer *m) { return m->position; }
int infer_vocab(const infer *m) { return (int)m->config.vocab_size; }
void infer_reset(infer *m) { m->position = 0; }

int64_t infer_reuse(infer *m, const int32_t *ids, int64_t count) {
    int64_t same = 0;
    while (same < count && same < m->position && m->history[same] == ids[same]) same++;
    return m->position = same;
}

/* ---- running -------------------------------------------------------------------------------------------------------------------------- */

static propane_status put(const set *s, int part, const char *name, propane_buffer *buffer, const float *data,
                          propane_error *err) {
    const propane_io *io = propane_program_find(s->programs[part], name);
    int64_t count = 1;
    for (int i = 0; i < io->rank; i++) count *= io->dim[i];
    return propane_buffer_write(buffer, io, PROPANE_FP32, data, count, err);
}

static propane_status take(const set *s, int part, const char *name, propane_buffer *buffer, float *data,
                           propane_error *err) {
    const propane_io *io = propane_program_find(s->programs[part], name);
    int64_t count = 1;
    for (int i = 0; i < io->rank; i++) count *= io->dim[i];
    return propane_buffer_read(buffer, io, PROPANE_FP32, data, count, err);
}

static propane_status execute(propane_request *r, propane_error *err) {
    PROPANE_TRY(propane_submit(&r, 1, err));
    return propane_wait(r, NULL, err);
}

/* One half of a layer: stream += f(stream). */
static propane_status run_half(infer *m, const set *s, int part, propane_request *r, propane_error *err) {
    PROPANE_TRY(put(s, part, "x", s->x, m->stream, err));
    PROPANE_TRY(execute(r, err));
    PROPANE_TRY(take(s, part, part == ATTN ? "o" : "y", s->out, m->result, err));
    for (int64_t i = 0; i < m->config.hidden_size * s->positions; i++) m->stream[i] += m->result[i];
    return PROPANE_OK;
}

/* The first `count` new columns go to their place in the cache. Both have the same element type: bytes are moved. */
static propane_status store(const infer *m, const set *s, const char *new_name, propane_buffer *fresh,
                            const char *cache_name, propane_buffer *cache, int64_t count, propane_error *err) {
    const propane_io *from = propane_program_find(s->programs[ATTN], new_name);
    const propane_io *to = propane_program_find(s->programs[ATTN], cache_name);
    size_t element = from->dtype == PROPANE_FP16 ? 2 : 4;
    void *source, *target;
    PROPANE_TRY(propane_buffer_lock(fresh, false, &source, err));
    propane_status status = propane_buffer_lock(cache, true, &target, err);
    if (!status) {
        for (int64_t c = 0; c < model_config_kv(&m->config); c++)
            for (int64_t t = 0; t < count; t++)
                memcpy((char *)target + c * to->stride[1] + (m->position + t) * to->stride[3],
                       (const char *)source + c * from->stride[1] + t * from->stride[3], element);
        propane_buffer_unlock(cache);
    }
    propane_buffer_unlock(fresh);
    return status;
}

static propane_status put_table(infer *m, const set *s, const char *name, propane_buffer *buffer, const float *table,
                                propane_error *err) {
    int64_t n = s->positions, hd = m->config.head_dim;
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < hd; i++) m->angles[i * n + t] = table[(m->position + t) * hd + i];
    return put(s, ATTN, name, buffer, m->angles, err);
}

static propane_status put_positions(infer *m, const set *s, propane_error *err) {
    if (turns(m)) {
        PROPANE_TRY(put_table(m, s, "cos", s->cos, m->table_cos, err));
        PROPANE_TRY(put_table(m, s, "sin", s->sin, m->table_sin, err));
    }
    model_mask(s->positions, m->context, m->position, m->mask);
    return put(s, ATTN, "mask", s->mask, m->mask, err);
}

static void embed(infer *m, const set *s, const int32_t *ids, int64_t count) {
    const float *table =
        model_weights_data(m->weights, model_weights_param(m->weights, MODEL_EMBED, -1, "embed_tokens"));
    const model_tensor *learned = model_weights_param(m->weights, MODEL_EMBED, -1, "embed_positions");
    int64_t d = m->config.hidden_size, n = s->positions;
    for (int64_t t = 0; t < n; t++) {
        const float *row = table + (int64_t)ids[t < count ? t : count - 1] * d;
        for (int64_t c = 0; c < d; c++) m->stream[c * n + t] = row[c];
        int64_t position = m->position + (t < count ? t : count - 1);
        const float *place = learned ? model_weights_data(m->weights, learned) + position * d : NULL;
        for (int64_t c = 0; place && c < d; c++) m->stream[c * n + t] += place[c];
    }
}

/* Reads `count` ids (1 .. s->positions). With `head`, m->result is then logits [V, positions]. */
static propane_status run_chunk(infer *m, const set *s, const int32_t *ids, int64_t count, bool head,
                                propane_error *err) {
    embed(m, s, ids, count);
    PROPANE_TRY(put_positions(m, s, err));
    for (int64_t i = 0; i < layer_count(m); i++) {
        PROPANE_TRY(run_half(m, s, ATTN, s->attn[i], err));
        PROPANE_TRY(store(m, s, "k_new", s->k_new, "k_cache", m->k_cache[i], count, err));
        PROPANE_TRY(store(m, s, "v_new", s->v_new, "v_cache", m->v_cache[i], count, err));
        PROPANE_TRY(run_half(m, s, FFN, s->ffn[i], err));
    }
    memcpy(m->history + m->position, ids, (size_t)count * sizeof *ids);
    m->position += count;
    if (!head) return PROPANE_OK;
    PROPANE_TRY(put(s, HEAD, "x", s->x, m->stream, err));
    PROPANE_TRY(execute(s->head, err));
    return take(s, HEAD, "logits", s->logits, m->result, err);
}

/* `ahead`: how many more ids there are, which are predicted but not read. */
static propane_status check_ids(const infer *m, const int32_t *ids, int64_t count, int64_t ahead, propane_error *err) {
    if (count < 1)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            ahead ? "one token id is too few: there is nothing to predict"
                                  : "there are no token ids to read");
    if (count > m->context - m->position)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%lld ids after %lld do not fit into the context of %lld positions",
                            (long long)count, (long long)m->position, (long long)m->context);
    for (int64_t i = 0; i < count + ahead; i++)
        if (ids[i] < 0 || ids[i] >= m->config.vocab_size)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "id %d (number %lld) is not in the model's vocabulary of %lld", (int)ids[i],
                                (long long)i, (long long)m->config.vocab_size);
    return PROPANE_OK;
}

/* nll NULL: only the last logits are wanted; else there is one more id, which is only predicted. */
static propane_status read_all(infer *m, const int32_t *ids, int64_t count, float *logits, double *nll,
                               propane_error *err) {
    int vocab = (int)m->config.vocab_size;
    for (int64_t done = 0; done < count;) {
        int64_t left = count - done;
        const set *s = &m->sets[left == 1 ? 0 : 1];
        int64_t now = left < s->positions ? left : s->positions;
        bool last = done + now == count;
        PROPANE_TRY(run_chunk(m, s, ids + done, now, nll || (last && logits), err));
        for (int64_t t = 0; nll && t < now; t++)
            nll[done + t] = infer_nll(m->result + t, vocab, s->positions, ids[done + t + 1]);
        for (int i = 0; logits && last && i < vocab; i++) logits[i] = m->result[i * s->positions + now - 1];
        done += now;
    }
    return PROPANE_OK;
}

propane_status infer_read(infer *m, const int32_t *ids, int64_t count, float *logits, propane_error *err) {
    PROPANE_TRY(check_ids(m, ids, count, 0, err));
    return read_all(m, ids, count, logits, NULL, err);
}

propane_status infer_score(infer *m, const int32_t *ids, int64_t count, double *nll, propane_error *err) {
    infer_reset(m);
    PROPANE_TRY(check_ids(m, ids, count - 1, 1, err));
    return read_all(m, ids, count - 1, NULL, nll, err);
}

propane_status infer_loss(infer *m, const int32_t *ids, int64_t count, double *mean, int64_t *predictions,
                          propane_error *err) {
    if (count < 2) return propane_fail(err, PROPANE_ERR_INVALID, "%lld ids: a loss needs at least 2", (long long)count);
    double sum = 0, *nll = mem_array((size_t)m->context, sizeof *nll);
    if (!nll) return propane_fail_memory(err, (size_t)m->context * sizeof *nll);
    propane_status status = PROPANE_OK;
    int64_t total = 0;
    for (int64_t at = 0; !status && at + 1 < count;) {
        int64_t n = count - 1 - at < m->context ? count - 1 - at : m->context;
        status = infer_score(m, ids + at, n + 1, nll, err);
        for (int64_t i = 0; !status && i < n; i++) sum += nll[i];
        total += n;
        at += n;
    }
    mem_free(nll);
    if (status) return status;
    *mean = sum / (double)total;
    if (predictions) *predictions = total;
    return PROPANE_OK;
}

propane_status infer_generate(infer *m, const int32_t *prompt, int64_t prompt_count, int64_t already, int64_t count,
                              int32_t eos, const infer_sampling *sampling, infer_token callback, void *context,
                              int64_t *made, propane_error *err) {
    int vocab = (int)m->config.vocab_size;
    int64_t done = 0;
    infer_sampler sampler;
    PROPANE_TRY(infer_sampler_init(&sampler, sampling, vocab, err));
    float *logits = mem_array((size_t)vocab, sizeof *logits);
    propane_status status = logits ? infer_read(m, prompt + already, prompt_count - already, logits, err)
                                   : propane_fail_memory(err, (size_t)vocab * sizeof *logits);
    for (int64_t i = 0; !status && i < prompt_count; i++) infer_sampler_see(&sampler, prompt[i]);
    while (!status && done < count) {
        int32_t id = infer_sample(&sampler, logits);
        done++;
        if (!callback(context, id, logits)) break;
        if (id == eos || done == count || m->position == m->context) break;
        status = infer_read(m, &id, 1, logits, err);
    }
    if (made) *made = done;
    mem_free(logits);
    infer_sampler_deinit(&sampler);
    return status;
}
