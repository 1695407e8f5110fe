/* SPDX-License-Identifier: MIT
 * Owns the editing of a line on a terminal with libedit. Typed lines are kept in memory. They are also kept in a file
 * if PROPANE_CHAT_HISTORY names one.
 */
#include "apps/propane/cmd/line_editor.h"

#ifdef PROPANE_EDITING

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/memory.h"

enum { LINE_HISTORY = 1000 };

struct line_editor {
    EditLine *edit;
    History *history;
    FILE *out; /* a stream to the terminal of its own, because stdout may have a filter */
    const char *prompt, *file;
};

static char *line_editor_prompt(EditLine *edit) {
    line_editor *e = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &e);
    return (char *)(uintptr_t)(e ? e->prompt : "");
}

static bool line_editor_start(line_editor *e) {
    HistEvent event;
    const int fd = dup(STDOUT_FILENO);
    e->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!e->out && fd >= 0) close(fd);
    if (!e->out || !(e->edit = el_init("propane", stdin, e->out, stderr)) || !(e->history = history_init()))
        return false;
    (void)history(e->history, &event, H_SETSIZE, LINE_HISTORY);
    (void)history(e->history, &event, H_SETUNIQUE, 1);
    if (e->file) (void)history(e->history, &event, H_LOAD, e->file);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_SIGNAL, 0); /* the command handles signals itself */
    el_set(e->edit, EL_PROMPT, line_editor_prompt);
    el_set(e->edit, EL_HIST, history, e->history);
    el_set(e->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(e->edit, NULL); /* ~/.editrc */
    return true;
}

line_editor *line_editor_open(void) {
    line_editor *e = mem_alloc(sizeof *e);
    const char *file = getenv("PROPANE_CHAT_HISTORY");
    if (!e) return NULL;
    *e = (line_editor){.prompt = "", .file = file && *file ? file : NULL};
    setlocale(LC_CTYPE, ""); /* count multi-byte characters as one */
    if (line_editor_start(e)) return e;
    line_editor_close(e);
    return NULL;
}

line_result line_editor_read(line_editor *e, const char *prompt, text *line) {
    int count = 0;
    e->prompt = prompt;
    errno = 0;
    const char *typed = el_gets(e->edit, &count);
    if (!typed || count <= 0) return count < 0 && errno == EINTR ? LINE_SIGNAL : LINE_END;
    while (count > 0 && (typed[count - 1] == '\n' || typed[count - 1] == '\r')) count--;
    text_append_n(line, typed, (size_t)count);
    return LINE_READ;
}

void line_editor_remember(line_editor *e, const char *line) {
    HistEvent event;
    if (!*line) return;
    (void)history(e->history, &event, H_ENTER, line);
    if (!e->file) return;
    const mode_t mask = umask(077); /* the conversation is private */
    (void)history(e->history, &event, H_SAVE, e->file);
    (void)umask(mask);
}

void line_editor_close(line_editor *e) {
    if (!e) return;
    if (e->history) history_end(e->history);
    if (e->edit) el_end(e->edit);
    if (e->out) fclose(e->out);
    mem_free(e);
}

#else

#include <stddef.h>

line_editor *line_editor_open(void) { return NULL; }
line_result line_editor_read(line_editor *e, const char *prompt, text *line) { return LINE_END; }
void line_editor_remember(line_editor *e, const char *line) {}
void line_editor_close(line_editor *e) {}

#endif
