#!/usr/bin/env python3
"""Packing and export beside other tools, on generated files: bench/convert.py [--cells N] [--genes N] … Prints Markdown.

Every measurement is a process of its own, the rounds interleaved; ratios are medians of the rounds' ratios. Sources are read once before
(warm). Ours ends with fsync of all files, the other tools do not. The peak is anonymous and shared memory of the process and its children.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).with_name("convert_peers.py")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cells", type=int, default=20000)
    p.add_argument("--genes", type=int, default=20000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--memory", type=int, default=512, help="MiB, of ours")
    p.add_argument("--folder", help="where the files go (default: a temporary one, which is removed)")
    p.add_argument("--discard", action="store_true", help="remove each generated file after its last use")
    p.add_argument("--source", help="an uncompressed CSR file to use instead of a generated one")
    p.add_argument("--build", default=str(ROOT / "build/release"))
    p.add_argument("--peers", default=str(ROOT / "build/venv-bench/bin/python"), help="python of the other tools; '' = without them")
    p.add_argument("--no-export", action="store_true")
    p.add_argument("--out", help="write the Markdown there too")
    return p.parse_args()


# Anonymous memory that the other tools need at most, times the uncompressed source: as measured, with a tenth more.
NEEDS = {"annbatch": 4.3, "cellstream": 2.4, "write_h5ad": 1.4, "write_h5ad_gzip": 1.4}


def available():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return sys.maxsize


def memory_of(pid):
    """Anonymous and shared memory of a process and its children, in bytes."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                total += int(line.split()[1]) << 10
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(memory_of(int(child)) for child in (task / "children").read_text().split())
    except OSError:
        pass
    return total


def watched(command):
    """Standard output, and the peak."""
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        peak = 0
        while p.poll() is None:
            peak = max(peak, memory_of(p.pid))
            time.sleep(0.005)
        out, err = p.communicate()
    if p.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{err[-2000:]}")
    return out, peak


class Bench:
    def __init__(self, options, folder):
        self.o, self.folder = options, Path(folder)
        self.seconds, self.peaks, self.skipped = {}, {}, {}
        self.uncompressed = 8 * options.cells * options.genes // 16  # of a sparse file, about; a given one is measured
        if options.source:
            self.uncompressed = os.path.getsize(options.source)

    def note(self, name, seconds, peak):
        self.seconds.setdefault(name, []).append(seconds)
        self.peaks[name] = max(peak, self.peaks.get(name, 0))

    def ours(self, name, measure, source, out=None, threads=None, keep=False):
        """bench/convert prints seconds and its own peak."""
        target = self.folder / (out or "out.annblock")
        text, _ = watched([Path(self.o.build) / "bench/convert", measure, source, target, threads or self.o.threads, self.o.memory])
        seconds, peak = text.split()
        self.note(name, float(seconds), int(peak))
        if not keep:
            self.remove(target)

    def peer(self, name, what, source, out):
        if not self.o.peers:
            return
        need, there = int(NEEDS[what] * self.uncompressed), available()
        if need > there or name in self.skipped:
            gib = lambda n: f"{n / (1 << 30):.1f} GiB"
            self.skipped[name] = self.skipped.get(name, f"needs about {gib(need)} of memory, {gib(there)} are available")
            print(f"{name}: skipped: {self.skipped[name]}", file=sys.stderr)
            return
        target = self.folder / out
        text, peak = watched([self.o.peers, PEERS, what, source, target, self.o.threads])
        self.note(name, float(text.split()[-1]), peak)
        self.remove(target)

    def remove(self, path):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()

    def make(self, name, *options):
        path = self.folder / name
        if not path.exists():
            command = [Path(self.o.build) / "bench/gen", "-n", str(self.o.cells), "-g", str(self.o.genes), *options, path]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            os.sync()  # or what is measured waits for gigabytes that are still on their way to the disk
        with open(path, "rb") as f:
            while f.read(1 << 24):
                pass
        return path

    def ratio(self, a, b):
        """Median over rounds of a's seconds over b's (numbers, or names)."""
        x, y = (self.seconds[v] if isinstance(v, str) else v for v in (a, b))
        return statistics.median(p / q for p, q in zip(x, y))

    # ---- rounds ----

    def gzip(self, files):
        self.ours("pack gzip", "pack", files["gzip"])
        self.ours("encoding alone, 1 thread", "encode", files["gzip"], threads=1)
        self.ours("libdeflate alone, 1 thread", "inflate", files["gzip"])
        self.peer("annbatch gzip", "annbatch", files["gzip"], "out.zarr")
        self.export("export gzip", "gzip", "write_h5ad_gzip", files)

    def csr(self, files):
        self.ours("pack", "pack", files["csr"])
        self.ours("encoding alone", "encode", files["csr"])
        self.peer("cellstream", "cellstream", files["csr"], "out.shad")
        self.peer("annbatch", "annbatch", files["csr"], "out.zarr")
        self.export("export", "csr", "write_h5ad", files)
        if not self.o.no_export:
            self.ours("writing the bytes of csr alone", "write", files["csr"], "out.h5ad")

    def csc(self, files):
        self.ours("pack CSR beside CSC", "pack", files["csr"])
        self.ours("pack CSC", "pack", files["csc"])

    def export(self, name, kind, peer, files):
        if self.o.no_export:
            return
        store = self.folder / f"{kind}.annblock"
        if not store.exists():
            watched([Path(self.o.build) / "bench/convert", "pack", files[kind], store])
        self.ours(name, "export", store, "out.h5ad")
        self.peer(f"anndata {peer}", peer, files[kind], "out.h5ad")

    def run(self):
        """One kind of source after the other, so that they need not all be there at once; the rounds of a kind are interleaved."""
        making = {"csr": [], "gzip": ["-z", "4"], "csc": ["-f", "csc"]}
        files = {"csr": Path(self.o.source)} if self.o.source else {}
        for kind, needs, last in ((self.gzip, ["gzip"], ["gzip"]), (self.csr, ["csr"], []), (self.csc, ["csr", "csc"], ["csr", "csc"])):
            files |= {n: self.make(f"{n}.h5ad", *making[n]) for n in needs if n not in files}
            for i in range(self.o.rounds):
                print(f"{kind.__name__}, round {i + 1} of {self.o.rounds}", file=sys.stderr)
                kind(files)
            for n in last if self.o.discard else []:
                self.remove(self.folder / f"{n}.annblock")
                if not (n == "csr" and self.o.source):
                    self.remove(files.pop(n))

    # ---- the report ----

    def table(self):
        yield "| what | median s | peak MiB |"
        yield "|---|---|---|"
        for name, seconds in self.seconds.items():
            yield f"| {name} | {statistics.median(seconds):.2f} | {self.peaks[name] / (1 << 20):.0f} |"
        for name, why in self.skipped.items():
            yield f"| {name} | skipped | {why} |"

    def figures(self):
        s = self.seconds
        bound = [(i + e) / self.o.threads for i, e in zip(s["libdeflate alone, 1 thread"], s["encoding alone, 1 thread"])]
        if "cellstream" in s:
            yield "uncompressed: times faster than cellstream", self.ratio("cellstream", "pack"), 4, None
        if "annbatch" in s:
            yield "uncompressed: times faster than annbatch", self.ratio("annbatch", "pack"), 6, None
        yield "uncompressed: time over encoding alone", self.ratio("pack", "encoding alone"), None, -1.3
        if "annbatch gzip" in s:
            yield "gzip: times faster than annbatch", self.ratio("annbatch gzip", "pack gzip"), 7, None
        yield "gzip: time over (libdeflate + encoding) / threads", self.ratio("pack gzip", bound), None, -1.2
        yield "CSC: time over CSR", self.ratio("pack CSC", "pack CSR beside CSC"), -3, -2
        yield "peak of packing, MiB", max(self.peaks[n] for n in ("pack", "pack gzip", "pack CSC")) / (1 << 20), -(self.o.memory + 64), None
        if "export" in s:
            yield "export: share of it that writing the same bytes alone takes", self.ratio("writing the bytes of csr alone", "export"), None, None
        if "anndata write_h5ad" in s:
            yield "export: times faster than write_h5ad", self.ratio("anndata write_h5ad", "export"), 3, 4
        if "anndata write_h5ad_gzip" in s:
            yield "export gzip: times faster than write_h5ad", self.ratio("anndata write_h5ad_gzip", "export gzip"), 3, 4

    def verdicts(self):
        """A negative limit is one that must not be passed."""
        yield "| figure | measured | must | aim | |"
        yield "|---|---|---|---|---|"
        for name, value, must, aim in self.figures():
            holds = lambda limit: value >= limit if limit > 0 else value <= -limit
            text = lambda limit: "" if limit is None else f"{'≥' if limit > 0 else '≤'} {abs(limit):g}"
            word = "" if must is None and aim is None else "missed" if must is not None and not holds(must) else "aim missed" if aim is not None and not holds(aim) else "holds"
            yield f"| {name} | {value:.2f} | {text(must)} | {text(aim)} | {word} |"


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def main():
    o = arguments()
    temporary = None if o.folder else tempfile.TemporaryDirectory()
    if o.folder:
        Path(o.folder).mkdir(parents=True, exist_ok=True)
    b = Bench(o, o.folder or temporary.name)
    if o.peers and not Path(o.peers).exists():
        print(f"no {o.peers}: without the other tools", file=sys.stderr)
        o.peers = ""
    load = os.getloadavg()[0]
    b.run()
    title = f"{o.cells:,} cells × {o.genes:,} genes, {o.threads} threads, --memory {o.memory}M, {o.rounds} rounds"
    machine = f"{processor()}, {os.cpu_count()} processors; load {load:.1f} before, {os.getloadavg()[0]:.1f} after."
    lines = [f"## Packing and export: {title}", "", machine, "", *b.table(), "", *b.verdicts()]
    print("\n".join(lines))
    if o.out:
        Path(o.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
