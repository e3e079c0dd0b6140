"""Small files made for the tests: ACCEPT must round-trip, REJECT must be refused. Each entry writes one file: make(path)."""
import h5py
import numpy as np
import scipy.sparse as sp

ACCEPT, REJECT = {}, {}
MATRICES, REJECT_MATRICES = {}, {}  # files with more matrices than X, or none: packed with and without --matrix all


def accept(name, *args, **kwargs):
    def add(function):
        ACCEPT[name] = lambda path: function(path, *args, **kwargs)
        return function

    return add


def reject(name):
    def add(function):
        REJECT[name] = function
        return function

    return add


# ---- writing by hand, so that every detail is chosen here ----


def encode(node, kind, version):
    node.attrs["encoding-type"], node.attrs["encoding-version"] = kind, version
    return node


def write_strings(group, name, values):
    return encode(group.create_dataset(name, data=np.array(values, object), dtype=h5py.string_dtype()), "string-array", "0.2.0")


def write_frame(f, name, names, columns=()):
    g = encode(f.create_group(name), "dataframe", "0.2.0")
    g.attrs["_index"] = "_index"
    g.attrs["column-order"] = np.array([c for c, _ in columns], object) if columns else np.zeros(0, "f8")
    write_strings(g, "_index", names)
    for column, values in columns:
        encode(g.create_dataset(column, data=values), "array", "0.2.0")


def write_categorical(group, name, codes, categories, ordered=False):
    g = encode(group.create_group(name), "categorical", "0.2.0")
    g.attrs["ordered"] = ordered
    encode(g.create_dataset("codes", data=codes), "array", "0.2.0")
    write_strings(g, "categories", categories)


def write_sparse(f, name, x, index="i4", pointer="i4", data_type=None, **filters):
    g = encode(f.create_group(name), x.format + "_matrix", "0.1.0")
    g.attrs["shape"] = np.array(x.shape, "i8")
    chunks = (max(1, min(1000, x.data.size)),) if filters else None
    g.create_dataset("data", data=x.data, dtype=data_type, chunks=chunks, **filters)
    g.create_dataset("indices", data=x.indices.astype(index), chunks=chunks, **filters)
    g.create_dataset("indptr", data=x.indptr.astype(pointer))
    return g


def write(path, x, obs=(), index="i4", pointer="i4", data_type=None, userblock=0, **filters):
    """A whole file around the matrix x (scipy sparse, or an array)."""
    with h5py.File(path, "w", userblock_size=userblock) as f:
        encode(f, "anndata", "0.1.0")
        write_frame(f, "obs", [f"cell{i}" for i in range(x.shape[0])], obs)
        write_frame(f, "var", [f"gene{i}" for i in range(x.shape[1])])
        if sp.issparse(x):
            write_sparse(f, "X", x, index, pointer, data_type, **filters)
        else:
            encode(f.create_dataset("X", data=x, dtype=data_type, **filters), "array", "0.2.0")
        for slot in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            encode(f.create_group(slot), "dict", "0.1.0")
    return path


def counts(n=300, m=40, density=0.2, dtype="f4", form="csr", seed=1):
    rng = np.random.default_rng(seed)
    x = rng.negative_binomial(1, 0.4, (n, m)) * (rng.random((n, m)) < density)
    return getattr(sp, form + "_matrix")(x.astype(dtype))


for kind in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool"):
    for shape in ("csr", "csc"):
        accept(f"{shape}_{kind}")(lambda path, k=kind, s=shape: write(path, counts(dtype=k, form=s)))
for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool"):
    accept(f"dense_{kind}")(lambda path, k=kind: write(path, counts(dtype=k if k != "f2" else "f4").toarray().astype(k)))
for n, (idx, ptr) in enumerate([("i8", "i8"), ("i4", "i8"), ("u4", "i8"), ("u2", "u8"), ("i8", "i4"), ("i2", "i4"), (">i4", ">i8")]):
    accept(f"widths_{n}_{idx.strip('>')}_{ptr.strip('>')}")(lambda path, i=idx, p=ptr: write(path, counts(), index=i, pointer=p))
for n, m in ((0, 0), (0, 5), (5, 0), (1, 1)):
    for form in ("csr", "csc"):
        accept(f"{form}_{n}x{m}")(lambda path, n=n, m=m, f=form: write(path, getattr(sp, f + "_matrix")(np.ones((n, m), "f4"))))
    accept(f"dense_{n}x{m}")(lambda path, n=n, m=m: write(path, np.ones((n, m), "f4")))
for name, filters in {
    "gzip": {"compression": "gzip"},
    "gzip_shuffle": {"compression": "gzip", "shuffle": True},
    "fletcher": {"fletcher32": True},
    "lzf": {"compression": "lzf"},
}.items():
    accept(f"csr_{name}")(lambda path, f=filters: write(path, counts(n=2000), **f))
    accept(f"csc_{name}")(lambda path, f=filters: write(path, counts(n=2000, form="csc"), **f))
    accept(f"dense_{name}")(lambda path, f=filters: write(path, counts(n=500).toarray(), chunks=(33, 7), **f))


@accept("dense_external")
def dense_external(path):
    """X keeps its values in a second file beside the first."""
    x = counts(n=40).toarray()
    with h5py.File(write(path, x), "r+") as f:
        del f["X"]
        f.create_dataset("X", shape=x.shape, dtype="f4", external=[("values.bin", 16, x.nbytes)])
        encode(f["X"], "array", "0.2.0")
    (path.parent / "values.bin").write_bytes(b"sixteen bytes..." + x.tobytes())


def write_newest(path, column=np.arange(500), **options):
    """In the newest format of HDF5, which its 2.0 writes when asked to: layout messages of version 5."""
    x = counts(n=500, m=40)
    with h5py.File(path, "w", libver="latest") as f:
        encode(f, "anndata", "0.1.0")
        write_frame(f, "obs", [f"cell{i}" for i in range(500)], [("number", column)])
        write_frame(f, "var", [f"gene{i}" for i in range(40)])
        g = write_sparse(f, "X", x)
        for part in ("data", "indices", "indptr"):
            values = g[part][()]
            del g[part]
            g.create_dataset(part, data=values, **{k: v(values) if callable(v) else v for k, v in options.items()})
        g["indptr"].attrs["note"] = "x" * 600  # a long header


accept("newest_one_chunk", chunks=lambda v: v.shape, compression="gzip")(write_newest)
accept("newest_fixed", chunks=(100,))(write_newest)
accept("newest_growing", chunks=(100,), maxshape=(None,))(write_newest)
accept("newest_contiguous")(write_newest)


@accept("csr_big_endian")
def big_endian(path):
    write(path, counts(dtype="f4"), data_type=">f4")


@accept("dense_big_endian")
def dense_big_endian(path):
    write(path, counts(dtype="f4").toarray(), data_type=">f4")


@accept("csr_no_elements")
def no_elements(path):
    write(path, sp.csr_matrix((700, 30), dtype="f4"))


@accept("csr_pages")
def pages(path):
    """Rows around the ends of index pages (255 rows) and blocks, some empty."""
    x = counts(n=3000, m=500, density=0.1).tolil()
    for row in (0, 254, 255, 256, 509, 510, 1023, 1024, 2047, 2048, 2999):
        x[row] = 0
    write(path, x.tocsr())


@accept("csr_wide")
def wide(path):
    """More genes than 16 bits hold."""
    rng = np.random.default_rng(5)
    x = sp.random(200, 100_000, density=0.002, random_state=rng, format="lil", dtype="f4")
    x[3, 99_999], x[4, 0], x[5, 65_535], x[5, 65_536] = 1, 2, 3, 4
    write(path, x.tocsr())


def special_values(dtype):
    bits = {"f4": ("u4", [0x80000000, 0x7FC00001, 0xFFC12345, 0x7F800000, 1, 0x7F7FFFFF]), "f8": ("u8", [1 << 63, 0x7FF8000000000001, 0x7FF0000000000000, 1])}
    unsigned, patterns = bits[dtype]
    return np.array(patterns, unsigned).view(dtype)


for kind in ("f4", "f8"):

    @accept(f"csr_special_{kind}")
    def special(path, dtype=kind):
        """Minus zero, NaNs with payloads, infinities, denormals and stored zeros."""
        x = counts(dtype=dtype)
        v = special_values(dtype)
        x.data[: len(v)] = v
        x.data[10:15] = 0
        write(path, x)

    @accept(f"dense_special_{kind}")
    def dense_special(path, dtype=kind):
        x = counts(dtype=dtype).toarray()
        v = special_values(dtype)
        x[7, : len(v)] = v
        write(path, x)


def shuffled(x, seed=2):
    rng = np.random.default_rng(seed)
    for i in range(len(x.indptr) - 1):
        part = slice(x.indptr[i], x.indptr[i + 1])
        order = rng.permutation(part.stop - part.start)
        x.indices[part], x.data[part] = x.indices[part][order], x.data[part][order]
    return x


def reversed_order(x):
    """Every row (column) descends, as after indexing with [::-1]."""
    x.indices = (x.shape[x.format == "csr"] - 1 - x.indices).astype("i4")
    return x


for form in ("csr", "csc"):
    accept(f"{form}_unsorted")(lambda path, f=form: write(path, shuffled(counts(form=f))))
    accept(f"{form}_one_order")(lambda path, f=form: write(path, reversed_order(counts(form=f))))


@accept("csr_repeats")
def repeats(path):
    """The same gene twice in a cell, sorted and not."""
    x = counts()
    x.indices[1:-1:7] = x.indices[0:-2:7]
    write(path, x)


@accept("csr_tail")
def tail(path):
    """Elements past the last row pointer."""
    x = counts()
    x.indptr[-3:] = x.indptr[-4]
    write(path, x)


@accept("csr_giant_row")
def giant_row(path):
    x = counts(n=20, m=50_000, density=0.001).tolil()
    x[11] = np.arange(50_000) % 7 + 1
    write(path, x.tocsr())


@accept("userblock")
def userblock(path):
    write(path, counts(), userblock=512)
    with open(path, "r+b") as f:
        f.write(b"a note in the user block")


@accept("userblock_unwritten")
def userblock_unwritten(path):
    """X was never written: no address, to which HDF5 adds the size of the user block."""
    write(path, np.ones((30, 20), "f4"), userblock=512)
    with h5py.File(path, "r+") as f:
        del f["X"]
        encode(f.create_dataset("X", (30, 20), "f4"), "array", "0.2.0")


@accept("columns")
def many_columns(path):
    n = 200
    rng = np.random.default_rng(3)
    numbers = [(k, rng.integers(0, 100, n).astype(k)) for k in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")]
    write(path, counts(n=n), obs=numbers + [("flag", rng.random(n) < 0.5)])
    with h5py.File(path, "r+") as f:
        obs = f["obs"]
        obs["f8"][3:9] = np.nan
        write_categorical(obs, "small", rng.integers(-1, 3, n).astype("i1"), ["a", "b", "ü"])
        write_categorical(obs, "many", (rng.permutation(n) - 1).astype("i2"), [f"donor {i}" for i in range(n)], ordered=True)
        write_strings(obs, "words", ["", "a\nb", "é", "x" * 5000] * (n // 4))
        nullable = encode(obs.create_group("nullable"), "nullable-integer", "0.1.0")
        encode(nullable.create_dataset("values", data=np.arange(n)), "array", "0.2.0")
        encode(nullable.create_dataset("mask", data=np.arange(n) % 5 == 0), "array", "0.2.0")
        obs.attrs["column-order"] = np.array([c for c, _ in numbers] + ["flag", "small", "many", "words", "nullable"], object)


@accept("names")
def names(path):
    """Repeated and strange names."""
    with h5py.File(write(path, counts(n=5, m=4)), "r+") as f:
        del f["obs/_index"], f["var/_index"]
        write_strings(f["obs"], "_index", ["twice", "twice", "", "ß 日本", "a/b"])
        write_strings(f["var"], "_index", ["A", "A", "a", " "])


@accept("links")
def links(path):
    with h5py.File(write(path, counts()), "r+") as f:
        f["layers/same"] = f["X"]
        f["layers/soft"] = h5py.SoftLink("/X")
        f["layers/loop"] = h5py.SoftLink("soft")
        f["uns/reference"] = np.array([f["obs"].ref, f["var/_index"].ref], h5py.ref_dtype)


@accept("links_dangling")
def links_dangling(path):
    """anndata does not open these; what packs must come back."""
    with h5py.File(write(path, counts()), "r+") as f:
        f["uns/gone"] = h5py.ExternalLink("elsewhere.h5", "/x")
        f["uns/nowhere"] = h5py.SoftLink("/not/there")


@accept("anndata_rich")
def rich(path):
    import anndata
    import pandas as pd

    n, m = 120, 30
    x = counts(n=n, m=m)
    obs = pd.DataFrame({"type": pd.Categorical(["a", "b", None] * (n // 3)), "q": pd.array([1, None, 3] * (n // 3), dtype="Int64")}, index=[f"c{i}" for i in range(n)])
    a = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(m)]))
    a.raw = a.copy()
    a = a[:, : m - 5].copy()
    a.layers["log"] = a.X.log1p()
    a.layers["csc"] = a.X.tocsc()
    a.obsm["X_pca"] = np.random.default_rng(0).normal(size=(n, 7)).astype("f4")
    a.obsp["near"] = sp.random(n, n, 0.05, format="csr", random_state=1)
    a.uns = {"nested": {"deep": {"list": np.array(["x", "y"]), "number": 3.5}}, "rec": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "frame": obs.head(3)}
    a.write_h5ad(path, compression="gzip")


# ---- more matrices than X, or none ----


def matrices(name):
    def add(function):
        MATRICES[name] = lambda path: with_more(path, function)
        return function

    return add


def with_more(path, change, x=None):
    with h5py.File(write(path, counts(n=130, m=25) if x is None else x), "r+") as f:
        change(f)


def write_dense(f, name, x, **options):
    encode(f.create_dataset(name, data=x, **options), "array", "0.2.0")


def more(seed, n=130, m=25, **options):
    return counts(n=n, m=m, seed=seed, **options)


@matrices("layers_forms")
def layers_forms(f):
    write_sparse(f, "layers/csr", more(2, dtype="i4"))
    write_sparse(f, "layers/csc", more(3, form="csc", dtype="f8"), index="i8", pointer="i8")
    write_sparse(f, "layers/csr_unsorted", shuffled(more(4)))
    write_sparse(f, "layers/csc_unsorted", shuffled(more(5, form="csc")))
    write_sparse(f, "layers/one_order", reversed_order(more(6)))
    write_sparse(f, "layers/gzip", more(7), compression="gzip")
    write_dense(f, "layers/dense", more(8).toarray(), chunks=(9, 9), compression="lzf")
    write_dense(f, "layers/half", more(9).toarray().astype("f2"))
    write_dense(f, "layers/flags", more(10).toarray() > 0)
    write_sparse(f, "layers/nothing", sp.csr_matrix((130, 25), dtype="u2"))


@matrices("layers_special")
def layers_special(f):
    x = more(11)
    x.data[: len(special_values("f4"))] = special_values("f4")
    write_sparse(f, "layers/csr", x)
    x = more(12)
    x.indptr[-3:] = x.indptr[-4]
    write_sparse(f, "layers/tail", x)
    x = more(13)
    x.indices[1:-1:7] = x.indices[0:-2:7]
    write_sparse(f, "layers/repeats", x)


@matrices("layers_left")
def layers_left(f):
    """Some that cannot be packed: they stay in the sidecar."""
    write_sparse(f, "layers/counts", more(2))
    write_strings(f, "obsm/words", [str(i) for i in range(130)])
    encode(f["obsm"].create_dataset("labels", data=np.full((130, 2), "é", object), dtype=h5py.string_dtype()), "string-array", "0.2.0")
    write_dense(f, "obsm/cube", np.zeros((130, 2, 2), "f4"))
    write_dense(f, "obsm/complex", np.full((130, 2), 1 + 2j))
    write_frame(f, "obsm/frame", [f"cell{i}" for i in range(130)], [("a", np.arange(130))])


@matrices("raw_other_var")
def raw_other_var_slots(f):
    write_sparse(f, "raw/X", more(3, m=60))
    write_frame(f, "raw/var", [f"gene{i}" for i in range(60)], [("length", np.arange(60))])
    encode(f.create_group("raw/varm"), "dict", "0.1.0")
    encode(f["raw"], "raw", "0.1.0")


@matrices("raw_csc")
def raw_csc(f):
    write_sparse(f, "raw/X", more(3, m=60, form="csc", dtype="u2"))
    write_frame(f, "raw/var", [f"gene{i}" for i in range(60)])
    encode(f.create_group("raw/varm"), "dict", "0.1.0")
    encode(f["raw"], "raw", "0.1.0")
    f["uns/reference"] = np.array([f["raw/X/data"].ref, f["raw/var"].ref], h5py.ref_dtype)


@matrices("raw_old")
def raw_old(f):
    """The layout of anndata 0.6: raw.X, raw.var in the root."""
    names = lambda n: np.array([(f"g{i}".encode(), i) for i in range(n)], [("index", "S8"), ("number", "i4")])
    for name, n in (("obs", 130), ("var", 25)):
        del f[name]
        f[name] = names(n)
    f["raw.var"] = names(60)
    g = write_sparse(f, "raw.X", more(3, m=60))
    for node in (g, f["X"]):
        node.attrs["h5sparse_format"], node.attrs["h5sparse_shape"] = "csr", node.attrs["shape"]
        for attribute in ("encoding-type", "encoding-version", "shape"):
            del node.attrs[attribute]


@matrices("obsm_kinds")
def obsm_kinds(f):
    rng = np.random.default_rng(4)
    write_dense(f, "obsm/X_pca", rng.normal(size=(130, 11)).astype("f4"))
    write_dense(f, "obsm/X_umap", rng.normal(size=(130, 2)), chunks=(50, 1), compression="gzip")
    write_dense(f, "obsm/whole", rng.integers(-9, 9, (130, 3)))
    write_dense(f, "obsm/flags", rng.random((130, 4)) < 0.5)
    write_dense(f, "obsm/half", rng.normal(size=(130, 5)).astype("f2"))
    write_dense(f, "obsm/big_endian", rng.normal(size=(130, 2)), dtype=">f8")
    write_dense(f, "obsm/none", np.zeros((130, 0), "f4"))
    write_dense(f, "obsm/one", np.arange(130.0)[:, None])
    write_sparse(f, "obsm/csr", more(5, m=300, density=0.02))
    write_sparse(f, "obsm/csc", more(6, m=300, density=0.02, form="csc"))


@matrices("aliases")
def aliases(f):
    """Matrices with several names, and arrays that two matrices share."""
    f["layers/same"] = f["X"]
    f["layers/soft"] = h5py.SoftLink("/X")
    write_dense(f, "layers/dense", more(2).toarray())
    f["obsm/dense"] = f["layers/dense"]
    f["raw/X"] = f["X"]
    f["raw/var"] = f["var"]
    encode(f["raw"], "raw", "0.1.0")
    for name in ("log", "sqrt"):
        g = encode(f.create_group(f"layers/{name}"), "csr_matrix", "0.1.0")
        g.attrs["shape"] = f["X"].attrs["shape"]
        g["data"] = getattr(np, name + ("1p" if name == "log" else ""))(f["X/data"][()])
        for part in ("indices", "indptr"):
            g[part] = f[f"X/{part}"]


@matrices("aliases_unsorted")
def aliases_unsorted(f):
    """Column-wise matrices in no order, which share their indices."""
    x = shuffled(more(7, form="csc"))
    write_sparse(f, "layers/a", x)
    g = encode(f.create_group("layers/b"), "csc_matrix", "0.1.0")
    g.attrs["shape"] = f["layers/a"].attrs["shape"]
    g["data"] = f["layers/a/data"][()][::-1]
    for part in ("indices", "indptr"):
        g[part] = f[f"layers/a/{part}"]
    del f["X"]
    f["X"] = f["layers/b"]


@matrices("aliases_tails")
def aliases_tails(f):
    """Two matrices that share arrays and end at other places in them."""
    for name, end in (("a", 300), ("b", 500)):
        g = encode(f.create_group(f"layers/{name}"), "csr_matrix", "0.1.0")
        g.attrs["shape"] = f["X"].attrs["shape"]
        for part in ("data", "indices"):
            g[part] = f[f"X/{part}"]
        g["indptr"] = np.minimum(f["X/indptr"][()], end)


@matrices("x_null")
def x_null(f):
    del f["X"]
    encode(f.create_dataset("X", data=h5py.Empty("f4")), "null", "0.1.0")
    write_sparse(f, "layers/counts", more(2))


@matrices("x_absent")
def x_absent(f):
    del f["X"]
    write_sparse(f, "layers/counts", more(2, form="csc"))
    write_dense(f, "obsm/X_pca", np.ones((130, 2)))


@matrices("only_obs")
def only_obs(f):
    for name in ("X", "var"):
        del f[name]


@matrices("only_x")
def only_x(f):
    """anndata cannot read it, its Rust sister writes it."""
    for name in ("obs", "var"):
        del f[name]


for n, m in ((0, 25), (130, 0), (0, 0)):

    @matrices(f"empty_{n}x{m}")
    def empty_axes(f, n=n, m=m):
        for name, size in (("obs", n), ("var", m)):
            del f[name]
            write_frame(f, name, [f"n{i}" for i in range(size)])
        del f["X"]
        write_dense(f, "layers/dense", np.ones((n, m), "f4"))
        write_sparse(f, "layers/csr", sp.csr_matrix(np.ones((n, m), "i4")))
        write_dense(f, "obsm/X_pca", np.ones((n, 3), "f4"))


# ---- what must be refused ----


def broken(change, **options):
    def make(path):
        with h5py.File(write(path, counts(**options)), "r+") as f:
            change(f)

    return make


def replace(name, function):
    def change(f):
        attributes = dict(f[name].attrs)
        values = function(f[name][()])
        del f[name]
        f[name] = values
        f[name].attrs.update(attributes)

    return change


def put(at, value):
    def change(values):
        values[at] = value
        return values

    return change


for form in ("csr", "csc"):
    REJECT[f"{form}_index_past_end"] = broken(replace("X/indices", put(50, 1000)), form=form)
    REJECT[f"{form}_index_negative"] = broken(replace("X/indices", put(50, -1)), form=form)
    REJECT[f"{form}_pointer_decreasing"] = broken(replace("X/indptr", put(20, 3)), form=form)
    REJECT[f"{form}_pointer_past_end"] = broken(replace("X/indptr", put(-1, 1 << 30)), form=form)
    REJECT[f"{form}_pointer_short"] = broken(replace("X/indptr", lambda p: p[:-1]), form=form)
    REJECT[f"{form}_pointer_not_from_zero"] = broken(replace("X/indptr", put(0, 1)), form=form)
    REJECT[f"{form}_data_short"] = broken(replace("X/data", lambda d: d[:-1]), form=form)
    REJECT[f"{form}_no_indices"] = broken(lambda f: f.__delitem__("X/indices"), form=form)
REJECT["shape_huge"] = broken(lambda f: f["X"].attrs.modify("shape", np.array([1 << 40, 1 << 31], "i8")))
REJECT["shape_of_obs"] = broken(lambda f: f["X"].attrs.modify("shape", np.array([299, 40], "i8")))
REJECT["shape_missing"] = broken(lambda f: f["X"].attrs.__delitem__("shape"))
REJECT["encoding_unknown"] = broken(lambda f: f["X"].attrs.modify("encoding-type", "coo_matrix"))
REJECT_MATRICES["layer_index_past_end"] = lambda path: with_more(path, lambda f: (write_sparse(f, "layers/a", more(2)), f["layers/a/indices"].__setitem__(50, 1000)))
REJECT_MATRICES["layer_of_other_shape"] = lambda path: with_more(path, lambda f: write_sparse(f, "layers/a", more(2, m=26)))
REJECT_MATRICES["obsm_of_other_rows"] = lambda path: with_more(path, lambda f: write_dense(f, "obsm/a", np.ones((129, 2))))
REJECT_MATRICES["raw_of_other_rows"] = lambda path: with_more(path, lambda f: write_sparse(f, "raw/X", more(2, n=129)))
REJECT_MATRICES["obsm_never_written"] = lambda path: with_more(path, lambda f: f["obsm"].create_dataset("a", shape=(130, (1 << 31) - 1), chunks=(1, 1000), dtype="f4"))
REJECT_MATRICES["obsm_csr_huge"] = lambda path: with_more(path, lambda f: write_sparse(f, "obsm/a", more(2)).attrs.modify("shape", np.array([130, (1 << 31) - 1], "i8")))
REJECT_MATRICES["raw_huge"] = lambda path: with_more(path, lambda f: write_sparse(f, "raw/X", more(2)).attrs.modify("shape", np.array([130, (1 << 31) - 1], "i8")))
if h5py.version.hdf5_version_tuple >= (2, 0, 0):
    REJECT["newest_filtered_chunks"] = lambda path: write_newest(path, chunks=(100,), compression="gzip")
    REJECT["newest_booleans"] = lambda path: write_newest(path, column=np.arange(500) % 2 == 0)
REJECT["no_var"] = broken(lambda f: f.__delitem__("var"))
REJECT["obs_short"] = broken(replace("obs/_index", lambda v: v[:-1]))


@reject("truncated")
def truncated(path):
    write(path, counts(n=5000))
    with open(path, "r+b") as f:
        f.truncate(path.stat().st_size // 2)


@reject("empty")
def empty(path):
    path.write_bytes(b"")


@reject("text")
def text(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\n")


@reject("mudata")
def mudata(path):
    with h5py.File(path, "w") as f:
        encode(f, "MuData", "0.1.0")
        f.create_group("mod/rna")


@reject("tenx")
def tenx(path):
    with h5py.File(path, "w") as f:
        for name in ("data", "indices", "indptr", "barcodes", "shape"):
            f[f"matrix/{name}"] = np.zeros(1, "i8")
        f.create_group("matrix/features")


@reject("loom")
def loom(path):
    with h5py.File(path, "w") as f:
        f["matrix"] = np.zeros((3, 2), "f4")
        for name in ("row_attrs", "col_attrs", "layers"):
            f.create_group(name)
