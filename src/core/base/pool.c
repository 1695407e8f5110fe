/* SPDX-License-Identifier: MIT
 * Owns the process's worker threads. A worker joins a loop only if it is awake in time. The state word records which
 * loop is open and how many workers are inside. The caller opens the loop, runs tasks like a worker, closes the loop
 * and waits for the workers inside. So no thread ever waits for a thread that the system has not scheduled. A busy
 * machine, or more threads than cores, costs speed in proportion, not a time slice per loop.
 *
 *     state = generation (32 bits) | OPEN | WAITING | workers inside (30 bits)
 *
 * A worker between loops spins for some microseconds, then yields a few times, then sleeps. On battery it sleeps at
 * once. PROPANE_SPIN=on|off overrides this. A nested loop runs on its calling thread. Callers take turns in order of
 * arrival, so that the host's loops do not starve behind a device's.
 */
#include "core/base/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <pthread/qos.h>
#include <sys/sysctl.h>
#endif

#include "core/base/clock.h"
#include "core/base/fork.h"
#include "core/base/power_source.h"
#include "core/base/thread.h"

enum { MAX_THREADS = 256, SPIN_ROUNDS = 1500, YIELD_ROUNDS = 16 };
#define LOOK_INTERVAL_NS INT64_C(30000000000)

#define OPEN       ((uint64_t)1 << 31)
#define WAITING    ((uint64_t)1 << 30)
#define INSIDE     (WAITING - 1)
#define GENERATION ((uint64_t)1 << 32)

/* There is one pool per process: two would fight for the same cores. */
static struct {
    _Alignas(64) atomic_uint_fast64_t state;
    _Alignas(64) atomic_int_fast64_t next; /* the next task to hand out */
    /* The loop's task: written only while the loop is closed and no worker is inside. */
    _Alignas(64) pool_task task;
    void *context;
    int count;
    /* Callers take turns in order of arrival. */
    _Alignas(64) atomic_uint_fast64_t last_ticket, serving;
    atomic_int turn_sleepers;
    /* All sleeping threads wait on these conditions. */
    pthread_mutex_t mutex;
    pthread_cond_t opened, emptied, turned;
    atomic_int sleepers;
    atomic_bool stopping;
    atomic_int wanted;   /* threads, including the caller; 0 until it is decided */
    atomic_int spin;     /* rounds before a thread gives up its core */
    atomic_bool crowded; /* there are more threads than cores, so a spinning thread may block the one it waits for */
    atomic_int_fast64_t look_again; /* when to check the power source again, in clock_ns */
    int started;                    /* running workers; used only by the caller whose turn it is */
    int urgency;                    /* QoS class of new workers; used only by that caller, too */
    int generation;                 /* fork_generation of the process that started the workers */
    pthread_t thread[MAX_THREADS];
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .opened = PTHREAD_COND_INITIALIZER,
          .emptied = PTHREAD_COND_INITIALIZER,
          .turned = PTHREAD_COND_INITIALIZER};

/* The worker number of this thread while it runs tasks (0 for the loop's caller); -1 outside every loop. */
static _Thread_local int current_worker = -1;

static void pool_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits one more round. Returns false when it is time to sleep. */
static bool pool_keep_spinning(int *round) {
    int spin = atomic_load_explicit(&pool.spin, memory_order_relaxed);
    int n = (*round)++;
    if (n < spin) {
        pool_relax();
        return true;
    }
    if (n < spin + YIELD_ROUNDS && spin >= 0) {
        sched_yield();
        return true;
    }
    return false;
}

/* ---- how many threads -------------------------------------------------------------------------------------------- */

#ifdef __linux__
static int pool_affinity_count(void) {
    for (int cpus = 1024; cpus <= 1 << 16; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) return 0;
        size_t size = CPU_ALLOC_SIZE(cpus);
        int failed = sched_getaffinity(0, size, set);
        int count = failed ? 0 : CPU_COUNT_S(size, set);
        int reason = errno;
        CPU_FREE(set);
        if (!failed) return count;
        if (reason != EINVAL) return 0; /* EINVAL: the machine has more processors than the set */
    }
    return 0;
}

/* Returns how many processors' time `dir`/cpu.max allows, rounded up, or 0 if there is no limit. */
static int pool_quota_of(const char *dir) {
    char path[600];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", dir);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    long long quota = 0, period = 0;
    int fields = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    return fields == 2 && quota > 0 && period > 0 && quota / period < MAX_THREADS ? (int)((quota + period - 1) / period)
                                                                                  : 0;
}

/* Returns the tightest limit of the process's control group (version 2) and its ancestors; 0 if there is none. */
static int pool_quota_count(void) {
    char line[512] = "";
    FILE *file = fopen("/proc/self/cgroup", "r");
    if (!file) return 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) found = strncmp(line, "0::/", 4) == 0;
    fclose(file);
    if (!found) return 0;
    char *dir = line + 3;
    dir[strcspn(dir, "\n")] = 0;
    int least = 0;
    for (;;) {
        int quota = pool_quota_of(strcmp(dir, "/") ? dir : "");
        if (quota && (!least || quota < least)) least = quota;
        char *slash = strrchr(dir, '/');
        if (!slash || !*dir) return least;
        *slash = 0;
    }
}
#endif

int pool_machine_cores(void) {
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores;
}

int pool_usable_cores(void) {
    int cores = 0;
#ifdef __linux__
    cores = pool_affinity_count();
    int quota = pool_quota_count();
    if (quota && (!cores || quota < cores)) cores = quota;
#elif defined(__APPLE__)
    /* Count performance cores only: a loop that waits for an efficiency core is slower than one without it. */
    size_t size = sizeof cores;
    if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, NULL, 0) != 0) {
        size = sizeof cores;
        if (sysctlbyname("hw.physicalcpu", &cores, &size, NULL, 0) != 0) cores = 0;
    }
#endif
    if (cores < 1) cores = pool_machine_cores();
    return cores > MAX_THREADS ? MAX_THREADS : cores;
}

/* Returns PROPANE_THREADS if it is a number from 1 to 256, else the number of cores. */
static int pool_standard_threads(int cores) {
    const char *text = getenv("PROPANE_THREADS");
    if (!text || !*text) return cores;
    char *end = NULL;
    long n = strtol(text, &end, 10);
    return *end == 0 && n >= 1 && n <= MAX_THREADS ? (int)n : cores;
}

int pool_spin_rounds(const char *wish, bool battery, bool crowded) {
    if (wish && strcmp(wish, "off") == 0) return -1;
    const bool on = wish && strcmp(wish, "on") == 0;
    if (!on && battery) return -1;
    return on || !crowded ? SPIN_ROUNDS : 0;
}

/* Checks the power source from time to time when a loop begins, because a laptop may be unplugged during a run. */
static void pool_look_at_power(void) {
    const int64_t now = clock_ns();
    if (now < atomic_load_explicit(&pool.look_again, memory_order_relaxed)) return;
    atomic_store(&pool.look_again, now + LOOK_INTERVAL_NS);
    atomic_store(&pool.spin,
                 pool_spin_rounds(getenv("PROPANE_SPIN"), power_source_is_battery(), atomic_load(&pool.crowded)));
}

static void pool_set_wanted(int threads) {
    int cores = pool_usable_cores();
    if (threads == 0) threads = pool_standard_threads(cores);
    atomic_store(&pool.crowded, threads > cores);
    atomic_store(&pool.look_again, 0);
    pool_look_at_power();
    atomic_store(&pool.wanted, threads);
}

int pool_threads(void) {
    int n = atomic_load(&pool.wanted);
    if (n) return n;
    pthread_mutex_lock(&pool.mutex);
    if (!atomic_load(&pool.wanted)) pool_set_wanted(0);
    pthread_mutex_unlock(&pool.mutex);
    return atomic_load(&pool.wanted);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void pool_run_tasks(int worker) {
    pool_task task = pool.task;
    void *context = pool.context;
    int count = pool.count;
    current_worker = worker;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
        if (i >= count) break;
        task(context, (int)i, worker);
    }
    current_worker = -1;
}

/* Waits for a loop whose generation is not *seen, joins it and returns true. Returns false when the pool stops. */
static bool pool_join_loop(uint64_t *seen) {
    int round = 0;
    for (;;) {
        uint64_t s = atomic_load_explicit(&pool.state, memory_order_acquire);
        if ((s & OPEN) && s / GENERATION != *seen) {
            if (!atomic_compare_exchange_weak_explicit(&pool.state, &s, s + 1, memory_order_acq_rel,
                                                       memory_order_relaxed))
                continue;
            *seen = s / GENERATION;
            return true;
        }
        if (atomic_load(&pool.stopping)) return false;
        if (pool_keep_spinning(&round)) continue;
        pthread_mutex_lock(&pool.mutex);
        atomic_fetch_add(&pool.sleepers, 1);
        for (;;) {
            s = atomic_load(&pool.state);
            if (((s & OPEN) && s / GENERATION != *seen) || atomic_load(&pool.stopping)) break;
            pthread_cond_wait(&pool.opened, &pool.mutex);
        }
        atomic_fetch_sub(&pool.sleepers, 1);
        pthread_mutex_unlock(&pool.mutex);
        round = 0;
    }
}

static void pool_leave_loop(void) {
    uint64_t before = atomic_fetch_sub(&pool.state, 1);
    if (!(before & WAITING) || (before & INSIDE) != 1) return;
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_signal(&pool.emptied);
    pthread_mutex_unlock(&pool.mutex);
}

/* Returns the QoS class for workers. On Apple's systems a thread without a class may run on an efficiency core, and a
 * loop waits for its slowest worker. Workers get the class of the thread that first needs them, or the user-initiated
 * class if that thread has no class or the default one. */
static int pool_urgency(void) {
#ifdef __APPLE__
    const qos_class_t own = qos_class_self();
    return (int)(own == QOS_CLASS_UNSPECIFIED || own == QOS_CLASS_DEFAULT ? QOS_CLASS_USER_INITIATED : own);
#else
    return 0;
#endif
}

static void *pool_worker_main(void *argument) {
    int worker = (int)(intptr_t)argument;
#ifdef __APPLE__
    /* If refused, the thread runs with its default class. */
    (void)pthread_set_qos_class_self_np((qos_class_t)pool.urgency, 0);
#endif
    uint64_t seen = 0;
    while (pool_join_loop(&seen)) {
        pool_run_tasks(worker);
        pool_leave_loop();
    }
    return NULL;
}

/* Starts workers until there are `threads` - 1, or fewer if the system refuses. */
static void pool_start_workers(int threads) {
    pool.urgency = pool_urgency();
    while (pool.started < threads - 1) {
        intptr_t worker = pool.started + 1;
        if (thread_start(&pool.thread[pool.started], pool_worker_main, (void *)worker) != 0) break;
        pool.started++;
    }
}

/* ---- callers ----------------------------------------------------------------------------------------------------- */

/* Resets the pool in a forked child, where neither the workers nor the other threads' callers exist. A child has only
 * one thread at first, which calls this function before it starts others. */
static void pool_begin_anew(int generation) {
    (void)pthread_mutex_init(&pool.mutex, NULL);
    (void)pthread_cond_init(&pool.opened, NULL);
    (void)pthread_cond_init(&pool.emptied, NULL);
    (void)pthread_cond_init(&pool.turned, NULL);
    atomic_store(&pool.state, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.turn_sleepers, 0);
    atomic_store(&pool.stopping, false);
    atomic_store(&pool.serving, atomic_load(&pool.last_ticket));
    pool.started = 0;
    pool.generation = generation;
}

static void pool_take_turn(void) {
    const int generation = fork_generation();
    if (pool.generation != generation) pool_begin_anew(generation);
    uint64_t ticket = atomic_fetch_add(&pool.last_ticket, 1);
    int round = 0;
    while (atomic_load(&pool.serving) != ticket) {
        if (pool_keep_spinning(&round)) continue;
        pthread_mutex_lock(&pool.mutex);
        atomic_fetch_add(&pool.turn_sleepers, 1);
        while (atomic_load(&pool.serving) != ticket) pthread_cond_wait(&pool.turned, &pool.mutex);
        atomic_fetch_sub(&pool.turn_sleepers, 1);
        pthread_mutex_unlock(&pool.mutex);
    }
}

static void pool_give_turn(void) {
    atomic_fetch_add(&pool.serving, 1);
    if (!atomic_load(&pool.turn_sleepers)) return;
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_broadcast(&pool.turned);
    pthread_mutex_unlock(&pool.mutex);
}

static void pool_open_loop(int helpers) {
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    uint64_t generation = atomic_load_explicit(&pool.state, memory_order_relaxed) / GENERATION + 1;
    if (generation > UINT32_MAX) generation = 1; /* 0 is the initial value of a new worker's `seen` */
    atomic_store(&pool.state, generation * GENERATION | OPEN);
    if (!atomic_load(&pool.sleepers)) return;
    pthread_mutex_lock(&pool.mutex);
    if (helpers >= pool.started)
        pthread_cond_broadcast(&pool.opened);
    else
        for (int i = 0; i < helpers; i++) pthread_cond_signal(&pool.opened);
    pthread_mutex_unlock(&pool.mutex);
}

/* Closes the loop to new workers and returns when those inside have left. */
static void pool_close_loop(void) {
    uint64_t s = atomic_fetch_and(&pool.state, ~OPEN);
    int round = 0;
    while (s & INSIDE) {
        if (!pool_keep_spinning(&round)) {
            pthread_mutex_lock(&pool.mutex);
            s = atomic_fetch_or(&pool.state, WAITING);
            while (s & INSIDE) {
                pthread_cond_wait(&pool.emptied, &pool.mutex);
                s = atomic_load(&pool.state);
            }
            pthread_mutex_unlock(&pool.mutex);
            return;
        }
        s = atomic_load_explicit(&pool.state, memory_order_acquire);
    }
}

void pool_run(pool_task task, void *context, int count) {
    if (count <= 0) return;
    if (current_worker >= 0) {
        for (int i = 0; i < count; i++) task(context, i, current_worker);
        return;
    }
    int threads = pool_threads();
    pool_take_turn();
    if (threads == 1 || count == 1) {
        current_worker = 0;
        for (int i = 0; i < count; i++) task(context, i, 0);
        current_worker = -1;
    } else {
        pool_look_at_power();
        if (pool.started < threads - 1) pool_start_workers(threads);
        pool.task = task;
        pool.context = context;
        pool.count = count;
        pool_open_loop(count - 1);
        pool_run_tasks(0);
        pool_close_loop();
    }
    pool_give_turn();
}

/* A loop of a few long tasks, each of which runs tasks of another loop until none is left. */
typedef struct limited_loop {
    pool_task task;
    void *context;
    int count;
    atomic_int next;
} limited_loop;

static void pool_limited_task(void *context, int index, int worker) {
    limited_loop *l = context;
    (void)index;
    for (int i = atomic_fetch_add(&l->next, 1); i < l->count; i = atomic_fetch_add(&l->next, 1))
        l->task(l->context, i, worker);
}

void pool_run_most(pool_task task, void *context, int count, int most) {
    if (most <= 0 || most >= count || most >= pool_threads()) {
        pool_run(task, context, count);
        return;
    }
    limited_loop l = {.task = task, .context = context, .count = count};
    atomic_init(&l.next, 0);
    pool_run(pool_limited_task, &l, most);
}

static void pool_stop_workers(void) {
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.stopping, true);
    pthread_cond_broadcast(&pool.opened);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < pool.started; i++) pthread_join(pool.thread[i], NULL);
    pool.started = 0;
    atomic_store(&pool.stopping, false);
}

void pool_stop(void) {
    assert(current_worker < 0 && "pool_stop inside a loop");
    pool_take_turn();
    pool_stop_workers();
    pool_give_turn();
}

propane_status pool_set_threads(int threads, propane_error *err) {
    if (threads < 0 || threads > MAX_THREADS)
        return propane_fail(err, PROPANE_ERR_INVALID, "threads is %d; it must be from 1 to %d, or 0 for one per core",
                            threads, MAX_THREADS);
    assert(current_worker < 0 && "pool_set_threads inside a loop");
    pool_take_turn();
    int now = atomic_load(&pool.wanted), running = pool.started;
    propane_status status = PROPANE_OK;
    if (running && threads != now)
        status = propane_fail(
            err, PROPANE_ERR_INVALID,
            "threads: the pool is already running with %d; set %d before its first loop or after pool_stop", now,
            threads);
    else
        pool_set_wanted(threads);
    pool_give_turn();
    return status;
}

/* ---- tasks that may fail ----------------------------------------------------------------------------------------- */

typedef struct pool_attempts {
    pool_attempt attempt;
    void *context;
    atomic_int failed; /* the lowest task that failed; INT_MAX if none did */
} pool_attempts;

static void pool_try_one(void *context, int task, int worker) {
    (void)worker;
    pool_attempts *a = context;
    int failed = atomic_load(&a->failed);
    if (task > failed || !a->attempt(a->context, task, NULL)) return;
    while (task < failed && !atomic_compare_exchange_weak(&a->failed, &failed, task)) continue;
}

propane_status pool_try(pool_attempt attempt, void *context, int count, propane_error *err) {
    pool_attempts a = {attempt, context, INT_MAX};
    pool_run(pool_try_one, &a, count);
    /* A task that failed for a temporary reason, such as a lack of memory, may succeed now. The tasks after it may have
     * been skipped. */
    for (int i = atomic_load(&a.failed); i < count; i++) PROPANE_TRY(attempt(context, i, err));
    return PROPANE_OK;
}
