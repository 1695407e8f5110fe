/* SPDX-License-Identifier: MIT
 * Owns the execution of a model. Positions are read by
 *
 *     host: embed, tables of angles, mask  ->  per layer: [attn] host: add  [ffn] host: add  ->  [head]
 *
 * or, if the programs add to the residual stream themselves (decoder.h), by one chain of all these programs. If there
 * are fewer positions than columns of the programs, the last position is repeated in the other columns, which write the
 * same keys and values into the same row.
 */
#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/decoder.h"
#include "lm/infer/generate.h"

static int64_t generate_column_row(const infer_column *c) { return c->sequence->rows[c->position]; }

int64_t infer_context(const infer *m) { return m->context; }
int64_t infer_position(const infer *m) { return m->current->position; }
const char *infer_weight_forms(const infer *m) { return m->forms; }
int64_t infer_weight_bytes(const infer *m) { return m->weight_bytes; }
int infer_vocab(const infer *m) { return (int)m->config.vocab_size; }
int64_t infer_width(const infer *m) { return m->config.hidden_size; }
int infer_sequences(const infer *m) { return m->sequence_count; }
void infer_reset(infer *m) { infer_cut(m, m->current, 0); }

void infer_select(infer *m, int sequence) {
    if (sequence >= 0 && sequence < m->sequence_count) m->current = &m->sequences[sequence];
}

int64_t infer_shared(const infer *m, int sequence, const int32_t *ids, int64_t count) {
    const infer_sequence *s = &m->sequences[sequence];
    int64_t same = 0;
    while (same < count && same < s->position && s->history[same] == ids[same]) same++;
    return same;
}

int64_t infer_reuse(infer *m, const int32_t *ids, int64_t count) {
    int64_t same = infer_shared(m, (int)(m->current - m->sequences), ids, count);
    infer_cut(m, m->current, same);
    return same;
}

/* ---- running -------------------------------------------------------------------------------------------------------------------------- */

static propane_status generate_put(const propane_program *p, const char *name, propane_buffer *buffer,
                                   const float *data, propane_error *err) {
    const propane_io *io = propane_program_find(p, name);
    return propane_buffer_write(buffer, io, PROPANE_FP32, data, propane_io_count(io), err);
}

static propane_status generate_take(const propane_program *p, const char *name, propane_buffer *buffer, float *data,
                                    propane_error *err) {
    const propane_io *io = propane_program_find(p, name);
    return propane_buffer_read(buffer, io, PROPANE_FP32, data, propane_io_count(io), err);
}

static propane_status generate_execute(propane_request *r, propane_error *err) {
    PROPANE_TRY(propane_submit(&r, 1, err));
    return propane_wait(r, NULL, err);
}

/* The result for which a chunk is read: no logits, some, or the residual stream after the last layer. */
typedef enum wanted { NO_LOGITS, LAST_LOGITS, ALL_LOGITS, STREAM } wanted;

/* Runs one half of a layer and adds its result to the stream. */
static propane_status generate_run_half(infer *m, const infer_set *s, const propane_program *p, const char *result,
                                        propane_request *r, propane_error *err) {
    PROPANE_TRY(generate_put(p, "x", s->x, m->stream, err));
    PROPANE_TRY(generate_execute(r, err));
    PROPANE_TRY(generate_take(p, result, s->out, m->result, err));
    for (int64_t i = 0; i < m->config.hidden_size * s->positions; i++) m->stream[i] += m->result[i];
    return PROPANE_OK;
}

/* Runs all layers, and the head if it can read their output directly. Sets *complete to whether the head has run. */
static propane_status generate_run_chain(infer *m, infer_set *s, const infer_kv_bucket *r, wanted want, bool *complete,
                                         propane_error *err) {
    enum { AT_ONCE = 64 }; /* requests per submission; a device accepts 127 */
    int64_t layers = infer_layers(m);
    int count = 0;
    *complete = want == ALL_LOGITS || (want == LAST_LOGITS && s->positions == 1);
    if (*complete) PROPANE_TRY(infer_need_head(m, s, err));
    for (int64_t i = 0; i < layers; i++) {
        m->chain[count++] = r->attn[i];
        m->chain[count++] = s->ffn_requests[i];
    }
    if (*complete) m->chain[count++] = s->head_request;
    PROPANE_TRY(generate_put(r->program, "x", s->x, m->stream, err));
    for (int from = 0; from < count; from += AT_ONCE) {
        int n = count - from < AT_ONCE ? count - from : AT_ONCE;
        PROPANE_TRY(propane_submit(m->chain + from, n, err));
        propane_status last = propane_wait(m->chain[from + n - 1], NULL, err); /* all others are then done */
        for (int i = 0; i + 1 < n; i++) PROPANE_TRY(propane_wait(m->chain[from + i], NULL, err));
        PROPANE_TRY(last);
    }
    if (!*complete) return want ? generate_take(r->program, "x", s->x, m->stream, err) : PROPANE_OK;
    PROPANE_TRY(infer_room(&m->logits, &m->logit_room, m->config.vocab_size * s->positions, err));
    return generate_take(s->head, "logits", s->logits, m->logits, err);
}

/* Copies the new rows to their places in the cache. Both buffers have the same element type, so bytes are copied. */
static propane_status generate_store(const infer *m, const propane_program *p, const char *new_name,
                                     propane_buffer *fresh, const char *cache_name, propane_buffer *cache,
                                     int64_t count, propane_error *err) {
    const propane_io *from = propane_program_find(p, new_name), *to = propane_program_find(p, cache_name);
    size_t element = from->dtype == PROPANE_FP16 ? 2 : 4, row = (size_t)from->dim[3] * element;
    void *source, *target;
    PROPANE_TRY(propane_buffer_lock(fresh, false, &source, err));
    propane_status status = propane_buffer_lock(cache, true, &target, err);
    if (!status) {
        for (int64_t t = 0; t < count; t++)
            for (int64_t h = 0; h < from->dim[2]; h++)
                memcpy((char *)target + generate_column_row(&m->columns[t]) * to->stride[1] + h * to->stride[2],
                       (const char *)source + t * from->stride[1] + h * from->stride[2], row);
        propane_buffer_unlock(cache);
    }
    propane_buffer_unlock(fresh);
    return status;
}

static propane_status generate_put_table(infer *m, const infer_set *s, const propane_program *p, const char *name,
                                         propane_buffer *buffer, const float *table, propane_error *err) {
    int64_t n = s->positions, hd = m->config.head_dim;
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < hd; i++) m->angles[i * n + t] = table[m->columns[t].position * hd + i];
    return generate_put(p, name, buffer, m->angles, err);
}

/* Makes the mask. If the device writes in place, a column sees the cache rows of its sequence up to its own. Otherwise
 * it sees the rows that existed before, and the columns of its sequence up to itself without the repeated ones. Of
 * these, it sees only the last `window` (0 means all). */
static void generate_make_mask(const infer *m, int64_t window, int64_t positions, int64_t cache, int64_t count) {
    int64_t width = m->in_place ? cache : cache + positions;
    for (int64_t n = 0; n < positions; n++) {
        const infer_column *c = &m->columns[n];
        float *row = m->mask + n * width;
        int64_t seen = m->in_place ? c->position + 1 : c->sequence->position;
        const int64_t from = window && c->position >= window ? c->position - window + 1 : 0;
        for (int64_t j = 0; j < width; j++) row[j] = (float)MODEL_MASKED;
        for (int64_t i = from; i < seen; i++) row[c->sequence->rows[i]] = 0;
        for (int64_t j = 0; !m->in_place && j < count; j++)
            if (m->columns[j].sequence == c->sequence && m->columns[j].position <= c->position &&
                m->columns[j].position >= from)
                row[cache + j] = 0;
    }
}

static propane_status generate_put_positions(infer *m, const infer_set *s, const infer_kv_bucket *r, int64_t count,
                                             propane_error *err) {
    int64_t n = s->positions;
    PROPANE_TRY(infer_room(&m->mask, &m->mask_room, n * (r->cache + n), err));
    for (int k = 0; k < m->kinds; k++) {
        const int64_t table = k * m->context * m->config.head_dim;
        if (infer_turns(m)) {
            PROPANE_TRY(generate_put_table(m, s, r->program, "cos", s->cos[k], m->table_cos + table, err));
            PROPANE_TRY(generate_put_table(m, s, r->program, "sin", s->sin[k], m->table_sin + table, err));
        }
        generate_make_mask(m, model_config_window(&m->config, model_config_kind_layer(&m->config, k)), n, r->cache,
                           count);
        PROPANE_TRY(generate_put(r->program, "mask", r->mask[k], m->mask, err));
    }
    if (!m->in_place) return PROPANE_OK;
    for (int64_t t = 0; t < n; t++) m->numbers[t] = (int32_t)generate_column_row(&m->columns[t]);
    return propane_buffer_write(s->rows, propane_program_find(r->program, "rows"), PROPANE_INT32, m->numbers, n, err);
}

/* Embeds the first n columns into m->stream. m->result is scratch. */
static void generate_embed(infer *m, int64_t n) {
    const model_tensor *table = model_weights_param(m->weights, MODEL_EMBED, -1, "embed_tokens");
    const model_tensor *learned = model_weights_param(m->weights, MODEL_EMBED, -1, "embed_positions");
    const int64_t d = m->config.hidden_size;
    float *row = m->result;
    for (int64_t t = 0; t < n; t++) {
        stored_weights_read(m->weights, table, (int64_t)m->columns[t].id * d, d, row);
        for (int64_t c = 0; c < d; c++) m->stream[c * n + t] = row[c];
        if (!learned) continue;
        stored_weights_read(m->weights, learned, m->columns[t].position * d, d, row);
        for (int64_t c = 0; c < d; c++) m->stream[c * n + t] += row[c];
    }
}

/* Sets m->logits to the logits of the last position, [V], or of all positions, [V, positions]. */
static propane_status generate_run_head(infer *m, infer_set *s, int64_t count, wanted want, propane_error *err) {
    int64_t d = m->config.hidden_size, n = s->positions;
    if (want == LAST_LOGITS && n > 1) {
        for (int64_t c = 0; c < d; c++) m->result[c] = m->stream[c * n + count - 1];
        s = &m->sets[0];
    } else {
        memcpy(m->result, m->stream, (size_t)(d * n) * sizeof *m->result);
    }
    PROPANE_TRY(infer_need_head(m, s, err));
    PROPANE_TRY(infer_room(&m->logits, &m->logit_room, m->config.vocab_size * s->positions, err));
    PROPANE_TRY(generate_put(s->head, "x", s->x, m->result, err));
    PROPANE_TRY(generate_execute(s->head_request, err));
    return generate_take(s->head, "logits", s->logits, m->logits, err);
}

/* Returns the number of cache rows that covers all blocks of the columns' sequences. */
static int64_t generate_rows_filled(const infer *m, int64_t count) {
    int64_t most = 0;
    for (int64_t n = 0; n < count; n++) {
        const infer_sequence *s = m->columns[n].sequence;
        if (n && s == m->columns[n - 1].sequence) continue;
        for (int64_t b = 0; b < s->blocks; b++) {
            int64_t end = s->rows[b * INFER_ROW_BLOCK] + INFER_ROW_BLOCK;
            if (end > most) most = end;
        }
    }
    return most < m->rows ? most : m->rows;
}

static propane_status generate_run_layers(infer *m, infer_set *s, const infer_kv_bucket *r, int64_t count, wanted want,
                                          propane_error *err) {
    bool complete = false;
    if (m->chained) PROPANE_TRY(generate_run_chain(m, s, r, want, &complete, err));
    for (int64_t i = 0; !m->chained && i < infer_layers(m); i++) {
        PROPANE_TRY(generate_run_half(m, s, r->program, "o", r->attn[i], err));
        if (!m->in_place) {
            PROPANE_TRY(generate_store(m, r->program, "k_new", s->k_new, "k_cache", m->k_cache[i], count, err));
            PROPANE_TRY(generate_store(m, r->program, "v_new", s->v_new, "v_cache", m->v_cache[i], count, err));
        }
        PROPANE_TRY(generate_run_half(m, s, s->ffn, "y", s->ffn_requests[i], err));
    }
    return want && want != STREAM && !complete ? generate_run_head(m, s, count, want, err) : PROPANE_OK;
}

/* Reads the first `count` (1 .. s->positions) of m->columns and repeats the last of them in the other columns. A run
 * that fails or is cancelled leaves the sequences unchanged, because it writes only to rows after their last
 * position. */
static propane_status generate_run_columns(infer *m, infer_set *s, int64_t count, wanted want, propane_error *err) {
    infer_kv_bucket *r;
    poll_scope scope;
    for (int64_t n = 0; n < count; n++) infer_take_rows(m, m->columns[n].sequence, m->columns[n].position + 1);
    for (int64_t n = count; n < s->positions; n++) m->columns[n] = m->columns[count - 1];
    PROPANE_TRY(infer_need_kv_bucket(m, s, generate_rows_filled(m, count), &r, err));
    PROPANE_TRY(infer_need_ffn(m, s, err));
    generate_embed(m, s->positions);
    PROPANE_TRY(generate_put_positions(m, s, r, count, err));
    poll_begin(&scope);
    const propane_status status = generate_run_layers(m, s, r, count, want, err);
    PROPANE_TRY(poll_end(&scope, status, err));
    for (int64_t n = 0; n < count; n++) {
        infer_sequence *q = m->columns[n].sequence;
        q->history[m->columns[n].position] = m->columns[n].id;
        q->position = m->columns[n].position + 1;
    }
    return PROPANE_OK;
}

/* Reads the next `count` ids of the current sequence. */
static propane_status generate_run_chunk(infer *m, infer_set *s, const int32_t *ids, int64_t count, wanted want,
                                         propane_error *err) {
    for (int64_t t = 0; t < count; t++) m->columns[t] = (infer_column){m->current, ids[t], m->current->position + t};
    return generate_run_columns(m, s, count, want, err);
}

/* Checks ids that are to be read, and `ahead` further ids that are predicted but not read. */
static propane_status generate_check_ids(const infer *m, const int32_t *ids, int64_t count, int64_t ahead,
                                         propane_error *err) {
    if (count < 1)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            ahead ? "one token id is not enough, because there is nothing to predict"
                                  : "there are no token ids to read");
    if (count > m->context - m->current->position)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%lld ids after %lld do not fit into the context of %lld positions",
                            (long long)count, (long long)m->current->position, (long long)m->context);
    for (int64_t i = 0; i < count + ahead; i++)
        if (ids[i] < 0 || ids[i] >= m->config.vocab_size)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "id %d (number %lld) is not in the model's vocabulary of %lld", (int)ids[i],
                                (long long)i, (long long)m->config.vocab_size);
    return PROPANE_OK;
}

/* Chooses the set that reads the next of `left` ids. The set may have more positions than ids are left if padding costs
 * less than another pass over the weights. With ALL_LOGITS, the logits of a chunk may have at most LOGIT_FLOATS
 * numbers. */
static infer_set *generate_choose_set(infer *m, int64_t left, wanted want) {
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

/* Reads ids in one pass. If `nll` is NULL, only the last logits are wanted. Otherwise sets the losses in `nll`, and
 * `ids` has one more id, which is only predicted. */
static propane_status generate_read_part(infer *m, const int32_t *ids, int64_t left, float *logits, double *nll,
                                         int64_t *read, propane_error *err) {
    int vocab = (int)m->config.vocab_size;
    infer_set *s = generate_choose_set(m, left, nll ? ALL_LOGITS : NO_LOGITS);
    int64_t now = left < s->positions ? left : s->positions;
    bool last = now == left;
    PROPANE_TRY(generate_run_chunk(m, s, ids, now, nll ? ALL_LOGITS : last && logits ? LAST_LOGITS : NO_LOGITS, err));
    for (int64_t t = 0; nll && t < now; t++) nll[t] = infer_nll(m->logits + t, vocab, s->positions, ids[t + 1]);
    if (logits && last) memcpy(logits, m->logits, (size_t)vocab * sizeof *logits);
    *read = now;
    return PROPANE_OK;
}

static propane_status generate_read_all(infer *m, const int32_t *ids, int64_t count, float *logits, double *nll,
                                        propane_error *err) {
    for (int64_t done = 0, now; done < count; done += now)
        PROPANE_TRY(generate_read_part(m, ids + done, count - done, logits, nll ? nll + done : NULL, &now, err));
    return PROPANE_OK;
}

propane_status infer_check(const infer *m, const int32_t *ids, int64_t count, propane_error *err) {
    return generate_check_ids(m, ids, count, 0, err);
}

propane_status infer_read_part(infer *m, const int32_t *ids, int64_t count, float *logits, int64_t *read,
                               propane_error *err) {
    PROPANE_TRY(generate_check_ids(m, ids, count, 0, err));
    return generate_read_part(m, ids, count, logits, NULL, read, err);
}

/* Applies the head's norm to the first `count` columns of the stream and adds the results to `sum`, in double
 * precision. */
static void generate_add_normed(const infer *m, int64_t count, int64_t positions, double *sum) {
    const model_tensor *bias = model_weights_param(m->weights, MODEL_HEAD, -1, "norm_bias");
    const float *scale =
        stored_weights_floats(m->weights, model_weights_param(m->weights, MODEL_HEAD, -1, "norm_weight"));
    const float *shift = bias ? stored_weights_floats(m->weights, bias) : NULL;
    const bool centred = model_arch_of(&m->config)->norm == ARCH_LAYER_NORM;
    const double eps = model_arch_stream_eps(&m->config);
    const int64_t d = m->config.hidden_size;
    for (const float *x = m->stream; x < m->stream + count; x++) {
        double mean = 0, square = 0;
        for (int64_t c = 0; c < d && centred; c++) mean += (double)x[c * positions] / (double)d;
        for (int64_t c = 0; c < d; c++) {
            const double v = (double)x[c * positions] - mean;
            square += v * v / (double)d;
        }
        const double factor = 1 / sqrt(square + eps);
        for (int64_t c = 0; c < d; c++)
            sum[c] += ((double)x[c * positions] - mean) * factor * (double)scale[c] + (shift ? (double)shift[c] : 0);
    }
}

propane_status infer_embed_part(infer *m, const int32_t *ids, int64_t count, double *sum, int64_t *read,
                                propane_error *err) {
    PROPANE_TRY(generate_check_ids(m, ids, count, 0, err));
    infer_set *s = generate_choose_set(m, count, STREAM);
    *read = count < s->positions ? count : s->positions;
    PROPANE_TRY(generate_run_chunk(m, s, ids, *read, STREAM, err));
    generate_add_normed(m, *read, s->positions, sum);
    return PROPANE_OK;
}

propane_status infer_read_each(infer *m, const int *sequences, const int32_t *ids, int count, float *const *logits,
                               propane_error *err) {
    int64_t vocab = m->config.vocab_size;
    infer_sequence *before = m->current;
    propane_status status =
        count >= 1 && count <= m->sequence_count
            ? PROPANE_OK
            : propane_fail(err, PROPANE_ERR_INVALID, "%d sequences were requested, but there are %d", count,
                           m->sequence_count);
    for (int i = 0; !status && i < count; i++) {
        bool good = sequences[i] >= 0 && sequences[i] < m->sequence_count;
        for (int k = 0; k < i; k++) good &= sequences[k] != sequences[i];
        if (!good) {
            status =
                propane_fail(err, PROPANE_ERR_INVALID, "sequence %d does not exist or is named twice", sequences[i]);
            break;
        }
        m->current = &m->sequences[sequences[i]];
        status = generate_check_ids(m, ids + i, 1, 0, err);
        if (!status) m->columns[i] = (infer_column){m->current, ids[i], m->current->position};
    }
    m->current = before;
    if (status) return status;
    infer_set *s = m->sets;
    while (s->positions < count) s++; /* the last set has room for all sequences */
    PROPANE_TRY(generate_run_columns(m, s, count, logits ? ALL_LOGITS : NO_LOGITS, err));
    for (int i = 0; logits && i < count; i++)
        for (int64_t v = 0; v < vocab; v++) logits[i][v] = m->logits[v * s->positions + i];
    return PROPANE_OK;
}

propane_status infer_read(infer *m, const int32_t *ids, int64_t count, float *logits, propane_error *err) {
    PROPANE_TRY(generate_check_ids(m, ids, count, 0, err));
    return generate_read_all(m, ids, count, logits, NULL, err);
}

propane_status infer_score(infer *m, const int32_t *ids, int64_t count, double *nll, propane_error *err) {
    infer_reset(m);
    PROPANE_TRY(generate_check_ids(m, ids, count - 1, 1, err));
    return generate_read_all(m, ids, count - 1, NULL, nll, err);
}

propane_status infer_loss(infer *m, const int32_t *ids, int64_t count, infer_progress progress, void *context,
                          double *mean, int64_t *predictions, propane_error *err) {
    if (count < 2) return propane_fail(err, PROPANE_ERR_INVALID, "%lld ids: a loss needs at least 2", (long long)count);
    double sum = 0, *nll = mem_array((size_t)m->context, sizeof *nll);
    if (!nll) return propane_fail_memory(err, (size_t)m->context * sizeof *nll);
    propane_status status = PROPANE_OK;
    const int64_t total = count - 1;
    for (int64_t at = 0, n; !status && at < total; at += n) {
        n = total - at < m->context ? total - at : m->context;
        status = infer_score(m, ids + at, n + 1, nll, err);
        for (int64_t i = 0; !status && i < n; i++) sum += nll[i];
        if (!status && progress) status = progress(context, at + n, total, sum / (double)(at + n), err);
    }
    mem_free(nll);
    if (status) return status;
    *mean = sum / (double)total;
    if (predictions) *predictions = total;
    return PROPANE_OK;
}

propane_status infer_check_scores(const infer *m, const float *logits, propane_error *err) {
    const int vocab = (int)m->config.vocab_size;
    int bad = 0;
    for (int i = 0; i < vocab; i++) bad += logits[i] != logits[i];
    if (!bad) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "%d of the %d logits at position %lld are NaN or infinite: the model's weights are damaged, or "
                        "too large for the precision",
                        bad, vocab, (long long)infer_position(m));
}
