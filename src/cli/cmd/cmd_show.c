/* SPDX-License-Identifier: MIT
 * propane show FILE: what is in a file, told by its content: MIL text, weight files, safetensors, llama2.c checkpoints,
 * model folders, tokenizers, token files, compiled programs.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static bool cmd_show_is(const char *file, const char *kind) {
    const char *own = propane_file_kind(file);
    return own && strcmp(own, kind) == 0;
}

/* Also what was read before an error. */
static propane_status cmd_show_show(const char *file, const propane_show_options *options, propane_error *err) {
    char *shown = NULL;
    size_t length = 0;
    propane_status status = propane_file_show(file, options, &shown, &length, err);
    if (shown) fwrite(shown, 1, length, stdout);
    propane_free(shown);
    return status;
}

/* What the flags of one kind of file say to the others; -1: nothing. */
static int cmd_show_misuse(const char *file, const char *example_flag, bool words) {
    if (example_flag && !cmd_show_is(file, "examples"))
        return cli_misuse("show", "%s is for .jsonl files; %s is none", example_flag, file);
    if (words && !cmd_show_is(file, "compiled"))
        return cli_misuse("show", "--words is for compiled programs; %s is none", file);
    return -1;
}

int cmd_show(int argc, char **argv) {
    cli_list files = {0};
    const char *model = NULL, *chat = NULL;
    bool json = false, words = false;
    const cli_flag flags[] = {
        {"FILE...", CLI_TEXT, &files, .help = "files or model folders", .required = true},
        {"--model", CLI_TEXT, &model, .words = "MODEL", .help = "of a .jsonl file: the model that would learn from it"},
        {"--chat", CLI_TEXT, &chat, .words = "NAME",
         .help = "of a .jsonl file: chat format, instead of the model's own"},
        {"--words", CLI_SWITCH, &words, .help = "of a compiled program: every register by field"},
        {"--json", CLI_SWITCH, &json,
         .help = "one object a file; of a .jsonl file one an example, with ids and what is learnt"}};
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "show FILE...",
                         "Tells what is in a file: programs, weights, models, tokenizers, tokens, instruction data, "
                         "compiled programs.");
    for (int i = 0; code < 0 && i < files.count; i++)
        code = cmd_show_misuse(files.items[i], model ? "--model" : chat ? "--chat" : NULL, words);
    if (code >= 0) return code;
    const propane_show_options options = {.size = sizeof options,
                                          .form = json ? PROPANE_JSON : PROPANE_TEXT,
                                          .words = words,
                                          .styled = !json && cli_has_colour(STDOUT_FILENO),
                                          .model = model,
                                          .chat = chat};
    code = CLI_OK;
    for (int i = 0; i < files.count; i++) {
        propane_error err = {0};
        if (cmd_show_show(files.items[i], &options, &err) != PROPANE_OK) code = cli_error("show", &err);
    }
    return code;
}
