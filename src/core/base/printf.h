/* SPDX-License-Identifier: MIT
 * Marks functions that take a format and arguments like printf, so that the compiler checks them.
 */
#ifndef CORE_BASE_PRINTF_H
#define CORE_BASE_PRINTF_H

#if defined(__GNUC__)
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BASE_PRINTF(fmt, args)
#endif

#endif
