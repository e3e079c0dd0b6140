"""The Python loader beside other tools, over the same cells: peers.py [--h5ad FILE] [--store DIR] … Prints Markdown.

Every measurement is a process of its own, in the environment of its tool, the rounds interleaved; ratios are medians of the rounds' ratios.
Files are read once before (warm). Without --h5ad a small file is generated; without --store it is packed. annbatch and cellstream get their
own formats, written by themselves from the same file and kept in --folder for the next run.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--h5ad", type=Path, help="an uncompressed CSR file; only read")
    p.add_argument("--store", type=Path, help="the same cells packed; only read")
    p.add_argument("--subset", type=int, help="only the first N cells of --store, exported first: for the other tools must write all again")
    p.add_argument("--folder", type=Path, help="where files are made (default: a temporary one, which is removed)")
    p.add_argument("--cells", type=int, default=40000, help="of the generated file")
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--build", type=Path, default=ROOT / "build/release")
    p.add_argument("--peers", type=Path, default=ROOT / "build/venv-bench/bin/python", help="python of annbatch and cellstream")
    p.add_argument("--without", default="", help="tools to leave out: annbatch,cellstream,scdataset")
    return p.parse_args()


def has(python, module):
    return python.exists() and not subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode


class Peers:
    def __init__(self, options, folder):
        self.o, self.folder, self.rates = options, folder, {}
        mine, left_out = Path(sys.executable), options.without.split(",")
        self.python = {"annbatch": options.peers, "cellstream": options.peers, "scdataset": mine}
        for tool, python in list(self.python.items()):
            if tool in left_out or not has(python, tool):
                print(f"{tool} is left out", file=sys.stderr)
                del self.python[tool]

    def prepare(self):
        o = self.o
        if o.subset and o.store:
            o.h5ad = self.folder / f"first{o.subset}.h5ad"
            if not o.h5ad.exists():
                what = [o.build / "annblock", "export", o.store, "--rows", f"0:{o.subset}", "-o", o.h5ad, "--compression", "none", "--quiet"]
                subprocess.run(what, check=True)
            o.store = None
        if o.h5ad is None:
            o.h5ad = self.folder / "cells.h5ad"
            if not o.h5ad.exists():
                subprocess.run([o.build / "bench/gen", "-n", str(o.cells), o.h5ad], check=True, stdout=subprocess.DEVNULL)
        if o.store is None:
            import annblock

            o.store = self.folder / (o.h5ad.stem + ".annblock")
            if not o.store.exists():
                annblock.pack(o.h5ad, o.store, progress=False)
        self.made = {tool: self.folder / (o.h5ad.stem + end) for tool, end in (("annbatch", ".zarr"), ("cellstream", ".shad"))}
        for tool, path in self.made.items():
            if tool in self.python and not path.exists():
                command = [self.python[tool], ROOT / "bench/convert_peers.py", tool, o.h5ad, path, str(o.threads)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for path in (o.h5ad, o.store, *self.made.values()):
            for file in [path] if path.is_file() else path.rglob("*"):
                if file.is_file():
                    with open(file, "rb") as f:
                        while f.read(1 << 24):
                            pass

    def measure(self, name, what, path, threads, tool=None):
        if tool is not None and tool not in self.python:
            return
        python = sys.executable if tool is None else self.python[tool]
        command = [python, HERE / "peer_rates.py", what, path, str(self.o.seconds), str(threads)]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
        self.rates.setdefault(name, []).append(float(done.stdout.split()[-1]))

    def round(self):
        o, n = self.o, self.o.threads
        self.measure(f"Loader, csr, {n} threads", "ours", o.store, n)
        self.measure("annbatch", "annbatch", self.made["annbatch"], n, "annbatch")
        self.measure("annbatch, its default runs of 512 cells", "annbatch_default", self.made["annbatch"], n, "annbatch")
        self.measure("scDataset over the h5ad file", "scdataset", o.h5ad, 1, "scdataset")
        self.measure("scDataset over our Collection", "scdataset_over_ours", o.store, 1, "scdataset")
        self.measure(f"store[64 random rows], {n} threads", "our_rows", o.store, n)
        self.measure("cellstream gather_rows, 1 thread", "cellstream_rows", self.made["cellstream"], 1, "cellstream")
        self.measure(f"cellstream gather_rows, {n} threads", "cellstream_rows", self.made["cellstream"], n, "cellstream")

    def report(self):
        print("| what | median cells/s |\n|---|---|")
        for name, rates in self.rates.items():
            print(f"| {name} | {statistics.median(rates):,.0f} |")
        print("\n| ratio, median of rounds | measured | must | |\n|---|---|---|---|")
        loader, rows = f"Loader, csr, {self.o.threads} threads", f"store[64 random rows], {self.o.threads} threads"
        wanted = [(loader, "annbatch", 20), (loader, "scDataset over the h5ad file", 30)]
        wanted += [(rows, f"cellstream gather_rows, {t}", 3) for t in ("1 thread", f"{self.o.threads} threads")]
        for ours, theirs, must in wanted:
            if theirs in self.rates:
                ratio = statistics.median(a / b for a, b in zip(self.rates[ours], self.rates[theirs]))
                print(f"| {ours} over {theirs} | {ratio:.1f} | ≥ {must} | {'holds' if ratio >= must else 'missed'} |")


def main():
    o = arguments()
    temporary = None if o.folder else tempfile.TemporaryDirectory()
    folder = o.folder or Path(temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    peers = Peers(o, folder)
    peers.prepare()
    load = os.getloadavg()[0]
    for i in range(o.rounds):
        print(f"round {i + 1} of {o.rounds}", file=sys.stderr)
        peers.round()
    print(f"{o.h5ad.name}, {o.rounds} rounds of {o.seconds:g} s; load {load:.1f} before, {os.getloadavg()[0]:.1f} after\n")
    peers.report()


if __name__ == "__main__":
    main()
