"""Calls into C that take long: progress on a terminal or in a notebook, Ctrl-C, what callbacks raise."""

import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager

from ._native import lib

CANCELED = lib.ANNB_ECANCELED


class Run:
    """What the callbacks of one call share. `raised` is what a callback raised; it ends the call and is raised again after it."""

    def __init__(self, progress, label):
        self.bar, self.raised, self.stage = make_bar(progress, label), None, None
        self.label, self.interrupted, self.commits = label, False, False

    def step(self, stage, done, total):
        """From the progress callback: False cancels. Runs Python code, so that Ctrl-C arrives here."""
        if self.bar is None:
            return True
        if stage != self.stage:
            self.stage = stage
            self.bar.reset(total or None)
            self.bar.set_description(f"{self.label}: {stage}" if stage else self.label)
        if total:
            self.bar.total = total
        self.bar.n = done
        self.bar.update(0)
        return True

    def guard(self, function, *arguments):
        """Call `function` from a callback; on an exception keep it and say stop."""
        if self.raised is None and self.interrupted:
            self.raised = KeyboardInterrupt()
        if self.raised is not None:
            return False
        try:
            return bool(function(*arguments))
        except BaseException as error:
            self.raised = error
            return False

    @contextmanager
    def publishing(self):
        """Around a call that publishes something at its end. Ctrl-C reaches it by its callbacks alone, which cancel it, or comes too late:
        then the call has succeeded and returns. A handler of the program's own is left to it."""
        ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self.commits = True
        if ours:
            signal.signal(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(self, *_):
        self.interrupted = True

    def close(self, status, error, exception):
        """End with what a callback raised, or the call's own failure."""
        if self.bar is not None:
            self.bar.close()
        if self.commits and not status and (self.interrupted or isinstance(self.raised, KeyboardInterrupt)):
            warnings.warn(f"{self.label}: Ctrl-C came when it was done: the result is there", stacklevel=5)
            return
        if self.interrupted and self.raised is None:
            self.raised = KeyboardInterrupt()
        if self.raised is not None:
            raise self.raised
        if status == CANCELED:  # nothing but Ctrl-C ends a callback outside of guard()
            raise KeyboardInterrupt
        if status:
            raise exception(error)


def ignore(*_):
    """For exceptions that close() tells."""


def make_bar(progress, label):
    """A tqdm bar when `progress` asks for one and somebody can see it; None when not, or without tqdm."""
    if not progress or not (sys.stderr.isatty() or "ipykernel" in sys.modules or progress == "always"):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=label, unit_scale=True, leave=False)


held = {"lock": threading.Lock()}


def alone():
    """`with alone():` one conversion at a time in a process, because HDF5 is not thread-safe."""
    return held["lock"]


def renew():
    """A process that is forked during a conversion has no thread that would ever let go of the parent's lock."""
    held["lock"] = threading.Lock()


os.register_at_fork(after_in_child=renew)
