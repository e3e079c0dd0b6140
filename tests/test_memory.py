"""Packing and exporting stay within --memory and what a process takes anyway, however many cells there are and however long a row is."""
import filecmp
import shutil
import subprocess
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from made_files import encode, write_frame
from support import SANITIZED, ok, refused, run

CAP = 128 << 20
SPARE = 64 << 20  # libraries, tables of the store, stacks of threads
GENES, PER_ROW = 5000, 1000
CELLS = 8000  # twice as many are 128 MB of values and indices: as much as the cap

pytestmark = pytest.mark.skipif(SANITIZED, reason="sanitizers take memory of their own")
MEMORY = ("--memory", f"{CAP >> 20}M", "--threads", 2)


def in_memory(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True).stdout.strip() in ("tmpfs", "ramfs")


@pytest.fixture
def folder(tmp_path):
    """On a disk: where files lie in memory, the kernel counts a mapped store as shared memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp" if in_memory(tmp_path) else tmp_path) as path:
        if in_memory(path):
            pytest.skip("no folder on a disk")
        yield Path(path)


def ascending(n, per, limit, rng):
    """n lists of `per` numbers below limit, each ascending without repeats."""
    step = limit // per
    return (np.arange(per) * step + rng.integers(0, step, (n, per))).astype("i4").reshape(-1)


def write_arrays(f, name, form, shape, lengths, indices):
    g = encode(f.create_group(name), form + "_matrix", "0.1.0")
    g.attrs["shape"] = np.array(shape, "i8")
    g["data"] = (indices % 11 + 1).astype("f4")
    g["indices"] = indices
    g["indptr"] = np.concatenate([[0], np.cumsum(lengths)])


def write_tables(f, cells, genes):
    encode(f, "anndata", "0.1.0")
    write_frame(f, "obs", [f"cell{i}" for i in range(cells)])
    write_frame(f, "var", [f"gene{i}" for i in range(genes)])


def make(path, form, cells):
    rng = np.random.default_rng(cells)
    with h5py.File(path, "w") as f:
        genes = 2000 if form == "dense" else GENES
        write_tables(f, cells, genes)
        if form == "dense":
            x = f.create_dataset("X", (cells, genes), "f4")
            encode(x, "array", "0.2.0")
            for at in range(0, cells, 1000):
                x[at : at + 1000] = rng.integers(0, 4, (1000, genes))
        elif form == "csr":
            write_arrays(f, "X", form, (cells, genes), np.full(cells, PER_ROW), ascending(cells, PER_ROW, genes, rng))
        else:
            per = cells * PER_ROW // genes
            write_arrays(f, "X", form, (cells, genes), np.full(genes, per), ascending(genes, per, cells, rng))


def within(result):
    assert result.peak <= CAP + SPARE, str(result)
    return result.peak


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_the_peak_does_not_grow_with_the_cells(folder, form):
    """Twice the cells are as much data as the cap."""
    pack, export = [], []
    for cells in (CELLS // 2, CELLS, 2 * CELLS):
        source, store, out = folder / "a.h5ad", folder / f"{cells}.annblock", folder / "out.h5ad"
        make(source, form, cells)
        pack.append(within(ok("pack", source, "-o", store, *MEMORY)))
        export.append(within(ok("export", store, "-o", out, *MEMORY)))
        if cells == CELLS:
            assert ok("convert-check", source, out).out.startswith("ok")
        source.unlink()
        out.unlink()
    for peaks in (pack, export):
        assert peaks[2] <= peaks[1] + (16 << 20), [p >> 20 for p in peaks]


def test_parts_and_a_subset_of_genes(folder):
    """Where the number of elements is not known beforehand, and compressed."""
    source, store, genes = folder / "a.h5ad", folder / "s", folder / "genes"
    make(source, "csr", CELLS)
    ok("pack", source, source, "-o", store, *MEMORY)
    genes.write_text("\n".join(f"gene{i}" for i in range(GENES - 1, 0, -2)))
    for options in ([], ["--part", 1], ["--compression", "gzip:1"]):
        within(ok("export", store, "-o", folder / "out.h5ad", "--force", "--genes-file", genes, *options, *MEMORY))
    within(ok("export", store, "-o", folder / "out.h5ad", "--force", *MEMORY))
    ok("export", store, "-o", folder / "again.h5ad", "--threads", 3, "--memory", "32M")
    assert filecmp.cmp(folder / "out.h5ad", folder / "again.h5ad", shallow=False)


# ---- CSC, whose rows are gathered window by window ----


@pytest.mark.parametrize("chunks", [None, True, 5000])
def test_a_wide_matrix_by_columns(chunks, folder):
    """More data than the cap, contiguous and in chunks; the same store as through temporary files, which compressed columns take."""
    source, zipped = folder / "a.h5ad", folder / "b.h5ad"
    make(source, "csc", 2 * CELLS)
    for path, options in ((source, dict(chunks=chunks)), (zipped, dict(compression="lzf"))):
        if path != source:
            shutil.copy(source, path)
        with h5py.File(path, "r+") as f:
            for name in ("data", "indices") if chunks or path != source else ():
                values = f["X"][name][()]
                del f["X"][name]
                f["X"].create_dataset(name, data=values, **options)
    within(ok("pack", source, "-o", folder / "s", *MEMORY))
    within(ok("pack", zipped, "-o", folder / "t", *MEMORY))
    assert segments(folder / "s") == segments(folder / "t")


def test_many_thin_rows_by_columns(folder):
    """Three million cells of one or two elements: tables must not grow with the rows. And with all elements in few rows."""
    cells, genes, per = 3_000_000, 40, 100_000
    rng = np.random.default_rng(3)
    for name, indices in (("even", ascending(genes, per, cells, rng)), ("uneven", np.tile(np.arange(per, dtype="i4") + cells // 2, genes))):
        source = folder / f"{name}.h5ad"
        with h5py.File(source, "w") as f:
            write_tables(f, cells, genes)
            write_arrays(f, "X", "csc", (cells, genes), np.full(genes, per), indices)
        within(ok("pack", source, "-o", folder / name, *MEMORY))
        ok("export", folder / name, "-o", folder / "out.h5ad", "--force", *MEMORY)
        assert ok("convert-check", source, folder / "out.h5ad").out.startswith("ok")


def segments(store):
    return sorted(p.name for p in (store / "objects").iterdir() if p.suffix == ".anns")


# ---- long rows ----

COLUMNS = 4_000_000


def make_rows(path, lengths):
    """An array of obsm with rows of these lengths, about: its columns have no names that would take memory."""
    rng = np.random.default_rng(1)
    rows = [np.flatnonzero(rng.random(COLUMNS) < n / COLUMNS).astype("i4") for n in lengths]
    with h5py.File(path, "w") as f:
        write_tables(f, len(rows), 3)
        write_arrays(f, "X", "csr", (len(rows), 3), np.ones(len(rows), "i8"), np.arange(len(rows), dtype="i4") % 3)
        encode(f.create_group("obsm"), "dict", "0.1.0")
        write_arrays(f, "obsm/x", "csr", (len(rows), COLUMNS), [len(r) for r in rows], np.concatenate(rows))


def test_two_giant_rows(folder):
    source, store, out = folder / "a.h5ad", folder / "s", folder / "out.h5ad"
    make_rows(source, [10, 3_000_000, 20, 3_000_000, 5])
    within(ok("pack", source, "-o", store, "--matrix", "all", *MEMORY))
    for options in ([], ["--compression", "gzip:1"], ["--rows", "1:4"]):
        within(ok("export", store, "-o", out, "--force", *options, *MEMORY))
    ok("export", store, "-o", out, "--force", *MEMORY)
    assert ok("convert-check", source, out).out.startswith("ok")


def test_a_row_above_the_cap_is_refused(folder):
    source, store, out = folder / "a.h5ad", folder / "s", folder / "out.h5ad"
    make_rows(source, [10, 3_500_000, 20])
    small = ("--memory", "32M", "--threads", 2)
    result = run("pack", source, "-o", store, "--matrix", "all", *small)
    assert "row 1 has 3" in refused(result, "a.h5ad"), str(result)
    within(result)
    assert not store.exists()
    ok("pack", source, "-o", store, "--matrix", "all")
    result = run("export", store, "-o", out, *small)
    assert "row 1 of obsm/x has 3" in refused(result, "s"), str(result)
    within(result)
    assert sorted(p.name for p in folder.iterdir()) == ["a.h5ad", "s"]


def test_a_row_of_columns_above_the_cap_is_refused(folder):
    """CSC columns that repeat one row, and do not ascend: they go through the transposer."""
    source, store = folder / "a.h5ad", folder / "s"
    columns, each = 100, 40_000
    indices = np.full(columns * each, 2, "i4")
    indices[1] = 0
    with h5py.File(source, "w") as f:
        write_tables(f, 4, columns)
        write_arrays(f, "X", "csc", (4, columns), np.full(columns, each), indices)
    result = run("pack", source, "-o", store, "--memory", "32M", "--threads", 2)
    assert "X: row 2 has 3999999 elements" in refused(result, "a.h5ad"), str(result)
    within(result)
    assert not store.exists()
