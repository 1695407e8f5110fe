/* SPDX-License-Identifier: MIT
 * Walks tests/mil/cases. Each file is a program followed by a line "// >>> output", "// >>> output canonical" or "//
 * >>> error" and the text that must be printed for it. Printed programs must read back and print the same, in both
 * dialects. PROPANE_BLESS=1 writes the actual text into the files, to be reviewed as a diff.
 */
#include <dirent.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/mil/text/mil_text.h"
#include "support/test.h"

static const char folder[] = "tests/mil/cases";

/* Prints in `dialect`, reads the text and prints again: both must be equal. */
static void check_round_trip(const mil_module *m, const char *name, mil_dialect dialect) {
    propane_error err = {0};
    mil_print_options options = {dialect, false};
    text first = {0}, second = {0};
    mil_module *again = NULL;
    mil_print(&first, m, &options);
    propane_status status = mil_parse(first.data, first.length, name, folder, &again, &err);
    EXPECT_MSG(status == PROPANE_OK, "%s: what was printed does not read back: %s\n%s", name, err.text, first.data);
    mil_print(&second, again, &options);
    EXPECT_MSG(strcmp(first.data, second.data) == 0, "%s: printed again it differs:\n%s\n%s", name, first.data,
               second.data);
    mil_module_free(again);
    text_deinit(&first);
    text_deinit(&second);
}

/* Computes the result of a case: its printed form, or its message. */
static void run_case(const char *name, const char *program, size_t length, const char *wanted, text *out) {
    propane_error err = {0};
    mil_module *m = NULL;
    propane_status status = mil_parse(program, length, name, folder, &m, &err);
    if (status) {
        EXPECT_MSG(m == NULL, "%s: a failed parse gave a module", name);
        text_printf(out, "%s\n", err.text);
        return;
    }
    bool canonical = strncmp(wanted, "output canonical", 16) == 0;
    mil_print(out, m, &(mil_print_options){canonical ? MIL_CANONICAL : MIL_SHORT, false});
    check_round_trip(m, name, MIL_SHORT);
    check_round_trip(m, name, MIL_CANONICAL);
    mil_module_free(m);
}

static bool check_file(const char *name) {
    propane_error err = {0};
    char path[600], *data = NULL;
    size_t length = 0;
    text out = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    EXPECT_OK(file_read(path, 1 << 20, &data, &length, &err));
    char *mark = strstr(data, "// >>> ");
    EXPECT_MSG(mark != NULL, "%s: no line '// >>> output' or '// >>> error'", name);
    char *wanted = strchr(mark, '\n');
    EXPECT_MSG(wanted != NULL, "%s: the line '// >>>' has no end", name);
    wanted++;
    run_case(name, data, (size_t)(mark - data), mark + 7, &out);
    bool is_error = strncmp(mark + 7, "error", 5) == 0, gave_error = strncmp(out.data, "program(", 8) != 0;
    bool same = is_error == gave_error && strcmp(out.data, wanted) == 0;
    if (!same && getenv("PROPANE_BLESS")) {
        *wanted = 0;
        text file = {0};
        text_append_n(&file, data, (size_t)(mark - data));
        text_printf(&file, "// >>> %s\n%s",
                    gave_error                                       ? "error"
                    : strncmp(mark + 7, "output canonical", 16) == 0 ? "output canonical"
                                                                     : "output",
                    out.data);
        EXPECT_OK(file_write(path, file.data, file.length, &err));
        text_deinit(&file);
        same = true;
    }
    if (!same) fprintf(stderr, "%s: wanted\n%s\ngot\n%s\n", name, wanted, out.data);
    text_deinit(&out);
    mem_free(data);
    return same;
}

TEST(cases_print_what_they_say) {
    DIR *dir = opendir(folder);
    EXPECT_MSG(dir != NULL, "%s is missing: run the tests from the top of the source", folder);
    int count = 0, wrong = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 4, ".mil") != 0) continue;
        count++;
        wrong += !check_file(e->d_name);
    }
    closedir(dir);
    EXPECT_MSG(count >= 40, "only %d cases", count);
    EXPECT_MSG(wrong == 0, "%d of %d cases differ", wrong, count);
}

SUITE("mil/golden", T(cases_print_what_they_say))
