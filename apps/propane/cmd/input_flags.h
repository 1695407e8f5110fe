/* SPDX-License-Identifier: MIT
 * Declares the check of flags about a program's inputs, which run and diff share.
 */
#ifndef APPS_PROPANE_CMD_INPUT_FLAGS_H
#define APPS_PROPANE_CMD_INPUT_FLAGS_H

#include "apps/propane/cli.h"

/* Refuses --resize if no --input NAME=FILE is an image. Returns -1 to continue, otherwise the exit code. */
int input_flags_check(const char *command, const cli_list *inputs);

#endif
