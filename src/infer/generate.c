/* SPDX-License-Identifier: MIT
 * Owns a model that runs. A set of programs reads so many positions at once (one, or a chunk of a prompt); its attention is
 * compiled for caches of several lengths ("reaches", powers of two), so that a token costs what its position asks for and
 * not what the context could hold. All of them work on the same weights and the same cache; what a sequence needs is
 * compiled when it first needs it. Reading a chunk is
 *
 *     host: embed, tables of angles, mask  ->  per layer: [attn] host: add, store keys and values  [ffn] host: add  ->  [head]
 *
 * The cache has a row for each position, so a shorter reach is the beginning of the same buffer and new keys and values are
 * one run of bytes. A prompt's last, shorter chunk is filled up with its last id: later positions cannot change earlier
 * ones, and what they wrote is not kept.
 */
#include "infer/generate.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "model/forward.h"

enum { ATTN, FFN, HEAD, PARTS, MAX_SETS = 5, MAX_REACHES = 24, MAX_SLOTS = 48, SHORTEST_REACH = 64, CHUNK = 512 };

static const model_part part_of[PARTS] = {MODEL_ATTN, MODEL_FFN, MODEL_HEAD};

/* A parameter of a part that is a weight, or the scales of one. */
typedef struct slot {
    const arch_tensor *row;
    const char *name;
    bool scales;
} slot;

typedef struct reach {
    int64_t cache;
    propane_program *program;
    propane_buffer *mask;
    propane_request **attn; /* [layers] */
} reach;

/* Programs for `positions` positions at once, and the buffers that only they use. */
typedef struct set {
    int64_t positions;
    propane_program *ffn, *head;
    propane_buffer *x, *cos, *sin, *out, *k_new, *v_new, *logits;
    propane_request **ffn_requests, *head_request; /* [layers] */
    reach reaches[MAX_REACHES];
    int reach_count;
} set;

struct infer {
    arena *arena;
    propane_device *device;
    const model_weights *weights;
    model_config config;
    mil_dtype dtype;
    model_packing packing;
    int64_t context, position, chunk;
    set sets[MAX_SETS]; /* fewest positions first; the first one has one */
    int set_count;
    slot slots[PARTS][MAX_SLOTS];
    int slot_count[PARTS];
    propane_buffer *(*layers)[MAX_SLOTS]; /* [2 * layers + 1]: attn 0, ffn 0, attn 1, ..., head; as the slots */
    int64_t weight_bytes;
    propane_buffer **k_cache, **v_cache; /* [layers] */
    float *stream;                       /* [D, chunk]: the residual stream */
    float *result;                       /* [D, chunk] */
    float *logits;                       /* [logit_room] */
    int64_t logit_room;
    float *table_cos, *table_sin; /* [positions, HD] */
    float *angles;                /* [HD, chunk] */
    float *mask;                  /* [mask_room] */
    int64_t mask_room;
    int32_t *history; /* [context]: the ids that were read */
};

static int64_t layer_count(const infer *m) { return m->config.num_hidden_layers; }

static bool turns(const infer *m) { return model_arch_of(&m->config)->position == ARCH_ROPE; }

/* ---- programs and buffers ------------------------------------------------------------------------------------------------------- */

static propane_status build(const infer *m, mil_module *module, int part, int64_t positions, int64_t cache,
                            propane_error *err) {
    model_build_options o = {.batch = 1, .sequence = positions, .dtype = m->dtype, .packing = m->packing};
    mil_function *f;
    if (part == ATTN) return model_build_attn_decode(module, "attn", &m->config, &o, 0, cache, &f, err);
    if (part == FFN) return model_build_ffn(module, "ffn", &m->config, &o, 0, &f, err);
    return model_build_head(module, "head", &m->config, &o, &f, err);
}

static propane_status compile(const infer *m, int part, int64_t positions, int64_t cache, propane_program **out,
                              propane_error *err) {
    mil_module *module = mil_module_create("generate");
    if (!module) return propane_fail_memory(err, 0);
    propane_status status = build(m, module, part, positions, cache, err);
    if (!status) status = propane_program_compile(m->device, module, NULL, out, err);
    mil_module_free(module);
    return status;
}

static propane_status io_of(const propane_program *p, const char *name, const propane_io **out, propane_error *err) {
    *out = propane_program_find(p, name);
    return *out ? PROPANE_OK : propane_fail(err, PROPANE_ERR_DEVICE, "the compiled program has no '%s'", name);
}

/* Where there is a buffer already, another program's: it must be laid out in the same way, but for the number of positions
 * in a cache (`growing`: that axis; -1: none). */
static propane_status check_layout(const propane_program *first, const propane_program *p, const char *name,
                                   int growing, propane_error *err) {
    const propane_io *a, *b;
    PROPANE_TRY(io_of(first, name, &a, err));
    PROPANE_TRY(io_of(p, name, &b, err));
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++)
        same = (a->dim[i] == b->dim[i] || i == growing) && (a->stride[i] == b->stride[i] || i < growing);
    return same ? PROPANE_OK
                : propane_fail(err, PROPANE_ERR_DEVICE,
                               "the device lays out '%s' differently in programs for other numbers of positions", name);
}

static propane_status buffer_for(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                 propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(io_of(p, name, &io, err));
    return *out ? PROPANE_OK : propane_buffer_create(m->device, io->bytes, out, err);
}

/* The named bindings of a function that have a buffer, then those of its weights. */
static propane_status request(const infer *m, const propane_program *p, int part, const propane_binding *own, int count,
                              propane_buffer *const *weights, propane_request **out, propane_error *err) {
    propane_binding all[MAX_SLOTS + 16];
    int used = 0;
    for (int i = 0; i < count; i++) /* a function without RoPE has no angles */
        if (own[i].buffer) all[used++] = own[i];
    for (int i = 0; i < m->slot_count[part]; i++) all[used++] = (propane_binding){m->slots[part][i].name, weights[i]};
    return propane_request_create((propane_program *)(uintptr_t)p, all, used, out, err);
}

/* ---- weights --------------------------------------------------------------------------------------------------------------------- */

static propane_status list_slots(infer *m, int part, propane_error *err) {
    const arch_tensor *row;
    int n = 0;
    for (int i = 0; n + 2 <= MAX_SLOTS && (row = model_arch_param(&m->config, part_of[part], i)); i++) {
        m->slots[part][n++] = (slot){row, row->param, false};
        if (row->in == ARCH_1 || model_packing_for(m->packing, model_arch_size(&m->config, row->in)) < MODEL_INT8)
            continue;
        const char *name = arena_printf(m->arena, "%s_scale", row->param);
        if (!name) return propane_fail_memory(err, 0);
        m->slots[part][n++] = (slot){row, name, true};
    }
    m->slot_count[part] = n;
    return PROPANE_OK;
}

/* A matrix in few bits: its own buffer and, behind it, that of its scales. */
static propane_status load_packed(const model_tensor *t, model_packing packing, const float *w,
                                  propane_buffer *const *out, const propane_io *io, const propane_io *scale_io,
                                  propane_error *err) {
    int64_t scales = t->count / 32, bytes = packing == MODEL_INT4 ? t->count / 2 : t->count;
    uint8_t *packed = mem_alloc((size_t)bytes + (size_t)scales * 2);
    if (!packed) return propane_fail_memory(err, (size_t)bytes);
    uint16_t *scale = (uint16_t *)(void *)(packed + bytes); /* bytes is a multiple of 16 */
    model_pack(packing, w, t->dim[0], t->dim[1], packed, scale);
    propane_status status =
        propane_buffer_write(out[0], io, packing == MODEL_INT4 ? PROPANE_UINT8 : PROPANE_INT8, packed, bytes, err);
    if (!status) status = propane_buffer_write(out[1], scale_io, PROPANE_FP16, scale, scales, err);
    mem_free(packed);
    return status;
}

static propane_status load_weights(infer *m, int part, int layer, const propane_program *p, propane_buffer **out,
                                   propane_error *err) {
    for (int i = 0; i < m->slot_count[part]; i++) {
        const slot *s = &m->slots[part][i];
        const propane_io *io, *next = NULL;
        PROPANE_TRY(io_of(p, s->name, &io, err));
        PROPANE_TRY(buffer_for(m, p, s->name, &out[i], err));
        m->weight_bytes += (int64_t)io->bytes;
        if (s->scales) continue;
        const model_tensor *t = model_weights_param(m->weights, part_of[part], layer, s->row->param);
        const float *w = model_weights_data(m->weights, t);
        bool scaled = i + 1 < m->slot_count[part] && m->slots[part][i + 1].scales;
        if (scaled) {
            PROPANE_TRY(buffer_for(m, p, m->slots[part][i + 1].name, &out[i + 1], err));
            PROPANE_TRY(io_of(p, m->slots[part][i + 1].name, &next, err));
            PROPANE_TRY(load_packed(t, m->packing, w, &out[i], io, next, err));
        } else {
            PROPANE_TRY(propane_buffer_write(out[i], io, PROPANE_FP32, w, t->count, err));
        }
    }
    return PROPANE_OK;
}

/* A row for each position of the context, whatever the program's reach. */
static propane_status make_cache(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                 propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(io_of(p, name, &io, err));
    return propane_buffer_create(m->device, (size_t)(io->stride[1] * m->context), out, err);
}

static propane_status load_all(infer *m, propane_error *err) {
    const set *s = &m->sets[0];
    int layers = (int)layer_count(m);
    for (int layer = 0; layer < layers; layer++) {
        PROPANE_TRY(load_weights(m, ATTN, layer, s->reaches[0].program, m->layers[2 * layer], err));
        PROPANE_TRY(load_weights(m, FFN, layer, s->ffn, m->layers[2 * layer + 1], err));
        PROPANE_TRY(make_cache(m, s->reaches[0].program, "k_cache", &m->k_cache[layer], err));
        PROPANE_TRY(make_cache(m, s->reaches[0].program, "v_cache", &m->v_cache[layer], err));
    }
    return load_weights(m, HEAD, -1, s->head, m->layers[2 * layers], err);
}

static propane_status check_weights(const infer *m, int part, const propane_program *first, const propane_program *p,
                                    propane_error *err) {
    for (int i = 0; first != p && i < m->slot_count[part]; i++)
        PROPANE_TRY(check_layout(first, p, m->slots[part][i].name, -1, err));
    return PROPANE_OK;
}

/* ---- sets and reaches, when they are needed ---------------------------------------------------------------------------------------- */

static int64_t reach_for(const infer *m, int64_t filled) {
    int64_t cache = SHORTEST_REACH;
    while (cache < filled) cache *= 2;
    return cache < m->context ? cache : m->context;
}

static propane_status wire_reach(infer *m, set *s, reach *r, propane_error *err) {
    const propane_program *p = r->program, *first = m->sets[0].reaches[0].program;
    PROPANE_TRY(check_weights(m, ATTN, first, p, err));
    PROPANE_TRY(check_layout(first, p, "k_cache", 1, err));
    PROPANE_TRY(check_layout(first, p, "v_cache", 1, err));
    PROPANE_TRY(buffer_for(m, p, "x", &s->x, err));
    if (turns(m)) {
        PROPANE_TRY(buffer_for(m, p, "cos", &s->cos, err));
        PROPANE_TRY(buffer_for(m, p, "sin", &s->sin, err));
    }
    PROPANE_TRY(buffer_for(m, p, "o", &s->out, err));
    PROPANE_TRY(buffer_for(m, p, "k_new", &s->k_new, err));
    PROPANE_TRY(buffer_for(m, p, "v_new", &s->v_new, err));
    PROPANE_TRY(buffer_for(m, p, "mask", &r->mask, err));
    for (int64_t i = 0; i < layer_count(m); i++) {
        const propane_binding own[] = {{"x", s->x},
                                       {"k_cache", m->k_cache[i]},
                                       {"v_cache", m->v_cache[i]},
                                       {"cos", s->cos},
                                       {"sin", s->sin},
                                       {"mask", r->mask},
                                       {"o", s->out},
                                       {"k_new", s->k_new},
                                       {"v_new", s->v_new}};
        PROPANE_TRY(request(m, p, ATTN, own, 9, m->layers[2 * i], &r->attn[i], err));
    }
    return PROPANE_OK;
}

/* What an attempt that failed has left is used again by the next one. */
static propane_status need_reach(infer *m, set *s, int64_t filled, reach **out, propane_error *err) {
    int64_t cache = reach_for(m, filled), layers = layer_count(m);
    for (int i = 0; i < s->reach_count; i++) {
        *out = &s->reaches[i];
        if ((*out)->cache == cache && (*out)->attn[layers - 1]) return PROPANE_OK;
    }
    reach *r = NULL;
    for (int i = 0; i < s->reach_count; i++)
        if (s->reaches[i].cache == cache) r = &s->reaches[i];
    if (!r) r = &s->reaches[s->reach_count++];
    *out = r;
    r->cache = cache;
    if (!r->attn) r->attn = ARENA_ARRAY(m->arena, layers, propane_request *);
    if (!r->attn) return propane_fail_memory(err, (size_t)layers * sizeof(void *));
    if (!r->program) PROPANE_TRY(compile(m, ATTN, s->positions, cache, &r->program, err));
    return m->k_cache[0] ? wire_reach(m, s, r, err) : PROPANE_OK; /* the very first: its layouts are asked for */
}

static propane_status need_ffn(infer *m, set *s, propane_error *err) {
    int64_t layers = layer_count(m);
    if (!s->ffn_requests) s->ffn_requests = ARENA_ARRAY(m->arena, layers, propane_request *);
    if (!s->ffn_requests) return propane_fail_memory(err, (size_t)layers * sizeof(void *));
    if (s->ffn_requests[layers - 1]) return PROPANE_OK;
    if (!s->ffn) PROPANE_TRY(compile(m, FFN, s->positions, 0, &s->ffn, err));
    PROPANE_TRY(check_weights(m, FFN, m->sets[0].ffn, s->ffn, err));
    PROPANE_TRY(buffer_for(m, s->ffn, "x", &s->x, err));
    PROPANE_TRY(buffer_for(m, s->ffn, "y", &s->out, err));
    const propane_binding own[] = {{"x", s->x}, {"y", s->out}};
    for (int64_t i = 0; i < layers; i++)
        if (!s->ffn_requests[i])
            PROPANE_TRY(request(m, s->ffn, FFN, own, 2, m->layers[2 * i + 1], &s->ffn_requests[i], err));
    return PROPANE_OK;
}

static propane_status need_head(infer *m, set *s, propane_error *err) {
    if (s->head_request) return PROPANE_OK;
    if (!s->head) PROPANE_TRY(compile(m, HEAD, s->positions, 0, &s->head, err));
    PROPANE_TRY(check_weights(m, HEAD, m->sets[0].head, s->head, err));
    PROPANE_TRY(buffer_for(m, s->head, "x", &s->x, err));
    PROPANE_TRY(buffer_for(m, s->head, "logits", &s->logits, err));
    const propane_binding own[] = {{"x", s->x}, {"logits", s->logits}};
    return request(m, s->head, HEAD, own, 2, m->layers[2 * layer_count(m)], &s->head_request, err);
}

/* ---- making ----------------------------------------------------------------------------------------------------------------------- */

static propane_status room_for(float **array, int64_t *room, int64_t count, propane_error *err) {
    if (count <= *room) return PROPANE_OK;
    float *bigger = mem_array((size_t)count, sizeof *bigger);
    if (!bigger) return propane_fail_memory(err, (size_t)count * sizeof *bigger);
    mem_free(*array);
    *array = bigger;
    *room = count;
    return PROPANE_OK;
}

static propane_status allocate(infer *m, propane_error *err) {
    int64_t layers = layer_count(m), hd = m->config.head_dim, positions = m->context + m->chunk;
    double *tables = mem_array((size_t)(2 * hd * positions), sizeof *tables);
    m->layers = arena_array(m->arena, (size_t)(2 * layers + 1), sizeof *m->layers);
    m->k_cache = ARENA_ARRAY(m->arena, layers, propane_buffer *);
    m->v_cache = ARENA_ARRAY(m->arena, layers, propane_buffer *);
    m->stream = ARENA_ARRAY(m->arena, m->config.hidden_size * m->chunk, float);
    m->result = ARENA_ARRAY(m->arena, m->config.hidden_size * m->chunk, float);
    m->table_cos = ARENA_ARRAY(m->arena, positions * hd, float);
    m->table_sin = ARENA_ARRAY(m->arena, positions * hd, float);
    m->angles = ARENA_ARRAY(m->arena, hd * m->chunk, float);
    m->history = ARENA_ARRAY(m->arena, m->context, int32_t);
    bool ok = tables && m->layers && m->k_cache && m->v_cache && m->stream && m->result && m->table_cos &&
              m->table_sin && m->angles && m->history;
    if (ok) {
        model_rope_tables(&m->config, 0, positions, tables, tables + hd * positions);
        for (int64_t t = 0; t < positions; t++)
            for (int64_t i = 0; i < hd; i++) {
                m->table_cos[t * hd + i] = (float)tables[i * positions + t];
                m->table_sin[t * hd + i] = (float)tables[hd * positions + i * positions + t];
            }
    }
    mem_free(tables);
    return ok ? PROPANE_OK : propane_fail_memory(err, (size_t)(2 * hd * positions) * sizeof *tables);
}

/* 1, 8, 32, 128 and the chunk. */
static void list_sets(infer *m) {
    for (int64_t n = 1; n < m->chunk && m->set_count < MAX_SETS - 1; n = n == 1 ? 8 : 4 * n)
        m->sets[m->set_count++].positions = n;
    m->sets[m->set_count++].positions = m->chunk;
}

static propane_status set_up(infer *m, propane_error *err) {
    reach *first;
    list_sets(m);
    PROPANE_TRY(allocate(m, err));
    for (int part = 0; part < PARTS; part++) PROPANE_TRY(list_slots(m, part, err));
    set *s = &m->sets[0];
    PROPANE_TRY(need_reach(m, s, 0, &first, err));
    PROPANE_TRY(compile(m, FFN, s->positions, 0, &s->ffn, err));
    PROPANE_TRY(compile(m, HEAD, s->positions, 0, &s->head, err));
    PROPANE_TRY(load_all(m, err));
    PROPANE_TRY(wire_reach(m, s, first, err));
    PROPANE_TRY(need_ffn(m, s, err));
    return need_head(m, s, err);
}

propane_status infer_create(propane_device *device, const model_weights *weights, const infer_options *options,
                            infer **out, propane_error *err) {
    const model_config *c = &weights->config;
    int64_t context = options->context ? options->context : c->max_position_embeddings;
    int64_t chunk = options->chunk ? options->chunk : CHUNK;
    if (context < 1 || context > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "a context of %lld positions; the model has max_position_embeddings = %lld",
                            (long long)context, (long long)c->max_position_embeddings);
    if (chunk < 1 || chunk > 4096)
        return propane_fail(err, PROPANE_ERR_INVALID, "a chunk of %lld positions; it must be from 1 to 4096",
                            (long long)chunk);
    infer *m = mem_alloc(sizeof *m);
    if (!m) return propane_fail_memory(err, sizeof *m);
    *m = (infer){.device = device,
                 .weights = weights,
                 .config = *c,
                 .dtype = options->dtype,
                 .packing = options->weights,
                 .context = context,
                 .chunk = chunk < context ? chunk : context};
    m->arena = arena_create();
    propane_status status = m->arena ? set_up(m, err) : propane_fail_memory(err, sizeof(void *));
    if (status)
        infer_free(m);
    else
        *out = m;
    return status;
}

static void free_set(set *s, int64_t layers) {
    for (int i = 0; i < s->reach_count; i++) {
        reach *r = &s->reaches[i];
        for (int64_t k = 0; r->attn && k < layers; k++) propane_request_free(r->attn[k]);
        propane_buffer_free(r->mask);
        propane_program_free(r->program);
    }
    for (int64_t k = 0; s->ffn_requests && k < layers; k++) propane_request_free(s->ffn_requests[k]);
    propane_request_free(s->head_request);
    propane_buffer *const buffers[] = {s->x, s->cos, s->sin, s->out, s->k_new, s->v_new, s->logits};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) propane_buffer_free(buffers[i]);
    propane_program_free(s->ffn);
    propane_program_free(s->head);
}

void infer_free(infer *m) {
    if (!m) return;
    int64_t layers = layer_count(m);
    for (int i = 0; i < m->set_count; i++) free_set(&m->sets[i], layers);
    for (int64_t i = 0; m->layers && i < 2 * layers + 1; i++)
        for (int k = 0; k < MAX_SLOTS; k++) propane_buffer_free(m->layers[i][k]);
    for (int64_t i = 0; i < layers; i++) {
        if (m->k_cache) propane_buffer_free(m->k_cache[i]);
        if (m->v_cache) propane_buffer_free(m->v_cache[i]);
    }
    mem_free(m->logits);
    mem_free(m->mask);
    arena_free(m->arena);
    mem_free(m);
}

int64_t infer_context(const infer *m) { return m->context; }
int64_t infer_position(const infer *m) { return m->position; }
int64_t infer_weight_bytes(const infer *m) { return m->weight_bytes; }
int infer_vocab(const infer *m) { return (int)m->config.vocab_size; }
void infer_reset(infer *m) { m->position = 0; }

int64_t infer_reuse(infer *m, const int32_t *ids, int64_t count) {
    int64_t same = 0;
    while (same < count && same < m->position && m->history[same] == ids[same]) same++;
    return m->position = same;
}

/* ---- running -------------------------------------------------------------------------------------------------------------------------- */

static int64_t elements(const propane_io *io) {
    int64_t count = 1;
    for (int i = 0; i < io->rank; i++) count *= io->dim[i];
    return count;
}

static propane_status put(const propane_program *p, const char *name, propane_buffer *buffer, const float *data,
                          propane_error *err) {
    const propane_io *io = propane_program_find(p, name);
    return propane_buffer_write(buffer, io, PROPANE_FP32, data, elements(io), err);
}

static propane_status take(const propane_program *p, const char *name, propane_buffer *buffer, float *data,
                           propane_error *err) {
    const propane_io *io = propane_program_find(p, name);
    return propane_buffer_read(buffer, io, PROPANE_FP32, data, elements(io), err);
}

static propane_status execute(propane_request *r, propane_error *err) {
    PROPANE_TRY(propane_submit(&r, 1, err));
    return propane_wait(r, NULL, err);
}

/* One half of a layer: stream += f(stream). */
static propane_status run_half(infer *m, const set *s, const propane_program *p, const char *result, propane_request *r,
                               propane_error *err) {
    PROPANE_TRY(put(p, "x", s->x, m->stream, err));
    PROPANE_TRY(execute(r, err));
    PROPANE_TRY(take(p, result, s->out, m->result, err));
    for (int64_t i = 0; i < m->config.hidden_size * s->positions; i++) m->stream[i] += m->result[i];
    return PROPANE_OK;
}

/* The first `count` new rows go to their place in the cache. Both have the same element type: bytes are moved. */
static propane_status store(const infer *m, const propane_program *p, const char *new_name, propane_buffer *fresh,
                            const char *cache_name, propane_buffer *cache, int64_t count, propane_error *err) {
    const propane_io *from = propane_program_find(p, new_name), *to = propane_program_find(p, cache_name);
    size_t element = from->dtype == PROPANE_FP16 ? 2 : 4, row = (size_t)from->dim[3] * element;
    void *source, *target;
    PROPANE_TRY(propane_buffer_lock(fresh, false, &source, err));
    propane_status status = propane_buffer_lock(cache, true, &target, err);
    if (!status) {
        for (int64_t t = 0; t < count; t++)
            for (int64_t h = 0; h < from->dim[2]; h++)
                memcpy((char *)target + (m->position + t) * to->stride[1] + h * to->stride[2],
                       (const char *)source + t * from->stride[1] + h * from->stride[2], row);
        propane_buffer_unlock(cache);
    }
    propane_buffer_unlock(fresh);
    return status;
}

static propane_status put_table(infer *m, const set *s, const propane_program *p, const char *name,
                                propane_buffer *buffer, const float *table, propane_error *err) {
    int64_t n = s->positions, hd = m->config.head_dim;
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < hd; i++) m->angles[i * n + t] = table[(m->position + t) * hd + i];
    return put(p, name, buffer, m->angles, err);
}

static propane_status put_positions(infer *m, const set *s, const reach *r, propane_error *err) {
    if (turns(m)) {
        PROPANE_TRY(put_table(m, s, r->program, "cos", s->cos, m->table_cos, err));
        PROPANE_TRY(put_table(m, s, r->program, "sin", s->sin, m->table_sin, err));
    }
    PROPANE_TRY(room_for(&m->mask, &m->mask_room, s->positions * (r->cache + s->positions), err));
    model_mask(s->positions, r->cache, m->position, m->mask);
    return put(r->program, "mask", r->mask, m->mask, err);
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

/* Which logits a chunk is read for. */
typedef enum wanted { NO_LOGITS, LAST_LOGITS, ALL_LOGITS } wanted;

/* m->logits: of the last position [V], or of all [V, positions]. */
static propane_status run_head(infer *m, set *s, int64_t count, wanted want, propane_error *err) {
    int64_t d = m->config.hidden_size, n = s->positions;
    if (want == LAST_LOGITS && n > 1) {
        for (int64_t c = 0; c < d; c++) m->result[c] = m->stream[c * n + count - 1];
        s = &m->sets[0];
    } else {
        memcpy(m->result, m->stream, (size_t)(d * n) * sizeof *m->result);
    }
    PROPANE_TRY(need_head(m, s, err));
    PROPANE_TRY(room_for(&m->logits, &m->logit_room, m->config.vocab_size * s->positions, err));
    PROPANE_TRY(put(s->head, "x", s->x, m->result, err));
    PROPANE_TRY(execute(s->head_request, err));
    return take(s->head, "logits", s->logits, m->logits, err);
}

/* Reads `count` ids (1 .. s->positions). */
static propane_status run_chunk(infer *m, set *s, const int32_t *ids, int64_t count, wanted want, propane_error *err) {
    reach *r;
    PROPANE_TRY(need_reach(m, s, m->position, &r, err));
    PROPANE_TRY(need_ffn(m, s, err));
    embed(m, s, ids, count);
    PROPANE_TRY(put_positions(m, s, r, err));
    for (int64_t i = 0; i < layer_count(m); i++) {
        PROPANE_TRY(run_half(m, s, r->program, "o", r->attn[i], err));
        PROPANE_TRY(store(m, r->program, "k_new", s->k_new, "k_cache", m->k_cache[i], count, err));
        PROPANE_TRY(store(m, r->program, "v_new", s->v_new, "v_cache", m->v_cache[i], count, err));
        PROPANE_TRY(run_half(m, s, s->ffn, "y", s->ffn_requests[i], err));
    }
    if (want) PROPANE_TRY(run_head(m, s, count, want, err));
    memcpy(m->history + m->position, ids, (size_t)count * sizeof *ids);
    m->position += count;
    return PROPANE_OK;
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

/* The set that reads the next of `left` ids: as many as fit, or a few more, where filling up costs less than another pass
 * over the weights. All logits of a chunk take at most LOGIT_FLOATS. */
static set *choose_set(infer *m, int64_t left, wanted want) {
    enum { LOGIT_FLOATS = 1 << 25 };
    int last = 0;
    for (int i = 1; i < m->set_count; i++) {
        int64_t n = m->sets[i].positions;
        if (want == ALL_LOGITS && n * m->config.vocab_size > LOGIT_FLOATS) break;
        if (n > left && !(n <= 32 ? n <= 4 * left : 3 * n <= 4 * left)) break;
        last = i;
        if (n >= left) break;
    }
    return &m->sets[left > 1 ? last : 0];
}

/* nll NULL: only the last logits are wanted; else there is one more id, which is only predicted. */
static propane_status read_all(infer *m, const int32_t *ids, int64_t count, float *logits, double *nll,
                               propane_error *err) {
    int vocab = (int)m->config.vocab_size;
    for (int64_t done = 0; done < count;) {
        int64_t left = count - done;
        set *s = choose_set(m, left, nll ? ALL_LOGITS : NO_LOGITS);
        int64_t now = left < s->positions ? left : s->positions;
        bool last = done + now == count;
        PROPANE_TRY(run_chunk(m, s, ids + done, now, nll ? ALL_LOGITS : last && logits ? LAST_LOGITS : NO_LOGITS, err));
        for (int64_t t = 0; nll && t < now; t++)
            nll[done + t] = infer_nll(m->logits + t, vocab, s->positions, ids[done + t + 1]);
        if (logits && last) memcpy(logits, m->logits, (size_t)vocab * sizeof *logits);
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
