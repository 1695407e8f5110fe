/* SPDX-License-Identifier: MIT
 * propane compile FILE --target m1 -o X.anec|X.hwx: compiles a MIL program for the engine without Apple's compiler.
 */
#include <stdio.h>

#include "apps/propane/cli.h"
#include "core/base/text.h"

static propane_status cmd_compile_write(const char *from, const char *function, const char *target, const char *to,
                                        bool print, propane_error *err) {
    propane_module *m = NULL;
    propane_object *o = NULL;
    propane_object_info info = {.size = sizeof info};
    char *report = NULL;
    PROPANE_TRY(propane_module_read(from, &m, err));
    propane_status status = propane_object_compile(m, function, target, &report, &o, err);
    if (!status) status = propane_object_write(o, to, err);
    if (!status && propane_object_describe(o, &info)) {
        if (print) fputs(report, stdout);
        printf("%s: %d task%s, %llu bytes of constants, %llu of scratch memory\n", to, info.tasks,
               text_plural(info.tasks), (unsigned long long)info.constant_bytes,
               (unsigned long long)info.scratch_bytes);
    }
    propane_free(report);
    propane_object_free(o);
    propane_module_free(m);
    return status;
}

int cmd_compile(int argc, char **argv) {
    const char *from = NULL, *to = NULL, *target = "m1", *function = NULL;
    bool report = false;
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &from, .help = "MIL text or a Core ML package", .required = true},
        {"-o", CLI_TEXT, &to, .words = "FILE", .help = "file to write: X.anec (for Linux) or X.hwx", .required = true},
        {"--target", CLI_CHOICE, &target, .words = "m1|m2", .help = "chip to compile for"},
        {"--function", CLI_TEXT, &function, .words = "NAME", .help = "function to compile; default: the first"},
        {"--report", CLI_SWITCH, &report,
         .help = "print tasks, bytes and on-chip use per operation, and why its result left the chip"}};
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "compile FILE -o FILE.anec [flags]",
                  "Compiles a program to registers of the Neural Engine of an M1 or M2, without Apple's compiler. No "
                  "output has run on hardware yet; 'propane run' executes it in software.");
    if (code >= 0) return code;
    propane_error err = {0};
    return cmd_compile_write(from, function, target, to, report, &err) == PROPANE_OK ? CLI_OK
                                                                                     : cli_error("compile", &err);
}
