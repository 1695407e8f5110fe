/* SPDX-License-Identifier: MIT
 * The small forms of moments with vectors of 128 bits, which every machine has (NEON, SSE2).
 */
#define LANES 4
#define MOMENTS_TARGET
#define MOMENTS_KERNELS moments_plain
#include "train/optim/moments_body.h"
