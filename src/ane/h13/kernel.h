/* SPDX-License-Identifier: MIT
 * Kernels in the neural engine's form: sixteen lanes, each a run of bytes that a separate DMA channel fetches. Output
 * channels are stored in planes of `interleave` channels, interleaved halfword by halfword over the inputs and taps.
 * Plane p belongs to lane p mod lanes. A lane is [table 128 bytes] [planes, each: bias row, weight rows].
 *
 *   dense      planes of 2^OCGSize channels; the rest goes into planes of half the size, and so on
 *   grouped    planes of 2^OCGSize channels of one group, each padded to 64 bytes, group after group
 *   depthwise  one channel per plane, its taps one after the other
 *   sparse     stride 2: zeros are left out, and a mask byte precedes each eight channels
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
    int interleave;          /* of the first planes, a power of two */
    bool depthwise, bias, sparse, table;
} engine_kernel;

/* Lists the planes of a lane: channel j of plane i is output channel first + j. `planes` has room for ENGINE_PLANES. */
enum { ENGINE_PLANES = 4096 };
typedef struct engine_plane {
    int64_t first; /* output channel, counted over all groups */
    int size;
} engine_plane;
/* Returns the number of planes, or -1 if there is no room for them. */
int engine_kernel_planes(const engine_kernel *k, int lane, engine_plane *planes);

/* Appends all lanes' bytes and sets bytes[i] to the length of each. `weight` is [groups * outputs, inputs, taps],
 * `bias` one per output, `table` 64 halfwords. */
PROPANE_CHECK propane_status engine_kernel_pack(const engine_kernel *k, const uint16_t *weight, const uint16_t *bias,
                                                const uint16_t *table, text *out, int64_t bytes[ENGINE_LANES],
                                                propane_error *err);
/* Does the reverse, for the interpreter: lane[i] are the bytes of lane i, size[i] their number. Writes weights and
 * bias (zero without one) in the form above. Errors name the lane that is too short. */
PROPANE_CHECK propane_status engine_kernel_unpack(const engine_kernel *k, const uint8_t *const lane[ENGINE_LANES],
                                                  const int64_t size[ENGINE_LANES], uint16_t *weight, uint16_t *bias,
                                                  propane_error *err);

#endif
