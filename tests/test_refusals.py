"""What would write a broken file, or something else than was meant, is refused, and leaves nothing behind."""
import pytest

from support import EXAMPLE, ok, refused, run, tree


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "example.annblock"
    ok("pack", EXAMPLE, "-o", path)
    return path


@pytest.mark.parametrize("place", ["objects/x", "x", "x.annblock/", "manifests/x", "objects/../objects/x"])
def test_no_store_inside_a_store(store, tmp_path, place):
    before = tree(store)
    for path in (store / place, f"{store}/{place}"):
        assert f"lies inside the store {store.resolve()}" in refused(run("pack", EXAMPLE, "-o", path), "")
    (tmp_path / "link").symlink_to(store / "objects")
    assert "lies inside the store" in refused(run("pack", EXAMPLE, "-o", tmp_path / "link" / "x"), "")
    (store / "deep").mkdir()
    assert "lies inside the store" in refused(run("pack", EXAMPLE, "-o", store / "deep" / "x"), "")
    assert "lies inside the store" in refused(run("export", store, "-o", store / "deep" / "x.h5ad"), "")
    (store / "deep").rmdir()
    assert tree(store) == before


def test_a_store_beside_a_store(store, tmp_path):
    ok("pack", EXAMPLE, "-o", store.parent / "example.annblock2")
    ok("pack", EXAMPLE, "-o", store.parent / "example.annblock2", "--force")


def test_join_key_of_one_file(tmp_path):
    text = refused(run("pack", EXAMPLE, "-o", tmp_path / "s", "--join-key", "nosuch"), "")
    assert EXAMPLE.name in text and "has no column 'nosuch' in var, which genes are to be matched by" in text
    assert not (tmp_path / "s").exists()
    ok("pack", EXAMPLE, "-o", tmp_path / "t", "--join-key", "gene_ids", "--matrix", "all")
