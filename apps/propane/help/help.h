/* SPDX-License-Identifier: MIT
 * Man pages and completions, made from the commands' tables. Nothing here knows a flag by name.
 */
#ifndef APPS_PROPANE_HELP_HELP_H
#define APPS_PROPANE_HELP_HELP_H

#include "apps/propane/cli.h"

/* Makes the command describe itself, and again with its other first argument if it has one. */
void help_ask(const cli_command *c, void (*print)(void *object, const cli_description *d), void *object);
/* Prints a man page to standard output. NULL prints the page of 'propane' itself, which lists the others. */
void help_print_man(const cli_command *c);
/* "bash", "zsh" or "fish". */
void help_print_completion(const char *shell);

#endif
