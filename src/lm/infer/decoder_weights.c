/* SPDX-License-Identifier: MIT
 * Owns the weights of a running model: the form of each matrix, the halves of layers that can share programs, the
 * buffers and their contents.
 */
#include <string.h>

#include "core/base/memory.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/decoder.h"
#include "lm/infer/generate.h"

const model_part infer_parts[INFER_PARTS] = {MODEL_ATTN, MODEL_FFN, MODEL_HEAD};

static const model_tensor *decoder_tensor(const infer *m, int64_t half, const arch_tensor *row) {
    const int part = infer_part_of(m, half);
    return model_weights_param(m->weights, infer_parts[part], part == INFER_HEAD ? -1 : (int)(half / 2), row->param);
}

/* ---- forms ----------------------------------------------------------------------------------------------------------- */

/* Returns the form of a matrix: `all`, the form for all matrices of the part, or the form of the file if exact forms
 * are wanted and no single one holds all matrices. */
static model_packing decoder_form(const infer *m, int64_t half, const arch_tensor *row, model_packing all) {
    if (row->in == ARCH_1) return MODEL_UNPACKED;
    if (!m->exact || all != MODEL_UNPACKED || !m->weights->stored) return model_arch_packing(&m->config, row, all);
    const model_packing own = decoder_tensor(m, half, row)->form;
    return model_arch_packing(&m->config, row, own) == own ? own : MODEL_UNPACKED;
}

static propane_status decoder_list_slots(infer *m, infer_variant *v, propane_error *err) {
    const arch_tensor *row;
    int n = 0;
    for (int i = 0; n + 2 <= INFER_MAX_SLOTS && (row = model_arch_param(&m->config, infer_parts[v->part], i)); i++) {
        const model_packing packing = v->packings[row - model_arch_of(&m->config)->tensors];
        v->slots[n++] = (infer_slot){row, row->param, packing, false};
        if (packing < MODEL_INT8) continue;
        const char *name = arena_printf(m->arena, "%s_scale", row->param);
        if (!name) return propane_fail_memory(err, 0);
        v->slots[n++] = (infer_slot){row, name, packing, true};
    }
    v->slot_count = n;
    return PROPANE_OK;
}

/* Finds the variant with these forms, or creates it. */
static propane_status decoder_variant_of(infer *m, int part, const model_packing *packings, size_t bytes, int *out,
                                         propane_error *err) {
    int v = 0;
    while (v < m->variant_count &&
           (m->variants[v].part != part || memcmp(m->variants[v].packings, packings, bytes) != 0))
        v++;
    *out = v;
    if (v < m->variant_count) return PROPANE_OK;
    infer_variant *fresh = &m->variants[m->variant_count++];
    *fresh = (infer_variant){.part = part, .packings = arena_copy(m->arena, packings, bytes)};
    return fresh->packings ? decoder_list_slots(m, fresh, err) : propane_fail_memory(err, bytes);
}

/* Sets m->forms to the names of the forms, such as "q4_k and q6_k", with the form of most weights first. */
static propane_status decoder_name_forms(infer *m, propane_error *err) {
    int64_t weights[MODEL_PACKINGS] = {0};
    for (int64_t half = 0; half < infer_halves(m); half++) {
        const infer_variant *v = &m->variants[m->variant_of[half]];
        for (int i = 0; i < v->slot_count; i++)
            if (!v->slots[i].scales && v->slots[i].row->in != ARCH_1)
                weights[v->slots[i].packing] += decoder_tensor(m, half, v->slots[i].row)->count;
    }
    m->forms = NULL;
    for (;;) {
        int most = 0;
        for (int form = 1; form < MODEL_PACKINGS; form++)
            if (weights[form] > weights[most]) most = form;
        if (!weights[most]) return PROPANE_OK;
        weights[most] = 0;
        const char *name = most || m->dtype == MIL_fp32 ? model_packing_name((model_packing)most) : "fp16";
        m->forms = m->forms ? arena_printf(m->arena, "%s and %s", m->forms, name) : name;
        if (!m->forms) return propane_fail_memory(err, 0);
    }
}

propane_status infer_list_variants(infer *m, propane_error *err) {
    const arch_tensor *rows = model_arch_of(&m->config)->tensors, *row;
    const int64_t halves = infer_halves(m);
    model_packing all[INFER_PARTS];
    size_t count = 0;
    while (rows[count].name) count++;
    for (int part = 0; part < INFER_PARTS; part++)
        all[part] = m->exact ? infer_exact_packing(m->weights, infer_parts[part]) : m->packing;
    m->variants = arena_array(m->arena, (size_t)halves, sizeof *m->variants);
    m->variant_of = ARENA_ARRAY(m->arena, halves, int);
    model_packing *packings = ARENA_ARRAY(m->arena, count, model_packing);
    if (!m->variants || !m->variant_of || !packings)
        return propane_fail_memory(err, (size_t)halves * sizeof *m->variants);
    for (int64_t half = 0; half < halves; half++) {
        const int part = infer_part_of(m, half);
        memset(packings, 0, count * sizeof *packings);
        for (int i = 0; (row = model_arch_param(&m->config, infer_parts[part], i)); i++)
            packings[row - rows] = decoder_form(m, half, row, all[part]);
        PROPANE_TRY(decoder_variant_of(m, part, packings, count * sizeof *packings, &m->variant_of[half], err));
    }
    return decoder_name_forms(m, err);
}

/* ---- numbers --------------------------------------------------------------------------------------------------------- */

/* The numbers of a tensor and the scales of its blocks, in the form in which they are written to the device. */
typedef struct decoder_numbers {
    propane_dtype dtype;
    const void *data;
    int64_t count, scale_count;
    const uint16_t *scales;
    void *made; /* memory to release with mem_free, or NULL */
} decoder_numbers;

/* Returns the type of the elements of a form's buffer. For forms in blocks other than int8, these are bytes. */
static propane_dtype decoder_dtype(model_packing packing) {
    static const propane_dtype dtypes[] = {[MODEL_UNPACKED] = PROPANE_FP32,
                                           [MODEL_FP16] = PROPANE_FP16,
                                           [MODEL_BF16] = PROPANE_BF16,
                                           [MODEL_INT8] = PROPANE_INT8};
    return packing <= MODEL_INT8 ? dtypes[packing] : PROPANE_UINT8;
}

/* Sets *out to a tensor's numbers in fp32. Tensors without fp32 data are converted into separate memory. */
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

/* Sets *out to a tensor's numbers in the form `packing`, without conversion if the file has this form. For 16-bit
 * forms, they may stay fp32, because writing to the buffer rounds them. */
static propane_status decoder_take_numbers(const model_weights *w, const model_tensor *t, model_packing packing,
                                           decoder_numbers *out, propane_error *err) {
    int64_t scale_bytes;
    /* for forms in blocks, a multiple of 16 */
    const int64_t bytes = model_packing_bytes(packing, t->count, &scale_bytes);
    if (w->stored && t->form == packing) {
        uint16_t *scales = NULL;
        const void *at = stored_weights_at(w, t, &scales);
        *out = (decoder_numbers){.dtype = decoder_dtype(packing), .data = at, .scales = scales};
    } else {
        PROPANE_TRY(decoder_take_floats(w, t, out, err));
        if (packing < MODEL_INT8) return PROPANE_OK;
        uint8_t *packed = mem_alloc((size_t)(bytes + scale_bytes));
        uint16_t *scales = (uint16_t *)(void *)(packed + bytes);
        if (packed) model_pack(packing, out->data, t->dim[0], t->dim[1], packed, scales);
        mem_free(out->made);
        *out = (decoder_numbers){.dtype = decoder_dtype(packing), .data = packed, .scales = scales, .made = packed};
        if (!packed) return propane_fail_memory(err, (size_t)bytes);
    }
    out->count = packing < MODEL_INT8 ? t->count : bytes;
    out->scale_count = scale_bytes / 2;
    return PROPANE_OK;
}

/* ---- buffers --------------------------------------------------------------------------------------------------------- */

propane_status infer_io_of(const propane_program *p, const char *name, const propane_io **out, propane_error *err) {
    *out = propane_program_find(p, name);
    return *out ? PROPANE_OK : propane_fail(err, PROPANE_ERR_DEVICE, "the compiled program has no '%s'", name);
}

/* Makes a buffer of the stored weights' own memory, if the device accepts it and the weights have the program's layout.
 * Otherwise leaves *out NULL. */
static propane_status decoder_lend(const infer *m, int half, const infer_slot *s, const propane_io *io,
                                   propane_buffer **out, bool *lent, propane_error *err) {
    const model_tensor *t = decoder_tensor(m, half, s->row);
    int64_t scale_bytes, bytes = model_packing_bytes(s->packing, t->count, &scale_bytes);
    uint16_t *scales;
    propane_error why = {0};
    if (*out || !m->weights->stored || t->form != s->packing) return PROPANE_OK;
    void *at = stored_weights_at(m->weights, t, &scales);
    if (s->scales) at = scales, bytes = scale_bytes;
    if (io->dtype != (s->scales ? PROPANE_FP16 : decoder_dtype(s->packing)) || io->bytes != (size_t)bytes)
        return PROPANE_OK;
    const propane_status status = propane_buffer_wrap(m->device, at, (size_t)bytes, out, &why);
    *lent = status == PROPANE_OK;
    return status == PROPANE_ERR_UNSUPPORTED || !status ? PROPANE_OK : propane_fail(err, status, "%s", why.text);
}

propane_status infer_make_weights(infer *m, int half, const propane_program *p, propane_error *err) {
    const infer_variant *v = &m->variants[m->variant_of[half]];
    propane_buffer **out = m->layers[half];
    for (int i = 0; i < v->slot_count; i++) {
        const propane_io *io;
        PROPANE_TRY(infer_io_of(p, v->slots[i].name, &io, err));
        PROPANE_TRY(decoder_lend(m, half, &v->slots[i], io, &out[i], &m->lent[half][i], err));
        if (!out[i]) PROPANE_TRY(propane_buffer_create(m->device, io->bytes, &out[i], err));
        m->weight_bytes += (int64_t)io->bytes;
    }
    return PROPANE_OK;
}

propane_status infer_fill_weights(const infer *m, int half, const propane_program *p, propane_error *err) {
    const infer_variant *v = &m->variants[m->variant_of[half]];
    propane_buffer *const *out = m->layers[half];
    for (int i = 0; i < v->slot_count; i++) {
        const infer_slot *s = &v->slots[i];
        const propane_io *io, *scale_io = NULL;
        decoder_numbers n;
        if (s->scales || m->lent[half][i]) continue;
        PROPANE_TRY(infer_io_of(p, s->name, &io, err));
        if (s->packing >= MODEL_INT8) PROPANE_TRY(infer_io_of(p, s[1].name, &scale_io, err));
        PROPANE_TRY(decoder_take_numbers(m->weights, decoder_tensor(m, half, s->row), s->packing, &n, err));
        propane_status status = propane_buffer_write(out[i], io, n.dtype, n.data, n.count, err);
        if (!status && scale_io)
            status = propane_buffer_write(out[i + 1], scale_io, PROPANE_FP16, n.scales, n.scale_count, err);
        mem_free(n.made);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}
