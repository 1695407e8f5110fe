/* SPDX-License-Identifier: MIT
 * What trials of the ane device have shown and later processes believe (drivers/ane/remembered.h), for people.
 */
#ifndef CLI_DEVICE_LAB_ANSWERS_H
#define CLI_DEVICE_LAB_ANSWERS_H

/* Prints a line for each answer. */
void answers_list(void);
/* Removes them all and says so; the command's exit code. */
int answers_forget(void);

#endif
