/* SPDX-License-Identifier: MIT
 * Declares the reading of lines that a person types on a terminal, with libedit's keys and history. In a build without
 * libedit there is no editor, and the caller reads plain lines.
 */
#ifndef APPS_PROPANE_CMD_LINE_EDITOR_H
#define APPS_PROPANE_CMD_LINE_EDITOR_H

#include "core/base/text.h"

typedef struct line_editor line_editor;

typedef enum line_result { LINE_READ, LINE_END, LINE_SIGNAL } line_result;

/* Opens the editor. Returns NULL in a build without libedit, or if the editor cannot be started. The history begins
 * with the lines in the file that PROPANE_CHAT_HISTORY names. */
line_editor *line_editor_open(void);
/* Reads a line and appends it to `line` without its newline. LINE_SIGNAL means that a signal arrived and the typed text
 * is lost; LINE_END means that there are no more lines. */
line_result line_editor_read(line_editor *e, const char *prompt, text *line);
/* Adds the line to the history of the up key, and to the file that PROPANE_CHAT_HISTORY names. */
void line_editor_remember(line_editor *e, const char *line);
void line_editor_close(line_editor *e);

#endif
