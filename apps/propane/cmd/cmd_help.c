/* SPDX-License-Identifier: MIT
 * propane help: prints the commands by task, one command's help, or man pages.
 */
#include "apps/propane/help/help.h"

int cmd_help(int argc, char **argv) {
    const char *name = NULL;
    bool man = false, names = false;
    const cli_flag flags[] = {
        {"COMMAND", CLI_TEXT, &name, .help = "command to explain; default: list all"},
        {"--man", CLI_SWITCH, &man, .help = "print a man page; without COMMAND, that of propane"},
        {"--names", CLI_SWITCH, &names, .help = "print only the names of the commands"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "help [COMMAND] [--man]",
                         "Lists the commands, or explains a command.");
    if (code >= 0) return code;
    const cli_command *c = name ? cli_find_command(name) : NULL;
    if (name && !c) return cli_misuse("help", "there is no command '%.60s'", name);
    char flag[] = "--help", *ask[] = {(char *)(uintptr_t)name, flag, NULL};
    if (c && !man) return c->run(2, ask);
    if (man)
        help_print_man(c);
    else if (names)
        for (int i = 0; i < cli_command_count; i++) printf("%s\n", cli_commands[i].name);
    else
        cli_print_commands(stdout);
    return CLI_OK;
}
