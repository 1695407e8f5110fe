/* SPDX-License-Identifier: MIT
 * What the probe (cli/device_lab) asks of the engine's framework beyond the device: for questions, in processes of their own,
 * never for work.
 */
#ifndef ANE_ANE_LAB_H
#define ANE_ANE_LAB_H

/* Called with each folder that a program's files are written to: whoever outlives a crash removes it. NULL: nobody. */
void ane_on_folder(void (*made)(const char *path));

#endif
