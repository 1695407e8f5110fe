/* SPDX-License-Identifier: MIT
 * Compiles MIL for the engines of H13 and H14. Each operation becomes tasks by the rules of ane/h13/lower_parts.h.
 * Values between operations are in scratch memory (base register 3), or on chip if one task reads what the previous
 * task stores (chain.c). Values within an operation stay on chip where possible. A matrix product or convolution
 * absorbs a bias, a scale and a ReLU or table that follow it.
 *
 * Surfaces get base registers from 4 upwards in the alphabetical order of their symbols, as in Apple's compiler. The
 * symbol of a result is its name and "@output".
 */
#ifndef ANE_H13_COMPILE_H
#define ANE_H13_COMPILE_H

#include "ane/h13/object.h"
#include "core/base/text.h"
#include "core/mil/mil.h"

typedef struct engine_compile_options {
    text *report;     /* NULL if no report is wanted */
    uint32_t subtype; /* the target: ENGINE_H13 (0 means the same) or ENGINE_H14 */
    bool patchable;   /* constants of several elements may be overwritten later (ane/h13/patch.h) */
} engine_compile_options;

/* Compiles one function of fp16 tensors with batch 1. fp32 tensors become fp16, regardless of their values
 * (engine_surface.wide). An error PROPANE_ERR_UNSUPPORTED names the operation, line and reason. The report gets one
 * line per operation with its tasks and bytes, or with the fact that another task absorbed it. For each value that
 * comes from memory, a line states why. `options` may be NULL. */
PROPANE_CHECK propane_status engine_compile(const mil_function *f, const engine_compile_options *options,
                                            engine_object **out, propane_error *err);

#endif
