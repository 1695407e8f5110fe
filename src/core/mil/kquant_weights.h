/* SPDX-License-Identifier: MIT
 * Declares plain operations that reconstruct a matrix from weights in blocks (core/base/kquant.h). Writers of programs
 * build these operations. A driver that reads such weights directly also builds them, to recognise them by comparison.
 */
#ifndef CORE_MIL_KQUANT_WEIGHTS_H
#define CORE_MIL_KQUANT_WEIGHTS_H

#include "core/base/kquant.h"
#include "core/mil/build.h"

/* Return the types of the stored values: data [out, in / block, kquant_bytes] uint8, supers [out, in / block,
 * kquant_supers] fp16. */
mil_type kquant_data_type(kquant kind, int64_t out, int64_t in);
mil_type kquant_supers_type(kquant kind, int64_t out, int64_t in);
/* Builds the matrix [out, in] in `dtype`. Returns NULL if the builder has failed, or if `data` or `supers` is NULL. */
mil_value *kquant_build(mil_builder *b, kquant kind, mil_dtype dtype, mil_value *data, mil_value *supers);

#endif
