/* SPDX-License-Identifier: MIT
 * Results of trials of the ane device that later processes rely on (ane/driver/remembered.h), shown to users.
 */
#ifndef APPS_ANE_LAB_PROBE_ANSWERS_H
#define APPS_ANE_LAB_PROBE_ANSWERS_H

/* Prints one line per answer. */
void answers_list(void);
/* Deletes all of them and reports it; returns the command's exit code. */
int answers_forget(void);

#endif
