/* SPDX-License-Identifier: MIT
 * Owns growing strings, and reading and formatting values in the same way in every locale.
 */
#include "core/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/memory.h"

/* Makes room for `more` bytes and a terminator. */
static bool text_reserve(text *t, size_t more) {
    if (t->failed) return false;
    if (more < t->capacity - t->length) return true;
    size_t capacity = t->capacity ? t->capacity : 64;
    while (capacity - t->length <= more) {
        if (capacity > SIZE_MAX / 2) goto failed;
        capacity *= 2;
    }
    char *data = mem_resize(t->data, capacity);
    if (!data) goto failed;
    t->data = data;
    t->capacity = capacity;
    return true;
failed:
    t->failed = true;
    return false;
}

void text_append_n(text *t, const void *bytes, size_t length) {
    if (!text_reserve(t, length)) return;
    if (length) memcpy(t->data + t->length, bytes, length);
    t->length += length;
    t->data[t->length] = 0;
}

void text_append(text *t, const char *string) { text_append_n(t, string, strlen(string)); }

void text_printf(text *t, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && text_reserve(t, (size_t)length)) {
        vsnprintf(t->data + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void text_clear(text *t) {
    t->length = 0;
    if (t->data) t->data[0] = 0;
}

void text_deinit(text *t) {
    mem_free(t->data);
    *t = (text){0};
}

const char *text_quote(char out[80], const char *bytes, size_t length) {
    size_t used = 0, i = 0;
    for (; i < length && used < 60; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c == 0x7f)
            used += (size_t)snprintf(out + used, 80 - used, "\\x%02x", c);
        else
            out[used++] = (char)c;
    }
    out[used] = 0;
    if (i < length) memcpy(out + used, "...", 4);
    return out;
}

const char *text_read_whole(const char *from, int64_t *out) {
    char *end = NULL;
    errno = 0;
    const long long n = strtoll(from, &end, 10);
    if (end == from || errno || isspace((unsigned char)*from)) return NULL;
    *out = n;
    return end;
}

double text_strtod(const char *from, char **end) {
    const char *point = localeconv()->decimal_point;
    if (strcmp(point, ".") == 0) return strtod(from, end);
    char own[440], *stop = NULL;
    const size_t most = strspn(from, "+-.0123456789eExXabcdfABCDFpPinINtyTY"), before = strcspn(from, "."),
                 n = most < 400 ? most : 400, longer = before < n && strlen(point) < 16 ? strlen(point) - 1 : 0;
    memcpy(own, from, before < n ? before : n);
    size_t used = before < n ? before : n;
    if (before < n) {
        memcpy(own + used, point, longer + 1);
        memcpy(own + used + longer + 1, from + before + 1, n - before - 1);
        used = n + longer;
    }
    own[used] = 0;
    const double x = strtod(own, &stop);
    const size_t read = (size_t)(stop - own);
    if (end) *end = (char *)from + (read > before ? read - longer : read);
    return x;
}

char *text_point(char *number) {
    const char *point = localeconv()->decimal_point;
    char *at = strcmp(point, ".") == 0 ? NULL : strstr(number, point);
    if (!at) return number;
    *at = '.';
    memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    return number;
}

void text_real(text *t, int digits, double value) {
    char shown[60];
    snprintf(shown, sizeof shown, "%.*g", digits < 17 ? digits : 17, value);
    text_append(t, text_point(shown));
}

const char *text_read_real(const char *from, double *out) {
    char *end = NULL;
    errno = 0;
    const double x = text_strtod(from, &end);
    if (end == from || errno || !isfinite(x) || strspn(from, "+-.0123456789eE") < (size_t)(end - from)) return NULL;
    *out = x;
    return end;
}

bool text_ends_with(const char *string, const char *end) {
    size_t n = strlen(string), m = strlen(end);
    return n >= m && strcasecmp(string + n - m, end) == 0;
}

const char *text_bytes(char out[32], double bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    while (bytes >= (unit ? 999.5 : 1000) && unit < 5) bytes /= 1000, unit++;
    snprintf(out, 32, unit ? "%.3g %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

const char *text_duration(char out[32], double seconds) {
    long s = seconds > 0 ? (long)(fmin(seconds, 1e9) + 0.5) : 0;
    if (s >= 3600)
        snprintf(out, 32, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    else
        snprintf(out, 32, "%ldm%02lds", s / 60, s % 60);
    return out;
}

const char *text_shape(char out[160], int rank, const int64_t *dim) {
    int used = snprintf(out, 160, "[");
    for (int i = 0; i < rank && used < 136; i++)
        used += snprintf(out + used, (size_t)(160 - used), "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(out + used, (size_t)(160 - used), "]");
    return out;
}

/* Returns the code of the character at `at` if it must be escaped (plus 0x10000 if it is a single byte), or 0 if it can
 * be shown as it is. Sets *bytes to its length. */
static unsigned text_control_at(const unsigned char *at, size_t left, const char *keep, size_t *bytes) {
    *bytes = 1;
    if (*at < 0x20 || *at == 0x7f) return *at && strchr(keep, *at) ? 0 : *at + 0x10000u;
    if (left > 1 && *at == 0xc2 && at[1] < 0xa0) return *bytes = 2, at[1];
    if (left > 2 && *at == 0xe2 &&
        ((at[1] == 0x80 && at[2] >= 0xaa && at[2] <= 0xae) || (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9)))
        return *bytes = 3, 0x2000u + ((at[1] & 0x3fu) << 6) + (at[2] & 0x3fu);
    return 0;
}

const char *text_plural(int64_t count) { return count == 1 ? "" : "s"; }

size_t text_harmless(char *out, size_t room, const char *bytes, size_t length, const char *keep) {
    size_t used = 0, step;
    for (size_t i = 0; i < length; i += step) {
        char shown[12];
        const unsigned code = text_control_at((const unsigned char *)bytes + i, length - i, keep, &step);
        if (code) snprintf(shown, sizeof shown, code >= 0x10000u ? "\\x%02x" : "\\u%04x", code & 0xffffu);
        const char *from = code ? shown : bytes + i;
        const size_t n = code ? strlen(shown) : 1;
        if (used + n >= room) break;
        memcpy(out + used, from, n);
        used += n;
    }
    if (room) out[used] = 0;
    return used;
}

int text_digits(double value) {
    char shown[40];
    /* 15 digits are exact for all but the smallest numbers. If fewer suffice, the last ones are zeros. */
    int n = fabs(value) < DBL_MIN ? 1 : 15;
    for (; n < 17; n++) {
        snprintf(shown, sizeof shown, "%.*e", n - 1, value);
        if (strtod(shown, NULL) == value) break;
    }
    if (n > 15) return n;
    for (const char *end = strchr(shown, 'e'); n > 1 && end[-1] == '0'; end--) n--;
    return n;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_append_base64(text *t, const void *bytes, size_t length) {
    const uint8_t *from = bytes;
    for (size_t at = 0; at < length; at += 3) {
        const size_t left = length - at;
        const unsigned bits =
            (unsigned)from[at] << 16 | (left > 1 ? (unsigned)from[at + 1] << 8 : 0) | (left > 2 ? from[at + 2] : 0);
        char four[4];
        for (unsigned i = 0; i < 4; i++) four[i] = i <= left ? digits[bits >> (18 - 6 * i) & 63] : '=';
        text_append_n(t, four, 4);
    }
}

int64_t text_from_base64(const char *data, size_t length, void *out, size_t room) {
    uint8_t *to = out;
    uint32_t bits = 0;
    int held = 0;
    size_t n = 0;
    while (length && data[length - 1] == '=') length--;
    for (size_t i = 0; i < length; i++) {
        const char *digit = data[i] ? strchr(digits, data[i]) : NULL;
        if (!digit) return -1;
        bits = (bits << 6 | (uint32_t)(digit - digits)) & 0xffffff;
        held += 6;
        if (held < 8) continue;
        if (n == room) return -1;
        held -= 8;
        to[n++] = (uint8_t)(bits >> held & 255);
    }
    return length % 4 == 1 ? -1 : (int64_t)n;
}
