/* SPDX-License-Identifier: MIT
 * What is made of the commands' own tables: man pages and completions. Nothing here knows a flag by name.
 */
#ifndef APPS_PROPANE_HELP_HELP_H
#define APPS_PROPANE_HELP_HELP_H

#include "apps/propane/cli.h"

/* Has the command describe itself, and again with its other first argument where it has one. */
void help_ask(const cli_command *c, void (*tell)(void *object, const cli_description *d), void *object);
/* On standard output. NULL: the page of 'propane' itself, which lists the others. */
void help_print_man(const cli_command *c);
/* "bash", "zsh" or "fish". */
void help_print_completion(const char *shell);

#endif
