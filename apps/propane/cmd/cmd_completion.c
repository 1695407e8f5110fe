/* SPDX-License-Identifier: MIT
 * propane completion: prints completion scripts for shells.
 */
#include "apps/propane/help/help.h"

int cmd_completion(int argc, char **argv) {
    const char *shell = NULL;
    const cli_flag flags[] = {
        {"SHELL", CLI_CHOICE, &shell, .words = "bash|zsh|fish", .help = "bash, zsh or fish", .required = true}};
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "completion bash|zsh|fish",
                         "Prints a script that completes commands, flags and values in a shell.");
    if (code >= 0) return code;
    help_print_completion(shell);
    return CLI_OK;
}
