"""The neighbours' own tests over our package. Their sources come from the package index when the tests run; build/peers keeps them."""

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[2] / "build/peers"

SCDATASET_EXCEPTIONS = {
    "test_basic_construction": "asks whether dataset.collection is the very array that was given: it is our collection",
}
NO_REPLACEMENT = "our epochs are all observations once: there is neither replacement nor num_samples"
ALL_WORKERS = "refused by theirs, done by ours: workers share the fetches of any order, with a last short batch too"
ONE_SEED = "our order is a pure function of seed and epoch: the attribute rng is not used, so nothing checks its type or warns of it"
ANNBATCH_EXCEPTIONS = {
    "test_batch_shuffle_is_reproducible_with_same_seed_rng[with_replacement]": NO_REPLACEMENT,
    "test_invalid_replacement_sampler": NO_REPLACEMENT,
    "test_replacement_with_multiple_workers_raises": NO_REPLACEMENT,
    "test_n_batches_property[replacement_returns_num_batches]": NO_REPLACEMENT,
    "test_num_samples_invariants": NO_REPLACEMENT,
    "test_sequential_with_multiple_workers_raises": ALL_WORKERS,
    "test_drop_last_false_with_multiple_workers_raises": ALL_WORKERS,
    "test_a_seed_passed_as_rng_warns_and_seeds[RandomSampler": ONE_SEED,
    "test_a_non_generator_rng_is_rejected[RandomSampler": ONE_SEED,
}


def sources(package, tmp_path):
    """The unpacked source distribution of the installed version."""
    version = metadata.version(package)
    name = f"{package.lower()}-{version}"
    if not (KEPT / f"{name}.tar.gz").exists():
        command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
        subprocess.run([*command, "--dest", KEPT, f"{package}=={version}"], check=True, timeout=300)
    shutil.unpack_archive(KEPT / f"{name}.tar.gz", tmp_path)
    return tmp_path / name


def outcomes(command, folder, report, **environment):
    """{test: "passed", "failed" or "skipped"} and what was printed."""
    plain = ["-q", "-n0", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
    command = [sys.executable, *command, *plain, f"--junitxml={report}"]
    with tempfile.TemporaryDirectory(prefix="annblock-test-") as scratch:  # processes that they kill leave what they wrote
        env = os.environ | environment | {"TMPDIR": scratch}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=1500)
    seen = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        seen[f"{case.get('classname')}::{case.get('name')}"] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
    return seen, done.stdout


def test_scdataset(tmp_path):
    """Every test ends over our collection as over numpy."""
    pytest.importorskip("scdataset")
    folder = sources("scDataset", tmp_path)
    command = [HERE / "scdataset_over_store.py", folder / "tests"]
    ours, printed = outcomes(command, folder, tmp_path / "ours.xml", SCDATASET_OVER="stores")
    theirs, _ = outcomes(command, folder, tmp_path / "theirs.xml", SCDATASET_OVER="numpy")
    assert len(ours) > 200 and int(printed.splitlines()[-1].split()[0]) > 80 and ours.keys() == theirs.keys()
    other = {test.split("::")[1] for test in ours if ours[test] != theirs[test]}
    assert other == set(SCDATASET_EXCEPTIONS), printed[-5000:]


def test_annbatch_sampler(tmp_path):
    """What fails over our sampler is listed above with the reason; the tests of class samplers, which ours is none of, are not run."""
    pytest.importorskip("annbatch")
    folder = sources("annbatch", tmp_path)
    command = ["-m", "pytest", "-p", "annbatch_over_ours", folder / "tests/test_sampler.py"]
    seen, printed = outcomes(command, folder, tmp_path / "ours.xml", PYTHONPATH=str(HERE))
    failed = [test.split("::")[1] for test in seen if seen[test] != "passed"]
    explained = {name: [test for test in failed if test.startswith(name)] for name in ANNBATCH_EXCEPTIONS}
    assert len(seen) > 100 and sorted(sum(explained.values(), [])) == sorted(failed), printed[-5000:]
    assert all(explained.values()), "an exception that is none"
