/* SPDX-License-Identifier: MIT
 * All memory is requested through these functions, so that tests can count the requests, make them fail, and poison the
 * blocks.
 */
#ifndef CORE_BASE_MEMORY_H
#define CORE_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "propane.h"

void *mem_alloc(size_t bytes);                /* zeroed; NULL if memory runs out; 0 bytes returns a unique pointer */
void *mem_array(size_t count, size_t size);   /* zeroed; also NULL if count * size overflows */
void *mem_resize(void *memory, size_t bytes); /* new bytes are not zeroed; on NULL the old block is unchanged */
char *mem_copy_string(const char *text);
void mem_free(void *memory);

/* Replaces the system's allocator for everything but pages and shared memory; NULL restores it. Returns false if blocks
 * are still allocated. */
bool mem_set_allocator(const propane_allocator *allocator);

/* Allocates large, 64-byte aligned, zeroed memory for tensors, with huge pages if the system provides them. */
void *mem_pages_alloc(size_t bytes);
void mem_pages_free(void *memory, size_t bytes);

/* On Linux, gives the whole pages inside the memory back to the system. Their content is lost, but the memory stays
 * usable. */
void mem_pages_discard(void *memory, size_t bytes);

/* Memory shared by processes of one user. One process makes it, zeroed, under an unused name ("/x", at most 30 bytes),
 * and others open it; both calls return NULL on failure. mem_shared_forget frees the name, but the memory stays valid
 * in each process until mem_shared_free. */
void *mem_shared_make(const char *name, size_t bytes);
void *mem_shared_open(const char *name, size_t bytes);
void mem_shared_forget(const char *name);
void mem_shared_free(void *memory, size_t bytes);

/* Returns the machine's memory in bytes, or 0 if it is unknown. */
uint64_t mem_physical(void);
/* Scales `bytes`, a multiple of 1024 chosen for an L2 cache of 1 MB, to the L2 cache of this machine, but at least to a
 * quarter. Returns `bytes` unchanged if the cache is not smaller than 1 MB or its size is unknown. Queries the system
 * once. */
int64_t mem_l2_bytes(int64_t bytes);
/* Makes mem_l2_bytes assume an L2 cache of `bytes` bytes; 0 queries the system again. For tests that compare plans for
 * several machines. */
void mem_l2_pin(int64_t bytes);

/* Returns true if a request of this thread failed, and sets *bytes to its size; bytes may be NULL. A failed request is
 * remembered until an error is reported or mem_forget is called. Until then, propane_fail reports a lack of memory
 * instead of the caller's error, because a third-party library may have dropped the NULL or turned it into "not
 * found". */
bool mem_failed(size_t *bytes);
/* Forgets a failed request, for callers that can do without the memory, such as a cache or a faster method. */
void mem_forget(void);

/* A request of 16 MB or more is refused if it exceeds what the machine can spare now. It is also refused if the sum of
 * all such blocks would exceed the most that the machine ever could spare. Otherwise the system would promise the
 * memory and kill some process when the memory is written. mem_spare returns what is left. mem_spare_pin is for tests:
 * it fixes the amount at `bytes` (0 means the real amount). */
uint64_t mem_spare(void);
void mem_spare_pin(uint64_t bytes);

/* Returns how many blocks were requested since the process began. Shows whether a step allocates. */
uint64_t mem_alloc_count(void);
/* Returns how many blocks exist now. A count that does not come down again shows a leak. */
int64_t mem_live_count(void);
/* Make the n-th request from now fail (mem_fail_at), or that one and all later ones (mem_fail_from); 0 means none. For
 * tests; they affect all threads. */
void mem_fail_at(uint64_t n);
void mem_fail_from(uint64_t n);
/* Sets a function that the requesting thread calls at each request; NULL means none. The function must not request
 * memory. */
void mem_watch(void (*watcher)(void));

#endif
