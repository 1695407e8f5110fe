/* SPDX-License-Identifier: MIT
 * Owns the filter on standard output if that is a terminal. Names from files and text from a model may contain control
 * sequences that set titles, write to the clipboard or hide lines. The filter prints such sequences visibly. It passes
 * sequences for colours and styles, which Propane itself writes. A file or pipe gets all bytes unchanged.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "core/base/text.h"

static struct {
    char kept[3]; /* the beginning of a character that was cut in two */
    size_t count;
} terminal;

/* Returns the length of a sequence for a colour or style (ESC [, digits and semicolons, m) at `at`, or 0. */
static size_t terminal_style(const char *at, size_t left) {
    size_t n = 2;
    if (left < 3 || at[0] != '\033' || at[1] != '[') return 0;
    while (n < left && ((at[n] >= '0' && at[n] <= '9') || at[n] == ';')) n++;
    return n < left && at[n] == 'm' ? n + 1 : 0;
}

static bool terminal_put(const char *bytes, size_t length) {
    while (length) {
        ssize_t n = write(STDOUT_FILENO, bytes, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

/* Returns the number of bytes at the end that may be the beginning of a control character of two or three bytes. */
static size_t terminal_begun(const char *bytes, size_t length) {
    const unsigned char *b = (const unsigned char *)bytes;
    if (length >= 1 && (b[length - 1] == 0xc2 || b[length - 1] == 0xe2)) return 1;
    return length >= 2 && b[length - 2] == 0xe2 && (b[length - 1] == 0x80 || b[length - 1] == 0x81) ? 2 : 0;
}

static bool terminal_show(const char *bytes, size_t length) {
    char shown[6 * 256 + 1];
    for (size_t i = 0; i < length;) {
        const size_t style = terminal_style(bytes + i, length - i);
        size_t n = style;
        if (!style)
            for (n = 1; n < 250 && i + n < length && !terminal_style(bytes + i + n, length - i - n);) n++;
        while (!style && n > 1 && i + n < length && terminal_begun(bytes + i, n)) n--;
        const size_t used = style ? 0 : text_harmless(shown, sizeof shown, bytes + i, n, "\n\t");
        if (!terminal_put(style ? bytes + i : shown, style ? style : used)) return false;
        i += n;
    }
    return true;
}

static ssize_t terminal_write(void *context, const char *bytes, size_t length) {
    char joined[64];
    size_t taken = 0;
    if (terminal.count) { /* first print the character that was cut, with a few bytes after it */
        taken = length < sizeof joined - 3 ? length : sizeof joined - 3;
        memcpy(joined, terminal.kept, terminal.count);
        memcpy(joined + terminal.count, bytes, taken);
        const size_t whole = terminal.count + taken, begun = taken == length ? terminal_begun(joined, whole) : 0;
        terminal.count = begun;
        memcpy(terminal.kept, joined + whole - begun, begun);
        if (!terminal_show(joined, whole - begun)) return -1;
    }
    if (taken == length) return (ssize_t)length;
    const size_t begun = terminal_begun(bytes + taken, length - taken);
    memcpy(terminal.kept, bytes + length - begun, begun);
    terminal.count = begun;
    return terminal_show(bytes + taken, length - taken - begun) ? (ssize_t)length : -1;
}

#ifdef __APPLE__
static int terminal_write_int(void *context, const char *bytes, int length) {
    return (int)terminal_write(context, bytes, (size_t)length);
}
#endif

void cli_filter_output(void) {
#ifdef __APPLE__
    FILE *filtered = funopen(NULL, NULL, terminal_write_int, NULL, NULL);
#else
    FILE *filtered = fopencookie(NULL, "w", (cookie_io_functions_t){.write = terminal_write});
#endif
    if (!filtered) return;
    setvbuf(filtered, NULL, _IOLBF, BUFSIZ);
    stdout = filtered;
}
