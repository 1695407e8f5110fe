/* SPDX-License-Identifier: MIT
 * Hash maps: open addressing in tables that double.
 */
#ifndef CORE_BASE_MAP_H
#define CORE_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Maps 64-bit keys to 32-bit values. Key UINT64_MAX is not possible. */
typedef struct id_map {
    uint64_t *keys;
    int32_t *values;
    size_t capacity, count; /* capacity: 0 or a power of two */
} id_map;
void id_map_deinit(id_map *m);
/* NULL: not there. */
int32_t *id_map_find(const id_map *m, uint64_t key);
/* The value of a key, entered with `initial` if it is new; NULL: no memory. */
int32_t *id_map_enter(id_map *m, uint64_t key, int32_t initial);

/* Maps byte strings (kept by the caller) to values. */
typedef struct piece_map {
    const char **texts;
    uint32_t *lengths;
    int32_t *values;
    size_t capacity, count;
} piece_map;
void piece_map_deinit(piece_map *m);
int32_t *piece_map_find(const piece_map *m, const char *bytes, size_t length);
/* The value of a text where values are indices; -1: it is not there. */
int32_t piece_map_index(const piece_map *m, const char *text);
int32_t *piece_map_enter(piece_map *m, const char *bytes, size_t length, int32_t initial);

#endif
