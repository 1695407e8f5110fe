/* SPDX-License-Identifier: MIT
 * Prints and deletes the remembered facts about the engine.
 */
#include "apps/ane-lab/probe/answers.h"

#include <stdio.h>
#include <string.h>

#include "ane/driver/remembered.h"
#include "apps/propane/cli.h"

void answers_list(void) {
    const ane_api *a;
    propane_error why = {0};
    text list = {0};
    if (ane_api_get(&a, &why) != PROPANE_OK) return;
    ane_remembered_list(a, &list);
    for (char *line = list.data, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        printf("            remembered: ");
        cli_wrap(line, 24, 14, cli_width());
        printf("\n");
    }
    text_deinit(&list);
}

int answers_forget(void) {
    propane_error err = {0};
    bool there;
    if (ane_forget(&there, &err) != PROPANE_OK) return cli_error("devices", &err);
    printf(there ? "the cached trial results of the ane device were deleted\n"
                 : "there are no cached trial results of the ane device\n");
    return CLI_OK;
}
