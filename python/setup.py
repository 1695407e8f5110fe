# SPDX-License-Identifier: MIT
"""Builds propane-ml from the repository that contains this folder."""
import os
import sys
import sysconfig

from setuptools import setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import declarations  # noqa: E402

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise SystemExit("propane-ml: free-threaded Python is not supported: the extension uses the limited ABI of Python 3.9")


class build(build_ext):
    def run(self) -> None:
        import native
        native.make_archive()
        super().run()


setup(version=declarations.version(), cffi_modules=["native.py:ffi"], cmdclass={"build_ext": build},
      options={"bdist_wheel": {"py_limited_api": "cp39"}})
