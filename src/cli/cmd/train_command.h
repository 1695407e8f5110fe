/* SPDX-License-Identifier: MIT
 * propane train's two kinds: without a MODEL it trains a language model, with one a Core ML package, a compiled model or MIL
 * text. Both take the command line and return the exit code.
 */
#ifndef CLI_CMD_TRAIN_COMMAND_H
#define CLI_CMD_TRAIN_COMMAND_H

#include <stdbool.h>

/* *again: the compile budget is used up; the rest is for a new process. */
int train_text_command(int argc, char **argv, bool *again);
int train_package_command(int argc, char **argv);

#endif
