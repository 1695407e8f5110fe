/* SPDX-License-Identifier: MIT
 * Objective-C classes, categories and protocols out of Mach-O files (thin and fat, arm64, arm64e, x86-64) and dyld
 * shared caches, on any system. It shows the private classes of a framework without running anything.
 *
 * A file comes from elsewhere: every offset, length and count is checked, and what does not fit is one error that names
 * the place. Files are mapped, names point into the mapping: a listing lives no longer than its file.
 */
#ifndef APPS_ANE_LAB_MACHO_MACHO_H
#define APPS_ANE_LAB_MACHO_MACHO_H

#include "apps/ane-lab/macho/listing.h"
#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct macho_file macho_file;

/* Opens a Mach-O file, a fat one, or the main file of a shared cache (its further files lie beside it). */
PROPANE_CHECK propane_status macho_open(const char *path, macho_file **out, propane_error *err);
/* The same from memory that outlives the file; a cache in several files cannot be read so. */
PROPANE_CHECK propane_status macho_open_data(const void *data, size_t bytes, const char *name, macho_file **out,
                                             propane_error *err);
void macho_close(macho_file *file);

/* A fat file's parts (by architecture) or a cache's images (by path); a thin file has one. */
bool macho_is_cache(const macho_file *file);
int macho_image_count(const macho_file *file);
const char *macho_image_name(const macho_file *file, int index); /* "arm64e", "/System/.../AppleNeuralEngine" */
/* A part by architecture; an image by its path or the path's last name. -1: there is none. */
int macho_image_find(const macho_file *file, const char *name);

/* What is in one image; memory comes from the arena. */
PROPANE_CHECK propane_status macho_list(const macho_file *file, int image, arena *a, macho_listing *out,
                                        propane_error *err);

#endif
