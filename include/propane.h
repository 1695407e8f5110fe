/* SPDX-License-Identifier: MIT
 *
 * propane.h - train, run and check neural networks on the Apple Neural Engine, and run the very same programs on any
 * other machine.
 *
 * One pipeline: MIL text becomes a module, a device compiles it to a program, buffers are bound to its inputs and
 * outputs by name, and a request is submitted and waited for.
 *
 *     propane_error err;
 *     propane_module *module = NULL;
 *     propane_device *device = NULL;
 *     propane_program *program = NULL;
 *     if (propane_module_read("add.mil", &module, &err) ||
 *         propane_device_open("cpu", &device, &err) ||
 *         propane_program_compile(device, module, NULL, &program, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *
 * examples/run_mil.c continues from here; it is compiled and run as a test.
 *
 * Errors: every call that can fail returns a propane_status. After a failure `err` (which may be NULL) holds one
 * sentence that names the problem, the place, the value and the remedy. The library never prints, exits or aborts on
 * bad input. If a call that returns an object through a pointer fails, it sets that pointer to NULL.
 *
 * Ownership: the caller owns the result of a _create, _open, _read, _parse or _compile call, and frees it with _free
 * or _close. A _free call accepts NULL. The result of an accessor belongs to the object that was queried. Free a
 * child (program, buffer, request) before you close its device.
 *
 * Arguments: a pointer must not be NULL unless its call allows it. A list or a text may be NULL if its length is 0,
 * and so may `length` if a call returns a text with its length; `context` may always be NULL. Counts must not be
 * negative, paths and names must not be empty, and enumerators must be those of the header. A call that gets a wrong
 * argument changes nothing. It returns PROPANE_ERR_INVALID with a sentence that names the call or the argument. A call
 * without a status returns NULL, 0 or false instead, or does nothing.
 *
 * Threads: several threads may use a device and its objects unless a call forbids it. Sessions, generators, trainers
 * and builders are for one thread at a time, and are independent of each other. A propane_error belongs to one thread.
 *
 * Stability: calls, enumerators and the order of members do not change within a major version (in version 0, within a
 * minor version). A structure that begins with `size` may get members at its end, and the library reads only those
 * that the caller's size covers; the other structures do not change. The words of messages, tables and profiles may
 * change at any time; JSON may get more keys.
 */
#ifndef PROPANE_H
#define PROPANE_H

#include "propane/check.h"
#include "propane/device.h"
#include "propane/lm.h"
#include "propane/module.h"
#include "propane/session.h"
#include "propane/show.h"
#include "propane/status.h"
#include "propane/train.h"

#endif
