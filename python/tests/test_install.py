"""The source distribution holds all that building needs; without HDF5 the package still reads."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READ = "import annblock, sys; s = annblock.open(sys.argv[1]); print(annblock.__file__, *s.shape, int(s[:].sum()))"


def run(*command, **options):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The unpacked source distribution, built from a copy of what git knows, so that nothing else can help."""
    work = tmp_path_factory.mktemp("sdist")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if tracked.returncode:
        pytest.skip("needs git to tell which files are the project's")
    for name in tracked.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (work / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (work / "tree" / name).write_bytes((ROOT / name).read_bytes())
            (work / "tree" / name).chmod((ROOT / name).stat().st_mode)
    run("-c", f"from setuptools.build_meta import build_sdist; build_sdist({str(work)!r})", cwd=work / "tree")
    (archive,) = work.glob("annblock-*.tar.gz")
    shutil.unpack_archive(archive, work)
    return next(p for p in work.iterdir() if p.is_dir() and p.name.startswith("annblock-"))


def install(sources, target, **env):
    for old in sources.glob("build/lib.*"):
        shutil.rmtree(old)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-q", "--target", target]
    run("-m", "pip", "install", *options, ".", cwd=sources, env={**os.environ, **env})


def test_from_sdist(sources, tmp_path, example_h5ad, example_store):
    install(sources, tmp_path / "site")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where, n, m, _ = run("-c", READ, example_store, cwd=tmp_path, env=env).split()
    assert where.startswith(str(tmp_path)) and (n, m) == ("2000", "2400")
    pack = "import annblock, sys; print(annblock.pack(*sys.argv[1:]).n_obs)"
    assert run("-c", pack, example_h5ad, tmp_path / "s", cwd=tmp_path, env=env).strip() == "2000"
    linked = subprocess.run(["ldd", *(tmp_path / "site/annblock").glob("_native*.so")], capture_output=True, text=True).stdout
    assert "hdf5" not in linked


def test_without_hdf5(sources, tmp_path, example_h5ad, example_store):
    install(sources, tmp_path / "site", ANNBLOCK_NO_HDF5="1")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    assert run("-c", READ, example_store, cwd=tmp_path, env=env).split()[1:3] == ["2000", "2400"]
    pack = "import annblock, sys\ntry: annblock.pack(*sys.argv[1:])\nexcept ImportError as e: print(e)"
    message = run("-c", pack, example_h5ad, tmp_path / "s", cwd=tmp_path, env=env)
    assert "libhdf5-dev" in message and "HDF5 was missing" in message
