"""Conversions and fork."""

import os
import signal
import threading

import annblock
import pytest


@pytest.mark.filterwarnings("ignore")
def test_fork_while_another_thread_packs(example_h5ad, tmp_path):
    """The new process has a copy of the lock, which nobody there would let go of."""
    from annblock._progress import alone

    packing, go_on = threading.Event(), threading.Event()

    def hold():
        with alone():
            packing.set()
            go_on.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    packing.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os._exit(annblock.pack(example_h5ad, tmp_path / "child").n_obs != 2000)
        finally:
            os._exit(9)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    thread.join()
    assert status == 0
