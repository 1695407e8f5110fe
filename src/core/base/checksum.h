/* SPDX-License-Identifier: MIT
 * A 64-bit checksum against accidental damage, not against attackers. Any single changed byte changes the checksum, and
 * missing bytes almost certainly do.
 */
#ifndef CORE_BASE_CHECKSUM_H
#define CORE_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct checksum {
    uint64_t lane[4];
    uint64_t length;
    uint8_t held[32];
} checksum;

void checksum_init(checksum *c);
void checksum_update(checksum *c, const void *data, size_t bytes);
/* Writes the checksum as 16 hexadecimal digits and a terminator. */
void checksum_final(const checksum *c, char out[17]);

#endif
