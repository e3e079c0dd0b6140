#!/usr/bin/env python3
"""Make examples/example.h5ad: a small made-up screen with the parts that real files have. Needs anndata.

Counts are negative-binomial draws around profiles of eight cell types, so sparsity, the share of ones and the spread of
detection over genes look like those of droplet data. Everything comes from one seed: make_example.py [OUT.h5ad]
"""
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

SEED = 20240607
N_CELLS, N_GENES, N_PCS, N_NEIGHBORS = 2000, 2400, 30, 12
TYPES = ["B cell", "CD4 T cell", "CD8 T cell", "Dendritic cell", "Megakaryocyte", "Monocyte", "NK cell", "Plasma cell"]
SHARES = [0.13, 0.27, 0.16, 0.05, 0.02, 0.22, 0.11, 0.04]
MARKERS = {
    "B cell": "MS4A1 CD79A CD79B CD19 BANK1 CD74",
    "CD4 T cell": "CD3D CD3E IL7R CD4 LTB TCF7 CCR7",
    "CD8 T cell": "CD3G CD8A CD8B GZMK CCL5",
    "Dendritic cell": "FCER1A CST3 CLEC10A CD1C HLA-DRA",
    "Megakaryocyte": "PPBP PF4 GP9 ITGA2B TUBB1",
    "Monocyte": "LYZ CD14 S100A8 S100A9 FCN1 VCAN",
    "NK cell": "NKG7 GNLY KLRD1 PRF1 NCAM1",
    "Plasma cell": "MZB1 SDC1 JCHAIN IGHG1 XBP1",
}
HOUSEKEEPING = "MALAT1 ACTB B2M TMSB4X EEF1A1 RPLP0 RPL13A RPS18 GAPDH FTH1 MT-CO1 MT-CO2 MT-CO3 MT-ND1 MT-ND4 MT-ATP6 MT-CYB TPT1 UBC NEAT1"
FAMILIES = "ZNF SLC TMEM KIAA FAM CCDC LINC USP RBM DDX PSM NDUF COX ATP6V MRPL MRPS WDR KLHL TRIM ANKRD LRRC EIF POLR GTF".split()


def gene_names(rng):
    known = HOUSEKEEPING.split() + [g for genes in MARKERS.values() for g in genes.split()]
    names, seen = list(dict.fromkeys(known)), set(known)
    while len(names) < N_GENES:
        family = FAMILIES[rng.integers(len(FAMILIES))]
        name = f"{family}{rng.integers(1, 900):05d}" if family == "LINC" else f"{family}{rng.integers(1, 900)}"
        if name not in seen:
            seen.add(name)
            names.append(name)
    return np.array(names)


def profiles(rng, genes):
    """Expected share of each gene in each type: a few genes are everywhere, most are rare."""
    base = rng.lognormal(mean=-1.2, sigma=1.7, size=genes.size)
    base[: len(HOUSEKEEPING.split())] = rng.uniform(60, 400, len(HOUSEKEEPING.split()))
    share = np.repeat(base[None, :], len(TYPES), axis=0) * rng.lognormal(0, 0.35, (len(TYPES), genes.size))
    for t, name in enumerate(TYPES):
        share[t, np.isin(genes, MARKERS[name].split())] += 80
    return share / share.sum(axis=1, keepdims=True)


def barcodes(rng, n):
    letters = np.array(list("ACGT"))
    names = {}
    while len(names) < n:
        names["".join(letters[rng.integers(0, 4, 16)]) + "-1"] = None
    return list(names)


def layout(rng):
    """Plates one after the other, as sequencing delivers them; each holds a few cell lines."""
    plate = np.sort(rng.integers(0, 6, N_CELLS))
    line = plate // 2 * 2 + rng.integers(0, 2, N_CELLS)
    cell_type = rng.choice(len(TYPES), N_CELLS, p=SHARES)
    return plate, line, cell_type


def log_normal(x):
    scale = 1e4 / np.maximum(np.asarray(x.sum(axis=1)).ravel(), 1)
    y = (sp.diags(scale) @ x).tocsr()
    y.data = np.log1p(y.data)
    return y


def pca(y):
    centred = y.toarray() - np.asarray(y.mean(axis=0))
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    return (u[:, :N_PCS] * s[:N_PCS]).astype("f4"), (s[:N_PCS] ** 2 / (s**2).sum()).astype("f4")


def neighbors(points):
    square = (points.astype("f8") ** 2).sum(axis=1)
    distance = np.maximum(square[:, None] + square[None, :] - 2 * points.astype("f8") @ points.astype("f8").T, 0)
    near = np.argsort(distance, axis=1, kind="stable")[:, 1 : N_NEIGHBORS + 1]
    rows = np.repeat(np.arange(len(points)), N_NEIGHBORS)
    graph = sp.csr_matrix((np.sqrt(distance[rows, near.ravel()]).astype("f4"), (rows, near.ravel())), shape=distance.shape)
    graph.sort_indices()
    return graph


def obs_table(rng, x, genes, plate, line, cell_type):
    codes = cell_type.copy()
    codes[rng.random(N_CELLS) < 0.03] = -1  # cells that nobody could annotate
    total = np.asarray(x.sum(axis=1)).ravel()
    mitochondrial = np.asarray(x[:, np.char.startswith(genes.astype(str), "MT-")].sum(axis=1)).ravel()
    passages = pd.array(rng.integers(3, 30, N_CELLS), dtype="Int32")
    passages[rng.random(N_CELLS) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "cell_type": pd.Categorical.from_codes(codes, TYPES),
            "cell_line": pd.Categorical.from_codes(line, [f"CVCL_{n:04d}" for n in (23, 131, 320, 459, 546, 1285)]),
            "plate": pd.Categorical.from_codes(plate, [f"plate{i + 1}" for i in range(6)], ordered=True),
            "batch": pd.Categorical.from_codes(plate % 2, ["2024-03-11", "2024-03-18"]),
            "n_genes": np.diff(x.indptr).astype("i4"),
            "total_counts": total.astype("f4"),
            "pct_counts_mt": (100 * mitochondrial / np.maximum(total, 1)).astype("f8"),
            "passage": passages,
            "passed_qc": total > 200,
            "well": [f"{'ABCDEFGH'[w // 12]}{w % 12 + 1:02d}" for w in rng.integers(0, 96, N_CELLS)],
        },
        index=pd.Index(barcodes(rng, N_CELLS), name="barcode"),
    )


def var_table(rng, x, genes):
    numbers = np.sort(rng.choice(280000, N_GENES, replace=False))
    return pd.DataFrame(
        {
            "gene_ids": [f"ENSG00000{n:06d}" for n in numbers],
            "feature_types": pd.Categorical(["Gene Expression"] * N_GENES),
            "n_cells": np.asarray((x > 0).sum(axis=0)).ravel().astype("i4"),
            "mean_counts": np.asarray(x.mean(axis=0)).ravel().astype("f4"),
        },
        index=pd.Index(genes, name="gene_symbol"),
    )


def make():
    rng = np.random.default_rng(SEED)
    genes = gene_names(rng)
    order = rng.permutation(N_GENES)
    plate, line, cell_type = layout(rng)
    depth = rng.lognormal(mean=6.6, sigma=0.45, size=N_CELLS)
    mean = profiles(rng, genes)[cell_type] * depth[:, None]
    counts = rng.poisson(mean * rng.gamma(2.5, 1 / 2.5, mean.shape))[:, order]
    genes = genes[order]
    x = sp.csr_matrix(counts.astype("f4"))
    unspliced = sp.csr_matrix(rng.binomial(counts, 0.18).astype("f4"))
    points, variance = pca(log_normal(x))
    adata = anndata.AnnData(X=x, obs=obs_table(rng, x, genes, plate, line, cell_type), var=var_table(rng, x, genes), layers={"unspliced": unspliced})
    adata.obsm["X_pca"] = points
    adata.obsp["distances"] = neighbors(points)
    adata.uns["cell_type_colors"] = np.array(["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"])
    adata.uns["pca"] = {"variance_ratio": variance, "params": {"zero_center": True, "use_highly_variable": False}}
    adata.uns["neighbors"] = {"distances_key": "distances", "params": {"n_neighbors": N_NEIGHBORS, "method": "exact", "random_state": 0}}
    adata.uns["study"] = {"title": "A made-up perturbation screen", "made_by": "examples/make_example.py", "seed": SEED}
    return adata


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("example.h5ad")
    make().write_h5ad(out, compression="gzip")
