/* SPDX-License-Identifier: MIT
 * Reads PNG and JPEG files as arrays of bytes, [height, width, channels], and resizes them.
 */
#ifndef CORE_BASE_IMAGE_H
#define CORE_BASE_IMAGE_H

#include "core/base/npy.h"

bool picture_is_name(const char *path); /* ends in .png, .jpg or .jpeg */
/* Reads an image with 1 (gray) or 3 (RGB) channels. Gray is converted to RGB and vice versa, 16 bits become 8, and
 * transparent pixels are blended with black. */
PROPANE_CHECK propane_status picture_read(const char *path, int channels, npy *out, propane_error *err);
/* Like picture_read, but from the content of a file. */
PROPANE_CHECK propane_status picture_parse(const uint8_t *data, size_t bytes, const char *source, int channels,
                                           npy *out, propane_error *err);
/* Resizes an image. Each new pixel is a weighted mean of the old pixels around it; the weights decrease linearly with
 * the distance (known as bilinear with antialiasing). */
PROPANE_CHECK propane_status picture_resize(const npy *from, int64_t height, int64_t width, npy *out,
                                            propane_error *err);

#endif
