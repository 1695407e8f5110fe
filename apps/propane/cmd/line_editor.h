/* SPDX-License-Identifier: MIT
 * Lines that a person types on a terminal, with libedit's keys and history. Without libedit there is no editor, and the
 * caller reads lines as they come.
 */
#ifndef APPS_PROPANE_CMD_LINE_EDITOR_H
#define APPS_PROPANE_CMD_LINE_EDITOR_H

#include "core/base/text.h"

typedef struct line_editor line_editor;

typedef enum line_result { LINE_READ, LINE_END, LINE_SIGNAL } line_result;

/* NULL: built without libedit, or no memory. PROPANE_CHAT_HISTORY names a file that earlier lines come from. */
line_editor *line_editor_open(void);
/* A line without its end, appended. LINE_SIGNAL: a signal came, what was typed is gone. */
line_result line_editor_read(line_editor *e, const char *prompt, text *line);
/* To be found again with the up key, and in the file that PROPANE_CHAT_HISTORY names. */
void line_editor_remember(line_editor *e, const char *line);
void line_editor_close(line_editor *e);

#endif
