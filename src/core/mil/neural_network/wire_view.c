/* SPDX-License-Identifier: MIT
 * Owns reading a protocol buffer in place. One idea: every getter walks the message's fields, so no order is assumed,
 * and no length is trusted before it has been checked.
 */
#include "core/mil/neural_network/wire_view.h"

#include <string.h>

static bool wire_view_break(wire_view *rest) {
    *rest->broken = true;
    rest->bytes = 0;
    return false;
}

static bool wire_view_number(wire_view *rest, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 70 && rest->bytes; shift += 7) {
        const uint8_t byte = *rest->data++;
        rest->bytes--;
        if (shift < 64) *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return wire_view_break(rest);
}

static uint64_t wire_view_little(const uint8_t *data, int bytes) {
    uint64_t out = 0;
    for (int i = 0; i < bytes; i++) out |= (uint64_t)data[i] << (8 * i);
    return out;
}

bool wire_next(wire_view *rest, wire_item *out) {
    uint64_t tag = 0, bytes = 0;
    if (!rest->bytes || !wire_view_number(rest, &tag)) return false;
    *out = (wire_item){.number = (uint32_t)(tag >> 3), .kind = (int)(tag & 7), .part.broken = rest->broken};
    if (out->kind == 0) return wire_view_number(rest, &out->bits);
    if (out->kind == 2 && !wire_view_number(rest, &bytes)) return false;
    if (out->kind == 1 || out->kind == 5) bytes = out->kind == 1 ? 8 : 4;
    if (!bytes && out->kind != 2) return wire_view_break(rest);
    if (bytes > rest->bytes) return wire_view_break(rest);
    out->part.data = rest->data;
    out->part.bytes = (size_t)bytes;
    if (out->kind != 2) out->bits = wire_view_little(rest->data, (int)bytes);
    rest->data += bytes;
    rest->bytes -= (size_t)bytes;
    return true;
}

int64_t wire_whole(wire_view message, uint32_t number, int64_t standard) {
    for (wire_item item; wire_next(&message, &item);)
        if (item.number == number && item.kind == 0) standard = (int64_t)item.bits;
    return standard;
}

static float wire_view_float(uint64_t bits) {
    const uint32_t half = (uint32_t)bits;
    float out;
    memcpy(&out, &half, sizeof out);
    return out;
}

static double wire_view_double(uint64_t bits) {
    double out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

double wire_real(wire_view message, uint32_t number, double standard) {
    for (wire_item item; wire_next(&message, &item);) {
        if (item.number == number && item.kind == 5) standard = (double)wire_view_float(item.bits);
        if (item.number == number && item.kind == 1) standard = wire_view_double(item.bits);
    }
    return standard;
}

bool wire_part(wire_view message, uint32_t number, wire_view *out) {
    bool there = false;
    *out = (wire_view){.broken = message.broken};
    for (wire_item item; wire_next(&message, &item);) {
        if (item.number != number || item.kind != 2) continue;
        *out = item.part;
        there = true;
    }
    return there;
}

const char *wire_text(arena *a, wire_view message, uint32_t number) {
    wire_view part;
    if (!wire_part(message, number, &part)) return "";
    char *out = arena_alloc(a, part.bytes + 1);
    if (!out) return NULL;
    memcpy(out, part.data, part.bytes);
    out[part.bytes] = 0;
    return out;
}

bool wire_each(wire_view *rest, uint32_t number, wire_view *out) {
    for (wire_item item; wire_next(rest, &item);) {
        if (item.number != number || item.kind != 2) continue;
        *out = item.part;
        return true;
    }
    return false;
}

int wire_count(wire_view message, uint32_t number) {
    int count = 0;
    for (wire_view part; wire_each(&message, number, &part);) count++;
    return count;
}

/* Accepts both encodings of a repeated field: packed, as writers produce it, or one field per value. */
int wire_wholes(wire_view message, uint32_t number, int64_t *out, int most) {
    int count = 0;
    bool *broken = message.broken;
    for (wire_item item; wire_next(&message, &item);) {
        if (item.number != number || (item.kind != 0 && item.kind != 2)) continue;
        if (item.kind == 0) {
            if (count == most) return *broken = true, count;
            out[count++] = (int64_t)item.bits;
        }
        while (item.kind == 2 && item.part.bytes) {
            uint64_t one = 0;
            if (!wire_view_number(&item.part, &one)) return count;
            if (count == most) return *broken = true, count;
            out[count++] = (int64_t)one;
        }
    }
    return count;
}

int64_t wire_floats(wire_view message, uint32_t number, float *out, int64_t room) {
    int64_t count = 0;
    for (wire_item item; wire_next(&message, &item);) {
        if (item.number != number || (item.kind != 5 && item.kind != 2)) continue;
        for (size_t i = 0; i + 4 <= item.part.bytes; i += 4, count++)
            if (count < room) out[count] = wire_view_float(wire_view_little(item.part.data + i, 4));
    }
    return count;
}

int64_t wire_doubles(wire_view message, uint32_t number, double *out, int64_t room) {
    int64_t count = 0;
    for (wire_item item; wire_next(&message, &item);) {
        if (item.number != number || (item.kind != 1 && item.kind != 2)) continue;
        for (size_t i = 0; i + 8 <= item.part.bytes; i += 8, count++)
            if (count < room) out[count] = wire_view_double(wire_view_little(item.part.data + i, 8));
    }
    return count;
}
