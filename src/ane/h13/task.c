/* SPDX-License-Identifier: MIT
 * Converts tasks to and from bytes. This file handles only the framing, not the meaning of registers. Sizes, links and
 * addresses are checked before use. A stream is refused if its tasks loop or overlap, or if a record writes a register
 * that h13.def lacks.
 */
#include "ane/h13/task.h"

#include "core/base/bytes.h"
#include <string.h>

uint32_t engine_get(const engine_task *t, uint32_t address) { return t->word[engine_index(address)]; }

uint32_t engine_get_bits(const engine_task *t, uint32_t address, int low, int bits) {
    return engine_bits(engine_get(t, address), low, bits);
}

void engine_set(engine_task *t, uint32_t address, uint32_t value) { t->word[engine_index(address)] = value; }

uint32_t engine_head(const engine_task *t, int word, int low, int bits) {
    return engine_bits(t->header[word], low, bits);
}

int engine_task_words(const engine_task *t) {
    int words = t->header_words;
    for (int i = 0; i < t->record_count; i++) words += 1 + t->records[i].count;
    return words;
}

void engine_task_record(engine_task *t, uint32_t address, int count) {
    t->records[t->record_count++] = (engine_record){address, count};
    for (int i = 0; i < count; i++) t->written[engine_index(address + 4u * (uint32_t)i)] = true;
}

/* Reads the record at word `at`, and sets *next to the word after the record. */
static propane_status task_read_record(const uint8_t *data, int words, int at, engine_task *t, int *next,
                                       propane_error *err) {
    uint32_t head = bytes_u32(data + 4 * at), address = head & 0x3ffffff;
    int count = (int)(head >> 26) + 1;
    if (t->record_count == ENGINE_RECORDS)
        return propane_fail(err, PROPANE_ERR_INVALID, "task at 0x%x: more than %d records", t->offset, ENGINE_RECORDS);
    if (at + 1 + count > words)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "task at 0x%x, word %d: a record of %d registers starting at 0x%05x, but the task has room for %d",
            t->offset, at, count, address, words - at - 1);
    for (int i = 0; i < count; i++) {
        int index = engine_index(address + 4u * (uint32_t)i);
        if (index < 0)
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "task at 0x%x, word %d: a record of %d registers starting at 0x%05x: there is no register 0x%05x",
                t->offset, at, count, address, address + 4u * (uint32_t)i);
        if (t->written[index])
            return propane_fail(err, PROPANE_ERR_INVALID, "task at 0x%x, word %d: register 0x%05x is written twice",
                                t->offset, at, address + 4u * (uint32_t)i);
        t->word[index] = bytes_u32(data + 4 * (at + 1 + i));
        t->written[index] = true;
    }
    t->records[t->record_count++] = (engine_record){address, count};
    *next = at + 1 + count;
    return PROPANE_OK;
}

/* Reads one task of `words` words; `bytes` is the number of bytes left in the text. Errors name the word. */
static propane_status engine_task_read(const uint8_t *data, size_t bytes, int words, engine_task *out,
                                       propane_error *err) {
    uint32_t offset = out->offset;
    *out = (engine_task){.offset = offset};
    if (words < ENGINE_HEADER_WORDS || words > ENGINE_TASK_WORDS || (size_t)words * 4 > bytes)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "task at 0x%x: it has %d words, but only %zu are left; tasks have %d to %d", offset, words,
                            bytes / 4, ENGINE_HEADER_WORDS, ENGINE_TASK_WORDS);
    out->header_words = ENGINE_HEADER_WORDS - 1 + (int)engine_bits(bytes_u32(data + 24), 24, 1);
    for (int i = 0; i < out->header_words; i++) out->header[i] = bytes_u32(data + 4 * i);
    bool scratch = engine_head(out, 9, 0, 2) == 3;
    if (scratch != (out->header_words == ENGINE_HEADER_WORDS))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "task at 0x%x: TDE (word 6, 0x%08x) and the kernel's base register (word 9, 0x%08x) disagree", offset,
            out->header[6], out->header[9]);
    for (int at = out->header_words; at < words;) PROPANE_TRY(task_read_record(data, words, at, out, &at, err));
    return PROPANE_OK;
}

static bool task_stream_is_zero(const uint8_t *text, size_t from, size_t to) {
    for (; from < to; from++)
        if (text[from]) return false;
    return true;
}

/* Counts the tasks by following their links, without reading their records. */
static propane_status task_stream_count(const uint8_t *text, size_t bytes, int *count, propane_error *err) {
    uint32_t at = 0;
    *count = 0;
    do {
        if (at % ENGINE_TASK_ALIGN || bytes < 40 || at > bytes - 40)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "task %d would start at 0x%x: not a multiple of 0x%x, or beyond the text's %zu bytes",
                                *count, at, ENGINE_TASK_ALIGN, bytes);
        uint32_t next = bytes_u32(text + at + 28);
        (*count)++;
        if (next && next <= at)
            return propane_fail(err, PROPANE_ERR_INVALID, "task %d at 0x%x links back to 0x%x", *count - 1, at, next);
        at = next;
    } while (at);
    return PROPANE_OK;
}

propane_status engine_stream_read(const uint8_t *text, size_t bytes, int first_words, arena *a, engine_task **out,
                                  int *count, propane_error *err) {
    PROPANE_TRY(task_stream_count(text, bytes, count, err));
    engine_task *tasks = *out = ARENA_ARRAY(a, *count, engine_task);
    if (!tasks) return propane_fail_memory(err, (size_t)*count * sizeof *tasks);
    int words = first_words;
    size_t at = 0;
    for (int i = 0; i < *count; i++) {
        tasks[i].offset = (uint32_t)at;
        PROPANE_TRY(engine_task_read(text + at, bytes - at, words, &tasks[i], err));
        size_t end = at + 4 * (size_t)words, next = tasks[i].header[7];
        if (!next) next = bytes;
        if (next < end || !task_stream_is_zero(text, end, next))
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "task %d ends at 0x%zx, the next begins at 0x%zx: they overlap, or bytes between them are not 0", i,
                end, next);
        words = (int)engine_head(&tasks[i], 1, 16, 9) + 1;
        at = next;
    }
    return PROPANE_OK;
}

size_t engine_stream_bytes(const engine_task *tasks, int count) {
    return tasks[count - 1].offset + 4 * (size_t)engine_task_words(&tasks[count - 1]);
}

void engine_stream_write(const engine_task *tasks, int count, uint8_t *out) {
    memset(out, 0, engine_stream_bytes(tasks, count));
    for (const engine_task *t = tasks; t < tasks + count; t++) {
        uint8_t *at = out + t->offset;
        for (int i = 0; i < t->header_words; i++, at += 4) bytes_put_u32(at, t->header[i]);
        for (int r = 0; r < t->record_count; r++) {
            const engine_record *record = &t->records[r];
            bytes_put_u32(at, (uint32_t)(record->count - 1) << 26 | record->address);
            at += 4;
            for (int i = 0; i < record->count; i++, at += 4)
                bytes_put_u32(at, engine_get(t, record->address + 4u * (uint32_t)i));
        }
    }
}
