/* SPDX-License-Identifier: MIT
 * A statement for each k of 0 to 3, k a constant in it, without a loop: arrays that are indexed by it stay in
 * registers. For chains of steps side by side, where one chain is longer than a processor looks ahead.
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
