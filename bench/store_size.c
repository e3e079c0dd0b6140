/* What the files of a store take: segments and manifests, and the records inside. */
#include "store_bench.h"

#include "../store/codec/codec.h"
#include "../store/objects/segment.h"
#include "timing.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n > m && !strcmp(name + n - m, end);
}

static void count_records(const char *path, bench_store_size *size) {
  annb_segment *segment;
  annb_record_ref record;
  annb_error err;
  if (annb_segment_open(path, &segment, &err)) bench_fail("%s", err.message);
  for (uint64_t r = 0; r < segment->meta.n_rows; r++) {
    if (annb_segment_locate(segment, r, &record, &err)) bench_fail("%s", err.message);
    size->records += record.length;
    if (record.length && record.data[0] < BENCH_CODECS) size->rows_of[record.data[0]]++;
  }
  size->nnz += segment->meta.nnz;
  size->segments += segment->map.size;
  size->index += segment->n_pages * ANNB_PAGE;
  size->blocks += segment->blocks_end - ANNB_PAGE;
  size->block_rows = segment->header.block_rows;
  annb_segment_close(segment);
}

static void scan(const char *store, const char *folder, const char *end, bench_store_size *size) {
  char path[4096];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", store, folder);
  DIR *dir = opendir(path);
  if (!dir) bench_fail("%s is not a store: it has no %s/", store, folder);
  for (struct dirent *e; (e = readdir(dir));) {
    if (!ends_with(e->d_name, end)) continue;
    if ((size_t)snprintf(path, sizeof path, "%s/%s/%s", store, folder, e->d_name) >= sizeof path || stat(path, &st))
      bench_fail("cannot read %s", path);
    if (!strcmp(end, ".anns")) count_records(path, size);
    else size->others += (uint64_t)st.st_size;
  }
  closedir(dir);
}

void bench_store_sizes(const char *store, bench_store_size *size) {
  bench_store_size side = {0};
  memset(size, 0, sizeof *size);
  scan(store, "objects", ".anns", size);
  scan(store, "manifests", ".annm", size);
  scan(store, "objects", ".annc", &side);
  scan(store, "objects", ".h5ad", &side);
  double nnz = (double)size->nnz, total = (double)(size->segments + size->others);
  size->bits = 8 * total / nnz;
  size->overhead = 8 * (total - (double)size->records) / nnz;
  printf("segments %llu bytes, manifests %llu: %.3f bits per nonzero\n", (unsigned long long)size->segments,
         (unsigned long long)size->others, size->bits);
  printf("of them the codec's own %.3f; beside these %.3f: index %.3f, padding of blocks of %u cells %.3f, the rest %.3f\n",
         size->bits - size->overhead, size->overhead, 8 * (double)size->index / nnz, size->block_rows,
         8 * (double)(size->blocks - size->records) / nnz,
         8 * (total - (double)(size->index + size->blocks)) / nnz);
  printf("columns, orders and sidecar apart: %llu bytes\nrows by codec:", (unsigned long long)side.others);
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  for (size_t i = 0; i < n; i++)
    if ((unsigned)codecs[i].id < BENCH_CODECS && size->rows_of[codecs[i].id])
      printf(" %s %llu", codecs[i].name, (unsigned long long)size->rows_of[codecs[i].id]);
  printf("\n");
}
