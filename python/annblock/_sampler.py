"""The rows of any batch of an order, without reading cells."""

import numpy as np

from ._c import check, ffi, lib, local


class Order:
    """The C library's sampler over `sources`, a list of (store id, generation, rows); `options`: an annb_sampler_options."""

    def __init__(self, sources, options):
        sampler, error = ffi.new("annb_sampler **"), local.error
        listed = [{"store_id": bytes.fromhex(i), "generation": g, "n_rows": n} for i, g, n in sources]
        check(lib.annb_sampler_open(ffi.new("annb_sampler_source[]", listed), len(listed), options, sampler, error), error)
        self._sampler = ffi.gc(sampler[0], lib.annb_sampler_close)
        picker, info = ffi.new("annb_picker **"), ffi.new("annb_sampler_info *")
        check(lib.annb_picker_open(self._sampler, picker, error), error)
        self._picker = ffi.gc(picker[0], ClosePicker(self._sampler))
        lib.annb_sampler_get_info(self._sampler, info)
        self.batches, self.batch_size, self.fetch_factor = int(info.batches), int(info.batch_size), int(info.fetch_factor)
        self._rows, self._n = np.empty(self.batch_size, np.uint64), ffi.new("uint32_t *")
        self._at = ffi.from_buffer("uint64_t[]", self._rows)

    def batch(self, epoch, number):
        """The rows of one batch, in order, as int64."""
        check(lib.annb_picker_batch(self._picker, epoch, number, self._at, self._n, local.error), local.error)
        return self._rows[: self._n[0]].astype(np.int64)


class ClosePicker:
    """Closes a picker before its sampler, which this keeps."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __call__(self, picker):
        lib.annb_picker_close(picker)
