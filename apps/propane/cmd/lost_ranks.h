/* SPDX-License-Identifier: MIT
 * What is said when a job of several ranks ends because one of them was lost: mpirun tells the others to stop, but they
 * come to no agreement any more, and are killed a moment later. One of those that are left says how to go on: the
 * first, or the second, if it sees that the first is gone.
 */
#ifndef APPS_PROPANE_CMD_LOST_RANKS_H
#define APPS_PROPANE_CMD_LOST_RANKS_H

#include "propane.h"

/* Once the run has begun. `dir`: its folder. */
void lost_ranks_prepare(const propane_ranks *ranks, const char *dir);
/* In a signal handler: unless lost_ranks_forget is called soon, the sentence is written to standard error. */
void lost_ranks_expect(void);
void lost_ranks_forget(void); /* the ranks have stopped together */
/* What to do after a failure, for the end of its message; "" where there is no checkpoint. */
const char *lost_ranks_advice(void);

#endif
