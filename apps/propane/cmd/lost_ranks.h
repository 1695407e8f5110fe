/* SPDX-License-Identifier: MIT
 * The message for a job of several ranks that ends because one of them was lost. mpirun signals the others to stop, but
 * they can no longer agree and are killed a moment later. One remaining rank prints how to continue: the first, or the
 * second if it sees that the first is gone.
 */
#ifndef APPS_PROPANE_CMD_LOST_RANKS_H
#define APPS_PROPANE_CMD_LOST_RANKS_H

#include "propane.h"

/* Prepares the message once the run has begun. `dir` is the run's folder. */
void lost_ranks_prepare(const propane_ranks *ranks, const char *dir);
/* Called in a signal handler: writes the message to standard error unless lost_ranks_forget is called soon. */
void lost_ranks_expect(void);
void lost_ranks_forget(void); /* the ranks have all stopped in agreement */
/* Returns the advice at the end of an error message; "" if there is no checkpoint. */
const char *lost_ranks_advice(void);

#endif
