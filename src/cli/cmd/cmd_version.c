/* SPDX-License-Identifier: MIT
 * propane version
 */
#include <stdio.h>
#include <sys/utsname.h>

#include "cli/cli.h"

int cmd_version(int argc, char **argv) {
    int code = cli_parse(argc, argv, NULL, 0, "version", "Prints the version, the compiler and the system.");
    if (code >= 0) return code;
    struct utsname system;
    printf("propane %s\n", propane_version());
#if defined(__clang__)
    printf("compiler %s\n", __VERSION__);
#else
    printf("compiler gcc %s\n", __VERSION__);
#endif
    if (uname(&system) == 0) printf("system %s %s\n", system.sysname, system.machine);
    return CLI_OK;
}
