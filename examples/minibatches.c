/* Shuffled minibatches of a store, read ahead by threads: counts cells, elements and, with a label, how often each code comes.
 *   minibatches STORE [LABEL]
 * A training loop would hand batch.matrices[0] to its model; the state at the end of an epoch is what a checkpoint keeps. */
#include <annblock/annblock.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const annb_error *err) {
  fprintf(stderr, "%s\n", err->message);
  return 1;
}

static annb_status one_epoch(annb_loader *loader, uint64_t epoch, bool labels, annb_error *err) {
  uint64_t cells = 0, batches = 0, elements = 0, missing = 0;
  annb_batch batch;
  annb_status s = annb_loader_set_epoch(loader, epoch, err);
  while (!s && !(s = annb_loader_next(loader, &batch, err)) && batch.n_rows) {
    const annb_batch_matrix *x = &batch.matrices[0]; /* x->indptr, x->indices, x->values */
    cells += batch.n_rows;
    elements += x->nnz;
    batches++;
    for (uint64_t i = 0; labels && i < batch.n_rows; i++) missing += batch.labels[0][i] < 0;
    annb_batch_release(&batch);
  }
  if (s) return s;
  printf("epoch %" PRIu64 ": %" PRIu64 " cells in %" PRIu64 " minibatches, %" PRIu64 " nonzeros", epoch, cells, batches, elements);
  if (labels) printf(", %" PRIu64 " cells without a label", missing);
  printf("\n");
  return ANNB_OK;
}

int main(int argc, char **argv) {
  annb_error err;
  annb_store *store;
  annb_loader *loader;
  if (argc < 2 || argc > 3) return fprintf(stderr, "usage: minibatches STORE [LABEL]\n"), 2;
  if (annb_store_open(argv[1], NULL, &store, &err)) return fail(&err);
  const annb_store *stores[] = {store};
  const annb_loader_matrix x = {.name = "X", .fetch = {.dtype = ANNB_F32, .allow_lossy = true}};
  const char *labels[] = {argc > 2 ? argv[2] : ""};
  const annb_loader_options options = {
      /* runs of 16 cells, 256 minibatches shuffled together */
      .sampler = {.seed = 1, .block_size = 16, .batch_size = 64, .fetch_factor = 256},
      .matrices = &x,
      .n_matrices = 1,
      .labels = labels,
      .n_labels = argc > 2,
      .n_threads = 2};
  annb_status s = annb_loader_open(stores, 1, &options, &loader, &err);
  if (s) return annb_store_close(store), fail(&err);
  for (uint64_t epoch = 0; !s && epoch < 3; epoch++) s = one_epoch(loader, epoch, argc > 2, &err);
  annb_loader_close(loader);
  annb_store_close(store);
  return s ? fail(&err) : 0;
}
