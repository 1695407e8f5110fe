/* SPDX-License-Identifier: MIT
 * Owns the making of a model that runs: programs, buffers, weights, rows of the cache.
 */
#include "lm/infer/decoder.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/device/runner.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/generate.h"

enum { SHORTEST_REACH = 64, CHUNK = 512 };

static const model_part part_of[INFER_PARTS] = {MODEL_ATTN, MODEL_FFN, MODEL_HEAD};

/* ---- programs and buffers ------------------------------------------------------------------------------------------------------- */

static propane_status decoder_build(const infer *m, mil_module *module, int part, int64_t positions, int64_t cache,
                                    propane_error *err) {
    model_build_options o = {
        .batch = 1, .sequence = positions, .dtype = m->dtype, .packing = m->packing[part], .residual = m->chained};
    mil_function *f;
    if (part == INFER_ATTN && m->in_place)
        return model_build_attn_cached(module, "attn", &m->config, &o, 0, cache, &f, err);
    if (part == INFER_ATTN) return model_build_attn_decode(module, "attn", &m->config, &o, 0, cache, &f, err);
    if (part == INFER_FFN) return model_build_ffn(module, "ffn", &m->config, &o, 0, &f, err);
    return model_build_head(module, "head", &m->config, &o, &f, err);
}

static propane_status decoder_compile(const infer *m, int part, int64_t positions, int64_t cache, propane_program **out,
                                      propane_error *err) {
    mil_module *module = mil_module_create("generate");
    if (!module) return propane_fail_memory(err, 0);
    propane_status status = decoder_build(m, module, part, positions, cache, err);
    if (!status) status = propane_program_compile(m->device, module, NULL, out, err);
    mil_module_free(module);
    return status;
}

static propane_status decoder_io_of(const propane_program *p, const char *name, const propane_io **out,
                                    propane_error *err) {
    *out = propane_program_find(p, name);
    return *out ? PROPANE_OK : propane_fail(err, PROPANE_ERR_DEVICE, "the compiled program has no '%s'", name);
}

/* Where there is a buffer already, another program's: it must be laid out in the same way, but for the number of positions
 * in a cache (`growing`: that axis; -1: none). */
static propane_status decoder_check_layout(const propane_program *first, const propane_program *p, const char *name,
                                           int growing, propane_error *err) {
    const propane_io *a, *b;
    PROPANE_TRY(decoder_io_of(first, name, &a, err));
    PROPANE_TRY(decoder_io_of(p, name, &b, err));
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++)
        same = (a->dim[i] == b->dim[i] || i == growing) && (a->stride[i] == b->stride[i] || i < growing);
    return same ? PROPANE_OK
                : propane_fail(err, PROPANE_ERR_DEVICE,
                               "the device lays out '%s' differently in programs for other numbers of positions", name);
}

static propane_status decoder_buffer_for(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                         propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(decoder_io_of(p, name, &io, err));
    return *out ? PROPANE_OK : propane_buffer_create(m->device, io->bytes, out, err);
}

typedef struct decoder_choice {
    const infer *m;
    int part, count; /* count: of `own` */
    const propane_binding *own;
    propane_buffer *const *weights;
} decoder_choice;

static propane_status decoder_choose(void *context, const propane_io *io, int index, propane_buffer **out, bool *lent,
                                     propane_error *err) {
    const decoder_choice *c = context;
    (void)index, (void)err;
    *lent = true;
    for (int i = 0; i < c->count && !*out; i++)
        if (strcmp(c->own[i].name, io->name) == 0) *out = c->own[i].buffer;
    for (int i = 0; i < c->m->slot_count[c->part] && !*out; i++)
        if (strcmp(c->m->slots[c->part][i].name, io->name) == 0) *out = c->weights[i];
    return PROPANE_OK;
}

/* The named bindings of a function, then those of its weights. */
static propane_status decoder_request(const infer *m, const propane_program *p, int part, const propane_binding *own,
                                      int count, propane_buffer *const *weights, propane_request **out,
                                      propane_error *err) {
    decoder_choice c = {m, part, count, own, weights};
    return runner_bind((propane_program *)(uintptr_t)p, decoder_choose, &c, out, err);
}

/* ---- weights --------------------------------------------------------------------------------------------------------------------- */

static propane_status decoder_list_slots(infer *m, int part, propane_error *err) {
    const arch_tensor *row;
    int n = 0;
    for (int i = 0; n + 2 <= INFER_MAX_SLOTS && (row = model_arch_param(&m->config, part_of[part], i)); i++) {
        m->slots[part][n++] = (infer_slot){row, row->param, false};
        if (row->in == ARCH_1 || model_arch_packing(&m->config, row, m->packing[part]) < MODEL_INT8) continue;
        const char *name = arena_printf(m->arena, "%s_scale", row->param);
        if (!name) return propane_fail_memory(err, 0);
        m->slots[part][n++] = (infer_slot){row, name, true};
    }
    m->slot_count[part] = n;
    return PROPANE_OK;
}

/* A tensor's numbers, and after them the scales of its blocks, on their way to the device. */
typedef struct decoder_numbers {
    propane_dtype dtype;
    const void *data;
    int64_t count;
    const uint16_t *scales;
    void *made; /* mem_free it */
} decoder_numbers;

static const propane_dtype decoder_dtypes[] = {[MODEL_UNPACKED] = PROPANE_FP32,
                                               [MODEL_FP16] = PROPANE_FP16,
                                               [MODEL_BF16] = PROPANE_BF16,
                                               [MODEL_INT8] = PROPANE_INT8,
                                               [MODEL_INT4] = PROPANE_UINT8};

/* What has no fp32 is read into memory of its own. */
static propane_status decoder_take_floats(const model_weights *w, const model_tensor *t, decoder_numbers *out,
                                          propane_error *err) {
    *out = (decoder_numbers){.dtype = PROPANE_FP32, .data = stored_weights_floats(w, t), .count = t->count};
    if (out->data) return PROPANE_OK;
    float *made = mem_array((size_t)t->count, sizeof *made);
    if (!made) return propane_fail_memory(err, (size_t)t->count * sizeof *made);
    stored_weights_read(w, t, 0, t->count, made);
    out->data = out->made = made;
    return PROPANE_OK;
}

/* As the file has them where that is `packing`. Matrices in 16 bits are rounded by the buffer that they go to. */
static propane_status decoder_take_numbers(const model_weights *w, const model_tensor *t, model_packing packing,
                                           decoder_numbers *out, propane_error *err) {
    const bool four = packing == MODEL_INT4, blocks = packing >= MODEL_INT8;
    uint16_t *scales = NULL;
    if (w->stored && t->form == packing) {
        const void *at = stored_weights_at(w, t, &scales);
        *out = (decoder_numbers){decoder_dtypes[packing], at, four ? t->count / 2 : t->count, scales, NULL};
        return PROPANE_OK;
    }
    PROPANE_TRY(decoder_take_floats(w, t, out, err));
    if (!blocks) return PROPANE_OK;
    const int64_t count = four ? t->count / 2 : t->count; /* a multiple of 16 */
    uint8_t *packed = mem_alloc((size_t)count + (size_t)t->count / 32 * 2);
    if (packed) model_pack(packing, out->data, t->dim[0], t->dim[1], packed, (uint16_t *)(void *)(packed + count));
    mem_free(out->made);
    *out = (decoder_numbers){decoder_dtypes[packing], packed, count, (uint16_t *)(void *)(packed + count), packed};
    return packed ? PROPANE_OK : propane_fail_memory(err, (size_t)count);
}

static model_packing decoder_packing(const infer *m, int part, const infer_slot *s) {
    return s->row->in == ARCH_1 ? MODEL_UNPACKED : model_arch_packing(&m->config, s->row, m->packing[part]);
}

/* On a device that is the host, a program reads what is stored where it is, if that has the program's layout. */
static propane_status decoder_lend(const infer *m, int part, int layer, const infer_slot *s, const propane_io *io,
                                   propane_buffer **out, bool *lent, propane_error *err) {
    const model_packing packing = decoder_packing(m, part, s);
    const model_tensor *t = model_weights_param(m->weights, part_of[part], layer, s->row->param);
    int64_t scale_bytes, bytes = stored_weights_bytes(packing, t->count, &scale_bytes);
    uint16_t *scales;
    propane_error why = {0};
    if (*out || !m->weights->stored || t->form != packing) return PROPANE_OK;
    void *at = stored_weights_at(m->weights, t, &scales);
    if (s->scales) at = scales, bytes = scale_bytes;
    if (io->dtype != (s->scales ? PROPANE_FP16 : decoder_dtypes[packing]) || io->bytes != (size_t)bytes)
        return PROPANE_OK;
    const propane_status status = propane_buffer_wrap(m->device, at, (size_t)bytes, out, &why);
    *lent = status == PROPANE_OK;
    return status == PROPANE_ERR_UNSUPPORTED || !status ? PROPANE_OK : propane_fail(err, status, "%s", why.text);
}

/* Half `half` of the layers, or the head. */
static propane_status decoder_make_weights(infer *m, int part, int half, const propane_program *p, propane_error *err) {
    propane_buffer **out = m->layers[half];
    for (int i = 0; i < m->slot_count[part]; i++) {
        const propane_io *io;
        PROPANE_TRY(decoder_io_of(p, m->slots[part][i].name, &io, err));
        PROPANE_TRY(decoder_lend(m, part, part == INFER_HEAD ? -1 : half / 2, &m->slots[part][i], io, &out[i],
                                 &m->lent[half][i], err));
        PROPANE_TRY(decoder_buffer_for(m, p, m->slots[part][i].name, &out[i], err));
        m->weight_bytes += (int64_t)io->bytes;
    }
    return PROPANE_OK;
}

static propane_status decoder_fill_weights(const infer *m, int part, int half, const propane_program *p,
                                           propane_error *err) {
    propane_buffer *const *out = m->layers[half];
    for (int i = 0; i < m->slot_count[part]; i++) {
        const infer_slot *s = &m->slots[part][i];
        const propane_io *io, *scale_io = NULL;
        decoder_numbers n;
        if (s->scales || m->lent[half][i]) continue;
        const bool scaled = i + 1 < m->slot_count[part] && m->slots[part][i + 1].scales;
        const model_tensor *t =
            model_weights_param(m->weights, part_of[part], part == INFER_HEAD ? -1 : half / 2, s->row->param);
        PROPANE_TRY(decoder_io_of(p, s->name, &io, err));
        if (scaled) PROPANE_TRY(decoder_io_of(p, m->slots[part][i + 1].name, &scale_io, err));
        PROPANE_TRY(decoder_take_numbers(m->weights, t, decoder_packing(m, part, s), &n, err));
        propane_status status = propane_buffer_write(out[i], io, n.dtype, n.data, n.count, err);
        if (!status && scaled)
            status = propane_buffer_write(out[i + 1], scale_io, PROPANE_FP16, n.scales, t->count / 32, err);
        mem_free(n.made);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

/* Task 0 is the head, which takes longest; then the halves of the layers. */
static propane_status decoder_fill_task(void *context, int task, propane_error *err) {
    const infer *m = context;
    const infer_set *s = &m->sets[0];
    const int half = task - 1;
    if (task == 0) return decoder_fill_weights(m, INFER_HEAD, 2 * (int)infer_layers(m), s->head, err);
    if (half % 2) return decoder_fill_weights(m, INFER_FFN, half, s->ffn, err);
    return decoder_fill_weights(m, INFER_ATTN, half, s->kv_buckets[0].program, err);
}

/* All rows, whatever the program's KV bucket. */
static propane_status decoder_make_cache(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                         propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(decoder_io_of(p, name, &io, err));
    return propane_buffer_create(m->device, (size_t)(io->stride[1] * m->rows), out, err);
}

static propane_status decoder_load_all(infer *m, propane_error *err) {
    const infer_set *s = &m->sets[0];
    int layers = (int)infer_layers(m);
    for (int layer = 0; layer < layers; layer++) {
        PROPANE_TRY(decoder_make_weights(m, INFER_ATTN, 2 * layer, s->kv_buckets[0].program, err));
        PROPANE_TRY(decoder_make_weights(m, INFER_FFN, 2 * layer + 1, s->ffn, err));
        PROPANE_TRY(decoder_make_cache(m, s->kv_buckets[0].program, "k_cache", &m->k_cache[layer], err));
        PROPANE_TRY(decoder_make_cache(m, s->kv_buckets[0].program, "v_cache", &m->v_cache[layer], err));
    }
    PROPANE_TRY(decoder_make_weights(m, INFER_HEAD, 2 * layers, s->head, err));
    return pool_try(decoder_fill_task, m, 2 * layers + 1, err);
}

static propane_status decoder_check_weights(const infer *m, int part, const propane_program *first,
                                            const propane_program *p, propane_error *err) {
    for (int i = 0; first != p && i < m->slot_count[part]; i++)
        PROPANE_TRY(decoder_check_layout(first, p, m->slots[part][i].name, -1, err));
    return PROPANE_OK;
}

/* ---- sets and KV buckets, when they are needed ---------------------------------------------------------------------------------------- */

static int64_t decoder_kv_bucket_for(const infer *m, int64_t filled) {
    int64_t cache = SHORTEST_REACH;
    while (cache < filled) cache *= 2;
    return cache < m->rows ? cache : m->rows;
}

static propane_status decoder_wire_kv_bucket(infer *m, infer_set *s, infer_kv_bucket *r, propane_error *err) {
    const propane_program *p = r->program, *first = m->sets[0].kv_buckets[0].program;
    PROPANE_TRY(decoder_check_weights(m, INFER_ATTN, first, p, err));
    PROPANE_TRY(decoder_check_layout(first, p, "k_cache", 1, err));
    PROPANE_TRY(decoder_check_layout(first, p, "v_cache", 1, err));
    PROPANE_TRY(decoder_buffer_for(m, p, "x", &s->x, err));
    if (infer_turns(m)) {
        for (int k = 0; k < m->kinds; k++) {
            PROPANE_TRY(decoder_buffer_for(m, p, "cos", &s->cos[k], err));
            PROPANE_TRY(decoder_buffer_for(m, p, "sin", &s->sin[k], err));
        }
    }
    PROPANE_TRY(decoder_buffer_for(m, p, "o", &s->out, err));
    if (m->in_place) {
        PROPANE_TRY(decoder_buffer_for(m, p, "rows", &s->rows, err));
    } else {
        PROPANE_TRY(decoder_buffer_for(m, p, "k_new", &s->k_new, err));
        PROPANE_TRY(decoder_buffer_for(m, p, "v_new", &s->v_new, err));
    }
    for (int k = 0; k < m->kinds; k++) PROPANE_TRY(decoder_buffer_for(m, p, "mask", &r->mask[k], err));
    for (int64_t i = 0; i < infer_layers(m); i++) {
        const int kind = model_config_kind(&m->config, i);
        const propane_binding own[] = {{"x", s->x},
                                       {"k_cache", m->k_cache[i]},
                                       {"v_cache", m->v_cache[i]},
                                       {"cos", s->cos[kind]},
                                       {"sin", s->sin[kind]},
                                       {"mask", r->mask[kind]},
                                       {"o", s->out},
                                       {"rows", s->rows},
                                       {"k_new", s->k_new},
                                       {"v_new", s->v_new},
                                       {"k_cache_out", m->in_place ? m->k_cache[i] : NULL},
                                       {"v_cache_out", m->in_place ? m->v_cache[i] : NULL}};
        PROPANE_TRY(decoder_request(m, p, INFER_ATTN, own, 12, m->layers[2 * i], &r->attn[i], err));
    }
    return PROPANE_OK;
}

/* What an attempt that failed has left is used again by the next one. */
propane_status infer_need_kv_bucket(infer *m, infer_set *s, int64_t filled, infer_kv_bucket **out, propane_error *err) {
    int64_t cache = decoder_kv_bucket_for(m, filled), layers = infer_layers(m);
    for (int i = 0; i < s->kv_bucket_count; i++) {
        *out = &s->kv_buckets[i];
        if ((*out)->cache == cache && (*out)->attn[layers - 1]) return PROPANE_OK;
    }
    infer_kv_bucket *r = NULL;
    for (int i = 0; i < s->kv_bucket_count; i++)
        if (s->kv_buckets[i].cache == cache) r = &s->kv_buckets[i];
    if (!r) r = &s->kv_buckets[s->kv_bucket_count++];
    *out = r;
    r->cache = cache;
    if (!r->attn) r->attn = ARENA_ARRAY(m->arena, layers, propane_request *);
    if (!r->attn) return propane_fail_memory(err, (size_t)layers * sizeof(void *));
    if (!r->program) PROPANE_TRY(decoder_compile(m, INFER_ATTN, s->positions, cache, &r->program, err));
    return m->k_cache[0] ? decoder_wire_kv_bucket(m, s, r, err)
                         : PROPANE_OK; /* the very first: its layouts are asked for */
}

propane_status infer_need_ffn(infer *m, infer_set *s, propane_error *err) {
    int64_t layers = infer_layers(m);
    if (!s->ffn_requests) s->ffn_requests = ARENA_ARRAY(m->arena, layers, propane_request *);
    if (!s->ffn_requests) return propane_fail_memory(err, (size_t)layers * sizeof(void *));
    if (s->ffn_requests[layers - 1]) return PROPANE_OK;
    if (!s->ffn) PROPANE_TRY(decoder_compile(m, INFER_FFN, s->positions, 0, &s->ffn, err));
    PROPANE_TRY(decoder_check_weights(m, INFER_FFN, m->sets[0].ffn, s->ffn, err));
    PROPANE_TRY(decoder_buffer_for(m, s->ffn, "x", &s->x, err));
    PROPANE_TRY(decoder_buffer_for(m, s->ffn, "y", &s->out, err));
    const propane_binding own[] = {{"x", m->chained ? s->out : s->x}, {"y", m->chained ? s->x : s->out}};
    for (int64_t i = 0; i < layers; i++)
        if (!s->ffn_requests[i])
            PROPANE_TRY(decoder_request(m, s->ffn, INFER_FFN, own, 2, m->layers[2 * i + 1], &s->ffn_requests[i], err));
    return PROPANE_OK;
}

propane_status infer_need_head(infer *m, infer_set *s, propane_error *err) {
    if (s->head_request) return PROPANE_OK;
    if (!s->head) PROPANE_TRY(decoder_compile(m, INFER_HEAD, s->positions, 0, &s->head, err));
    PROPANE_TRY(decoder_check_weights(m, INFER_HEAD, m->sets[0].head, s->head, err));
    PROPANE_TRY(decoder_buffer_for(m, s->head, "x", &s->x, err));
    PROPANE_TRY(decoder_buffer_for(m, s->head, "logits", &s->logits, err));
    const propane_binding own[] = {{"x", s->x}, {"logits", s->logits}};
    return decoder_request(m, s->head, INFER_HEAD, own, 2, m->layers[2 * infer_layers(m)], &s->head_request, err);
}

/* ---- making ----------------------------------------------------------------------------------------------------------------------- */

propane_status infer_room(float **array, int64_t *room, int64_t count, propane_error *err) {
    if (count <= *room) return PROPANE_OK;
    float *bigger = mem_array((size_t)count, sizeof *bigger);
    if (!bigger) return propane_fail_memory(err, (size_t)count * sizeof *bigger);
    mem_free(*array);
    *array = bigger;
    *room = count;
    return PROPANE_OK;
}

static propane_status decoder_allocate_sequences(infer *m, propane_error *err) {
    int64_t blocks = (m->rows + INFER_ROW_BLOCK - 1) / INFER_ROW_BLOCK;
    m->sequences = ARENA_ARRAY(m->arena, m->sequence_count, infer_sequence);
    m->taken = ARENA_ARRAY(m->arena, blocks, bool);
    m->current = m->sequences;
    for (int i = 0; m->sequences && i < m->sequence_count; i++) {
        m->sequences[i].history = ARENA_ARRAY(m->arena, m->context, int32_t);
        m->sequences[i].rows = ARENA_ARRAY(m->arena, m->context, int32_t);
        if (!m->sequences[i].history || !m->sequences[i].rows)
            return propane_fail_memory(err, (size_t)m->context * sizeof(int32_t));
    }
    return m->sequences && m->taken ? PROPANE_OK : propane_fail_memory(err, (size_t)blocks);
}

/* The angles of a kind of layers; `tables`: room for both, by rows of a head. */
static void decoder_fill_tables(infer *m, int kind, double *tables) {
    const int64_t hd = m->config.head_dim, positions = m->context, first = kind * positions * hd;
    model_rope_tables(&m->config, model_config_kind_layer(&m->config, kind), 0, positions, tables,
                      tables + hd * positions);
    for (int64_t t = 0; t < positions; t++)
        for (int64_t i = 0; i < hd; i++) {
            m->table_cos[first + t * hd + i] = (float)tables[i * positions + t];
            m->table_sin[first + t * hd + i] = (float)tables[hd * positions + i * positions + t];
        }
}

static propane_status decoder_allocate(infer *m, propane_error *err) {
    int64_t layers = infer_layers(m), hd = m->config.head_dim, positions = m->context;
    double *tables = mem_array((size_t)(2 * hd * positions), sizeof *tables);
    m->layers = arena_array(m->arena, (size_t)(2 * layers + 1), sizeof *m->layers);
    m->lent = arena_array(m->arena, (size_t)(2 * layers + 1), sizeof *m->lent);
    m->k_cache = ARENA_ARRAY(m->arena, layers, propane_buffer *);
    m->v_cache = ARENA_ARRAY(m->arena, layers, propane_buffer *);
    m->chain = ARENA_ARRAY(m->arena, 2 * layers + 1, propane_request *);
    m->stream = ARENA_ARRAY(m->arena, m->config.hidden_size * m->chunk, float);
    m->result = ARENA_ARRAY(m->arena, m->config.hidden_size * m->chunk, float);
    m->table_cos = ARENA_ARRAY(m->arena, m->kinds * positions * hd, float);
    m->table_sin = ARENA_ARRAY(m->arena, m->kinds * positions * hd, float);
    m->angles = ARENA_ARRAY(m->arena, hd * m->chunk, float);
    m->columns = arena_array(m->arena, (size_t)m->chunk, sizeof *m->columns);
    m->numbers = ARENA_ARRAY(m->arena, m->chunk, int32_t);
    bool ok = tables && m->chain && m->layers && m->lent && m->k_cache && m->v_cache && m->stream && m->result &&
              m->table_cos && m->table_sin && m->angles && m->columns && m->numbers;
    for (int k = 0; ok && k < m->kinds; k++) decoder_fill_tables(m, k, tables);
    mem_free(tables);
    return ok ? decoder_allocate_sequences(m, err)
              : propane_fail_memory(err, (size_t)(2 * hd * positions) * sizeof *tables);
}

/* 1, 2, 4, 8, 32, 128 and the chunk. */
static void decoder_list_sets(infer *m) {
    for (int64_t n = 1; n < m->chunk && m->set_count < INFER_MAX_SETS - 1; n = n < 8 ? 2 * n : 4 * n)
        m->sets[m->set_count++].positions = n;
    m->sets[m->set_count++].positions = m->chunk;
}

/* A cache's result goes where the cache is. */
static propane_status decoder_choose_in_place(void *context, const propane_io *io, int index, propane_buffer **out,
                                              bool *lent, propane_error *err) {
    const runner *r = context;
    (void)err;
    *lent = strcmp(io->name, "k_cache_out") == 0 || strcmp(io->name, "v_cache_out") == 0;
    for (int i = 0; i < index && *lent; i++)
        if (strncmp(r->bindings[i].name, io->name, 7) == 0 && strlen(r->bindings[i].name) == 7)
            *out = r->bindings[i].buffer;
    return PROPANE_OK;
}

/* Whether a request may bind the caches' results to the caches: only creating one shows it. A lack of memory is no answer: without
 * it other programs would run, which round otherwise. */
static propane_status decoder_can_write_in_place(const infer *m, propane_program *p, bool *can, propane_error *err) {
    propane_error why = {0};
    runner r;
    const propane_status status = runner_open(&r, m->device, p, decoder_choose_in_place, &r, &why);
    runner_close(&r);
    *can = status == PROPANE_OK;
    return status == PROPANE_ERR_MEMORY ? propane_fail(err, status, "%s", why.text) : PROPANE_OK;
}

/* In place where the device can, else with copies; the first program decides. */
static propane_status decoder_first_kv_bucket(infer *m, infer_set *s, infer_kv_bucket **out, propane_error *err) {
    m->in_place = true;
    m->chained = m->dtype == MIL_fp32;
    propane_status status = infer_need_kv_bucket(m, s, 0, out, err);
    bool can = false;
    if (status == PROPANE_OK) PROPANE_TRY(decoder_can_write_in_place(m, (*out)->program, &can, err));
    if (can) return PROPANE_OK;
    if (status != PROPANE_OK && status != PROPANE_ERR_UNSUPPORTED && status != PROPANE_ERR_LIMIT) return status;
    for (int i = 0; i < s->kv_bucket_count; i++) propane_program_free(s->kv_buckets[i].program);
    memset(s->kv_buckets, 0, sizeof s->kv_buckets);
    s->kv_bucket_count = 0;
    m->in_place = m->chained = false;
    return infer_need_kv_bucket(m, s, 0, out, err);
}

static propane_status decoder_set_up(infer *m, propane_error *err) {
    infer_kv_bucket *first;
    stored_weights_hold(m->weights);
    m->holds = true;
    if (m->exact)
        for (int part = 0; part < INFER_PARTS; part++)
            m->packing[part] = infer_exact_packing(m->weights, part_of[part]);
    decoder_list_sets(m);
    PROPANE_TRY(decoder_allocate(m, err));
    for (int part = 0; part < INFER_PARTS; part++) PROPANE_TRY(decoder_list_slots(m, part, err));
    infer_set *s = &m->sets[0];
    PROPANE_TRY(decoder_first_kv_bucket(m, s, &first, err));
    PROPANE_TRY(decoder_compile(m, INFER_FFN, s->positions, 0, &s->ffn, err));
    PROPANE_TRY(decoder_compile(m, INFER_HEAD, s->positions, 0, &s->head, err));
    PROPANE_TRY(decoder_load_all(m, err));
    PROPANE_TRY(decoder_wire_kv_bucket(m, s, first, err));
    PROPANE_TRY(infer_need_ffn(m, s, err));
    return infer_need_head(m, s, err);
}

propane_status infer_create(propane_device *device, model_weights *weights, const infer_options *options, infer **out,
                            propane_error *err) {
    const model_config *c = &weights->config;
    int64_t context = options->context ? options->context : c->max_position_embeddings;
    int64_t chunk = options->chunk ? options->chunk : CHUNK;
    if (context < 1 || context > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "a context of %lld positions; the model has max_position_embeddings = %lld",
                            (long long)context, (long long)c->max_position_embeddings);
    int64_t sequences = options->sequences ? options->sequences : 1;
    if (sequences < 1 || sequences > INFER_MAX_SEQUENCES)
        return propane_fail(err, PROPANE_ERR_INVALID, "%lld sequences at once; it must be from 1 to %d",
                            (long long)sequences, INFER_MAX_SEQUENCES);
    if (chunk < 1 || chunk > 4096)
        return propane_fail(err, PROPANE_ERR_INVALID, "a chunk of %lld positions; it must be from 1 to 4096",
                            (long long)chunk);
    infer *m = mem_alloc(sizeof *m);
    if (!m) return propane_fail_memory(err, sizeof *m);
    *m = (infer){.device = device,
                 .weights = weights,
                 .config = *c,
                 .dtype = options->dtype,
                 .packing = {options->weights, options->weights, options->weights},
                 .exact = options->exact,
                 .kinds = model_config_kinds(c),
                 .context = context,
                 .sequence_count = (int)sequences,
                 .chunk = chunk < context ? chunk : context};
    if (m->chunk < sequences) m->chunk = sequences; /* positions of all of them are read at once */
    m->rows =
        sequences == 1 ? context : (context + INFER_ROW_BLOCK - 1) / INFER_ROW_BLOCK * INFER_ROW_BLOCK * sequences;
    m->arena = arena_create();
    propane_status status = m->arena ? decoder_set_up(m, err) : propane_fail_memory(err, sizeof(void *));
    if (status)
        infer_free(m);
    else
        *out = m;
    return status;
}

static void decoder_free_set(infer_set *s, int64_t layers) {
    for (int i = 0; i < s->kv_bucket_count; i++) {
        infer_kv_bucket *r = &s->kv_buckets[i];
        for (int64_t k = 0; r->attn && k < layers; k++) propane_request_free(r->attn[k]);
        for (int k = 0; k < MODEL_KINDS; k++) propane_buffer_free(r->mask[k]);
        propane_program_free(r->program);
    }
    for (int64_t k = 0; s->ffn_requests && k < layers; k++) propane_request_free(s->ffn_requests[k]);
    propane_request_free(s->head_request);
    propane_buffer *const buffers[] = {s->x, s->out, s->rows, s->k_new, s->v_new, s->logits};
    for (int k = 0; k < MODEL_KINDS; k++) {
        propane_buffer_free(s->cos[k]);
        propane_buffer_free(s->sin[k]);
    }
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) propane_buffer_free(buffers[i]);
    propane_program_free(s->ffn);
    propane_program_free(s->head);
}

void infer_free(infer *m) {
    if (!m) return;
    int64_t layers = infer_layers(m);
    for (int i = 0; i < m->set_count; i++) decoder_free_set(&m->sets[i], layers);
    for (int64_t i = 0; m->layers && i < 2 * layers + 1; i++)
        for (int k = 0; k < INFER_MAX_SLOTS; k++) propane_buffer_free(m->layers[i][k]);
    for (int64_t i = 0; i < layers; i++) {
        if (m->k_cache) propane_buffer_free(m->k_cache[i]);
        if (m->v_cache) propane_buffer_free(m->v_cache[i]);
    }
    if (m->holds) stored_weights_release(m->weights);
    mem_free(m->logits);
    mem_free(m->mask);
    arena_free(m->arena);
    mem_free(m);
}

/* ---- rows of the cache -------------------------------------------------------------------------------------------- */

void infer_take_rows(infer *m, infer_sequence *s, int64_t count) {
    int64_t free_block = 0;
    while (s->blocks * INFER_ROW_BLOCK < count) {
        while (m->taken[free_block]) free_block++;
        m->taken[free_block] = true;
        int64_t first = s->blocks++ * INFER_ROW_BLOCK;
        for (int64_t i = 0; i < INFER_ROW_BLOCK && first + i < m->context; i++)
            s->rows[first + i] = (int32_t)(free_block * INFER_ROW_BLOCK + i);
    }
}

void infer_cut(infer *m, infer_sequence *s, int64_t count) {
    s->position = count;
    int64_t keep = (count + INFER_ROW_BLOCK - 1) / INFER_ROW_BLOCK;
    for (; s->blocks > keep; s->blocks--)
        m->taken[s->rows[(s->blocks - 1) * INFER_ROW_BLOCK] / INFER_ROW_BLOCK] = false;
}
