/* SPDX-License-Identifier: MIT
 * Owns every request for memory. Counts the requests, and can make the n-th fail. Each thread stores the size of its
 * last failed request that has not been reported.
 */
#include "core/base/memory.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __APPLE__
#include <malloc/malloc.h>
#include <sys/sysctl.h>
#elif defined(__linux__)
#include <malloc.h>
#endif
#include <unistd.h>

static atomic_uint_fast64_t requests;
static atomic_uint_fast64_t fail_at;

static void (*_Atomic memory_watcher)(void);
static atomic_int_fast64_t memory_live;
static atomic_bool memory_fail_on;              /* also fails the requests after fail_at */
static _Thread_local size_t memory_failed_size; /* size of the failed request, plus one; 0 if none failed */

/* Counts a request. Returns false if a test has chosen this request to fail. */
static bool memory_count(void) {
    void (*watcher)(void) = atomic_load_explicit(&memory_watcher, memory_order_relaxed);
    if (watcher) watcher();
    uint64_t n = atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (at == 0 || n < at) return true;
    return n > at && !atomic_load_explicit(&memory_fail_on, memory_order_relaxed);
}

/* ---- limits of large blocks -------------------------------------------------------------------------------------- */

enum { MEMORY_LARGE = 16 << 20 };
static atomic_uint_fast64_t memory_spare;        /* bytes, the highest value seen; 0 before the first look */
static atomic_bool memory_pinned;                /* a test has fixed the amount */
static atomic_uint_fast64_t memory_large_in_use; /* bytes of large blocks */

/* Returns the number after a word in a small system file, or 0 if the file or the word is missing. */
static uint64_t memory_number_in(const char *path, const char *word) {
    char line[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return 0;
    line[n] = 0;
    const char *at = strstr(line, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

/* Returns how many bytes the system could provide now. On Linux that includes memory that can be reclaimed, and swap,
 * up to the limit of the control group. Returns UINT64_MAX if nothing is known. */
static uint64_t memory_look(void) {
    uint64_t spare =
        1024 * (memory_number_in("/proc/meminfo", "MemAvailable:") + memory_number_in("/proc/meminfo", "SwapFree:"));
    const uint64_t limit = memory_number_in("/sys/fs/cgroup/memory.max", "");
    const uint64_t used = memory_number_in("/sys/fs/cgroup/memory.current", "");
    if (!spare) spare = mem_physical();
    if (limit && (limit > used ? limit - used : 1) < spare) spare = limit > used ? limit - used : 1;
    return spare ? spare : UINT64_MAX;
}

/* Returns the limit for the sum of all large blocks. That is the most spare memory ever seen, because the system no
 * longer counts this process's own blocks as available. Sets *now to what the system could provide at this moment,
 * which also depends on other processes. */
static uint64_t memory_look_again(uint64_t *now) {
    uint64_t spare = atomic_load(&memory_spare);
    *now = spare;
    if (atomic_load(&memory_pinned)) return spare;
    *now = memory_look();
    while (*now > spare && !atomic_compare_exchange_weak(&memory_spare, &spare, *now)) {
    }
    return *now > spare ? *now : spare;
}

/* Reserves `bytes` in the sum of the large blocks, or returns false if the block would exceed a limit. memory_give_back
 * undoes the reservation. */
static bool memory_take_large(size_t bytes) {
    if (bytes < MEMORY_LARGE) return true;
    uint64_t now;
    const uint64_t spare = memory_look_again(&now);
    if (atomic_fetch_add(&memory_large_in_use, bytes) + bytes <= spare && bytes <= now) return true;
    atomic_fetch_sub(&memory_large_in_use, bytes);
    return false;
}

static void memory_give_back(size_t bytes) {
    if (bytes >= MEMORY_LARGE) atomic_fetch_sub(&memory_large_in_use, bytes);
}

static propane_allocator memory_hook; /* allocate is NULL for the system's allocator */

/* Returns the real size of a malloc block, or 0 if it is unknown. memory_settle adds the same size that mem_free
 * subtracts. */
static size_t memory_size_of(void *memory) {
    if (memory_hook.allocate) return 0;
#ifdef __APPLE__
    return memory ? malloc_size(memory) : 0;
#elif defined(__linux__)
    return memory ? malloc_usable_size(memory) : 0;
#else
    return 0;
#endif
}

uint64_t mem_spare(void) {
    uint64_t now;
    const uint64_t spare = memory_look_again(&now), used = atomic_load(&memory_large_in_use);
    const uint64_t left = spare > used ? spare - used : 0;
    return left < now ? left : now;
}

void mem_spare_pin(uint64_t bytes) {
    atomic_store(&memory_spare, bytes);
    atomic_store(&memory_pinned, bytes > 0);
}

/* Replaces the reservation of `bytes` with the real size of the block, which may be NULL. Returns the block. */
static void *memory_settle(void *block, size_t bytes) {
    const size_t own = memory_size_of(block);
    if (own >= MEMORY_LARGE) atomic_fetch_add(&memory_large_in_use, own);
    memory_give_back(bytes);
    return block;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void *memory_checked(void *memory, size_t bytes) {
    if (!memory)
        memory_failed_size = bytes < SIZE_MAX ? bytes + 1 : bytes;
    else
        atomic_fetch_add_explicit(&memory_live, 1, memory_order_relaxed);
    return memory;
}

static void memory_drop(void) { atomic_fetch_sub_explicit(&memory_live, 1, memory_order_relaxed); }

bool mem_failed(size_t *bytes) {
    if (bytes) *bytes = memory_failed_size ? memory_failed_size - 1 : 0;
    return memory_failed_size > 0;
}

void mem_forget(void) { memory_failed_size = 0; }

bool mem_set_allocator(const propane_allocator *allocator) {
    if (mem_live_count() != 0) return false;
    memory_hook = allocator ? *allocator : (propane_allocator){0};
    return true;
}

static void *memory_new(size_t bytes) {
    if (!memory_hook.allocate) return calloc(1, bytes);
    void *block = memory_hook.allocate(memory_hook.context, bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

static void *memory_resized(void *memory, size_t bytes) {
    return memory_hook.allocate ? memory_hook.resize(memory_hook.context, memory, bytes) : realloc(memory, bytes);
}

void *mem_alloc(size_t bytes) {
    const bool granted = memory_count() && memory_take_large(bytes);
    return memory_checked(granted ? memory_settle(memory_new(bytes ? bytes : 1), bytes) : NULL, bytes);
}

void *mem_array(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return memory_checked(NULL, SIZE_MAX);
    return mem_alloc(count * size);
}

void *mem_resize(void *memory, size_t bytes) {
    const size_t old = memory_size_of(memory);
    const size_t taken = bytes > old ? bytes : 0; /* both blocks exist for a moment */
    const bool granted = memory_count() && memory_take_large(taken);
    void *larger =
        memory_checked(granted ? memory_settle(memory_resized(memory, bytes ? bytes : 1), taken) : NULL, bytes);
    if (!larger || !memory) return larger;
    memory_give_back(old);
    memory_drop();
    return larger;
}

char *mem_copy_string(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

void mem_free(void *memory) {
    if (!memory) return;
    memory_give_back(memory_size_of(memory));
    memory_drop();
    if (memory_hook.allocate)
        memory_hook.release(memory_hook.context, memory);
    else
        free(memory);
}

#define HUGE_PAGE ((size_t)2 << 20)

void *mem_pages_alloc(size_t bytes) {
    if (!memory_count() || bytes > SIZE_MAX - HUGE_PAGE || !memory_take_large(bytes))
        return memory_checked(NULL, bytes);
    if (bytes == 0) bytes = 1;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED) {
        memory_give_back(bytes);
        return memory_checked(NULL, bytes);
    }
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory_checked(memory, bytes);
}

void mem_pages_free(void *memory, size_t bytes) {
    if (!memory) return;
    memory_give_back(bytes);
    memory_drop();
    munmap(memory, bytes ? bytes : 1);
}

void mem_pages_discard(void *memory, size_t bytes) {
#ifdef __linux__
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)memory + bytes) / page * page;
    if (end > begin) (void)madvise((char *)memory + (begin - (uintptr_t)memory), end - begin, MADV_DONTNEED);
#else
    (void)memory;
    (void)bytes;
#endif
}

static void *memory_map_shared(int file, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Sets the size of shared memory and, except on macOS, reserves all of it. If memory were only promised, the first
 * write to it could kill the process. */
static int memory_reserve(int file, size_t bytes) {
#ifdef __APPLE__
    return ftruncate(file, (off_t)bytes);
#else
    return posix_fallocate(file, 0, (off_t)bytes);
#endif
}

void *mem_shared_make(const char *name, size_t bytes) {
    int file = memory_count() ? shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600) : -1;
    if (file < 0) return NULL;
    void *memory = memory_reserve(file, bytes) == 0 ? memory_map_shared(file, bytes) : NULL;
    close(file);
    if (!memory) mem_shared_forget(name);
    return memory;
}

void *mem_shared_open(const char *name, size_t bytes) {
    int file = memory_count() ? shm_open(name, O_RDWR, 0600) : -1;
    if (file < 0) return NULL;
    void *memory = memory_map_shared(file, bytes);
    close(file);
    return memory;
}

void mem_shared_forget(const char *name) { (void)shm_unlink(name); }

void mem_shared_free(void *memory, size_t bytes) {
    if (memory) munmap(memory, bytes);
}

uint64_t mem_physical(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static int64_t memory_l2(void) {
    int64_t bytes = 0;
#if defined(__APPLE__)
    size_t size = sizeof bytes;
    if (sysctlbyname("hw.l2cachesize", &bytes, &size, NULL, 0) != 0) bytes = 0;
#elif defined(_SC_LEVEL2_CACHE_SIZE)
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    const int64_t least = 256 << 10, most = 1 << 20; /* a larger cache is shared by several cores */
    return bytes <= 0 || bytes > most ? most : bytes < least ? least : bytes;
}

static atomic_int_fast64_t l2_bytes; /* 0 before the first query */

int64_t mem_l2_bytes(int64_t bytes) {
    int64_t size = atomic_load_explicit(&l2_bytes, memory_order_relaxed);
    if (!size) {
        size = memory_l2(); /* threads that query at the same time get the same size */
        atomic_store_explicit(&l2_bytes, size, memory_order_relaxed);
    }
    return bytes / 1024 * size / 1024;
}

void mem_l2_pin(int64_t bytes) { atomic_store(&l2_bytes, bytes); }

int64_t mem_live_count(void) { return atomic_load(&memory_live); }
uint64_t mem_alloc_count(void) { return atomic_load_explicit(&requests, memory_order_relaxed); }

static void memory_fail(uint64_t n, bool on) {
    atomic_store(&memory_fail_on, on);
    atomic_store(&fail_at, n ? atomic_load(&requests) + n : 0);
    mem_forget();
}

void mem_watch(void (*watcher)(void)) { atomic_store(&memory_watcher, watcher); }
void mem_fail_at(uint64_t n) { memory_fail(n, false); }
void mem_fail_from(uint64_t n) { memory_fail(n, true); }
