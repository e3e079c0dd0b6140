"""Train a classifier of cells with Lightning from a packed store: lightning_module.py STORE LABEL

The loader shuffles and decodes by itself, so Lightning gets it as it is: no DataLoader, no sampler (use_distributed_sampler=False: ranks are
told apart when the epoch begins). Each epoch comes in another order by itself.
"""

import sys

import lightning
import torch

import annblock


class Cells(lightning.LightningDataModule):
    def __init__(self, path, label, where=None, **options):
        super().__init__()
        self.loader = annblock.Loader(path, labels=[label], where=where, output="torch", **options)
        self.n_genes, self.n_classes = len(self.loader.genes), len(self.loader.categories[label])

    def train_dataloader(self):
        return self.loader


class Classifier(lightning.LightningModule):
    def __init__(self, n_genes, n_classes, label):
        super().__init__()
        self.model, self.label = torch.nn.Linear(n_genes, n_classes), label

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.model(batch["X"].log1p()), batch["obs"][self.label], ignore_index=-1)
        self.log("loss", loss, batch_size=len(batch["rows"]))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def main(path, label):
    cells = Cells(path, label)
    trainer = lightning.Trainer(
        max_epochs=2, use_distributed_sampler=False, logger=False, enable_progress_bar=False, enable_checkpointing=False
    )
    trainer.fit(Classifier(cells.n_genes, cells.n_classes, label), cells)
    print(f"loss {trainer.callback_metrics['loss'].item():.3f} after {trainer.global_step} batches")


if __name__ == "__main__":
    main(*sys.argv[1:])
