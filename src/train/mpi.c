/* SPDX-License-Identifier: MIT
 * Owns the binding to Open MPI: library, symbols, error texts. Refuses other MPIs by name: their handles are not pointers,
 * and a wrong guess would crash.
 */
#include "train/mpi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

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
    CALL(Win_allocate_shared, int, (ptrdiff_t, int, handle, handle, void *, handle *))                                 \
    CALL(Win_shared_query, int, (handle, int, ptrdiff_t *, int *, void *))                                             \
    CALL(Win_free, int, (handle *))                                                                                    \
    CALL(Test, int, (handle *, int *, void *))                                                                         \
    CALL(Wait, int, (handle *, void *))                                                                                \
    CALL(Abort, int, (handle, int))

struct mpi {
    void *library;
    handle world, byte, errors_return, no_info;
    handle window; /* of shared memory; NULL: none */
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

static void *open_library(void) {
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

static propane_status find(mpi *m, const char *name, void *out, propane_error *err) {
    void *symbol = dlsym(m->library, name);
    if (!symbol)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the MPI library has no %s; Propane needs Open MPI's", name);
    memcpy(out, &symbol, sizeof symbol);
    return PROPANE_OK;
}

static propane_status find_all(mpi *m, propane_error *err) {
    PROPANE_TRY(find(m, "ompi_mpi_comm_world", &m->world, err));
    PROPANE_TRY(find(m, "ompi_mpi_byte", &m->byte, err));
    PROPANE_TRY(find(m, "ompi_mpi_errors_return", &m->errors_return, err));
    PROPANE_TRY(find(m, "ompi_mpi_info_null", &m->no_info, err));
#define FIND(name, result, arguments) PROPANE_TRY(find(m, "MPI_" #name, &m->name, err));
    CALLS(FIND)
#undef FIND
    return PROPANE_OK;
}

static propane_status fail(const mpi *m, int code, const char *what, propane_error *err) {
    char why[1024] = "";
    int length = 0;
    if (m->Error_string(code, why, &length)) why[0] = 0;
    return propane_fail(err, PROPANE_ERR_DEVICE, "rank %d: MPI_%s: %.200s", m->rank, what, why);
}

static propane_status start(mpi *m, propane_error *err) {
    int given = 0;
    m->library = open_library();
    if (!m->library)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "mpirun started this process, but Open MPI's library is not found here; install it "
                            "(Debian: openmpi-bin, Homebrew: open-mpi), or start without mpirun");
    PROPANE_TRY(find_all(m, err));
    if (m->Init_thread(NULL, NULL, THREAD_FUNNELED, &given))
        return propane_fail(err, PROPANE_ERR_DEVICE, "Open MPI cannot start");
    m->Comm_set_errhandler(m->world, m->errors_return);
    int code = m->Comm_rank(m->world, &m->rank);
    if (!code) code = m->Comm_size(m->world, &m->size);
    return code ? fail(m, code, "Comm_rank", err) : PROPANE_OK;
}

propane_status mpi_open(mpi **out, propane_error *err) {
    *out = NULL;
    if (!getenv("OMPI_COMM_WORLD_SIZE"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "this mpirun is not Open MPI's; data-parallel training needs Open MPI");
    mpi *m = mem_alloc(sizeof *m);
    if (!m) return propane_fail_memory(err, sizeof *m);
    propane_status status = start(m, err);
    if (status == PROPANE_OK)
        *out = m;
    else
        mem_free(m);
    return status;
}

void mpi_close(mpi *m) {
    if (!m) return;
    if (m->window) m->Win_free(&m->window);
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
    return code ? fail(m, code, "Ialltoallv", err) : PROPANE_OK;
}

propane_status mpi_gather(mpi *m, int root, const void *send, int bytes, void *receive, const int *receive_bytes,
                          const int *receive_offsets, mpi_transfer *out, propane_error *err) {
    int code = root < 0 ? m->Iallgatherv(send, bytes, m->byte, receive, receive_bytes, receive_offsets, m->byte,
                                         m->world, &out->request)
                        : m->Igatherv(send, bytes, m->byte, receive, receive_bytes, receive_offsets, m->byte, root,
                                      m->world, &out->request);
    out->open = code == 0;
    return code ? fail(m, code, root < 0 ? "Iallgatherv" : "Igatherv", err) : PROPANE_OK;
}

void mpi_progress(mpi *m, mpi_transfer *t) {
    int done = 0;
    if (t->open && !m->Test(&t->request, &done, NULL) && done) t->open = false;
}

propane_status mpi_wait(mpi *m, mpi_transfer *t, propane_error *err) {
    if (!t->open) return PROPANE_OK;
    t->open = false;
    int code = m->Wait(&t->request, NULL);
    return code ? fail(m, code, "Wait", err) : PROPANE_OK;
}

propane_status mpi_sum(mpi *m, double *values, int count, propane_error *err) {
    enum { MOST = 16 };
    int size = mpi_size(m), bytes[MPI_MOST_RANKS], offsets[MPI_MOST_RANKS];
    double *all = mem_array((size_t)size * MOST, sizeof *all);
    if (!all || count > MOST) {
        mem_free(all);
        return propane_fail_memory(err, (size_t)size * MOST * sizeof *all);
    }
    for (int r = 0; r < size; r++) bytes[r] = count * 8, offsets[r] = r * count * 8;
    mpi_transfer transfer = {0};
    propane_status status = mpi_gather(m, -1, values, count * 8, all, bytes, offsets, &transfer, err);
    if (status == PROPANE_OK) status = mpi_wait(m, &transfer, err);
    for (int i = 0; i < count && status == PROPANE_OK; i++) {
        values[i] = 0;
        for (int r = 0; r < size; r++) values[i] += all[r * count + i];
    }
    mem_free(all);
    return status;
}

/* A code of MPI's. */
static int open_window(mpi *m, size_t bytes, char **at) {
    void *own = NULL;
    int code = m->Win_allocate_shared((ptrdiff_t)bytes, 1, m->no_info, m->world, &own, &m->window);
    if (code) m->window = NULL;
    for (int r = 0; r < m->size && !code; r++) {
        ptrdiff_t size;
        int unit;
        code = m->Win_shared_query(m->window, r, &size, &unit, &at[r]);
    }
    if (!code) memset(own, 0, bytes);
    return code;
}

propane_status mpi_share(mpi *m, size_t bytes, char **at, propane_error *err) {
    memset(at, 0, (size_t)m->size * sizeof *at);
    if (mpi_local_size(m) != m->size || m->window) return PROPANE_OK;
    double failures = open_window(m, bytes, at) != 0;
    PROPANE_TRY(mpi_sum(m, &failures, 1, err)); /* nobody writes before all have cleared theirs */
    if (failures > 0) memset(at, 0, (size_t)m->size * sizeof *at);
    return PROPANE_OK;
}

void mpi_abort(mpi *m, int code) { m->Abort(m->world, code); }
