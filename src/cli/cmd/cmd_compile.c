/* SPDX-License-Identifier: MIT
 * propane compile FILE --target m1 -o X.anec|X.hwx: a MIL program as a compiled program of the engine, without Apple's
 * compiler.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "engine/compile.h"
#include "mil/coreml/package.h"
#include "pass/pass.h"

static propane_status cmd_compile_write(const char *from, const char *function, const char *to, bool tell,
                                        propane_error *err) {
    mil_module *m = NULL;
    engine_object *o = NULL;
    text report = {0};
    PROPANE_TRY(mil_read(from, NULL, &m, err));
    mil_function *f = mil_module_function(m, function, err);
    propane_status status = f ? pass_run(f, &pass_all, err) : err->status;
    if (!status) status = engine_compile(f, &report, &o, err);
    if (!status) status = engine_object_save(o, to, err);
    if (!status) {
        if (tell && report.data) fwrite(report.data, 1, report.length, stdout);
        printf("%s: %d task%s, %llu bytes of constants, %llu of scratch memory\n", to, o->task_count,
               o->task_count == 1 ? "" : "s", (unsigned long long)o->constant_bytes,
               (unsigned long long)o->scratch_bytes);
    }
    text_deinit(&report);
    engine_object_free(o);
    mil_module_free(m);
    return status;
}

int cmd_compile(int argc, char **argv) {
    const char *from = NULL, *to = NULL, *target = "m1", *function = NULL;
    bool report = false;
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &from, .help = "MIL text, or a package", .required = true},
        {"-o", CLI_TEXT, &to, .words = "FILE", .help = "X.anec (Linux) or X.hwx", .required = true},
        {"--target", CLI_CHOICE, &target, .words = "m1", .help = "the chip"},
        {"--function", CLI_TEXT, &function, .words = "NAME", .help = "of a program with several"},
        {"--report", CLI_SWITCH, &report, .help = "each operation's tasks and constants"}};
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "compile FILE -o FILE.anec [flags]",
                  "Compiles a program for the Neural Engine of an M1 to its registers, without Apple's compiler. "
                  "Nothing it writes has run on a device yet; `propane run` executes it in software.");
    if (code >= 0) return code;
    propane_error err = {0};
    return cmd_compile_write(from, function, to, report, &err) == PROPANE_OK ? CLI_OK : cli_error("compile", &err);
}
