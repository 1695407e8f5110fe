/* SPDX-License-Identifier: MIT
 * propane train MODEL: fine-tuning of a Core ML package, a compiled model or MIL text.
 */
#ifndef CLI_CMD_TRAIN_PACKAGE_H
#define CLI_CMD_TRAIN_PACKAGE_H

#include <stdbool.h>

/* Whether the command line of propane train names a model or a loss: what language models are trained on has neither. */
bool tune_asked(int argc, char **argv);
int tune_command(int argc, char **argv);

#endif
