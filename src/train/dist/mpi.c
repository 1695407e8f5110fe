/* SPDX-License-Identifier: MIT
 * Owns the binding to Open MPI: library, symbols, error texts. Refuses other MPIs by name: their handles are not pointers,
 * and a wrong guess would crash.
 */
#include "train/dist/mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

typedef void *handle; /* MPI_Comm, MPI_Datatype, MPI_Request: pointers in Open MPI */

#define THREAD_FUNNELED 1

/* Every call that is used: name, type. */
#define CALLS(CALL)                                                                                                    \
    CALL(Init_thread, int, (int *, char ***, int, int *))                                                              \
    CALL(Finalize, int, (void))                                                                                        \
    CALL(Comm_rank, int, (handle, int *))                                                                              \
    CALL(Comm_size, int, (handle, int *))                                                                              \
    CALL(Comm_set_errhandler, int, (handle, handle))                                                                   \
    CALL(Error_string, int, (int, char *, int *))                                                                      \
    CALL(Ialltoallv, int,                                                                                              \
         (const void *, const int *, const int *, handle, void *, const int *, const int *, handle, handle, handle *)) \
    CALL(Iallgatherv, int, (const void *, int, handle, void *, const int *, const int *, handle, handle, handle *))    \
    CALL(Igatherv, int, (const void *, int, handle, void *, const int *, const int *, handle, int, handle, handle *))  \
    CALL(Test, int, (handle *, int *, void *))                                                                         \
    CALL(Wait, int, (handle *, void *))                                                                                \
    CALL(Abort, int, (handle, int))

struct propane_ranks {
    void *library;
    handle world, byte, errors_return;
    char **shared; /* [size] each rank's memory; NULL: none */
    size_t shared_bytes;
    int rank, size;
#define MEMBER(name, result, arguments) result(*name) arguments;
    CALLS(MEMBER)
#undef MEMBER
};

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK"};

bool mpi_started(void) {
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i])) return true;
    return false;
}

int mpi_local_size(const mpi *m) {
    const char *text = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    (void)m;
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
    /* its plug-ins look for its symbols in the process */
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    return library;
}

static propane_status mpi_find(mpi *m, const char *name, void *out, propane_error *err) {
    void *symbol = dlsym(m->library, name);
    if (!symbol)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the MPI library has no %s; Propane needs Open MPI's", name);
    memcpy(out, &symbol, sizeof symbol);
    return PROPANE_OK;
}

static propane_status mpi_find_all(mpi *m, propane_error *err) {
    PROPANE_TRY(mpi_find(m, "ompi_mpi_comm_world", &m->world, err));
    PROPANE_TRY(mpi_find(m, "ompi_mpi_byte", &m->byte, err));
    PROPANE_TRY(mpi_find(m, "ompi_mpi_errors_return", &m->errors_return, err));
#define FIND(name, result, arguments) PROPANE_TRY(mpi_find(m, "MPI_" #name, &m->name, err));
    CALLS(FIND)
#undef FIND
    return PROPANE_OK;
}

static propane_status mpi_fail(const mpi *m, int code, const char *what, propane_error *err) {
    char why[1024] = "";
    int length = 0;
    if (m->Error_string(code, why, &length)) why[0] = 0;
    return propane_fail(err, PROPANE_ERR_DEVICE, "rank %d: MPI_%s: %.200s", m->rank, what, why);
}

static propane_status mpi_start(mpi *m, propane_error *err) {
    int given = 0;
    m->library = mpi_open_library();
    if (!m->library)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "mpirun started this process, but Open MPI's library is not found here; install it "
                            "(Debian: openmpi-bin, Homebrew: open-mpi), or start without mpirun");
    PROPANE_TRY(mpi_find_all(m, err));
    if (m->Init_thread(NULL, NULL, THREAD_FUNNELED, &given))
        return propane_fail(err, PROPANE_ERR_DEVICE, "Open MPI cannot start");
    m->Comm_set_errhandler(m->world, m->errors_return);
    int code = m->Comm_rank(m->world, &m->rank);
    if (!code) code = m->Comm_size(m->world, &m->size);
    return code ? mpi_fail(m, code, "Comm_rank", err) : PROPANE_OK;
}

propane_status mpi_open(mpi **out, propane_error *err) {
    *out = NULL;
    if (!getenv("OMPI_COMM_WORLD_SIZE"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "this mpirun is not Open MPI's; data-parallel training needs Open MPI");
    mpi *m = mem_alloc(sizeof *m);
    if (!m) return propane_fail_memory(err, sizeof *m);
    propane_status status = mpi_start(m, err);
    if (status == PROPANE_OK)
        *out = m;
    else
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
    m->Finalize(); /* the library stays: its threads may */
    mem_free(m);
}

int mpi_rank(const mpi *m) { return m->rank; }
int mpi_size(const mpi *m) { return m->size; }

propane_status mpi_exchange(mpi *m, const void *send, const int *send_bytes, const int *send_offsets, void *receive,
                            const int *receive_bytes, const int *receive_offsets, mpi_transfer *out,
                            propane_error *err) {
    int code = m->Ialltoallv(send, send_bytes, send_offsets, m->byte, receive, receive_bytes, receive_offsets, m->byte,
                             m->world, &out->request);
    out->open = code == 0;
    return code ? mpi_fail(m, code, "Ialltoallv", err) : PROPANE_OK;
}

propane_status mpi_gather(mpi *m, int root, const void *send, int bytes, void *receive, const int *receive_bytes,
                          const int *receive_offsets, mpi_transfer *out, propane_error *err) {
    int code = root < 0 ? m->Iallgatherv(send, bytes, m->byte, receive, receive_bytes, receive_offsets, m->byte,
                                         m->world, &out->request)
                        : m->Igatherv(send, bytes, m->byte, receive, receive_bytes, receive_offsets, m->byte, root,
                                      m->world, &out->request);
    out->open = code == 0;
    return code ? mpi_fail(m, code, root < 0 ? "Iallgatherv" : "Igatherv", err) : PROPANE_OK;
}

void mpi_progress(mpi *m, mpi_transfer *t) {
    int done = 0;
    if (t->open && !m->Test(&t->request, &done, NULL) && done) t->open = false;
}

propane_status mpi_wait(mpi *m, mpi_transfer *t, propane_error *err) {
    if (!t->open) return PROPANE_OK;
    t->open = false;
    int code = m->Wait(&t->request, NULL);
    return code ? mpi_fail(m, code, "Wait", err) : PROPANE_OK;
}

/* The same number of bytes from each rank, in their order, to all; done when it returns. */
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

/* Every rank makes its own memory and opens the others', or none of them has any. Names are gone when it returns. */
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
    if (mpi_local_size(m) != m->size || m->shared) return PROPANE_OK;
    shared_name *names = mem_array((size_t)m->size, sizeof *names);
    m->shared = mem_array((size_t)m->size, sizeof *m->shared);
    m->shared_bytes = bytes;
    propane_status status =
        names && m->shared ? mpi_map_all(m, names, err) : propane_fail_memory(err, (size_t)m->size * sizeof *names);
    mem_free(names);
    *at = m->shared;
    return status;
}

void mpi_abort(mpi *m, int code) { m->Abort(m->world, code); }
