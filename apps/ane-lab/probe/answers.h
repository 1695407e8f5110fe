/* SPDX-License-Identifier: MIT
 * What trials of the ane device have shown and later processes believe (ane/driver/remembered.h), for people.
 */
#ifndef APPS_ANE_LAB_PROBE_ANSWERS_H
#define APPS_ANE_LAB_PROBE_ANSWERS_H

/* Prints a line for each answer. */
void answers_list(void);
/* Removes them all and says so; the command's exit code. */
int answers_forget(void);

#endif
