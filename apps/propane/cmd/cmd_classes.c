/* SPDX-License-Identifier: MIT
 * propane classes: prints the Objective-C classes of a Mach-O file, or of an image in a shared cache, as text or JSON
 * lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ane-lab/macho/macho.h"
#include "apps/ane-lab/macho/running.h"
#include "apps/ane-lab/probe/classes_driver.h"
#include "apps/propane/cli.h"
#include "core/base/json.h"
#include "core/base/memory.h"

/* Defaults for a file with several images: the engine's framework in a cache, and these architectures in a fat file. */
static const char *const framework = "AppleNeuralEngine";
static const char *const framework_path =
    "/System/Library/PrivateFrameworks/AppleNeuralEngine.framework/AppleNeuralEngine";
static const char *const preferred[] = {"arm64e", "arm64"};

static const char *const kind_names[] = {
    [MACHO_CLASS] = "class", [MACHO_CATEGORY] = "category", [MACHO_PROTOCOL] = "protocol"};

static void cmd_classes_print_text(const macho_entry *e) {
    if (e->kind == MACHO_CATEGORY)
        printf("category %s (%s)", e->super ? e->super : "?", e->name);
    else
        printf("%s %s%s%s", kind_names[e->kind], e->name, e->super ? " : " : "", e->super ? e->super : "");
    for (int i = 0; i < e->protocol_count; i++) printf("%s%s", i ? ", " : " <", e->protocols[i]);
    printf("%s\n", e->protocol_count ? ">" : "");
    for (int i = 0; i < e->method_count; i++) {
        const macho_method *m = &e->methods[i];
        printf("  %c %s  %s%s\n", m->of_class ? '+' : '-', m->name, m->types ? m->types : "?",
               m->optional ? "  optional" : "");
    }
}

static json_t *cmd_classes_text_or_null(const char *text) { return text ? json_string(text) : json_null(); }

static propane_status cmd_classes_print_json(const macho_listing *l, const macho_entry *e, propane_error *err) {
    json_t *o = json_object(), *methods = json_array(), *protocols = json_array();
    json_put(o, "image", json_string(l->image));
    json_put(o, "arch", json_string(l->arch));
    json_put(o, "kind", json_string(kind_names[e->kind]));
    json_put(o, "name", json_string(e->name));
    json_put(o, e->kind == MACHO_CATEGORY ? "of" : "super", cmd_classes_text_or_null(e->super));
    for (int i = 0; i < e->protocol_count; i++) json_add(protocols, json_string(e->protocols[i]));
    for (int i = 0; i < e->method_count; i++) {
        const macho_method *m = &e->methods[i];
        json_t *row = json_object();
        json_put(row, "name", json_string(m->name));
        json_put(row, "class_method", json_boolean(m->of_class));
        json_put(row, "types", cmd_classes_text_or_null(m->types));
        if (m->optional) json_put(row, "optional", json_true());
        json_add(methods, row);
    }
    json_put(o, "protocols", protocols);
    json_put(o, "methods", methods);
    char *line = NULL;
    propane_status status = json_print(o, JSON_COMPACT, &line, NULL, err);
    if (line) printf("%s\n", line);
    mem_free(line);
    json_decref(o);
    return status;
}

static propane_status cmd_classes_choose(const macho_file *f, const char *path, const char *asked, int *out,
                                         propane_error *err) {
    const char *wanted = asked ? asked : macho_is_cache(f) ? framework : NULL;
    *out = 0;
    for (int i = (int)(sizeof preferred / sizeof preferred[0]) - 1; !wanted && i >= 0; i--)
        if (macho_image_find(f, preferred[i]) >= 0) *out = macho_image_find(f, preferred[i]);
    if (!wanted) return PROPANE_OK;
    *out = macho_image_find(f, wanted);
    if (*out >= 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s has no image '%.100s'; --images lists its images", path,
                        wanted);
}

typedef struct request {
    const char *path, *image, *class_name;
    bool images, json, driver;
} request;

static propane_status cmd_classes_show(const macho_listing *l, const request *q, propane_error *err) {
    int shown = 0;
    if (q->driver) {
        if (classes_driver_print(l, q->json)) return PROPANE_OK;
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s (%s): the ane driver would not work with these classes",
                            l->image, l->arch);
    }
    if (!q->json && !q->class_name) printf("%s (%s): %d entries\n", l->image, l->arch, l->count);
    for (int i = 0; i < l->count; i++) {
        const macho_entry *e = &l->entries[i];
        bool of_it = e->kind == MACHO_CATEGORY && e->super && q->class_name && strcmp(e->super, q->class_name) == 0;
        if (q->class_name && strcmp(e->name, q->class_name) != 0 && !of_it) continue;
        if (q->json)
            PROPANE_TRY(cmd_classes_print_json(l, e, err));
        else
            cmd_classes_print_text(e);
        shown++;
    }
    if (q->class_name && !shown)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s (%s) has no class or protocol '%.100s'", l->image, l->arch,
                            q->class_name);
    return PROPANE_OK;
}

static propane_status cmd_classes_list(const macho_file *f, const request *q, arena *a, propane_error *err) {
    if (q->images) {
        for (int i = 0; i < macho_image_count(f); i++) printf("%s\n", macho_image_name(f, i));
        return PROPANE_OK;
    }
    int index;
    macho_listing l;
    PROPANE_TRY(cmd_classes_choose(f, q->path, q->image, &index, err));
    PROPANE_TRY(macho_list(f, index, a, &l, err));
    return cmd_classes_show(&l, q, err);
}
/* Lists the classes of a library of the running system. Works only on a Mac. */
static propane_status cmd_classes_list_running(const request *q, arena *a, propane_error *err) {
    macho_listing l;
    PROPANE_TRY(running_list(q->image ? q->image : framework_path, NULL, NULL, a, &l, err));
    return cmd_classes_show(&l, q, err);
}

int cmd_classes(int argc, char **argv) {
    request q = {0};
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &q.path,
         .help = "a Mach-O file (thin or fat), or the main file of a dyld shared cache; default on a Mac: the running "
                 "framework"},
        {"--image", CLI_TEXT, &q.image, .words = "NAME",
         .help =
             "for a fat file, the architecture (default: arm64e, else arm64, else the first); for a cache, an image by "
             "path or file name (default: AppleNeuralEngine); without FILE, the path of a library"},
        {"--images", CLI_SWITCH, &q.images, .help = "list only architectures or images"},
        {"--class", CLI_TEXT, &q.class_name, .words = "NAME", .help = "list only this class or protocol"},
        {"--driver", CLI_SWITCH, &q.driver,
         .help =
             "compare with the methods that the ane driver calls; lists those that are missing or have another type"},
        {"--json", CLI_SWITCH, &q.json, .help = "print one JSON object per class, category and protocol, one per line"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "classes [FILE] [flags]",
                  "Lists the Objective-C classes, categories and protocols in a file from Apple's systems, with their "
                  "methods and type encodings. It works on any system and executes nothing from the file.");
    if (code >= 0) return code;
    if (q.images && !q.path) return cli_misuse("classes", "--images needs a FILE");
    propane_error err = {0};
    macho_file *f = NULL;
    arena *a = arena_create();
    propane_status status = !a ? propane_fail_memory(&err, 1) : q.path ? macho_open(q.path, &f, &err) : PROPANE_OK;
    if (status == PROPANE_OK) status = f ? cmd_classes_list(f, &q, a, &err) : cmd_classes_list_running(&q, a, &err);
    macho_close(f);
    arena_free(a);
    return status == PROPANE_OK ? CLI_OK : cli_error("classes", &err);
}
