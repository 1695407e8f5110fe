/* SPDX-License-Identifier: MIT
 * Owns the state of the machine rather than of a program: the user's temporary folder, the places for loaded programs
 * that all processes share, and the engine's power.
 *
 * Each place is a lock on one byte of a file in the temporary folder, which the kernel releases when a process ends,
 * however it ends. A place that is released while all are taken is not free at once: the next load fails and clears
 * it, and the one after that succeeds. Repeated loads have been observed to behave this way:
 * cortexkit/synapse/crates/synapse-worker-ane-direct/resource-experiments.md, midasdf/ANEDVD/src/ane/shim.m.
 *
 * An engine that is off refuses requests while it comes up, up to five that are 3 ms apart:
 * loading-awesome/MiniMax-H3-Swift/docs/ANE_STATUS.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "standin/engine.h"

enum { MAX_PLACES = 1024, FREE_PLACE = 0, LEFT_PLACE = 1, REFUSALS = 3, REFUSALS_SPREAD = 3, REPEAT_NS = 2000000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

const char *standin_temporary(void) {
    const char *folder = standin_switch("temporary");
    if (!folder) return "/tmp";
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) fprintf(stderr, "stand-in: %s: %s\n", folder, strerror(errno));
    return folder;
}

/* ---- places ---------------------------------------------------------------------------------------------------------------- */

static struct {
    int file;    /* 0 if not opened yet */
    pid_t owner; /* locks belong to one process: a child has none of its parent's */
    bool own[MAX_PLACES];
} places;

static void open_places(void) {
    char path[1300];
    if (places.file && places.owner == getpid()) return;
    if (places.file) close(places.file); /* closes the child's copy; its parent keeps its locks */
    memset(&places, 0, sizeof places);
    snprintf(path, sizeof path, "%s/.standin-places", standin_temporary());
    places.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    places.owner = getpid();
    if (places.file > 0) return;
    fprintf(stderr, "stand-in: %s: %s\n", path, strerror(errno));
    abort();
}

static bool lock_place(int index, short how, int command) {
    struct flock lock = {.l_type = how, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};
    int result = fcntl(places.file, command, &lock);
    return result == 0 && (command != F_GETLK || lock.l_type == F_UNLCK);
}

static bool is_left(int index) {
    unsigned char state = FREE_PLACE;
    return pread(places.file, &state, 1, index) == 1 && state == LEFT_PLACE;
}

static void set_place(int index, unsigned char state) {
    if (pwrite(places.file, &state, 1, index) != 1) abort();
}

static bool is_taken(int index) { return places.own[index] || !lock_place(index, F_WRLCK, F_GETLK); }

static int pool_size(void) {
    long size = standin_number("pool", 0);
    return size > MAX_PLACES ? MAX_PLACES : (int)size;
}

/* Returns a slot, or 0 if all are taken. Clears slots that were released. */
static int find_place(int size) {
    for (int i = 0; i < size; i++) {
        if (places.own[i] || is_left(i) || !lock_place(i, F_WRLCK, F_SETLK)) continue;
        places.own[i] = true;
        return i + 1;
    }
    for (int i = 0; i < size; i++)
        if (is_left(i)) set_place(i, FREE_PLACE);
    return 0;
}

int standin_take_place(void) {
    int size = pool_size(), found = -1;
    if (!size) return -1;
    pthread_mutex_lock(&mutex);
    open_places();
    found = find_place(size);
    pthread_mutex_unlock(&mutex);
    return found;
}

void standin_give_place(int place) {
    if (place < 1) return;
    pthread_mutex_lock(&mutex);
    if (places.owner == getpid()) {
        int size = pool_size(), taken = 0;
        for (int i = 0; i < size; i++) taken += is_taken(i);
        if (taken == size) set_place(place - 1, LEFT_PLACE);
        places.own[place - 1] = false;
        lock_place(place - 1, F_UNLCK, F_SETLK);
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- power ----------------------------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct {
    pid_t owner;
    uint64_t last;    /* end of the last evaluation; 0 if none yet */
    uint64_t refused; /* the last refusal */
    int left, starts;
} power;

/* A refusal that immediately follows another one does not bring the engine closer to readiness. */
bool standin_engine_is_up(void) {
    uint64_t idle = (uint64_t)standin_number("idle", 0) * 1000000, now = now_ns();
    if (!idle) return true;
    if (power.owner != getpid()) memset(&power, 0, sizeof power);
    power.owner = getpid();
    if (!power.left && (!power.last || now - power.last > idle)) {
        power.left = REFUSALS + power.starts++ % REFUSALS_SPREAD;
        power.refused = 0;
        power.last = now;
    } else if (power.left && now - power.refused >= REPEAT_NS) {
        power.left--;
    }
    if (!power.left) return true;
    power.refused = now;
    standin_count("cancelled", 1);
    return false;
}

void standin_engine_worked(void) { power.last = now_ns(); }
