/* SPDX-License-Identifier: MIT
 * The contract of the public calls as a table. tests/api/calls/HEADER.def has one row per call of the header, which
 * states what each argument may be. A test includes the rows twice, once as functions that make the call and once as a
 * list of them. It passes the list to calls_check, which makes each call with one argument wrong at a time.
 *
 *     STATUS(propane_module_print, NEEDS(module, f.module), WORD(dialect, PROPANE_MIL_SHORT), OUT(out, text), ...)
 *
 * STATUS  returns a status: a wrong argument is an error, and the sentence names the call or the argument. For NULL it
 *         is always "CALL: ARGUMENT must not be NULL". Results become NULL. The error itself is the last argument.
 * LACKS   likewise, but the call with correct arguments is also refused, because the fixture has no such object.
 * GIVES   returns a value: the second argument of the row is the value for a wrong argument.
 * MAYBE   likewise, but the call with correct arguments returns that value too.
 * DOES    returns nothing.
 *
 * NEEDS   a pointer. NULL is refused.                         MAY       NULL is accepted.
 * OUT     where a pointer goes; a member of f.out.            MAY_OUT   NULL is accepted.
 * TEXT    a text. NULL is refused, "" must not crash.         MAY_TEXT  NULL is accepted.
 * NAME    likewise, "" and unknown names are refused.         MAY_NAME  NULL is accepted.
 * SIZED   a structure that begins with its size: NULL and     MAY_SIZED NULL is accepted.
 *         impossible sizes are refused.                     EITHER_SIZED  NULL must not crash.
 * COUNT   negative and 0 are refused.                         COUNT0    0 is accepted.
 * EXACT   every other number is refused.                      INDEX     out of range is refused.
 * WORD    an enumerator. Others are refused.                  SIZE      a size_t. 0 is refused.
 * LENGTH  of a list before it, which may be NULL if it is 0.  ANY       every value is accepted.
 */
#ifndef TESTS_API_CALL_TABLE_H
#define TESTS_API_CALL_TABLE_H

#include "core/base/text.h"
#include "propane.h"

/* The expected result of an attempt. */
typedef enum call_expected { CALL_REFUSED, CALL_NULL, CALL_TAKEN, CALL_EITHER } call_expected;
typedef struct call_attempt {
    const char *argument; /* NULL if all arguments are correct */
    int variant;
    call_expected expected;
} call_attempt;

enum { CALL_ATTEMPTS = 100, CALL_ARGUMENTS = 16, CALL_ROOM = 8192 };
typedef struct calls {
    call_attempt list[CALL_ATTEMPTS], now; /* of the row; the current attempt */
    int count;
    const char *arguments[CALL_ARGUMENTS]; /* the arguments that the row names */
    int argument_count;
    bool listing;
    void **slots[CALL_ARGUMENTS]; /* the places for pointers in this call */
    int slot_count;
    char given[100];                                /* the wrong value, for the sentence */
    _Alignas(16) unsigned char rooms[2][CALL_ROOM]; /* structures with wrong sizes */
    int room_count;
} calls;

typedef enum call_kind { CALL_STATUS, CALL_LACKS, CALL_GIVES, CALL_MAYBE, CALL_DOES } call_kind;
typedef struct call_row {
    const char *name;
    call_kind kind;
    /* Makes the call. Returns its status; for a call without one, 1 if it returned the value for a refusal, else 0. */
    int (*make)(calls *c, propane_error *err);
} call_row;

typedef struct call_table {
    const call_row *rows;
    int count;
    const char *const *headers; /* "module", ...; NULL after the last */
    void (*after)(void);        /* frees the results of a call */
    void (*look)(text *to);     /* writes, as text, the state that no refused call may change */
} call_table;

/* Ends the test at the first call that does not match its row. Also ends it at a call of a header without a row,
 * and at an argument that its row does not name. */
void calls_check(const call_table *table);

/* Make the arguments; called by the macros. */
bool call_is_null(calls *c, const char *name, call_expected null);
void *call_out(calls *c, const char *name, call_expected null, void **slot);
const char *call_text(calls *c, const char *name, const char *good, call_expected null, bool exists);
void *call_sized(calls *c, const char *name, call_expected null, void *good, size_t bytes);
typedef enum call_number {
    CALL_COUNT,
    CALL_COUNT0,
    CALL_EXACT,
    CALL_INDEX,
    CALL_WORD,
    CALL_SIZE,
    CALL_ANY
} call_number;
int64_t call_integer(calls *c, const char *name, int64_t good, call_number kind, int64_t most);

#define NEEDS(name, x)        (call_is_null(c, #name, CALL_NULL) ? NULL : (x))
#define MAY(name, x)          (call_is_null(c, #name, CALL_TAKEN) ? NULL : (x))
#define OUT(name, member)     call_out(c, #name, CALL_NULL, (void **)(void *)&f.out.member)
#define MAY_OUT(name, member) call_out(c, #name, CALL_TAKEN, (void **)(void *)&f.out.member)
#define TEXT(name, x)         call_text(c, #name, x, CALL_NULL, false)
#define MAY_TEXT(name, x)     call_text(c, #name, x, CALL_TAKEN, false)
#define NAME(name, x)         call_text(c, #name, x, CALL_NULL, true)
#define MAY_NAME(name, x)     call_text(c, #name, x, CALL_TAKEN, true)
#define SIZED(name, x)        call_sized(c, #name, CALL_NULL, x, sizeof *(x))
#define MAY_SIZED(name, x)    call_sized(c, #name, CALL_TAKEN, x, sizeof *(x))
#define EITHER_SIZED(name, x) call_sized(c, #name, CALL_EITHER, x, sizeof *(x))
#define COUNT(name, x)        (int)call_integer(c, #name, x, CALL_COUNT, INT32_MAX)
#define COUNT64(name, x)      call_integer(c, #name, x, CALL_COUNT, INT64_MAX)
#define COUNT0(name, x)       (int)call_integer(c, #name, x, CALL_COUNT0, INT32_MAX)
#define COUNT064(name, x)     call_integer(c, #name, x, CALL_COUNT0, INT64_MAX)
#define EXACT64(name, x)      call_integer(c, #name, x, CALL_EXACT, INT64_MAX)
#define INDEX(name, x)        (int)call_integer(c, #name, x, CALL_INDEX, INT32_MAX)
#define INDEX64(name, x)      call_integer(c, #name, x, CALL_INDEX, INT64_MAX)
#define WORD(name, x)         (int)call_integer(c, #name, x, CALL_WORD, INT32_MAX)
#define SIZE(name, x)         (size_t)call_integer(c, #name, (int64_t)(x), CALL_SIZE, INT64_MAX)
#define SIZE0(name, x)        (size_t)call_integer(c, #name, (int64_t)(x), CALL_ANY, INT64_MAX)
#define ANY(name, x)          (call_integer(c, #name, 0, CALL_ANY, 0), (x))

#define CALL_ROW_FUNCTION(fn) static int call_##fn(calls *c, propane_error *error)
#endif
