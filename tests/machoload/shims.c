/* SPDX-License-Identifier: MIT
 * Owns the libSystem functions that differ from glibc's: error numbers, structures, constants, and statically
 * initialised locks. Those with variable arguments are in shims_args.c.
 *
 * Constants and layouts are those of macOS's public headers on arm64.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <wctype.h>

#include "machoload.h"

/* ---- error numbers ------------------------------------------------------------------------------------------------- */

static const struct {
    int linux_number, apple_number;
} error_pairs[] = {{EAGAIN, 35},     {EDEADLK, 11},       {ENAMETOOLONG, 63}, {ENOTEMPTY, 66},    {ELOOP, 62},
                   {ETIMEDOUT, 60},  {ENOSYS, 78},        {EOVERFLOW, 84},    {EOPNOTSUPP, 102},  {EINPROGRESS, 36},
                   {EADDRINUSE, 48}, {ENOTSOCK, 38},      {ECONNREFUSED, 61}, {ECONNRESET, 54},   {EPROTO, 100},
                   {EILSEQ, 92},     {ECANCELED, 89},     {ENOLCK, 77},       {EALREADY, 37},     {EISCONN, 56},
                   {ENOTCONN, 57},   {EADDRNOTAVAIL, 49}, {ENOBUFS, 55},      {EAFNOSUPPORT, 47}, {EPROTONOSUPPORT, 43},
                   {EDQUOT, 69},     {ESTALE, 70}};
enum { ERROR_PAIRS = sizeof error_pairs / sizeof error_pairs[0] };

static int to_apple(int number) {
    for (int i = 0; i < ERROR_PAIRS; i++)
        if (error_pairs[i].linux_number == number) return error_pairs[i].apple_number;
    return number;
}
static int from_apple(int number) {
    for (int i = 0; i < ERROR_PAIRS; i++)
        if (error_pairs[i].apple_number == number) return error_pairs[i].linux_number;
    return number;
}

/* Returns the program's errno. glibc's value is moved here and cleared, so that a value that the program wrote
 * stays. */
static int *shim_error(void) {
    static __thread int number;
    if (errno) number = to_apple(errno);
    errno = 0;
    return &number;
}
static char *shim_strerror(int number) { return strerror(from_apple(number)); }
static int shim_strerror_r(int number, char *out, size_t n) {
    snprintf(out, n, "%s", strerror(from_apple(number)));
    return 0;
}
static void shim_perror(const char *what) { fprintf(stderr, "%s: %s\n", what, shim_strerror(*shim_error())); }

/* ---- files --------------------------------------------------------------------------------------------------------- */

static int open_flags(int apple) {
    static const int pairs[][2] = {{4, O_NONBLOCK},         {8, O_APPEND},          {0x100, O_NOFOLLOW},
                                   {0x200, O_CREAT},        {0x400, O_TRUNC},       {0x800, O_EXCL},
                                   {0x100000, O_DIRECTORY}, {0x1000000, O_CLOEXEC}, {0x80, O_SYNC}};
    int flags = apple & 3;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (apple & pairs[i][0]) flags |= pairs[i][1];
    return flags;
}
int shim_open(const char *path, int flags, const int *mode) {
    return open(path, open_flags(flags), flags & 0x200 ? *mode : 0);
}
static int at_folder(int apple) { return apple == -2 ? AT_FDCWD : apple; }
int shim_openat(int dir, const char *path, int flags, const int *mode) {
    return openat(at_folder(dir), path, open_flags(flags), flags & 0x200 ? *mode : 0);
}

int shim_fcntl(int fd, int command, const long *argument) {
    switch (command) {
    case 0:
    case 1:
    case 2: return fcntl(fd, command, *argument);
    case 3: {
        int flags = fcntl(fd, F_GETFL);
        return flags < 0 ? flags : (flags & 3) | (flags & O_NONBLOCK ? 4 : 0) | (flags & O_APPEND ? 8 : 0);
    }
    case 4: return fcntl(fd, F_SETFL, open_flags((int)*argument));
    case 51: return fsync(fd); /* flushes to the disk without further calls */
    case 67: return fcntl(fd, F_DUPFD_CLOEXEC, *argument);
    case 48: return 0; /* no cache */
    default: errno = EINVAL; return -1;
    }
}

int shim_ioctl(int fd, unsigned long request, void *const *argument) {
    if (request == 0x40087468) return ioctl(fd, TIOCGWINSZ, *argument);
    errno = ENOTTY;
    return -1;
}

typedef struct apple_stat {
    int32_t dev;
    uint16_t mode, nlink;
    uint64_t ino;
    uint32_t uid, gid;
    int32_t rdev;
    struct timespec atime, mtime, ctime, birth;
    int64_t size, blocks;
    int32_t blksize;
    uint32_t flags, gen;
    int32_t spare;
    int64_t spares[2];
} apple_stat;
_Static_assert(sizeof(apple_stat) == 144, "struct stat of macOS on arm64");

static int give_stat(int result, const struct stat *from, apple_stat *to) {
    if (result != 0) return result;
    *to = (apple_stat){.dev = (int32_t)from->st_dev,
                       .mode = (uint16_t)from->st_mode,
                       .nlink = (uint16_t)from->st_nlink,
                       .ino = from->st_ino,
                       .uid = from->st_uid,
                       .gid = from->st_gid,
                       .rdev = (int32_t)from->st_rdev,
                       .atime = from->st_atim,
                       .mtime = from->st_mtim,
                       .ctime = from->st_ctim,
                       .size = from->st_size,
                       .blocks = from->st_blocks,
                       .blksize = from->st_blksize};
    return 0;
}
static int shim_stat(const char *path, apple_stat *out) {
    struct stat st;
    return give_stat(stat(path, &st), &st, out);
}
static int shim_lstat(const char *path, apple_stat *out) {
    struct stat st;
    return give_stat(lstat(path, &st), &st, out);
}
static int shim_fstat(int fd, apple_stat *out) {
    struct stat st;
    return give_stat(fstat(fd, &st), &st, out);
}
static int shim_fstatat(int dir, const char *path, apple_stat *out, int flags) {
    struct stat st;
    return give_stat(fstatat(at_folder(dir), path, &st, flags & 0x20 ? AT_SYMLINK_NOFOLLOW : 0), &st, out);
}
static int shim_faccessat(int dir, const char *path, int mode, int flags) {
    (void)flags;
    return faccessat(at_folder(dir), path, mode, 0);
}
static int shim_unlinkat(int dir, const char *path, int flags) {
    return unlinkat(at_folder(dir), path, flags & 0x80 ? AT_REMOVEDIR : 0);
}

typedef struct apple_dirent {
    uint64_t ino, offset;
    uint16_t length, name_length;
    uint8_t type;
    char name[1024];
} apple_dirent;

static int shim_renamex(const char *from, const char *to, unsigned flags) {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to,
                     (flags & 2 ? RENAME_EXCHANGE : 0) | (flags & 4 ? RENAME_NOREPLACE : 0));
}
static void *shim_opendir(const char *path) { return opendir(path); }
static apple_dirent *shim_readdir(DIR *dir) {
    static __thread apple_dirent out;
    const struct dirent *from = readdir(dir);
    if (!from) return NULL;
    out = (apple_dirent){
        .ino = from->d_ino, .length = sizeof out, .name_length = (uint16_t)strlen(from->d_name), .type = from->d_type};
    snprintf(out.name, sizeof out.name, "%s", from->d_name);
    return &out;
}

static void *shim_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    int to = flags & 0x13; /* shared, private, fixed */
    if (flags & 0x1000) to |= MAP_ANONYMOUS;
    if (flags & 0x40) to |= MAP_NORESERVE;
    return mmap(address, bytes, protection, to, flags & 0x1000 ? -1 : fd, offset);
}
static int shim_msync(void *address, size_t bytes, int flags) {
    return msync(address, bytes, flags & 0x10 ? MS_SYNC : MS_ASYNC);
}
static int shim_madvise(void *address, size_t bytes, int advice) {
    (void)address, (void)bytes, (void)advice; /* only advice; the numbers differ */
    return 0;
}

/* ---- threads ------------------------------------------------------------------------------------------------------- */

/* A statically initialised lock begins with a signature followed by zeros. Replaces the signature with zero, which
 * is glibc's initial value. */
static void *ready(void *object, uint64_t signature) {
    __atomic_compare_exchange_n((uint64_t *)object, &signature, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return object;
}
#define MUTEX(m) ((pthread_mutex_t *)ready(m, 0x32aaaba7))
#define COND(c)  ((pthread_cond_t *)ready(c, 0x3cb0b1bb))

static int shim_mutex_init(void *m, const void *attributes) {
    if (attributes) fail("pthread_mutex_init with attributes");
    return pthread_mutex_init(m, NULL);
}
static int shim_mutex_lock(void *m) { return to_apple(pthread_mutex_lock(MUTEX(m))); }
static int shim_mutex_trylock(void *m) { return to_apple(pthread_mutex_trylock(MUTEX(m))); }
static int shim_mutex_unlock(void *m) { return to_apple(pthread_mutex_unlock(MUTEX(m))); }
static int shim_mutex_destroy(void *m) { return to_apple(pthread_mutex_destroy(MUTEX(m))); }
static int shim_cond_init(void *c, const void *attributes) {
    if (attributes) fail("pthread_cond_init with attributes");
    return pthread_cond_init(c, NULL);
}
static int shim_cond_wait(void *c, void *m) { return to_apple(pthread_cond_wait(COND(c), MUTEX(m))); }
static int shim_cond_signal(void *c) { return pthread_cond_signal(COND(c)); }
static int shim_cond_broadcast(void *c) { return pthread_cond_broadcast(COND(c)); }
static int shim_cond_destroy(void *c) { return pthread_cond_destroy(COND(c)); }
static int shim_cond_timedwait(void *c, void *m, const struct timespec *until) {
    return to_apple(pthread_cond_timedwait(COND(c), MUTEX(m), until));
}
static int shim_cond_timedwait_relative(void *c, void *m, const struct timespec *wait) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait->tv_sec;
    until.tv_nsec += wait->tv_nsec;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return to_apple(pthread_cond_timedwait(COND(c), MUTEX(m), &until));
}
static int shim_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    return pthread_atfork(prepare, parent, child);
}
static int shim_once(void *once, void (*call)(void)) { return pthread_once(ready(once, 0x30b1bcba), call); }

/* ---- signals ------------------------------------------------------------------------------------------------------- */

static int signal_number(int apple) {
    static const int of[32] = {0,  1,      2,  3,  4,  5,      6,       0,       8,       9,       SIGBUS,
                               11, SIGSYS, 13, 14, 15, SIGURG, SIGSTOP, SIGTSTP, SIGCONT, SIGCHLD, 21,
                               22, SIGIO,  24, 25, 26, 27,     28,      0,       SIGUSR1, SIGUSR2};
    if (apple < 1 || apple > 31 || !of[apple]) fail("signal %d has no namesake", apple);
    return of[apple];
}
typedef struct apple_sigaction {
    void (*handler)(int);
    uint32_t mask;
    int flags;
} apple_sigaction;

static void to_set(uint32_t apple, sigset_t *out) {
    sigemptyset(out);
    for (int i = 1; i < 32; i++)
        if (apple >> (i - 1) & 1 && i != 7 && i != 29) sigaddset(out, signal_number(i));
}
/* The argument of a handler with SA_SIGINFO. */
typedef struct apple_siginfo {
    int number, error, code, pid, uid, status;
    void *address;
    long more[9];
} apple_siginfo;
static void (*with_info[32])(int, apple_siginfo *, void *); /* indexed by Linux's number */
static int apple_number[32];

static void on_signal_with_info(int number, siginfo_t *info, void *context) {
    apple_siginfo out = {
        .number = apple_number[number], .error = info->si_errno, .code = info->si_code, .address = info->si_addr};
    with_info[number](out.number, &out, context);
}

static int shim_sigaction(int number, const apple_sigaction *action, apple_sigaction *before) {
    struct sigaction to, old;
    int own = signal_number(number);
    if (action) {
        to = (struct sigaction){.sa_handler = action->handler, .sa_flags = action->flags & 2 ? SA_RESTART : 0};
        to_set(action->mask, &to.sa_mask);
    }
    if (action && action->flags & 0x40 && own > 0 && own < 32) {
        with_info[own] = (void (*)(int, apple_siginfo *, void *))(void *)action->handler;
        apple_number[own] = number;
        to.sa_sigaction = on_signal_with_info;
        to.sa_flags |= SA_SIGINFO;
    }
    int result = sigaction(own, action ? &to : NULL, &old);
    if (before) *before = (apple_sigaction){.handler = old.sa_handler};
    return result;
}
static void *shim_signal(int number, void (*handler)(int)) { return (void *)signal(signal_number(number), handler); }
static int shim_pthread_sigmask(int how, const uint32_t *set, uint32_t *before) {
    sigset_t to;
    if (set) to_set(*set, &to);
    if (before) *before = 0;
    return pthread_sigmask(how == 1 ? SIG_BLOCK : how == 2 ? SIG_UNBLOCK : SIG_SETMASK, set ? &to : NULL, NULL);
}
static int shim_raise(int number) { return raise(signal_number(number)); }

/* ---- the system ---------------------------------------------------------------------------------------------------- */

static int shim_clock_gettime(int clock, struct timespec *out) {
    static const int of[17] = {[0] = CLOCK_REALTIME,
                               [4] = CLOCK_MONOTONIC_RAW,
                               [5] = CLOCK_MONOTONIC,
                               [6] = CLOCK_MONOTONIC,
                               [8] = CLOCK_MONOTONIC,
                               [9] = CLOCK_MONOTONIC,
                               [12] = CLOCK_PROCESS_CPUTIME_ID,
                               [16] = CLOCK_THREAD_CPUTIME_ID};
    return clock_gettime(clock >= 0 && clock <= 16 ? of[clock] : -1, out);
}
static long shim_sysconf(int name) {
    switch (name) {
    case 29: return sysconf(_SC_PAGESIZE);
    case 57: return sysconf(_SC_NPROCESSORS_CONF);
    case 58: return sysconf(_SC_NPROCESSORS_ONLN);
    case 200: return sysconf(_SC_PHYS_PAGES);
    case 5: return sysconf(_SC_OPEN_MAX);
    case 3: return sysconf(_SC_CLK_TCK);
    default: errno = EINVAL; return -1;
    }
}
static int shim_sysctlbyname(const char *name, void *out, size_t *bytes, const void *new_value, size_t new_bytes) {
    (void)new_value, (void)new_bytes;
    uint64_t value;
    if (strcmp(name, "hw.memsize") == 0)
        value = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    else if (strcmp(name, "hw.ncpu") == 0 || strcmp(name, "hw.logicalcpu") == 0)
        value = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    else {
        errno = ENOENT;
        return -1;
    }
    if (!bytes || *bytes > sizeof value) return -1;
    memcpy(out, &value, *bytes);
    return 0;
}
static int shim_uname(char *out) {
    struct utsname u;
    if (uname(&u) != 0) return -1;
    const char *fields[] = {"Darwin", u.nodename, "23.0.0", "machoload on Linux", "arm64"};
    for (size_t i = 0; i < 5; i++) snprintf(out + 256 * i, 256, "%s", fields[i]);
    return 0;
}
static bool is_macho(const char *path) {
    uint32_t magic = 0;
    FILE *f = fopen(path, "rb");
    bool is = f && fread(&magic, sizeof magic, 1, f) == 1 && magic == 0xfeedfacf;
    if (f) fclose(f);
    return is;
}

/* To start itself or another program for macOS, the program must start the loader. MACHOLOAD holds the words before
 * the program's path. */
static int shim_execvp(const char *file, char *const *argv) {
    const char *words = getenv("MACHOLOAD");
    bool itself = strcmp(file, "/proc/self/exe") == 0;
    if (!itself && !is_macho(file)) return execvp(file, argv);
    if (!words) fail("MACHOLOAD is not set: %s cannot be started", file);
    char *list[256], *copy = strdup(words);
    int n = 0;
    for (char *w = strtok(copy, " "); w && n < 64; w = strtok(NULL, " ")) list[n++] = w;
    list[n++] = (char *)(uintptr_t)(itself ? loaded_path : file);
    for (int i = 1; argv[0] && argv[i] && n < 255; i++) list[n++] = argv[i];
    list[n] = NULL;
    return execvp(list[0], list);
}
static int executable_path(char *out, uint32_t *bytes) {
    if (strlen(loaded_path) + 1 > *bytes) return -1;
    strcpy(out, loaded_path);
    return 0;
}
static char ***shim_environ(void) { return &loaded_environ; }

static unsigned shim_qos_class(void) { return 0x15; } /* the default class */
static int shim_set_qos_class(unsigned class, int priority) { return class == 0x19 && priority == 0 ? 0 : EINVAL; }

static void *shim_dlopen(const char *path, int mode) {
    return dlopen(path, (mode & 3 ? mode & 3 : RTLD_NOW) | (mode & 8 ? RTLD_GLOBAL : 0));
}
static void *shim_dlsym(void *library, const char *name) {
    return dlsym(library == (void *)-2 ? RTLD_DEFAULT : library, name);
}
static char *shim_dlerror(void) { return dlerror(); }
static int shim_dlclose(void *library) { return dlclose(library); }

/* ---- text ---------------------------------------------------------------------------------------------------------- */

/* The table behind isalpha and similar functions. */
static struct {
    char magic[8], encoding[32];
    void *get, *put;
    int32_t invalid;
    uint32_t type[256];
    int32_t lower[256], upper[256];
} runes = {.magic = "RuneMagA"};

static void fill_runes(void) {
    static const struct {
        const char *class;
        uint32_t bit;
    } bits[] = {{"alpha", 0x100},    {"cntrl", 0x200},   {"digit", 0x400},  {"graph", 0x800},
                {"lower", 0x1000},   {"punct", 0x2000},  {"space", 0x4000}, {"upper", 0x8000},
                {"xdigit", 0x10000}, {"blank", 0x20000}, {"print", 0x40000}};
    for (int c = 0; c < 128; c++) {
        for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
            if (iswctype((wint_t)c, wctype(bits[i].class))) runes.type[c] |= bits[i].bit;
        runes.lower[c] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        runes.upper[c] = c >= 'a' && c <= 'z' ? c - 32 : c;
    }
    for (int c = 128; c < 256; c++) runes.lower[c] = runes.upper[c] = c;
}
static int shim_maskrune(int c, unsigned long mask) { return c >= 0 && c < 256 ? (int)(runes.type[c] & mask) : 0; }
static int shim_toupper(int c) { return c >= 0 && c < 128 ? runes.upper[c] : c; }
static int shim_tolower(int c) { return c >= 0 && c < 128 ? runes.lower[c] : c; }
/* The numbers of categories differ, so no locale but the first is there. */
static char *shim_setlocale(int category, const char *name) {
    (void)category;
    (void)name;
    return NULL;
}

typedef struct sine_cosine {
    double sine, cosine;
} sine_cosine;
static sine_cosine shim_sincos(double x) { return (sine_cosine){__builtin_sin(x), __builtin_cos(x)}; }
typedef struct sine_cosine_f {
    float sine, cosine;
} sine_cosine_f;
static sine_cosine_f shim_sincosf(float x) { return (sine_cosine_f){__builtin_sinf(x), __builtin_cosf(x)}; }
static double shim_exp10(double x) { return __builtin_exp10(x); }

static void shim_pattern16(uint8_t *out, const uint8_t *pattern, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) out[i] = pattern[i % 16];
}
static void shim_assert(const char *function, const char *file, int line, const char *expression) {
    fprintf(stderr, "%s:%d: %s: assertion '%s' failed\n", file, line, function ? function : "?", expression);
    abort();
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static FILE *standard_in, *standard_out, *standard_error;
static uint64_t guard = 0x1d0b5e1ec7ed0a00;

#define VARIADIC(name) extern void vararg_##name(void)
VARIADIC(printf);
VARIADIC(fprintf);
VARIADIC(snprintf);
VARIADIC(dprintf);
VARIADIC(asprintf);
VARIADIC(sscanf);
VARIADIC(fscanf);
VARIADIC(open);
VARIADIC(openat);
VARIADIC(fcntl);
VARIADIC(ioctl);
VARIADIC(syslog);
VARIADIC(json_pack);
VARIADIC(json_sprintf);
VARIADIC(_ck_assert_failed);
VARIADIC(snprintf_chk);

/* A va_list is the address itself, so the va_list forms use the same shims. */
static const struct {
    const char *name;
    void *address;
} table[] = {
    {"_printf", (void *)vararg_printf},
    {"_vprintf", (void *)shim_printf},
    {"_fprintf", (void *)vararg_fprintf},
    {"_vfprintf", (void *)shim_fprintf},
    {"_snprintf", (void *)vararg_snprintf},
    {"_vsnprintf", (void *)shim_snprintf},
    {"___snprintf_chk", (void *)vararg_snprintf_chk},
    {"___vsnprintf_chk", (void *)shim_vsnprintf_chk},
    {"_dprintf", (void *)vararg_dprintf},
    {"_asprintf", (void *)vararg_asprintf},
    {"_vasprintf", (void *)shim_asprintf},
    {"_sscanf", (void *)vararg_sscanf},
    {"_fscanf", (void *)vararg_fscanf},
    {"_open", (void *)vararg_open},
    {"_openat", (void *)vararg_openat},
    {"_fcntl", (void *)vararg_fcntl},
    {"_ioctl", (void *)vararg_ioctl},
    {"_syslog", (void *)vararg_syslog},
    {"_json_pack", (void *)vararg_json_pack},
    {"_json_sprintf", (void *)vararg_json_sprintf},
    {"__ck_assert_failed", (void *)vararg__ck_assert_failed},
    {"___error", (void *)shim_error},
    {"_strerror", (void *)shim_strerror},
    {"_strerror_r", (void *)shim_strerror_r},
    {"_perror", (void *)shim_perror},
    {"_stat", (void *)shim_stat},
    {"_lstat", (void *)shim_lstat},
    {"_fstat", (void *)shim_fstat},
    {"_fstatat", (void *)shim_fstatat},
    {"_faccessat", (void *)shim_faccessat},
    {"_unlinkat", (void *)shim_unlinkat},
    {"_opendir", (void *)shim_opendir},
    {"_fdopendir", (void *)fdopendir},
    {"_readdir", (void *)shim_readdir},
    {"_mmap", (void *)shim_mmap},
    {"_msync", (void *)shim_msync},
    {"_madvise", (void *)shim_madvise},
    {"_mprotect", (void *)mprotect},
    {"_pthread_atfork", (void *)shim_atfork},
    {"_pthread_mutex_init", (void *)shim_mutex_init},
    {"_pthread_mutex_lock", (void *)shim_mutex_lock},
    {"_pthread_mutex_trylock", (void *)shim_mutex_trylock},
    {"_pthread_mutex_unlock", (void *)shim_mutex_unlock},
    {"_pthread_mutex_destroy", (void *)shim_mutex_destroy},
    {"_pthread_cond_init", (void *)shim_cond_init},
    {"_pthread_cond_wait", (void *)shim_cond_wait},
    {"_pthread_cond_signal", (void *)shim_cond_signal},
    {"_pthread_cond_broadcast", (void *)shim_cond_broadcast},
    {"_pthread_cond_destroy", (void *)shim_cond_destroy},
    {"_pthread_cond_timedwait", (void *)shim_cond_timedwait},
    {"_pthread_cond_timedwait_relative_np", (void *)shim_cond_timedwait_relative},
    {"_pthread_once", (void *)shim_once},
    {"_sigaction", (void *)shim_sigaction},
    {"_signal", (void *)shim_signal},
    {"_pthread_sigmask", (void *)shim_pthread_sigmask},
    {"_raise", (void *)shim_raise},
    {"_clock_gettime", (void *)shim_clock_gettime},
    {"_setlocale", (void *)shim_setlocale},
    {"_sysconf", (void *)shim_sysconf},
    {"_sysctlbyname", (void *)shim_sysctlbyname},
    {"_malloc_size", (void *)malloc_usable_size},
    {"_getentropy", (void *)getentropy},
    {"_geteuid", (void *)geteuid},
    {"_renamex_np", (void *)shim_renamex},
    {"_uname", (void *)shim_uname},
    {"_execvp", (void *)shim_execvp},
    {"_execv", (void *)shim_execvp},
    {"__NSGetExecutablePath", (void *)executable_path},
    {"__NSGetEnviron", (void *)shim_environ},
    {"_dlopen", (void *)shim_dlopen},
    {"_dlsym", (void *)shim_dlsym},
    {"_dlerror", (void *)shim_dlerror},
    {"_dlclose", (void *)shim_dlclose},
    {"_qos_class_self", (void *)shim_qos_class},
    {"_pthread_set_qos_class_self_np", (void *)shim_set_qos_class},
    {"_dladdr", (void *)dladdr}, /* the same four members */
    {"___maskrune", (void *)shim_maskrune},
    {"___toupper", (void *)shim_toupper},
    {"___tolower", (void *)shim_tolower},
    {"_toupper", (void *)shim_toupper},
    {"_tolower", (void *)shim_tolower},
    {"___sincos_stret", (void *)shim_sincos},
    {"___sincosf_stret", (void *)shim_sincosf},
    {"___exp10", (void *)shim_exp10},
    {"_memset_pattern16", (void *)shim_pattern16},
    {"___assert_rtn", (void *)shim_assert},
    {"__tlv_bootstrap", (void *)tlv_get},
    {"__DefaultRuneLocale", &runes},
    {"___stdinp", &standard_in},
    {"___stdoutp", &standard_out},
    {"___stderrp", &standard_error},
    {"___stack_chk_guard", &guard},
    {"_environ", &loaded_environ},
    {"_atexit", (void *)atexit}, /* in the static part of glibc */
};

void *shim_find(const char *name) {
    if (!standard_out) {
        standard_in = stdin;
        standard_out = stdout;
        standard_error = stderr;
        fill_runes();
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0) return table[i].address;
    return NULL;
}
