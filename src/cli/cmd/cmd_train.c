/* SPDX-License-Identifier: MIT
 * propane train: a language model's training (cli/cmd/train_text.c) or an imported model's (cli/cmd/train_package.c). A compile
 * budget that is used up makes the command replace itself by exec() with --resume.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "cli/cli.h"
#include "cli/cmd/train_command.h"
#include "train/restart.h"

/* Does the command line name a model or a loss? What language models are trained on has neither. */
static bool cmd_train_is_package(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--loss") == 0 || strncmp(argv[i], "--loss=", 7) == 0) return true;
    return argc > 1 && argv[1][0] != '-';
}

/* Replaces this process; returns only on an error. */
static propane_status cmd_train_restart(propane_error *err) {
    arena *a = arena_create();
    char **arguments = NULL;
    propane_status status =
        a ? train_restart_arguments(cli_argc, cli_argv, a, &arguments, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) {
        fflush(NULL);
        pool_stop();
        execvp(arguments[0], arguments);
        status = propane_fail(err, PROPANE_ERR_IO,
                              "%s cannot be started again: %s; the checkpoint is written: go on with --resume",
                              arguments[0], strerror(errno));
    }
    arena_free(a);
    return status;
}

int cmd_train(int argc, char **argv) {
    propane_error err = {0};
    bool again = false;
    if (cmd_train_is_package(argc, argv)) return train_package_command(argc, argv);
    const int code = train_text_command(argc, argv, &again);
    if (code != CLI_OK || !again) return code;
    return cmd_train_restart(&err) == PROPANE_OK ? CLI_OK : cli_error("train", &err);
}
