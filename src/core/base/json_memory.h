/* SPDX-License-Identifier: MIT
 * jansson's memory, and reading JSON when memory may run out.
 */
#ifndef CORE_BASE_JSON_MEMORY_H
#define CORE_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <stddef.h>

/* Like json_loadb, but a lack of memory ends it at once. It then returns NULL, with json_error_out_of_memory in *e and
 * mem_failed set. */
json_t *json_memory_load(const char *data, size_t length, size_t flags, json_error_t *e);

#endif
