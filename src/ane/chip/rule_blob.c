/* SPDX-License-Identifier: MIT
 * Owns the checks of weight files. The checks read the bytes directly and report every wrong record, while the reader
 * of core/mil/coreml/blob.h stops at the first one.
 */
#include "ane/chip/rule.h"
#include "core/base/bytes.h"
#include "core/base/text.h"

bool chip_rule_blob_header(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_blob *b = view->blob;
    if (b->bytes < 64) return chip_found(out, "the file has %zu bytes; the header alone has 64", b->bytes);
    if (bytes_u32(b->data) == CHIP_BLOB_SENTINEL) return chip_found(out, "there is a record instead of the header");
    uint32_t version = bytes_u32(b->data + 4);
    return version != (uint32_t)view->limit->value && chip_found(out, "the header has version %u", version);
}

bool chip_rule_blob_count(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_blob *b = view->blob;
    if (b->bytes < 64 || bytes_u32(b->data) == CHIP_BLOB_SENTINEL) return false;
    uint32_t count = bytes_u32(b->data);
    return count != (uint32_t)b->record_count && chip_found(out, "the header declares %u record%s, but there are %d",
                                                            count, text_plural(count), b->record_count);
}

/* Returns true if byte 10 is the only nonzero byte of the record's size and data offset. */
static bool rule_blob_is_stray(const chip_record *r) {
    return r->data == 0 && r->bytes != 0 && (r->bytes & ~(uint64_t)0xff0000) == 0;
}

bool chip_rule_record_stray(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_record *r = view->record;
    return rule_blob_is_stray(r) &&
           chip_found(
               out,
               "the record at offset %llu: size and data offset were not written; the stray byte 0x%02x at byte 10 "
               "reads as a size of %llu, and the data would begin at the start of the file",
               (unsigned long long)r->offset, (unsigned)(r->bytes >> 16), (unsigned long long)r->bytes);
}

bool chip_rule_record_align(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_record *r = view->record;
    if (r->offset % CHIP_BLOB_ALIGN)
        return chip_found(out, "a record is at offset %llu", (unsigned long long)r->offset);
    return r->data % CHIP_BLOB_ALIGN && chip_found(out, "the record at offset %llu: its data begins at %llu",
                                                   (unsigned long long)r->offset, (unsigned long long)r->data);
}

bool chip_rule_record_extent(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_record *r = view->record;
    unsigned long long at = r->offset, bytes = r->bytes, data = r->data, size = view->blob->bytes;
    if (rule_blob_is_stray(r)) return false;
    if (data < 64)
        return chip_found(out, "the record at offset %llu: its data offset is %llu, inside the header", at, data);
    if (data > size || bytes > size - data)
        return chip_found(
            out, "the record at offset %llu: its %llu bytes at %llu extend past the end of the file, which has %llu",
            at, bytes, data, size);
    return data < at + 64 && data + bytes > at &&
           chip_found(out, "the record at offset %llu: its %llu bytes at %llu overlap the record", at, bytes, data);
}

static const mil_dtype_info *rule_blob_type_of_code(uint32_t code) {
    for (int i = MIL_DTYPE_NONE + 1; i < MIL_DTYPE_COUNT; i++)
        if (code && (uint32_t)mil_dtype_get((mil_dtype)i)->blob_code == code) return mil_dtype_get((mil_dtype)i);
    return NULL;
}

bool chip_rule_record_type(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const chip_record *r = view->record;
    unsigned long long at = r->offset;
    const mil_dtype_info *info = rule_blob_type_of_code(r->code);
    if (!info) return chip_found(out, "the record at offset %llu: the element type has the code %u", at, r->code);
    if (info->bits < 8 && (r->padding > 7 || (r->padding && !r->bytes))) /* other types may have any padding */
        return chip_found(out, "the record at offset %llu: %llu unused bits in %llu bytes of %s elements", at,
                          (unsigned long long)r->padding, (unsigned long long)r->bytes, info->name);
    return info->bits >= 8 && r->bytes % (uint64_t)(info->bits / 8) != 0 &&
           chip_found(out, "the record at offset %llu: %llu bytes are not a multiple of the size of %s elements", at,
                      (unsigned long long)r->bytes, info->name);
}

bool chip_rule_reference(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    unsigned long long at = view->offset;
    if (view->record->sentinel == CHIP_BLOB_SENTINEL) return false; /* rule B2 is about the record's place */
    return chip_found(out, "BLOBFILE names offset %llu of %.200s, where there is no record", at, view->blob->path);
}
