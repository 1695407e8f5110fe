/* SPDX-License-Identifier: MIT
 * Tests the class lister on every form of pointer and method list, and on files with false contents.
 */
#include <stdlib.h>

#include "apps/ane-lab/macho/macho.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "macho/build.h"
#include "support/test.h"

/* Prints one line per entry. */
static void flatten(const macho_listing *l, text *t) {
    for (int i = 0; i < l->count; i++) {
        const macho_entry *e = &l->entries[i];
        text_printf(t, "%c %s:%s", "ckp"[e->kind], e -> name, e -> super ? e -> super : "-");
        for (int k = 0; k < e->protocol_count; k++) text_printf(t, " <%s>", e->protocols[k]);
        for (int k = 0; k < e->method_count; k++)
            text_printf(t, " %s%c%s %s", e->methods[k].optional ? "?" : "", e->methods[k].of_class ? '+' : '-',
                        e->methods[k].name, e->methods[k].types ? e->methods[k].types : "none");
        text_append(t, "\n");
    }
}

static propane_status list(const void *data, size_t bytes, const char *image, text *out, propane_error *err) {
    macho_file *f;
    macho_listing l;
    PROPANE_TRY(macho_open_data(data, bytes, "test", &f, err));
    arena *a = arena_create();
    propane_status status = macho_list(f, image ? macho_image_find(f, image) : 0, a, &l, err);
    text_clear(out);
    if (status == PROPANE_OK) flatten(&l, out);
    arena_free(a);
    macho_close(f);
    return status;
}

#define LISTING(super)                                                                                                 \
    "c _ANEEngine:" super                                                                                              \
    " <Working> +shared @16@0:8 -compileWithQoS:options:error: B36@0:8I16@20^@28 -state Q16@0:8\n"                     \
    "c _ANEDerived:_ANEEngine\n"                                                                                       \
    "k More:_ANEEngine -extra q16@0:8\n"                                                                               \
    "p Working:- -work: v24@0:8@16 ?+rest B16@0:8\n"

TEST(every_form) {
    static build_file f;
    propane_error err = {0};
    text t = {0};
    for (int form = 0; form < FORMS; form++)
        for (int lists = 0; lists <= LISTS_OF_LISTS; lists++) {
            bool cache = form >= FORM_CACHE_2;
            build_macho((build_form)form, (build_lists)lists, &f);
            propane_status status = list(f.data, f.bytes, cache ? "AppleNeuralEngine" : NULL, &t, &err);
            if (!cache && lists >= LISTS_DIRECT) { /* cut out of a cache: the selectors are elsewhere */
                EXPECT_MSG(status == PROPANE_ERR_UNSUPPORTED && strstr(err.text, "read the cache instead"), "%s",
                           err.text);
                continue;
            }
            EXPECT_MSG(status == PROPANE_OK, "%s, lists %d: %s", build_form_name((build_form)form), lists, err.text);
            EXPECT_TEXT(t.data, cache ? LISTING("-") : LISTING("NSObject"));
        }
    text_deinit(&t);
}

TEST(fat_files) {
    static build_file f;
    propane_error err = {0};
    text t = {0};
    build_fat(&f);
    macho_file *file;
    EXPECT_OK(macho_open_data(f.data, f.bytes, "test", &file, &err));
    EXPECT(macho_image_count(file) == 2 && !macho_is_cache(file));
    EXPECT_TEXT(macho_image_name(file, 0), "x86_64");
    EXPECT_TEXT(macho_image_name(file, 1), "arm64e");
    EXPECT(macho_image_find(file, "arm64") == -1);
    macho_close(file);
    EXPECT_OK(list(f.data, f.bytes, "x86_64", &t, &err));
    EXPECT_TEXT(t.data, LISTING("NSObject"));
    EXPECT_OK(list(f.data, f.bytes, "arm64e", &t, &err));
    EXPECT_TEXT(t.data, LISTING("NSObject"));
    text_deinit(&t);
}

TEST(caches_in_several_files) {
    static build_file main_file, part;
    propane_error err = {0};
    char *dir = test_temp_dir(), path[300], other[320];
    snprintf(path, sizeof path, "%s/dyld_shared_cache_arm64e", dir);
    snprintf(other, sizeof other, "%s.01", path);
    build_split_cache(".01", &main_file, &part);
    EXPECT_OK(file_write(path, main_file.data, main_file.bytes, &err));
    macho_file *f = NULL;
    EXPECT_FAIL(macho_open(path, &f, &err), PROPANE_ERR_NOT_FOUND, "dyld_shared_cache_arm64e.01");
    EXPECT_FAIL(macho_open_data(main_file.data, main_file.bytes, "test", &f, &err), PROPANE_ERR_UNSUPPORTED,
                "by its path");
    EXPECT_OK(file_write(other, part.data, part.bytes, &err));
    EXPECT_OK(macho_open(path, &f, &err));
    EXPECT(macho_image_count(f) == 2 && macho_is_cache(f));
    arena *a = arena_create();
    macho_listing l;
    text t = {0};
    EXPECT_OK(macho_list(f, macho_image_find(f, "AppleNeuralEngine"), a, &l, &err));
    flatten(&l, &t);
    EXPECT_TEXT(t.data, LISTING("-"));
    EXPECT_TEXT(l.arch, "arm64e");
    text_deinit(&t);
    arena_free(a);
    macho_close(f);
    build_split_cache("/../x", &main_file, &part);
    EXPECT_OK(file_write(path, main_file.data, main_file.bytes, &err));
    EXPECT_FAIL(macho_open(path, &f, &err), PROPANE_ERR_INVALID, "the name of subcache file");
    mem_free(dir);
}

/* Messages name the fault. */
TEST(refusals) {
    static build_file f;
    propane_error err = {0};
    text t = {0};
    EXPECT_FAIL(list("hello", 5, NULL, &t, &err), PROPANE_ERR_INVALID, "neither a Mach-O file nor");
    EXPECT_FAIL(list("", 0, NULL, &t, &err), PROPANE_ERR_INVALID, "neither a Mach-O file nor");
    EXPECT_FAIL(list("\xce\xfa\xed\xfe ", 8, NULL, &t, &err), PROPANE_ERR_UNSUPPORTED, "32-bit");
    build_macho(FORM_CHAIN_6, LISTS_RELATIVE, &f);
    f.data[12] = 1;
    EXPECT_FAIL(list(f.data, f.bytes, NULL, &t, &err), PROPANE_ERR_UNSUPPORTED, "link it first");
    build_macho(FORM_CHAIN_6, LISTS_RELATIVE, &f);
    f.data[f.methods + 4] = 200;
    EXPECT_FAIL(list(f.data, f.bytes, NULL, &t, &err), PROPANE_ERR_INVALID, "a method list");
    build_macho(FORM_CHAIN_6, LISTS_ABSOLUTE, &f);
    f.data[f.methods] = 16;
    EXPECT_FAIL(list(f.data, f.bytes, NULL, &t, &err), PROPANE_ERR_INVALID, "has entries of 16 bytes, not 24");
    build_macho(FORM_CHAIN_6, LISTS_RELATIVE, &f);
    f.data[f.classes + 2] = 0x77; /* an address beyond the file */
    EXPECT_FAIL(list(f.data, f.bytes, NULL, &t, &err), PROPANE_ERR_INVALID, "a class: the 40 bytes at address");
    text_deinit(&t);
}

/* A list in which all classes are the same class: more methods than the file has bytes for. */
TEST(tables_that_are_reached_again) {
    static build_file f;
    propane_error err = {0};
    text t = {0};
    build_macho(FORM_CHAIN_6, LISTS_ABSOLUTE, &f);

    size_t section = 32 + 72, size = section + 40; /* of the list of classes, in the header */
    for (size_t i = 1; i < 200; i++) memcpy(f.data + f.bytes + 8 * i, f.data + f.classes, 8);
    memcpy(f.data + f.bytes, f.data + f.classes, 8);
    uint64_t address = UINT64_C(0x180000000) + f.bytes, bytes = 8 * 200;
    memcpy(f.data + section + 32, &address, 8);
    memcpy(f.data + size, &bytes, 8);
    f.bytes += bytes;
    memcpy(f.data + 32 + 32, &f.bytes, 8); /* the segment extends to the end */
    memcpy(f.data + 32 + 48, &f.bytes, 8);
    EXPECT_FAIL(list(f.data, f.bytes, NULL, &t, &err), PROPANE_ERR_INVALID, "more entries than fit into the file");
    text_deinit(&t);
}

/* Changes each byte and cuts at each length: the file is read or refused with a reason, and never crashes (which
 * the sanitizers would detect). */
TEST(damaged_files) {
    static build_file f;
    propane_error err;
    text t = {0};
    int refused = 0, read = 0;
    for (int form = 0; form < FORMS; form++) {
        build_macho((build_form)form, form >= FORM_CACHE_2 ? LISTS_OF_LISTS : LISTS_RELATIVE, &f);
        const char *image = form >= FORM_CACHE_2 ? "AppleNeuralEngine" : NULL;
        for (size_t i = 0; i < f.bytes; i++) {
            static const uint8_t flips[] = {0x01, 0x80, 0xff};
            for (size_t k = 0; k < sizeof flips; k++) {
                err = (propane_error){0};
                f.data[i] ^= flips[k];
                bool ok = list(f.data, f.bytes, image, &t, &err) == PROPANE_OK;
                EXPECT(ok || err.text[0]);
                *(ok ? &read : &refused) += 1;
                f.data[i] ^= flips[k];
            }
        }
        for (size_t bytes = 0; bytes < f.bytes; bytes++) {
            err = (propane_error){0};
            uint8_t *copy = mem_alloc(bytes); /* of exactly that size, so that reads beyond it are detected */
            memcpy(copy, f.data, bytes);
            EXPECT(list(copy, bytes, image, &t, &err) == PROPANE_OK || err.text[0]);
            mem_free(copy);
        }
    }
    EXPECT(read > 1000 && refused > 1000);
    text_deinit(&t);
}

SUITE("macho", T(every_form), T(fat_files), T(caches_in_several_files), T(refusals), T(tables_that_are_reached_again),
      T(damaged_files))
