/* SPDX-License-Identifier: MIT
 * propane trace: starts a command with the tracing library loaded, which records the command's calls to Apple's Neural
 * Engine classes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "apps/propane/cli.h"
#include "core/base/file.h"

#ifdef __APPLE__
#define INSERT  "DYLD_INSERT_LIBRARIES"
#define LIBRARY "libpropane-trace.dylib"
#else
#define INSERT  "LD_PRELOAD"
#define LIBRARY "libpropane-trace.so"
#endif

static bool cmd_trace_own_path(char *out, size_t size) {
#ifdef __APPLE__
    uint32_t room = (uint32_t)size;
    return _NSGetExecutablePath(out, &room) == 0;
#else
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n > 0) out[n] = 0;
    return n > 0;
#endif
}

/* Finds the tracing library: the one that PROPANE_TRACE_LIBRARY names, or the one next to the command or in ../lib,
 * where it is installed. */
static propane_status cmd_trace_find_library(char out[1200], propane_error *err) {
    static const char *const places[] = {LIBRARY, "../lib/" LIBRARY};
    const char *asked = getenv("PROPANE_TRACE_LIBRARY");
    char own[1000] = "";
    if (asked && *asked) {
        snprintf(out, 1200, "%s", asked);
        if (file_exists(out)) return PROPANE_OK;
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "PROPANE_TRACE_LIBRARY: cannot find %.500s", asked);
    }
    if (!cmd_trace_own_path(own, sizeof own))
        return propane_fail(err, PROPANE_ERR_IO, "cannot find the path of the propane executable");
    char *slash = strrchr(own, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(out, 1200, "%s/%s", own, places[i]);
        if (file_exists(out)) return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "cannot find " LIBRARY " in %.500s; PROPANE_TRACE_LIBRARY can name it", own);
}

static propane_status cmd_trace_prepare(const char *output, propane_error *err) {
    char library[1200];
    PROPANE_TRY(cmd_trace_find_library(library, err));
#ifndef __APPLE__
    const char *standin = getenv("PROPANE_ANE_LIBRARY");
    if (!standin || !*standin)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "tracing works only on macOS, or with a stand-in named by PROPANE_ANE_LIBRARY");
#endif
    PROPANE_TRY(file_write(output, "", 0, err)); /* empties the file, and checks that it can be written */
    char *full = realpath(output, NULL);
    if (!full) return propane_fail(err, PROPANE_ERR_IO, "cannot open %s: %s", output, strerror(errno));
    int failed = setenv("PROPANE_TRACE", full, 1);
    free(full);
    if (failed || setenv(INSERT, library, 1)) return propane_fail_memory(err, 0);
    return PROPANE_OK;
}

int cmd_trace(int argc, char **argv) {
    const char *output = "propane-trace.jsonl";
    cli_list command = {0};
    const cli_flag flags[] = {
        {"COMMAND...", CLI_TEXT, &command, .help = "command to run, after --", .required = true},
        {"--output", CLI_TEXT, &output, .words = "FILE", .help = "file for the calls, one JSON object per line",
         .writes = "calls"},
    };
    int code = cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0], "trace [--output FILE] -- COMMAND...",
        "Runs a command and records its calls to methods of Apple's Neural Engine classes, with their arguments. This "
        "shows what Core ML requests from the engine. 'propane devices --symbols' lists the methods. Works only on "
        "macOS, which does not permit it for system programs or those with a hardened runtime.");
    if (code >= 0) return code;
    propane_error err = {0};
    if (cmd_trace_prepare(output, &err) != PROPANE_OK) return cli_error("trace", &err);
    fflush(stdout);
    execvp(command.items[0], command.items);
    propane_fail(&err, PROPANE_ERR_NOT_FOUND, "cannot run %.300s: %s", command.items[0], strerror(errno));
    return cli_error("trace", &err);
}
