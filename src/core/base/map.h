/* SPDX-License-Identifier: MIT
 * Hash maps with open addressing in tables that double in size.
 */
#ifndef CORE_BASE_MAP_H
#define CORE_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Maps 64-bit keys to 32-bit values. The key UINT64_MAX is not allowed. */
typedef struct id_map {
    uint64_t *keys;
    int32_t *values;
    size_t capacity, count; /* capacity: 0 or a power of two */
} id_map;
void id_map_deinit(id_map *m);
/* Returns NULL if the key is absent. */
int32_t *id_map_find(const id_map *m, uint64_t key);
/* Returns the value of a key, which is entered with the value `initial` if it is new. Returns NULL if memory runs out.
 * The pointer is valid until the next key is entered. */
int32_t *id_map_enter(id_map *m, uint64_t key, int32_t initial);

/* Maps byte strings to 32-bit values. The map stores pointers to the strings, which the caller owns. */
typedef struct piece_map {
    const char **texts;
    uint32_t *lengths;
    int32_t *values;
    size_t capacity, count;
} piece_map;
void piece_map_deinit(piece_map *m);
int32_t *piece_map_find(const piece_map *m, const char *bytes, size_t length);
/* Returns the value of a text, or -1 if the text is absent, for maps whose values are indices. */
int32_t piece_map_index(const piece_map *m, const char *text);
int32_t *piece_map_enter(piece_map *m, const char *bytes, size_t length, int32_t initial);

#endif
