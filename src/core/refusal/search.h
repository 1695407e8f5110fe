/* SPDX-License-Identifier: MIT
 * Finds the refused operation of a function by trying programs that contain parts of it. The search does not call a
 * device; the caller answers each query. Refusals are assumed to be expensive (a compiler needs some seconds after one)
 * and acceptances cheap. Neither is assumed to be certain, so the final program has been refused several times.
 */
#ifndef CORE_REFUSAL_SEARCH_H
#define CORE_REFUSAL_SEARCH_H

#include "core/mil/mil.h"

typedef enum search_answer {
    SEARCH_TAKEN,
    SEARCH_REFUSED,
    SEARCH_UNASKED, /* not a program that can be tried */
    SEARCH_CLOSED   /* no more queries allowed */
} search_answer;

enum { SEARCH_REASON = 700, SEARCH_NAMES = 400 };

/* `f` is the only function of its module. With SEARCH_REFUSED and SEARCH_CLOSED, the callee fills `why`. A failure ends
 * the search. */
typedef propane_status (*search_ask)(void *context, const mil_function *f, search_answer *out, char why[SEARCH_REASON],
                                     propane_error *err);

typedef enum search_verdict {
    SEARCH_ALONE,     /* the operation alone is refused */
    SEARCH_TOGETHER,  /* it is refused with others, but accepted on its own */
    SEARCH_BOUND,     /* it is refused with others, and cannot be tried without them */
    SEARCH_SIGNATURE, /* all operations are accepted, so the function's declaration is refused */
    SEARCH_PASSES,    /* the whole function is accepted now */
    SEARCH_WAVERS,    /* the same program is sometimes accepted and sometimes refused */
    SEARCH_OPEN       /* the queries ran out */
} search_verdict;

typedef struct search_result {
    search_verdict verdict;
    mil_module *smallest;      /* the smallest refused program, freed by the caller; NULL if none is refused */
    int operations;            /* number of its operations, without constants */
    char name[200];            /* the operation, such as "softmax 'p'"; for SEARCH_OPEN the first candidate */
    char last[200];            /* for SEARCH_OPEN the last candidate */
    char others[SEARCH_NAMES]; /* the other operations needed for the refusal: "mul 'z', conv 'y'" */
    char inside[200];          /* the operation whose block contains it; "" if none */
    int place, count;          /* its position, from 1, among the function's `count` operations without constants */
    int asked, refused;        /* numbers of programs tried, and refused */
    int changed;               /* how many of the refused programs were accepted on the second try */
    bool rest_refused;         /* the rest of the smallest program, without the operation, is refused as well */
    char reason[SEARCH_REASON];
} search_result;

PROPANE_CHECK propane_status search_refused(const mil_function *f, search_ask ask, void *context, search_result *out,
                                            propane_error *err);

int search_operations(const mil_function *f); /* counts the operations that are not constants */

#endif
