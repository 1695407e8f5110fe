/* SPDX-License-Identifier: MIT
 * Which operation of a function is refused, by asking about programs made of parts of it. Knows no device: whoever
 * calls answers. An answer "refused" is taken to be dear (a compiler needs some seconds after one), "taken" to be
 * cheap, and neither to be certain: what the search ends with was refused twice.
 */
#ifndef CORE_REFUSAL_SEARCH_H
#define CORE_REFUSAL_SEARCH_H

#include "core/mil/mil.h"

typedef enum search_answer {
    SEARCH_TAKEN,
    SEARCH_REFUSED,
    SEARCH_UNASKED, /* it is no program that could be asked about */
    SEARCH_CLOSED   /* no more questions */
} search_answer;

enum { SEARCH_REASON = 700, SEARCH_NAMES = 400 };

/* `f` is the only function of its module. For "refused" and "closed" the callee says why. A failure ends the search. */
typedef propane_status (*search_ask)(void *context, const mil_function *f, search_answer *out, char why[SEARCH_REASON],
                                     propane_error *err);

typedef enum search_verdict {
    SEARCH_ALONE,     /* the operation is refused by itself */
    SEARCH_TOGETHER,  /* it is refused with others, and by itself it is taken */
    SEARCH_BOUND,     /* it is refused with others, and cannot be asked about without them */
    SEARCH_SIGNATURE, /* all operations are taken: it is what the function declares */
    SEARCH_PASSES,    /* the whole is taken now */
    SEARCH_WAVERS,    /* the same program is taken and refused in turn */
    SEARCH_OPEN       /* there were no more questions */
} search_verdict;

typedef struct search_result {
    search_verdict verdict;
    mil_module *smallest;      /* that is refused; NULL: none is. The caller frees it */
    int operations;            /* in it, without constants */
    char name[200];            /* of the operation: "softmax 'p'"; SEARCH_OPEN: the first that it may be */
    char last[200];            /* SEARCH_OPEN: the last */
    char others[SEARCH_NAMES]; /* those that it needs for it: "mul 'z', conv 'y'" */
    char inside[200];          /* the operation with blocks that it is part of; "": none */
    int place, count;          /* it is operation `place`, from 1, of `count` of the function, without constants */
    int asked, refused;        /* programs */
    int changed;               /* how many of the refused ones were taken when they were asked about again */
    bool rest_refused;         /* what is left of the smallest program without the operation is refused as well */
    char reason[SEARCH_REASON];
} search_result;

PROPANE_CHECK propane_status search_refused(const mil_function *f, search_ask ask, void *context, search_result *out,
                                            propane_error *err);

int search_operations(const mil_function *f); /* without constants */

#endif
