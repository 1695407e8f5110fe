/* SPDX-License-Identifier: MIT
 * Declares the two kinds of propane train. train_text_command trains a language model. train_package_command trains a
 * Core ML package, a compiled model, a model file or MIL text. Both functions parse the command line and return the
 * exit code.
 */
#ifndef APPS_PROPANE_CMD_TRAIN_COMMAND_H
#define APPS_PROPANE_CMD_TRAIN_COMMAND_H

/* If a run's compile budget is used up, sets *again to the run's folder, with which a new process must continue. Free
 * the text with mem_free. */
int train_text_command(int argc, char **argv, char **again);
int train_package_command(int argc, char **argv);

#endif
