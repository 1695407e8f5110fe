/* SPDX-License-Identifier: MIT
 * Owns constants and tables of nonlinear functions as tasks take them.
 */
#include <string.h>

#include "base/int_math.h"
#include "engine/kernel.h"
#include "engine/lower_parts.h"

int64_t lower_table(emitter *e, const engine_table *table, int lanes) {
    static const char zeros[ENGINE_TABLE_BYTES];
    char bytes[ENGINE_TABLE_BYTES];
    for (int i = 0; i < ENGINE_TABLE_HALVES; i++) {
        bytes[2 * i] = (char)(table->half[i] & 0xff);
        bytes[2 * i + 1] = (char)(table->half[i] >> 8);
    }
    for (size_t at = 0; at + sizeof bytes <= e->constants.length; at += 64)
        if (memcmp(e->constants.data + at, bytes, sizeof bytes) == 0) return (int64_t)at;
    int64_t at = lower_constants(e, bytes, sizeof bytes);
    for (int i = 1; i < lanes; i++) text_append_n(&e->constants, zeros, sizeof zeros);
    return at;
}

int64_t lower_constants(emitter *e, const void *data, size_t bytes) {
    static const char zeros[64];
    if (e->constants.length % 64) text_append_n(&e->constants, zeros, 64 - e->constants.length % 64);
    int64_t at = (int64_t)e->constants.length;
    text_append_n(&e->constants, data, bytes);
    return at;
}
