/* SPDX-License-Identifier: MIT
 * Weights in blocks of 256 (core/base/kquant.h) as a program says them: plain operations that make a matrix of what is stored. Whoever
 * writes a program builds them; a driver that reads such weights itself builds them too, and compares.
 */
#ifndef CORE_MIL_KQUANT_WEIGHTS_H
#define CORE_MIL_KQUANT_WEIGHTS_H

#include "core/base/kquant.h"
#include "core/mil/build.h"

/* data [out, in / 256, kquant_bytes] uint8, supers [out, in / 256, kquant_supers] fp16. */
mil_type kquant_data_type(kquant kind, int64_t out, int64_t in);
mil_type kquant_supers_type(kquant kind, int64_t out, int64_t in);
/* The matrix [out, in] in `dtype` of two such values. NULL: the builder has failed. */
mil_value *kquant_build(mil_builder *b, kquant kind, mil_dtype dtype, mil_value *data, mil_value *supers);

#endif
