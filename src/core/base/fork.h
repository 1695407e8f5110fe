/* SPDX-License-Identifier: MIT
 * Whether this process is a fork of the one in which something was made: its threads are not there, and nobody gives back
 * the mutexes that they held. What owns threads keeps the generation in which it started them, and begins anew in another.
 */
#ifndef CORE_BASE_FORK_H
#define CORE_BASE_FORK_H

/* 0 in the process that asks first; one more in each child of it. Costs one load. */
int fork_generation(void);

#endif
