/* SPDX-License-Identifier: MIT
 * Owns the checksum. Four lanes consume 8 bytes each in turn. For every input a step is a bijection of the lane, and
 * for every lane a bijection of the input. So two contents that differ in one word leave different lanes. Words are
 * little endian.
 */
#include "core/base/checksum.h"

#include <stdio.h>
#include <string.h>

static inline uint64_t checksum_word(const uint8_t *at) { /* little endian, like every machine that Propane runs on */
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint64_t checksum_step(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * 0x9e3779b97f4a7c15u;
    return lane ^ lane >> 29;
}

/* Processes whole blocks of 32 bytes with the lanes in registers. */
static void checksum_blocks(checksum *c, const uint8_t *at, size_t blocks) {
    uint64_t a = c->lane[0], b = c->lane[1], d = c->lane[2], e = c->lane[3];
    for (; blocks; at += 32, blocks--) {
        a = checksum_step(a, checksum_word(at));
        b = checksum_step(b, checksum_word(at + 8));
        d = checksum_step(d, checksum_word(at + 16));
        e = checksum_step(e, checksum_word(at + 24));
    }
    c->lane[0] = a, c->lane[1] = b, c->lane[2] = d, c->lane[3] = e;
}

void checksum_init(checksum *c) {
    *c = (checksum){.lane = {0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, 0x082efa98ec4e6c89u}};
}

void checksum_update(checksum *c, const void *data, size_t bytes) {
    const uint8_t *at = data;
    size_t held = (size_t)(c->length % 32);
    c->length += bytes;
    if (held) {
        const size_t n = bytes < 32 - held ? bytes : 32 - held;
        memcpy(c->held + held, at, n);
        at += n;
        bytes -= n;
        if (held + n < 32) return;
        checksum_blocks(c, c->held, 1);
    }
    checksum_blocks(c, at, bytes / 32);
    if (bytes % 32) memcpy(c->held, at + bytes / 32 * 32, bytes % 32);
}

void checksum_final(const checksum *given, char out[17]) {
    checksum c = *given;
    const size_t held = (size_t)(c.length % 32);
    memset(c.held + held, 0, 32 - held);
    checksum_blocks(&c, c.held, 1);
    uint64_t sum = checksum_step(c.lane[0], c.length);
    for (int i = 1; i < 4; i++) sum = checksum_step(sum, c.lane[i]);
    snprintf(out, 17, "%016llx", (unsigned long long)sum);
}
