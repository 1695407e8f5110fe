/* SPDX-License-Identifier: MIT
 * Programs for H14: the text of Apple's compiler for that chip, word for word, by its SHA-256 (ENGINE_WORDS=1 prints
 * the words made here); both containers; and words that are not understood.
 */
#include <stdlib.h>

#include "ane/h13/compile.h"
#include "ane/h13/simulate.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "oracle_program.h"
#include "support/test.h"

typedef struct h14_program {
    const char *name, *mil;
    int tasks;
    const char *sha256;
    bool same;
} h14_program;

static const h14_program h14_programs[] = {
#define PROGRAM(name, mil, tasks, sha256, same) {name, mil, tasks, sha256, same},
#include "h14_programs.def"
};

static mil_module *h14_module(const h14_program *p, json_t **json, propane_error *err) {
    char line[1024];
    snprintf(line, sizeof line, "{\"id\":\"%s\",\"mil\":%s}", p->name, p->mil);
    for (char *at = strstr(line, "mil"); *at; at++)
        if (*at == '\'') *at = '"';
    EXPECT_MSG(json_parse(line, strlen(line), p->name, json, err) == PROPANE_OK, "%s", err->text);
    oracle o = {.json = *json, .id = p->name};
    return oracle_program(&o, err);
}

static void h14_hash(const engine_object *o, char hex[65]) {
    uint8_t digest[32];
    sha256 h;
    sha256_init(&h);
    sha256_update(&h, o->text, (size_t)o->text_bytes);
    sha256_final(&h, digest);
    sha256_hex(digest, hex);
}

static void h14_print(const engine_object *o) {
    printf("words");
    for (uint64_t i = 0; i < o->text_bytes; i += 4) printf(" %x", bytes_u32(o->text + i));
    printf("\n");
}

TEST(words_are_apples) {
    int same = 0, count = (int)(sizeof h14_programs / sizeof h14_programs[0]);
    for (int i = 0; i < count; i++) {
        const h14_program *p = &h14_programs[i];
        propane_error err = {0};
        json_t *json = NULL;
        engine_object *o = NULL;
        char hex[65] = "";
        mil_module *m = h14_module(p, &json, &err);
        EXPECT_MSG(m, "%s: %s", p->name, err.text);
        propane_status status =
            engine_compile(m->functions, &(engine_compile_options){.subtype = ENGINE_H14}, &o, &err);
        if (!status) h14_hash(o, hex);
        bool equal = strcmp(hex, p->sha256) == 0;
        same += equal;
        if (getenv("ENGINE_WORDS")) printf("%s %s %s\n", p->name, equal ? "same" : "differs", err.text);
        if (getenv("ENGINE_WORDS") && o) h14_print(o);
        EXPECT_MSG(equal || !p->same, "%s: not the words of Apple's compiler; %s", p->name, err.text);
        engine_object_free(o);
        mil_module_free(m);
        json_decref(json);
    }
    printf("%d of %d programs for H14 have the words of Apple's compiler\n", same, count);
}

static engine_object *h14_compile(const char *mil, propane_error *err) {
    const h14_program p = {.name = "t", .mil = mil};
    json_t *json = NULL;
    engine_object *o = NULL;
    mil_module *m = h14_module(&p, &json, err);
    EXPECT_MSG(m, "%s", err->text);
    propane_status status = engine_compile(m->functions, &(engine_compile_options){.subtype = ENGINE_H14}, &o, err);
    EXPECT(status == PROPANE_OK || !o);
    mil_module_free(m);
    json_decref(json);
    return o;
}

static const char h14_product[] = "{'op':'matmul','x':[16,64],'y':[64,64],'transpose_x':false,'transpose_y':true}";

TEST(files_give_the_program_back) {
    propane_error err = {0};
    engine_object *o = h14_compile(h14_product, &err);
    EXPECT_MSG(o && o->task_count == 2, "%s", err.text);
    for (int anec = 0; anec < 2; anec++) {
        uint8_t *data = NULL;
        size_t bytes = 0;
        engine_object *back = NULL;
        EXPECT_OK(anec ? engine_anec_write(o, &data, &bytes, &err) : engine_hwx_write(o, &data, &bytes, &err));
        EXPECT_OK(engine_object_parse(data, bytes, "t", &back, &err));
        EXPECT(back->subtype == ENGINE_H14 && back->anec == anec && back->task_count == 2 && !back->unread);
        EXPECT(back->text_bytes == o->text_bytes && memcmp(back->text, o->text, (size_t)o->text_bytes) == 0);
        EXPECT(back->surface_count == 3 && engine_object_bar(back, 4)->written && engine_object_bar(back, 5)->read &&
               engine_object_bar(back, 6)->read);
        for (int i = 0; i < 2; i++) EXPECT(memcmp(back->tasks[i].word, o->tasks[i].word, sizeof o->tasks[i].word) == 0);
        engine_object_free(back);
        mem_free(data);
    }
    engine_object_free(o);
}

TEST(what_no_program_shows_is_refused) {
    propane_error err = {0};
    EXPECT(!h14_compile("{'op':'conv','x':[1,64,8,8],'weight':[64,64,1,1],'stride':2,'groups':1,'pad_type':'same'}",
                        &err));
    EXPECT_MSG(err.status == PROPANE_ERR_UNSUPPORTED && strstr(err.text, "H14: the format of kernels"), "%s", err.text);
}

/* Changes one word of a program, which can then be printed but not run. */
TEST(words_that_are_not_understood_are_refused) {
    static const struct {
        uint32_t is, becomes;
        const char *printed;
    } list[] = {{0x01010e31, 0x01010e71, "register 0x01500 = 0x01010e71: its H13 equivalent is unknown"},
                {0x00100000, 0x00108000, "register 0x0003c = 0x00108000: unknown bits"},
                {0x80480540, 0x80480700, "a record writes register 0x01c00, which no block has"},
                {0x22808444, 0x00008444, "an address with a base register"}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        propane_error err = {0};
        uint8_t *data = NULL;
        size_t bytes = 0;
        bool changed = false;
        engine_object *o = h14_compile(h14_product, &err), *back = NULL;
        EXPECT_OK(engine_hwx_write(o, &data, &bytes, &err));
        for (size_t at = 0; at + 4 <= bytes; at += 4)
            if (bytes_u32(data + at) == list[i].is) bytes_put_u32(data + at, list[i].becomes), changed = true;
        EXPECT_MSG(changed, "the program has no word 0x%08x", list[i].is);
        EXPECT_OK(engine_object_parse(data, bytes, "t", &back, &err));
        engine_memory none[ENGINE_BARS] = {{0}};
        engine_machine *machine = engine_machine_create(ENGINE_WIDE);
        EXPECT_FAIL(engine_simulate_object(machine, back, none, &err), PROPANE_ERR_UNSUPPORTED, list[i].printed);
        engine_machine_free(machine);
        engine_object_free(back);
        engine_object_free(o);
        mem_free(data);
    }
}

SUITE("engine/h14", T(words_are_apples), T(files_give_the_program_back), T(what_no_program_shows_is_refused),
      T(words_that_are_not_understood_are_refused))
