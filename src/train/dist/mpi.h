/* SPDX-License-Identifier: MIT
 * Open MPI, loaded at run time. Nothing is linked, and a process that was not started as a rank never loads the
 * library. Only the MPI functions that training needs are used; they transfer bytes among all ranks or a group of them.
 * Their names and handles are those of Open MPI's C interface, which have not changed since version 1.
 */
#ifndef TRAIN_DIST_MPI_H
#define TRAIN_DIST_MPI_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

enum { MPI_MOST_RANKS = 4096 };

typedef struct propane_ranks mpi;
typedef struct mpi_transfer {
    void *request;
    bool open;
} mpi_transfer;

/* Returns whether mpirun (of any MPI) or srun started this process as a rank. mpirun may have started it as the only
 * rank; a single task of srun does not count. */
bool mpi_started(void);
/* Loads and starts Open MPI. Returns PROPANE_ERR_UNSUPPORTED if another MPI's mpirun started the process or the Open
 * MPI library is not found. Call this once per process. */
PROPANE_CHECK propane_status mpi_open(mpi **out, propane_error *err);
void mpi_close(mpi *m);       /* waits for the other ranks */
int mpi_rank(const mpi *m);   /* NULL returns 0 */
bool mpi_leads(const mpi *m); /* whether this rank writes files; NULL returns true */
int mpi_size(const mpi *m);
int mpi_local_size(const mpi *m); /* number of ranks on this machine, from mpirun or srun; 0 if not known */

/* Makes a group of the ranks of `m` that pass the same `color`, in the order of `m`. A negative `color` groups the
 * ranks on the same machine. `m` must outlive the group. All ranks of `m` must call this. */
PROPANE_CHECK propane_status mpi_split(mpi *m, int color, mpi **out, propane_error *err);
void mpi_release(mpi *part);
/* Starts an exchange of bytes with each rank; counts and offsets are [size]. The buffers must stay valid until
 * mpi_wait. */
PROPANE_CHECK propane_status mpi_exchange(mpi *m, const void *send, const int *send_bytes, const int *send_offsets,
                                          void *receive, const int *receive_bytes, const int *receive_offsets,
                                          mpi_transfer *out, propane_error *err);
/* Starts to gather `bytes` bytes of each rank into `receive` on every rank (`root` -1) or on rank `root`. The buffers
 * must stay valid until mpi_wait. */
PROPANE_CHECK propane_status mpi_gather(mpi *m, int root, const void *send, int bytes, void *receive,
                                        const int *receive_bytes, const int *receive_offsets, mpi_transfer *out,
                                        propane_error *err);
/* Sums at most 16 values in the order of the ranks, with the same bits on all ranks. */
PROPANE_CHECK propane_status mpi_sum(mpi *m, double *values, int count, propane_error *err);
/* Advances a transfer without waiting. */
void mpi_progress(mpi *m, mpi_transfer *t);
PROPANE_CHECK propane_status mpi_wait(mpi *m, mpi_transfer *t, propane_error *err);
/* Allocates shared memory, `bytes` zeroed bytes per rank. Sets *at to the addresses [size] in this process, which are
 * valid until mpi_close or mpi_release. Sets *at to NULL if the ranks are not known to run on one machine, if no such
 * memory is left, or on a second call. All ranks must call this. */
PROPANE_CHECK propane_status mpi_share(mpi *m, size_t bytes, char *const **at, propane_error *err);

/* Ends all ranks immediately; does not return. */
void mpi_abort(mpi *m, int code);

#endif
