"""The command line: what it prints, its exit codes, and that nothing half-made is ever left."""
import fcntl
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import made_files
from h5compare import differences
from support import CLI, EXAMPLE, SANITIZED, environment, heed_signals, info, ok, refused, run, tree

COMMANDS = ["pack", "info", "head", "verify", "export", "convert-check", "sample", "entropy", "bench"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "example.annblock"
    ok("pack", EXAMPLE, "-o", path)
    return path


@pytest.fixture
def copy(store, tmp_path):
    """A store that a test may damage: its files are read-only otherwise."""
    path = shutil.copytree(store, tmp_path / "copy.annblock")
    for p in path.rglob("*"):
        p.chmod(p.stat().st_mode | 0o200)
    return path


# ---- usage ----


def test_version():
    assert re.fullmatch(r"annblock \d+\.\d+\.\d+\n", ok("--version").out)


def test_help():
    text = ok("--help").out
    assert all(c in text for c in COMMANDS)
    assert ok("help").out.count("annblock") > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_command(command):
    text = ok(command, "--help").out
    assert f"annblock {command}" in text
    assert ok("help", command).out == text


@pytest.mark.parametrize(
    "args, expected",
    [
        ([], "command is missing"),
        (["nonsense"], "no command 'nonsense'"),
        (["help", "nonsense"], "no command 'nonsense'"),
        (["help", "pack", "info"], "one command"),
        (["--nonsense"], "unrecognized option"),
        (["pack"], "file to pack is missing"),
        (["pack", "a.h5ad"], "-o STORE"),
        (["pack", "a.h5ad", "-o"], "requires an argument"),
        (["pack", "a.h5ad", "-o", "s", "--nonsense"], "unrecognized option"),
        (["pack", "a.h5ad", "-o", "s", "--memory", "12X"], "K, M, G or T"),
        (["pack", "a.h5ad", "-o", "s", "--memory", "512MB"], "K, M, G or T"),
        (["pack", "a.h5ad", "-o", "s", "--memory", "-1"], "K, M, G or T"),
        (["pack", "a.h5ad", "-o", "s", "--memory", ""], "K, M, G or T"),
        (["pack", "a.h5ad", "-o", "s", "--memory", "1M"], "at least 32M"),
        (["pack", "a.h5ad", "-o", "s", "--memory", "99999999999T"], "K, M, G or T"),
        (["pack", "a.h5ad", "-o", "s", "--threads", "0"], "1 to 256"),
        (["pack", "a.h5ad", "-o", "s", "--threads", "two"], "1 to 256"),
        (["pack", "a.h5ad", "-o", "s", "--segment-rows", "0"], "number of cells"),
        (["pack", "a.h5ad", "-o", "s", "--segment-rows", "1e3"], "number of cells"),
        (["info"], "store is missing"),
        (["info", "a", "b"], "too many arguments"),
        (["head", "s", "-n", "abc"], "number of cells"),
        (["head", "s", "-n", "-3"], "number of cells"),
        (["head", "s", "-n", "3.5"], "number of cells"),
        (["verify"], "store is missing"),
        (["export", "s"], "-o OUT.h5ad"),
        (["export"], "store is missing"),
        (["convert-check", "a.h5ad"], "two files"),
        (["convert-check", "a", "b", "c"], "too many arguments: 'c'"),
    ],
)
def test_usage_errors(args, expected, tmp_path):
    result = run(*args, cwd=tmp_path)
    assert result.code == 2, str(result)
    assert expected in result.err, str(result)
    assert result.out == "" and os.listdir(tmp_path) == []


@pytest.mark.parametrize("size", ["33554432", "64M", "64m", "65536K", "1G"])
def test_sizes(size, tmp_path):
    ok("pack", EXAMPLE, "-o", tmp_path / "s", "--memory", size)


# ---- results ----


def test_pack_speaks_on_stderr(tmp_path):
    result = ok("pack", EXAMPLE, "-o", tmp_path / "s.annblock")
    assert result.out == ""
    assert "packed 2,000 cells x 2,400 genes, 459,955 nonzeros" in result.err and "\r" not in result.err


def test_info_json(store):
    about = info(store)
    with h5py.File(EXAMPLE) as f:
        nnz = f["X/data"].shape[0]
        obs_order, var_order = list(f["obs"].attrs["column-order"]), list(f["var"].attrs["column-order"])
    assert (about["n_obs"], about["n_vars"], about["nnz"]) == (2000, 2400, nnz)
    assert about["density"] == pytest.approx(nnz / 2000 / 2400)
    assert about["dtypes"]["X"] == "f32"
    assert (about["parts"], about["generation"]) == (1, 1)
    assert about["bytes"] == sum(p.stat().st_size for p in store.rglob("*") if p.is_file())
    x = next(m for m in about["matrices"] if m["name"] == "X")
    assert about["bits_per_nnz"] == pytest.approx(8 * x["bytes"] / nnz)
    columns = {(c["axis"], c["name"]): c for c in about["columns"]}
    assert [c["name"] for c in about["columns"] if c["axis"] == "obs" and not c["index"]] == obs_order
    assert [c["name"] for c in about["columns"] if c["axis"] == "var" and not c["index"]] == var_order
    assert columns["obs", "cell_type"]["kind"] == "categorical" and columns["obs", "cell_type"]["categories"] == 8
    assert columns["obs", "plate"]["ordered"] and not columns["obs", "cell_type"]["ordered"]
    assert (columns["obs", "n_genes"]["kind"], columns["obs", "n_genes"]["dtype"]) == ("fixed", "i32")
    assert columns["obs", "passage"]["nullable"] and columns["obs", "passed_qc"]["dtype"] == "bool"
    assert (columns["var", "gene_ids"]["kind"], columns["var", "gene_ids"]["dtype"]) == ("string", None)
    assert sum(c["index"] for c in about["columns"]) == 2
    sizes = {suffix: sum(p.stat().st_size for p in store.rglob(f"*.{suffix}")) for suffix in ("anns", "annc", "h5ad", "h5", "annm")}
    kinds = about["bytes_by_kind"]
    assert [kinds[k] for k in ("segments", "flat_arrays", "sidecars", "restore_files", "manifest")] == list(sizes.values())
    assert len(kinds) == 5 and sum(kinds.values()) == about["bytes"] and about["generations"] == 1
    assert about["sidecars"] == [str(next(store.rglob("*.h5ad")))]
    assert x["bytes"] == kinds["segments"]


def test_info_without_the_sidecar(copy):
    next(copy.rglob("*.h5ad")).unlink()
    assert info(copy)["sidecars"] == [None] and "No such file" in ok("info", copy).out


def test_info_text(store):
    text = ok("info", store).out
    assert f"{next(store.rglob('*.h5ad'))} (opens in anndata)" in text and "--generation" not in text
    for expected in ("flat arrays", "restore files", "cells", "2,000", "genes", "2,400", "459,955", "9.58 %", "f32", "cell_type", "8 categories", "passage"):
        assert expected in text, text
    assert not any(line != line.rstrip() for line in text.splitlines())


def expected_cell(f, row):
    part = slice(f["X/indptr"][row], f["X/indptr"][row + 1])
    genes, values = f["X/indices"][part], f["X/data"][part]
    top = np.argsort(-values, kind="stable")[:5]
    names = f["var/gene_symbol"].asstr()[()]
    return len(genes), " ".join(f"{names[genes[i]]}={values[i]:g}" for i in top)


def test_head(store):
    text = ok("head", store, "-n", "120").out
    blocks = re.split(r"\n(?=\S)", text.rstrip("\n"))
    assert len(blocks) == 120
    with h5py.File(EXAMPLE) as f:
        names, types = f["obs/barcode"].asstr()[()], f["obs/cell_type/categories"].asstr()[()]
        codes, passages, masks = f["obs/cell_type/codes"][()], f["obs/passage/values"][()], f["obs/passage/mask"][()]
        for row, block in enumerate(blocks):
            nnz, top = expected_cell(f, row)
            lines = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in block.splitlines()[1:])
            assert block.splitlines()[0] == names[row]
            assert lines["nnz"] == str(nnz) and lines["top genes"] == top
            assert lines["cell_type"] == ("NA" if codes[row] < 0 else types[codes[row]])
            assert lines["passage"] == ("NA" if masks[row] else str(passages[row]))
            assert float(lines["pct_counts_mt"]) == f["obs/pct_counts_mt"][row]
        assert (codes[:120] < 0).any() and masks[:120].any(), "the example should show missing values here"
    assert len(re.split(r"\n(?=\S)", ok("head", store).out.rstrip())) == 5
    assert ok("head", store, "-n", "0").out == ""


def test_head_past_the_end(tmp_path):
    made_files.ACCEPT["csr_1x1"](tmp_path / "a.h5ad")
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    assert ok("head", tmp_path / "s", "-n", "1000000").out.splitlines()[0] == "cell0"


def test_head_of_no_cells(tmp_path):
    made_files.write(tmp_path / "a.h5ad", made_files.counts(n=0, m=1234))
    ok("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    assert ok("head", tmp_path / "s").out == "no cells to show: the store has 0 cells and 1,234 genes\n"


def test_text_is_safe_for_terminals(tmp_path):
    source = tmp_path / "a.h5ad"
    made_files.write(source, made_files.counts(n=4), obs=[("red\x1b[31m", np.arange(4))])
    with h5py.File(source, "r+") as f:
        del f["obs/_index"]
        made_files.write_strings(f["obs"], "_index", ["a\nb", "\x1b]0;title\x07", "ok é", "\x9b"])
    ok("pack", source, "-o", tmp_path / "s")
    for text in (ok("head", tmp_path / "s").out, ok("info", tmp_path / "s").out):
        assert "\x1b" not in text and "\x07" not in text and "\x9b" not in text
    assert "a\\x0ab\n" in ok("head", tmp_path / "s").out and "ok é\n" in ok("head", tmp_path / "s").out
    assert any(c["name"] == "red\x1b[31m" for c in info(tmp_path / "s")["columns"])


def test_objects_are_named_by_their_hash(store):
    objects = list((store / "objects").iterdir())
    assert len(objects) >= 3
    for p in objects:
        assert hashlib.sha256(p.read_bytes()).hexdigest() == p.name.split(".")[0]


def test_modes(tmp_path):
    """Files of a store never change, so nobody may write them; an exported file is like any other."""
    old = os.umask(0o027)
    try:
        ok("pack", EXAMPLE, "-o", tmp_path / "s")
        ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad")
    finally:
        os.umask(old)
    files = [p for p in (tmp_path / "s").rglob("*") if p.is_file()]
    assert {p.suffix for p in files} == {".anns", ".annc", ".h5ad", ".h5", ".annm"}
    assert {oct(p.stat().st_mode & 0o777) for p in files} == {"0o440"}
    assert (tmp_path / "out.h5ad").stat().st_mode & 0o777 == 0o640


# ---- verify ----


def test_verify(store):
    files = tree(store)
    assert ok("verify", store).out == f"ok: {sum(map(len, files.values())):,} bytes in {len(files)} files\n"
    whole = json.loads(ok("verify", store, "--json").out)
    assert whole == {"ok": True, "files": len(files), "bytes": sum(map(len, files.values())), "findings": []}


def test_verify_sees_a_flipped_bit_anywhere(copy):
    rng = np.random.default_rng(11)
    for path in [p for p in sorted(copy.rglob("*")) if p.is_file()]:
        size = path.stat().st_size
        for at in sorted({0, size - 1, *map(int, rng.integers(0, size, 4))}):
            data = bytearray(path.read_bytes())
            data[at] ^= 1 << int(rng.integers(0, 8))
            original = path.read_bytes()
            path.write_bytes(data)
            result = run("verify", copy)
            assert result.code == 1, f"bit flipped at {at} of {size} in {path}: {result}"
            text = result.out + result.err
            assert path.name in text, f"{path.name} is not named: {text}"
            path.write_bytes(original)
    ok("verify", copy)


@pytest.mark.parametrize("harm", ["cut", "longer", "gone", "foreign", "swapped"])
def test_verify_sees(harm, copy):
    objects = sorted((copy / "objects").iterdir())
    victim = next(p for p in objects if p.suffix == ".anns")
    if harm == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif harm == "longer":
        victim.write_bytes(victim.read_bytes() + b"\0")
    elif harm == "gone":
        victim.unlink()
    elif harm == "foreign":
        victim = copy / "objects" / "notes.txt"
        victim.write_text("mine")
    else:
        other = next(p for p in objects if p.suffix == ".annc")
        victim.write_bytes(other.read_bytes())
    result = run("verify", copy)
    assert result.code == 1 and victim.name in result.out, str(result)
    assert all(re.match(r"\S[^:]*: ", line) for line in result.out.splitlines()), str(result)
    found = json.loads(run("verify", copy, "--json").out)
    assert not found["ok"] and any(victim.name in f["path"] for f in found["findings"])
    assert all({"status", "path", "row", "store_row", "message"} == set(f) for f in found["findings"])
    assert all(victim.name not in f["message"] for f in found["findings"]), "the path is told twice"


def test_verify_tells_the_cell(tmp_path):
    store = tmp_path / "s"
    ok("pack", EXAMPLE, "-o", store, "--segment-rows", "200")
    for segment in (store / "objects").glob("*.anns"):
        data = bytearray(segment.read_bytes())
        data[4096 + 3] ^= 0x10  # inside the first record
        segment.chmod(0o600)
        segment.write_bytes(data)
    lines = run("verify", store).out.splitlines()
    found = json.loads(run("verify", store, "--json").out)["findings"]
    assert sorted(f["store_row"] for f in found) == list(range(0, 2000, 200)) and all(f["row"] == 0 for f in found)
    assert sum("store row 200 (segment row 0): " in line for line in lines) == 1


def test_verify_of_an_unfinished_store(copy):
    for p in (copy / "manifests").iterdir():
        p.unlink()
    result = run("verify", copy)
    assert result.code == 1 and "packing into it again resumes" in result.out, str(result)


def test_damage_is_an_error_not_a_wrong_answer(copy):
    segment = next((copy / "objects").glob("*.anns"))
    data = bytearray(segment.read_bytes())
    data[4096 + 3] ^= 0x10  # inside the first record
    segment.write_bytes(data)
    result = run("head", copy)
    assert result.code == 1 and segment.name in result.err and "row 0" in result.err, str(result)
    result = run("export", copy, "-o", copy.parent / "out.h5ad")
    assert result.code == 1 and not (copy.parent / "out.h5ad").exists(), str(result)
    assert sorted(p.name for p in copy.parent.iterdir()) == [copy.name]


def test_convert_check_tells_what_differs(tmp_path):
    a, b = tmp_path / "a.h5ad", tmp_path / "b.h5ad"
    for path, changed in ((a, False), (b, True)):
        with h5py.File(path, "w") as f:
            f["float"] = np.array([1, 5 if changed else 42], "<f4")
            f["int"] = np.array([1, -2], "<i8" if changed else "<i4")
            f["big"] = np.array([7, -1 if changed else 258], ">i2")
            f["text"] = np.array([b"xy", b"ac" if changed else b"ab"])
            f["flag"] = np.array([True, not changed])
            f["half"] = np.array([0.5 if changed else np.nan], "<f2")
            f["size"] = np.array([b"abc" if changed else b"ab"])
            f["order"] = np.array([1], "<u4" if changed else ">u4")
    result = run("convert-check", a, b)
    assert result.code == 1 and result.err == ""
    assert result.out.splitlines() == [
        "/big: values differ first at 1: 258 (0x0102) against -1 (0xffff)",
        "/flag: values differ first at 1: TRUE (0x01) against FALSE (0x00)",
        "/float: values differ first at 1: 42 (0x42280000) against 5 (0x40a00000)",
        "/half: values differ first at 0: nan (0x7e00) against 0.5 (0x3800)",
        "/int: types differ: int32 against int64",
        "/order: types differ: uint32 big-endian against uint32 little-endian",
        "/size: types differ: string of 2 bytes against string of 3 bytes",
        '/text: values differ first at 1: "ab" against "ac"',
        "8 differences",
    ]


# ---- what is not there, or not what it should be ----


@pytest.mark.parametrize("command", ["info", "head", "verify"])
def test_no_store(command, tmp_path):
    refused(run(command, tmp_path / "missing"), "missing")
    (tmp_path / "folder").mkdir()
    refused(run(command, tmp_path / "folder"), "folder")
    (tmp_path / "file").write_text("x")
    refused(run(command, tmp_path / "file"), "file")


def test_no_input(tmp_path):
    refused(run("pack", tmp_path / "missing.h5ad", "-o", tmp_path / "s"), "missing.h5ad")
    refused(run("pack", tmp_path, "-o", tmp_path / "s"), tmp_path.name)
    refused(run("export", tmp_path / "missing", "-o", tmp_path / "o.h5ad"), "missing")
    refused(run("convert-check", tmp_path / "missing.h5ad", EXAMPLE), "missing.h5ad")
    assert os.listdir(tmp_path) == []


def test_newer_format(copy):
    manifest = next((copy / "manifests").iterdir())
    data = bytearray(manifest.read_bytes())
    data[8:10] = (9).to_bytes(2, "little")
    data[12:16] = (192).to_bytes(4, "little")  # with a longer header: else it is a damaged one of this version
    manifest.write_bytes(data)
    message = refused(run("info", copy), manifest.name)
    assert "format 9.1, which is newer than" in message


# ---- outputs ----


def test_output_exists(store, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine.txt").write_text("mine")
    shutil.copytree(store, tmp_path / "store")
    before = tree(tmp_path)
    for name in ("file", "folder", "store"):
        refused(run("pack", EXAMPLE, "-o", tmp_path / name), name)
    message = refused(run("export", store, "-o", tmp_path / "file"), "file")
    assert message.endswith("file: exists already: use --force to replace it")
    assert "use --force to add a generation" in refused(run("pack", EXAMPLE, "-o", tmp_path / "store"), "store")
    assert "--force" not in refused(run("pack", EXAMPLE, "-o", tmp_path / "folder"), "folder")
    refused(run("export", store, "-o", tmp_path / "folder"), "folder")
    for name in ("file", "folder"):
        refused(run("pack", EXAMPLE, "-o", tmp_path / name, "--force"), name)
    refused(run("export", store, "-o", tmp_path / "folder", "--force"), "folder")
    assert tree(tmp_path) == before


def test_output_is_the_input(tmp_path):
    source = tmp_path / "a.h5ad"
    shutil.copy(EXAMPLE, source)
    for output in (source, source / "s.annblock"):
        for force in ([], ["--force"]):
            refused(run("pack", source, "-o", output, *force), "a.h5ad")
    assert tree(tmp_path) == {"a.h5ad": EXAMPLE.read_bytes()}


def test_store_in_place_of_a_file(store, tmp_path):
    for args in (["pack", store, "-o", tmp_path / "s"], ["convert-check", store, EXAMPLE], ["convert-check", EXAMPLE, store]):
        assert "is an annblock store, not a .h5ad file" in refused(run(*args), store.name)
    assert "is a directory, not a .h5ad file" in refused(run("convert-check", tmp_path, EXAMPLE), tmp_path.name)
    assert os.listdir(tmp_path) == []


def test_objects_are_named_from_the_root(tmp_path):
    source = tmp_path / "a.h5ad"
    shutil.copy(EXAMPLE, source)
    with h5py.File(source, "r+") as f:
        f.move("obs/barcode", "obs/other")
    assert ": /obs/barcode: " in refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")
    with h5py.File(source, "r+") as f:
        f["X"].attrs["encoding-type"] = "coo_matrix"
        f.move("obs/other", "obs/barcode")
    assert "'coo_matrix', which cannot be packed: make it CSR, CSC or dense" in refused(run("pack", source, "-o", tmp_path / "s"), "a.h5ad")


def test_export_into_the_store(copy):
    before = tree(copy)
    target = next((copy / "objects").glob("*.h5ad"))
    refused(run("export", copy, "-o", target), target.name)
    refused(run("export", copy, "-o", target, "--force"), target.name)
    assert tree(copy) == before


def test_output_folder_is_missing(store, tmp_path):
    refused(run("pack", EXAMPLE, "-o", tmp_path / "no/s.annblock"), "s.annblock")
    refused(run("export", store, "-o", tmp_path / "no/out.h5ad"), "no")
    assert os.listdir(tmp_path) == []


def test_force_makes_generations(tmp_path):
    store, other = tmp_path / "s.annblock", tmp_path / "b.h5ad"
    made_files.ACCEPT["columns"](other)
    ok("pack", EXAMPLE, "-o", store)
    first = tree(store)
    refused(run("pack", other, "-o", store), "s.annblock")
    assert tree(store) == first
    ok("pack", other, "-o", store, "--force")
    assert (info(store)["generation"], info(store)["n_obs"]) == (2, 200)
    second = tree(store)
    assert all(second[name] == data for name, data in first.items()), "a file of generation 1 was changed or removed"
    assert ok("verify", store).out.startswith("ok: ")
    ok("export", store, "-o", tmp_path / "out.h5ad")
    assert differences(other, tmp_path / "out.h5ad") == []
    ok("pack", EXAMPLE, "-o", store, "--force")
    assert (info(store)["generation"], info(store)["n_obs"]) == (3, 2000)
    assert set(first) < set(tree(store))
    ok("pack", other, "-o", tmp_path / "new.annblock", "--force")
    assert info(tmp_path / "new.annblock")["generation"] == 1


def test_older_generations(tmp_path):
    store, other = tmp_path / "s.annblock", tmp_path / "b.h5ad"
    made_files.ACCEPT["columns"](other)
    ok("pack", EXAMPLE, "-o", store)
    first = ok("head", store).out
    ok("pack", other, "-o", store, "--force")
    newest, older = info(store), json.loads(ok("info", store, "--json", "--generation", "1").out)
    assert (newest["generation"], newest["generations"], older["generation"], older["n_obs"]) == (2, 2, 1, 2000)
    assert "2 (2 are kept: see another one with --generation N)" in ok("info", store).out
    assert ok("head", store, "--generation", "1").out == first != ok("head", store).out
    ok("export", store, "-o", tmp_path / "out.h5ad", "--generation", "1")
    assert differences(EXAMPLE, tmp_path / "out.h5ad") == []
    for args in (["info", store], ["head", store], ["export", store, "-o", tmp_path / "no.h5ad"]):
        assert "has no generation 3; the newest is 2" in refused(run(*args, "--generation", "3"), "s.annblock")
        assert run(*args, "--generation", "0").code == 2


def test_failed_force_leaves_the_old_store(copy, tmp_path):
    bad = tmp_path / "bad.h5ad"
    made_files.REJECT["csr_index_past_end"](bad)
    before = tree(copy)
    refused(run("pack", bad, "-o", copy, "--force"), "bad.h5ad")
    assert tree(copy) == before


def test_export_force_replaces(store, tmp_path):
    out = tmp_path / "out.h5ad"
    out.write_text("old")
    ok("export", store, "-o", out, "--force")
    assert differences(EXAMPLE, out) == [] and os.listdir(tmp_path) == ["out.h5ad"]


@pytest.mark.parametrize("source", ["example", "csr_pages", "csc_gzip", "dense_gzip_shuffle"])
def test_same_input_same_bytes(source, tmp_path):
    path = EXAMPLE
    if source != "example":
        path = tmp_path / "in.h5ad"
        made_files.ACCEPT[source](path)
    trees = []
    for n, options in enumerate([["--threads", "1"], ["--threads", "2", "--memory", "64M"], ["--threads", "7", "--memory", "512M"]]):
        os.mkdir(tmp_path / str(n))
        ok("pack", path, "-o", tmp_path / str(n) / "s.annblock", *options)
        trees.append(tree(tmp_path / str(n)))
    assert trees[0] == trees[1] == trees[2]


def test_segments(tmp_path):
    store = tmp_path / "s"
    ok("pack", EXAMPLE, "-o", store, "--segment-rows", "700")
    x = next(m for m in info(store)["matrices"] if m["name"] == "X")
    assert x["segments"] == 3 and ok("verify", store).code == 0
    ok("export", store, "-o", tmp_path / "out.h5ad")
    assert differences(EXAMPLE, tmp_path / "out.h5ad") == []


def test_two_writers(tmp_path):
    """Of two that create the same store at once, one wins and the other is told so."""
    command = [CLI, "pack", EXAMPLE, "-o", tmp_path / "s"]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    texts = [w.communicate(timeout=60)[1].decode() for w in writers]
    assert sorted(w.returncode for w in writers) == [0, 1], texts
    assert ok("verify", tmp_path / "s").out.startswith("ok: ") and info(tmp_path / "s")["generation"] == 1
    assert list((tmp_path / "s/tmp").iterdir()) == []


# ---- interrupted, disk full, nobody reads ----


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """Enough to be busy with for a while."""
    rng = np.random.default_rng(0)
    n, m, per_cell = 30_000, 20_000, 500
    indices = np.sort(rng.integers(0, m, (n, per_cell), dtype="i4"), axis=1).ravel()
    x = sp.csr_matrix((rng.integers(1, 9, n * per_cell).astype("f4"), indices, np.arange(0, n * per_cell + 1, per_cell)), shape=(n, m))
    path = tmp_path_factory.mktemp("big") / "big.h5ad"
    return made_files.write(path, x)


def interrupt(args, started, number):
    """Send a signal once `started` says so, with the process held meanwhile. Returns its status and messages, or None when it was done before."""
    p = subprocess.Popen([CLI, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), preexec_fn=heed_signals)
    limit = time.monotonic() + 60
    while p.poll() is None and not started() and time.monotonic() < limit:
        time.sleep(0.002)
    if p.poll() is None:
        p.send_signal(signal.SIGSTOP)
        p.send_signal(number)
        p.send_signal(signal.SIGCONT)
    _, err = p.communicate(timeout=60)
    return None if p.returncode == 0 else (p.returncode, err.decode())


def first_stopped(attempt):
    """Try until the command was not quicker than the test."""
    for i in range(8):
        stopped = attempt(i)
        if stopped:
            return stopped
    raise AssertionError("it was done before it could be interrupted, every time")


def has_files(path):
    return path.is_dir() and any(p.is_file() for p in path.rglob("*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_pack_leaves_nothing(big, tmp_path, number):
    def attempt(i):
        work = tmp_path / str(i)
        work.mkdir()
        stopped = interrupt(["pack", big, "-o", work / "s", "--threads", "1"], lambda: has_files(work / "s"), number)
        return stopped and (*stopped, os.listdir(work))

    status, message, left = first_stopped(attempt)
    assert status in (1, -number, 128 + number) and "interrupted" in message and left == []


def test_interrupted_force_keeps_the_store(big, store, tmp_path):
    def attempt(i):
        copy = tmp_path / str(i)
        shutil.copytree(store, copy)
        before = tree(copy)
        stopped = interrupt(["pack", big, "-o", copy, "--force", "--threads", "1"], lambda: any((copy / "tmp").iterdir()), signal.SIGINT)
        return stopped and (before, tree(copy))

    before, after = first_stopped(attempt)
    assert after == before


def test_interrupted_export_leaves_nothing(big, tmp_path):
    ok("pack", big, "-o", tmp_path / "s")

    def attempt(i):
        work = tmp_path / str(i)
        work.mkdir()
        stopped = interrupt(["export", tmp_path / "s", "-o", work / "out.h5ad"], lambda: any(work.iterdir()), signal.SIGINT)
        return stopped and (stopped, os.listdir(work))

    assert first_stopped(attempt)[1] == []


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of its own, and a function that sets its size."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small filesystem here")
    yield path, lambda size: subprocess.run(["mount", "-o", f"remount,size={size}", path], check=True)
    subprocess.run(["umount", path], check=True)


def test_output_cannot_be_made(small_disk, store):
    """The message names the file asked for, not a temporary one, and says why."""
    disk, _ = small_disk
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    message = refused(run("export", store, "-o", disk / "out.h5ad"), "disk/out.h5ad: ")
    assert "cannot create: Read-only file system" in message and str(disk) in message and ".annblock-export" not in message


def test_full_disk(small_disk, store):
    """Wherever the room ends: a clear message, and nothing left."""
    disk, resize = small_disk
    done = {"pack": 0, "export": 0}
    for size in range(64 << 10, 5 << 20, 211 << 10):
        resize(size)
        for command, args in (("pack", [EXAMPLE, "-o", disk / "s"]), ("export", [store, "-o", disk / "out.h5ad"])):
            result = run(command, *args)
            if result.code == 0:
                done[command] += 1
                shutil.rmtree(disk / "s", ignore_errors=True)
                (disk / "out.h5ad").unlink(missing_ok=True)
            else:
                assert "No space left on device" in refused(result, "disk/")
            assert os.listdir(disk) == [], str(result)
    assert all(2 < n < 22 for n in done.values()), done


@pytest.mark.parametrize("args", [["info"], ["info", "--json"], ["head"], ["verify"], ["verify", "--json"]])
def test_full_stdout(args, store):
    with open("/dev/full", "w") as full:
        p = subprocess.run([CLI, args[0], store, *args[1:]], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert p.returncode == 1 and b"standard output" in p.stderr, p


def test_full_stdout_of_help():
    with open("/dev/full", "w") as full:
        assert subprocess.run([CLI, "--version"], stdout=full, stderr=subprocess.PIPE, timeout=60).returncode == 1
        assert subprocess.run([CLI, "pack", "--help"], stdout=full, stderr=subprocess.PIPE, timeout=60).returncode == 1


@pytest.mark.parametrize("args", [["info"], ["head", "-n", "2000"]])
def test_reader_went_away(args, store):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        p = subprocess.run([CLI, args[0], store, *args[1:]], stdout=out, stderr=subprocess.PIPE, timeout=60)
    assert p.returncode == 1 and p.stderr == b"", p


def test_progress_on_a_terminal(big, tmp_path):
    try:
        ours, theirs = pty.openpty()
    except OSError:
        pytest.skip("there are no pseudo-terminals here")
    with subprocess.Popen([CLI, "pack", big, "-o", tmp_path / "s"], stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL) as p:
        os.close(theirs)
        text = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            text += data
    os.close(ours)
    assert p.returncode == 0
    assert b"%" in text and b"/s" in text and b"left" in text and b"\r" in text, text
    assert text.split(b"\r\x1b[K")[-1].startswith(b"packed 30,000 cells"), text


def test_memory_is_bounded(big, tmp_path):
    result = ok("pack", big, "-o", tmp_path / "s", "--memory", "64M")
    assert SANITIZED or result.peak < 200 << 20, str(result)
    result = ok("export", tmp_path / "s", "-o", tmp_path / "out.h5ad")
    assert SANITIZED or result.peak < 700 << 20, str(result)


def test_messages_from_hdf5_do_not_leak(tmp_path):
    """HDF5 prints its error stack unless told not to."""
    made_files.REJECT["truncated"](tmp_path / "a.h5ad")
    result = run("pack", tmp_path / "a.h5ad", "-o", tmp_path / "s")
    assert "HDF5-DIAG" not in result.err and len(result.err.splitlines()) == 1


# ---- what a caller left behind ----


def test_closed_descriptors(store):
    """Descriptors 0 and 2 that are closed are /dev/null before any file is opened."""
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)  # so that it waits for the test
    p = subprocess.Popen([CLI, "sample", store, "-m", "1"], stdout=into, preexec_fn=lambda: (os.close(0), os.close(2)))
    os.close(into)
    first = os.read(out, 1)
    assert first and [os.readlink(f"/proc/{p.pid}/fd/{n}") for n in (0, 2)] == ["/dev/null"] * 2
    while os.read(out, 1 << 16):
        pass
    os.close(out)
    assert p.wait(60) == 0
