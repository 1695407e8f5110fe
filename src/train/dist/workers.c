/* SPDX-License-Identifier: MIT
 * Owns the groups of ranks. Each rank sends the leader of its worker to all others, and everything else follows from
 * the leaders.
 */
#include "train/dist/workers.h"

#include "core/base/memory.h"

/* Sends one number from every rank to all ranks, in the order of the ranks. */
static propane_status workers_exchange(mpi *m, int own, int *all, propane_error *err) {
    int counts[MPI_MOST_RANKS], offsets[MPI_MOST_RANKS];
    mpi_transfer transfer = {0};
    for (int r = 0; r < mpi_size(m); r++) counts[r] = (int)sizeof own, offsets[r] = r * (int)sizeof own;
    PROPANE_TRY(mpi_gather(m, -1, &own, sizeof own, all, counts, offsets, &transfer, err));
    return mpi_wait(m, &transfer, err);
}

/* Finds the first rank on this rank's machine; `all` [size] is scratch. */
static propane_status workers_lead_machine(mpi *m, int *all, int *leader, propane_error *err) {
    mpi *machine = NULL;
    PROPANE_TRY(mpi_split(m, -1, &machine, err));
    const propane_status status = workers_exchange(machine, mpi_rank(m), all, err);
    *leader = all[0];
    mpi_release(machine);
    return status;
}

/* Sets the workers' number and size, and this rank's place, from the leaders: leaders[r] is the leader of rank r's
 * worker. */
static propane_status workers_count(workers *w, const int *leaders, propane_error *err) {
    const int ranks = mpi_size(w->all), rank = mpi_rank(w->all);
    w->count = w->size = w->place = w->index = 0;
    for (int r = 0; r < ranks; r++) {
        w->count += leaders[r] == r;
        w->index += leaders[r] == r && r < w->leader;
        w->size += leaders[r] == w->leader;
        w->place += leaders[r] == w->leader && r < rank;
    }
    for (int r = 0; r < ranks; r++) {
        int size = 0;
        for (int k = 0; k < ranks; k++) size += leaders[k] == r;
        if (leaders[r] != r || size == w->size) continue;
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the machine of rank %d has %d ranks, but that of rank %d has %d; start the same number on "
                            "each (mpirun --map-by ppr:N:node), or give --node-ranks",
                            w->leader, w->size, r, size);
    }
    return PROPANE_OK;
}

static propane_status workers_find(workers *w, const workers_options *o, propane_error *err) {
    const int ranks = mpi_size(w->all), rank = mpi_rank(w->all);
    if (o->node_ranks > 0 && ranks % o->node_ranks != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "--node-ranks %lld does not divide the %d ranks; give a divisor",
                            (long long)o->node_ranks, ranks);
    int *leaders = mem_array((size_t)ranks, sizeof *leaders);
    if (!leaders) return propane_fail_memory(err, (size_t)ranks * sizeof *leaders);
    const int row = o->node_ranks > 0 ? (int)o->node_ranks : 1;
    w->leader = rank / row * row;
    propane_status status = PROPANE_OK;
    if (o->by_machine && o->node_ranks == 0) status = workers_lead_machine(w->all, leaders, &w->leader, err);
    if (status == PROPANE_OK) status = workers_exchange(w->all, w->leader, leaders, err);
    if (status == PROPANE_OK) status = workers_count(w, leaders, err);
    mem_free(leaders);
    return status;
}

propane_status workers_form(mpi *all, const workers_options *o, workers *w, propane_error *err) {
    *w = (workers){.all = all, .count = 1, .size = 1};
    if (!all || mpi_size(all) == 1) return PROPANE_OK;
    if (mpi_size(all) > MPI_MOST_RANKS)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%d ranks; the maximum is %d", mpi_size(all), MPI_MOST_RANKS);
    w->size = mpi_size(all), w->place = mpi_rank(all);
    if (o->outer) PROPANE_TRY(workers_find(w, o, err));
    if (w->size > 1) PROPANE_TRY(mpi_split(all, w->index, &w->inside, err));
    if (w->count == 1) return PROPANE_OK;
    return mpi_split(all, w->place, &w->between, err);
}

void workers_dissolve(workers *w) {
    mpi_release(w->between);
    mpi_release(w->inside);
    *w = (workers){.count = 1, .size = 1};
}
