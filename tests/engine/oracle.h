/* SPDX-License-Identifier: MIT
 * Published programs of Apple's compiler, from h13_oracles.jsonl or h14_oracles.jsonl of the test data: a description
 * of each one's computation, and the words of its tasks.
 */
#ifndef TESTS_ENGINE_ORACLE_H
#define TESTS_ENGINE_ORACLE_H

#include <jansson.h>

#include "ane/h13/task.h"

typedef struct oracle {
    json_t *json;
    const char *id;
    uint32_t subtype; /* ENGINE_H13 (also if 0), or ENGINE_H14 if the line has the words of a "text" */
    int task_count;
    engine_task *tasks;
    const char *text_sha256;
    size_t text_bytes;
} oracle;

/* Calls `visit` for each program of such a file, one per line. A malformed line fails the test with its place. */
int oracle_each_of(const char *path, void (*visit)(const oracle *o, void *context), void *context);
/* Does the same for a file of the test data, h13_oracles.jsonl or h14_oracles.jsonl. Returns the number of programs,
 * or -1 if the file is not here. */
int oracle_each(const char *name, void (*visit)(const oracle *o, void *context), void *context);

#endif
