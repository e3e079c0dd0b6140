"""annblock.entropy beside the command, which simulates the same order."""
import json
import math
import os
import shutil
import subprocess

import anndata
import numpy as np
import pandas as pd
import pytest

import annblock
from conftest import ROOT
from support import real_files

CLI = os.environ.get("ANNBLOCK") or ROOT / "build/release/annblock"
NAMES = {
    "mean": "entropy",
    "sd": "deviation",
    "label": "total",
    "lower": "lower_bound",
    "upper": "upper_bound",
    "classes": "labels",
    "batches": "batches",
}
SETTINGS = [
    {},
    {"batch_size": 32, "block_size": 4, "fetch_factor": 2, "seed": 5},
    {"strategy": "buffer", "batch_size": 100},
    {"strategy": "sequential"},
]


def check(store, label, **settings):
    names = {"batch_size": "-m", "block_size": "-b", "fetch_factor": "-f", "seed": "--seed", "strategy": "--strategy"}
    options = [str(x) for key, value in settings.items() for x in (names[key], value)]
    done = subprocess.run([CLI, "entropy", store, "--label", label, "--json", *options], capture_output=True, text=True, check=True)
    command, found = json.loads(done.stdout), annblock.entropy(store, label, **settings)
    for name, other in NAMES.items():
        here, there = getattr(found, name), command[other]
        assert (math.isnan(here) and there is None) or here == pytest.approx(there, rel=1e-9, abs=1e-9), (name, here, there)
    return found


pytestmark = pytest.mark.skipif(not shutil.which(str(CLI)), reason="the command is not built")


@pytest.mark.parametrize("settings", SETTINGS)
def test_same_as_the_command(example_store, settings):
    for label in ("cell_line", "plate"):
        assert check(example_store, label, **settings).batches > 1


@pytest.mark.parametrize("n", [1, 63, 64, 65, 640])
def test_short_batches_and_missing_labels(tmp_path, n):
    codes = np.random.default_rng(n).integers(-1, 3, n)
    codes[: 2 * n // 3] = -1
    obs = pd.DataFrame({"label": pd.Categorical.from_codes(codes, ["a", "b", "c"])}, index=[f"c{i}" for i in range(n)])
    anndata.AnnData(np.ones((n, 1), "f4"), obs).write_h5ad(tmp_path / "a.h5ad")
    annblock.pack(tmp_path / "a.h5ad", tmp_path / "s")
    for settings in SETTINGS:
        check(tmp_path / "s", "label", **settings)


@pytest.mark.parametrize("name", ["openproblems_pancreas_mnn.h5ad", "gen_categorical_33k.h5ad", "scirpy_wu2020_v0_11.h5ad"])
def test_real_files(tmp_path, name):
    found = [p for p in real_files("accept") if p.name == name]
    if not found:
        pytest.skip("H5AD_DIR is not set")
    annblock.pack(found[0], tmp_path / "s")
    with annblock.open(tmp_path / "s") as store:
        labels = [c for c in store.obs if store.obs.column(c).kind == "categorical"]
    assert labels
    for label in labels[:6]:
        for settings in SETTINGS:
            check(tmp_path / "s", label, **settings)
