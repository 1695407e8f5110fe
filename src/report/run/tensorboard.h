/* SPDX-License-Identifier: MIT
 * Declares the writing of TensorBoard's event files. A file consists of protocol-buffer messages Event { wall_time,
 * step, summary { tag, simple_value } }. Each is a record with its length and masked CRC-32C sums.
 */
#ifndef REPORT_RUN_TENSORBOARD_H
#define REPORT_RUN_TENSORBOARD_H

#include <stdint.h>

#include "core/base/status.h"

typedef struct tensorboard tensorboard;

/* Creates a file DIR/events.out.tfevents.TIME.HOST.PID and, if needed, the folder. A resumed run creates another file
 * in the same folder, and TensorBoard joins the files. */
PROPANE_CHECK propane_status tensorboard_open(const char *dir, tensorboard **out, propane_error *err);
/* Adds a scalar. Numbers that are not finite are left out. A NULL `t` does nothing. */
void tensorboard_scalar(tensorboard *t, int64_t step, const char *tag, double value);
/* Writes the scalars that were added since the last call to the file, in one write. */
PROPANE_CHECK propane_status tensorboard_flush(tensorboard *t, propane_error *err);
void tensorboard_close(tensorboard *t);

#endif
