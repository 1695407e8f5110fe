/* SPDX-License-Identifier: MIT
 * Open MPI, found at run time: nothing is linked, and a process that mpirun did not start never loads it. Only the
 * calls that training needs, on bytes, among all ranks or a group of them. Names and handles are those of Open MPI's C
 * interface, the same since its version 1.
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

/* Was this process started by mpirun (of any MPI), as one of several ranks or alone? */
bool mpi_started(void);
/* PROPANE_ERR_UNSUPPORTED where the mpirun is not Open MPI's or its library is not found. Once a process. */
PROPANE_CHECK propane_status mpi_open(mpi **out, propane_error *err);
void mpi_close(mpi *m);       /* waits for the other ranks */
int mpi_rank(const mpi *m);   /* NULL: 0 */
bool mpi_leads(const mpi *m); /* is this the rank that writes files? NULL: it is */
int mpi_size(const mpi *m);
int mpi_local_size(const mpi *m); /* ranks on this machine, from mpirun; 0: not known */

/* A group of those ranks of `m` that give the same `color` (negative: of those on the same machine), in their order;
 * `m` must outlive it. All ranks of `m` call it. */
PROPANE_CHECK propane_status mpi_split(mpi *m, int color, mpi **out, propane_error *err);
void mpi_release(mpi *part);
/* Bytes from and to each rank; counts and offsets [size]. The buffers must stay until mpi_wait. */
PROPANE_CHECK propane_status mpi_exchange(mpi *m, const void *send, const int *send_bytes, const int *send_offsets,
                                          void *receive, const int *receive_bytes, const int *receive_offsets,
                                          mpi_transfer *out, propane_error *err);
/* This rank's `bytes` into everybody's `receive` (`root` -1) or into that of one rank. */
PROPANE_CHECK propane_status mpi_gather(mpi *m, int root, const void *send, int bytes, void *receive,
                                        const int *receive_bytes, const int *receive_offsets, mpi_transfer *out,
                                        propane_error *err);
/* Adds up a few values (at most 16) in the order of the ranks: the same bits for all. */
PROPANE_CHECK propane_status mpi_sum(mpi *m, double *values, int count, propane_error *err);
/* Lets transfers go on without waiting for one. */
void mpi_progress(mpi *m, mpi_transfer *t);
PROPANE_CHECK propane_status mpi_wait(mpi *m, mpi_transfer *t, propane_error *err);
/* Memory that all ranks see: `bytes` zeroed of each, at[size] where this process sees each rank's; until mpi_close or
 * mpi_release. NULL where the ranks are not known to run on one machine, or it has no such memory left, or for a second
 * time. All ranks call it. */
PROPANE_CHECK propane_status mpi_share(mpi *m, size_t bytes, char *const **at, propane_error *err);

/* Ends all ranks at once; does not return. */
void mpi_abort(mpi *m, int code);

#endif
