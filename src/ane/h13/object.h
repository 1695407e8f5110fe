/* SPDX-License-Identifier: MIT
 * Describes a compiled program of the engine as a file stores it: text, constants, surfaces, scratch memory and tasks.
 * Two containers hold the same content:
 *
 *   .hwx   Mach-O with the magic 0xbeefface, as Apple's compiler writes it (two versions of that compiler are known)
 *   .anec  a header of 1,704 bytes and the payload, as the Linux driver's tools write them
 *
 * Tasks of H13 and H14 are decoded to registers in the form of H13 (ane/h13/h14.h). Of other generations, only the
 * container is read. The role of a buffer comes from the tasks' header words, never from the buffer's place in a list.
 */
#ifndef ANE_H13_OBJECT_H
#define ANE_H13_OBJECT_H

#include "ane/h13/task.h"

enum { ENGINE_PAGE = 0x4000, ENGINE_CONSTANT_ALIGN = 0x40 };

typedef struct engine_section {
    char segment[17], name[17];
    uint64_t address, bytes, offset; /* `offset` is 0 if the file has no bytes of the section */
} engine_section;

/* A tensor in memory. Element (n, c, h, w) is at byte n*batch + c*plane + h*row + 2*w. */
typedef struct engine_surface {
    const char *name;
    int bar;            /* base register, -1 if none is known */
    bool output;        /* as the container declares it */
    bool wide;          /* compiled from an fp32 tensor, although its elements are fp16 */
    bool read, written; /* by a task */
    int64_t n, c, h, w;
    uint64_t batch, plane, row; /* strides in bytes */
    uint64_t bytes;             /* of one batch element */
    uint64_t address;           /* in the container; 0 in .anec */
} engine_surface;

struct engine_patch;

typedef struct propane_object {
    arena *arena;
    const char *source; /* the file's path, for messages */
    bool anec;
    uint32_t subtype; /* generation: ENGINE_H13, ENGINE_H14, or another that engine_generation lists */
    bool newer;       /* surface names have 64-bit addresses (compiler 9.x) */
    int section_count;
    engine_section *sections;
    int surface_count;
    engine_surface *surfaces; /* in the container's order */
    const uint8_t *text, *constants;
    uint64_t text_bytes, constant_bytes;
    uint64_t text_address, constant_address;
    uint64_t scratch_bytes; /* 0 if none */
    int first_words;        /* size of the first task */
    int task_count;         /* 0 for generations other than H13 and H14, and if `unread` is set */
    engine_task *tasks;
    const char *unread;   /* why the tasks of H14 cannot be executed; NULL if they can */
    const char *compiler; /* identification text; NULL if none */
    int patch_count;      /* ane/h13/patch.h; 0 unless compiled with `patchable` */
    struct engine_patch *patches;
} engine_object;

/* Returns a generation's name ("H13" for 4), or NULL if the generation is unknown. Sets *chips to its chips ("A14, M1")
 * unless `chips` is NULL. */
const char *engine_generation(uint32_t subtype, const char **chips);

/* Returns whether the bytes look like a supported container. */
bool engine_object_is(const void *data, size_t bytes);
/* Reads a container of either kind. The object holds copies and does not need `data` or `source` afterwards. */
PROPANE_CHECK propane_status engine_object_parse(const uint8_t *data, size_t bytes, const char *source,
                                                 engine_object **out, propane_error *err);
PROPANE_CHECK propane_status engine_object_open(const char *path, engine_object **out, propane_error *err);
void engine_object_free(engine_object *o);
/* Returns the surface of a base register, or NULL if there is none. */
engine_surface *engine_object_bar(const engine_object *o, int bar);

/* Writes the program in the container that the path's extension names: .hwx (in the newer compiler's layout) or
 * .anec. Surfaces need names, consecutive base registers starting at 4, shapes and strides. */
PROPANE_CHECK propane_status engine_object_save(const engine_object *o, const char *path, propane_error *err);
/* Return the container's bytes, which the caller frees with mem_free. */
PROPANE_CHECK propane_status engine_hwx_write(const engine_object *o, uint8_t **out, size_t *bytes, propane_error *err);
PROPANE_CHECK propane_status engine_anec_write(const engine_object *o, uint8_t **out, size_t *bytes,
                                               propane_error *err);
/* Returns the offset of the constants from the start of the text. Text and constants together have that many bytes plus
 * constant_bytes. */
uint64_t engine_object_constants_at(const engine_object *o);

/* Reads the tasks of H13 and H14 from the text, and derives from them which surfaces are read and written. Surfaces and
 * text must be set. */
PROPANE_CHECK propane_status engine_object_finish(engine_object *o, propane_error *err);
PROPANE_CHECK propane_status engine_hwx_parse(const uint8_t *data, size_t bytes, engine_object *o, propane_error *err);
PROPANE_CHECK propane_status engine_anec_parse(const uint8_t *data, size_t bytes, engine_object *o, propane_error *err);
bool engine_anec_is(const uint8_t *data, size_t bytes);

#endif
