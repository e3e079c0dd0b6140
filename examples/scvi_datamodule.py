"""Train scVI from a packed store, with a column of obs as batch: scvi_datamodule.py STORE BATCH_COLUMN [EPOCHS]

scvi-tools takes a custom datamodule in place of an AnnData (an experimental interface of theirs; run with scvi-tools 1.4.2).
Nothing is loaded beforehand: minibatches are decoded as training asks for them. X must hold counts.
"""

import sys

import lightning
import scvi

import annblock


class Cells(lightning.LightningDataModule):
    """What scvi-tools asks of a datamodule: sizes, a registry that describes the data, and minibatches by its names."""

    def __init__(self, path, batch_key, **options):
        super().__init__()
        self.batch_key = batch_key
        self.loader = annblock.Loader(path, labels=[batch_key], output="torch", dtype="float32", transform=self.named, **options)
        with annblock.open(path) as store:
            self.n_obs, self.n_vars, self.var_names = store.n_obs, store.n_vars, list(store.var_names)
        self.batches = list(self.loader.categories[batch_key])
        self.n_batch, self.n_labels = len(self.batches), 1

    def named(self, batch):
        codes = batch["obs"][self.batch_key]
        if (codes < 0).any():
            raise ValueError(f"cells without {self.batch_key}: choose the others with where=")
        named = {"X": batch["X"], "batch": codes[:, None].long(), "labels": codes.new_zeros((len(codes), 1)).long()}
        return named | dict.fromkeys(("extra_categorical_covs", "extra_continuous_covs", "sample"))

    def train_dataloader(self):
        return self.loader

    @property
    def registry(self):
        def field(name, key, state=None, **stats):
            return {"data_registry": {"attr_name": name, "attr_key": key}, "state_registry": state or {}, "summary_stats": stats}

        genes = {"n_obs": self.n_obs, "n_vars": self.n_vars, "column_names": self.var_names}
        batches = {"categorical_mapping": self.batches, "original_key": self.batch_key}
        keys = ("layer", "labels_key", "size_factor_key", "categorical_covariate_keys", "continuous_covariate_keys")
        return {
            "scvi_version": scvi.__version__,
            "model_name": "SCVI",
            "setup_method_name": "setup_datamodule",
            "setup_args": dict.fromkeys(keys) | {"batch_key": self.batch_key},
            "field_registries": {
                "X": field("X", None, genes, n_vars=self.n_vars, n_cells=self.n_obs),
                "batch": field("obs", "_scvi_batch", batches, n_batch=self.n_batch),
                "labels": field("obs", "_scvi_labels", {"categorical_mapping": ["0"], "original_key": None}, n_labels=1),
                "size_factor": {"data_registry": {}, "state_registry": {}, "summary_stats": {}},
                "extra_categorical_covs": {"data_registry": {}, "state_registry": {}, "summary_stats": {"n_extra_categorical_covs": 0}},
                "extra_continuous_covs": {"data_registry": {}, "state_registry": {}, "summary_stats": {"n_extra_continuous_covs": 0}},
            },
        }


def main(path, batch_key, epochs=2):
    cells = Cells(path, batch_key, batch_size=128)
    model = scvi.model.SCVI(registry=cells.registry)
    model.train(datamodule=cells, max_epochs=int(epochs), accelerator="cpu", enable_progress_bar=False)
    measured = ", ".join(f"{name} {value.item():.1f}" for name, value in model.trainer.callback_metrics.items())
    print(f"after {model.trainer.global_step} minibatches: {measured}")


if __name__ == "__main__":
    main(*sys.argv[1:])
