/* SPDX-License-Identifier: MIT
 * PNG and JPEG files as arrays of bytes, [height, width, channels].
 */
#ifndef CORE_BASE_IMAGE_H
#define CORE_BASE_IMAGE_H

#include "core/base/npy.h"

bool picture_is_name(const char *path); /* ends in .png, .jpg or .jpeg */
/* channels: 1 gray, 3 RGB. Gray becomes RGB and the other way round, 16 bits become 8, what is transparent lies on
 * black. */
PROPANE_CHECK propane_status picture_read(const char *path, int channels, npy *out, propane_error *err);
/* The content of a file. */
PROPANE_CHECK propane_status picture_parse(const uint8_t *data, size_t bytes, const char *source, int channels,
                                           npy *out, propane_error *err);
/* To another size: each new pixel is the mean of what it covers, with weights that fall off linearly (what is called
 * bilinear with antialiasing). */
PROPANE_CHECK propane_status picture_resize(const npy *from, int64_t height, int64_t width, npy *out,
                                            propane_error *err);

#endif
