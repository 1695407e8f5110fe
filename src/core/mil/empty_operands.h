/* SPDX-License-Identifier: MIT
 * Which operations say something of an operand without elements; any other is refused when it gets one.
 */
#ifndef CORE_MIL_EMPTY_OPERANDS_H
#define CORE_MIL_EMPTY_OPERANDS_H

#include "core/mil/mil.h"

bool mil_empty_keeps(const mil_op *op);    /* it gives none either */
bool mil_empty_scatters(const mil_op *op); /* what it writes to stays as it is */
bool mil_empty_takes(const mil_op *op);    /* any of these, or concat, shape */
bool mil_empty_makes(const mil_op *op);    /* it may give none of operands that have some, as its constants say */

#endif
