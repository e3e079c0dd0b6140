"""A program with types over the public API, for mypy --strict: test_types.py. It is checked, not run."""

from pathlib import Path

import annblock
import numpy as np
import pandas as pd


def everything(path: Path, source: str) -> None:
    packed: annblock.Packed = annblock.pack([source], path, matrices="all", memory="512M", shuffle=3)
    packed = annblock.append(source, path, join="outer")
    print(packed.n_obs + packed.generation)
    with annblock.open(path, generation=1) as store:
        look(store)
        train(annblock.Loader(store, 64, labels="plate", genes=["CD19"], where="n > 3", output="dense", seed=1))
        train(annblock.Loader([str(path), store], rows=np.arange(3), strategy=[[1, 2], [3]], transform=lambda batch: batch.X))
    generation: int = annblock.annotate(path, source)
    found: list[annblock.Finding] = annblock.verify(path)
    differences: list[tuple[str, str]] = annblock.compare(source, Path(source))
    annblock.export(path, "out.h5ad", rows=[1, 2], where="n > 3", genes=["CD19"], compression="gzip", level=1)
    print(generation, found, differences)


def look(store: annblock.Store) -> None:
    shape: tuple[int, int] = store.shape
    mask: np.ndarray = store.where("n > 3")
    names: pd.Index = store.var_names
    column: pd.Series = store.obs["plate"]
    table: pd.DataFrame = store.obs[["plate"]]
    codes: np.ndarray = store.obs.column("plate").values
    x: annblock.Matrix = store.matrix("layers/counts")
    some = x.csr(mask, dtype="int16", sort_indices=True)
    dense: np.ndarray = x.dense(slice(3), dtype=np.float32)
    mixed: annblock.Entropy = annblock.entropy(store, "plate", batch_size=64)
    print(shape, names, column, table, codes, some, dense, mixed.mean, store[:3, "CD19"], store.to_anndata(mask))


def train(loader: annblock.Loader) -> None:
    loader.set_epoch(2)
    n: int = len(loader)
    for batch in loader:
        rows: np.ndarray = batch.rows
        print(n, batch.X, batch.obs["plate"], rows, batch.epoch + batch.step, batch["plate"])
    state: dict[str, object] = loader.state_dict()
    loader.load_state_dict(state)
    print(loader.categories["plate"], loader.genes, loader.epoch)


def wrong(path: str) -> None:
    try:
        annblock.open(path)
    except annblock.CorruptError as error:
        print(error.path, error.row, error.code, error.status)
    except annblock.Error as error:
        print(str(error), error.path)
