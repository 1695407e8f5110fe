/* SPDX-License-Identifier: MIT
 * Owns the checksum. Four lanes take 8 bytes each in turn; a step is a bijection of the lane for every input and of the input
 * for every lane, so two contents that differ in one place leave different lanes behind. Words are little endian.
 */
#include "core/base/checksum.h"

#include <stdio.h>
#include <string.h>

static uint64_t checksum_word(const uint8_t *at) {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) word |= (uint64_t)at[i] << (8 * i);
    return word;
}

static uint64_t checksum_step(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * 0x9e3779b97f4a7c15u;
    return lane ^ lane >> 29;
}

static void checksum_block(checksum *c, const uint8_t *at) {
    for (int i = 0; i < 4; i++) c->lane[i] = checksum_step(c->lane[i], checksum_word(at + 8 * i));
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
        checksum_block(c, c->held);
    }
    for (; bytes >= 32; at += 32, bytes -= 32) checksum_block(c, at);
    if (bytes) memcpy(c->held, at, bytes);
}

void checksum_final(const checksum *given, char out[17]) {
    checksum c = *given;
    const size_t held = (size_t)(c.length % 32);
    memset(c.held + held, 0, 32 - held);
    checksum_block(&c, c.held);
    uint64_t sum = checksum_step(c.lane[0], c.length);
    for (int i = 1; i < 4; i++) sum = checksum_step(sum, c.lane[i]);
    snprintf(out, 17, "%016llx", (unsigned long long)sum);
}
