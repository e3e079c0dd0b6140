"""What type checkers see of the package: a program with types over the public API passes mypy's strictest settings."""

import os
import subprocess
import sys
from pathlib import Path

import annblock
import pytest

HERE = Path(__file__).resolve().parent


def mypy(program, tmp_path):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", f"--config-file={os.devnull}", f"--cache-dir={tmp_path}"]
    return subprocess.run([*command, program], cwd=tmp_path, capture_output=True, text=True)


def test_strict(tmp_path):
    done = mypy(HERE / "typed_use.py", tmp_path)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text('import annblock\nx: str = annblock.open(3).shape\nannblock.pack("a", "b", thread=1)\nannblock.opened\n')
    found = mypy(wrong, tmp_path).stdout
    assert all(f"wrong.py:{line}: error" in found for line in (2, 3, 4)) and "Found 4 errors" in found, found


def test_public_names():
    assert sorted(annblock.__all__) == annblock.__all__ and all(hasattr(annblock, name) for name in annblock.__all__)
    assert set(annblock.LAZY) < set(annblock.__all__) <= set(dir(annblock))
    for name in annblock.__all__:
        assert getattr(annblock, name).__doc__, name
