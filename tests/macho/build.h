/* SPDX-License-Identifier: MIT
 * Makes small Mach-O files and shared caches with Objective-C tables in each form that a pointer or a method list can
 * have, including forms that no linker for other systems writes.
 */
#ifndef TESTS_MACHO_BUILD_H
#define TESTS_MACHO_BUILD_H

#include <stddef.h>
#include <stdint.h>

typedef enum build_lists {
    LISTS_ABSOLUTE,
    LISTS_RELATIVE,
    LISTS_DIRECT, /* selectors relative to a cache's base */
    LISTS_OF_LISTS
} build_lists;

typedef enum build_form {
    FORM_CLASSIC, /* plain pointers and binding code */
    FORM_CHAIN_1,
    FORM_CHAIN_2,
    FORM_CHAIN_6,
    FORM_CHAIN_9,
    FORM_CHAIN_12,
    FORM_CACHE_2,
    FORM_CACHE_3,
    FORM_CACHE_5,
    FORM_CACHE_OLD, /* a short header; the selectors' base is in the Objective-C library */
    FORMS
} build_form;

typedef struct build_file {
    uint8_t data[16384];
    size_t bytes;
    size_t classes; /* offset of the list of classes */
    size_t methods; /* offset of the first method list */
} build_file;

const char *build_form_name(build_form form);
void build_macho(build_form form, build_lists lists, build_file *out);
/* Builds the cache of FORM_CACHE_5 with its image in a second file: `main` has only the header and the list of
 * images. */
void build_split_cache(const char *suffix, build_file *main, build_file *part);
/* Builds a fat file of two images: x86_64 first, then arm64e. */
void build_fat(build_file *out);

#endif
