/* SPDX-License-Identifier: MIT
 * Owns the binding to Open MPI: library, symbols, error texts. Other MPIs are refused by the environment of the
 * process, because their handles may not be pointers and a wrong guess would crash.
 */
#include "train/dist/mpi.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/memory.h"

typedef void *handle; /* MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request: pointers in Open MPI */

enum { TYPE_SHARED = 0 }; /* Open MPI's constant */

/* All MPI functions that are used: name, result and parameters. */
#define CALLS(CALL)                                                                                                    \
    CALL(Init, int, (int *, char ***))                                                                                 \
    CALL(Finalize, int, (void))                                                                                        \
    CALL(Comm_rank, int, (handle, int *))                                                                              \
    CALL(Comm_size, int, (handle, int *))                                                                              \
    CALL(Comm_set_errhandler, int, (handle, handle))                                                                   \
    CALL(Comm_split, int, (handle, int, int, handle *))                                                                \
    CALL(Comm_split_type, int, (handle, int, int, handle, handle *))                                                   \
    CALL(Comm_free, int, (handle *))                                                                                   \
    CALL(Error_string, int, (int, char *, int *))                                                                      \
    CALL(Ialltoallv, int,                                                                                              \
         (const void *, const int *, const int *, handle, void *, const int *, const int *, handle, handle, handle *)) \
    CALL(Iallgatherv, int, (const void *, int, handle, void *, const int *, const int *, handle, handle, handle *))    \
    CALL(Igatherv, int, (const void *, int, handle, void *, const int *, const int *, handle, int, handle, handle *))  \
    CALL(Test, int, (handle *, int *, void *))                                                                         \
    CALL(Wait, int, (handle *, void *))                                                                                \
    CALL(Abort, int, (handle, int))

/* The library, shared by all groups. */
typedef struct mpi_calls {
    void *library;
    handle world, byte, errors_return, info_null;
#define MEMBER(name, result, arguments) result(*name) arguments;
    CALLS(MEMBER)
#undef MEMBER
} mpi_calls;

struct propane_ranks {
    mpi_calls *calls;
    handle comm;
    char **shared; /* [size], each rank's memory, or NULL */
    size_t shared_bytes;
    int rank, size;
    bool near; /* all ranks are known to be on one machine */
};

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK"};

/* Returns the number of tasks of the srun that started this process, or 0 if srun did not start it. SLURM_NTASKS alone
 * is not enough, because a batch script, which is a single process, also has it. */
static int mpi_slurm_tasks(void) {
    const char *step = getenv("SLURM_STEP_NUM_TASKS"), *tasks = getenv("SLURM_NTASKS");
    if (step) return atoi(step);
    return tasks && getenv("PMIX_RANK") ? atoi(tasks) : 0;
}

bool mpi_started(void) {
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i])) return true;
    const int tasks = mpi_slurm_tasks();
    return tasks > 1 || (getenv("PMIX_RANK") && tasks != 1);
}

int mpi_local_size(const mpi *m) {
    const char *text = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *nodes = getenv("SLURM_STEP_NUM_NODES");
    if (!text && nodes && atoi(nodes) == 1) return m->size;
    return text ? atoi(text) : 0;
}

static void *mpi_open_library(void) {
    static const char *const names[] = {
#ifdef __APPLE__
        "libmpi.40.dylib",
        "/opt/homebrew/lib/libmpi.40.dylib",
        "/usr/local/lib/libmpi.40.dylib",
#else
        "libmpi.so.40",
        "libmpi.so.20",
        "libmpi.so",
#endif
    };
    void *library = NULL;
    /* RTLD_GLOBAL, because the library's plug-ins look up its symbols in the process */
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    return library;
}

static propane_status mpi_find(mpi_calls *c, const char *name, void *out, propane_error *err) {
    void *symbol = dlsym(c->library, name);
    if (!symbol)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the MPI library has no %s; Propane needs Open MPI", name);
    memcpy(out, &symbol, sizeof symbol);
    return PROPANE_OK;
}

static propane_status mpi_find_all(mpi_calls *c, propane_error *err) {
    PROPANE_TRY(mpi_find(c, "ompi_mpi_comm_world", &c->world, err));
    PROPANE_TRY(mpi_find(c, "ompi_mpi_byte", &c->byte, err));
    PROPANE_TRY(mpi_find(c, "ompi_mpi_errors_return", &c->errors_return, err));
    PROPANE_TRY(mpi_find(c, "ompi_mpi_info_null", &c->info_null, err));
#define FIND(name, result, arguments) PROPANE_TRY(mpi_find(c, "MPI_" #name, &c->name, err));
    CALLS(FIND)
#undef FIND
    return PROPANE_OK;
}

static propane_status mpi_fail(const mpi *m, int code, const char *what, propane_error *err) {
    char why[1024] = "";
    int length = 0;
    if (m->calls->Error_string(code, why, &length)) why[0] = 0;
    return propane_fail(err, PROPANE_ERR_DEVICE, "rank %d: MPI_%s: %.200s", m->rank, what, why);
}

static propane_status mpi_know(mpi *m, propane_error *err) {
    m->calls->Comm_set_errhandler(m->comm, m->calls->errors_return);
    int code = m->calls->Comm_rank(m->comm, &m->rank);
    if (!code) code = m->calls->Comm_size(m->comm, &m->size);
    return code ? mpi_fail(m, code, "Comm_rank", err) : PROPANE_OK;
}

static propane_status mpi_start(mpi *m, propane_error *err) {
    mpi_calls *c = m->calls;
    c->library = mpi_open_library();
    if (!c->library)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "mpirun started this process, but the Open MPI library was not found; install it (Debian: "
                            "openmpi-bin, Homebrew: open-mpi), or start without mpirun");
    PROPANE_TRY(mpi_find_all(c, err));
    if (c->Init(NULL, NULL)) return propane_fail(err, PROPANE_ERR_DEVICE, "Open MPI cannot start");
    m->comm = c->world;
    PROPANE_TRY(mpi_know(m, err));
    m->near = mpi_local_size(m) == m->size;
    return PROPANE_OK;
}

/* Fails if the ranks did not find each other. Otherwise each of them would train the whole run, and all into the same
 * folder. */
static propane_status mpi_check_size(const mpi *m, propane_error *err) {
    const int tasks = mpi_slurm_tasks();
    if (tasks <= 1 || m->size == tasks) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_DEVICE,
        "srun started %d tasks, but Open MPI counts %d: use srun --mpi=pmix and an Open MPI built with PMIx", tasks,
        m->size);
}

static propane_status mpi_check_start(propane_error *err) {
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK")) return PROPANE_OK;
    if (mpi_slurm_tasks() > 1)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "srun started %d tasks that cannot find each other: use srun --mpi=pmix, or --ntasks=1 for one process",
            mpi_slurm_tasks());
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "this mpirun does not belong to Open MPI, which data-parallel training needs");
}

propane_status mpi_open(mpi **out, propane_error *err) {
    *out = NULL;
    PROPANE_TRY(mpi_check_start(err));
    mpi *m = mem_alloc(sizeof *m);
    mpi_calls *c = mem_alloc(sizeof *c);
    propane_status status = m && c ? PROPANE_OK : propane_fail_memory(err, sizeof *m + sizeof *c);
    if (status == PROPANE_OK) {
        *m = (mpi){.calls = c};
        status = mpi_start(m, err);
    }
    if (status == PROPANE_OK) status = mpi_check_size(m, err);
    if (status == PROPANE_OK) {
        *out = m;
        return PROPANE_OK;
    }
    mem_free(c);
    mem_free(m);
    return status;
}

static void mpi_unmap(mpi *m) {
    for (int r = 0; m->shared && r < m->size; r++) mem_shared_free(m->shared[r], m->shared_bytes);
    mem_free(m->shared);
    m->shared = NULL;
}

void mpi_close(mpi *m) {
    if (!m) return;
    mpi_unmap(m);
    m->calls->Finalize(); /* the library stays loaded: its threads may still run */
    mem_free(m->calls);
    mem_free(m);
}

/* ---- groups --------------------------------------------------------------------------------------------------------------- */

propane_status mpi_split(mpi *m, int color, mpi **out, propane_error *err) {
    *out = NULL;
    mpi_calls *c = m->calls;
    mpi *part = mem_alloc(sizeof *part);
    if (!part) return propane_fail_memory(err, sizeof *part);
    *part = (mpi){.calls = c, .near = m->near || color < 0};
    const int code = color < 0 ? c->Comm_split_type(m->comm, TYPE_SHARED, m->rank, c->info_null, &part->comm)
                               : c->Comm_split(m->comm, color, m->rank, &part->comm);
    propane_status status = code ? mpi_fail(m, code, "Comm_split", err) : mpi_know(part, err);
    if (status == PROPANE_OK)
        *out = part;
    else
        mem_free(part);
    return status;
}

void mpi_release(mpi *part) {
    if (!part) return;
    mpi_unmap(part);
    (void)part->calls->Comm_free(&part->comm);
    mem_free(part);
}

int mpi_rank(const mpi *m) { return m ? m->rank : 0; }
bool mpi_leads(const mpi *m) { return mpi_rank(m) == 0; }
int mpi_size(const mpi *m) { return m->size; }

propane_status mpi_exchange(mpi *m, const void *send, const int *send_bytes, const int *send_offsets, void *receive,
                            const int *receive_bytes, const int *receive_offsets, mpi_transfer *out,
                            propane_error *err) {
    mpi_calls *c = m->calls;
    const int code = c->Ialltoallv(send, send_bytes, send_offsets, c->byte, receive, receive_bytes, receive_offsets,
                                   c->byte, m->comm, &out->request);
    out->open = code == 0;
    return code ? mpi_fail(m, code, "Ialltoallv", err) : PROPANE_OK;
}

propane_status mpi_gather(mpi *m, int root, const void *send, int bytes, void *receive, const int *receive_bytes,
                          const int *receive_offsets, mpi_transfer *out, propane_error *err) {
    mpi_calls *c = m->calls;
    const int code = root < 0 ? c->Iallgatherv(send, bytes, c->byte, receive, receive_bytes, receive_offsets, c->byte,
                                               m->comm, &out->request)
                              : c->Igatherv(send, bytes, c->byte, receive, receive_bytes, receive_offsets, c->byte,
                                            root, m->comm, &out->request);
    out->open = code == 0;
    return code ? mpi_fail(m, code, root < 0 ? "Iallgatherv" : "Igatherv", err) : PROPANE_OK;
}

void mpi_progress(mpi *m, mpi_transfer *t) {
    int done = 0;
    if (t->open && m->calls->Test(&t->request, &done, NULL) == 0 && done) t->open = false;
}

propane_status mpi_wait(mpi *m, mpi_transfer *t, propane_error *err) {
    if (!t->open) return PROPANE_OK;
    t->open = false;
    const int code = m->calls->Wait(&t->request, NULL);
    return code ? mpi_fail(m, code, "Wait", err) : PROPANE_OK;
}

/* Gathers the same number of bytes from each rank, in the order of the ranks, on all ranks, and waits for them. */
static propane_status mpi_gather_all(mpi *m, const void *send, int bytes, void *all, propane_error *err) {
    int counts[MPI_MOST_RANKS], offsets[MPI_MOST_RANKS];
    for (int r = 0; r < m->size; r++) counts[r] = bytes, offsets[r] = r * bytes;
    mpi_transfer transfer = {0};
    PROPANE_TRY(mpi_gather(m, -1, send, bytes, all, counts, offsets, &transfer, err));
    return mpi_wait(m, &transfer, err);
}

propane_status mpi_sum(mpi *m, double *values, int count, propane_error *err) {
    enum { MOST = 16 };
    double *all = mem_array((size_t)m->size * MOST, sizeof *all);
    if (!all || count > MOST) {
        mem_free(all);
        return propane_fail_memory(err, (size_t)m->size * MOST * sizeof *all);
    }
    propane_status status = mpi_gather_all(m, values, count * (int)sizeof *all, all, err);
    for (int i = 0; i < count && status == PROPANE_OK; i++) {
        values[i] = 0;
        for (int r = 0; r < m->size; r++) values[i] += all[r * count + i];
    }
    mem_free(all);
    return status;
}

typedef struct shared_name {
    char text[32];
} shared_name;

/* Makes this rank's memory and maps that of the others. If this fails on one rank, no rank has any. The names are
 * removed before this returns. */
static propane_status mpi_map_all(mpi *m, shared_name *names, propane_error *err) {
    shared_name own = {""};
    double failures = 0;
    (void)snprintf(own.text, sizeof own.text, "/propane.%ld.%d", (long)getpid(), m->rank);
    m->shared[m->rank] = mem_shared_make(own.text, m->shared_bytes);
    propane_status status = mpi_gather_all(m, &own, sizeof own, names, err);
    for (int r = 0; r < m->size && !status; r++) {
        names[r].text[sizeof names[r].text - 1] = 0;
        if (r != m->rank) m->shared[r] = mem_shared_open(names[r].text, m->shared_bytes);
        failures += m->shared[r] == NULL;
    }
    if (!status) status = mpi_sum(m, &failures, 1, err);
    if (m->shared[m->rank]) mem_shared_forget(own.text);
    if (status || failures > 0) mpi_unmap(m);
    return status;
}

propane_status mpi_share(mpi *m, size_t bytes, char *const **at, propane_error *err) {
    *at = NULL;
    if (!m->near || m->shared) return PROPANE_OK;
    shared_name *names = mem_array((size_t)m->size, sizeof *names);
    m->shared = mem_array((size_t)m->size, sizeof *m->shared);
    m->shared_bytes = bytes;
    propane_status status =
        names && m->shared ? mpi_map_all(m, names, err) : propane_fail_memory(err, (size_t)m->size * sizeof *names);
    mem_free(names);
    *at = m->shared;
    return status;
}

void mpi_abort(mpi *m, int code) { m->calls->Abort(m->calls->world, code); }
