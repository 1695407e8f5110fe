/* SPDX-License-Identifier: MIT
 * The two kinds of propane train. Without a MODEL it trains a language model; with one it trains a Core ML package, a
 * compiled model or MIL text. Both functions parse the command line and return the exit code.
 */
#ifndef APPS_PROPANE_CMD_TRAIN_COMMAND_H
#define APPS_PROPANE_CMD_TRAIN_COMMAND_H

/* *again is the folder of a run whose compile budget is used up, for a new process that continues it; free it with
 * mem_free. */
int train_text_command(int argc, char **argv, char **again);
int train_package_command(int argc, char **argv);

#endif
