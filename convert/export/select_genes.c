#include "selection.h"

#include "../../store/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 5 };

typedef struct gene {
  const char *bytes;
  uint64_t length, number;
} gene;

typedef struct choosing {
  const char *path;
  gene *genes; /* by name */
  uint64_t n_genes;
  annb_selection *selection;
  uint64_t room;
  uint8_t *chosen;
  uint64_t unknown;
  char names[512]; /* of the first unknown ones */
} choosing;

static int by_name(const void *a, const void *b) {
  const gene *x = a, *y = b;
  uint64_t n = x->length < y->length ? x->length : y->length;
  int order = n ? memcmp(x->bytes, y->bytes, n) : 0;
  return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

/* Names of var, when they are text; else genes have numbers only. */
static annb_status read_names(const annb_store *store, choosing *c, annb_error *err) {
  const annb_joint_column *index;
  annb_column_info info;
  annb_error why;
  annb_status s = annb_store_index_column(store, ANNB_AXIS_VAR, &index, &why);
  if (s == ANNB_ENOTFOUND) return ANNB_OK;
  if (s) {
    if (err) *err = why;
    return s;
  }
  annb_joint_column_get_info(index, &info);
  if (info.kind != ANNB_COLUMN_STRING) return ANNB_OK;
  c->genes = malloc((info.length + 1) * sizeof *c->genes);
  if (!c->genes) return annb_fail_memory(err);
  for (uint64_t i = 0; !s && i < info.length; i++) {
    gene *g = &c->genes[i];
    bool missing;
    g->number = i;
    s = annb_store_column_string(index, i, &g->bytes, &g->length, &missing, err);
  }
  c->n_genes = info.length;
  if (!s) qsort(c->genes, c->n_genes, sizeof *c->genes, by_name);
  return s;
}

/* The gene of a line; false when there is none. */
static bool find(const choosing *c, const char *line, uint64_t *number, bool *twice) {
  const gene key = {line, strlen(line), 0}, *found = c->n_genes ? bsearch(&key, c->genes, c->n_genes, sizeof key, by_name) : NULL;
  *twice = false;
  if (found) {
    *number = found->number;
    *twice = (found > c->genes && !by_name(found - 1, found)) || (found + 1 < c->genes + c->n_genes && !by_name(found, found + 1));
    return true;
  }
  char *end = NULL;
  errno = 0;
  unsigned long long n = *line >= '0' && *line <= '9' ? strtoull(line, &end, 10) : 0;
  *number = n;
  return end && !*end && !errno && n < c->selection->of;
}

static annb_status choose(void *user, char *line, uint64_t at, annb_error *err) {
  choosing *c = user;
  annb_selection *s = c->selection;
  uint64_t number;
  bool twice;
  if (!find(c, line, &number, &twice)) {
    size_t used = strlen(c->names);
    if (c->unknown++ < MOST_NAMED)
      snprintf(c->names + used, sizeof c->names - used, "%s'%.60s' (line %" PRIu64 ")", used ? ", " : "", line, at);
    return ANNB_OK;
  }
  if (twice)
    return annb_fail(err, ANNB_EINPUT, c->path, "line %" PRIu64 ": several genes are called '%.200s': give the numbers of their columns",
                     at, line);
  if (c->chosen[number]) return annb_fail(err, ANNB_EINPUT, c->path, "line %" PRIu64 ": gene '%.200s' is asked for twice", at, line);
  c->chosen[number] = 1;
  if (s->n && number < s->items[s->n - 1]) s->ascending = false;
  s->items[s->n++] = number; /* each gene once, so there is room */
  return ANNB_OK;
}

annb_status annb_select_genes(const annb_store *store, const char *path, annb_selection *genes, annb_error *err) {
  choosing c = {.path = path, .selection = genes};
  genes->n = 0;
  genes->items = malloc((genes->of + 1) * sizeof *genes->items);
  c.chosen = calloc(genes->of + 1, 1);
  annb_status s = genes->items && c.chosen ? read_names(store, &c, err) : annb_fail_memory(err);
  if (!s) s = annb_each_line(path, choose, &c, err);
  if (!s && c.unknown)
    s = annb_fail(err, ANNB_EINPUT, path, "%" PRIu64 " of its lines name no gene of the store: %s%s", c.unknown, c.names,
                  c.unknown > MOST_NAMED ? ", …" : "");
  free(c.genes);
  free(c.chosen);
  return s;
}
