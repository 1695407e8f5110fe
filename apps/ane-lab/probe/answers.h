/* SPDX-License-Identifier: MIT
 * Prints and deletes results of trials of the ane device, on which later processes rely (ane/driver/remembered.h).
 */
#ifndef APPS_ANE_LAB_PROBE_ANSWERS_H
#define APPS_ANE_LAB_PROBE_ANSWERS_H

/* Prints one line per result. */
void answers_list(void);
/* Deletes all results and prints whether there were any. Returns the command's exit code. */
int answers_forget(void);

#endif
