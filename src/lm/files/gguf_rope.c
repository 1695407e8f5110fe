/* SPDX-License-Identifier: MIT
 * Owns the representation of scaled RoPE in GGUF files: keys, and tensors with a factor per pair. YaRN is refused, and
 * so are factors that are neither Llama 3's nor longrope's.
 */
#include "lm/files/gguf_rope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/arch/config_rope.h"

const char *gguf_key_in(char out[80], const char *arch, const char *key) {
    snprintf(out, 80, "%s.%s", arch, key);
    return out;
}

double gguf_short_real(double value) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.7g", value);
    return strtod(digits, NULL);
}

#define ROPE_FREQS "rope_freqs.weight"
#define ROPE_SHORT "rope_factors_short.weight"
#define ROPE_LONG  "rope_factors_long.weight"

/* Reconstructs the four numbers of Llama 3's scaling, because the file holds only the divisor of each pair's frequency.
 * The published context is tried first, then contexts of every power of two. */
static propane_status gguf_rope_find_llama3(const gguf *g, const gguf_tensor *t, model_config *c, propane_error *err) {
    float factors[1 << 11];
    int64_t pairs = c->head_dim / 2;
    if (t->count != pairs || pairs > 1 << 11)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor " ROPE_FREQS " has %lld elements, not %lld",
                            gguf_source(g), (long long)t->count, (long long)pairs);
    PROPANE_TRY(gguf_f32(g, t, factors, err));
    model_config plain = *c;
    double largest = 1;
    for (int64_t i = 0; i < pairs; i++) largest = fmax(largest, (double)factors[i]);
    plain.rope_scaling = MODEL_ROPE_PLAIN;
    c->rope_scaling = MODEL_ROPE_LLAMA3;
    c->rope_factor = largest;
    c->rope_low_factor = 1;
    c->rope_high_factor = 4;
    for (int tried = -1; tried < 20; tried++) {
        bool same = true;
        c->rope_original = tried < 0 ? 8192 : INT64_C(16) << tried;
        for (int64_t i = 0; i < pairs; i++) {
            double want = model_config_rope_rate(&plain, i) / model_config_rope_rate(c, i);
            same = same && fabs((double)factors[i] / want - 1) < 1e-5;
        }
        if (same) return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: the tensor " ROPE_FREQS " scales RoPE in a way that is not Llama 3's", gguf_source(g));
}

static propane_status gguf_rope_read_factors(const gguf *g, const char *name, int64_t pairs, double *out,
                                             propane_error *err) {
    float factors[MODEL_ROPE_PAIRS];
    const gguf_tensor *t = gguf_find_tensor(g, name);
    if (!t || t->count != pairs || pairs > MODEL_ROPE_PAIRS)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor %s has %lld elements, not %lld (at most %d)",
                            gguf_source(g), name, t ? (long long)t->count : 0, (long long)pairs, MODEL_ROPE_PAIRS);
    PROPANE_TRY(gguf_f32(g, t, factors, err));
    for (int64_t i = 0; i < pairs; i++) out[i] = gguf_short_real((double)factors[i]);
    return PROPANE_OK;
}

/* Reads longrope: a list of factors for contexts up to the original one, and another list for longer contexts. */
static propane_status gguf_rope_read_long(const gguf *g, const char *arch, model_config *c, propane_error *err) {
    char key[80];
    const int64_t pairs = model_config_rotary(c) / 2;
    PROPANE_TRY(gguf_rope_read_factors(g, ROPE_SHORT, pairs, c->rope_short, err));
    PROPANE_TRY(gguf_rope_read_factors(g, ROPE_LONG, pairs, c->rope_long, err));
    PROPANE_TRY(gguf_get_int(g, gguf_key_in(key, arch, "rope.scaling.original_context_length"), true, 1, 1 << 24,
                             &c->rope_original, err));
    config_rope_be_long(c, NAN);
    double attention = 1;
    PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, arch, "rope.scaling.attn_factor"), false, &attention, err));
    const bool usual = fabs(attention - c->rope_attention) < 1e-6 * c->rope_attention; /* the file rounds it to fp32 */
    if (!usual) c->rope_attention = attention;
    return PROPANE_OK;
}

propane_status gguf_rope_read(const gguf *g, const char *arch, model_config *c, propane_error *err) {
    char key[80];
    const char *scaling = "none";
    const gguf_tensor *freqs = gguf_find_tensor(g, ROPE_FREQS);
    PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, arch, "rope.freq_base"), false, &c->rope_theta, err));
    if (gguf_find_tensor(g, ROPE_SHORT)) return gguf_rope_read_long(g, arch, c, err);
    PROPANE_TRY(gguf_get_text(g, gguf_key_in(key, arch, "rope.scaling.type"), false, &scaling, err));
    if (strcmp(scaling, "linear") == 0) {
        c->rope_scaling = MODEL_ROPE_LINEAR;
        PROPANE_TRY(gguf_get_real(g, gguf_key_in(key, arch, "rope.scaling.factor"), true, &c->rope_factor, err));
    } else if (strcmp(scaling, "none") != 0) {
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s is '%.40s'; only 'none' and 'linear' are supported",
                            gguf_source(g), key, scaling);
    }
    return freqs && c->rope_scaling == MODEL_ROPE_PLAIN ? gguf_rope_find_llama3(g, freqs, c, err) : PROPANE_OK;
}

void gguf_rope_put(gguf_header *h, const model_arch *a, const model_config *c) {
    char key[80];
    if (a->position != ARCH_ROPE) return;
    gguf_put_u32(h, gguf_key_in(key, a->gguf, "rope.dimension_count"), (uint32_t)model_config_rotary(c));
    gguf_put_f32(h, gguf_key_in(key, a->gguf, "rope.freq_base"), (float)c->rope_theta);
    if (c->rope_scaling == MODEL_ROPE_LONG) {
        gguf_put_u32(h, gguf_key_in(key, a->gguf, "rope.scaling.original_context_length"), (uint32_t)c->rope_original);
        gguf_put_f32(h, gguf_key_in(key, a->gguf, "rope.scaling.attn_factor"), (float)c->rope_attention);
    }
    if (c->rope_scaling != MODEL_ROPE_LINEAR) return;
    gguf_put_text(h, gguf_key_in(key, a->gguf, "rope.scaling.type"), "linear");
    gguf_put_f32(h, gguf_key_in(key, a->gguf, "rope.scaling.factor"), (float)c->rope_factor);
}

void gguf_rope_put_tensors(gguf_header *h, const model_config *c) {
    const int64_t pairs = model_config_rotary(c) / 2;
    if (c->rope_scaling == MODEL_ROPE_LLAMA3) gguf_put_tensor(h, ROPE_FREQS, 1, &pairs, GGUF_TYPE_F32);
    if (c->rope_scaling != MODEL_ROPE_LONG) return;
    gguf_put_tensor(h, ROPE_SHORT, 1, &pairs, GGUF_TYPE_F32);
    gguf_put_tensor(h, ROPE_LONG, 1, &pairs, GGUF_TYPE_F32);
}

/* Writes one fp32 number per rotated pair. */
static propane_status gguf_rope_write_pairs(file_writer *f, const model_config *c, const double *factors,
                                            propane_error *err) {
    static const uint8_t zeros[32] = {0};
    const int64_t pairs = model_config_rotary(c) / 2;
    for (int64_t i = 0; i < pairs; i++) {
        const float factor = (float)factors[i];
        PROPANE_TRY(file_writer_write(f, &factor, sizeof factor, err));
    }
    return file_writer_write(f, zeros, (size_t)(-(uint64_t)(pairs * 4) % 32), err);
}

propane_status gguf_rope_write(file_writer *f, const model_config *c, propane_error *err) {
    double factors[1 << 11];
    model_config plain = *c;
    plain.rope_scaling = MODEL_ROPE_PLAIN;
    if (c->rope_scaling == MODEL_ROPE_LONG) {
        PROPANE_TRY(gguf_rope_write_pairs(f, c, c->rope_short, err));
        return gguf_rope_write_pairs(f, c, c->rope_long, err);
    }
    if (c->rope_scaling != MODEL_ROPE_LLAMA3) return PROPANE_OK;
    for (int64_t i = 0; i < model_config_rotary(c) / 2; i++)
        factors[i] = model_config_rope_rate(&plain, i) / model_config_rope_rate(c, i);
    return gguf_rope_write_pairs(f, c, factors, err);
}
