/* SPDX-License-Identifier: MIT
 * Attention of a few query rows over a long cache, with a mask that is known only when the program runs, as in
 * decoding. The mask is read first and determines, for each of its rows, which keys are seen. Only these are read, so
 * the cost of a row depends on the keys that it sees, not on the cache's capacity. An item is a group of query heads
 * with its own keys and values, one head after the other with `period` rows each, as in attention.h.
 *
 * A key is skipped if the mask adds less than CPU_ATTENTION_UNSEEN. A row that sees nothing is computed over all keys.
 */
#ifndef CPU_ATTENTION_ATTENTION_DECODE_H
#define CPU_ATTENTION_ATTENTION_DECODE_H

#include "cpu/attention/attention.h"

#define CPU_ATTENTION_UNSEEN (-5e3f)

/* Returns the scratch size in bytes of the forward pass with a mask. The channels of keys and values must be
 * adjacent. */
size_t cpu_attention_decode_scratch_bytes(const cpu_attention *a, int threads);
/* `scratch` is 64-byte aligned and sized for pool_threads(). */
void cpu_attention_decode_run(const cpu_attention *a, void *scratch);

#endif
