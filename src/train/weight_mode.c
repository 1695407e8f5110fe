/* SPDX-License-Identifier: MIT
 * Owns the names of the weight modes.
 */
#include "train/weight_mode.h"

#include <string.h>

#define NAME(id, name) [WEIGHT_MODE_##id] = name,
static const char *const weight_mode_names[WEIGHT_MODE_COUNT] = {WEIGHT_MODES(NAME, NAME)};

const char *weight_mode_name(weight_mode mode) { return weight_mode_names[mode]; }

weight_mode weight_mode_find(const char *name) {
    int i = 0;
    while (i < WEIGHT_MODE_COUNT && strcmp(weight_mode_names[i], name) != 0) i++;
    return (weight_mode)i;
}

bool weight_mode_is_constant(weight_mode mode) { return mode != WEIGHT_MODE_INPUTS && mode != WEIGHT_MODE_PACKED; }
