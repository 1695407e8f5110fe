/* SPDX-License-Identifier: MIT
 * Parses JSON safely when memory may run out, and supplies jansson's memory.
 */
#ifndef CORE_BASE_JSON_MEMORY_H
#define CORE_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <stddef.h>

/* Like json_loadb, but stops at once when memory runs out. Then returns NULL with json_error_out_of_memory in *e (e may
 * be NULL), and mem_failed returns true. */
json_t *json_memory_load(const char *data, size_t length, size_t flags, json_error_t *e);

#endif
