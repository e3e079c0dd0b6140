"""The cffi modules of the package, declared from the public headers themselves, so that the two cannot drift apart."""

import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent
VARIANT = "python"
BUILD = f"build/{VARIANT}"
STANDARD = ("assert", "stdbool", "stddef", "stdint")
PKG_CONFIG = os.environ.get("PKG_CONFIG", "pkg-config")


def pkg_config(*arguments):
    """The words that pkg-config answers; SystemExit with what to install when it fails."""
    try:
        found = subprocess.run([PKG_CONFIG, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit("annblock needs pkg-config to build (Debian: apt-get install pkg-config)") from None
    if found.returncode:
        raise SystemExit(
            f"annblock needs C libraries that are not installed: {found.stderr.strip()}\n"
            "On Debian and Ubuntu: apt-get install gcc make pkg-config liblz4-dev libxxhash-dev nettle-dev, "
            "and libhdf5-dev libdeflate-dev for pack and export"
        )
    return found.stdout.split()


@functools.cache
def hdf5():
    """HDF5's name for pkg-config, or None where it is not installed. ANNBLOCK_NO_HDF5=1 leaves the converter out."""
    if os.environ.get("ANNBLOCK_NO_HDF5"):
        return None
    for name in ("hdf5-serial", "hdf5"):
        if subprocess.run([PKG_CONFIG, "--exists", name]).returncode == 0:
            return name
    return None


def declarations(*headers):
    """What the headers declare, for cffi: preprocessed, without system headers and assertions."""
    with tempfile.TemporaryDirectory() as empty:
        for name in STANDARD:
            Path(empty, name + ".h").touch()
        lines = [f"#include <annblock/{h}.h>" for h in headers]
        command = [*os.environ.get("CC", "cc").split(), "-E", "-P", "-std=c11", "-nostdinc", f"-I{empty}", f"-I{ROOT / 'include'}", "-"]
        text = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    text = re.sub(r"_Static_assert\s*\((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\((?:[^()]|\([^()]*\))*\))*\)\s*;", "", text)
    return re.sub(r"UINT64_C\(([0-9]+)\)", r"\1", text)


def static(package, name):
    """The static library, so that the wheel needs no other file; else the shared one."""
    for flag in pkg_config("--variable=libdir", package):
        path = Path(flag) / f"lib{name}.a"
        if path.exists() and not os.environ.get("ANNBLOCK_SHARED"):
            return str(path)
    return None


def link(libraries, packages):
    """Arguments of set_source: our archives, then their dependencies."""
    objects, flags = [f"{BUILD}/{name}" for name in libraries], []
    for package, name in packages:
        archive = static(package, name)
        if archive:
            objects.append(archive)
        else:
            flags += pkg_config("--libs", package)
    return {
        "extra_objects": objects,
        "depends": objects[: len(libraries)],
        "extra_link_args": [*flags, "-pthread", "-Wl,--exclude-libs,ALL"],
    }


def glue(name):
    return (ROOT / "python" / f"{name}_glue.h").read_text()


def build(module, headers, libraries, packages, more_flags=()):
    ffi = FFI()
    ffi.cdef(declarations(*headers))
    source = "".join(f"#include <annblock/{h}.h>\n" for h in headers)
    cdef, code = glue(module).split("/* ---- code ---- */")
    ffi.cdef(re.sub(r"/\*.*?\*/", "", cdef, flags=re.S))
    options = link(libraries, packages)
    options["extra_link_args"] += list(more_flags)
    ffi.set_source(f"annblock._{module}", source + code, include_dirs=[str(ROOT / "include")], **options)
    return ffi


STORE = [("liblz4", "lz4"), ("nettle", "nettle")]


def native():
    return build("native", ["annblock"], ["libannblock.a"], STORE)


def convert():
    # The converter uses private helpers of the store, so the module has a copy of it; handles do not cross between the two.
    return build(
        "convert",
        ["annblock", "convert"],
        ["libannblock-convert.a", "libannblock.a"],
        [*STORE, ("libdeflate", "deflate")],
        pkg_config("--libs", hdf5()),
    )
