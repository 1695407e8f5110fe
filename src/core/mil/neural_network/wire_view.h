/* SPDX-License-Identifier: MIT
 * Reads messages of a protocol buffer in place, field by field. The older kinds of Core ML models are read this way,
 * because their hundred and fifty layers have a message each. Only numbers and text are copied. A message that ends
 * early reads as if it ended before the broken field, and *broken becomes true; the caller checks *broken once, at the
 * end of a layer.
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
    int kind;        /* as on the wire: 0 is a number, 1 and 5 are eight and four bytes, 2 is a part */
    uint64_t bits;
    wire_view part;
} wire_item;

/* Reads the next field; *rest then begins after that field. Returns false if there is none. */
bool wire_next(wire_view *rest, wire_item *out);

/* Returns the last field with that number, as in any protocol buffer, or `standard` if there is none. */
int64_t wire_whole(wire_view message, uint32_t number, int64_t standard);
double wire_real(wire_view message, uint32_t number, double standard);
/* Reads the last nested message with that number; returns false, with *out empty, if there is none. */
bool wire_part(wire_view message, uint32_t number, wire_view *out);
/* Returns a terminated copy of a text in the arena, "" if there is none, or NULL if memory runs out. */
const char *wire_text(arena *a, wire_view message, uint32_t number);
/* Reads the next nested message with that number; *rest then begins after that message. Returns false if there
 * is none. */
bool wire_each(wire_view *rest, uint32_t number, wire_view *out);
int wire_count(wire_view message, uint32_t number);
/* Reads repeated integers and returns their number. If there are more than `most`, *broken becomes true. */
int wire_wholes(wire_view message, uint32_t number, int64_t *out, int most);
/* Reads repeated floats and returns their number; stores the first `room` of them in `out`. */
int64_t wire_floats(wire_view message, uint32_t number, float *out, int64_t room);
int64_t wire_doubles(wire_view message, uint32_t number, double *out, int64_t room);

#endif
