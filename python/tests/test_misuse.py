"""What is easily got wrong: options that would give other numbers than meant are refused, and messages say what to do."""

import sys
import warnings

import annblock
import anndata
import numpy as np
import pandas as pd
import pytest


def loader(store, **options):
    return annblock.Loader(store, **{"num_threads": 1, "batch_size": 32, "fetch_factor": 8, **options})


@pytest.fixture(scope="module")
def masked_store(tmp_path_factory):
    """12 cells with nullable numbers (row 3 is missing) and a label that is missing in row 1."""
    folder = tmp_path_factory.mktemp("masked")
    obs = pd.DataFrame(
        {
            "weight": pd.array([1, 2, 3, None, *range(8)], dtype="Int64"),
            "kept": pd.array([True, False] * 6, dtype="boolean"),
            "kind": pd.Categorical(["a", None, "b", "a"] * 3),
        },
        index=[f"cell{i}" for i in range(12)],
    )
    var = pd.DataFrame(index=["CD19", "CD3E", "MS4A1", "CD19x"])
    anndata.AnnData(np.arange(48, dtype=np.float32).reshape(12, 4), obs, var).write_h5ad(folder / "a.h5ad")
    annblock.pack(folder / "a.h5ad", folder / "a.annblock")
    annblock.pack(folder / "a.h5ad", folder / "other.annblock", gene_order="source")
    return folder / "a.annblock"


# ---- weights and ranks ----


@pytest.mark.parametrize("column, kind", [("cell_line", "categorical"), ("plate", "categorical")])
def test_weights_are_numbers(store, column, kind):
    with pytest.raises(annblock.ArgumentError, match=f"'{column}' of obs is a {kind} column; weights need one of numbers"):
        loader(store, strategy="weighted", weights=column)


def test_missing_weights_name_the_row(masked_store):
    with pytest.raises(annblock.ArgumentError, match="the weight of row 3 is missing or NaN") as caught:
        loader(masked_store, strategy="weighted", weights="weight")
    assert caught.value.row == 3
    with pytest.raises(annblock.ArgumentError, match="row 15 is missing"):
        loader([masked_store, masked_store.with_stem("other")], strategy="weighted", weights="weight", rows=range(12, 24))
    rows = [0, 1, 2, 4, 5]  # row 4 has weight 0
    one = loader(masked_store, strategy="weighted", weights="weight", rows=rows, num_samples=400)
    drawn = np.concatenate([b.rows for b in one])
    assert set(drawn.tolist()) == {0, 1, 2, 5}


@pytest.mark.parametrize("bad, what", [(np.nan, "missing or NaN"), (-1, "is -1"), (np.inf, "is inf")])
def test_bad_weights_name_the_row(store, bad, what):
    weights = np.ones(2000)
    weights[77] = bad
    with pytest.raises(annblock.ArgumentError, match=f"row 77 {'' if 'is' in what[:2] else 'is '}{what}"):
        loader(store, strategy="weighted", weights=weights, rows=np.arange(50, 100))
    with pytest.raises(annblock.ArgumentError, match="weights are numbers"):
        loader(store, strategy="weighted", weights=["a"] * 2000)


def test_options_of_other_strategies(store):
    with pytest.raises(annblock.ArgumentError, match='weights need strategy="weighted"'):
        loader(store, weights=np.ones(2000))
    with pytest.raises(annblock.ArgumentError, match='balance needs strategy="balanced"'):
        loader(store, balance="cell_line")


def test_rank_needs_world_size(store):
    with pytest.raises(annblock.ArgumentError, match="rank needs world_size"):
        loader(store, rank=1)
    with pytest.raises(annblock.ArgumentError, match="world_size needs rank"):
        loader(store, world_size=2)
    assert len(loader(store, world_size=1)) == len(loader(store)) == len(loader(store, rank=0, world_size=1))


# ---- genes, labels, rows ----


def test_one_gene(masked_store):
    batch = next(iter(loader(masked_store, genes="CD19", output="dense", batch_size=12)))
    assert batch.X.shape == (12, 1) and np.array_equal(batch.X[:, 0], batch.rows * 4)
    assert loader(masked_store, genes="CD19").genes == ["CD19"]
    assert next(iter(loader(masked_store, genes=1, output="dense"))).X.shape == (12, 1)


@pytest.mark.parametrize("genes", [np.ones(4, bool), [1.0, 2.0], [["CD19"]]])
def test_genes_of_other_kinds(masked_store, genes):
    with pytest.raises(annblock.ArgumentError, match="genes are names or column numbers"):
        loader(masked_store, genes=genes)


def test_gene_twice(masked_store):
    with pytest.raises(annblock.ArgumentError, match="genes: CD3E is asked for twice"):
        loader(masked_store, genes=["CD19", "CD3E", "MS4A1", "CD3E"])
    with pytest.raises(annblock.ArgumentError, match="genes: 2 is asked for twice"):
        loader(masked_store, genes=[2, 0, 2])
    assert loader(masked_store, genes=[0, -1, -1]).wanted[0].n_cols == 3


def test_near_names(store, masked_store):
    with pytest.raises(annblock.NotFoundError, match="no column 'Cell_Line'; did you mean 'cell_line'"):
        loader(store, labels="Cell_Line")
    with pytest.raises(annblock.ArgumentError, match="'n_genes' of obs is not categorical"):
        loader(store, labels=["n_genes"])
    with pytest.warns(UserWarning, match="1 of 2 genes are not in .*did you mean 'CD3E'"):
        loader(masked_store, genes=["CD19", "cd3e"])
    with annblock.open(masked_store) as opened, pytest.raises(annblock.NotFoundError, match="no gene called 'MS4A'; did you mean 'MS4A1'"):
        opened[0, "MS4A"]


def test_masks_are_no_predicates(store):
    mask = np.ones(2000, bool)
    for wrong in (mask, mask.tolist()):
        with pytest.raises(annblock.ArgumentError, match="a mask goes into rows="):
            loader(store, where=wrong)
    for wrong in (None, mask):
        with pytest.raises(annblock.ArgumentError, match="where takes a predicate over obs"):
            store.where(wrong)


def test_no_rows_are_told(store):
    with pytest.warns(UserWarning, match="no cell is left by where='n_genes < 0'"):
        assert list(loader(store, where="n_genes < 0")) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader(store, where="n_genes >= 0")


# ---- stores ----


def test_to_anndata_genes(store, adata):
    names = list(adata.var_names[[7, 3]])
    some = store.to_anndata([5, 2], names)
    assert list(some.var_names) == names and list(some.obs_names) == list(adata.obs_names[[5, 2]])
    assert np.array_equal(some.X.toarray(), adata.X[[5, 2]][:, [7, 3]].toarray())
    assert np.array_equal(store.to_anndata(genes=names).X.toarray(), adata.X[:, [7, 3]].toarray())
    with pytest.raises(TypeError):
        store.to_anndata([5, 2], None, True)


def test_attributes_of_anndata(store):
    for name, hint in (("X", r"store\.matrix\(\)"), ("layers", "layers/NAME"), ("uns", r"store\.to_anndata\(\)")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{hint}"):
            getattr(store, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        store.nonsense


def test_torch_is_asked_for_at_once(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="output='torch' needs the torch package"):
        annblock.Loader(store, output="torch")


# ---- converting ----


def test_store_and_file_exchanged(example_h5ad, example_store, tmp_path):
    with pytest.raises(annblock.NotAStoreError, match=r"is a file, not a store: the order is append\(paths, store\)"):
        annblock.append(example_store, example_h5ad)
    with pytest.raises(annblock.NotAStoreError, match=r"is a file, not a store: the order is annotate\(store, source\)"):
        annblock.annotate(example_h5ad, example_store)
    with pytest.raises(annblock.NotAStoreError, match="does not exist"):
        annblock.append(example_h5ad, tmp_path / "none")


def test_signatures_name_their_options():
    import inspect

    for function in (annblock.pack, annblock.append, annblock.export):
        found = inspect.signature(function).parameters
        assert {"threads", "memory", "progress"} <= set(found) and not any(p.kind is p.VAR_KEYWORD for p in found.values())
    with pytest.raises(TypeError, match="matrix"):
        annblock.pack("a.h5ad", "a.annblock", matrix="X")


def test_shuffle(example_h5ad, store, tmp_path):
    annblock.pack(example_h5ad, tmp_path / "s", shuffle=5)
    with annblock.open(tmp_path / "s") as shuffled:
        names = list(shuffled.obs_names)
        assert shuffled.parts[0].shuffled and names != list(store.obs_names) and sorted(names) == sorted(store.obs_names)
        assert (shuffled[:50] != store[names[:50]]).nnz == 0
    annblock.export(tmp_path / "s", tmp_path / "again.h5ad")
    assert annblock.compare(example_h5ad, tmp_path / "again.h5ad") == []
    for wrong in (True, -1, 1.5):
        with pytest.raises(annblock.ArgumentError, match="shuffle is a seed"):
            annblock.pack(example_h5ad, tmp_path / "t", shuffle=wrong)
