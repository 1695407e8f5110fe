/* SPDX-License-Identifier: MIT
 * Reads the Objective-C tables of one image. Only for macho.c.
 */
#ifndef APPS_ANE_LAB_MACHO_OBJC_H
#define APPS_ANE_LAB_MACHO_OBJC_H

#include "apps/ane-lab/macho/listing.h"
#include "apps/ane-lab/macho/macho_image.h"

/* Sets count and entries of `out`. */
PROPANE_CHECK propane_status objc_list(const space *s, const image *im, arena *a, macho_listing *out,
                                       propane_error *err);

#endif
