/* SPDX-License-Identifier: MIT
 * Packs and unpacks kernels in the neural engine's form: up to sixteen lanes, each a run of bytes that a separate DMA
 * channel fetches. Output channels are stored in planes of `interleave` channels. For each input and tap, a plane has
 * one halfword per channel. Plane p belongs to lane p mod lanes. A lane is [table 128 bytes] [planes, each: bias row,
 * weight rows].
 *
 *   dense      planes of 2^OCGSize channels; the remaining channels form planes of half the size, and so on
 *   grouped    planes of 2^OCGSize channels of one group, each padded to 64 bytes, group after group
 *   depthwise  one channel per plane, its taps one after the other
 *   sparse     stride 2: zeros are left out, and a mask byte precedes every eight channels
 *
 * Sources: joshuaswarren/mil-hwx-compiler research/h13-td-fields.md (measured by known patterns).
 */
#ifndef ANE_H13_KERNEL_H
#define ANE_H13_KERNEL_H

#include "ane/h13/task.h"
#include "core/base/text.h"

typedef struct engine_kernel {
    int64_t outputs, inputs; /* per group; depthwise: outputs is the channel count, inputs 1 */
    int64_t groups, taps;    /* taps: height times width */
    int lanes;               /* in use, at most 16 */
    int interleave;          /* channels of the first planes, a power of two */
    bool depthwise, bias, sparse, table;
} engine_kernel;

/* A plane of a lane: its channel j is output channel first + j. */
enum { ENGINE_PLANES = 4096 };
typedef struct engine_plane {
    int64_t first; /* output channel, counted over all groups */
    int size;
} engine_plane;
/* Lists the planes of a lane in `planes`, which has room for ENGINE_PLANES. Returns their number, or -1 if they do not
 * fit. */
int engine_kernel_planes(const engine_kernel *k, int lane, engine_plane *planes);

/* Appends the bytes of all lanes to `out`, and sets bytes[i] to the length of lane i. `weight` is [groups * outputs,
 * inputs, taps]. `bias` has one value per output, and `table` 64 halfwords; either may be NULL if the kernel has
 * none. */
PROPANE_CHECK propane_status engine_kernel_pack(const engine_kernel *k, const uint16_t *weight, const uint16_t *bias,
                                                const uint16_t *table, text *out, int64_t bytes[ENGINE_LANES],
                                                propane_error *err);
/* Unpacks a kernel for the interpreter: lane[i] points to the size[i] bytes of lane i. Writes weights and bias in the
 * form that engine_kernel_pack reads; the bias is 0 if the kernel has none. Errors name the lane that is too short. */
PROPANE_CHECK propane_status engine_kernel_unpack(const engine_kernel *k, const uint8_t *const lane[ENGINE_LANES],
                                                  const int64_t size[ENGINE_LANES], uint16_t *weight, uint16_t *bias,
                                                  propane_error *err);

#endif
