/* SPDX-License-Identifier: MIT
 * Open MPI, found at run time. Nothing is linked, and a process that mpirun did not start never loads it. Only the
 * calls that training needs are bound, on bytes, among all ranks or a group of them. It uses the names and handles of
 * Open MPI's C interface, unchanged since its version 1.
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

/* Returns whether this process was started by mpirun (of any MPI), as one of several ranks or as the only one. */
bool mpi_started(void);
/* Returns PROPANE_ERR_UNSUPPORTED if mpirun is not Open MPI's or its library is not found. Call it once per process. */
PROPANE_CHECK propane_status mpi_open(mpi **out, propane_error *err);
void mpi_close(mpi *m);       /* waits for the other ranks */
int mpi_rank(const mpi *m);   /* NULL returns 0 */
bool mpi_leads(const mpi *m); /* whether this rank writes files; NULL returns true */
int mpi_size(const mpi *m);
int mpi_local_size(const mpi *m); /* ranks on this machine, from mpirun; 0 if not known */

/* Makes a group of the ranks of `m` that pass the same `color`, in their order; a negative color groups those on the
 * same machine. `m` must outlive it. All ranks of `m` must call it. */
PROPANE_CHECK propane_status mpi_split(mpi *m, int color, mpi **out, propane_error *err);
void mpi_release(mpi *part);
/* Exchanges bytes with each rank; counts and offsets are [size]. The buffers must stay valid until mpi_wait. */
PROPANE_CHECK propane_status mpi_exchange(mpi *m, const void *send, const int *send_bytes, const int *send_offsets,
                                          void *receive, const int *receive_bytes, const int *receive_offsets,
                                          mpi_transfer *out, propane_error *err);
/* Gathers this rank's `bytes` into `receive` on every rank (`root` -1) or on one rank. */
PROPANE_CHECK propane_status mpi_gather(mpi *m, int root, const void *send, int bytes, void *receive,
                                        const int *receive_bytes, const int *receive_offsets, mpi_transfer *out,
                                        propane_error *err);
/* Sums a few values (at most 16) in the order of the ranks, with the same bits on all. */
PROPANE_CHECK propane_status mpi_sum(mpi *m, double *values, int count, propane_error *err);
/* Advances transfers without waiting. */
void mpi_progress(mpi *m, mpi_transfer *t);
PROPANE_CHECK propane_status mpi_wait(mpi *m, mpi_transfer *t, propane_error *err);
/* Allocates memory that all ranks see: `bytes`, zeroed, per rank. at[size] holds the addresses in this process, valid
 * until mpi_close or mpi_release. *at is NULL if the ranks are not known to run on one machine, if no such memory is
 * left, or on a second call. All ranks must call it. */
PROPANE_CHECK propane_status mpi_share(mpi *m, size_t bytes, char *const **at, propane_error *err);

/* Ends all ranks immediately; does not return. */
void mpi_abort(mpi *m, int code);

#endif
