#include "direct.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/parallel.h"
#include "h5.h"
#include "source_driver.h"
#include "unfilter.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 256, TASKS = 256 /* chunks of a group */, SCRATCHES = 3 /* chunks that a thread may hold */ };
#define GROUP (UINT64_C(8) << 20) /* compressed bytes taken from the file at once */

/* One chunk of a group. */
typedef struct task {
  uint64_t row, col; /* of its first value */
  size_t at, n;      /* in `raw` */
  uint32_t skipped;
  bool kept;      /* it goes to `kept` */
  uint8_t *saved; /* it goes there */
  annb_unfilter_result result;
} task;

typedef struct worker {
  annb_unfilter unfilter;
  uint8_t *chunk; /* of one that is wanted only in part */
} worker;

/* What a call wants. */
typedef struct box {
  uint64_t first, n, first_col, n_cols;
  uint8_t *out;
} box;

/* A decompressed chunk that will be wanted again. */
typedef struct saved_chunk {
  uint64_t row;
  uint8_t *values;
} saved_chunk;

struct annb_direct {
  hid_t dataset;
  const char *file, *object;
  uint64_t rows, cols, size; /* size: of a value */
  int rank, fd;              /* fd: HDF5's own; contiguous only */
  uint64_t offset;
  annb_filters filters; /* n = 0: contiguous */
  uint64_t height, width, chunk_bytes, memory;
  uint32_t n_threads;
  worker *workers;
  uint8_t *raw; /* of the group */
  uint64_t raw_room;
  task tasks[TASKS];
  size_t n_tasks;
  uint8_t *kept;
  uint64_t kept_row; /* UINT64_MAX: none */
  box box;
  bool saving;
  saved_chunk *saved; /* ascending; those before `first_saved` are gone */
  size_t n_saved, first_saved, saved_room;
};

/* ---- opening ---- */

/* HDF5's descriptor of the file that holds the dataset; −1 unless it is a plain file. */
static int descriptor(hid_t dataset) {
  hid_t file = H5Iget_file_id(dataset);
  int fd = annb_source_driver_fd(file);
  annb_h5_close(&file);
  return fd;
}

/* Without storage H5Dget_offset adds the size of the user block to "no address". */
static bool contiguous(annb_direct *d, hid_t creation) {
  uint64_t bytes, end, file_size;
  bool here = H5Pget_external_count(creation) == 0 && H5Dget_storage_size(d->dataset) > 0;
  haddr_t offset = here ? H5Dget_offset(d->dataset) : HADDR_UNDEF;
  d->fd = descriptor(d->dataset);
  if (offset == HADDR_UNDEF || d->fd < 0 || annb_io_fd_size(d->fd, d->file, &file_size, NULL)) return false;
  d->offset = offset;
  return annb_mul(d->rows, d->cols, &bytes) && annb_mul(bytes, d->size, &bytes) && annb_add(offset, bytes, &end) && end <= file_size;
}

static bool chunked(annb_direct *d, hid_t creation) {
  hsize_t chunk[2] = {1, 1};
  unsigned options = 1;
  if (!annb_filters_read(creation, &d->filters) || H5Pget_chunk(creation, d->rank, chunk) != d->rank) return false;
  if (H5Pget_chunk_opts(creation, &options) < 0 || options) return false; /* chunks at the edge without filters */
  d->height = chunk[0];
  d->width = chunk[1];
  return annb_mul(chunk[0], chunk[1], &d->chunk_bytes) && annb_mul(d->chunk_bytes, d->size, &d->chunk_bytes) && d->chunk_bytes &&
         d->chunk_bytes <= d->memory / 32;
}

static bool examine(annb_direct *d) {
  hsize_t dims[32] = {0};
  bool null = false, possible = false;
  hid_t type = H5Dget_type(d->dataset), creation = H5Dget_create_plist(d->dataset);
  H5T_class_t class = H5Tget_class(type);
  d->rank = annb_h5_extent(d->dataset, dims, &null);
  d->size = H5Tget_size(type);
  d->rows = dims[0];
  d->cols = d->rank == 2 ? dims[1] : 1;
  bool plain = (class == H5T_INTEGER || class == H5T_FLOAT || class == H5T_ENUM) && !null && (d->rank == 1 || d->rank == 2);
  H5D_layout_t layout = H5Pget_layout(creation);
  if (plain && layout == H5D_CONTIGUOUS) possible = contiguous(d, creation);
  else if (plain && layout == H5D_CHUNKED) possible = chunked(d, creation);
  H5Eclear2(H5E_DEFAULT);
  annb_h5_close(&creation);
  annb_h5_close(&type);
  return possible;
}

annb_status annb_direct_open(hid_t dataset, const char *file, const char *object, uint64_t memory, annb_direct **out, annb_error *err) {
  annb_direct *d = calloc(1, sizeof *d);
  *out = NULL;
  if (!d) return annb_fail_memory(err);
  d->dataset = dataset;
  d->file = file;
  d->object = object;
  d->memory = memory;
  d->n_threads = 1;
  d->kept_row = UINT64_MAX;
  if (examine(d)) *out = d;
  else annb_direct_close(d);
  return ANNB_OK;
}

static void free_workers(annb_direct *d) {
  for (uint32_t i = 0; d->workers && i < d->n_threads; i++) {
    annb_unfilter_free(&d->workers[i].unfilter);
    free(d->workers[i].chunk);
  }
  free(d->workers);
  d->workers = NULL;
}

void annb_direct_close(annb_direct *d) {
  if (!d) return;
  free_workers(d);
  for (size_t i = d->first_saved; i < d->n_saved; i++) free(d->saved[i].values);
  free(d->saved);
  free(d->raw);
  free(d->kept);
  free(d);
}

/* As many as fit an eighth of the memory. */
void annb_direct_set_threads(annb_direct *d, uint32_t n) {
  uint64_t most = d->filters.n ? d->memory / 8 / (SCRATCHES * d->chunk_bytes) : 1;
  free_workers(d);
  if (most > MAX_THREADS) most = MAX_THREADS;
  d->n_threads = n < most ? n : (uint32_t)most;
  if (d->n_threads == 0) d->n_threads = 1;
}

/* ---- contiguous values ---- */

static annb_status read_failed(const annb_direct *d, annb_error *err) {
  return annb_h5_say_cut(err, d->file, d->object);
}

static annb_status read_contiguous(const annb_direct *d, const box *b, annb_error *err) {
  const uint64_t piece = b->n_cols * d->size;
  uint64_t at = d->offset + (b->first * d->cols + b->first_col) * d->size; /* the whole dataset was found inside the file */
  if (b->n_cols == d->cols) return annb_io_pread(d->fd, d->file, b->out, b->n * piece, at, NULL) ? read_failed(d, err) : ANNB_OK;
  for (uint64_t i = 0; i < b->n; i++, at += d->cols * d->size)
    if (annb_io_pread(d->fd, d->file, b->out + i * piece, piece, at, NULL)) return read_failed(d, err);
  return ANNB_OK;
}

bool annb_direct_is_contiguous(const annb_direct *d) { return d->filters.n == 0; }

annb_status annb_direct_read_at(const annb_direct *d, uint64_t first, uint64_t n, void *out, annb_error *err) {
  return read_contiguous(d, &(box){first, n, 0, d->cols, out}, err);
}

void annb_direct_will_need(const annb_direct *d, uint64_t first, uint64_t n) {
  annb_io_will_need_fd(d->fd, d->offset + first * d->cols * d->size, n * d->cols * d->size);
}

/* ---- single chunks ---- */

uint64_t annb_direct_chunk_rows(const annb_direct *d) { return d->height; }

uint64_t annb_direct_chunk_bytes(const annb_direct *d) { return d->chunk_bytes; }

uint64_t annb_direct_stored(const annb_direct *d, uint64_t row, uint64_t col) {
  const hsize_t at[2] = {row, col};
  hsize_t n = 0;
  if (H5Dget_chunk_storage_size(d->dataset, at, &n) < 0) n = 0;
  H5Eclear2(H5E_DEFAULT);
  return n;
}

static annb_status check_stored(const annb_direct *d, uint64_t row, uint64_t n, annb_error *err) {
  if (n <= 2 * d->chunk_bytes + 65536) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EINPUT, d->file, d->object, "the chunk of row %llu states %llu bytes for %llu values: it is damaged",
                      (unsigned long long)row, (unsigned long long)n, (unsigned long long)(d->height * d->width));
}

static annb_status read_stored(const annb_direct *d, uint64_t row, uint64_t col, uint8_t *out, uint32_t *skipped, annb_error *err) {
  const hsize_t at[2] = {row, col};
  if (H5Dread_chunk(d->dataset, H5P_DEFAULT, at, skipped, out) >= 0) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EINPUT, d->file, d->object, "values from row %llu cannot be read: the file is damaged or incomplete",
                      (unsigned long long)row);
}

annb_status annb_direct_take_stored(const annb_direct *d, uint64_t row, uint64_t n, uint8_t **raw, uint64_t *room, uint32_t *skipped,
                                    annb_error *err) {
  annb_status s = check_stored(d, row, n, err);
  if (s) return s;
  if (n > *room) {
    free(*raw);
    *raw = malloc(n);
    *room = *raw ? n : 0;
    if (!*raw) return annb_fail_memory(err);
  }
  return read_stored(d, row, 0, *raw, skipped, err);
}

annb_unfilter_result annb_direct_decompress(const annb_direct *d, annb_unfilter *unfilter, unsigned skipped, const uint8_t *raw, size_t n,
                                            uint8_t *out) {
  return annb_unfilter_chunk(unfilter, &d->filters, skipped, raw, n, out, d->chunk_bytes);
}

annb_status annb_direct_damaged(const annb_direct *d, uint64_t row, uint64_t col, annb_unfilter_result result, annb_error *err) {
  if (result == ANNB_UNFILTER_MEMORY) return annb_fail_memory(err);
  uint64_t last = row + d->height < d->rows ? row + d->height - 1 : d->rows - 1;
  return annb_h5_say(err, ANNB_EINPUT, d->file, d->object, "the chunk of rows %llu to %llu (columns from %llu): its %s",
                     (unsigned long long)row, (unsigned long long)last, (unsigned long long)col, annb_unfilter_text(result));
}

/* ---- chunks that are saved ---- */

void annb_direct_save(annb_direct *d, bool save) { d->saving = save && d->rank == 1 && d->filters.n; }

uint8_t *annb_direct_saved(annb_direct *d, uint64_t row) {
  for (; d->first_saved < d->n_saved && d->saved[d->first_saved].row < row; d->first_saved++) free(d->saved[d->first_saved].values);
  return d->first_saved < d->n_saved && d->saved[d->first_saved].row == row ? d->saved[d->first_saved++].values : NULL;
}

/* Memory for the next one of a group, if it is to be saved and an eighth of the memory has room. */
static uint8_t *room_to_save(const annb_direct *d, uint64_t row) {
  const uint64_t most = d->memory / 8 / d->chunk_bytes;
  const bool ascends = !d->n_saved || d->saved[d->n_saved - 1].row < row;
  return d->saving && ascends && d->n_saved + d->n_tasks < most ? malloc(d->chunk_bytes) : NULL;
}

static void save(annb_direct *d, const task *t) {
  if (d->n_saved == d->saved_room) {
    size_t room = d->saved_room ? 2 * d->saved_room : 64;
    saved_chunk *more = realloc(d->saved, room * sizeof *more);
    if (more) {
      d->saved = more;
      d->saved_room = room;
    }
  }
  if (t->result || d->n_saved == d->saved_room) free(t->saved);
  else d->saved[d->n_saved++] = (saved_chunk){t->row, t->saved};
}

/* ---- chunks ---- */

/* The part of a decompressed chunk that the box wants. */
static void copy_part(const annb_direct *d, uint64_t row, uint64_t col, const uint8_t *chunk) {
  const box *b = &d->box;
  uint64_t top = row > b->first ? row : b->first, left = col > b->first_col ? col : b->first_col;
  uint64_t bottom = row + d->height < b->first + b->n ? row + d->height : b->first + b->n;
  uint64_t right = col + d->width < b->first_col + b->n_cols ? col + d->width : b->first_col + b->n_cols;
  if (d->width == 1 && b->n_cols == 1) {
    memcpy(b->out + (top - b->first) * d->size, chunk + (top - row) * d->size, (bottom - top) * d->size);
    return;
  }
  for (uint64_t r = top; r < bottom; r++)
    memcpy(b->out + ((r - b->first) * b->n_cols + (left - b->first_col)) * d->size, chunk + ((r - row) * d->width + (left - col)) * d->size,
           (right - left) * d->size);
}

/* Is the whole chunk wanted, and its values stand side by side in the output? */
static bool fills(const annb_direct *d, const task *t) {
  const box *b = &d->box;
  return t->row >= b->first && t->row + d->height <= b->first + b->n && t->col == b->first_col && d->width == b->n_cols;
}

static void run_task(void *user, uint32_t number, size_t item) {
  annb_direct *d = user;
  task *t = &d->tasks[item];
  worker *w = &d->workers[number];
  const bool whole = fills(d, t);
  uint8_t *to = t->saved ? t->saved : whole ? d->box.out + (t->row - d->box.first) * d->width * d->size : t->kept ? d->kept : w->chunk;
  if (!to) to = w->chunk = malloc(d->chunk_bytes);
  t->result =
      to ? annb_unfilter_chunk(&w->unfilter, &d->filters, t->skipped, d->raw + t->at, t->n, to, d->chunk_bytes) : ANNB_UNFILTER_MEMORY;
  if (!t->result && d->box.n && (t->saved || !whole)) copy_part(d, t->row, t->col, to);
}

static annb_status run_group(annb_direct *d, annb_error *err) {
  annb_parallel(d->n_threads, d->n_tasks, run_task, d);
  annb_status s = ANNB_OK;
  for (size_t i = 0; i < d->n_tasks; i++) {
    const task *t = &d->tasks[i];
    if (t->saved) save(d, t);
    if (t->kept) d->kept_row = t->result ? UINT64_MAX : t->row;
    if (t->result && !s) s = annb_direct_damaged(d, t->row, t->col, t->result, err);
  }
  d->n_tasks = 0;
  return s;
}

static annb_status make_room(annb_direct *d, uint64_t need, annb_error *err) {
  if (need <= d->raw_room) return ANNB_OK;
  uint8_t *more = realloc(d->raw, need);
  if (!more) return annb_fail_memory(err);
  d->raw = more;
  d->raw_room = need;
  return ANNB_OK;
}

/* Take a chunk's bytes from the file into the group; *used of `raw` are taken. */
static annb_status add_task(annb_direct *d, uint64_t row, uint64_t col, uint64_t n, uint64_t *used, annb_error *err) {
  annb_status s = check_stored(d, row, n, err);
  if (!s) s = make_room(d, *used + n, err);
  if (s) return s;
  task *t = &d->tasks[d->n_tasks];
  *t = (task){.row = row, .col = col, .at = *used, .n = n, .saved = room_to_save(d, row)};
  t->kept = !t->saved && d->box.n && d->rank == 1 && row + d->height > d->box.first + d->box.n; /* only the last can reach past the rows */
  if (t->kept && !d->kept && !(d->kept = malloc(d->chunk_bytes))) return annb_fail_memory(err);
  s = read_stored(d, row, col, d->raw + *used, &t->skipped, err);
  if (s) free(t->saved);
  else d->n_tasks++;
  *used += n;
  return s;
}

static const uint8_t *find_saved(const annb_direct *d, uint64_t row) {
  size_t low = d->first_saved, end = d->saving ? d->n_saved : low;
  while (low < end) {
    const size_t middle = low + (end - low) / 2;
    if (d->saved[middle].row < row) low = middle + 1;
    else end = middle;
  }
  return d->saving && low < d->n_saved && d->saved[low].row == row ? d->saved[low].values : NULL;
}

static annb_status read_chunked(annb_direct *d, const box *b, bool *done, annb_error *err) {
  annb_status s = ANNB_OK;
  uint64_t used = 0, end_row = b->first + b->n, end_col = b->first_col + b->n_cols;
  for (uint64_t row = b->first / d->height * d->height; row < end_row && !s; row += d->height)
    for (uint64_t col = b->first_col / d->width * d->width; col < end_col && !s; col += d->width) {
      const uint8_t *here = row == d->kept_row ? d->kept : find_saved(d, row);
      if (here) {
        copy_part(d, row, col, here);
        continue;
      }
      uint64_t n = annb_direct_stored(d, row, col);
      if (n == 0) {
        *done = false;
        return ANNB_OK;
      }
      if (d->n_tasks == TASKS || (d->n_tasks && used + n > GROUP)) {
        s = run_group(d, err);
        used = 0;
      }
      if (!s) s = add_task(d, row, col, n, &used, err);
    }
  return s ? s : run_group(d, err);
}

annb_status annb_direct_read(annb_direct *d, uint64_t first, uint64_t n, uint64_t first_col, uint64_t n_cols, void *out, bool *done,
                             annb_error *err) {
  d->box = (box){first, n, first_col, n_cols, out};
  d->n_tasks = 0;
  *done = true;
  if (n == 0 || n_cols == 0) return ANNB_OK;
  if (d->filters.n == 0) return read_contiguous(d, &d->box, err);
  if (!d->workers) d->workers = calloc(d->n_threads, sizeof *d->workers);
  annb_status s = d->workers ? read_chunked(d, &d->box, done, err) : annb_fail_memory(err);
  for (size_t i = 0; i < d->n_tasks; i++) free(d->tasks[i].saved); /* of a group that was not run */
  return s;
}

/* Take a chunk into the group, if there is memory to save it; *go_on: there was. */
static annb_status prefetch_chunk(annb_direct *d, uint64_t row, uint64_t *used, bool *go_on, annb_error *err) {
  const uint64_t n = annb_direct_stored(d, row, 0);
  annb_status s = ANNB_OK;
  if (n == 0) return ANNB_OK;
  if (d->n_tasks == TASKS || (d->n_tasks && *used + n > GROUP)) {
    s = run_group(d, err);
    *used = 0;
  }
  if (!s) s = add_task(d, row, 0, n, used, err);
  *go_on = !s && d->tasks[d->n_tasks - 1].saved;
  if (!s && !*go_on) d->n_tasks--;
  return s;
}

annb_status annb_direct_prefetch(annb_direct *d, uint32_t n_ranges, const uint64_t *firsts, uint64_t n, annb_error *err) {
  if (!d->saving || n == 0) return ANNB_OK;
  if (!d->workers) d->workers = calloc(d->n_threads, sizeof *d->workers);
  if (!d->workers) return annb_fail_memory(err);
  d->box = (box){0};
  d->n_tasks = 0;
  annb_status s = ANNB_OK;
  uint64_t used = 0, next = 0; /* next: rows before it are taken */
  bool go_on = true;
  for (uint32_t i = 0; i < n_ranges && !s && go_on; i++) {
    uint64_t row = firsts[i] / d->height * d->height;
    for (row = row < next ? next : row; row < firsts[i] + n && row < d->rows && !s && go_on; row += d->height, next = row)
      s = prefetch_chunk(d, row, &used, &go_on, err);
  }
  if (!s) s = run_group(d, err);
  for (size_t i = 0; i < d->n_tasks; i++) free(d->tasks[i].saved);
  return s;
}
