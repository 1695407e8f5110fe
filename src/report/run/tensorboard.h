/* SPDX-License-Identifier: MIT
 * TensorBoard event files: records of protocol-buffer messages Event { wall_time, step, summary { tag, simple_value }
 * }, each framed by its length and masked CRC-32C sums.
 */
#ifndef REPORT_RUN_TENSORBOARD_H
#define REPORT_RUN_TENSORBOARD_H

#include <stdint.h>

#include "core/base/status.h"

typedef struct tensorboard tensorboard;

/* A new file DIR/events.out.tfevents.TIME.HOST.PID; the folder is made. A resumed run gets another file beside the
 * first, which TensorBoard joins. */
PROPANE_CHECK propane_status tensorboard_open(const char *dir, tensorboard **out, propane_error *err);
/* NULL: does nothing. Numbers that are not finite are left out. */
void tensorboard_scalar(tensorboard *t, int64_t step, const char *tag, double value);
/* The scalars since the last call reach the file together. */
PROPANE_CHECK propane_status tensorboard_flush(tensorboard *t, propane_error *err);
void tensorboard_close(tensorboard *t);

/* CRC-32C (Castagnoli), for tests. */
uint32_t tensorboard_crc(const void *data, size_t length);

#endif
