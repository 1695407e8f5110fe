/* SPDX-License-Identifier: MIT
 * propane train: trains a language model (apps/propane/cmd/train_text.c) or an imported model
 * (apps/propane/cmd/train_package.c); the command line alone decides which. When the compile budget is used up, the
 * command replaces itself by exec() with --resume.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/train_command.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "report/run/run_log.h"
#include "train/restart.h"
#include "train/train_run.h"

static bool cmd_train_holds(const char *dir, const char *name) {
    char *path = run_log_path(dir, name);
    const bool there = path && file_exists(path);
    mem_free(path);
    return there;
}

/* Returns whether the folder holds an imported model's run: its record names the model. */
static bool cmd_train_is_package_run(const char *dir) {
    json_t *record = NULL;
    char *path = cmd_train_holds(dir, TRAIN_RECORD) ? run_log_path(dir, TRAIN_RECORD) : NULL;
    const bool yes = path && json_read(path, 1 << 20, &record, NULL) == PROPANE_OK && json_object_get(record, "model");
    json_decref(record);
    mem_free(path);
    return yes;
}

/* Returns whether the word names a Core ML model or a run with one. The word's ending or the contents of its folder
 * decide. Any other word belongs to a language model. */
static bool cmd_train_names_package(const char *word) {
    static const char *const endings[] = {".mlpackage", ".mlmodelc", ".mlmodel", ".mil"};
    static const char *const inside[] = {"Manifest.json", "coremldata.bin", "model.mil"};
    size_t length = strlen(word);
    while (length > 1 && word[length - 1] == '/') length--;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && memcmp(word + length - n, endings[i], n) == 0) return true;
    }
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        if (cmd_train_holds(word, inside[i])) return true;
    return cmd_train_is_package_run(word);
}

/* Returns whether the command line is for an imported model. Such a command line has --loss, which language models
 * lack, or it names an imported model or its run: as the first word, after --resume, or after --run (only a run). */
static bool cmd_train_is_package(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const bool first = i == 1 || strcmp(argv[i - 1], "--resume") == 0;
        if (strcmp(argv[i], "--loss") == 0 || strncmp(argv[i], "--loss=", 7) == 0) return true;
        if (first && argv[i][0] != '-' && cmd_train_names_package(argv[i])) return true;
        if (strcmp(argv[i - 1], "--run") == 0 && cmd_train_is_package_run(argv[i])) return true;
    }
    return false;
}

/* Replaces this process by one that continues the run. Returns only after an error. The run's folder is passed with
 * --run, because an argument without a flag is the model. */
static propane_status cmd_train_restart(char *run, propane_error *err) {
    arena *a = arena_create();
    char flag[] = "--run", **arguments = NULL, **list = a ? ARENA_ARRAY(a, (size_t)cli_argc + 3, char *) : NULL;
    propane_status status = list ? PROPANE_OK : propane_fail_memory(err, 0);
    int count = 0;
    for (int i = 0; list && i < cli_argc; i++) {
        list[count++] = cli_argv[i];
        if (i == 1) list[count++] = flag, list[count++] = run;
    }
    if (status == PROPANE_OK) status = train_restart_arguments(count, list, a, &arguments, err);
    if (status == PROPANE_OK) {
        fflush(NULL);
        pool_stop();
        execvp(arguments[0], arguments);
        status = propane_fail(
            err, PROPANE_ERR_IO,
            "cannot restart %s: %s; the checkpoint is written, so continue with: propane train --resume %s",
            arguments[0], strerror(errno), run);
    }
    arena_free(a);
    return status;
}

int cmd_train(int argc, char **argv) {
    propane_error err = {0};
    char *run = NULL;
    if (cmd_train_is_package(argc, argv)) return train_package_command(argc, argv);
    const int code = train_text_command(argc, argv, &run);
    if (code != CLI_OK || !run) return code;
    const propane_status status = cmd_train_restart(run, &err);
    mem_free(run);
    return status == PROPANE_OK ? CLI_OK : cli_error("train", &err);
}
