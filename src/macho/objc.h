/* SPDX-License-Identifier: MIT
 * The Objective-C tables of one image. Not for others than macho.c.
 */
#ifndef MACHO_OBJC_H
#define MACHO_OBJC_H

#include "macho/listing.h"
#include "macho/macho_image.h"

/* Fills count and entries of `out`. */
PROPANE_CHECK propane_status objc_list(const space *s, const image *im, arena *a, macho_listing *out,
                                       propane_error *err);

#endif
