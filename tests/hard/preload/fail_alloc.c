/* SPDX-License-Identifier: MIT
 * Loaded before a command (LD_PRELOAD): makes one of its requests for memory fail, whether the program or a library
 * makes it.
 *
 *   FAIL_AT=N      the N-th request since main's libraries were loaded; 0 or unset means none
 *   FAIL_ON=1      and all after it
 *   FAIL_STOP=1    ends the process there instead, for a debugger
 *   FAIL_COUNT=F   writes the number of requests to this file when the process ends
 *   FAIL_STACKS=F  writes a number per request to this file then, one per line; it is the same for the same chain of calls
 *
 * Linux with glibc only, because the real functions are called by glibc's internal names. Requests of the dynamic
 * loader are not counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../support/stack.h"

enum { FAIL_STACKS_MOST = 1 << 20 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_uint_fast64_t fail_requests;
static uint64_t fail_at;
static int fail_on, fail_stop, fail_begun, fail_print;
static uint64_t fail_stacks[FAIL_STACKS_MOST]; /* by request; later ones are not reported */

static uint64_t fail_number(const char *text) {
    uint64_t n = 0;
    while (text && *text >= '0' && *text <= '9') n = n * 10 + (uint64_t)(*text++ - '0');
    return n;
}

__attribute__((constructor)) static void fail_begin(void) {
    fail_at = fail_number(getenv("FAIL_AT"));
    fail_on = getenv("FAIL_ON") != NULL;
    fail_stop = getenv("FAIL_STOP") != NULL;
    fail_print = getenv("FAIL_STACKS") != NULL;
    if (fail_print) (void)stack_hash(); /* not counted: it initialises the unwinder */
    fail_begun = 1;
}

/* Writes a line with system calls only, because the process is about to end. */
static void fail_write(int fd, uint64_t n) {
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = '\n';
    do digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    (void)!write(fd, digits + at, sizeof digits - at);
}

static int fail_open(const char *variable) {
    const char *path = getenv(variable);
    return path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
}

__attribute__((destructor)) static void fail_end(void) {
    const uint64_t n = atomic_load(&fail_requests);
    const int count = fail_open("FAIL_COUNT"), stacks = fail_print ? fail_open("FAIL_STACKS") : -1;
    if (count >= 0) {
        fail_write(count, n);
        close(count);
    }
    if (stacks < 0) return;
    for (uint64_t i = 0; i < n && i < FAIL_STACKS_MOST; i++) fail_write(stacks, fail_stacks[i]);
    close(stacks);
}

/* Returns true if the request must fail. */
static int fail_now(void) {
    if (!fail_begun) return 0;
    const uint64_t n = atomic_fetch_add(&fail_requests, 1) + 1;
    if (fail_print && n <= FAIL_STACKS_MOST) fail_stacks[n - 1] = stack_hash();
    if (!fail_at || (fail_on ? n < fail_at : n != fail_at)) return 0;
    if (fail_stop) abort();
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes) { return fail_now() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t size) { return fail_now() ? NULL : __libc_calloc(count, size); }
void *realloc(void *memory, size_t bytes) { return fail_now() ? NULL : __libc_realloc(memory, bytes); }
void *memalign(size_t alignment, size_t bytes) { return fail_now() ? NULL : __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return fail_now() ? NULL : __libc_memalign(alignment, bytes); }

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (fail_now()) return ENOMEM;
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if ((flags & MAP_ANONYMOUS) && fail_now()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}
