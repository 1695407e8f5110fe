/* SPDX-License-Identifier: MIT
 * MIL text: parsed text must print, in both dialects, as text that parses again and prints the same, and it can be
 * checked.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/check.h"
#include "core/mil/text/mil_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
    if (!condition) abort();
}

static void round_trip(const mil_module *m, mil_dialect dialect) {
    propane_error err = {0};
    text first = {0}, second = {0};
    mil_module *again = NULL;
    mil_print_options options = {dialect, false};
    mil_print(&first, m, &options);
    require(mil_parse(first.data, first.length, "again", NULL, &again, &err) == PROPANE_OK);
    mil_print(&second, again, &options);
    require(first.length == second.length && memcmp(first.data, second.data, first.length) == 0);
    mil_module_free(again);
    text_deinit(&first);
    text_deinit(&second);
}

static void check(const mil_module *m) {
    propane_error err = {0};
    const chip *targets[CHIP_COUNT];
    chip_check_options options = {.targets = targets};
    require(chip_find_list("all,all-a", targets, &options.target_count, &err) == PROPANE_OK);
    chip_report *r = chip_report_create(&options);
    text out = {0};
    require(r && chip_check_module(r, m, &err) == PROPANE_OK);
    chip_report_print(r, &(chip_print){true, 60}, &out);
    require(!out.failed && out.length > 0);
    text_deinit(&out);
    chip_report_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    mil_module *m = NULL;
    propane_status status = mil_parse((const char *)data, size, "fuzz", NULL, &m, &err);
    if (status) {
        require(m == NULL && err.status == status && err.text[0]);
        return 0;
    }
    round_trip(m, MIL_SHORT);
    round_trip(m, MIL_CANONICAL);
    check(m);
    mil_module_free(m);
    return 0;
}
