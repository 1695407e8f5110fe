/* SPDX-License-Identifier: MIT
 * Owns the contents of a bucket: a rank's pieces of its segments one after the other, in the wire's number format,
 * preceded by scales if the format has any.
 */
#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "train/dist/allreduce_internal.h"

#define FP16_TOP 16384.0f /* the largest element of a scaled piece is below this */

enum { INT4_BLOCK = 64, INT4_MOST = 7 }; /* number of values that share a scale; the largest code */

static const char *const bucket_wires[ALLREDUCE_WIRES] = {"fp32", "bf16", "fp16", "int4"};

const char *allreduce_wire_name(allreduce_wire wire) { return bucket_wires[wire]; }

allreduce_wire allreduce_wire_find(const char *name) {
    int i = 0;
    while (i < ALLREDUCE_WIRES && strcmp(bucket_wires[i], name) != 0) i++;
    return (allreduce_wire)i;
}

void allreduce_piece_of(const allreduce *d, int64_t count, int rank, int64_t *begin, int64_t *end) {
    const int64_t grain = d->options.grain, units = (count + grain - 1) / grain;
    const int64_t share = units / d->size, more = units % d->size;
    const int64_t first = rank * share + (rank < more ? rank : more);
    *begin = min_i64(first * grain, count);
    *end = min_i64((first + share + (rank < more)) * grain, count);
}

int64_t allreduce_elements(const allreduce *d, const bucket *b, int rank) {
    int64_t sum = 0, begin, end;
    for (int i = b->first; i < b->first + b->count; i++) {
        allreduce_piece_of(d, d->segments[i].count, rank, &begin, &end);
        sum += end - begin;
    }
    return sum;
}

static int64_t allreduce_bucket_header(allreduce_wire wire) { return wire == ALLREDUCE_FP16 ? 4 : 0; }

static int64_t allreduce_bucket_scales(int64_t elements) { return (elements + INT4_BLOCK - 1) / INT4_BLOCK; }

int64_t allreduce_wire_bytes(allreduce_wire wire, int64_t elements) {
    if (wire == ALLREDUCE_INT4)
        return allreduce_bucket_scales(elements) * (int64_t)sizeof(uint16_t) + (elements + 1) / 2;
    return allreduce_bucket_header(wire) + elements * (wire == ALLREDUCE_FP32 ? 4 : 2);
}

int64_t allreduce_room(const allreduce *d, const bucket *b, int rank) {
    return round_up(allreduce_wire_bytes(d->options.wire, allreduce_elements(d, b, rank)), 4);
}

/* ---- number formats --------------------------------------------------------------------------------------------------- */

static float allreduce_bucket_largest(const float *values, int64_t count, float most) {
    for (int64_t i = 0; i < count; i++) most = fabsf(values[i]) > most ? fabsf(values[i]) : most;
    return most;
}

/* Returns a power of two that brings `most` below FP16_TOP. Returns 1 for zero and for non-finite values, which then
 * reach the receiver unchanged. */
static float allreduce_bucket_fitting_scale(float most) {
    int exponent;
    if (most == 0 || !isfinite(most)) return 1;
    (void)frexpf(FP16_TOP / most, &exponent);
    return ldexpf(1, exponent - 1 > 100 ? 100 : exponent - 1);
}

static void allreduce_bucket_narrow(allreduce_wire wire, char *target, const float *values, int64_t count,
                                    float scale) {
    uint16_t *half = (uint16_t *)(void *)target;
    if (wire == ALLREDUCE_FP32) memcpy(target, values, (size_t)count * sizeof(float));
    if (wire == ALLREDUCE_BF16) bf16_from_f32_array(half, values, (size_t)count);
    for (int64_t i = 0; wire == ALLREDUCE_FP16 && i < count; i++) half[i] = fp16_from_f32(values[i] * scale);
}

/* ---- four bits with error feedback ------------------------------------------------------------------------------------- */

/* Returns a block's scale as a bfloat16. If a value is not finite, the scale is NaN, so that the receiver's values are
 * not finite either. */
static uint16_t allreduce_bucket_block_scale(const float *values, int64_t count) {
    const float most = allreduce_bucket_largest(values, count, 0);
    float sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i];
    return bf16_from_f32(isfinite(sum) ? most / INT4_MOST : NAN);
}

static int allreduce_bucket_code(float value, float scale) {
    if (!(scale > 0)) return 0;
    const float code = roundf(value / scale);
    return code > INT4_MOST ? INT4_MOST : code < -INT4_MOST ? -INT4_MOST : (int)code;
}

/* Writes the scales, then two codes per byte. `residual` holds the rounding errors of earlier messages; they are added
 * to `values` first, and then replaced by the errors of this message. */
static void allreduce_bucket_pack(char *target, float *values, float *residual, int64_t count) {
    uint8_t *codes = (uint8_t *)target + allreduce_bucket_scales(count) * (int64_t)sizeof(uint16_t);
    for (int64_t i = 0; i < count; i++) values[i] += residual[i];
    for (int64_t at = 0; at < count; at += INT4_BLOCK) {
        const int64_t n = min_i64(INT4_BLOCK, count - at);
        const uint16_t stored = allreduce_bucket_block_scale(values + at, n);
        const float scale = bf16_to_f32(stored);
        memcpy(target + at / INT4_BLOCK * (int64_t)sizeof stored, &stored, sizeof stored);
        for (int64_t i = at; i < at + n; i++) {
            const int code = allreduce_bucket_code(values[i], scale), bits = code & 15;
            codes[i / 2] = (uint8_t)(i % 2 ? codes[i / 2] | bits << 4 : bits);
            residual[i] = isfinite(scale) ? values[i] - (float)code * scale : 0;
        }
    }
}

static void allreduce_bucket_unpack(float *values, const char *source, int64_t count) {
    const uint8_t *codes = (const uint8_t *)source + allreduce_bucket_scales(count) * (int64_t)sizeof(uint16_t);
    for (int64_t i = 0; i < count; i++) {
        uint16_t stored;
        memcpy(&stored, source + i / INT4_BLOCK * (int64_t)sizeof stored, sizeof stored);
        const int bits = codes[i / 2] >> (i % 2 ? 4 : 0) & 15;
        values[i] = (float)(bits >= 8 ? bits - 16 : bits) * bf16_to_f32(stored);
    }
}

/* Copies a rank's pieces of a bucket, one after the other, from the gradients. Returns the number of elements. */
static int64_t allreduce_bucket_gather(const allreduce *d, const bucket *b, int rank, float *out) {
    int64_t at = 0, begin, end;
    for (int i = b->first; i < b->first + b->count; i++) {
        const segment *s = &d->segments[i];
        allreduce_piece_of(d, s->count, rank, &begin, &end);
        memcpy(out + at, d->gradients[s->tensor] + s->begin + begin, (size_t)(end - begin) * sizeof(float));
        at += end - begin;
    }
    return at;
}

static void allreduce_bucket_write_int4(const allreduce *d, const bucket *b, int rank, char *target) {
    float *residual = d->residual + b->at;
    for (int r = 0; r < rank; r++) residual += allreduce_elements(d, b, r);
    const int64_t count = allreduce_bucket_gather(d, b, rank, d->widened);
    allreduce_bucket_pack(target, d->widened, residual, count);
}

static void allreduce_bucket_widen(allreduce_wire wire, float *values, const char *source, int64_t count) {
    const uint16_t *half = (const uint16_t *)(const void *)(source + allreduce_bucket_header(wire));
    float scale = 1;
    if (wire == ALLREDUCE_INT4) allreduce_bucket_unpack(values, source, count);
    if (wire == ALLREDUCE_FP32) memcpy(values, source, (size_t)count * sizeof(float));
    if (wire == ALLREDUCE_FP16) memcpy(&scale, source, sizeof scale);
    if (wire == ALLREDUCE_BF16) bf16_to_f32_array(values, half, (size_t)count);
    if (wire == ALLREDUCE_FP16) fp16_to_f32_array(values, half, (size_t)count);
    for (int64_t i = 0; wire == ALLREDUCE_FP16 && i < count; i++) values[i] /= scale;
}

/* ---- gradients ----------------------------------------------------------------------------------------------------------- */

static float allreduce_bucket_scale_for(const allreduce *d, const bucket *b, int rank) {
    float most = 0;
    if (d->options.wire != ALLREDUCE_FP16) return 1;
    for (int i = b->first; i < b->first + b->count; i++) {
        const segment *s = &d->segments[i];
        int64_t begin, end;
        allreduce_piece_of(d, s->count, rank, &begin, &end);
        most = allreduce_bucket_largest(d->gradients[s->tensor] + s->begin + begin, end - begin, most);
    }
    return allreduce_bucket_fitting_scale(most);
}

void allreduce_write(const allreduce *d, const bucket *b, int rank, char *target) {
    allreduce_wire wire = d->options.wire;
    if (wire == ALLREDUCE_INT4) {
        allreduce_bucket_write_int4(d, b, rank, target);
        return;
    }
    float scale = allreduce_bucket_scale_for(d, b, rank);
    if (wire == ALLREDUCE_FP16) memcpy(target, &scale, sizeof scale);
    target += allreduce_bucket_header(wire);
    for (int i = b->first; i < b->first + b->count; i++) {
        const segment *s = &d->segments[i];
        int64_t begin, end;
        allreduce_piece_of(d, s->count, rank, &begin, &end);
        allreduce_bucket_narrow(wire, target, d->gradients[s->tensor] + s->begin + begin, end - begin, scale);
        target += allreduce_wire_bytes(wire, end - begin) - allreduce_bucket_header(wire);
    }
}

/* Sums sixteen elements at a time, which compilers turn into vector code. */
void allreduce_accumulate(float *restrict sums, const float *restrict values, int64_t count) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int64_t k = i; k < i + 16; k++) sums[k] += values[k];
    for (; i < count; i++) sums[i] += values[i];
}

void allreduce_add(allreduce *d, const bucket *b) {
    int64_t own = allreduce_elements(d, b, d->rank);
    for (int r = 0; r < d->size; r++) {
        allreduce_bucket_widen(d->options.wire, r == 0 ? d->sums : d->widened, d->shares[r], own);
        if (r > 0) allreduce_accumulate(d->sums, d->widened, own);
    }
}

void allreduce_spread(const allreduce *d, const bucket *b, int rank, const float *values) {
    for (int i = b->first; i < b->first + b->count; i++) {
        const segment *s = &d->segments[i];
        int64_t begin, end;
        allreduce_piece_of(d, s->count, rank, &begin, &end);
        memcpy(d->gradients[s->tensor] + s->begin + begin, values, (size_t)(end - begin) * sizeof(float));
        values += end - begin;
    }
}

int64_t allreduce_write_sums(const allreduce *d, const bucket *b, char *target) {
    allreduce_wire wire = d->options.wire;
    int64_t own = allreduce_elements(d, b, d->rank);
    if (wire == ALLREDUCE_INT4) {
        allreduce_bucket_pack(target, d->sums, d->residual_sums + b->own_at, own);
        return allreduce_wire_bytes(wire, own);
    }
    float scale =
        wire == ALLREDUCE_FP16 ? allreduce_bucket_fitting_scale(allreduce_bucket_largest(d->sums, own, 0)) : 1;
    if (wire == ALLREDUCE_FP16) memcpy(target, &scale, sizeof scale);
    allreduce_bucket_narrow(wire, target + allreduce_bucket_header(wire), d->sums, own, scale);
    return allreduce_wire_bytes(wire, own);
}

void allreduce_take(allreduce *d, const bucket *b, int rank, const char *source) {
    allreduce_bucket_widen(d->options.wire, d->widened, source, allreduce_elements(d, b, rank));
    allreduce_spread(d, b, rank, d->widened);
}

bool allreduce_is_complete(const allreduce *d, const bucket *b) {
    for (int i = b->first; i < b->first + b->count; i++)
        if (!d->ready[d->segments[i].tensor]) return false;
    return true;
}
