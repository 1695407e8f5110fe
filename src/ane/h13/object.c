/* SPDX-License-Identifier: MIT
 * Opens a compiled program: recognises its container, and derives the roles of buffers from the tasks.
 */
#include "ane/h13/object.h"

#include <string.h>

#include "ane/h13/h14.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { MAGIC = (int)0xbeefface };

bool engine_object_is(const void *data, size_t bytes) {
    return (bytes >= 4 && bytes_u32(data) == (uint32_t)MAGIC) || engine_anec_is(data, bytes);
}

static propane_status object_role(engine_object *o, const engine_task *t, int low, bool written, propane_error *err) {
    static const char *const sides[] = {"reads", "writes"};
    if (!engine_head(t, 8, low + 5, 1)) return PROPANE_OK;
    int bar = (int)engine_head(t, 8, low, 5);
    engine_surface *s = engine_object_bar(o, bar);
    if (s && written) s->written = true;
    if (s && !written) s->read = true;
    if (!s && bar >= ENGINE_BAR_SURFACES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: the task at 0x%x %s base register %d (word 8, 0x%08x), but no surface has it",
                            o->source, t->offset, sides[written], bar, t->header[8]);
    return PROPANE_OK;
}

/* Reads tasks of H14. If they are not understood, sets o->unread to the reason and succeeds, so that the object can
 * still be shown. */
static propane_status object_read_h14(engine_object *o, propane_error *err) {
    propane_error why = {0};
    propane_status status = engine_h14_read(o->text, o->text_bytes, o->arena, &o->tasks, &o->task_count, &why);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    if (!status) return PROPANE_OK;
    o->task_count = 0;
    o->unread = arena_string(o->arena, why.text);
    return o->unread ? PROPANE_OK : propane_fail_memory(err, sizeof why.text);
}

static propane_status object_read(engine_object *o, propane_error *err) {
    if (o->subtype == ENGINE_H14) return object_read_h14(o, err);
    propane_status status =
        engine_stream_read(o->text, o->text_bytes, o->first_words, o->arena, &o->tasks, &o->task_count, err);
    return status ? propane_fail_prefix(err, status, "%s: text", o->source) : PROPANE_OK;
}

propane_status engine_object_finish(engine_object *o, propane_error *err) {
    if (o->subtype != ENGINE_H13 && o->subtype != ENGINE_H14) return PROPANE_OK;
    PROPANE_TRY(object_read(o, err));
    for (int i = 0; i < o->task_count; i++) {
        const engine_task *t = &o->tasks[i];
        PROPANE_TRY(object_role(o, t, 0, false, err));
        PROPANE_TRY(object_role(o, t, 6, false, err));
        PROPANE_TRY(object_role(o, t, 12, true, err));
        engine_surface *kernel = engine_object_bar(o, (int)engine_head(t, 9, 0, 5));
        if (kernel && engine_head(t, 9, 5, 1)) kernel->read = true;
    }
    return PROPANE_OK;
}

propane_status engine_object_parse(const uint8_t *data, size_t bytes, const char *source, engine_object **out,
                                   propane_error *err) {
    *out = NULL;
    arena *a = arena_create();
    engine_object *o = a ? ARENA_NEW(a, engine_object) : NULL;
    if (o) o->arena = a, o->source = arena_string(a, source);
    if (!o || !o->source) {
        arena_free(a);
        return propane_fail_memory(err, sizeof *o);
    }
    propane_status status;
    if (bytes >= 4 && bytes_u32(data) == (uint32_t)MAGIC)
        status = engine_hwx_parse(data, bytes, o, err);
    else if (engine_anec_is(data, bytes))
        status = engine_anec_parse(data, bytes, o, err);
    else
        status = propane_fail(err, PROPANE_ERR_INVALID,
                              "%s: neither a compiled program (.hwx begins with 0xbeefface) nor an .anec file", source);
    if (!status) status = engine_object_finish(o, err);
    if (status)
        engine_object_free(o);
    else
        *out = o;
    return status;
}

propane_status engine_object_open(const char *path, engine_object **out, propane_error *err) {
    file_map map;
    *out = NULL;
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = engine_object_parse(map.data, map.bytes, path, out, err);
    file_map_close(&map);
    return status;
}

void engine_object_free(engine_object *o) {
    if (o) arena_free(o->arena);
}

propane_status engine_object_save(const engine_object *o, const char *path, propane_error *err) {
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (!text_ends_with(path, ".hwx") && !text_ends_with(path, ".anec"))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: compiled programs are written as .hwx or .anec", path);
    propane_status status = text_ends_with(path, ".hwx") ? engine_hwx_write(o, &data, &bytes, err)
                                                         : engine_anec_write(o, &data, &bytes, err);
    if (!status) status = file_write(path, data, bytes, err);
    mem_free(data);
    return status;
}
