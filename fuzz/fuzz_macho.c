/* SPDX-License-Identifier: MIT
 * Mach-O files and shared caches: every listed text is inside the file, and listing ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ane-lab/macho/macho.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t use(const char *text) { return text ? strlen(text) : 0; }

static void use_listing(const macho_listing *l) {
    volatile size_t sum = 0;
    for (int i = 0; i < l->count; i++) {
        const macho_entry *e = &l->entries[i];
        if (!e->name) abort();
        sum += use(e->name) + use(e->super);
        for (int k = 0; k < e->protocol_count; k++) sum += use(e->protocols[k]);
        for (int k = 0; k < e->method_count; k++) sum += strlen(e->methods[k].name) + use(e->methods[k].types);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    macho_file *f;
    if (macho_open_data(data, size, "fuzz", &f, &err) != PROPANE_OK) {
        if (!err.text[0]) abort();
        return 0;
    }
    for (int i = 0; i < macho_image_count(f) && i < 8; i++) {
        macho_listing l;
        arena *a = arena_create();
        if (!a) abort();
        if (macho_list(f, i, a, &l, &err) == PROPANE_OK) use_listing(&l);
        arena_free(a);
    }
    macho_close(f);
    return 0;
}
