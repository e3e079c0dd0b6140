"""New metadata for cells that are packed: the matrices stay, everything else is the new file's."""
import resource
import shutil
import signal
import subprocess
import time
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import support
from support import fetch_dense, ok, run, tree
from test_parts import GENES_A, cells, check_obs, check_x

ad = pytest.importorskip("anndata")
warnings.simplefilter("ignore")


@pytest.fixture
def packed(tmp_path):
    a = cells(1, 70, GENES_A, ["B", "T", "NK"])
    a.layers["counts"] = a.X.astype("i4")
    a.obsm["X_pca"] = np.random.default_rng(3).random((70, 5))
    a.uns["old"] = "yes"
    a.write_h5ad(tmp_path / "a.h5ad")
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    return a


def renewed(a, **more):
    """The same cells and genes with other labels, without X."""
    new = ad.AnnData(obs=a.obs.copy(), var=a.var.copy(), **more)
    new.obs["label"] = pd.Categorical(["alpha", "beta"] * 35, ["beta", "alpha", "gamma"])
    new.obs["extra"] = np.arange(70)
    del new.obs["score"]
    new.var["chrom"] = "chr1"
    new.uns["new"] = {"deep": np.arange(3)}
    return new


def check_export(a, new, store, out, *more):
    """`new` with the matrix of `a`."""
    ok("export", store, "-o", out, *more)
    found = ad.read_h5ad(out)
    pd.testing.assert_frame_equal(found.obs, new.obs)
    pd.testing.assert_frame_equal(found.var, new.var)
    assert set(found.uns) == set(new.uns) and "old" not in found.uns
    assert np.array_equal(found.X.todense(), a.X.todense()) and found.X.dtype == a.X.dtype and found.X.format == a.X.format
    with h5py.File(out) as f:
        assert not any(name.startswith("annblock") for name in [*f, *f["X"], *f["X"].attrs, *f["X/data"].attrs])


@pytest.mark.parametrize("x", [None, "csr", "csc", "dense"])
def test_annotate(packed, tmp_path, x):
    """Whatever the new file has as X: the store's stays, in the form and type of the source."""
    make = {None: lambda: None, "csr": lambda: sp.csr_matrix(np.ones((70, 60))), "csc": lambda: sp.csc_matrix(np.eye(70, 60)), "dense": lambda: np.zeros((70, 60), "i2")}[x]
    new = renewed(packed, X=make())
    new.write_h5ad(tmp_path / "new.h5ad")
    store = tmp_path / "s"
    before = tree(store)
    result = ok("annotate", store, "--from", tmp_path / "new.h5ad")
    assert ("X of" in result.err and "is ignored" in result.err) == (x is not None)
    after = tree(store)
    assert all(after[k] == v for k, v in before.items()) and not any(k.endswith(".anns") for k in after.keys() - before.keys())
    ok("verify", store)
    check_x(store, packed.X)
    assert check_obs(store, new.obs)["obs", "label"].categories == [b"beta", b"alpha", b"gamma"]
    check_export(packed, new, store, tmp_path / "out.h5ad")
    ok("export", store, "-o", tmp_path / "old.h5ad", "--generation", 1)
    ok("convert-check", tmp_path / "a.h5ad", tmp_path / "old.h5ad")
    ok("annotate", store, "--from", tmp_path / "a.h5ad")  # and back: nothing is lost on the way
    ok("export", store, "-o", tmp_path / "back.h5ad")
    ok("convert-check", tmp_path / "a.h5ad", tmp_path / "back.h5ad")


def test_other_matrices(packed, tmp_path):
    store = tmp_path / "s"
    ok("pack", tmp_path / "a.h5ad", "-o", store, "--force", "--matrix", "all")
    new = renewed(packed, X=packed.X)
    new.layers["counts"] = sp.csr_matrix((70, 60), dtype="i4")
    new.obsm["X_umap"] = np.zeros((70, 2))
    new.write_h5ad(tmp_path / "new.h5ad")
    assert "obsm/X_pca" in support.refused(run("annotate", store, "--from", tmp_path / "new.h5ad"), "new.h5ad")
    new.obsm["X_pca"] = np.zeros((70, 4))
    new.write_h5ad(tmp_path / "new.h5ad")
    last = run("annotate", store, "--from", tmp_path / "new.h5ad")
    assert last.code == 1 and "4 columns" in last.err and "5" in last.err
    new.obsm["X_pca"] = np.zeros((70, 5))
    new.write_h5ad(tmp_path / "new.h5ad")
    ok("annotate", store, "--from", tmp_path / "new.h5ad")
    check_export(packed, new, store, tmp_path / "out.h5ad")
    found = ad.read_h5ad(tmp_path / "out.h5ad")
    assert np.array_equal(found.obsm["X_pca"], packed.obsm["X_pca"]) and found.obsm["X_umap"].shape == (70, 2)
    assert np.array_equal(found.layers["counts"].todense(), packed.layers["counts"].todense())
    ok("verify", store)


def test_part_of_several(packed, tmp_path):
    b = cells(2, 40, GENES_A, ["z"])
    b.write_h5ad(tmp_path / "b.h5ad")
    store = tmp_path / "s"
    ok("append", store, tmp_path / "b.h5ad")
    new = renewed(packed, X=packed.X)
    new.write_h5ad(tmp_path / "new.h5ad")
    assert "--part K (0 to 1)" in support.refused(run("annotate", store, "--from", tmp_path / "new.h5ad"), "s")
    support.refused(run("annotate", store, "--from", tmp_path / "new.h5ad", "--part", 1), "new.h5ad")
    support.refused(run("annotate", store, "--from", tmp_path / "new.h5ad", "--part", 2), "s")
    ok("annotate", store, "--from", tmp_path / "new.h5ad", "--part", 0)
    found = check_obs(store, ad.concat([new, b], join="outer").obs)
    assert found["obs", "label"].categories == [b"beta", b"alpha", b"gamma", b"z"]
    check_export(packed, new, store, tmp_path / "out.h5ad", "--part", 0)
    ok("export", store, "--part", 1, "-o", tmp_path / "b2.h5ad")
    ok("convert-check", tmp_path / "b.h5ad", tmp_path / "b2.h5ad")
    ok("verify", store)


def test_other_cells_are_refused(packed, tmp_path):
    store = tmp_path / "s"
    before = tree(store)

    def refuse(new, text):
        new.write_h5ad(tmp_path / "new.h5ad")
        assert text in support.refused(run("annotate", store, "--from", tmp_path / "new.h5ad"), "new.h5ad")
        assert tree(store) == before and not list((store / "tmp").iterdir())

    refuse(renewed(packed)[:69].copy(), "69 cells")
    new = renewed(packed)
    new.obs_names = list(new.obs_names[:-1]) + ["other"]
    refuse(new, "cell 69 is 'other', in the store 's1_69'")
    new = renewed(packed)
    new.var_names = list(new.var_names[1::-1]) + list(new.var_names[2:])
    refuse(new, "gene 0 is 'g1', in the store 'g0'")


def test_full_disk(packed, tmp_path):
    store = tmp_path / "s"
    renewed(packed, X=packed.X).write_h5ad(tmp_path / "new.h5ad")
    before = tree(store)
    for limit in (100, 2000, 5000, 9000, 15000, 20000):
        result = run("annotate", store, "--from", tmp_path / "new.h5ad", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        assert result.code == 1, (limit, str(result))
        assert tree(store) == before and not list((store / "tmp").iterdir())


def test_killed(packed, tmp_path):
    """kill -9 at many moments: one generation or the other, and the next writer cleans up."""
    store, copy = tmp_path / "s", tmp_path / "copy"
    renewed(packed).write_h5ad(tmp_path / "new.h5ad")
    before = tree(store)
    for i in range(8):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(store, copy)
        p = subprocess.Popen([support.CLI, "annotate", copy, "--from", tmp_path / "new.h5ad"], stderr=subprocess.DEVNULL)
        time.sleep(0.006 * i)
        p.send_signal(signal.SIGKILL)
        p.wait()
        assert all((copy / k).read_bytes() == v for k, v in before.items())
        assert support.info(copy)["generation"] in (1, 2)
        ok("annotate", copy, "--from", tmp_path / "new.h5ad")
        assert not list((copy / "tmp").iterdir())
        ok("verify", copy)


def test_beside_appends(packed, tmp_path):
    store = tmp_path / "s"
    new = renewed(packed)
    new.write_h5ad(tmp_path / "new.h5ad")
    for i in range(3):
        cells(10 + i, 20, GENES_A, ["k"]).write_h5ad(tmp_path / f"c{i}.h5ad")
    commands = [["append", store, tmp_path / f"c{i}.h5ad"] for i in range(3)] + [["annotate", store, "--from", tmp_path / "new.h5ad", "--part", "0"]]
    running = [subprocess.Popen([support.CLI, *c], stderr=subprocess.PIPE) for c in commands]
    for p in running:
        _, err = p.communicate(timeout=60)
        assert p.returncode == 0, err.decode()
    report = support.info(store)
    assert report["generation"] == 5 and report["parts"] == 4 and report["n_obs"] == 130
    ok("verify", store)
    check_export(packed, new, store, tmp_path / "out.h5ad", "--part", 0)


def test_damaged_restore_file(packed, tmp_path):
    """Its bytes would get a name of their own."""
    renewed(packed).write_h5ad(tmp_path / "new.h5ad")
    store = tmp_path / "s"
    restore = next((store / "objects").glob("*.h5"))
    restore.chmod(0o644)
    data = bytearray(restore.read_bytes())
    data[len(data) // 2] ^= 1
    restore.write_bytes(data)
    support.refused(run("annotate", store, "--from", tmp_path / "new.h5ad"), restore.name)


@pytest.mark.skipif(not support.real_files("accept"), reason="H5AD_DIR is not set")
def test_real_files_with_themselves(tmp_path):
    """A file annotated with itself is exported as it was, or refused for its links."""
    small = [p for p in support.real_files("accept") if p.suffix == ".h5ad" and p.stat().st_size < 1_000_000]
    done, refused = 0, []
    for path in small[::3]:
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
        if run("pack", path, "-o", tmp_path / "s").code:
            continue
        result = run("annotate", tmp_path / "s", "--from", path)
        if result.code:
            refused.append((path.name, result.err))
            continue
        done += 1
        ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad", "--force")
        ok("convert-check", path, tmp_path / "out.h5ad")
    assert done > 10 * len(refused), refused
