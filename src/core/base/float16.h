/* SPDX-License-Identifier: MIT
 * fp16 and bfloat16 as uint16_t: _Float16 is not in every compiler. All conversions round to nearest, ties to even;
 * NaN stays NaN (quiet), too large becomes infinity.
 */
#ifndef CORE_BASE_FLOAT16_H
#define CORE_BASE_FLOAT16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint16_t fp16_from_f32(float value);
uint16_t fp16_from_f64(double value); /* rounds once, not by way of float */
float fp16_to_f32(uint16_t bits);
uint16_t bf16_from_f32(float value);
float bf16_to_f32(uint16_t bits);

/* Arrays; source and target must not overlap. The fastest instruction set of the machine is used. */
void fp16_from_f32_array(uint16_t *target, const float *source, size_t count);
void fp16_to_f32_array(float *target, const uint16_t *source, size_t count);
void bf16_from_f32_array(uint16_t *target, const float *source, size_t count);
void bf16_to_f32_array(float *target, const uint16_t *source, size_t count);
/* Has this processor an instruction that rounds to bfloat16, and is it used here? */
bool float16_has_bfcvt(void);

#endif
