/* SPDX-License-Identifier: MIT
 * Owns the check whether a command may overwrite an existing file. It may do so only if the file is of the kind that
 * the command writes.
 */
#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/propane/cli.h"
#include "core/base/bytes.h"

enum { LONGEST_MARK = 64 };

/* Returns whether the safetensors file holds gradients, which a key in its header shows. The first 8 bytes are the
 * header's length. The key with its quotes cannot occur inside a string, where quotes are escaped. */
static bool written_is_gradients(FILE *file) {
    static const char key[] = "\"propane.gradients\":";
    uint8_t length[8];
    if (fread(length, 1, 8, file) != 8) return false;
    size_t matched = 0;
    for (uint64_t left = bytes_u64(length); left && key[matched]; left--) {
        const int c = getc(file);
        if (c == EOF) return false;
        matched = c == key[matched] ? matched + 1 : c == '"';
    }
    return !key[matched];
}

/* Returns whether the file begins with seven small integers, as llama2.c's models do. Only two of them are checked. */
static bool written_is_llama2c(FILE *file) {
    uint8_t head[28];
    return fread(head, 1, sizeof head, file) == sizeof head && !head[3] && !head[7];
}

static const struct written {
    const char *name, *called, *marks;
    size_t at;
    bool (*is)(FILE *file);
} written_kinds[] = {
#define WRITTEN(name, called, at, marks)     {name, called, marks, at, NULL},
#define WRITTEN_AS(name, called, recognizes) {name, called, NULL, 0, recognizes},
#include "apps/propane/written.def"
};

/* Reads the bytes from `at` on, without white space and in lower case. */
static void written_read(FILE *file, size_t at, char out[LONGEST_MARK]) {
    size_t used = 0;
    int c = fseek(file, (long)at, SEEK_SET) == 0 ? getc(file) : EOF;
    for (int seen = 0; c != EOF && used + 1 < LONGEST_MARK && seen < 4 * LONGEST_MARK; seen++, c = getc(file))
        if (!isspace(c)) out[used++] = (char)tolower(c);
    out[used] = 0;
}

static bool written_has_mark(const struct written *k, FILE *file) {
    char begins[LONGEST_MARK];
    written_read(file, k->at, begins);
    for (const char *mark = k->marks; *mark;) {
        const size_t length = strcspn(mark, "|");
        if (strncmp(begins, mark, length) == 0) return true;
        mark += length + (mark[length] == '|');
    }
    return false;
}

propane_status cli_check_written(const char *path, const char *kind, propane_error *err) {
    struct stat st;
    const struct written *k = written_kinds;
    while (strcmp(k->name, kind) != 0) k++;
    /* A path that is not a regular file causes its own error when it is opened for writing. */
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return PROPANE_OK;
    FILE *file = fopen(path, "rb"); /* not file_read: that would count as an input, which must not be overwritten */
    const bool fits = file && (k->is ? k->is(file) : written_has_mark(k, file));
    if (file) fclose(file);
    if (fits) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%.300s exists and is not %s, so it is not overwritten: give another name, or remove it", path,
                        k->called);
}
