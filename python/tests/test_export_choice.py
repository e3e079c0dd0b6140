"""Cells and genes of annblock.export: those that are meant, whatever they are called, and of a part."""

import annblock
import anndata
import h5py
import numpy as np
import pandas as pd
import pytest

# What a list with a name a line cannot say, and numbers that are names.
GENES = ["a", "b", "a\nb", "", " x", "x\r", "c", "7", "c", "\ufeffd", "é"]


def write(path, names, genes=tuple("xyz"), first=0):
    values = np.arange(len(names) * len(genes), dtype="f4").reshape(len(names), -1) + first
    anndata.AnnData(values, pd.DataFrame(index=names), pd.DataFrame(index=pd.Index(genes, dtype=object))).write_h5ad(path)
    return values


def exported(store, out, **choice):
    annblock.export(store, out, force=True, **choice)
    with h5py.File(out) as f:
        return f["X"][()].tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("genes", [[i] for i in range(len(GENES))] + [[8, 2, 5, 7, 0], ["a\nb", "", "é"], slice(None, None, -1)])
def test_odd_gene_names(genes, tmp_path):
    values = write(tmp_path / "a.h5ad", ["c1", "c2"], GENES)
    annblock.pack(tmp_path / "a.h5ad", tmp_path / "s")
    columns = [GENES.index(g) if isinstance(g, str) else g for g in genes] if isinstance(genes, list) else genes
    assert exported(tmp_path / "s", tmp_path / "o.h5ad", genes=genes) == values[:, columns].tolist()


@pytest.mark.parametrize(
    "rows, chosen", [(["b1"], [1]), ([-1, 0], [3, 0]), (slice(-2, None), [2, 3]), (np.array([True, False, True, False]), [0, 2])]
)
def test_rows_of_a_part(rows, chosen, tmp_path):
    write(tmp_path / "a.h5ad", ["a0", "a1", "a2"])
    values = write(tmp_path / "b.h5ad", ["b0", "b1", "b2", "b3"], first=100)
    annblock.pack([tmp_path / "a.h5ad", tmp_path / "b.h5ad"], tmp_path / "s")
    assert exported(tmp_path / "s", tmp_path / "o.h5ad", part=1, rows=rows) == values[chosen].tolist()
    for wrong, error in ((["a1"], annblock.NotFoundError), ([4], annblock.RangeError)):
        with pytest.raises(error):
            annblock.export(tmp_path / "s", tmp_path / "no.h5ad", part=1, rows=wrong)
    with pytest.raises(annblock.RangeError, match="no part 2"):
        annblock.export(tmp_path / "s", tmp_path / "no.h5ad", part=2, rows=rows)
    assert not (tmp_path / "no.h5ad").exists()
