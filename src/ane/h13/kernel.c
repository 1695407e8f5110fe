/* SPDX-License-Identifier: MIT
 * Packs and unpacks kernels. Both directions walk the same list of planes, so they cannot disagree.
 */
#include "ane/h13/kernel.h"

#include <string.h>

#include "ane/h13/activation.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

static int kernel_group_planes(const engine_kernel *k, int lane, int64_t group, engine_plane *planes, int count) {
    int64_t channel = 0;
    for (int size = k->interleave; size >= 1 && channel < k->outputs; size /= 2)
        while (k->outputs - channel >= size && (size == 1 || k->outputs - channel >= size * k->lanes)) {
            int64_t first = channel + (int64_t)lane * size, round = (int64_t)size * k->lanes;
            if (first < k->outputs) {
                if (count == ENGINE_PLANES) return -1;
                planes[count++] = (engine_plane){group * k->outputs + first, size};
            }
            channel += round;
        }
    return count;
}

int engine_kernel_planes(const engine_kernel *k, int lane, engine_plane *planes) {
    int count = 0;
    for (int64_t g = 0; count >= 0 && g < k->groups; g++) count = kernel_group_planes(k, lane, g, planes, count);
    return count;
}

/* Returns whether each plane is padded, as in grouped kernels. Otherwise, only lanes are. */
static bool kernel_pads_planes(const engine_kernel *k) { return k->groups > 1; }

/* ---- packing -------------------------------------------------------------------------------------------------------------- */

static void kernel_half(text *out, uint16_t value) {
    const char bytes[2] = {(char)(value & 0xff), (char)(value >> 8)};
    text_append_n(out, bytes, 2);
}

static void kernel_pad(text *out, size_t from, size_t align) {
    static const char zeros[64];
    size_t over = (out->length - from) % align;
    if (over) text_append_n(out, zeros, align - over);
}

static const uint16_t *kernel_row(const engine_kernel *k, const uint16_t *weight, int64_t channel) {
    return weight + channel * k->inputs * k->taps;
}

static void kernel_pack_sparse(const engine_kernel *k, const engine_plane *p, const uint16_t *weight, text *out) {
    static const char zeros[64];
    size_t count_at = out->length, body;
    kernel_half(out, 0);
    body = out->length;
    for (int64_t i = 0; i < k->inputs * k->taps; i++) {
        text_append_n(out, zeros, 1);
        for (int from = 0; from < p->size; from += 8) {
            size_t mask_at = out->length;
            char mask = 0;
            text_append_n(out, zeros, 1);
            for (int j = from; j < p->size && j < from + 8; j++) {
                uint16_t value = kernel_row(k, weight, p->first + j)[i];
                if ((value & 0x7fff) == 0) continue;
                mask = (char)(mask | 1 << (j - from));
                kernel_half(out, value);
            }
            if (!out->failed) out->data[mask_at] = mask;
        }
        if (p->size > 4) text_append_n(out, zeros, (size_t)p->size / 2 - 2);
    }
    body = out->length - body;
    if (!out->failed) out->data[count_at] = (char)(body & 0xff), out->data[count_at + 1] = (char)(body >> 8);
}

static void kernel_pack_plane(const engine_kernel *k, const engine_plane *p, const uint16_t *weight,
                              const uint16_t *bias, text *out) {
    for (int j = 0; k->bias && j < p->size; j++) kernel_half(out, bias[p->first + j]);
    if (k->sparse) {
        kernel_pack_sparse(k, p, weight, out);
        return;
    }
    for (int64_t i = 0; i < k->inputs * k->taps; i++)
        for (int j = 0; j < p->size; j++) kernel_half(out, kernel_row(k, weight, p->first + j)[i]);
}

propane_status engine_kernel_pack(const engine_kernel *k, const uint16_t *weight, const uint16_t *bias,
                                  const uint16_t *table, text *out, int64_t bytes[ENGINE_LANES], propane_error *err) {
    engine_plane *planes = mem_array(ENGINE_PLANES, sizeof *planes);
    propane_status status = planes ? PROPANE_OK : propane_fail_memory(err, ENGINE_PLANES * sizeof *planes);
    for (int lane = 0; !status && lane < k->lanes; lane++) {
        size_t from = out->length;
        int count = engine_kernel_planes(k, lane, planes);
        if (count < 0)
            status = propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%lld outputs in %lld groups need more than %d planes",
                                  (long long)k->outputs, (long long)k->groups, ENGINE_PLANES);
        if (k->table)
            for (int i = 0; i < ENGINE_TABLE_HALVES; i++) kernel_half(out, table[i]);
        for (int i = 0; i < count; i++) {
            size_t at = out->length;
            kernel_pack_plane(k, &planes[i], weight, bias, out);
            if (kernel_pads_planes(k)) kernel_pad(out, at, 64);
        }
        kernel_pad(out, from, 64);
        bytes[lane] = (int64_t)(out->length - from);
    }
    mem_free(planes);
    if (!status && out->failed) status = propane_fail_memory(err, out->length);
    return status;
}

/* ---- unpacking ------------------------------------------------------------------------------------------------------------ */

typedef struct kernel_reader {
    const uint8_t *data;
    int64_t at, size;
    bool failed;
} kernel_reader;

static uint16_t kernel_read(kernel_reader *r) {
    if (r->size - r->at < 2) {
        r->failed = true;
        return 0;
    }
    r->at += 2;
    return (uint16_t)(r->data[r->at - 2] | r->data[r->at - 1] << 8);
}

static int kernel_read_byte(kernel_reader *r) {
    if (r->at < r->size) return r->data[r->at++];
    r->failed = true;
    return 0;
}

static void kernel_unpack_sparse(const engine_kernel *k, const engine_plane *p, kernel_reader *r, uint16_t *weight) {
    kernel_read(r); /* skips the body's length, which follows from the masks */
    for (int64_t i = 0; i < k->inputs * k->taps && !r->failed; i++) {
        kernel_read_byte(r);
        for (int from = 0; from < p->size; from += 8) {
            int mask = kernel_read_byte(r);
            for (int j = from; j < p->size && j < from + 8; j++) {
                uint16_t *to = weight + (p->first + j) * k->inputs * k->taps + i;
                *to = mask >> (j - from) & 1 ? kernel_read(r) : 0;
            }
        }
        for (int j = 0; j < p->size / 2 - 2; j++) kernel_read_byte(r);
    }
}

static void kernel_unpack_plane(const engine_kernel *k, const engine_plane *p, kernel_reader *r, uint16_t *weight,
                                uint16_t *bias) {
    for (int j = 0; j < p->size; j++) bias[p->first + j] = k->bias ? kernel_read(r) : 0;
    if (k->sparse) {
        kernel_unpack_sparse(k, p, r, weight);
        return;
    }
    for (int64_t i = 0; i < k->inputs * k->taps && !r->failed; i++)
        for (int j = 0; j < p->size; j++) weight[(p->first + j) * k->inputs * k->taps + i] = kernel_read(r);
}

propane_status engine_kernel_unpack(const engine_kernel *k, const uint8_t *const lane[ENGINE_LANES],
                                    const int64_t size[ENGINE_LANES], uint16_t *weight, uint16_t *bias,
                                    propane_error *err) {
    engine_plane *planes = mem_array(ENGINE_PLANES, sizeof *planes);
    propane_status status = planes ? PROPANE_OK : propane_fail_memory(err, ENGINE_PLANES * sizeof *planes);
    for (int i = 0; !status && i < k->lanes; i++) {
        int count = engine_kernel_planes(k, i, planes);
        kernel_reader r = {lane[i], k->table ? ENGINE_TABLE_BYTES : 0, size[i], count < 0};
        for (int p = 0; p < count && !r.failed; p++) {
            int64_t at = r.at;
            kernel_unpack_plane(k, &planes[p], &r, weight, bias);
            if (kernel_pads_planes(k)) r.at = at + round_up(r.at - at, 64);
        }
        if (r.failed)
            status =
                propane_fail(err, PROPANE_ERR_INVALID,
                             "kernel of lane %d: %lld bytes are too few for %lld outputs, %lld inputs and %lld taps", i,
                             (long long)size[i], (long long)k->outputs, (long long)k->inputs, (long long)k->taps);
    }
    mem_free(planes);
    return status;
}
