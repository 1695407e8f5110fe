/* SPDX-License-Identifier: MIT
 * Owns blocks that are all freed together. A large request gets a separate block.
 */
#include "core/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"

typedef struct block {
    struct block *next;
    size_t used, capacity; /* in bytes, without this header */
} block;

struct arena {
    block *blocks; /* the first block is the one being filled */
    size_t bytes;
};

enum { ALIGNMENT = 16, BLOCK_BYTES = 16 << 10 };

static size_t arena_round_up(size_t n) { return (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

static const size_t header_bytes = (sizeof(block) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);

arena *arena_create(void) { return mem_alloc(sizeof(arena)); }

void arena_free(arena *a) {
    if (!a) return;
    for (block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    mem_free(a);
}

static block *arena_block_create(arena *a, size_t capacity) {
    block *b = mem_alloc(header_bytes + capacity);
    if (!b) return NULL;
    b->capacity = capacity;
    a->bytes += header_bytes + capacity;
    return b;
}

void *arena_alloc(arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    size_t size = arena_round_up(bytes ? bytes : 1);
    block *b = a->blocks;
    if (!b || b->capacity - b->used < size) {
        bool alone = size > BLOCK_BYTES / 4;
        b = arena_block_create(a, alone ? size : BLOCK_BYTES);
        if (!b) return NULL;
        if (alone && a->blocks) { /* inserted after the block being filled, which stays first */
            b->next = a->blocks->next;
            a->blocks->next = b;
        } else {
            b->next = a->blocks;
            a->blocks = b;
        }
    }
    void *memory = (char *)b + header_bytes + b->used;
    b->used += size;
    return memory;
}

void *arena_array(arena *a, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    return arena_alloc(a, count * size);
}

void *arena_copy(arena *a, const void *source, size_t bytes) {
    void *memory = arena_alloc(a, bytes);
    if (memory && bytes) memcpy(memory, source, bytes);
    return memory;
}

char *arena_string_n(arena *a, const char *text, size_t length) {
    char *copy = arena_alloc(a, length + 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

char *arena_string(arena *a, const char *text) { return arena_string_n(a, text, strlen(text)); }

char *arena_printf(arena *a, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *out = length < 0 ? NULL : arena_alloc(a, (size_t)length + 1);
    if (out) vsnprintf(out, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return out;
}

size_t arena_bytes(const arena *a) { return a->bytes; }
