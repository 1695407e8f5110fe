/* SPDX-License-Identifier: MIT
 * Declares man pages and completions, which are generated from the commands' tables of flags.
 */
#ifndef APPS_PROPANE_HELP_HELP_H
#define APPS_PROPANE_HELP_HELP_H

#include "apps/propane/cli.h"

/* Passes the command's description to `print`. For a command with another form (`also`), does the same with that
 * form. */
void help_ask(const cli_command *c, void (*print)(void *object, const cli_description *d), void *object);
/* Prints a command's man page to standard output. NULL prints the page of 'propane' itself, which lists all
 * commands. */
void help_print_man(const cli_command *c);
/* Prints the completion script for `shell`: "bash", "zsh" or "fish". */
void help_print_completion(const char *shell);

#endif
