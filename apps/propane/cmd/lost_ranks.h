/* SPDX-License-Identifier: MIT
 * Declares the message of a job whose ranks stop because one of them was lost. mpirun then asks the other ranks to
 * stop, but they can no longer agree on a step and are killed a moment later. Before that, the first rank prints how to
 * continue the run. If the first rank is gone, the second one prints it.
 */
#ifndef APPS_PROPANE_CMD_LOST_RANKS_H
#define APPS_PROPANE_CMD_LOST_RANKS_H

#include "propane.h"

/* Prepares the message once the run has begun. `dir` is the run's folder. */
void lost_ranks_prepare(const propane_ranks *ranks, const char *dir);
/* Starts the timer after which the message is written to standard error, unless lost_ranks_forget is called before. May
 * be called in a signal handler. */
void lost_ranks_expect(void);
void lost_ranks_forget(void); /* stops the timer; called when the run has ended in agreement with the other ranks */
/* Returns advice to append to an error message; "" if there is no checkpoint. */
const char *lost_ranks_advice(void);

#endif
