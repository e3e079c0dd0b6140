"""One minibatch, and how the memory of the C loader becomes arrays."""

from functools import partial
from operator import is_

import numpy as np

from ._c import ffi, lib

INT64, INT32 = np.dtype(np.int64), np.dtype(np.int32)
INDEX = {False: INT32, True: INT64}
buffer, gc, frombuffer = ffi.buffer, ffi.gc, np.frombuffer


class Batch(dict):
    """A minibatch: a dictionary whose keys are also attributes.

    `X` and the other matrices asked for, by name, n × genes (csr_array, numpy array or torch tensor: as `output` says); `obs`: a dictionary
    with the n codes of each label (int32, tensors int64; -1 = missing); `rows`: the n row numbers (int64; of all stores together); `epoch`,
    `step` (of this rank), `batch` (its number in the epoch), each an int. `batch["cell_line"]` finds a label too. The memory goes
    back to the loader when the arrays are dropped.
    """

    def __missing__(self, key):
        obs = self.get("obs")
        if obs is not None and key in obs:
            return obs[key]
        raise KeyError(key)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the batch has no {name!r}; it has {', '.join(map(repr, self))}") from None

    def map(self, function):
        """A batch with `function` applied to every array and tensor."""
        return Batch(
            (k, {n: function(v) for n, v in v.items()} if k == "obs" else v if isinstance(v, int) else function(v)) for k, v in self.items()
        )

    def pin_memory(self, device=None):
        """With torch tensors: the same in pinned memory (DataLoader's pin_memory calls this)."""
        return self.map(lambda v: v.pin_memory() if hasattr(v, "pin_memory") else v)

    def to(self, *args, **kwargs):
        """With torch tensors: the same on another device, as Tensor.to."""
        return self.map(lambda v: v.to(*args, **kwargs) if hasattr(v, "pin_memory") else v)

    def __repr__(self):
        return "Batch(" + ", ".join(f"{k}={describe(v)}" for k, v in self.items()) + ")"


def describe(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {describe(v)}" for k, v in value.items()) + "}"
    if hasattr(value, "shape"):
        return f"<{type(value).__name__} {'×'.join(map(str, value.shape))} {value.dtype}>"
    return repr(value)


class Memory:
    """Holds one C batch until no array needs it."""

    __slots__ = ("keep",)

    def __init__(self, held):
        # What cffi calls when a pointer of an array is dropped, and keeps until then: something that holds the batch and does nothing,
        # without a frame of Python.
        self.keep = partial(is_, held)

    def array(self, pointer, n, dtype):
        """An array over n values; numpy's __array_interface__ would take several times as long."""
        return frombuffer(buffer(gc(pointer, self.keep), n * dtype.itemsize), dtype) if n else np.empty(0, dtype)

    def csr(self, m, n_rows, dtype):
        """(indptr, indices, values) of a sparse annb_batch_matrix."""
        index, nnz, array = INDEX[m.index64], m.nnz, self.array
        return array(m.indptr, n_rows + 1, INT64), array(m.indices, nnz, index), array(m.values, nnz, dtype)

    def dense(self, m, n_rows, dtype):
        n_cols = m.n_cols
        return self.array(m.values, n_rows * n_cols, dtype).reshape(n_rows, n_cols)


class Csr:
    """Makes csr_array without the checks of its constructor, which take longer than the rest of a batch."""

    def __init__(self, n_cols, sorted_indices):
        import scipy.sparse

        self.kind = scipy.sparse.csr_array
        self.n_cols, self.sorted = n_cols, bool(sorted_indices)
        example = self.kind((np.ones(1, np.float32), np.zeros(1, np.int32), np.array([0, 1], np.int32)), shape=(1, max(n_cols, 1)))
        if self.sorted:
            example.has_sorted_indices = True
        self.example = dict(vars(example))
        self.known = {"_shape", "data", "indices", "indptr"} <= self.example.keys()

    def __call__(self, indptr, indices, values):
        shape = (len(indptr) - 1, self.n_cols)
        indptr = indptr.astype(indices.dtype)  # scipy wants the two to be alike
        if not self.known:
            out = self.kind((values, indices, indptr), shape=shape)
            if self.sorted:
                out.has_sorted_indices = True
            return out
        out = self.kind.__new__(self.kind)
        out.__dict__ = {**self.example, "_shape": shape, "data": values, "indices": indices, "indptr": indptr}
        return out


def csr_to_torch(n_cols):
    """CSR arrays as a torch.sparse_csr tensor."""
    import torch

    def make(indptr, indices, values):
        pointers, columns, data = [torch.from_numpy(a) for a in (indptr.astype(indices.dtype), indices, values)]
        return torch.sparse_csr_tensor(pointers, columns, data, (len(indptr) - 1, n_cols), check_invariants=False)

    return make


def wrap(batch, matrices, labels, tensor, owner=None):
    """The Batch of a filled annb_batch, which it keeps, and `owner` with it, until its arrays are gone.

    `matrices`: (name, dtype, what makes a sparse matrix of its arrays) of each; `tensor`: torch.from_numpy or None.
    """
    memory, n = Memory((batch, owner)), batch.n_rows
    out = Batch()
    for i, (name, dtype, make) in enumerate(matrices):
        m = batch.matrices[i]
        if m.dense:
            values = memory.dense(m, n, dtype)
            out[name] = tensor(values) if tensor else values
        else:
            out[name] = make(*memory.csr(m, n, dtype))
    codes = [memory.array(batch.labels[i], n, INT32) for i in range(len(labels))]
    rows = memory.array(batch.rows, n, INT64)
    if tensor:
        codes, rows = [tensor(c).long() for c in codes], tensor(rows)
    out["obs"] = dict(zip(labels, codes))
    out["rows"] = rows
    out["epoch"], out["step"], out["batch"] = batch.epoch, batch.step, batch.batch
    return out


def empty():
    """A structure for annb_loader_next; its memory goes back when the last array over it is gone."""
    return ffi.gc(ffi.new("annb_batch *"), lib.annb_batch_release)
