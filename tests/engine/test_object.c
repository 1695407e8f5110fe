/* SPDX-License-Identifier: MIT
 * Reading of compiled programs: every task of the published files and programs decodes without a bit that no row names,
 * and encodes to the same bytes. A truncated or altered file is one error.
 */
#include <dirent.h>
#include <stdlib.h>

#include "ane/h13/describe.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "oracle.h"
#include "support/test.h"

static void object_no_unknown_bits(const engine_task *t, const char *name) {
    for (int i = 0; i < t->header_words; i++) {
        uint32_t known = engine_known_bits(true, 4u * (uint32_t)i);
        EXPECT_MSG((t->header[i] & ~known) == 0, "%s: word %d has 0x%08x beyond 0x%08x", name, i, t->header[i], known);
    }
    for (int i = 0; i < ENGINE_REGISTERS; i++) {
        uint32_t known = engine_known_bits(false, engine_address(i));
        EXPECT_MSG((t->word[i] & ~known) == 0, "%s: 0x%05x has 0x%08x beyond 0x%08x", name, engine_address(i),
                   t->word[i], known);
    }
}

TEST(map_names_every_register_once) {
    int registers = 0;
    for (int b = ENGINE_BLOCK_header + 1; b < ENGINE_BLOCKS; b++) registers += engine_blocks[b].words;
    EXPECT(registers == ENGINE_REGISTERS);
    for (int i = 0; i < ENGINE_REGISTERS; i++) {
        uint32_t address = engine_address(i), seen = 0;
        EXPECT(engine_index(address) == i);
        EXPECT(engine_index(address + 2) == -1);
        for (const engine_field *f = NULL; (f = engine_field_next(false, address, f));) {
            uint32_t mask = (f->bits == 32 ? ~0u : (1u << f->bits) - 1) << f->low;
            EXPECT_MSG((seen & mask) == 0, "0x%05x: %s overlaps another field", address, f->name);
            seen |= mask;
        }
        EXPECT_MSG(seen, "0x%05x has no field", address);
    }
    EXPECT(engine_index(0x40) == -1);
    EXPECT(engine_index(0x1f8f8) == -1);
}

typedef struct object_seen {
    int programs, tasks;
} object_seen;

static void object_oracle(const oracle *o, void *context) {
    object_seen *seen = context;
    propane_error err = {0};
    size_t bytes = engine_stream_bytes(o->tasks, o->task_count);
    uint8_t *stream = mem_alloc(bytes), *again = mem_alloc(bytes), digest[32];
    char hex[65];
    sha256 h;
    engine_stream_write(o->tasks, o->task_count, stream);
    EXPECT_MSG(bytes == o->text_bytes, "%s: %zu bytes, published %zu", o->id, bytes, o->text_bytes);
    sha256_init(&h);
    sha256_update(&h, stream, bytes);
    sha256_final(&h, digest);
    sha256_hex(digest, hex);
    EXPECT_MSG(strncmp(hex, o->text_sha256, strlen(o->text_sha256)) == 0, "%s: sha256 %s", o->id, hex);
    arena *a = arena_create();
    engine_task *tasks = NULL;
    int count = 0;
    EXPECT_OK(engine_stream_read(stream, bytes, engine_task_words(&o->tasks[0]), a, &tasks, &count, &err));
    EXPECT_MSG(count == o->task_count, "%s: %d tasks, not %d", o->id, count, o->task_count);
    for (int i = 0; i < count; i++) {
        object_no_unknown_bits(&tasks[i], o->id);
        EXPECT_MSG(engine_task_difference(&tasks[i], &o->tasks[i], "", NULL) == 0, "%s: task %d differs", o->id, i);
    }
    engine_stream_write(tasks, count, again);
    EXPECT_MSG(memcmp(stream, again, bytes) == 0, "%s: its bytes are not the same again", o->id);
    arena_free(a);
    mem_free(stream);
    mem_free(again);
    seen->programs++;
    seen->tasks += count;
}

TEST(published_programs_decode_and_encode) {
    object_seen seen = {0};
    if (oracle_each("h13_oracles.jsonl", object_oracle, &seen) < 0) SKIP("h13_oracles.jsonl is not in the shared data");
    EXPECT(seen.programs >= 111 && seen.tasks >= 172);
    printf("%d programs, %d tasks\n", seen.programs, seen.tasks);
}

TEST(published_files_decode_and_encode) {
    const char *folder = test_data("hwx");
    propane_error err = {0};
    char path[512];
    int files = 0, tasks = 0;
    if (!folder) SKIP("hwx/ is not in the shared data");
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        engine_object *o = NULL;
        if (!text_ends_with(e->d_name, ".hwx")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        EXPECT_OK(engine_object_open(path, &o, &err));
        uint8_t *again = mem_alloc(o->text_bytes);
        EXPECT(engine_stream_bytes(o->tasks, o->task_count) == o->text_bytes);
        engine_stream_write(o->tasks, o->task_count, again);
        EXPECT_MSG(memcmp(again, o->text, o->text_bytes) == 0, "%s: its text is not the same again", path);
        for (int i = 0; i < o->task_count; i++) object_no_unknown_bits(&o->tasks[i], path);
        for (int i = 0; i < o->surface_count; i++)
            EXPECT_MSG(o->surfaces[i].output ? o->surfaces[i].written : o->surfaces[i].read,
                       "%s: no task uses %s as declared", path, o->surfaces[i].name);
        files++;
        tasks += o->task_count;
        mem_free(again);
        engine_object_free(o);
    }
    if (d) closedir(d);
    EXPECT(files == 16 && tasks == 18);
}

/* Expects the same content after writing and reading either container. */
static void object_same(const engine_object *a, const engine_object *b, const char *name) {
    EXPECT_MSG(a->text_bytes == b->text_bytes && memcmp(a->text, b->text, a->text_bytes) == 0, "%s: text", name);
    EXPECT_MSG(a->constant_bytes == b->constant_bytes && memcmp(a->constants, b->constants, a->constant_bytes) == 0,
               "%s: constants", name);
    EXPECT_MSG(a->surface_count == b->surface_count, "%s: %d surfaces, %d", name, a->surface_count, b->surface_count);
    for (int i = 0; i < a->surface_count; i++) {
        const engine_surface *s = &a->surfaces[i], *t = engine_object_bar(b, s->bar);
        EXPECT_MSG(t && s->n == t->n && s->c == t->c && s->h == t->h && s->w == t->w && s->plane == t->plane &&
                       s->row == t->row && s->read == t->read && s->written == t->written,
                   "%s: surface of base register %d", name, s->bar);
    }
}

TEST(files_are_written_and_read_again) {
    const char *path = test_data("hwx/tg_0f988933.hwx");
    propane_error err = {0};
    engine_object *o = NULL, *again = NULL;
    if (!path) SKIP("hwx/ is not in the shared data");
    EXPECT_OK(engine_object_open(path, &o, &err));
    static const char *const names[] = {"again.hwx", "again.anec"};
    char *folder = test_temp_dir(), to[512];
    for (int i = 0; i < 2; i++) {
        snprintf(to, sizeof to, "%s/%s", folder, names[i]);
        EXPECT_OK(engine_object_save(o, to, &err));
        EXPECT_OK(engine_object_open(to, &again, &err));
        EXPECT(again->anec == (i == 1));
        object_same(o, again, names[i]);
        engine_object_free(again);
    }
    EXPECT_FAIL(engine_object_save(o, "x.txt", &err), PROPANE_ERR_INVALID, ".hwx or .anec");
    engine_object_free(o);
    mem_free(folder);
}

/* Truncates and alters a file made here in 60 ways: each is one error that names the file. */
TEST(altered_files_are_errors) {
    static const struct {
        int at;
        uint32_t value;
    } changes[] = {{0, 0xfeedfacf},
                   {8, 99},
                   {16, 0xffffffff},
                   {16, 40},
                   {20, 0xffffffff},
                   {20, 0x7fff},
                   {36, 0},
                   {36, 4},
                   {36, 0xffffff00},
                   {108, 0xffffffff},
                   {108, 7},
                   {0x4000 + 4 * 7, 0x101},
                   {0x4000 + 4 * 7, 0x100},
                   {0x4000 + 4 * 7, 0xffffff00},
                   {0x4000 + 4 * 6, 0x31009800},
                   {0x4000 + 4 * 8, 0x0502402a},
                   {0x4000 + 4 * 9, 0x23},
                   {0x4000 + 4 * 10, 0xf401f804},
                   {0x4000 + 4 * 10, 0xfc01f800},
                   {0x4000 + 4 * 10, 0},
                   {0x4000 + 4 * 73, 0x3c000004},
                   {0x4000 + 4 * 73, 0x3c000001},
                   {0x4000 + 4 * 73, 0xfc000000},
                   {0x4000 + 4 * 90, 0x6c013801},
                   {0x4000 + 4 * 119, 0xfffff800},
                   {0x4000 + 4 * 138, 0x0c008804},
                   {0x4000 + 4 * 143, 0},
                   {0x4000 + 4 * 149, 0x18017804}};
    enum { CHANGES = sizeof changes / sizeof changes[0], CUTS = 60 - CHANGES };
    propane_error err = {0};
    char *data = NULL;
    size_t length = 0;
    int errors = 0;
    engine_object *o = NULL;
    EXPECT_OK(file_read("fuzz/corpus/hwx/conv.hwx", 1 << 20, &data, &length, &err));
    EXPECT_OK(engine_object_parse((uint8_t *)data, length, "conv.hwx", &o, &err));
    engine_object_free(o);
    for (int i = 0; i < 60; i++) {
        uint8_t *copy = mem_alloc(length);
        size_t bytes = i < CHANGES ? length : (size_t)(i - CHANGES) * 530 + 3;
        memcpy(copy, data, length);
        if (i < CHANGES) bytes_put_u32(copy + changes[i].at, changes[i].value);
        err = (propane_error){0};
        propane_status status = engine_object_parse(copy, bytes, "conv.hwx", &o, &err);
        EXPECT_MSG(status && strstr(err.text, "conv.hwx"), "change %d (%s): %s", i, i < CHANGES ? "a word" : "a cut",
                   err.text);
        errors++;
        mem_free(copy);
    }
    EXPECT(errors == 60);
    mem_free(data);
}

/* Copying a section once per header that names it would cost memory out of proportion to the file. */
TEST(sections_stand_once) {
    propane_error err = {0};
    char *data = NULL;
    size_t length = 0;
    int changed = 0;
    engine_object *o = NULL;
    EXPECT_OK(file_read("fuzz/corpus/hwx/conv.hwx", 1 << 20, &data, &length, &err));
    for (size_t at = 0; at + 32 <= 0x1000; at++) /* a section's header: its name, then its segment's, 16 bytes each */
        if (memcmp(data + at, "__const", 8) == 0 && memcmp(data + at + 16, "__TEXT", 7) == 0)
            memcpy(data + at, "__text\0", 8), changed++;
    EXPECT(changed == 1);
    EXPECT_FAIL(engine_object_parse((uint8_t *)data, length, "conv.hwx", &o, &err), PROPANE_ERR_INVALID,
                "section __TEXT,__text occurs twice");
    mem_free(data);
}

SUITE("engine/object", T(sections_stand_once), T(map_names_every_register_once),
      T(published_programs_decode_and_encode), T(published_files_decode_and_encode),
      T(files_are_written_and_read_again), T(altered_files_are_errors))
