"""What packing and export are compared with: run by bench/convert.py in the peers' own environment. Prints seconds, without imports."""
import sys
import time
import warnings

warnings.simplefilter("ignore")


def cellstream(source, out):
    from cellstream import write_sharded

    begin = time.perf_counter()
    write_sharded(source, out, layout="cell", n_workers=THREADS)
    return time.perf_counter() - begin


def annbatch(source, out):
    import zarr
    import zarrs  # its codecs, which annbatch recommends: they have to be asked for
    from annbatch import DatasetCollection

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": THREADS})
    if not zarr.registry.get_pipeline_class().__module__.startswith(zarrs.__name__):
        sys.exit("zarr does not use the pipeline of zarrs")
    begin = time.perf_counter()
    DatasetCollection(out, mode="w").add_adatas([source], shuffle=False)
    return time.perf_counter() - begin


def write_h5ad(source, out, compression=None):
    import anndata

    data = anndata.read_h5ad(source)
    begin = time.perf_counter()
    data.write_h5ad(out, compression=compression)
    return time.perf_counter() - begin


def write_h5ad_gzip(source, out):
    return write_h5ad(source, out, "gzip")


if __name__ == "__main__":
    THREADS = int(sys.argv[4])
    print(f"{globals()[sys.argv[1]](sys.argv[2], sys.argv[3]):.4f}", flush=True)
