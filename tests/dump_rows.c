/* What the reader delivers, as bytes for other programs to compare.
 *
 *   dump_rows STORE csr MATRIX    row numbers (u64) on stdin; out: u64 n_rows, nnz, dtype; i64 indptr[n_rows + 1]; i64 indices; values
 *   dump_rows STORE dense MATRIX  row numbers on stdin; out: u64 n_rows, n_cols, dtype; values
 *   dump_rows STORE columns       lines: "# axis kind dtype index name" with the name in hex, then one line per row: "-" for missing, else the
 *                                 value's bytes in hex after "=", of a categorical those of its category
 *   dump_rows STORE joint         the same of the columns of the whole store; behind the name: ordered, and the categories with commas */
#include <annblock/annblock.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static annb_error error;

static void fail(void) {
  fprintf(stderr, "dump_rows: %s\n", error.message);
  exit(1);
}

static void check(annb_status status) {
  if (status) fail();
}

static void *allocate(uint64_t n, uint64_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) exit(1);
  return p;
}

static uint64_t *read_rows(size_t *n) {
  uint64_t *rows = NULL, row;
  *n = 0;
  while (fread(&row, sizeof row, 1, stdin) == 1) {
    if (!(*n & (*n - 1))) rows = realloc(rows, (*n ? 2 * *n : 1) * sizeof *rows);
    if (!rows) exit(1);
    rows[(*n)++] = row;
  }
  return rows ? rows : allocate(1, sizeof *rows);
}

static void put(const void *data, uint64_t size) {
  if (fwrite(data, 1, size, stdout) != size) exit(1);
}

static void csr(const annb_store *store, annb_context *context, uint32_t matrix, const annb_matrix_info *info) {
  size_t n;
  uint64_t *rows = read_rows(&n), nnz;
  check(annb_fetch_nnz(store, matrix, rows, n, NULL, &nnz, &error));
  annb_fetch_options options = {.index64 = true};
  int64_t *indptr = allocate(n + 1, 8), *indices = allocate(nnz, 8);
  void *values = allocate(nnz, 8);
  check(annb_fetch_csr(store, context, matrix, rows, n, &options, indptr, indices, values, nnz, &error));
  nnz = (uint64_t)indptr[n]; /* it was a bound */
  uint64_t head[3] = {n, nnz, info->dtype};
  put(head, sizeof head);
  put(indptr, 8 * (n + 1));
  put(indices, 8 * nnz);
  put(values, annb_dtype_size(info->dtype) * nnz);
  free(rows);
  free(indptr);
  free(indices);
  free(values);
}

static void dense(const annb_store *store, annb_context *context, uint32_t matrix, const annb_matrix_info *info) {
  size_t n;
  uint64_t *rows = read_rows(&n), size = n * info->n_cols * annb_dtype_size(info->dtype);
  void *values = allocate(size, 1);
  check(annb_fetch_dense(store, context, matrix, rows, n, NULL, values, 0, size, &error));
  uint64_t head[3] = {n, info->n_cols, info->dtype};
  put(head, sizeof head);
  put(values, size);
  free(rows);
  free(values);
}

static void hex(const void *data, uint64_t size) {
  const uint8_t *bytes = data;
  for (uint64_t i = 0; i < size; i++) printf("%02x", bytes[i]);
}

static int64_t code_of(const void *value, annb_dtype dtype) {
  int8_t a;
  int16_t b;
  int32_t c;
  if (dtype == ANNB_I8) return memcpy(&a, value, 1), a;
  if (dtype == ANNB_I16) return memcpy(&b, value, 2), b;
  return memcpy(&c, value, 4), c;
}

static void print_value(const annb_column *column, const annb_column_info *info, uint64_t row) {
  const void *value;
  const uint8_t *mask;
  const char *bytes;
  uint64_t length;
  bool missing;
  if (info->kind == ANNB_COLUMN_STRING) {
    check(annb_column_string(column, row, &bytes, &length, &missing, &error));
    putchar(missing ? '-' : '=');
    hex(bytes, missing ? 0 : length);
    return;
  }
  check(annb_column_values(column, row, 1, &value, &mask, &error));
  missing = (mask && *mask) || (info->kind == ANNB_COLUMN_CATEGORICAL && code_of(value, info->dtype) < 0);
  if (missing) {
    putchar('-');
  } else if (info->kind == ANNB_COLUMN_FIXED) {
    putchar('=');
    hex(value, annb_dtype_size(info->dtype));
  } else {
    const annb_column *categories;
    annb_column_info of_categories;
    check(annb_column_categories(column, &categories, &error));
    annb_column_get_info(categories, &of_categories);
    print_value(categories, &of_categories, (uint64_t)code_of(value, info->dtype));
  }
}

static void columns(const annb_store *store, annb_axis axis) {
  uint32_t n;
  check(annb_part_n_columns(store, 0, axis, &n, &error));
  for (uint32_t i = 0; i < n; i++) {
    const annb_column *column;
    annb_column_info info;
    check(annb_part_column(store, 0, axis, i, &column, &error));
    annb_column_get_info(column, &info);
    printf("# %s %d %s %d ", axis == ANNB_AXIS_OBS ? "obs" : "var", (int)info.kind,
           info.kind == ANNB_COLUMN_STRING ? "-" : annb_dtype_name(info.dtype), info.is_index);
    hex(info.name, strlen(info.name));
    putchar('\n');
    for (uint64_t row = 0; row < info.length; row++) {
      print_value(column, &info, row);
      putchar('\n');
    }
  }
}

/* All rows at once, from the last to the first, so that gathers cross parts. */
static void joint_rows(const annb_joint_column *column, const annb_column_info *info) {
  uint64_t *rows = allocate(info->length, 8);
  uint8_t *values = allocate(info->length, 8), *mask = allocate(info->length, 1);
  const annb_column *categories = NULL;
  annb_column_info of_categories = {.length = 0};
  uint32_t size = annb_dtype_size(info->dtype);
  for (uint64_t i = 0; i < info->length; i++) rows[i] = info->length - 1 - i;
  if (info->kind == ANNB_COLUMN_FIXED) check(annb_store_column_gather(column, rows, info->length, values, mask, &error));
  if (info->kind == ANNB_COLUMN_CATEGORICAL) {
    check(annb_store_column_codes(column, rows, info->length, (int32_t *)(void *)values, &error));
    check(annb_joint_column_categories(column, &categories, &error));
    annb_column_get_info(categories, &of_categories);
  }
  for (uint64_t i = info->length; i-- > 0;) {
    const char *bytes = (const char *)values + i * size;
    uint64_t length = size;
    bool missing = mask[i];
    if (info->kind == ANNB_COLUMN_STRING) check(annb_store_column_string(column, rows[i], &bytes, &length, &missing, &error));
    if (categories) missing = code_of(bytes, ANNB_I32) < 0;
    if (missing) putchar('-');
    else if (categories) print_value(categories, &of_categories, (uint64_t)code_of(bytes, ANNB_I32));
    else putchar('='), hex(bytes, length);
    putchar('\n');
  }
  free(rows);
  free(values);
  free(mask);
}

static void joint(const annb_store *store, annb_axis axis) {
  uint32_t n;
  check(annb_store_n_columns(store, axis, &n, &error));
  for (uint32_t i = 0; i < n; i++) {
    const annb_joint_column *column;
    const annb_column *categories;
    annb_column_info info, of_categories;
    check(annb_store_column(store, axis, i, &column, &error));
    annb_joint_column_get_info(column, &info);
    printf("# %s %d %s %d ", axis == ANNB_AXIS_OBS ? "obs" : "var", (int)info.kind,
           info.kind == ANNB_COLUMN_STRING ? "-" : annb_dtype_name(info.dtype), info.is_index);
    hex(info.name, strlen(info.name));
    printf(" %d ", info.ordered);
    if (info.kind == ANNB_COLUMN_CATEGORICAL) {
      check(annb_joint_column_categories(column, &categories, &error));
      annb_column_get_info(categories, &of_categories);
      for (uint64_t k = 0; k < of_categories.length; k++) {
        print_value(categories, &of_categories, k);
        putchar(',');
      }
    }
    putchar('\n');
    joint_rows(column, &info);
  }
}

int main(int argc, char **argv) {
  annb_store *store;
  annb_context *context;
  if (argc < 3) return 2;
  check(annb_store_open(argv[1], NULL, &store, &error));
  check(annb_context_open(&context, &error));
  if (!strcmp(argv[2], "columns")) {
    columns(store, ANNB_AXIS_OBS);
    columns(store, ANNB_AXIS_VAR);
  } else if (!strcmp(argv[2], "joint")) {
    joint(store, ANNB_AXIS_OBS);
    joint(store, ANNB_AXIS_VAR);
  } else {
    uint32_t matrix;
    annb_matrix_info info;
    if (argc < 4) return 2;
    check(annb_store_find_matrix(store, argv[3], &matrix, &error));
    check(annb_store_matrix(store, matrix, &info, &error));
    if (!strcmp(argv[2], "csr")) csr(store, context, matrix, &info);
    else dense(store, context, matrix, &info);
  }
  annb_context_close(context);
  annb_store_close(store);
  return fflush(stdout) ? 1 : 0;
}
