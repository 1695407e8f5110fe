/* SPDX-License-Identifier: MIT
 * The tables of docs/registers.md must equal h13.def's rows: this test fails if the page differs, and writes the tables
 * with ENGINE_MAP_WRITE=1.
 */
#include <stdlib.h>

#include "ane/h13/registers.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "support/test.h"

static const char map_begin[] =
    "<!-- from src/ane/h13/h13.def; ENGINE_MAP_WRITE=1 build/release/tests/engine/test_map -->\n";
static const char map_end[] = "<!-- end -->\n";

static void map_field(text *out, const engine_field *f) {
    static const char *const marks[] = {"verified", "stated", "inferred", "unknown"};
    char effect[32] = "results";
    if (f->role == ENGINE_HINT) snprintf(effect, sizeof effect, "none seen");
    if (f->role == ENGINE_IS) snprintf(effect, sizeof effect, "always %u", f->value);
    text_printf(out, "| 0x%05x", f->address);
    if (f->times > 1) text_printf(out, " x %d", f->times);
    if (f->bits == 1)
        text_printf(out, " | %d", f->low);
    else
        text_printf(out, " | %d-%d", f->low, f->low + f->bits - 1);
    text_printf(out, " | %s | %s | %s | %s |\n", f->name, f->meaning, effect, marks[f->mark]);
}

static void map_write(text *out) {
    text_append(out, map_begin);
    for (int b = 0; b < ENGINE_BLOCKS; b++) {
        const engine_block *block = &engine_blocks[b];
        text_printf(out, "\n**%s**: %s, %d words from 0x%05x\n\n", block->name, block->meaning, block->words,
                    block->base);
        text_append(out,
                    "| address | bits | name | meaning | effect | known |\n| --- | --- | --- | --- | --- | --- |\n");
        for (int i = 0; i < engine_field_count; i++)
            if (engine_fields[i].block == (engine_block_id)b) map_field(out, &engine_fields[i]);
    }
    text_append(out, "\n");
    text_append(out, map_end);
}

TEST(page_has_the_map) {
    const char *path = "docs/registers.md";
    propane_error err = {0};
    char *page = NULL;
    size_t length = 0;
    text map = {0}, all = {0};
    map_write(&map);
    EXPECT_OK(file_read(path, 1 << 20, &page, &length, &err));
    char *begin = strstr(page, map_begin), *end = begin ? strstr(begin, map_end) : NULL;
    EXPECT_MSG(end, "%s has no place for the map", path);
    end += strlen(map_end);
    bool same = (size_t)(end - begin) == map.length && memcmp(begin, map.data, map.length) == 0;
    if (getenv("ENGINE_MAP_WRITE") && !same) {
        text_append_n(&all, page, (size_t)(begin - page));
        text_append_n(&all, map.data, map.length);
        text_append(&all, end);
        EXPECT_OK(file_write(path, all.data, all.length, &err));
        same = true;
    }
    EXPECT_MSG(same, "%s says something else than h13.def; ENGINE_MAP_WRITE=1 writes it", path);
    mem_free(page);
    text_deinit(&map);
    text_deinit(&all);
}

SUITE("engine/map", T(page_has_the_map))
