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
 * examples/run_mil.c goes on from here; it is compiled and run as a test.
 *
 * Errors: every call that can fail returns a propane_status and fills `err` (which may be NULL) with one sentence:
 * what, where, which value, what to do. Nothing in the library prints, exits or aborts on bad input. Ownership: what a
 * _create, _open, _read, _parse or _compile call gives is yours to _free or _close; a _free call takes NULL. What an
 * accessor returns belongs to the object it came from. A child (program, buffer, request) is freed before its device.
 * Arguments: a pointer must not be NULL unless its call says that it may be. A list or a text may be NULL where its
 * length is 0, `length` where a call gives a text together with its length, and `context` always. Counts are not
 * negative, paths and names are not empty, enumerators are the header's. An argument that is wrong is
 * PROPANE_ERR_INVALID, the sentence names the call or the argument, and nothing has changed. A call without a status
 * gives NULL, 0 or false then, or does nothing. Where a call that fails would have put a pointer, there is NULL.
 * Threads: a device and what belongs to it may be used from several threads unless a call says otherwise. Sessions,
 * generators, trainers and builders are for one thread at a time; different ones do not know of each other. A
 * propane_error is one thread's. Stable: calls, enumerators and the order of members stay within a major version (0:
 * within a minor one). A structure that begins with `size` may get members at its end, and the library looks at what
 * the caller's size covers; the other structures stay as they are. The words of messages, tables and profiles may
 * change at any time; the keys of JSON may be added to.
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
