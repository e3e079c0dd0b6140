"""The Python examples of README.md, run as they are written: readme.py. In a new folder beside `examples/`, one after the other."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def examples():
    """The Python code of section "From Python", a block each."""
    section = re.search(r"^## From Python$(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    return re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)


def run(folder):
    """Each block in a Python of its own, as a reader pastes them; CalledProcessError when one fails."""
    (Path(folder) / "examples").symlink_to(ROOT / "examples")
    blocks = examples()
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], cwd=folder, check=True)
    return blocks


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(f"{len(run(folder))} examples of README.md run as written, with Python {sys.version.split()[0]}")
