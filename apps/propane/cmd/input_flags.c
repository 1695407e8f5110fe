/* SPDX-License-Identifier: MIT
 * Owns the check of --resize, which needs an input image.
 */
#include "apps/propane/cmd/input_flags.h"

#include "core/base/image.h"

int input_flags_check(const char *command, const cli_list *inputs) {
    bool images = false;
    for (int i = 0; i < inputs->count; i++) images |= picture_is_name(inputs->items[i]);
    return images ? -1 : cli_refuse(command, "--resize", "a run without an image as --input");
}
