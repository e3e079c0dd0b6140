"""Make the golden stores of this folder: see README.md. They are made once for each edition of the format and then kept.

    make.py present ANNBLOCK PACK_CODEC      stores of the program at hand (tests/pack_codec forces a codec)
    make.py earlier ANNBLOCK COMMIT          a store of an earlier program, whose commit is part of the name
    make.py versions ANNBLOCK                stores of other versions and with unknown features, made by changing one (needs xxhash)
"""
import hashlib
import io
import json
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import made_files  # noqa: E402


def archive(folder, name):
    """Everything in the folder, the same bytes for the same content."""
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            if path.name == "tmp" or "tmp" in path.relative_to(folder).parts:
                continue
            info = tar.gettarinfo(path, str(path.relative_to(folder)))
            info.mtime = info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mode = 0o755 if path.is_dir() else 0o644
            with path.open("rb") if path.is_file() else io.BytesIO() as data:
                tar.addfile(info, data)
    print(name, (HERE / f"{name}.tar.xz").stat().st_size)


def describe(folder, **facts):
    (folder / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")


# ---- sources ----


def columns(f, n, labels):
    """Columns of every kind that the format knows, with missing values."""
    obs = f["obs"]
    made_files.encode(obs.create_dataset("depth", data=np.arange(n, dtype="i4") * 3), "array", "0.2.0")
    made_files.encode(obs.create_dataset("score", data=np.linspace(-1, 1, n).astype("f4")), "array", "0.2.0")
    made_files.encode(obs.create_dataset("passed", data=np.arange(n) % 3 == 0), "array", "0.2.0")
    made_files.write_strings(obs, "note", [f"nöte {i}" if i % 4 else "" for i in range(n)])
    made_files.write_categorical(obs, "kind", (np.arange(n) % (len(labels) + 1) - 1).astype("i1"), labels)
    made_files.write_categorical(obs, "stage", (np.arange(n) % 2).astype("i1"), ["early", "late"], ordered=True)
    masked = made_files.encode(obs.create_group("age"), "nullable-integer", "0.1.0")
    masked["values"], masked["mask"] = np.arange(n, dtype="i8"), np.arange(n) % 5 == 0
    obs.attrs["column-order"] = np.array(["depth", "score", "passed", "note", "kind", "stage", "age"], object)
    f["uns"]["title"] = "golden"


def source(path, x, labels=("a", "b", "c"), genes=None):
    with h5py.File(made_files.write(path, x), "r+") as f:
        columns(f, x.shape[0], list(labels))
        if genes is not None:
            del f["var"]
            made_files.write_frame(f, "var", genes)
    return path


def few_values(x):
    """Like log-normalised: few distinct floats in each row."""
    y = sp.csr_matrix(x, dtype="f4", copy=True)
    y.data = np.log1p(y.data).astype("f4")
    return y


def many_values(n, m, dtype):
    x = sp.random(n, m, 0.3, "csr", random_state=7)
    x.data = (x.data * 1e6).astype(dtype)
    return x


def scrambled(x):
    """Elements of every row in an order of its own."""
    rng = np.random.default_rng(3)
    for a, b in zip(x.indptr, x.indptr[1:]):
        order = a + rng.permutation(b - a)
        x.indices[a:b], x.data[a:b] = x.indices[order], x.data[order]
    return x


def matrices(f, n, m):
    made_files.write_sparse(f["layers"], "csc", made_files.counts(n=n, m=m, seed=3, form="csc", dtype="i8"))
    made_files.write_sparse(f["layers"], "scrambled", scrambled(made_files.counts(n=n, m=m, seed=4)))
    dense = np.where(np.arange(n * m).reshape(n, m) % 4 == 0, -1.5, 0).astype("f2")
    dense[0, 1] = -0.0
    made_files.encode(f["layers"].create_dataset("dense", data=dense), "array", "0.2.0")
    made_files.encode(f["layers"].create_dataset("flags", data=dense != 0), "array", "0.2.0")
    made_files.encode(f["obsm"].create_dataset("X_pca", data=np.random.default_rng(1).normal(size=(n, 3))), "array", "0.2.0")
    raw = made_files.encode(f.create_group("raw"), "raw", "0.1.0")
    made_files.write_sparse(raw, "X", made_files.counts(n=n, m=m + 5, seed=6))
    made_files.write_frame(raw, "var", [f"raw{i}" for i in range(m + 5)])
    made_files.encode(raw.create_group("varm"), "dict", "0.1.0")


def all_matrices(path, n=50, m=20):
    with h5py.File(source(path, made_files.counts(n=n, m=m)), "r+") as f:
        matrices(f, n, m)
    return path


# ---- stores of the present program ----


def present(annblock, pack_codec):
    run = lambda *args: subprocess.run([str(a) for a in args], check=True)
    for name, codec, x in [
        ("plain", 1, many_values(40, 20, "f8")),
        ("lz4", 2, made_files.counts(n=40, m=200, density=0.5, dtype="i8")),
        ("count", 3, made_files.counts(n=600, m=300, density=0.1, dtype="u2")),
        ("dict", 4, few_values(made_files.counts(n=40, m=200))),
    ]:
        with tempfile.TemporaryDirectory() as work:
            a = source(Path(work) / "a.h5ad", x)
            run(pack_codec, a, Path(work) / "store", 1 << codec)
            describe(Path(work), parts=["a.h5ad"], matrices=["X"], codec=codec)
            archive(Path(work), f"codec-{name}")
    for name, options in [("orders", []), ("shuffled", ["--shuffle", 7]), ("source-order", ["--gene-order", "source", "--segment-rows", 16])]:
        with tempfile.TemporaryDirectory() as work:
            a = all_matrices(Path(work) / "a.h5ad")
            run(annblock, "pack", a, "-o", Path(work) / "store", "--matrix", "all", *options)
            matrix_names = ["X", "layers/csc", "layers/scrambled", "layers/dense", "layers/flags", "obsm/X_pca", "raw/X"]
            describe(Path(work), parts=["a.h5ad"], matrices=matrix_names)
            archive(Path(work), name)
    with tempfile.TemporaryDirectory() as work:
        w = Path(work)
        a = source(w / "a.h5ad", made_files.counts(n=30, m=12, seed=1), genes=[f"g{i}" for i in range(12)])
        b = source(w / "b.h5ad", made_files.counts(n=20, m=15, seed=2), ["c", "d"], [f"g{i}" for i in range(20, 5, -1)])
        c = source(w / "c.h5ad", made_files.counts(n=10, m=8, seed=3), ["e", "a"], [f"g{i}" for i in range(3, 11)])
        d = source(w / "d.h5ad", made_files.counts(n=20, m=15, seed=9), ["x"], [f"g{i}" for i in range(20, 5, -1)])
        run(annblock, "pack", a, b, "-o", w / "store", "--join", "outer")
        run(annblock, "append", w / "store", c, "--join", "outer", "--shuffle", 5)
        run(annblock, "annotate", w / "store", "--from", d, "--part", 1)
        describe(w, parts=["a.h5ad", "b.h5ad", "c.h5ad"], matrices=["X"], generations=3, annotated={"1": "d.h5ad"})
        archive(w, "parts")


def earlier(annblock, commit):
    """What that program can: X, of counts and of few values."""
    for kind, x in [("counts", made_files.counts(n=60, m=25, density=0.3)), ("values", scrambled(few_values(made_files.counts(n=60, m=25))))]:
        with tempfile.TemporaryDirectory() as work:
            a = source(Path(work) / "a.h5ad", x)
            subprocess.run([annblock, "pack", a, "-o", Path(work) / "store"], check=True)
            describe(Path(work), parts=["a.h5ad"], matrices=["X"], commit=commit)
            archive(Path(work), f"earlier-{commit}-{kind}")


# ---- stores of other versions ----


def sealed(data):
    """With the checks of header, footer and trailer that fit what they hold (SPEC.md, 2)."""
    import xxhash

    data = bytearray(data)
    little128 = lambda b: xxhash.xxh3_128_digest(b)[::-1]
    footer, size = struct.unpack_from("<QQ", data, len(data) - 48)
    check = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(data[:120])))
    data[120:128] = data[footer : footer + 8] = check
    data[-32:-16] = little128(bytes(data[footer : footer + size]))
    data[-8:] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(data[-64:-8])))
    return bytes(data)


def changed(data, at, form, value):
    data = bytearray(data)
    struct.pack_into(form, data, at, value)
    return sealed(data)


def replace_object(store, suffix, change):
    """Another content of an object, under its own name, in a manifest that names it."""
    import xxhash

    old = next((store / "objects").glob("*" + suffix))
    data = change(old.read_bytes())
    sha = hashlib.sha256(data)
    old.unlink()
    (store / "objects" / (sha.hexdigest() + suffix)).write_bytes(data)
    path = store / "manifests" / ("1".zfill(20) + ".annm")
    manifest = bytearray(path.read_bytes())
    at = manifest.index(bytes.fromhex(old.stem))
    manifest[at : at + 48] = sha.digest() + data[-32:-16]
    footer, = struct.unpack_from("<Q", manifest, len(manifest) - 48)
    contents = hashlib.sha256()
    for row in range(footer + 16, len(manifest) - 64, 64):
        _, _, offset, length = struct.unpack_from("<IIQQ", manifest, row)
        manifest[row + 32 : row + 48] = xxhash.xxh3_128_digest(bytes(manifest[offset : offset + length]))[::-1]
        contents.update(manifest[offset : offset + length])
    manifest[48:64] = contents.digest()[:16]  # the store's id
    path.chmod(0o644)
    path.write_bytes(sealed(manifest))


VERSIONS = {  # name: (file, offset, form, value, what the message says; None: it opens)
    "manifest-major": (".annm", 8, "<H", 1, ["format 1.1", "newer", "0.1", "use a newer annblock"]),
    "manifest-minor": (".annm", 10, "<H", 2, ["format 0.2", "newer", "0.1", "use a newer annblock"]),
    "manifest-older": (".annm", 10, "<H", 0, ["format 0.0", "older", "0.1", "use"]),
    "manifest-incompat": (".annm", 16, "<Q", 1 << 40, ["feature bit 40", "newer annblock"]),
    "manifest-compat": (".annm", 32, "<Q", 1 << 40, None),
    "segment-minor": (".anns", 10, "<H", 2, ["format 0.2", "newer", "0.1", "use a newer annblock"]),
    "segment-incompat": (".anns", 16, "<Q", 1 << 41 | 1, ["feature bit 41", "newer annblock"]),
    "segment-codec": (".anns", 64, "<Q", 1 << 9 | 8, ["codec bit 9", "newer annblock"]),
    "arrays-minor": (".annc", 10, "<H", 7, ["format 0.7", "newer", "0.1", "use a newer annblock"]),
    "manifest-export": (".annm", 24, "<Q", 1 << 42, ["feature bit 42", "newer annblock"]),
}


def versions(annblock):
    with tempfile.TemporaryDirectory() as work:
        a = made_files.write(Path(work) / "a.h5ad", made_files.counts(n=20, m=10))
        for name, (suffix, at, form, value, says) in VERSIONS.items():
            store = Path(work) / name
            subprocess.run([annblock, "pack", a, "-o", store], check=True)
            if suffix == ".annm":
                path = next((store / "manifests").iterdir())
                path.chmod(0o644)
                path.write_bytes(changed(path.read_bytes(), at, form, value))
            else:
                replace_object(store, suffix, lambda data, at=at, form=form, value=value: changed(data, at, form, value))
        describe(Path(work), stores={name: {"file": v[0], "says": v[4]} for name, v in VERSIONS.items()})
        archive(Path(work), "versions")


if __name__ == "__main__":
    {"present": present, "earlier": earlier, "versions": versions}[sys.argv[1]](*sys.argv[2:])
