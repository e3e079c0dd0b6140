"""The Loader as torch's datasets are; `annblock.Loader(…)` returns it when torch has been imported."""

from torch.utils.data import IterableDataset

from .loader import Loader


class TorchLoader(Loader, IterableDataset):
    __doc__ = (
        Loader.__doc__ and "annblock.Loader as a torch.utils.data.IterableDataset, for DataLoader(loader, batch_size=None, num_workers=K)."
    )
