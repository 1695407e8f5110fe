/* SPDX-License-Identifier: MIT
 * Owns the event file. Only the fields that scalars need are written, without a protocol-buffer library. A field is its
 * number and wire type, followed by a varint, by eight or four bytes, or by a length and bytes.
 */
#include "report/run/tensorboard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

struct tensorboard {
    FILE *file;
    char *path;
    text event, value, records;
    bool failed;
};

/* Returns the CRC-32C (Castagnoli) of the bytes. */
static uint32_t tensorboard_crc(const void *data, size_t length) {
    const unsigned char *p = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < length; i++) {
        crc ^= p[i];
        for (int b = 0; b < 8; b++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t tensorboard_masked(const void *data, size_t length) {
    uint32_t crc = tensorboard_crc(data, length);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void tensorboard_put_bytes(text *out, uint64_t value, int bytes) { /* little endian */
    for (int i = 0; i < bytes; i++) {
        char byte = (char)(value >> (8 * i));
        text_append_n(out, &byte, 1);
    }
}

static void tensorboard_put_varint(text *out, uint64_t value) {
    for (; value > 127; value >>= 7) tensorboard_put_bytes(out, (value & 127) | 128, 1);
    tensorboard_put_bytes(out, value, 1);
}

enum { VARINT = 0, EIGHT = 1, LENGTH = 2, FOUR = 5 };
static void tensorboard_put_key(text *out, int field, int wire) {
    tensorboard_put_varint(out, (uint64_t)(field << 3 | wire));
}

static void tensorboard_put_block(text *out, int field, const char *data, size_t length) {
    tensorboard_put_key(out, field, LENGTH);
    tensorboard_put_varint(out, length);
    text_append_n(out, data, length);
}

/* Appends the record that holds t->event. */
static void tensorboard_put_record(tensorboard *t) {
    text head = {0};
    tensorboard_put_bytes(&head, t->event.length, 8);
    if (head.failed || t->event.failed || t->records.failed) {
        t->failed = true;
        text_deinit(&head);
        return;
    }
    text_append_n(&t->records, head.data, 8);
    tensorboard_put_bytes(&t->records, tensorboard_masked(head.data, 8), 4);
    text_append_n(&t->records, t->event.data, t->event.length);
    tensorboard_put_bytes(&t->records, tensorboard_masked(t->event.data, t->event.length), 4);
    text_deinit(&head);
}

static void tensorboard_begin_event(tensorboard *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    uint64_t bits;
    memcpy(&bits, &seconds, 8);
    text_clear(&t->event);
    tensorboard_put_key(&t->event, 1, EIGHT);
    tensorboard_put_bytes(&t->event, bits, 8);
}

propane_status tensorboard_open(const char *dir, tensorboard **out, propane_error *err) {
    static const char version[] = "brain.Event:2";
    char host[64] = "host";
    *out = NULL;
    PROPANE_TRY(file_make_dir(dir, err));
    (void)gethostname(host, sizeof host - 1);
    size_t bytes = strlen(dir) + 200;
    tensorboard *t = mem_alloc(sizeof *t);
    if (t) t->path = mem_alloc(bytes);
    if (!t || !t->path) {
        mem_free(t);
        return propane_fail_memory(err, bytes);
    }
    snprintf(t->path, bytes, "%s/events.out.tfevents.%010lld.%s.%ld", dir, (long long)time(NULL), host, (long)getpid());
    t->file = fopen(t->path, "ab");
    if (!t->file) {
        propane_status status = propane_fail(err, PROPANE_ERR_IO, "cannot write %s: %s", t->path, strerror(errno));
        tensorboard_close(t);
        return status;
    }
    tensorboard_begin_event(t);
    tensorboard_put_block(&t->event, 3, version, sizeof version - 1);
    tensorboard_put_record(t);
    propane_status status = tensorboard_flush(t, err);
    if (status == PROPANE_OK)
        *out = t;
    else
        tensorboard_close(t);
    return status;
}

void tensorboard_scalar(tensorboard *t, int64_t step, const char *tag, double value) {
    if (!t || !isfinite(value)) return;
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    text_clear(&t->value);
    tensorboard_put_block(&t->value, 1, tag, strlen(tag));
    tensorboard_put_key(&t->value, 2, FOUR);
    tensorboard_put_bytes(&t->value, bits, 4);
    tensorboard_begin_event(t);
    tensorboard_put_key(&t->event, 2, VARINT);
    tensorboard_put_varint(&t->event, (uint64_t)step);
    tensorboard_put_key(&t->event, 5, LENGTH); /* field 5, the summary, holds one value as its field 1 */
    text inner = {0};
    tensorboard_put_block(&inner, 1, t->value.data ? t->value.data : "", t->value.length);
    tensorboard_put_varint(&t->event, inner.length);
    text_append_n(&t->event, inner.data ? inner.data : "", inner.length);
    t->failed |= inner.failed || t->value.failed;
    text_deinit(&inner);
    tensorboard_put_record(t);
}

propane_status tensorboard_flush(tensorboard *t, propane_error *err) {
    if (!t) return PROPANE_OK;
    if (t->failed) return propane_fail_memory(err, 0);
    bool good = fwrite(t->records.data, 1, t->records.length, t->file) == t->records.length && fflush(t->file) == 0;
    text_clear(&t->records);
    return good ? PROPANE_OK : propane_fail(err, PROPANE_ERR_IO, "cannot write %s: %s", t->path, strerror(errno));
}

void tensorboard_close(tensorboard *t) {
    if (!t) return;
    if (t->file) fclose(t->file);
    mem_free(t->path);
    text_deinit(&t->event);
    text_deinit(&t->value);
    text_deinit(&t->records);
    mem_free(t);
}
