/* SPDX-License-Identifier: MIT
 * propane gradient IN OUT: writes the gradient of a program as a program.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { MOST = 256 };

/* Splits `copy`, a list such as "a,b", into names that point into it. Returns their number, or -1 if there are too many
 * or one is empty. */
static int cmd_gradient_split(char *copy, const char *names[MOST]) {
    int count = 0;
    for (char *at = copy; at; count++) {
        char *comma = strchr(at, ',');
        if (comma) *comma = 0;
        if (!*at || count == MOST) return -1;
        names[count] = at;
        at = comma ? comma + 1 : NULL;
    }
    return count;
}

static void cmd_gradient_print_values(const propane_module *m, propane_role role, const char *title) {
    propane_feature f = {.size = sizeof f};
    printf("%s:", title);
    for (int i = 0; propane_module_feature(m, NULL, role, i, &f, NULL) == PROPANE_OK; i++)
        printf("%s %s", i ? "," : "", f.name);
    printf("\n");
}

static propane_status cmd_gradient_make(const char *from, const char *to, const char *function, const char *wrt,
                                        propane_error *err) {
    const char *names[MOST];
    propane_module *m = NULL, *made = NULL;
    char *copy = wrt ? mem_copy_string(wrt) : NULL;
    const int count = copy ? cmd_gradient_split(copy, names) : 0;
    propane_status status = wrt && !copy ? propane_fail_memory(err, strlen(wrt)) : PROPANE_OK;
    if (count < 0)
        status = propane_fail(err, PROPANE_ERR_INVALID, "--wrt '%.200s': give names, separated by commas", wrt);
    if (status == PROPANE_OK) status = propane_module_read(from, &m, err);
    if (status == PROPANE_OK)
        status = propane_module_gradient(m, function, "gradient", wrt ? names : NULL, count, &made, err);
    if (status == PROPANE_OK) status = propane_module_write(made, to, PROPANE_MIL_CANONICAL, err);
    if (status == PROPANE_OK) {
        cmd_gradient_print_values(made, PROPANE_INPUT, "inputs");
        cmd_gradient_print_values(made, PROPANE_OUTPUT, "outputs");
    }
    propane_module_free(made);
    propane_module_free(m);
    mem_free(copy);
    return status;
}

int cmd_gradient(int argc, char **argv) {
    const char *from = NULL, *to = NULL, *wrt = NULL, *function = NULL;
    const cli_flag flags[] = {
        {"IN", CLI_TEXT, &from, .help = "a .mil file or a Core ML model", .required = true},
        {"OUT", CLI_TEXT, &to, .help = "NAME.mil or NAME.mlpackage", .required = true},
        {"--wrt", CLI_TEXT, &wrt, .words = "a,b",
         .help = "inputs to differentiate with respect to; default: all float inputs"},
        {"--function", CLI_TEXT, &function, .words = "NAME", .help = "function to use; default: the first"},
    };
    const int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "gradient IN OUT [--wrt a,b] [--function NAME]",
                  "Writes the gradient of a program as a program (reverse mode). The new program has the inputs of IN "
                  "and an adjoint d_RESULT for each float output. It returns the outputs of IN and d_INPUT for each "
                  "input in --wrt. For a scalar loss, set d_loss to 1.");
    if (code >= 0) return code;
    if (!text_ends_with(to, ".mil") && !text_ends_with(to, ".mlpackage"))
        return cli_misuse("gradient", "OUT must be called NAME.mil or NAME.mlpackage, not '%.100s'", to);
    propane_error err = {0};
    const propane_status status = cmd_gradient_make(from, to, function, wrt, &err);
    return status == PROPANE_OK ? CLI_OK : cli_error("gradient", &err);
}
