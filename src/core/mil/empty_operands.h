/* SPDX-License-Identifier: MIT
 * Declares which operations are defined for an operand without elements. Any other operation with such an operand is
 * refused.
 */
#ifndef CORE_MIL_EMPTY_OPERANDS_H
#define CORE_MIL_EMPTY_OPERANDS_H

#include "core/mil/mil.h"

bool mil_empty_keeps(const mil_op *op);    /* the result has no elements either */
bool mil_empty_scatters(const mil_op *op); /* the tensor that the operation writes to is unchanged */
bool mil_empty_takes(const mil_op *op);    /* either of the above, or concat or shape */
/* Returns true if the operation's constants can make the result empty although its operands are not. */
bool mil_empty_makes(const mil_op *op);

#endif
