/* SPDX-License-Identifier: MIT
 * Converts fp16 and bfloat16, which are stored as uint16_t because not every compiler has _Float16. Conversions to 16
 * bits round to nearest, ties to even. NaN stays NaN (quiet), and values that are too large become infinity.
 */
#ifndef CORE_BASE_FLOAT16_H
#define CORE_BASE_FLOAT16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint16_t fp16_from_f32(float value);
uint16_t fp16_from_f64(double value); /* rounds once, not via float */
float fp16_to_f32(uint16_t bits);
uint16_t bf16_from_f32(float value);
float bf16_to_f32(uint16_t bits);

/* Converts arrays with the machine's fastest instruction set. Source and target must not overlap. */
void fp16_from_f32_array(uint16_t *target, const float *source, size_t count);
void fp16_to_f32_array(float *target, const uint16_t *source, size_t count);
void bf16_from_f32_array(uint16_t *target, const float *source, size_t count);
void bf16_to_f32_array(float *target, const uint16_t *source, size_t count);
/* Returns true if this processor has an instruction that rounds to bfloat16 and this build uses it. */
bool float16_has_bfcvt(void);

#endif
