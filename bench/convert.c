/* Seconds and peak memory of packing, of its parts alone, and of export: one of them a call, so that each has a process of its own. */
#include "peak.h"
#include "timing.h"

#include "../convert/rows/orders.h"
#include "../convert/rows/rows.h"

#include <annblock/annblock.h>
#include <annblock/convert.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MEMORY (UINT64_C(512) << 20)

typedef struct arguments {
  const char *input, *output;
  uint32_t n_threads;
  uint64_t memory;
} arguments;

static double now(void) { /* a clock on the wall: threads and the disk count */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static annb_error err;

static void check(annb_status s) {
  if (s) bench_fail("%s", err.message);
}

/* ---- what is measured: each returns seconds ---- */

/* In this process, whose memory is measured. */
static double pack(const arguments *a) {
  annb_pack_options o = {.n_threads = a->n_threads, .memory = a->memory, .in_process = true};
  double begin = now();
  check(annb_pack(a->input, a->output, &o, NULL, &err));
  return now() - begin;
}

static double export(const arguments *a) {
  annb_export_options o = {.n_threads = a->n_threads, .memory = a->memory, .in_process = true};
  double begin = now();
  check(annb_export(a->input, a->output, &o, &err));
  return now() - begin;
}

static uint32_t write_genes(annb_txn *txn, const annb_orders *orders, uint64_t n) {
  annb_arrays_writer *arrays;
  uint32_t array, object;
  check(annb_arrays_writer_open(txn, &arrays, &err));
  check(annb_arrays_begin(arrays, "gene_order", ANNB_U32, 1, &array, &err));
  check(annb_arrays_append(arrays, orders->genes, n, &err));
  check(annb_arrays_end(arrays, &err));
  check(annb_arrays_writer_close(arrays, &object, &err));
  return object;
}

static annb_matrix_writer *open_writer(const arguments *a, const annb_source_matrix *x, const annb_orders *orders, annb_txn *txn) {
  annb_matrix_writer *writer;
  annb_matrix_writer_options o = {
      .n_cols = x->n_cols, .dtype = x->dtype, .form = x->form, .expected_rows = x->n_rows, .n_threads = a->n_threads, .sort = true};
  check(annb_rows_expected(x, &o.expected_nnz, &err));
  o.gene_order = orders->genes;
  if (orders->genes) o.gene_order_object = write_genes(txn, orders, x->n_cols);
  check(annb_matrix_writer_open(txn, &o, &writer, &err));
  return writer;
}

/* All rows through a matrix writer; the time of reading them is left out. */
static double append_all(const arguments *a, const annb_source_matrix *x, annb_matrix_writer *writer, double seconds) {
  annb_rows *rows;
  annb_rows_chunk chunk = {.n_rows = 1};
  const annb_rows_options options = {.memory = a->memory / 4 * 3, .spool_dir = a->output, .n_threads = a->n_threads};
  check(annb_rows_open(x, &options, &rows, &err));
  while (chunk.n_rows) {
    check(annb_rows_next(rows, &chunk, &err));
    double begin = now();
    if (chunk.n_rows) check(annb_matrix_writer_append(writer, chunk.n_rows, chunk.indptr, chunk.indices, chunk.values, &err));
    seconds += now() - begin;
  }
  annb_rows_close(rows);
  return seconds;
}

/* Encoding and writing alone, with the commit and its fsync. */
static double encode(const arguments *a) {
  annb_source source;
  annb_source_matrix x;
  annb_orders orders;
  annb_txn *txn;
  uint32_t matrix, part;
  check(annb_source_open(&source, a->input, a->memory, &err));
  check(annb_source_matrix_open(&x, &source, "X", &err));
  check(annb_orders_find(&x, true, &orders, &err));
  check(annb_txn_begin(a->output, ANNB_TXN_CREATE, &txn, &err));
  annb_matrix_writer *writer = open_writer(a, &x, &orders, txn);
  const annb_matrix_spec m = {"X", x.n_cols, ANNB_OBS_VAR, x.dtype, ANNB_ABSENT_NEVER};
  const annb_part_spec p = {x.n_rows, x.n_cols, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  check(annb_txn_add_matrix(txn, &m, &matrix, &err));
  check(annb_txn_add_part(txn, &p, &part, &err));
  double seconds = append_all(a, &x, writer, 0), begin = now();
  check(annb_matrix_writer_close(writer, part, matrix, NULL, &err));
  check(annb_txn_commit(txn, NULL, &err));
  seconds += now() - begin;
  annb_orders_free(&orders);
  annb_source_matrix_close(&x);
  annb_source_close(&source);
  return seconds;
}

static double inflate_chunk(hid_t dataset, hsize_t at, struct libdeflate_decompressor *inflater, uint8_t *out, size_t room) {
  hsize_t n = 0;
  uint32_t skipped = 0;
  size_t used, got;
  if (H5Dget_chunk_storage_size(dataset, &at, &n) < 0 || n == 0) return 0;
  uint8_t *in = bench_reserve(n, 1);
  if (H5Dread_chunk(dataset, H5P_DEFAULT, &at, &skipped, in) < 0) bench_fail("a chunk cannot be read");
  double begin = now();
  enum libdeflate_result r = skipped ? LIBDEFLATE_SUCCESS : libdeflate_zlib_decompress_ex(inflater, in, n, out, room, &used, &got);
  double seconds = now() - begin;
  if (r != LIBDEFLATE_SUCCESS) bench_fail("a chunk cannot be inflated");
  free(in);
  return seconds;
}

/* libdeflate alone, on one thread, over the chunks of /X/data and /X/indices. */
static double inflate(const arguments *a) {
  static const char *const names[] = {"X/data", "X/indices"};
  struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
  hid_t file = H5Fopen(a->input, H5F_ACC_RDONLY, H5P_DEFAULT);
  double seconds = 0;
  for (int i = 0; i < 2; i++) {
    hid_t dataset = H5Dopen2(file, names[i], H5P_DEFAULT), type = H5Dget_type(dataset), creation = H5Dget_create_plist(dataset),
          space = H5Dget_space(dataset);
    hsize_t chunk = 0, n = 0;
    H5Sget_simple_extent_dims(space, &n, NULL);
    if (H5Pget_chunk(creation, 1, &chunk) != 1) bench_fail("%s is not chunked", names[i]);
    const size_t room = chunk * H5Tget_size(type);
    uint8_t *out = bench_reserve(room, 1);
    for (hsize_t at = 0; at < n; at += chunk) seconds += inflate_chunk(dataset, at, inflater, out, room);
    free(out);
    H5Sclose(space);
    H5Pclose(creation);
    H5Tclose(type);
    H5Dclose(dataset);
  }
  H5Fclose(file);
  libdeflate_free_decompressor(inflater);
  return seconds;
}

/* ---- the bound of an uncompressed export: as many bytes as the input has, written by threads that do nothing else ---- */

#define PIECE ((uint64_t)1 << 20)

typedef struct writer {
  pthread_t thread;
  int fd;
  uint64_t first, step, size; /* of pieces; bytes in all */
} writer;

static void *write_pieces(void *user) {
  const writer *w = user;
  uint8_t *piece = bench_reserve(PIECE, 1);
  memset(piece, 1, PIECE);
  for (uint64_t at = w->first * PIECE; at < w->size; at += w->step * PIECE) {
    const size_t n = w->size - at < PIECE ? (size_t)(w->size - at) : PIECE;
    if (pwrite(w->fd, piece, n, (off_t)at) != (ssize_t)n) bench_fail("cannot write");
  }
  free(piece);
  return NULL;
}

static double write_alone(const arguments *a) {
  struct stat st;
  const uint32_t n = a->n_threads ? a->n_threads : 1;
  writer *writers = bench_reserve(n, sizeof *writers);
  if (stat(a->input, &st)) bench_fail("%s cannot be examined", a->input);
  double begin = now();
  int fd = open(a->output, O_RDWR | O_CREAT | O_EXCL, 0666);
  if (fd < 0) bench_fail("%s cannot be made", a->output);
  for (uint32_t i = 0; i < n; i++) {
    writers[i] = (writer){.fd = fd, .first = i, .step = n, .size = (uint64_t)st.st_size};
    if (pthread_create(&writers[i].thread, NULL, write_pieces, &writers[i])) bench_fail("no thread can be started");
  }
  for (uint32_t i = 0; i < n; i++) pthread_join(writers[i].thread, NULL);
  if (fsync(fd) || close(fd)) bench_fail("cannot write");
  double seconds = now() - begin;
  free(writers);
  return seconds;
}

static const struct {
  const char *name;
  double (*run)(const arguments *a);
} measures[] = {{"pack", pack}, {"export", export}, {"encode", encode}, {"inflate", inflate}, {"write", write_alone}};

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr,
            "Usage: convert pack|encode|inflate|export|write INPUT [OUTPUT [THREADS [MEMORY_MIB]]]\n"
            "Prints seconds and the peak of anonymous and shared memory in bytes.\n");
    return 2;
  }
  arguments a = {
      .input = argv[2], .output = argc > 3 ? argv[3] : "", .n_threads = argc > 4 ? (uint32_t)atoi(argv[4]) : 0, .memory = MEMORY};
  if (argc > 5) a.memory = (uint64_t)atoi(argv[5]) << 20;
  for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
    if (strcmp(measures[i].name, argv[1])) continue;
    bench_peak_begin();
    double seconds = measures[i].run(&a);
    printf("%.4f %llu\n", seconds, (unsigned long long)bench_peak_end());
    return 0;
  }
  fprintf(stderr, "convert: there is no measure '%s'\n", argv[1]);
  return 2;
}
