/* SPDX-License-Identifier: MIT
 * Owns hash maps with numbers or byte strings as keys.
 */
#include "core/base/map.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/memory.h"

static uint64_t map_mix(uint64_t x) {
    x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

void id_map_deinit(id_map *m) {
    mem_free(m->keys);
    mem_free(m->values);
    *m = (id_map){0};
}

/* Finds the slot of a key. Keys are stored as key + 1, and 0 marks a free slot. */
static size_t map_id_place(const id_map *m, uint64_t key) {
    size_t i = (size_t)map_mix(key) & (m->capacity - 1);
    while (m->keys[i] != 0 && m->keys[i] != key + 1) i = (i + 1) & (m->capacity - 1);
    return i;
}

int32_t *id_map_find(const id_map *m, uint64_t key) {
    if (m->capacity == 0) return NULL;
    size_t i = map_id_place(m, key);
    return m->keys[i] ? &m->values[i] : NULL;
}

static bool map_id_grow(id_map *m) {
    id_map larger = {.capacity = m->capacity ? m->capacity * 2 : 64, .count = m->count};
    larger.keys = mem_array(larger.capacity, sizeof *larger.keys);
    larger.values = mem_array(larger.capacity, sizeof *larger.values);
    if (!larger.keys || !larger.values) {
        id_map_deinit(&larger);
        return false;
    }
    for (size_t i = 0; i < m->capacity; i++) {
        if (m->keys[i] == 0) continue;
        size_t j = map_id_place(&larger, m->keys[i] - 1);
        larger.keys[j] = m->keys[i];
        larger.values[j] = m->values[i];
    }
    id_map_deinit(m);
    *m = larger;
    return true;
}

int32_t *id_map_enter(id_map *m, uint64_t key, int32_t initial) {
    if (m->count * 3 >= m->capacity * 2 && !map_id_grow(m)) return NULL;
    size_t i = map_id_place(m, key);
    if (m->keys[i] == 0) {
        m->keys[i] = key + 1;
        m->values[i] = initial;
        m->count++;
    }
    return &m->values[i];
}

void piece_map_deinit(piece_map *m) {
    mem_free(m->texts);
    mem_free(m->lengths);
    mem_free(m->values);
    *m = (piece_map){0};
}

/* The table's address is part of the hash. Names that collide in one process do not collide in another, so nobody can
 * prepare a file that makes the map slow. */
static size_t map_piece_place(const piece_map *m, const char *bytes, size_t length) {
    uint64_t h = map_mix((uint64_t)(uintptr_t)m->texts) ^ length;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    size_t i = (size_t)map_mix(h) & (m->capacity - 1);
    while (m->texts[i] && (m->lengths[i] != length || memcmp(m->texts[i], bytes, length) != 0))
        i = (i + 1) & (m->capacity - 1);
    return i;
}

int32_t *piece_map_find(const piece_map *m, const char *bytes, size_t length) {
    if (m->capacity == 0) return NULL;
    size_t i = map_piece_place(m, bytes, length);
    return m->texts[i] ? &m->values[i] : NULL;
}

int32_t piece_map_index(const piece_map *m, const char *text) {
    const int32_t *at = piece_map_find(m, text, strlen(text));
    return at ? *at : -1;
}

static bool map_piece_grow(piece_map *m) {
    piece_map larger = {.capacity = m->capacity ? m->capacity * 2 : 64, .count = m->count};
    larger.texts = mem_array(larger.capacity, sizeof *larger.texts);
    larger.lengths = mem_array(larger.capacity, sizeof *larger.lengths);
    larger.values = mem_array(larger.capacity, sizeof *larger.values);
    if (!larger.texts || !larger.lengths || !larger.values) {
        piece_map_deinit(&larger);
        return false;
    }
    for (size_t i = 0; i < m->capacity; i++) {
        if (!m->texts[i]) continue;
        size_t j = map_piece_place(&larger, m->texts[i], m->lengths[i]);
        larger.texts[j] = m->texts[i];
        larger.lengths[j] = m->lengths[i];
        larger.values[j] = m->values[i];
    }
    piece_map_deinit(m);
    *m = larger;
    return true;
}

int32_t *piece_map_enter(piece_map *m, const char *bytes, size_t length, int32_t initial) {
    if (m->count * 3 >= m->capacity * 2 && !map_piece_grow(m)) return NULL;
    size_t i = map_piece_place(m, bytes, length);
    if (!m->texts[i]) {
        m->texts[i] = bytes;
        m->lengths[i] = (uint32_t)length;
        m->values[i] = initial;
        m->count++;
    }
    return &m->values[i];
}
