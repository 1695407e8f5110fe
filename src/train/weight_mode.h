/* SPDX-License-Identifier: MIT
 * The ways in which the device's programs receive their weights. Flags, messages, checks and estimates read this list.
 *
 *   inputs   as separate inputs
 *   packed   next to the activations in one input (lm/step/weight_packing.h)
 *   baked    as constants, compiled again after each update
 *   reload   as constants of a compiled program that is loaded again with other constants
 *   patched  as constants that are overwritten in place in the program's memory
 *
 * All modes produce the same numbers.
 */
#ifndef TRAIN_WEIGHT_MODE_H
#define TRAIN_WEIGHT_MODE_H

#include <stdbool.h>

#define WEIGHT_MODES(FIRST, MORE)                                                                                      \
    FIRST(INPUTS, "inputs")                                                                                            \
    MORE(PACKED, "packed") MORE(BAKED, "baked") MORE(RELOAD, "reload") MORE(PATCHED, "patched")
#define WEIGHT_MODE_ID(id, name)   WEIGHT_MODE_##id,
#define WEIGHT_MODE_WORD(id, name) name
#define WEIGHT_MODE_NEXT(id, name) "|" name

typedef enum weight_mode { WEIGHT_MODES(WEIGHT_MODE_ID, WEIGHT_MODE_ID) WEIGHT_MODE_COUNT } weight_mode;
#define WEIGHT_MODE_WORDS WEIGHT_MODES(WEIGHT_MODE_WORD, WEIGHT_MODE_NEXT) /* "inputs|packed|..." */

const char *weight_mode_name(weight_mode mode);
/* Returns WEIGHT_MODE_COUNT if there is no such mode. */
weight_mode weight_mode_find(const char *name);
/* Returns whether weights are constants of the programs, so that each call has a separate program. */
bool weight_mode_is_constant(weight_mode mode);

#endif
