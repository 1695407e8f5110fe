/* SPDX-License-Identifier: MIT
 * Loads a CBLAS and tries its matrix products. Refuses libraries with 64-bit integers, and those whose products are
 * wrong.
 */
#include "cpu/blas.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "core/base/log.h"

enum { BLAS_NAME_ROOM = 1024, BLAS_IDENTITY_ROOM = 1300, BLAS_LIBRARIES = 8 };

#ifdef __APPLE__
#define BLAS_STANDARD "auto"
static const char *const blas_usual[] = {"/System/Library/Frameworks/Accelerate.framework/Accelerate"};
#else
#define BLAS_STANDARD "off"
static const char *const blas_usual[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libcblas.so.3", "libblas.so.3"};
#endif

/* A requested library, either loaded or with the reason why it cannot be used. Kept for the life of the process. */
typedef struct blas_library {
    char asked[BLAS_NAME_ROOM], identity[BLAS_IDENTITY_ROOM];
    cpu_blas use[2]; /* unmeasured, measured */
    propane_error why;
    bool reported;
} blas_library;

static const double blas_least_flops = 4e6;

static struct {
    pthread_mutex_t mutex;
    blas_library libraries[BLAS_LIBRARIES];
    int count;
    char chosen[BLAS_NAME_ROOM]; /* from --blas; "" if not given */
} blas_state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct {
    atomic_int_fast64_t own, library, own_flops, library_flops;
} blas_counters;

/* ---- the request ------------------------------------------------------------------------------------------------- */

propane_status cpu_blas_choose(const char *how, propane_error *err) {
    if (how && strlen(how) >= BLAS_NAME_ROOM)
        return propane_fail(err, PROPANE_ERR_INVALID, "blas: the library's name is longer than %d bytes",
                            BLAS_NAME_ROOM - 1);
    pthread_mutex_lock(&blas_state.mutex);
    snprintf(blas_state.chosen, sizeof blas_state.chosen, "%s", how ? how : "");
    pthread_mutex_unlock(&blas_state.mutex);
    return PROPANE_OK;
}

/* Returns the library requested by --blas, else by PROPANE_BLAS, else by the system's default. */
static const char *blas_wanted(void) {
    const char *variable = getenv("PROPANE_BLAS");
    if (*blas_state.chosen) return blas_state.chosen;
    return variable && *variable ? variable : BLAS_STANDARD;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Returns true if sgemm computes C = alpha A B + beta C correctly for m x n x k small integers, in all four
 * orientations. C holds NaN before products with beta 0. */
static bool blas_trial(cpu_blas_sgemm sgemm, int m, int n, int k, float *memory) {
    float *a = memory, *b = a + m * k, *c = b + k * n;
    for (int form = 0; form < 8; form++) {
        const bool turn_a = form & 1, turn_b = form & 2, adds = form & 4;
        for (int i = 0; i < m * k; i++) a[i] = (float)((i * 7 + form) % 11) - 5;
        for (int i = 0; i < k * n; i++) b[i] = (float)((i * 5 + form) % 13) - 6;
        for (int i = 0; i < m * n; i++) c[i] = adds ? (float)(i % 17) : NAN;
        sgemm(CPU_BLAS_ROWS, turn_a ? CPU_BLAS_TURNED : CPU_BLAS_AS_IS, turn_b ? CPU_BLAS_TURNED : CPU_BLAS_AS_IS, m, n,
              k, 0.5f, a, turn_a ? m : k, b, turn_b ? k : n, adds ? 1.0f : 0.0f, c, n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0; /* of integers, so it is exact in float, too */
                for (int l = 0; l < k; l++)
                    sum += (double)a[turn_a ? l * m + i : i * k + l] * (double)b[turn_b ? j * k + l : l * n + j];
                const double want = 0.5 * sum + (adds ? (i * n + j) % 17 : 0);
                if (!(fabs((double)c[i * n + j] - want) <= 1e-3)) return false;
            }
    }
    return true;
}

/* Sets an identity that distinguishes this library from other versions of it. */
static void blas_identify(blas_library *l, void *symbol) {
    Dl_info info;
    struct stat st;
    struct utsname machine;
    const char *file = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : l->asked;
    if (stat(file, &st) == 0)
        snprintf(l->identity, sizeof l->identity, "%s %lld %lld", file, (long long)st.st_size, (long long)st.st_mtime);
    else /* a library in the system's own cache has no file */
        snprintf(l->identity, sizeof l->identity, "%s %s", file, uname(&machine) == 0 ? machine.release : "");
}

/* Limits the library to one thread per call, or returns false if it cannot be limited. With one thread per call, the
 * pool's threads call the library, and no two pools compete for the cores. */
static bool blas_make_single(void *library) {
    static const char *const names[] = {"openblas_set_num_threads", "MKL_Set_Num_Threads"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void (*set)(int) = NULL;
        void *symbol = dlsym(library, names[i]);
        if (!symbol) continue;
        memcpy(&set, &symbol, sizeof set);
        set(1);
        return true;
    }
    return false;
}

static propane_status blas_load(blas_library *l, propane_error *err) {
    static float memory[3 * 80 * 80]; /* used under the lock */
    struct stat st;
    if (strchr(l->asked, '/') && stat(l->asked, &st) == 0 && !S_ISREG(st.st_mode)) /* a pipe would block */
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--blas (PROPANE_BLAS): %.300s is not a file; give a library, or off", l->asked);
    void *library = dlopen(l->asked, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--blas (PROPANE_BLAS): %.300s cannot be loaded: %.500s; give another library, or off",
                            l->asked, reason ? reason : "no reason given");
    }
    void *symbol = dlsym(library, "cblas_sgemm");
    const bool wide = dlsym(library, "cblas_sgemm64_") || dlsym(library, "cblas_sgemm_64");
    cpu_blas_sgemm sgemm = NULL;
    if (!symbol) {
        dlclose(library);
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--blas (PROPANE_BLAS): %.500s has no cblas_sgemm%s",
                            l->asked,
                            wide ? " with 32-bit integers: it was built for 64-bit integers" : ": it is no CBLAS");
    }
    memcpy(&sgemm, &symbol, sizeof sgemm);
    const bool single = blas_make_single(library);
    if (!blas_trial(sgemm, 3, 4, 5, memory) || !blas_trial(sgemm, 70, 33, 80, memory))
        return propane_fail(
            err, PROPANE_ERR_DEVICE,
            "--blas (PROPANE_BLAS): %.500s gives a wrong product of small integers; give another library, or off",
            l->asked);
    blas_identify(l, symbol);
    for (int i = 0; i < 2; i++) l->use[i] = (cpu_blas){l->asked, l->identity, sgemm, i == 1, single, blas_least_flops};
    return PROPANE_OK;
}

/* Sets *out to the entry of the library with this name. The library is tried once per process; if it cannot be used,
 * the entry holds the reason. */
static propane_status blas_library_of(const char *name, blas_library **out, propane_error *err) {
    for (int i = 0; i < blas_state.count; i++) {
        *out = &blas_state.libraries[i];
        if (strcmp((*out)->asked, name) == 0) return PROPANE_OK;
    }
    if (blas_state.count == BLAS_LIBRARIES)
        return propane_fail(err, PROPANE_ERR_LIMIT, "blas: one process can try at most %d libraries", BLAS_LIBRARIES);
    blas_library *l = *out = &blas_state.libraries[blas_state.count++];
    snprintf(l->asked, sizeof l->asked, "%s", name);
    l->why.status = PROPANE_OK;
    (void)blas_load(l, &l->why);
    return PROPANE_OK;
}

/* Sets *out to the library for auto, if it can be used. Otherwise *out is unchanged and, if `report`, the reason is
 * logged once. */
static propane_status blas_or_own(const char *name, bool report, const cpu_blas **out, propane_error *err) {
    blas_library *l;
    PROPANE_TRY(blas_library_of(name, &l, err));
    if (l->why.status == PROPANE_OK)
        *out = &l->use[1];
    else if (report && !l->reported)
        log_print("%.900s; using the built-in kernels for all matrix products", l->why.text);
    l->reported |= report;
    return PROPANE_OK;
}

static propane_status blas_find(const char *how, const cpu_blas **out, propane_error *err) {
    static const char automatic[] = "auto:";
    blas_library *l;
    if (strcmp(how, "off") == 0) return PROPANE_OK;
    if (strncmp(how, automatic, sizeof automatic - 1) == 0 && how[sizeof automatic - 1])
        return blas_or_own(how + sizeof automatic - 1, true, out, err);
    if (strcmp(how, "auto") == 0) {
        for (size_t i = 0; i < sizeof blas_usual / sizeof blas_usual[0] && !*out; i++) {
            void *there = dlopen(blas_usual[i], RTLD_LAZY | RTLD_LOCAL);
            if (there) PROPANE_TRY(blas_or_own(blas_usual[i], true, out, err));
            if (there) dlclose(there);
        }
        return PROPANE_OK;
    }
    PROPANE_TRY(blas_library_of(how, &l, err));
    if (l->why.status != PROPANE_OK) return propane_fail(err, l->why.status, "%s", l->why.text);
    *out = &l->use[0];
    return PROPANE_OK;
}

propane_status cpu_blas_current(const cpu_blas **out, propane_error *err) {
    char how[BLAS_NAME_ROOM];
    *out = NULL;
    pthread_mutex_lock(&blas_state.mutex);
    const char *wanted = blas_wanted();
    propane_status status = PROPANE_OK;
    if (strlen(wanted) >= sizeof how)
        status = propane_fail(err, PROPANE_ERR_INVALID, "PROPANE_BLAS: the library's name is longer than %d bytes",
                              BLAS_NAME_ROOM - 1);
    else
        snprintf(how, sizeof how, "%s", wanted);
    if (status == PROPANE_OK) status = blas_find(how, out, err);
    pthread_mutex_unlock(&blas_state.mutex);
    return status;
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

void cpu_blas_count(bool library, double flops) {
    atomic_fetch_add_explicit(library ? &blas_counters.library : &blas_counters.own, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(library ? &blas_counters.library_flops : &blas_counters.own_flops, (int_fast64_t)flops,
                              memory_order_relaxed);
}

cpu_blas_counts cpu_blas_counted(void) {
    return (cpu_blas_counts){.own = blas_counters.own,
                             .library = blas_counters.library,
                             .own_flops = (double)blas_counters.own_flops,
                             .library_flops = (double)blas_counters.library_flops};
}
