/* SPDX-License-Identifier: MIT
 * Reads Objective-C classes, categories and protocols from Mach-O files (thin and fat, arm64, arm64e, x86-64) and dyld
 * shared caches, on any system. This shows the private classes of a framework without running its code.
 *
 * Files are not trusted. Every offset, length and count is checked, and an invalid value is an error that names its
 * place. Files are mapped and names point into the mapping, so a listing must not outlive its file.
 */
#ifndef APPS_ANE_LAB_MACHO_MACHO_H
#define APPS_ANE_LAB_MACHO_MACHO_H

#include "apps/ane-lab/macho/listing.h"
#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct macho_file macho_file;

/* Opens a Mach-O file, a fat file, or the main file of a shared cache (its further files are next to it). */
PROPANE_CHECK propane_status macho_open(const char *path, macho_file **out, propane_error *err);
/* Opens a file that is in memory, which must outlive *out. A cache in several files cannot be opened this way. */
PROPANE_CHECK propane_status macho_open_data(const void *data, size_t bytes, const char *name, macho_file **out,
                                             propane_error *err);
void macho_close(macho_file *file);

/* The images of a file are a fat file's parts (named by architecture), a cache's images (named by path), or the single
 * image of a thin file. */
bool macho_is_cache(const macho_file *file);
int macho_image_count(const macho_file *file);
const char *macho_image_name(const macho_file *file, int index); /* "arm64e", "/System/.../AppleNeuralEngine" */
/* Finds a part by architecture, or an image by its path or by the last component of its path. Returns -1 if there is
 * none. */
int macho_image_find(const macho_file *file, const char *name);

/* Lists the contents of one image; memory comes from the arena. */
PROPANE_CHECK propane_status macho_list(const macho_file *file, int image, arena *a, macho_listing *out,
                                        propane_error *err);

#endif
