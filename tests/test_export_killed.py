"""What exports that were killed leave beside their output, and what the next one removes."""
import fcntl
import signal
import subprocess
import time

import pytest

from support import CLI, EXAMPLE, environment, ok

DEAD, LIVE = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "s"
    ok("pack", EXAMPLE, "-o", path)
    return path


def names(directory):
    return sorted(p.name for p in directory.iterdir())


@pytest.mark.parametrize("options", [(), ("--rows", "10:")])
def test_killed(store, tmp_path, options):
    left, began = set(), time.monotonic()
    ok("export", store, "-o", tmp_path / "o.h5ad", *options)
    took = time.monotonic() - began
    whole = (tmp_path / "o.h5ad").read_bytes()
    for i in range(12):
        command = [CLI, "export", store, "-o", tmp_path / "o.h5ad", "--force", *options]
        p = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
        time.sleep(took * i / 12)
        p.send_signal(signal.SIGKILL)
        p.wait()
        left |= {name[-5:] for name in names(tmp_path)}
        assert (tmp_path / "o.h5ad").read_bytes() == whole
        assert len(names(tmp_path)) <= 4  # of the last one alone
    assert ".lock" in left
    ok("export", store, "-o", tmp_path / "o.h5ad", "--force", *options)
    assert names(tmp_path) == ["o.h5ad"] and (tmp_path / "o.h5ad").read_bytes() == whole


def test_what_is_left_alone(store, tmp_path):
    """Files of an export that goes on, and other names."""
    dead = [f".annblock-export-{DEAD}{end}" for end in (".lock", ".tmp", ".cut")] + [f".annblock-export-{'a' * 16}.tmp"]
    live = [f".annblock-export-{LIVE}{end}" for end in (".lock", ".tmp", ".cut")]
    others = [".annblock-export-1.tmp", f".annblock-export-{DEAD}.tmp.h5ad", f"annblock-export-{DEAD}.tmp"]
    others.append(f".annblock-export-{DEAD.upper()}.tmp")
    for name in dead + live + others:
        (tmp_path / name).touch()
    with open(tmp_path / live[0], "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ok("export", store, "-o", tmp_path / "a.h5ad")
        assert names(tmp_path) == sorted([*live, *others, "a.h5ad"])
    ok("export", store, "-o", tmp_path / "b.h5ad")
    assert names(tmp_path) == sorted([*others, "a.h5ad", "b.h5ad"])
