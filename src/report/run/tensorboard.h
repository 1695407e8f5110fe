/* SPDX-License-Identifier: MIT
 * TensorBoard event files: records of protocol-buffer messages Event { wall_time, step, summary { tag, simple_value }
 * }, each framed by its length and masked CRC-32C sums.
 */
#ifndef REPORT_RUN_TENSORBOARD_H
#define REPORT_RUN_TENSORBOARD_H

#include <stdint.h>

#include "core/base/status.h"

typedef struct tensorboard tensorboard;

/* Creates a file DIR/events.out.tfevents.TIME.HOST.PID and, if needed, the folder. A resumed run gets another file next
 * to the first; TensorBoard joins them. */
PROPANE_CHECK propane_status tensorboard_open(const char *dir, tensorboard **out, propane_error *err);
/* NULL does nothing. Numbers that are not finite are left out. */
void tensorboard_scalar(tensorboard *t, int64_t step, const char *tag, double value);
/* Writes the scalars since the last call to the file at once. */
PROPANE_CHECK propane_status tensorboard_flush(tensorboard *t, propane_error *err);
void tensorboard_close(tensorboard *t);

#endif
