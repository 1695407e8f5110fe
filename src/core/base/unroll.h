/* SPDX-License-Identifier: MIT
 * Expands a statement for each constant k from 0 to 3 without a loop, so that arrays indexed by k stay in registers. It
 * is meant for independent chains of steps, where one chain alone would exceed the processor's look-ahead.
 */
#ifndef CORE_BASE_UNROLL_H
#define CORE_BASE_UNROLL_H

#define EACH_ONE(number, statement)                                                                                    \
    {                                                                                                                  \
        enum { k = number };                                                                                           \
        statement;                                                                                                     \
    }
#define EACH_OF_FOUR(statement)                                                                                        \
    do {                                                                                                               \
        EACH_ONE(0, statement)                                                                                         \
        EACH_ONE(1, statement)                                                                                         \
        EACH_ONE(2, statement)                                                                                         \
        EACH_ONE(3, statement)                                                                                         \
    } while (0)

#endif
