/* SPDX-License-Identifier: MIT
 * Owns the memory that jansson asks for. It comes from core/base/memory.h, so that it is counted and a request that fails is
 * remembered. jansson 2.14 goes on where memory is missing: its reader drops a byte of a long text and then ends the process by
 * an assertion. So a request that fails while something is read leaves the reader at once (longjmp), and what it had taken by
 * then is given back: all that was taken and given is noted, 8 bytes each, for as long as the reading takes.
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
    uintptr_t *notes; /* blocks taken, and (the lowest bit set) given back */
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
    if (r && block && !json_memory_note(r, (uintptr_t)block | 1)) longjmp(r->out, 1); /* still noted as taken */
    mem_free(block);
}

/* Before main, so that no value has memory of another kind; a program that sets functions of its own after it may. */
__attribute__((constructor)) static void json_memory_begin(void) {
    json_set_alloc_funcs(json_memory_take, json_memory_give);
}

static int json_memory_order(const void *a, const void *b) {
    const uintptr_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* What was taken once more often than given back is still there: an address may have been several blocks one after another. */
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

/* Here alone may a jump end: nothing that changes lies in this function's own variables. */
static json_t *json_memory_read(json_reading *r, const char *data, size_t length, size_t flags, json_error_t *e) {
    if (setjmp(r->out) == 0) return json_loadb(data, length, flags, e);
    json_memory_reading = NULL;
    json_memory_give_all(r);
    *e = (json_error_t){.line = -1, .column = -1};
    e->text[sizeof e->text - 1] = (char)json_error_out_of_memory; /* where json_error_code looks for it */
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
