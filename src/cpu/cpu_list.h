/* SPDX-License-Identifier: MIT
 * The lists of a running program. The buffer of a list value holds the address of a cpu_list. Each operation that makes
 * or writes a list has its own cpu_list, which is created when the program is planned and keeps its memory from run to
 * run.
 */
#ifndef CPU_CPU_LIST_H
#define CPU_CPU_LIST_H

#include "core/base/arena.h"
#include "propane.h"

typedef struct cpu_list {
    unsigned char *data;  /* the elements, one after the other */
    int64_t length, room; /* in elements */
    int64_t each;         /* bytes of an element */
    bool grows;           /* set for lists with dynamic_length */
    struct cpu_list *next;
} cpu_list;

/* Creates an empty list with elements of `each` bytes and puts it before *first; returns NULL if memory runs out. */
cpu_list *cpu_list_create(arena *a, cpu_list **first, int64_t each);
void cpu_list_free(cpu_list *first); /* frees the content of this list and of all after it */

/* Sets the length in elements; new elements are filled with zeros. `where` names the operation in errors. */
PROPANE_CHECK propane_status cpu_list_resize(cpu_list *list, int64_t length, const char *where, propane_error *err);
PROPANE_CHECK propane_status cpu_list_assign(cpu_list *to, const cpu_list *from, const char *where, propane_error *err);

#endif
