/* SPDX-License-Identifier: MIT
 * propane version: prints the version.
 */
#include <stdio.h>
#include <sys/utsname.h>

#include "apps/propane/cli.h"

static const struct {
    const char *name, *what;
    bool here;
} version_parts[] = {
#ifdef PROPANE_LM
    {"lm", "language models", true},
#else
    {"lm", "language models"},
#endif
#ifdef PROPANE_SERVER
    {"server", "libmicrohttpd", true},
#else
    {"server", "libmicrohttpd"},
#endif
#ifdef PROPANE_IMAGES
    {"images", "PNG and JPEG files", true},
#else
    {"images", "PNG and JPEG files: libpng, libjpeg"},
#endif
#ifdef PROPANE_EDITING
    {"editing", "of lines in 'propane chat': libedit", true},
#else
    {"editing", "of lines in 'propane chat': libedit"},
#endif
};

static void cmd_version_print_parts(void) {
    for (int here = 1; here >= 0; here--) {
        int count = 0;
        for (size_t i = 0; i < sizeof version_parts / sizeof version_parts[0]; i++)
            if (version_parts[i].here == here)
                printf("%s %s (%s)",
                       count++ ? ","
                       : here  ? "parts"
                               : "without",
                       version_parts[i].name, version_parts[i].what);
        if (count) printf("\n");
    }
    printf("at run time Open MPI under mpirun, a CBLAS with --blas\n");
}

int cmd_version(int argc, char **argv) {
    int code = cli_parse(argc, argv, NULL, 0, "version",
                         "Prints the version, compiler, system and optional parts of this build.");
    if (code >= 0) return code;
    struct utsname system;
    printf("propane %s\n", propane_version());
#if defined(__clang__)
    printf("compiler %s\n", __VERSION__);
#else
    printf("compiler gcc %s\n", __VERSION__);
#endif
    if (uname(&system) == 0) printf("system %s %s\n", system.sysname, system.machine);
    cmd_version_print_parts();
    return CLI_OK;
}
