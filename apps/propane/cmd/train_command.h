/* SPDX-License-Identifier: MIT
 * propane train's two kinds: without a MODEL it trains a language model, with one a Core ML package, a compiled model
 * or MIL text. Both take the command line and return the exit code.
 */
#ifndef APPS_PROPANE_CMD_TRAIN_COMMAND_H
#define APPS_PROPANE_CMD_TRAIN_COMMAND_H

/* *again: the folder of a run whose compile budget is used up, for a new process that goes on with it; mem_free it. */
int train_text_command(int argc, char **argv, char **again);
int train_package_command(int argc, char **argv);

#endif
