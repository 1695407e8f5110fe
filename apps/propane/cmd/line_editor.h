/* SPDX-License-Identifier: MIT
 * Lines that a person types on a terminal, with libedit's keys and history. Without libedit there is no editor, and
 * the caller reads plain lines.
 */
#ifndef APPS_PROPANE_CMD_LINE_EDITOR_H
#define APPS_PROPANE_CMD_LINE_EDITOR_H

#include "core/base/text.h"

typedef struct line_editor line_editor;

typedef enum line_result { LINE_READ, LINE_END, LINE_SIGNAL } line_result;

/* Returns NULL in a build without libedit, or if memory runs out. PROPANE_CHAT_HISTORY names a file with earlier
 * lines. */
line_editor *line_editor_open(void);
/* Reads a line and appends it without its end. LINE_SIGNAL means that a signal arrived and the typed text is lost. */
line_result line_editor_read(line_editor *e, const char *prompt, text *line);
/* Adds the line to the history of the up key, and to the file that PROPANE_CHAT_HISTORY names. */
void line_editor_remember(line_editor *e, const char *line);
void line_editor_close(line_editor *e);

#endif
