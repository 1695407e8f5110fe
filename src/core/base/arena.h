/* SPDX-License-Identifier: MIT
 * Arena: memory that is freed all at once. There is one per module, plan or configuration.
 */
#ifndef CORE_BASE_ARENA_H
#define CORE_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

typedef struct arena arena;

arena *arena_create(void); /* NULL if memory runs out */
void arena_free(arena *a);
void *arena_alloc(arena *a, size_t bytes);              /* zeroed, 16-byte aligned; NULL if memory runs out */
void *arena_array(arena *a, size_t count, size_t size); /* also NULL if count * size overflows */
void *arena_copy(arena *a, const void *source, size_t bytes);
char *arena_string(arena *a, const char *text);
char *arena_string_n(arena *a, const char *text, size_t length);
char *arena_printf(arena *a, const char *format, ...) BASE_PRINTF(2, 3);
size_t arena_bytes(const arena *a); /* bytes requested from the system */

#define ARENA_NEW(a, type)          ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, count, type) ((type *)arena_array((a), (size_t)(count), sizeof(type)))

#endif
