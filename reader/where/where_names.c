#include "where.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NEAR = 3, MOST_LENGTH = 64, MOST_COLUMNS = 4096 };

typedef struct near {
  char names[MOST_NEAR][MOST_LENGTH + 1];
  unsigned distance[MOST_NEAR], n;
} near;

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* Letters to change, add or leave out, of names of at most MOST_LENGTH letters; case counts nothing. */
static unsigned distance(const char *a, const char *b) {
  unsigned row[MOST_LENGTH + 1];
  size_t n = strlen(a), m = strlen(b);
  for (size_t j = 0; j <= m; j++) row[j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

static void consider(near *found, const char *wanted, const char *name) {
  size_t length = strlen(wanted);
  if (strlen(name) > MOST_LENGTH) return;
  unsigned d = distance(wanted, name), at = found->n;
  if (d > (length < 3 ? 1 : length / 3)) return;
  for (unsigned i = 0; i < found->n; i++)
    if (!strcmp(found->names[i], name)) return;
  while (at > 0 && d < found->distance[at - 1]) at--;
  if (at == MOST_NEAR) return;
  if (found->n < MOST_NEAR) found->n++;
  for (unsigned i = found->n - 1; i > at; i--) {
    strcpy(found->names[i], found->names[i - 1]);
    found->distance[i] = found->distance[i - 1];
  }
  strcpy(found->names[at], name);
  found->distance[at] = d;
}

static annb_status look(const annb_store *store, const char *wanted, near *found, annb_error *err) {
  annb_store_info info;
  annb_status s = ANNB_OK;
  uint32_t looked = 0;
  annb_store_get_info(store, &info);
  for (uint32_t part = 0; !s && part < info.n_parts && looked < MOST_COLUMNS; part++) {
    uint32_t n = 0;
    s = annb_part_n_columns(store, part, ANNB_AXIS_OBS, &n, err);
    for (uint32_t i = 0; !s && i < n && looked < MOST_COLUMNS; i++, looked++) {
      const annb_column *column;
      annb_column_info column_info;
      s = annb_part_column(store, part, ANNB_AXIS_OBS, i, &column, err);
      if (s) break;
      annb_column_get_info(column, &column_info);
      consider(found, wanted, column_info.name);
    }
  }
  return s;
}

annb_status annb_where_unknown(const annb_store *store, const annb_where_tree *tree, const annb_where_node *test, annb_error *err) {
  near found = {.n = 0};
  char text[MOST_NEAR * (MOST_LENGTH + 8) + 32] = "";
  if (test->is_index) return annb_where_fail(err, ANNB_ENOTFOUND, tree->text, test->at, "obs of this store has no index");
  annb_status s = strlen(test->name) <= MOST_LENGTH ? look(store, test->name, &found, err) : ANNB_OK;
  if (s) return s;
  size_t used = 0;
  for (unsigned i = 0; i < found.n; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s'%s'", i ? " or " : "; did you mean ", found.names[i]);
  return annb_where_fail(err, ANNB_ENOTFOUND, tree->text, test->at,
                         "obs has no column '%.200s' that can be asked (nested and date columns cannot)%s", test->name, text);
}
