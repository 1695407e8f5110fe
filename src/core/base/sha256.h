/* SPDX-License-Identifier: MIT
 * SHA-256 (FIPS 180-4), which names compiled programs, tokenizers and data files.
 */
#ifndef CORE_BASE_SHA256_H
#define CORE_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
} sha256;

void sha256_init(sha256 *h);
void sha256_update(sha256 *h, const void *data, size_t bytes);
void sha256_final(sha256 *h, uint8_t digest[32]);
void sha256_hex(const uint8_t digest[32], char out[65]);

#endif
