"""Running the command and reading what it made, for the Python tests."""
import json
import os
import signal
import subprocess
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CLI = os.environ.get("ANNBLOCK", str(ROOT / "build/release/annblock"))
TOOLS = Path(os.environ.get("ANNBLOCK_TESTS", ROOT / "build/release/tests"))
EXAMPLE = ROOT / "examples/example.h5ad"
SANITIZED = "asan" in Path(CLI).parts
LONG = bool(os.environ.get("ANNB_TEST_LONG"))
MEMORY_CAP = 1 << 30
DTYPES = dict(zip(range(1, 13), ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]))
DTYPE_NAMES = dict(zip("bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64".split(), DTYPES.values()))


def real_files(folder):
    """The files of one folder of $H5AD_DIR; none where that is not set."""
    base = os.environ.get("H5AD_DIR")
    return sorted(p for p in (Path(base) / folder).iterdir() if p.suffix != ".md") if base and (Path(base) / folder).is_dir() else []


def listed(name):
    """tests/<name>: lines "FILE  reason"."""
    out = {}
    for line in (ROOT / "tests" / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition(" ")
            out[key] = reason.strip()
    return out


@dataclass
class Result:
    args: list
    code: int
    out: str
    err: str
    peak: int  # largest anonymous and shared memory seen, bytes
    seconds: float

    def __str__(self):
        return f"{' '.join(map(str, self.args))}\nexit {self.code}, {self.seconds:.1f} s, {self.peak >> 20} MiB\n{self.out[-2000:]}\n{self.err[-4000:]}"


def memory_of(pid):
    """Of the process and those that it started: it works in one."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return sum(map(memory_of, children)) + (sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(("RssAnon:", "RssShmem:"))) << 10)


def heed_signals():
    """For a child that is to be interrupted: tests may have been started with signals ignored, as by nohup or in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def environment(**more):
    return {**os.environ, "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH, **more}


def run(*args, timeout=120, cwd=None, env=None, **options):
    """Run the command with a time limit, watching its memory. A death by signal or the time running out fails the test."""
    args = [CLI, *map(str, args)]
    if SANITIZED and any("blosc" in a for a in args):  # the plugin keeps memory of its own until the end
        env = {**(env or environment()), "ASAN_OPTIONS": "detect_leaks=0"}
    began = time.monotonic()
    with subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env or environment(), **options) as p:
        peak = 0
        done = threading.Event()

        def watch():
            nonlocal peak
            while not done.wait(0.005):
                peak = max(peak, memory_of(p.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            raise AssertionError(f"{' '.join(args)} did not end within {timeout} s") from None
        finally:
            done.set()
            watcher.join()
    result = Result(args, p.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), peak, time.monotonic() - began)
    assert result.code in (0, 1, 2), f"died: {result}"
    assert SANITIZED or result.peak <= MEMORY_CAP, f"too much memory: {result}"
    return result


def ok(*args, **options):
    result = run(*args, **options)
    assert result.code == 0, str(result)
    return result


def refused(result, name):
    """Exit 1, nothing on stdout, one clear line that names the file."""
    assert result.code == 1, str(result)
    assert result.out == "", str(result)
    lines = result.err.splitlines()
    if SANITIZED and "AddressSanitizer:DEADLYSIGNAL" in result.err:  # of the child in which HDF5 crashed
        lines = lines[-1:]
    assert len(lines) == 1 and lines[0].startswith("annblock: "), str(result)
    assert name in lines[0], f"the message does not name {name}: {lines[0]}"
    assert len(lines[0]) > len("annblock: ") + len(name) + 10, f"too short to be clear: {lines[0]}"
    return lines[0]


def info(store):
    return json.loads(ok("info", store, "--json").out)


def tree(directory):
    """{relative path: bytes} of all files."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(Path(directory).rglob("*")) if p.is_file()}


def sidecar(store):
    found = list((Path(store) / "objects").glob("*.h5ad"))
    assert len(found) == 1, found
    return found[0]


def opens_in_anndata(path):
    import anndata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return anndata.read_h5ad(path)
        except Exception:
            return None


# ---- matrices, as h5py gives them ----


class Rows:
    """A matrix of the source, by rows: the elements that a store must deliver, in order."""

    def __init__(self, node):
        if isinstance(node, h5py.Dataset):
            self.from_dense(node[()])
        else:
            self.from_sparse(node)
        self.values = np.ascontiguousarray(self.values.astype(self.values.dtype.newbyteorder("<"), copy=False))

    def from_dense(self, x):
        bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}") if x.size else np.zeros(x.shape, "u1")
        row, self.indices = np.nonzero(bits)
        self.shape, self.values = x.shape, x[row, self.indices]
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=x.shape[0]))])

    def from_sparse(self, group):
        a = group.attrs
        kind = a["encoding-type"] if "encoding-type" in a else a["h5sparse_format"]
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        self.shape = tuple(int(n) for n in (a["shape"] if "shape" in a else a["h5sparse_shape"]))
        indptr = group["indptr"][()].astype("i8")
        nnz = int(indptr[-1])
        indices, values = group["indices"][:nnz].astype("i8"), group["data"][:nnz]
        if kind.startswith("csc"):
            column = np.repeat(np.arange(self.shape[1]), np.diff(indptr))
            order = np.argsort(indices, kind="stable")
            indptr = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=self.shape[0]))])
            indices, values = column[order], values[order]
        self.indptr, self.indices, self.values = indptr.astype("i8"), indices, values

    def take(self, rows):
        parts = [slice(self.indptr[r], self.indptr[r + 1]) for r in rows]
        counts = np.array([self.indptr[r + 1] - self.indptr[r] for r in rows], "i8")
        pick = lambda x: np.concatenate([x[p] for p in parts]) if parts else x[:0]
        return np.concatenate([[0], np.cumsum(counts)]).astype("i8"), pick(self.indices).astype("i8"), pick(self.values)

    def has_repeats(self):
        row = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        return len(np.unique(row * max(self.shape[1], 1) + self.indices)) != len(self.indices)


def dump(store, *what, rows=()):
    p = subprocess.run([TOOLS / "dump_rows", store, *what], input=np.asarray(rows, "u8").tobytes(), capture_output=True, timeout=120)
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def by_gene(indptr, indices, values):
    """The elements of each row by index, repeats in their order."""
    order = np.lexsort((indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))))
    return indptr, indices[order], values[order]


def fetch_csr(store, matrix, rows):
    raw = dump(store, "csr", matrix, rows=rows)
    n, nnz, dtype = np.frombuffer(raw, "u8", 3)
    at = 24
    indptr = np.frombuffer(raw, "i8", n + 1, at)
    indices = np.frombuffer(raw, "i8", nnz, at + 8 * (n + 1))
    values = np.frombuffer(raw, DTYPES[int(dtype)], nnz, at + 8 * (n + 1 + nnz))
    return indptr, indices, values


def fetch_dense(store, matrix, rows):
    raw = dump(store, "dense", matrix, rows=rows)
    n, n_cols, dtype = np.frombuffer(raw, "u8", 3)
    return np.frombuffer(raw, DTYPES[int(dtype)], n * n_cols, 24).reshape(n, n_cols)


@dataclass
class Column:
    kind: str
    dtype: str
    is_index: bool
    values: list  # bytes, or None where missing
    ordered: bool = False
    categories: list = None


def columns(store, which="columns"):
    """{(axis, name): Column} of the first part; which="joint": of the whole store."""
    out, current = {}, None
    for line in dump(store, which).decode().splitlines():
        if line.startswith("#"):
            _, axis, kind, dtype, index, name, *more = (line + " ").split(" ")
            current = Column({"1": "fixed", "2": "string", "3": "categorical"}[kind], dtype, index == "1", [])
            if which == "joint":
                current.ordered = more[0] == "1"
                current.categories = [bytes.fromhex(c[1:]) for c in more[1].split(",") if c]
            out[axis, bytes.fromhex(name).decode()] = current
        else:
            current.values.append(None if line == "-" else bytes.fromhex(line[1:]))
    return out
