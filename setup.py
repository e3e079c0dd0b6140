"""Build of the Python package: `make` compiles the C libraries once, cffi's modules link them in.

annblock._native holds store and reader and needs LZ4, xxHash and Nettle; annblock._convert adds the converter and is left out where
HDF5 is not found (then pack and export say so)."""

import os
import re
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "python"))
import build_ffi  # noqa: E402


class BuildExt(build_ext):
    """Let make bring the static libraries up to date first."""

    def run(self):
        self.make()
        super().run()

    def make(self):
        libraries = [f"{build_ffi.BUILD}/libannblock.a"]
        if build_ffi.hdf5():
            libraries.append(f"{build_ffi.BUILD}/libannblock-convert.a")
        jobs = os.environ.get("MAKEJOBS") or str(os.cpu_count() or 1)
        flags = os.environ.get("CFLAGS", "-O2")
        command = ["make", f"-j{jobs}", f"VARIANT={build_ffi.VARIANT}", f"CFLAGS={flags} -fvisibility=hidden", "WERROR=", *libraries]
        try:
            subprocess.run(
                command, cwd=ROOT, check=True, env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
            )
        except FileNotFoundError:
            raise SystemExit(
                "annblock's C libraries are built with GNU make, which is not installed (Debian: apt-get install make)"
            ) from None
        except subprocess.CalledProcessError:
            raise SystemExit("annblock's C libraries did not build; the messages above say why") from None


def version():
    return re.search(r'annb_version\(void\) { return "([0-9.]+)"', (ROOT / "store/status.c").read_text())[1]


modules = ["python/build_ffi.py:native"] + (["python/build_ffi.py:convert"] if build_ffi.hdf5() else [])
setup(version=version(), cffi_modules=modules, cmdclass={"build_ext": BuildExt}, options={"bdist_wheel": {"py_limited_api": "cp311"}})
