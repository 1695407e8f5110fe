/* SPDX-License-Identifier: MIT
 * Owns the memory that jansson uses. The memory comes from core/base/memory.h, so that requests are counted and
 * failures are remembered. When memory runs out, jansson 2.14 does not stop reading: it drops a byte of a long text and
 * then aborts in an assertion. So a request that fails during reading leaves the reader at once by longjmp, and
 * everything that the reader has allocated is freed. For that purpose, each allocation and each free during reading is
 * noted in 8 bytes.
 */
#include "core/base/json_memory.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/memory.h"

typedef struct json_reading {
    jmp_buf out;
    uintptr_t *notes; /* blocks allocated and, with the lowest bit set, freed */
    size_t count;
} json_reading;

static _Thread_local json_reading *json_memory_reading;

static bool json_memory_note(json_reading *r, uintptr_t note) {
    uintptr_t *larger = ARRAY_MORE(r->notes, r->count, NULL);
    if (!larger) return false;
    r->notes = larger;
    r->notes[r->count++] = note;
    return true;
}

static void *json_memory_take(size_t bytes) {
    json_reading *r = json_memory_reading;
    void *block = mem_alloc(bytes);
    if (!r) return block;
    if (block && json_memory_note(r, (uintptr_t)block)) return block;
    mem_free(block);
    longjmp(r->out, 1);
}

static void json_memory_give(void *block) {
    json_reading *r = json_memory_reading;
    /* If the note fails, the block is freed after the longjmp, because it is still noted as allocated. */
    if (r && block && !json_memory_note(r, (uintptr_t)block | 1)) longjmp(r->out, 1);
    mem_free(block);
}

/* Runs before main, so that every value uses this memory. A program may set other functions later. */
__attribute__((constructor)) static void json_memory_begin(void) {
    json_set_alloc_funcs(json_memory_take, json_memory_give);
}

static int json_memory_order(const void *a, const void *b) {
    const uintptr_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Frees every block that was allocated once more often than freed. One address may have been several blocks in turn. */
static void json_memory_give_all(json_reading *r) {
    if (r->count) qsort(r->notes, r->count, sizeof *r->notes, json_memory_order);
    for (size_t i = 0, next; i < r->count; i = next) {
        const uintptr_t block = r->notes[i] & ~(uintptr_t)1;
        size_t taken = 0, given = 0;
        for (next = i; next < r->count && (r->notes[next] | 1) == (block | 1); next++)
            r->notes[next] & 1 ? given++ : taken++;
        union {
            uintptr_t number;
            void *memory;
        } at = {block};
        if (taken > given) mem_free(at.memory);
    }
}

/* The longjmp lands in this function, which therefore has no local variables that change. */
static json_t *json_memory_read(json_reading *r, const char *data, size_t length, size_t flags, json_error_t *e) {
    if (setjmp(r->out) == 0) return json_loadb(data, length, flags, e);
    json_memory_reading = NULL;
    json_memory_give_all(r);
    *e = (json_error_t){.line = -1, .column = -1};
    e->text[sizeof e->text - 1] = (char)json_error_out_of_memory; /* the place where json_error_code looks for it */
    return NULL;
}

json_t *json_memory_load(const char *data, size_t length, size_t flags, json_error_t *e) {
    json_error_t unused;
    json_reading r = {.notes = NULL};
    json_memory_reading = &r;
    json_t *value = json_memory_read(&r, data, length, flags, e ? e : &unused);
    json_memory_reading = NULL;
    mem_free(r.notes);
    return value;
}
