"""Both comparisons, h5compare.py and `annblock convert-check`, see each kind of change; otherwise the round trips would prove nothing."""
import shutil

import h5py
import numpy as np
import pytest

from h5compare import differences
from support import run


def original(path):
    with h5py.File(path, "w", track_order=False) as f:
        f.attrs["encoding-type"] = "anndata"
        f["X"] = np.arange(12, dtype="f4").reshape(3, 4)
        f["other"] = np.array([0.0, np.nan])
        f["words"] = np.array(["a", "bc", ""], object)
        f["fixed"] = np.array([b"ab", b"c"])
        f["table"] = np.array([(1, b"x"), (2, b"y")], [("n", "i4"), ("s", "S3")])
        r = f.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
        r[0], r[1] = [1, 2], [3]
        f["group/inner"] = 5
        f["shared"] = np.arange(3)
        f["group/twice"] = f["shared"]
        f["soft"] = h5py.SoftLink("/X")
        f["external"] = h5py.ExternalLink("away.h5", "/a")
        f["pointer"] = np.array([f["X"].ref, f["group"].ref], h5py.ref_dtype)
        f["null"] = h5py.Empty("f4")
        f["X"].attrs["note"] = "text"
        f["X"].attrs["numbers"] = np.arange(3)
        g = f.create_group("ordered", track_order=True)
        for name in "zam":
            g[name] = 1
    return path


def rewrite(f, name, value, **options):
    del f[name]
    f.create_dataset(name, data=value, **options)


CHANGES = {
    "value": ("/X", lambda f: f["X"].__setitem__((1, 1), 99)),
    "sign_of_zero": ("/other", lambda f: f["other"].__setitem__(0, -0.0)),
    "nan_payload": ("/other", lambda f: f["other"].__setitem__(1, np.array(0x7FF8000000000001, "u8").view("f8"))),
    "dtype": ("/group/inner", lambda f: rewrite(f, "group/inner", np.int32(5))),
    "byte_order": ("/group/inner", lambda f: rewrite(f, "group/inner", np.array(5, ">i8"))),
    "shape": ("/other", lambda f: rewrite(f, "other", np.array([[0.0], [np.nan]]))),
    "scalar_or_vector": ("/group/inner", lambda f: rewrite(f, "group/inner", np.array([5]))),
    "null_or_scalar": ("/null", lambda f: rewrite(f, "null", np.float32(0))),
    "word": ("/words", lambda f: f["words"].__setitem__(1, "bd")),
    "string_kind": ("/words", lambda f: rewrite(f, "words", np.array([b"a", b"bc", b""]))),
    "string_charset": ("/words", lambda f: rewrite(f, "words", np.array(["a", "bc", ""], object), dtype=h5py.string_dtype("ascii"))),
    "fixed_length": ("/fixed", lambda f: rewrite(f, "fixed", np.array([b"ab", b"c"], "S5"))),
    "field_value": ("/table", lambda f: f["table"].__setitem__(1, (3, b"y"))),
    "field_name": ("/table", lambda f: rewrite(f, "table", np.array([(1, b"x"), (2, b"y")], [("m", "i4"), ("s", "S3")]))),
    "ragged_value": ("/ragged", lambda f: f["ragged"].__setitem__(1, [4])),
    "ragged_length": ("/ragged", lambda f: f["ragged"].__setitem__(1, [3, 3])),
    "extra_object": ("/more", lambda f: f.__setitem__("more", 1)),
    "extra_group": ("/group/empty", lambda f: f["group"].create_group("empty")),
    "missing_object": ("/group/inner", lambda f: f.__delitem__("group/inner")),
    "group_or_dataset": ("/group/inner", lambda f: (f.__delitem__("group/inner"), f.create_group("group/inner"))),
    "attribute_value": ("/X", lambda f: f["X"].attrs.modify("note", "tex")),
    "attribute_array": ("/X", lambda f: f["X"].attrs.modify("numbers", np.array([0, 1, 3]))),
    "attribute_dtype": ("/X", lambda f: f["X"].attrs.create("numbers", np.arange(3, dtype="i4"))),
    "attribute_extra": ("/X", lambda f: f["X"].attrs.create("new", 1)),
    "attribute_missing": ("/", lambda f: f.attrs.__delitem__("encoding-type")),
    "soft_target": ("/soft", lambda f: (f.__delitem__("soft"), f.__setitem__("soft", h5py.SoftLink("X")))),
    "soft_or_hard": ("/soft", lambda f: (f.__delitem__("soft"), f.__setitem__("soft", f["X"]))),
    "external_target": ("/external", lambda f: (f.__delitem__("external"), f.__setitem__("external", h5py.ExternalLink("away.h5", "/b")))),
    "shared_or_copied": (("/group/twice", "/shared"), lambda f: (f.__delitem__("group/twice"), f.copy("shared", "group/twice"))),
    "reference": ("/pointer", lambda f: f["pointer"].__setitem__(0, f["group"].ref)),
    "creation_order": ("/ordered", lambda f: (f["ordered"].__delitem__("z"), f["ordered"].__setitem__("z", 1))),
}


# The order in which links were made is compared here only: convert-check is about what a reader of the file can tell by name.
ONLY_HERE = {"creation_order"}


@pytest.mark.parametrize("name", CHANGES)
def test_change_is_seen(name, tmp_path):
    path, change = CHANGES[name]
    a = original(tmp_path / "a.h5ad")
    b = tmp_path / "b.h5ad"
    shutil.copy(a, b)
    with h5py.File(b, "r+") as f:
        change(f)
    found = differences(a, b)
    assert found and all(line.startswith(path) for line in found), found
    if name in ONLY_HERE:
        return
    result = run("convert-check", a, b)
    assert result.code == 1, str(result)
    assert any(line.startswith(path) for line in result.out.splitlines()), str(result)
    assert "difference" in result.out.splitlines()[-1]


@pytest.mark.parametrize("fills, same", [((None, 0.0), True), ((3.0, 3.0), True), ((3.0, 4.0), False)])
@pytest.mark.parametrize("chunks", [None, (1 << 20,)])
def test_unwritten_is_not_read(fills, same, chunks, tmp_path):
    """Terabytes that are only stated are told apart by their fill values."""
    files = tmp_path / "a.h5ad", tmp_path / "b.h5ad"
    for path, fill in zip(files, fills):
        with h5py.File(path, "w") as f:
            f.create_dataset("numbers", (1 << 40,), "f8", fillvalue=fill, chunks=chunks)
            f.create_dataset("words", (1 << 40,), h5py.string_dtype(), chunks=chunks)
            f.create_dataset("pointers", (1 << 40,), h5py.ref_dtype, chunks=chunks)
    found = [line.split(":")[0] for line in differences(*files)]
    assert found == ([] if same else ["/numbers"])
    if same:
        assert run("convert-check", *files, timeout=30).code == 0


@pytest.mark.parametrize("other, same", [((slice(1, 3), slice(0, 2)), True), ((slice(1, 3), slice(0, 3)), False)])
def test_regions(other, same, tmp_path):
    """By what they select: the newest libraries encode the same region in another way."""
    files = tmp_path / "a.h5ad", tmp_path / "b.h5ad"
    for path, libver, region in ((files[0], "earliest", (slice(1, 3), slice(0, 2))), (files[1], "latest", other)):
        with h5py.File(path, "w", libver=libver) as f:
            d = f.create_dataset("d", data=np.arange(12).reshape(3, 4))
            f.create_dataset("region", data=np.array([d.regionref[region]], h5py.regionref_dtype), dtype=h5py.regionref_dtype)
    assert bool(differences(*files)) != same


def test_layout_does_not_matter(tmp_path):
    a = original(tmp_path / "a.h5ad")
    b = tmp_path / "b.h5ad"
    shutil.copy(a, b)
    with h5py.File(b, "r+") as f:
        x, attributes, order = f["words"][()], dict(f["words"].attrs), f["other"][()]
        rewrite(f, "other", order, compression="gzip", chunks=(1,), maxshape=(None,))
        rewrite(f, "words", x, chunks=(2,), dtype=h5py.string_dtype())
        f["words"].attrs.update(attributes)
    assert differences(a, b) == []
    assert run("convert-check", a, b).code == 0


def test_same_file(tmp_path):
    a = original(tmp_path / "a.h5ad")
    assert differences(a, a) == []
    result = run("convert-check", a, a)
    assert result.code == 0 and result.out.startswith("ok: ") and result.err == "", str(result)
