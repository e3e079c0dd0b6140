/* How much is read ahead, so that it fits into the memory that there is. */
#include "loader_internal.h"

#include <annblock/annblock.h>

/* Bytes, on average. */
typedef struct estimate {
  double row;       /* in memory, of a fetch */
  double index;     /* MMAP: of that, index pages, which are asked for one unit earlier */
  double delivered; /* of a row of a batch */
  double files;
} estimate;

/* Rows that lie together in a fetch, among members that are one of `spread` rows. */
static double run_of(const annb_loader *loader, double *spread) {
  annb_sampler_info info;
  annb_sampler_get_info(loader->sampler, &info);
  double fetch = (double)info.batch_size * info.fetch_factor;
  *spread = info.members ? (double)info.n_rows / (double)info.members : 1;
  if (*spread < 1) *spread = 1;
  if (info.strategy == ANNB_SAMPLE_SEQUENTIAL || info.strategy == ANNB_SAMPLE_BUFFER) return fetch;
  double run = info.strategy == ANNB_SAMPLE_BLOCK ? (double)info.block_size : 1;
  return run < fetch ? run : fetch;
}

/* Of things of `size` bytes each, `run` of them together: whole pages, a half of one at either end, at most one or two for each. */
static double in_pages(double size, double run, double spread) {
  double together = run * spread * size + ANNB_PAGE, apart = run * (size + ANNB_PAGE);
  return (together < apart ? together : apart) / run;
}

static void add_matrix(const annb_loader *loader, const annb_loader_source *source, estimate *e) {
  annb_matrix_info info;
  double spread, run = run_of(loader, &spread);
  if (annb_store_matrix(loader->store, source->number, &info, NULL)) return;
  double bytes = (double)info.bytes, rows = (double)info.n_rows, nnz = (double)info.nnz;
  if (rows < 1) return;
  double value = annb_dtype_size(source->fetch.dtype), index = source->fetch.index64 ? 8 : 4;
  e->files += bytes;
  e->delivered += source->dense ? (double)source->n_delivered * value : nnz / rows * (index + value);
  if (loader->access == ANNB_ACCESS_PREAD) e->row += bytes / rows;
  else {
    double pages = in_pages(sizeof(annb_fmt_entry), run, spread);
    e->index += pages;
    e->row += pages + in_pages(bytes / rows, run, spread);
  }
}

annb_window annb_window_for(const annb_loader *loader, uint64_t memory) {
  const annb_sampler_options *o = &loader->options.sampler;
  annb_sampler_info info;
  estimate e = {0};
  annb_window w = {ANNB_LOADER_ARENAS, UINT64_MAX};
  for (uint32_t i = 0; i < loader->n_matrices; i++) add_matrix(loader, &loader->matrices[i], &e);
  annb_sampler_get_info(loader->sampler, &info);
  double rows = (double)o->batch_size * info.fetch_factor, fetch = e.row * rows, index = e.index * rows;
  double ring = 1.25 * e.delivered * o->batch_size * (loader->options.n_ring + 2);
  /* pages can be dropped and come again, the process's own memory cannot */
  double share = loader->access == ANNB_ACCESS_PREAD ? 0.5 : 0.67, left = share * ((double)memory - ring);
  if (left >= e.files && loader->access == ANNB_ACCESS_MMAP) return w;
  while (w.n_units > 1 && left < w.n_units * fetch + index) w.n_units--;
  if (left >= w.n_units * fetch + index) return w;
  w.n_units = 2; /* pieces: one is read while another is decoded */
  double steps = left > 0 ? info.fetch_factor * left / (2 * fetch + index) : 0;
  w.n_steps = steps > 1 ? (uint64_t)steps : 1;
  return w;
}
