/* SPDX-License-Identifier: MIT
 * propane devices: every driver of this build; for one that cannot work here, the reason.
 */
#include <stdio.h>

#include "cli/cli.h"

int cmd_devices(int argc, char **argv) {
    int code = cli_parse(argc, argv, NULL, 0, "devices",
                         "Lists the devices of this build and, where one cannot be used here, why.");
    if (code >= 0) return code;
    for (int i = 0; i < propane_driver_count(); i++) {
        propane_error why = {0};
        propane_status status = propane_driver_probe(i, &why);
        printf("%-6s %-4s ", propane_driver_name(i), status == PROPANE_OK ? "yes" : "no");
        cli_wrap(propane_driver_summary(i), 12, 12, cli_width());
        if (status != PROPANE_OK) {
            printf("\n            ");
            cli_wrap(why.text, 12, 12, cli_width());
        }
        printf("\n");
    }
    return CLI_OK;
}
