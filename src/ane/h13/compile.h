/* SPDX-License-Identifier: MIT
 * MIL to a compiled program for the engines of H13 and H14. Each operation becomes tasks by the laws of ane/h13/lower_parts.h;
 * between operations values lie in scratch memory (base register 3), or on chip where one task reads what the task
 * before it stores (chain.c); within an operation they lie on chip. A product or convolution takes a bias, a scale and
 * a ReLU or table after it into its own task.
 *
 * Surfaces get base registers from 4 on in the alphabetical order of their names, as Apple's compiler gives them.
 */
#ifndef ANE_H13_COMPILE_H
#define ANE_H13_COMPILE_H

#include "ane/h13/object.h"
#include "core/base/text.h"
#include "core/mil/mil.h"

typedef struct engine_compile_options {
    text *report;     /* NULL: none */
    uint32_t subtype; /* of the target: ENGINE_H13, which 0 stands for, or ENGINE_H14 */
    bool patchable;   /* constants of several elements may be overwritten later (ane/h13/patch.h) */
} engine_compile_options;

/* Compiles one function: fp16 tensors, batch 1. fp32 tensors become fp16, whatever they hold (engine_surface.wide).
 * PROPANE_ERR_UNSUPPORTED names operation, line and reason. The report gets a line an operation: tasks, bytes of
 * kernels, what was taken in. `options` may be NULL. */
PROPANE_CHECK propane_status engine_compile(const mil_function *f, const engine_compile_options *options,
                                            engine_object **out, propane_error *err);

#endif
