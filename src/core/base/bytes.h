/* SPDX-License-Identifier: MIT
 * Reads and writes little-endian integers at any alignment. The caller has checked that the bytes exist.
 */
#ifndef CORE_BASE_BYTES_H
#define CORE_BASE_BYTES_H

#include <stdint.h>

static inline uint32_t bytes_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t bytes_u64(const uint8_t *at) { return bytes_u32(at) | (uint64_t)bytes_u32(at + 4) << 32; }

static inline void bytes_put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static inline void bytes_put_u64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

#endif
