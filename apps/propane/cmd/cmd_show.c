/* SPDX-License-Identifier: MIT
 * propane show FILE: prints the contents of a file. The content decides the file's kind: MIL text, weight file,
 * safetensors, llama2.c checkpoint, model folder, tokenizer, token file, compiled program.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/page_file.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "report/run/run_set.h"

/* Prints the contents of the file. After an error, prints the part that could be read. */
static propane_status cmd_show_show(const char *file, const propane_show_options *options, propane_error *err) {
    char *shown = NULL;
    size_t length = 0;
    propane_status status = propane_file_show(file, options, &shown, &length, err);
    if (shown) fwrite(shown, 1, length, stdout);
    propane_free(shown);
    return status;
}

/* Prints one line about the progress of the run in a folder. `log` is the path of the run's log if the user named the
 * log, or NULL if the line follows those about the folder. Sets *is_run to whether the folder has a run log. */
static propane_status cmd_show_put_run(const char *dir, const char *log, bool *is_run, propane_error *err) {
    run_set set;
    propane_status status = run_set_open(&set, &dir, 1, err);
    if (status == PROPANE_OK) status = run_set_read(&set, err);
    *is_run = status == PROPANE_OK && set.runs[0].history.start;
    if (*is_run) {
        const run_summary *s = &set.runs[0].summary;
        printf("%s%s%s, step %.0f of %.0f", log ? log : "  training", log ? ": the log of a training run: " : ": ",
               set.runs[0].state, isfinite(s->steps) ? s->steps : 0, s->planned);
        if (isfinite(s->last)) printf(", training loss %.4f", s->last);
        if (isfinite(s->val_best))
            printf(", validation loss %.4f, best %.4f at step %.0f", s->val_last, s->val_best, s->val_step);
        printf("\n");
    }
    run_set_close(&set);
    return status == PROPANE_ERR_NOT_FOUND ? PROPANE_OK : status;
}

/* Shows the run of a log. The log's name ends in .jsonl, but it is not instruction data. Sets *is_run if it is a
 * log. */
static propane_status cmd_show_log(const char *file, bool *is_run, propane_error *err) {
    const size_t length = strlen(file), name = strlen(RUN_LOG);
    char dir[4096];
    if (length < name || strcmp(file + length - name, RUN_LOG) != 0 || length - name >= sizeof dir) return PROPANE_OK;
    snprintf(dir, sizeof dir, "%.*s", (int)(length - name), file);
    if (length > name && dir[length - name - 1] != '/') return PROPANE_OK;
    return cmd_show_put_run(length > name ? dir : ".", file, is_run, err);
}

static propane_status cmd_show_file(const char *file, const propane_show_options *options, propane_error *err) {
    const bool runs = options->form != PROPANE_JSON;
    bool is_run = false;
    propane_status status = runs ? cmd_show_log(file, &is_run, err) : PROPANE_OK;
    if (status == PROPANE_OK && !is_run) status = cmd_show_show(file, options, err);
    if (status == PROPANE_OK && !is_run && runs && file_is_dir(file))
        status = cmd_show_put_run(file, NULL, &is_run, err);
    return status;
}

/* Refuses a flag that is for another kind of file and returns the exit code. Returns -1 if there is none. */
static int cmd_show_misuse(const char *file, const char *example_flag, bool words) {
    if (example_flag && !cli_file_is(file, "examples"))
        return cli_misuse("show", "%s is for .jsonl files; %s is not one", example_flag, file);
    if (words && !cli_file_is(file, "compiled"))
        return cli_misuse("show", "--words is for compiled programs; %s is not one", file);
    return -1;
}

typedef struct show_page {
    const char *file, *profile; /* the page to write, and the trace with the times that it shows (or NULL) */
    propane_page_options options;
} show_page;

/* Writes the page, with the times of a trace if one is given. */
static propane_status cmd_show_write_page(const char *file, show_page *p, propane_error *err) {
    propane_module *m = NULL;
    propane_page_value *rows = NULL;
    void *names = NULL;
    propane_status status = propane_module_read(file, &m, err);
    if (!status && p->profile) {
        status = page_file_read_trace(p->profile, &rows, &p->options.value_count, &names, err);
        p->options.values = rows;
        p->options.colour = "time";
    }
    if (!status) status = page_file_write(m, &p->options, p->file, err);
    mem_free(rows);
    json_decref(names);
    propane_module_free(m);
    return status;
}

static int cmd_show_page(const cli_list *files, show_page *p) {
    propane_error err = {0};
    const propane_check_options check = {.size = sizeof check, .target = p->options.target, .path = p->options.path};
    if (files->count != 1) return cli_misuse("show", "--html takes one FILE");
    if (propane_check_options_test(&check, &err) != PROPANE_OK) return cli_misuse("show", "--%s", err.text);
    if (!cli_file_is(files->items[0], "program") && file_exists(files->items[0]))
        return cli_misuse("show", "--html is for programs; %s is not one", files->items[0]);
    if (cmd_show_write_page(files->items[0], p, &err) != PROPANE_OK) return cli_error("show", &err);
    printf("%s: the graph of %s\n", p->file, files->items[0]);
    return CLI_OK;
}

int cmd_show(int argc, char **argv) {
    cli_list files = {0};
    show_page page = {.options = {.size = sizeof page.options}};
    const char *model = NULL, *chat = NULL;
    bool json = false, words = false;
    const cli_flag flags[] = {
        {"FILE...", CLI_TEXT, &files, .help = "files or model folders", .required = true},
        {"--model", CLI_TEXT, &model, .words = "MODEL", .help = "for a .jsonl file: model to be trained on it"},
        {"--chat", CLI_TEXT, &chat, .words = "NAME",
         .help = "for a .jsonl file: chat format, instead of the model's own"},
        {"--words", CLI_SWITCH, &words, .help = "for a compiled program: print every field of every register"},
        {"--json", CLI_SWITCH, &json,
         .help = "print one JSON object per file; for a .jsonl file, one per example, with its ids and which of them "
                 "count toward the loss"},
        {"--html", CLI_TEXT, &page.file, .words = "FILE",
         .help = "for a program: write its graph as a self-contained HTML page", .writes = "page"},
        {"--profile", CLI_TEXT, &page.profile, .words = "FILE.json",
         .help = "with --html: times from 'propane run --trace FILE.json'"},
        {"--target", CLI_TEXT, &page.options.target, .words = "CHIPS", .standard = "m1,m4",
         .help = "with --html: chips for the rules and estimates on the page"},
        {"--path", CLI_TEXT, &page.options.path, .words = "PATH",
         .help = "with --html: direct or coreml, as for 'propane check'"},
        {"--function", CLI_TEXT, &page.options.function, .words = "NAME",
         .help = "with --html: function to show first"}};
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "show FILE...",
                         "Prints what a file contains: a program, weights, a model, a tokenizer, tokens, instruction "
                         "data or a compiled program.");
    for (int i = 0; code < 0 && i < files.count; i++)
        code = cmd_show_misuse(files.items[i], model ? "--model" : chat ? "--chat" : NULL, words);
    if (code >= 0) return code;
    const propane_page_options *o = &page.options;
    if (page.file) return cmd_show_page(&files, &page);
    if (page.profile || o->target || o->path || o->function)
        return cli_misuse("show", "--profile, --target, --path and --function need --html");
    const propane_show_options options = {.size = sizeof options,
                                          .form = json ? PROPANE_JSON : PROPANE_TEXT,
                                          .words = words,
                                          .styled = !json && cli_has_colour(STDOUT_FILENO),
                                          .model = model,
                                          .chat = chat};
    code = CLI_OK;
    for (int i = 0; i < files.count; i++) {
        propane_error err = {0};
        if (cmd_show_file(files.items[i], &options, &err) != PROPANE_OK) code = cli_error("show", &err);
    }
    return code;
}
