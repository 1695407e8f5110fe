/* SPDX-License-Identifier: MIT
 * Makes small Mach-O files and shared caches with Objective-C tables in each form that a pointer or a method list can
 * have, those included that no linker for other systems writes.
 */
#ifndef TESTS_MACHO_BUILD_H
#define TESTS_MACHO_BUILD_H

#include <stddef.h>
#include <stdint.h>

typedef enum build_lists {
    LISTS_ABSOLUTE,
    LISTS_RELATIVE,
    LISTS_DIRECT, /* selectors from a cache's base */
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
    size_t classes; /* where the list of classes stands */
    size_t methods; /* where the first method list stands */
} build_file;

const char *build_form_name(build_form form);
void build_macho(build_form form, build_lists lists, build_file *out);
/* The cache of FORM_CACHE_5 with its image in a second file: `main` has header and list of images only. */
void build_split_cache(const char *suffix, build_file *main, build_file *part);
/* A fat file of two: x86_64 first, then arm64e. */
void build_fat(build_file *out);

#endif
