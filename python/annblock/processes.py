"""How many threads there may be here, and whether this is a worker process of torch's DataLoader."""

import os
import sys


def worker_info():
    data = sys.modules.get("torch.utils.data")
    return data.get_worker_info() if data is not None else None


def in_worker():
    return worker_info() is not None


def usual_threads(most):
    """One per processor that this process may use; one in worker processes, of which there are many."""
    return 1 if in_worker() else min(len(os.sched_getaffinity(0)), most)
