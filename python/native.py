# SPDX-License-Identifier: MIT
"""Owns the build of the extension module propane_ml._propane: propane.h's declarations through cffi's API mode with the
limited ABI, with libpropane.a inside. PROPANE_BUILD names a folder that already contains libpropane.a."""
import os
import shlex
import subprocess
import sys

import cffi

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import declarations  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("PROPANE_BUILD") or os.path.join(ROOT, "build", "release")
ARCHIVE = os.path.join(os.path.abspath(BUILD), "libpropane.a")


def make_archive() -> None:
    """Builds libpropane.a with the repository's Makefile. Besides a compiler, it needs the libraries that `make setup` installs."""
    if os.environ.get("PROPANE_BUILD"):
        return
    jobs = str(os.cpu_count() or 2)
    # The jobs and variables of an outer make do not apply here.
    clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "-C", ROOT, "-j" + jobs, "build/release/libpropane.a"], env=clean)
    if done.returncode:
        raise SystemExit("propane-ml: libpropane.a could not be built: run `make setup` in the repository, then try again")


def libraries() -> list:
    """Returns the libraries that libpropane.a needs, as its Makefile prints them."""
    names = subprocess.run(["make", "-s", "-C", ROOT, "public-packages"], stdout=subprocess.PIPE, text=True, check=True)
    flags = subprocess.run(["pkg-config", "--libs", *names.stdout.split()], stdout=subprocess.PIPE, text=True)
    words = shlex.split(flags.stdout) if flags.returncode == 0 else ["-l" + n for n in
        ("jansson", "pcre2-8", "utf8proc", "protobuf-c", "png", "jpeg", "z")]
    return words + ["-lm", "-lpthread"] + ([] if sys.platform == "darwin" else ["-ldl", "-lrt"])


ffi = cffi.FFI()
ffi.cdef(declarations.read() + declarations.CALLBACKS + "extern const char *const propane_ml_fingerprint;")
# Python handles signals in its main thread, so only that thread is asked. on_interrupt passes on an exception that a signal raises.
WATCH = """
#include <pthread.h>
#include <stddef.h>
#include "propane.h"
static bool propane_ml_on_interrupt(void *);
static pthread_t propane_ml_main;
static bool propane_ml_asked(void *context) {
    return pthread_equal(pthread_self(), propane_ml_main) && propane_ml_on_interrupt(context);
}
static void propane_ml_watch(void) {
    propane_ml_main = pthread_self();
    propane_set_interrupt(propane_ml_asked, NULL);
}
"""
ffi.set_source("propane_ml._propane", WATCH +
               f'static const char *const propane_ml_fingerprint = "{declarations.fingerprint()}";\n', include_dirs=[os.path.join(ROOT, "include")],
               extra_objects=[ARCHIVE], depends=[ARCHIVE], extra_link_args=libraries() + ["-Wl,-S"])
