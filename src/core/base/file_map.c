/* SPDX-License-Identifier: MIT
 * Owns mapped files. If another process truncates a mapped file, reading a missing page raises SIGBUS, which kills this
 * process. With the guard set, the handler instead maps a page of zeros, records the file, and lets the reader
 * continue; file_map_check then reports the file. All other faults are left to the previous handler.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { FILE_MAPS = 1024, FILE_MAP_NAME = 200 };

/* The handler may read this table at any time, so `begin` is set last and cleared first. A file for which no slot is
 * free is mapped but not guarded. */
static struct {
    atomic_uintptr_t begin;
    size_t bytes;
    char path[FILE_MAP_NAME];
} file_maps[FILE_MAPS];
static atomic_flag file_maps_busy = ATOMIC_FLAG_INIT; /* excludes concurrent opening and closing */
static atomic_bool file_map_lost;
static char file_map_lost_path[FILE_MAP_NAME]; /* path of the first truncated file */
static struct sigaction file_map_before;

static void file_map_enter(const char *path, const void *data, size_t bytes) {
    while (atomic_flag_test_and_set(&file_maps_busy)) {
    }
    for (int i = 0; i < FILE_MAPS; i++) {
        if (atomic_load(&file_maps[i].begin)) continue;
        const size_t length = strlen(path), cut = length < FILE_MAP_NAME ? 0 : length - FILE_MAP_NAME + 1;
        memcpy(file_maps[i].path, path + cut, length - cut + 1);
        file_maps[i].bytes = bytes;
        atomic_store(&file_maps[i].begin, (uintptr_t)data);
        break;
    }
    atomic_flag_clear(&file_maps_busy);
}

static void file_map_leave(const void *data) {
    while (atomic_flag_test_and_set(&file_maps_busy)) {
    }
    for (int i = 0; i < FILE_MAPS; i++)
        if (atomic_load(&file_maps[i].begin) == (uintptr_t)data) {
            atomic_store(&file_maps[i].begin, 0);
            break;
        }
    atomic_flag_clear(&file_maps_busy);
}

/* Maps a page of zeros over the missing page that contains `at`. Returns false if `at` is in no listed file. mmap is
 * safe in a signal handler, because it is a plain system call on every supported system. */
static bool file_map_mend(uintptr_t at) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < FILE_MAPS; i++) {
        const uintptr_t begin = atomic_load(&file_maps[i].begin);
        if (!begin || at < begin || at - begin >= (file_maps[i].bytes + page - 1) / page * page) continue;
        union {
            uintptr_t number;
            void *memory;
        } place = {at / page * page};
        if (mmap(place.memory, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return false;
        if (!atomic_load(&file_map_lost)) {
            memcpy(file_map_lost_path, file_maps[i].path, FILE_MAP_NAME);
            atomic_store(&file_map_lost, true);
        }
        return true;
    }
    return false;
}

static void file_map_on_fault(int number, siginfo_t *info, void *context) {
    const int code = errno;
    const bool mended = file_map_mend((uintptr_t)info->si_addr);
    errno = code;
    if (!mended) sigaction(number, &file_map_before, NULL); /* the fault recurs and reaches the previous handler */
}

void file_map_guard(void) {
    struct sigaction action = {.sa_sigaction = file_map_on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &file_map_before);
}

propane_status file_map_check(propane_error *err) {
    if (!atomic_load(&file_map_lost)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_IO, "%s was truncated while it was being read", file_map_lost_path);
}

propane_status file_map_open(const char *path, file_map *out, propane_error *err) {
    int fd;
    struct stat st;
    *out = (file_map){0};
    PROPANE_TRY(file_open_input(path, false, &fd, &st, err));
    propane_status status = PROPANE_OK;
    if ((uint64_t)st.st_size > SIZE_MAX) {
        status = propane_fail(err, PROPANE_ERR_LIMIT, "%s is too large to map into memory on this machine", path);
    } else if (st.st_size > 0) {
        void *memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (memory == MAP_FAILED)
            status = file_fail(err, "map", path, errno);
        else
            *out = (file_map){memory, (size_t)st.st_size};
        if (out->data) file_map_enter(path, out->data, out->bytes);
    }
    close(fd);
    return status;
}

void file_map_close(file_map *map) {
    if (!map || !map->data) return;
    file_map_leave(map->data);
    union {
        const uint8_t *constant;
        void *plain;
    } address = {map->data}; /* munmap takes a pointer to non-const */
    munmap(address.plain, map->bytes);
    *map = (file_map){0};
}
