/* SPDX-License-Identifier: MIT
 * Owns the rewriting of the command line for a restart.
 */
#include "train/restart.h"

#include <string.h>

static bool restart_is_flag(const char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && (argument[length] == 0 || argument[length] == '=');
}

propane_status train_restart_arguments(int argc, char *const *argv, arena *a, char ***out, propane_error *err) {
    char **list = ARENA_ARRAY(a, argc + 2, char *);
    int count = 0, rest = argc;
    if (!list) return propane_fail_memory(err, (size_t)(argc + 2) * sizeof *list);
    for (int i = 0; i < argc && rest == argc; i++) {
        if (i > 0 && strcmp(argv[i], "--") == 0)
            rest = i;
        else if (i > 0 && restart_is_flag(argv[i], "--init"))
            i += !strchr(argv[i], '=');
        else if (i == 0 || (!restart_is_flag(argv[i], "--resume") && !restart_is_flag(argv[i], "--no-resume")))
            list[count++] = arena_string(a, argv[i]);
    }
    list[count++] = arena_string(a, "--resume");
    for (int i = rest; i < argc; i++) list[count++] = arena_string(a, argv[i]);
    for (int i = 0; i < count; i++)
        if (!list[i]) return propane_fail_memory(err, 0);
    list[count] = NULL;
    *out = list;
    return PROPANE_OK;
}
