/* SPDX-License-Identifier: MIT
 * Describes the contents of one image: classes, categories and protocols with their methods. All data is in the
 * caller's arena.
 */
#ifndef APPS_ANE_LAB_MACHO_LISTING_H
#define APPS_ANE_LAB_MACHO_LISTING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct macho_method {
    const char *name;  /* the selector */
    const char *types; /* the type encoding, such as "B36@0:8I16@20^@28", or NULL if there is none */
    bool of_class;     /* a class method (+name), not an instance method (-name) */
    bool optional;     /* an optional method of a protocol */
} macho_method;

typedef enum macho_kind { MACHO_CLASS, MACHO_CATEGORY, MACHO_PROTOCOL } macho_kind;

typedef struct macho_entry {
    macho_kind kind;
    const char *name;
    const char *super; /* a class's superclass, or the class of a category; NULL if there is none or it is unknown */
    int method_count, protocol_count;
    const macho_method *methods;
    const char *const *protocols; /* names of adopted protocols */
} macho_entry;

typedef struct macho_listing {
    const char *image; /* the path as given, or the path within the cache */
    const char *arch;
    int count;
    const macho_entry *entries; /* in the file's order */
} macho_listing;

#endif
