/* SPDX-License-Identifier: MIT
 * PNG and JPEG files as arrays of bytes, [height, width, channels].
 */
#ifndef CLI_IMAGE_H
#define CLI_IMAGE_H

#include "base/npy.h"

bool image_is_name(const char *path); /* ends in .png, .jpg or .jpeg */
/* channels: 1 gray, 3 RGB; files of other kinds are converted as their libraries do. */
PROPANE_CHECK propane_status image_read(const char *path, int channels, npy *out, propane_error *err);

#endif
