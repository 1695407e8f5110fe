/* SPDX-License-Identifier: MIT
 * Expands a statement for each constant k from 0 to 3 without a loop, so that arrays indexed by k stay in registers.
 * It is meant for parallel chains of steps when a single chain is longer than the processor looks ahead.
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
