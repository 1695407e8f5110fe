/* SPDX-License-Identifier: MIT
 * The macros of a row (call_table.h), as functions, or as a list if CALL_LIST is defined. Included again for each use.
 */
#undef STATUS
#undef LACKS
#undef GIVES
#undef MAYBE
#undef DOES
#ifdef CALL_LIST
#define STATUS(fn, ...)         {#fn, CALL_STATUS, call_##fn},
#define LACKS(fn, ...)          {#fn, CALL_LACKS, call_##fn},
#define GIVES(fn, refused, ...) {#fn, CALL_GIVES, call_##fn},
#define MAYBE(fn, refused, ...) {#fn, CALL_MAYBE, call_##fn},
#define DOES(fn, ...)           {#fn, CALL_DOES, call_##fn},
#else
#define STATUS(fn, ...)                                                                                                \
    CALL_ROW_FUNCTION(fn) {                                                                                            \
        (void)c;                                                                                                       \
        return (int)fn(__VA_ARGS__, error);                                                                            \
    }
#define LACKS STATUS
#define GIVES(fn, refused, ...)                                                                                        \
    CALL_ROW_FUNCTION(fn) {                                                                                            \
        (void)c, (void)error;                                                                                          \
        return fn(__VA_ARGS__) == (refused);                                                                           \
    }
#define MAYBE GIVES
#define DOES(fn, ...)                                                                                                  \
    CALL_ROW_FUNCTION(fn) {                                                                                            \
        (void)c, (void)error;                                                                                          \
        fn(__VA_ARGS__);                                                                                               \
        return 0;                                                                                                      \
    }
#endif
