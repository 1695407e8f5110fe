/* SPDX-License-Identifier: MIT
 * Owns the construction of a running model: programs, buffers, weights, and the rows of the cache.
 */
#include "lm/infer/decoder.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/device/runner.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/generate.h"

enum { SHORTEST_REACH = 64, CHUNK = 512 };

/* ---- programs and buffers ------------------------------------------------------------------------------------------------------- */

static propane_status decoder_build(const infer *m, mil_module *module, const infer_variant *v, int64_t positions,
                                    int64_t cache, propane_error *err) {
    model_build_options o = {
        .batch = 1, .sequence = positions, .dtype = m->dtype, .packings = v->packings, .residual = m->chained};
    const int part = v->part;
    mil_function *f;
    if (part == INFER_ATTN && m->in_place)
        return model_build_attn_cached(module, "attn", &m->config, &o, 0, cache, &f, err);
    if (part == INFER_ATTN) return model_build_attn_decode(module, "attn", &m->config, &o, 0, cache, &f, err);
    if (part == INFER_FFN) return model_build_ffn(module, "ffn", &m->config, &o, 0, &f, err);
    return model_build_head(module, "head", &m->config, &o, &f, err);
}

static propane_status decoder_compile(const infer *m, const infer_variant *v, int64_t positions, int64_t cache,
                                      propane_program **out, propane_error *err) {
    mil_module *module = mil_module_create("generate");
    if (!module) return propane_fail_memory(err, 0);
    propane_status status = decoder_build(m, module, v, positions, cache, err);
    if (!status) status = propane_program_compile(m->device, module, NULL, out, err);
    mil_module_free(module);
    return status;
}

/* Compiles the missing programs of a part, one for each of its variants. Sets *first to the program of the first
 * variant. */
static propane_status decoder_compile_all(const infer *m, int part, int64_t positions, int64_t cache,
                                          propane_program ***programs, propane_program **first, propane_error *err) {
    if (!*programs) *programs = ARENA_ARRAY(m->arena, m->variant_count, propane_program *);
    if (!*programs) return propane_fail_memory(err, (size_t)m->variant_count * sizeof(void *));
    for (int v = 0; v < m->variant_count; v++) {
        if (m->variants[v].part != part) continue;
        if (!(*programs)[v]) PROPANE_TRY(decoder_compile(m, &m->variants[v], positions, cache, &(*programs)[v], err));
        if (!*first) *first = (*programs)[v];
    }
    return PROPANE_OK;
}

/* Checks that two programs can share a buffer: their layouts of `name` must match, except for the number of positions
 * in a cache (`growing` is that axis, or -1). */
static propane_status decoder_check_layout(const propane_program *first, const propane_program *p, const char *name,
                                           int growing, propane_error *err) {
    const propane_io *a, *b;
    PROPANE_TRY(infer_io_of(first, name, &a, err));
    PROPANE_TRY(infer_io_of(p, name, &b, err));
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++)
        same = (a->dim[i] == b->dim[i] || i == growing) && (a->stride[i] == b->stride[i] || i < growing);
    return same
               ? PROPANE_OK
               : propane_fail(err, PROPANE_ERR_DEVICE,
                              "the device's layout of '%s' differs between programs for different numbers of positions",
                              name);
}

static propane_status decoder_buffer_for(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                         propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(infer_io_of(p, name, &io, err));
    return *out ? PROPANE_OK : propane_buffer_create(m->device, io->bytes, out, err);
}

typedef struct decoder_choice {
    const infer_variant *variant;
    int count; /* of `own` */
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
    for (int i = 0; i < c->variant->slot_count && !*out; i++)
        if (strcmp(c->variant->slots[i].name, io->name) == 0) *out = c->weights[i];
    return PROPANE_OK;
}

/* Makes the request of one half. It binds the buffers `own` by name, and the half's weights. */
static propane_status decoder_request(const infer *m, propane_program *const *programs, int64_t half,
                                      const propane_binding *own, int count, propane_request **out,
                                      propane_error *err) {
    const int v = m->variant_of[half];
    decoder_choice c = {&m->variants[v], count, own, m->layers[half]};
    return *out ? PROPANE_OK : runner_bind(programs[v], decoder_choose, &c, out, err);
}

/* ---- weights --------------------------------------------------------------------------------------------------------------------- */

/* Fills the weights of one half. Task 0 is the head, which takes longest; then come the halves of the layers. */
static propane_status decoder_fill_task(void *context, int task, propane_error *err) {
    const infer *m = context;
    const infer_set *s = &m->sets[0];
    const int half = task == 0 ? (int)infer_halves(m) - 1 : task - 1;
    propane_program *const *programs = infer_part_of(m, half) == INFER_ATTN ? s->kv_buckets[0].programs : s->programs;
    return infer_fill_weights(m, half, programs[m->variant_of[half]], err);
}

/* Allocates a cache with all rows, also if the program's KV bucket is shorter. */
static propane_status decoder_make_cache(infer *m, const propane_program *p, const char *name, propane_buffer **out,
                                         propane_error *err) {
    const propane_io *io;
    PROPANE_TRY(infer_io_of(p, name, &io, err));
    return propane_buffer_create(m->device, (size_t)(io->stride[1] * m->rows), out, err);
}

static propane_status decoder_load_all(infer *m, propane_error *err) {
    const infer_set *s = &m->sets[0];
    const infer_kv_bucket *r = &s->kv_buckets[0];
    for (int half = 0; half < infer_halves(m); half++) {
        propane_program *const *programs = infer_part_of(m, half) == INFER_ATTN ? r->programs : s->programs;
        PROPANE_TRY(infer_make_weights(m, half, programs[m->variant_of[half]], err));
    }
    for (int64_t layer = 0; layer < infer_layers(m); layer++) {
        PROPANE_TRY(decoder_make_cache(m, r->program, "k_cache", &m->k_cache[layer], err));
        PROPANE_TRY(decoder_make_cache(m, r->program, "v_cache", &m->v_cache[layer], err));
    }
    return pool_try(decoder_fill_task, m, (int)infer_halves(m), err);
}

/* Checks the layouts of a part's programs. Weights must have the layout of the first programs, and buffers that
 * variants share must have that of the first variant, `one`. */
static propane_status decoder_check_programs(const infer *m, int part, propane_program *const *first,
                                             propane_program *const *programs, const propane_program *one,
                                             const char *const *shared, int count, propane_error *err) {
    for (int v = 0; v < m->variant_count; v++) {
        const infer_variant *variant = &m->variants[v];
        if (variant->part != part) continue;
        for (int i = 0; first != programs && i < variant->slot_count; i++)
            PROPANE_TRY(decoder_check_layout(first[v], programs[v], variant->slots[i].name, -1, err));
        for (int i = 0; programs[v] != one && i < count; i++)
            PROPANE_TRY(decoder_check_layout(one, programs[v], shared[i], -1, err));
    }
    return PROPANE_OK;
}

/* ---- sets and KV buckets, made when needed ----------------------------------------------------------------------- */

static int64_t decoder_kv_bucket_for(const infer *m, int64_t filled) {
    int64_t cache = SHORTEST_REACH;
    while (cache < filled) cache *= 2;
    return cache < m->rows ? cache : m->rows;
}

static propane_status decoder_wire_kv_bucket(infer *m, infer_set *s, infer_kv_bucket *r, propane_error *err) {
    const propane_program *p = r->program, *first = m->sets[0].kv_buckets[0].program;
    static const char *const shared[] = {"x", "o", "k_cache", "v_cache"};
    PROPANE_TRY(
        decoder_check_programs(m, INFER_ATTN, m->sets[0].kv_buckets[0].programs, r->programs, p, shared, 4, err));
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
        PROPANE_TRY(decoder_request(m, r->programs, 2 * i, own, 12, &r->attn[i], err));
    }
    return PROPANE_OK;
}

/* What a failed attempt has made is used by the next attempt. */
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
    PROPANE_TRY(decoder_compile_all(m, INFER_ATTN, s->positions, cache, &r->programs, &r->program, err));
    return m->k_cache[0] ? decoder_wire_kv_bucket(m, s, r, err)
                         : PROPANE_OK; /* without caches, only the layouts of the first program are needed */
}

propane_status infer_need_ffn(infer *m, infer_set *s, propane_error *err) {
    int64_t layers = infer_layers(m);
    if (!s->ffn_requests) s->ffn_requests = ARENA_ARRAY(m->arena, layers, propane_request *);
    if (!s->ffn_requests) return propane_fail_memory(err, (size_t)layers * sizeof(void *));
    if (s->ffn_requests[layers - 1]) return PROPANE_OK;
    static const char *const shared[] = {"x", "y"};
    PROPANE_TRY(decoder_compile_all(m, INFER_FFN, s->positions, 0, &s->programs, &s->ffn, err));
    PROPANE_TRY(decoder_check_programs(m, INFER_FFN, m->sets[0].programs, s->programs, s->ffn, shared, 2, err));
    PROPANE_TRY(decoder_buffer_for(m, s->ffn, "x", &s->x, err));
    PROPANE_TRY(decoder_buffer_for(m, s->ffn, "y", &s->out, err));
    const propane_binding own[] = {{"x", m->chained ? s->out : s->x}, {"y", m->chained ? s->x : s->out}};
    for (int64_t i = 0; i < layers; i++)
        PROPANE_TRY(decoder_request(m, s->programs, 2 * i + 1, own, 2, &s->ffn_requests[i], err));
    return PROPANE_OK;
}

propane_status infer_need_head(infer *m, infer_set *s, propane_error *err) {
    if (s->head_request) return PROPANE_OK;
    PROPANE_TRY(decoder_compile_all(m, INFER_HEAD, s->positions, 0, &s->programs, &s->head, err));
    PROPANE_TRY(decoder_check_programs(m, INFER_HEAD, m->sets[0].programs, s->programs, s->head, NULL, 0, err));
    PROPANE_TRY(decoder_buffer_for(m, s->head, "x", &s->x, err));
    PROPANE_TRY(decoder_buffer_for(m, s->head, "logits", &s->logits, err));
    const propane_binding own[] = {{"x", s->x}, {"logits", s->logits}};
    return decoder_request(m, s->programs, infer_halves(m) - 1, own, 2, &s->head_request, err);
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

/* Fills in the cosines and sines of a kind of layers. `tables` is scratch for both, [head_dim, context] each. */
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

/* Lists the sets for 1, 2, 4, 8, 32 and 128 positions, and for a chunk. */
static void decoder_list_sets(infer *m) {
    for (int64_t n = 1; n < m->chunk && m->set_count < INFER_MAX_SETS - 1; n = n < 8 ? 2 * n : 4 * n)
        m->sets[m->set_count++].positions = n;
    m->sets[m->set_count++].positions = m->chunk;
}

/* Binds a cache's result to the buffer of the cache. */
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

/* Sets *can to whether a request may bind the caches' results to the caches, which only an attempt shows. Lack of
 * memory is an error and not a "no", because other programs, which round differently, would then run. */
static propane_status decoder_can_write_in_place(const infer *m, propane_program *p, bool *can, propane_error *err) {
    propane_error why = {0};
    runner r;
    const propane_status status = runner_open(&r, m->device, p, decoder_choose_in_place, &r, &why);
    runner_close(&r);
    *can = status == PROPANE_OK;
    return status == PROPANE_ERR_MEMORY ? propane_fail(err, status, "%s", why.text) : PROPANE_OK;
}

static void decoder_free_programs(const infer *m, propane_program **programs) {
    for (int v = 0; programs && v < m->variant_count; v++) propane_program_free(programs[v]);
}

/* Makes the first KV bucket. It decides whether the device writes in place or the host copies rows. */
static propane_status decoder_first_kv_bucket(infer *m, infer_set *s, infer_kv_bucket **out, propane_error *err) {
    m->in_place = true;
    m->chained = m->dtype == MIL_fp32;
    propane_status status = infer_need_kv_bucket(m, s, 0, out, err);
    bool can = false;
    if (status == PROPANE_OK) PROPANE_TRY(decoder_can_write_in_place(m, (*out)->program, &can, err));
    if (can) return PROPANE_OK;
    if (status != PROPANE_OK && status != PROPANE_ERR_UNSUPPORTED && status != PROPANE_ERR_LIMIT) return status;
    for (int i = 0; i < s->kv_bucket_count; i++) decoder_free_programs(m, s->kv_buckets[i].programs);
    memset(s->kv_buckets, 0, sizeof s->kv_buckets);
    s->kv_bucket_count = 0;
    m->in_place = m->chained = false;
    return infer_need_kv_bucket(m, s, 0, out, err);
}

static propane_status decoder_set_up(infer *m, propane_error *err) {
    infer_kv_bucket *first;
    stored_weights_hold(m->weights);
    m->holds = true;
    decoder_list_sets(m);
    PROPANE_TRY(decoder_allocate(m, err));
    PROPANE_TRY(infer_list_variants(m, err));
    infer_set *s = &m->sets[0];
    PROPANE_TRY(decoder_first_kv_bucket(m, s, &first, err));
    PROPANE_TRY(decoder_compile_all(m, INFER_FFN, s->positions, 0, &s->programs, &s->ffn, err));
    PROPANE_TRY(decoder_compile_all(m, INFER_HEAD, s->positions, 0, &s->programs, &s->head, err));
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
                            "a context of %lld positions, but the model has max_position_embeddings = %lld",
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
                 .packing = options->weights,
                 .exact = options->exact,
                 .kinds = model_config_kinds(c),
                 .context = context,
                 .sequence_count = (int)sequences,
                 .chunk = chunk < context ? chunk : context};
    if (m->chunk < sequences) m->chunk = sequences; /* one position of each sequence must fit into a pass */
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

static void decoder_free_set(const infer *m, infer_set *s) {
    const int64_t layers = infer_layers(m);
    for (int i = 0; i < s->kv_bucket_count; i++) {
        infer_kv_bucket *r = &s->kv_buckets[i];
        for (int64_t k = 0; r->attn && k < layers; k++) propane_request_free(r->attn[k]);
        for (int k = 0; k < MODEL_KINDS; k++) propane_buffer_free(r->mask[k]);
        decoder_free_programs(m, r->programs);
    }
    for (int64_t k = 0; s->ffn_requests && k < layers; k++) propane_request_free(s->ffn_requests[k]);
    propane_request_free(s->head_request);
    propane_buffer *const buffers[] = {s->x, s->out, s->rows, s->k_new, s->v_new, s->logits};
    for (int k = 0; k < MODEL_KINDS; k++) {
        propane_buffer_free(s->cos[k]);
        propane_buffer_free(s->sin[k]);
    }
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) propane_buffer_free(buffers[i]);
    decoder_free_programs(m, s->programs);
}

void infer_free(infer *m) {
    if (!m) return;
    int64_t layers = infer_layers(m);
    for (int i = 0; i < m->set_count; i++) decoder_free_set(m, &m->sets[i]);
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
