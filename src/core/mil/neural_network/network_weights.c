/* SPDX-License-Identifier: MIT
 * Owns the weights of layers: fp32, fp16, or quantised to 1 to 8 bits, linearly or by a table. One idea: all weights
 * become fp32, and no memory is allocated for them before the file has been checked to contain them. Refuses counts
 * that do not match the layer's shape.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/mil/neural_network/interface_program.h"
#include "core/mil/neural_network/network.h"

/* Fields of WeightParams and of the messages inside it. */
enum { FLOATS = 1, HALVES = 2, RAW = 30, INT8 = 31, QUANTISED = 40 };
enum { BITS = 1, LINEAR = 101, TABLE = 102 };
enum { MOST_TABLE = 256 };

typedef struct weights {
    network *n;
    const network_layer *l;
    const char *name;
    int64_t count, inner, channels; /* element i is scaled for channel (i / inner) % channels */
    float *out;
} weights;

static int64_t weights_count(int rank, const int64_t *dims) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 1 || count > ((int64_t)1 << 40) / dims[i]) return 0;
        count *= dims[i];
    }
    return count;
}

static bool weights_wrong(const weights *w, int64_t have) {
    network_fail(w->n, w->l, "its %s has %lld values, but its shape has %lld", w->name, (long long)have,
                 (long long)w->count);
    return false;
}

static bool weights_take(weights *w) {
    w->out = mem_array((size_t)w->count, sizeof *w->out);
    if (!w->out) (void)!propane_fail_memory(&w->n->b.err, (size_t)w->count * sizeof *w->out);
    return w->out != NULL;
}

static bool weights_halves(weights *w, wire_view raw) {
    if ((int64_t)raw.bytes != w->count * 2) return weights_wrong(w, (int64_t)raw.bytes / 2);
    if (!weights_take(w)) return false;
    for (int64_t i = 0; i < w->count; i++)
        w->out[i] = fp16_to_f32((uint16_t)(raw.data[2 * i] | raw.data[2 * i + 1] << 8));
    return true;
}

/* Returns number `index` of `bits` bits. Numbers are packed from the highest bits of each byte down. */
static unsigned weights_bits(wire_view raw, int64_t index, int bits) {
    unsigned out = 0;
    for (int64_t i = index * bits; i < (index + 1) * bits; i++) out = out << 1 | (raw.data[i / 8] >> (7 - i % 8) & 1u);
    return out;
}

static bool weights_table(weights *w, wire_view raw, int bits, wire_view table) {
    float values[MOST_TABLE] = {0};
    if (wire_floats(table, 1, values, MOST_TABLE) != (int64_t)1 << bits) {
        network_fail(w->n, w->l, "the table of its %s must have %d values for %d bits", w->name, 1 << bits, bits);
        return false;
    }
    if (!weights_take(w)) return false;
    for (int64_t i = 0; i < w->count; i++) w->out[i] = values[weights_bits(raw, i, bits)];
    return true;
}

static bool weights_linear(weights *w, wire_view raw, int bits, bool is_signed, wire_view linear) {
    const int64_t scales = wire_floats(linear, 1, NULL, 0), biases = wire_floats(linear, 2, NULL, 0);
    if ((scales != 1 && scales != w->channels) || (biases > 1 && biases != w->channels)) {
        network_fail(
            w->n, w->l,
            "its quantized %s has %lld scales and %lld biases; it must have 1, or one for each of %lld channels",
            w->name, (long long)scales, (long long)biases, (long long)w->channels);
        return false;
    }
    float *both = mem_array((size_t)(scales + biases + 1), sizeof *both);
    if (!both) (void)!propane_fail_memory(&w->n->b.err, 0);
    if (!both || !weights_take(w)) return mem_free(both), false;
    (void)wire_floats(linear, 1, both, scales);
    (void)wire_floats(linear, 2, both + scales, biases);
    for (int64_t i = 0; i < w->count; i++) {
        const int64_t channel = i / w->inner % w->channels;
        const int q = is_signed ? (int)(int8_t)raw.data[i] : (int)weights_bits(raw, i, bits);
        w->out[i] =
            (float)q * both[scales == 1 ? 0 : channel] + (biases ? both[scales + (biases == 1 ? 0 : channel)] : 0);
    }
    mem_free(both);
    return true;
}

static bool weights_quantised(weights *w, wire_view message, wire_view raw, bool is_signed) {
    wire_view how, linear, table;
    (void)wire_part(message, QUANTISED, &how);
    const int64_t bits = is_signed ? 8 : wire_whole(how, BITS, 0);
    if (bits < 1 || bits > 8) {
        network_fail(w->n, w->l, "its %s is quantized to %lld bits; 1 to 8 are supported", w->name, (long long)bits);
        return false;
    }
    if ((int64_t)raw.bytes != (w->count * bits + 7) / 8) return weights_wrong(w, (int64_t)raw.bytes * 8 / bits);
    if (wire_part(how, TABLE, &table)) return weights_table(w, raw, (int)bits, table);
    if (wire_part(how, LINEAR, &linear)) return weights_linear(w, raw, (int)bits, is_signed, linear);
    network_fail(w->n, w->l, "its %s is quantized by an unknown method", w->name);
    return false;
}

static bool weights_floats(weights *w, wire_view message) {
    const int64_t have = wire_floats(message, FLOATS, NULL, 0);
    if (have != w->count) return weights_wrong(w, have);
    if (!weights_take(w)) return false;
    (void)wire_floats(message, FLOATS, w->out, have);
    return true;
}

float *network_numbers(network *n, const network_layer *l, wire_view message, uint32_t number, const char *name,
                       int rank, const int64_t *dims, int channels) {
    wire_view from, raw;
    weights w = {.n = n, .l = l, .name = name, .count = weights_count(rank, dims), .inner = 1, .channels = 1};
    if (network_failed(n)) return NULL;
    (void)wire_part(message, number, &from);
    if (!w.count) {
        network_fail(n, l, "the shape of its %s is invalid", name);
        return NULL;
    }
    for (int i = channels + 1; i < rank; i++) w.inner *= dims[i];
    if (channels < rank) w.channels = dims[channels];
    const bool done = wire_part(from, HALVES, &raw) && raw.bytes ? weights_halves(&w, raw)
                      : wire_part(from, RAW, &raw) && raw.bytes  ? weights_quantised(&w, from, raw, false)
                      : wire_part(from, INT8, &raw) && raw.bytes ? weights_quantised(&w, from, raw, true)
                                                                 : weights_floats(&w, from);
    for (int64_t i = 0; done && i < w.count; i++) /* use a single NaN, which every file format preserves */
        if (isnan(w.out[i])) w.out[i] = NAN;
    if (done) return w.out;
    mem_free(w.out);
    return NULL;
}

const char *network_weight_name(network *n, const network_layer *l, const char *name) {
    char out[100];
    snprintf(out, sizeof out, "%.60s_%.30s", l->name, name);
    const char *legal = interface_name(n->b.module->arena, out);
    return legal ? legal : name;
}

mil_value *network_weights(network *n, const network_layer *l, wire_view message, uint32_t number, const char *name,
                           int rank, const int64_t *dims) {
    float *data = network_numbers(n, l, message, number, name, rank, dims, 0);
    if (!data) return NULL;
    const mil_type type = mil_type_tensor(MIL_fp32, rank, dims);
    mil_value *out = mil_build_const(&n->b, network_weight_name(n, l, name), &type, data);
    mem_free(data);
    return out;
}
