"""Ctrl-C during conversions."""

import os
import signal
import subprocess
import sys

import annblock
import numpy as np
import pytest
import scipy.sparse as sp

INTERRUPTED = """
import sys, threading, time, os, signal, annblock
def later():
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=later, daemon=True).start()
try:
    annblock.pack(sys.argv[1], sys.argv[2], threads=1, memory="32M")
except KeyboardInterrupt:
    print("interrupted", os.path.exists(sys.argv[2]))
"""


def test_interrupt(tmp_path):
    import anndata

    x = sp.random(30000, 2000, 0.1, "csr", np.float32, np.random.default_rng(0))
    anndata.AnnData(x).write_h5ad(tmp_path / "big.h5ad")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "big.h5ad", tmp_path / "s"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["interrupted", "False"], done


INTERRUPTED_ANY_TIME = """
import os, shutil, signal, sys, threading, time, warnings, annblock
signal.signal(signal.SIGINT, signal.default_int_handler)
source, store = sys.argv[1:]
began = time.monotonic()
annblock.pack(source, store)
took, ends = time.monotonic() - began, {"done": 0, "late": 0, "interrupted": 0, "beside": 0}
for i in range(40):
    shutil.rmtree(store, ignore_errors=True)
    timer, end = threading.Timer(took * (i + 1) / 30, os.kill, (os.getpid(), signal.SIGINT)), "interrupted"
    try:
        timer.start()
        with warnings.catch_warnings(record=True) as told:
            annblock.pack(source, store, in_process=i % 2 == 1)
            end = "late" if any("Ctrl-C" in str(w.message) for w in told) else "done"
        if end == "done":
            time.sleep(10)
    except KeyboardInterrupt:
        if end == "interrupted" and os.path.exists(store):
            end = "beside"  # between the last look of the call and this line
    timer.join()
    ends[end] += 1
    assert end == "interrupted" or annblock.open(store).n_obs == 2000
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert ends["interrupted"] and ends["beside"] < 2, ends
print("ok", ends)
"""


def test_interrupt_any_time(tmp_path, example_h5ad):
    """Ctrl-C during a call leaves nothing, or the call returns: never an exception beside a store that is there."""
    args = [sys.executable, "-c", INTERRUPTED_ANY_TIME, example_h5ad, tmp_path / "s"]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("ok"), done


class AndThen:
    """The C library, with something done after one of its functions."""

    def __init__(self, lib, name, after):
        self.lib, self.name, self.after = lib, name, after

    def __getattr__(self, name):
        function = getattr(self.lib, name)
        if name != self.name:
            return function

        def call(*arguments):
            status = function(*arguments)
            self.after()
            return status

        return call


def test_interrupt_too_late(tmp_path, example_h5ad, monkeypatch):
    def after(name):
        return AndThen(annblock.convert.lib, name, lambda: os.kill(os.getpid(), signal.SIGINT))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for name in ("annb_pack_many", "annb_append", "annb_annotate", "annb_export"):
            with monkeypatch.context() as patch, pytest.warns(UserWarning, match="Ctrl-C came when it was done"):
                patch.setattr(annblock.convert, "lib", after(name))
                if name == "annb_pack_many":
                    assert annblock.pack(example_h5ad, tmp_path / "s").n_obs == 2000
                elif name == "annb_append":
                    assert annblock.append(example_h5ad, tmp_path / "s").n_parts == 2
                elif name == "annb_annotate":
                    assert annblock.annotate(tmp_path / "s", example_h5ad, part=0) == 3
                else:
                    annblock.export(tmp_path / "s", tmp_path / "out.h5ad", part=1)
        assert annblock.compare(example_h5ad, tmp_path / "out.h5ad") == []
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with monkeypatch.context() as patch:  # what failed fails, and a failure that Ctrl-C came with is Ctrl-C
            patch.setattr(annblock.convert, "lib", after("annb_pack_many"))
            with pytest.raises(KeyboardInterrupt):
                annblock.pack(example_h5ad, tmp_path / "s")
    finally:
        signal.signal(signal.SIGINT, before)
