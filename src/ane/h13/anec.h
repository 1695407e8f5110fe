/* SPDX-License-Identifier: MIT
 * Lists byte offsets in the header of an .anec file. All numbers are little endian and aligned to their size.
 */
#ifndef ANE_H13_ANEC_H
#define ANE_H13_ANEC_H

enum {
    ANEC_SIZE = 0,           /* u64: bytes of the payload */
    ANEC_FIRST = 8,          /* u32: bytes of the first task */
    ANEC_COUNT = 12,         /* u32: number of tasks */
    ANEC_TEXT = 16,          /* u64: bytes of all tasks */
    ANEC_CONSTANTS = 24,     /* u64: bytes of constants */
    ANEC_SOURCES = 32,       /* u32: surfaces that are read */
    ANEC_RESULTS = 36,       /* u32: surfaces that are written */
    ANEC_TILES = 40,         /* u32[32]: size of each base register's buffer, in pages of 0x4000 bytes; 0 if none */
    ANEC_NCHW = 168,         /* u64[32][6]: N, C, H, W, bytes of a plane, bytes of a row */
    ANEC_HEADER = 1704,      /* bytes of the header */
    ANEC_PAYLOAD = 0x1000,   /* offset of the payload in files of today's tools */
    ANEC_PAYLOAD_OLD = 0x800 /* offset at which the driver's library reads the payload */
};

#endif
