/* SPDX-License-Identifier: MIT
 * Memory: the one place that asks the system for it, so that tests can count, fail and poison.
 */
#ifndef CORE_BASE_MEMORY_H
#define CORE_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "propane.h"

void *mem_alloc(size_t bytes);                /* zeroed; NULL when there is none; bytes 0 gives a unique pointer */
void *mem_array(size_t count, size_t size);   /* zeroed; NULL also when count * size overflows */
void *mem_resize(void *memory, size_t bytes); /* new bytes are not zeroed; NULL leaves the old block alone */
char *mem_copy_string(const char *text);
void mem_free(void *memory);

/* Who is asked instead of the system for all but pages; NULL: the system. False: blocks are alive. */
bool mem_set_allocator(const propane_allocator *allocator);

/* Large, 64-byte aligned, zeroed, with huge pages where the system gives them: for tensors. */
void *mem_pages_alloc(size_t bytes);
void mem_pages_free(void *memory, size_t bytes);

/* Whole pages inside go back to the system; what they held is lost, the memory stays usable. */
void mem_pages_discard(void *memory, size_t bytes);

/* Memory that processes of one user share, zeroed; NULL when there is none. One process makes it under a name ("/x", at
 * most 30 bytes, of nothing that exists), others open it; forgotten, the name is free again and the memory stays where
 * it is open. */
void *mem_shared_make(const char *name, size_t bytes);
void *mem_shared_open(const char *name, size_t bytes);
void mem_shared_forget(const char *name);
void mem_shared_free(void *memory, size_t bytes);

/* Bytes of the machine's memory; 0: not known. */
uint64_t mem_physical(void);
/* `bytes`, a multiple of 1024, are a good part of an L2 of 1 MB: the same part of a core's here, where it is smaller;
 * all of them where it is not, or where its size is not known. Asked of the system once. */
int64_t mem_l2_bytes(int64_t bytes);
/* From now on as if L2 had `bytes` (0: ask the system). For tests that compare plans of several machines. */
void mem_l2_pin(int64_t bytes);

/* A request that failed is remembered by its thread until an error is reported (propane_fail reports a lack of memory,
 * whatever the caller took it for) or it is forgotten. So a NULL that a library of others turned into "not found" or
 * dropped is reported as what it is. True: one failed; *bytes, which may be NULL: how many were asked for. */
bool mem_failed(size_t *bytes);
/* For callers that can do without: a cache, a faster way. */
void mem_forget(void);

/* A request of 16 MB or more is refused where it is more than the machine has to spare now, or where all of them
 * together are more than it ever had to spare: the system would promise the memory and end some process when it is
 * written. mem_spare: what is left. For tests: as if it had `bytes`; 0: as it is. */
uint64_t mem_spare(void);
void mem_spare_pin(uint64_t bytes);

/* How many blocks were asked for since the process began: a step that allocates shows here. */
uint64_t mem_alloc_count(void);
/* How many are there now: what does not come down again leaks. */
int64_t mem_live_count(void);
/* The n-th request from now on fails (0: none does), or it and all after it. For tests; per process. */
void mem_fail_at(uint64_t n);
void mem_fail_from(uint64_t n);
/* Called at each request, by the thread that makes it; NULL: no call. It makes no requests itself. */
void mem_watch(void (*watcher)(void));

#endif
