/* SPDX-License-Identifier: MIT
 * Messages of a protocol buffer read where they are, field by field: for the older kinds of Core ML models, whose
 * hundred and fifty layers have a message each. Nothing is copied but numbers. A message that ends early reads as if it
 * ended in front of the broken field, and *broken becomes true; the caller looks once, at the end of a layer.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_WIRE_VIEW_H
#define CORE_MIL_NEURAL_NETWORK_WIRE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

typedef struct wire_view {
    const uint8_t *data;
    size_t bytes;
    bool *broken;
} wire_view;

typedef struct wire_item {
    uint32_t number; /* of the field */
    int kind;        /* as on the wire: 0 a number, 1 and 5 eight and four bytes, 2 a part */
    uint64_t bits;
    wire_view part;
} wire_item;

/* The next field; *rest begins after it. False: there is none. */
bool wire_next(wire_view *rest, wire_item *out);

/* The last field of a number counts, as in any protocol buffer; without one `standard` does. */
int64_t wire_whole(wire_view message, uint32_t number, int64_t standard);
double wire_real(wire_view message, uint32_t number, double standard);
bool wire_part(wire_view message, uint32_t number, wire_view *out); /* false: there is none, and *out is empty */
/* Terminated, in the arena; "" where there is none; NULL: no memory. */
const char *wire_text(arena *a, wire_view message, uint32_t number);
/* The next part of that number; *rest begins after it. */
bool wire_each(wire_view *rest, uint32_t number, wire_view *out);
int wire_count(wire_view message, uint32_t number);
/* Repeated numbers. More than `most` break the message. */
int wire_wholes(wire_view message, uint32_t number, int64_t *out, int most);
/* Repeated floats: how many there are; the first `room` of them go to `out`. */
int64_t wire_floats(wire_view message, uint32_t number, float *out, int64_t room);
int64_t wire_doubles(wire_view message, uint32_t number, double *out, int64_t room);

#endif
