/* SPDX-License-Identifier: MIT
 * Published programs of Apple's compiler (h13_oracles.jsonl of the shared data): what they compute and the words of
 * their tasks.
 */
#ifndef TESTS_ENGINE_ORACLE_H
#define TESTS_ENGINE_ORACLE_H

#include <jansson.h>

#include "ane/h13/task.h"

typedef struct oracle {
    json_t *json;
    const char *id;
    uint32_t subtype; /* ENGINE_H13, or ENGINE_H14 where the line has the words of a "text"; 0 stands for ENGINE_H13 */
    int task_count;
    engine_task *tasks;
    const char *text_sha256;
    size_t text_bytes;
} oracle;

/* Calls `visit` for each program of a file of that form, a program a line. A line that is none fails the test with its
 * place. */
int oracle_each_of(const char *path, void (*visit)(const oracle *o, void *context), void *context);
/* Of a file of the shared data, h13_oracles.jsonl or h14_oracles.jsonl; returns how many there are, -1: the file is not here. */
int oracle_each(const char *name, void (*visit)(const oracle *o, void *context), void *context);

#endif
