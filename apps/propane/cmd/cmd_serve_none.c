/* SPDX-License-Identifier: MIT
 * propane serve in a build without libmicrohttpd. The command explains that the build cannot serve.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"

int cmd_serve(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[argc - 1], "--help") == 0)
        return cli_parse(2, (char *[]){argv[0], argv[argc - 1], NULL}, NULL, 0, "serve MODEL [flags]",
                         "This build of propane has no server, because it was built without libmicrohttpd.");
    fprintf(stderr, "propane serve: this propane was built without the server; install libmicrohttpd and rebuild\n");
    return CLI_FAILED;
}
