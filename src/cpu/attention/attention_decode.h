/* SPDX-License-Identifier: MIT
 * Attention of a few query rows over a long cache, behind a mask that is known only when the program runs: what
 * decoding does. The mask is read first and gives, for each of its rows, the keys that are seen; only these are read,
 * so a row costs what it sees and not what the cache could hold. An item is a group of query heads with its own keys
 * and values, one head behind the other, each of `period` rows, as in attention.h.
 *
 * A key is left out where the mask adds less than CPU_ATTENTION_UNSEEN; a row that sees nothing is computed over all.
 */
#ifndef CPU_ATTENTION_ATTENTION_DECODE_H
#define CPU_ATTENTION_ATTENTION_DECODE_H

#include "cpu/attention/attention.h"

#define CPU_ATTENTION_UNSEEN (-5e3f)

/* Forward, with a mask; of keys and values the channels are neighbours. */
size_t cpu_attention_decode_scratch_bytes(const cpu_attention *a, int threads);
/* scratch: 64-byte aligned, for pool_threads(). */
void cpu_attention_decode_run(const cpu_attention *a, void *scratch);

#endif
