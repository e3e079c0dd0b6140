/* One list of genes for parts that have their own. */
#include "join.h"

#include "../../store/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))

/* The genes of one file: names, and what they are matched by. */
typedef struct gene_list {
  annb_keys names, keys;
} gene_list;

typedef struct genes {
  const annb_join *join;
  const annb_join_target *target; /* NULL: only look */
  annb_manifest *draft;
  uint32_t n, first_new;
  gene_list *lists; /* of the parts, then of the base */
  uint32_t base;    /* place of the list that new parts are compared with */
  annb_key_table table;
  uint32_t *origin_list, *origin_row; /* per number in the table */
  uint32_t room;
  uint32_t *store_gene; /* per number in the table: gene of the store, or ANNB_NONE */
  uint32_t n_store;
  annb_status wrong;   /* what genes that do not match are */
  annb_key_table seen; /* keys of the list in work */
} genes;

/* ---- lists ---- */

static void label(const genes *g, uint32_t list, char text[256]) {
  if (list < g->n) annb_join_label(g->join, list, text);
  else snprintf(text, 256, "%.255s", g->join->store);
}

static annb_status open_list(const genes *g, annb_arrays *arrays, uint32_t list, gene_list *out, annb_error *err) {
  char text[256];
  label(g, list, text);
  uint32_t index = arrays ? annb_keys_find(arrays, ANNB_AXIS_VAR, NULL) : ANNB_NONE, key = index;
  if (index == ANNB_NONE)
    return annb_fail(err, g->wrong, NULL, "%s has no names of genes, which %s need", text,
                     g->join->stores ? "stores need to be joined" : "several files in one store");
  if (g->join->key) key = annb_keys_find(arrays, ANNB_AXIS_VAR, g->join->key);
  if (key == ANNB_NONE)
    return annb_fail(err, g->wrong, NULL, "%s has no column '%.200s' in var, which genes are to be matched by", text, g->join->key);
  annb_status s = annb_keys_open(arrays, index, &out->names, err);
  return s ? s : annb_keys_open(arrays, key, &out->keys, err);
}

static annb_status open_lists(genes *g, const annb_join_files *files, annb_error *err) {
  annb_status s = ANNB_OK;
  g->lists = calloc((size_t)g->n + 1, sizeof *g->lists);
  if (!g->lists) return annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < g->n; i++) s = open_list(g, files->columns[i], i, &g->lists[i], err);
  g->base = g->first_new && g->draft->store.var_part != ANNB_NONE ? g->draft->store.var_part : 0;
  if (s || !files->genes) return s;
  g->base = g->n;
  return open_list(g, files->genes, g->n, &g->lists[g->n], err);
}

static void close_genes(genes *g) {
  for (uint32_t i = 0; g->lists && i <= g->n; i++) {
    annb_keys_close(&g->lists[i].names);
    annb_keys_close(&g->lists[i].keys);
  }
  free(g->lists);
  free(g->origin_list);
  free(g->origin_row);
  free(g->store_gene);
  annb_key_table_free(&g->table);
  annb_key_table_free(&g->seen);
}

/* ---- keys of a list ---- */

/* Key i of a list, whose keys are asked for in order: which of its repeats it is. */
static annb_status next_key(genes *g, uint32_t list, uint64_t i, annb_key *key, uint32_t *repeat, annb_error *err) {
  char text[256];
  *key = annb_keys_at(&g->lists[list].keys, i);
  label(g, list, text);
  if (!key->bytes)
    return annb_fail(err, g->wrong, NULL, "%s: gene %llu has no '%.200s' to be matched by", text, ULL(i),
                     g->join->key ? g->join->key : "name");
  if (i == 0) annb_key_table_free(&g->seen);
  uint32_t at = annb_key_table_put(&g->seen, *key, 0);
  if (at == ANNB_NONE) return annb_fail_memory(err);
  *repeat = g->seen.entries[at].count++;
  if (*repeat == 0 || g->join->allow_duplicates) return ANNB_OK;
  bool fixed = g->lists[list].keys.column.kind == ANNB_COLUMN_FIXED;
  return annb_fail(err, g->wrong, NULL, "%s: the gene '%.*s' occurs more than once, so genes cannot be matched%s", text,
                   fixed               ? 1
                   : key->length > 200 ? 200
                                       : (int)key->length,
                   fixed ? "#" : (const char *)key->bytes,
                   g->join->stores ? ": stores whose genes have names that repeat are read together only when their lists are equal"
                                   : ": choose a column of var whose values differ (--join-key), or --allow-duplicate-genes, which "
                                     "matches the first with the first, the second with the second …");
}

static annb_status note_origin(genes *g, uint32_t number, uint32_t list, uint64_t row, annb_error *err) {
  if (number >= g->room) {
    uint32_t room = g->room ? 2 * g->room : 4096;
    uint32_t *lists = realloc(g->origin_list, room * sizeof *lists);
    if (lists) g->origin_list = lists;
    uint32_t *rows = lists ? realloc(g->origin_row, room * sizeof *rows) : NULL;
    if (!rows) return annb_fail_memory(err);
    g->origin_row = rows;
    g->room = room;
  }
  g->origin_list[number] = list;
  g->origin_row[number] = (uint32_t)row;
  return ANNB_OK;
}

/* Put the keys of a list into the table. */
static annb_status add_list(genes *g, uint32_t list, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < g->lists[list].keys.n; i++) {
    annb_key key;
    uint32_t repeat, before = g->table.n, number;
    s = next_key(g, list, i, &key, &repeat, err);
    if (s) break;
    number = annb_key_table_put(&g->table, key, repeat);
    if (number == ANNB_NONE) s = annb_fail_memory(err);
    else if (number == before) s = note_origin(g, number, list, i, err);
  }
  return s;
}

/* Count the keys of a list that are in the table. */
static annb_status count_list(genes *g, uint32_t list, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < g->lists[list].keys.n; i++) {
    annb_key key;
    uint32_t repeat, number;
    s = next_key(g, list, i, &key, &repeat, err);
    if (s) break;
    number = annb_key_table_get(&g->table, key, repeat);
    if (number != ANNB_NONE) g->table.entries[number].count++;
  }
  return s;
}

/* ---- genes that are equal, and those that are not ---- */

static bool all_match(const genes *g) {
  for (uint32_t i = g->first_new; i < g->n; i++)
    if (i != g->base && !annb_keys_equal(&g->lists[i].names, &g->lists[g->base].names)) return false;
  return true;
}

static annb_status refuse(const genes *g, annb_error *err) {
  char text[256], other[256];
  uint32_t i = g->first_new;
  while (i == g->base || annb_keys_equal(&g->lists[i].names, &g->lists[g->base].names)) i++;
  const annb_keys *a = &g->lists[i].names, *b = &g->lists[g->base].names;
  annb_key_table t = {NULL, NULL, 0, 0};
  uint64_t common = 0;
  bool ok = true;
  for (uint64_t k = 0; ok && k < b->n; k++) ok = annb_key_table_put(&t, annb_keys_at(b, k), 0) != ANNB_NONE;
  for (uint64_t k = 0; k < a->n; k++) {
    uint32_t at = annb_key_table_get(&t, annb_keys_at(a, k), 0);
    if (at != ANNB_NONE && !t.entries[at].count++) common++;
  }
  annb_key_table_free(&t);
  if (!ok) return annb_fail_memory(err);
  label(g, i, text);
  label(g, g->first_new ? g->n : g->base, other);
  const char *how = common == a->n && common == b->n ? "the same genes in another order" : "other genes";
  const char *inner = g->first_new ? "keep the genes of the store" : "keep the genes that all have";
  const char *option = g->join->stores ? "join " : "--join ";
  return annb_fail(
      err, g->wrong, NULL,
      "%s has %s than %s: %llu and %llu, of which %llu have the same name. Say how to join them: %sinner (%s) or %souter "
      "(keep all genes)%s",
      text, how, other, ULL(a->n), ULL(b->n), ULL(common), option, inner, option,
      g->join->stores ? "" : ", with --join-key COLUMN to match by a column of var instead of names");
}

/* An inner join of new files that leaves no gene. */
static annb_status refuse_nothing(const genes *g, annb_error *err) {
  char first[256], last[256], between[48] = "";
  label(g, 0, first);
  label(g, g->n - 1, last);
  if (g->n > 2) snprintf(between, sizeof between, ", %u other%s", g->n - 2, g->n > 3 ? "s" : "");
  return annb_fail(err, g->wrong, NULL, "no gene is in all of %s%s and %s, by %s%.200s: %s", first, between, last,
                   g->join->key ? "the column " : "name", g->join->key ? g->join->key : "",
                   g->join->stores ? "join outer keeps all genes"
                                   : "use --join outer, which keeps all genes, or match them by another column of var (--join-key)");
}

/* ---- the list of the store ---- */

static annb_status collect(genes *g, annb_error *err) {
  annb_status s = add_list(g, g->first_new ? g->base : 0, err);
  bool outer = g->join->how == ANNB_JOIN_OUTER;
  uint32_t n_base = g->table.n;
  for (uint32_t i = g->first_new ? g->first_new : 1; !s && i < g->n; i++) s = outer ? add_list(g, i, err) : count_list(g, i, err);
  if (s) return s;
  g->store_gene = malloc(((size_t)g->table.n + 1) * sizeof *g->store_gene);
  if (!g->store_gene) return annb_fail_memory(err);
  bool keep = outer || g->first_new;
  for (uint32_t i = 0; i < g->table.n; i++) g->store_gene[i] = keep || g->table.entries[i].count == g->n - 1 ? g->n_store++ : ANNB_NONE;
  return g->n_store == 0 && n_base ? refuse_nothing(g, err) : ANNB_OK;
}

/* The map of a part, in fresh memory; *same says that it maps each gene to itself. */
static annb_status make_map(genes *g, uint32_t part, uint32_t **out, bool *same, uint64_t *n_kept, annb_error *err) {
  uint64_t n = g->lists[part].keys.n;
  uint32_t *map = malloc(((size_t)n + 1) * sizeof *map);
  annb_status s = map ? ANNB_OK : annb_fail_memory(err);
  *same = n == g->n_store;
  *n_kept = 0;
  for (uint64_t i = 0; !s && i < n; i++) {
    annb_key key;
    uint32_t repeat, number;
    s = next_key(g, part, i, &key, &repeat, err);
    if (s) break;
    number = annb_key_table_get(&g->table, key, repeat);
    map[i] = number == ANNB_NONE ? ANNB_NONE : g->store_gene[number];
    *same = *same && map[i] == i;
    *n_kept += map[i] != ANNB_NONE;
  }
  if (s) free(map);
  else *out = map;
  return s;
}

static annb_status set_map(genes *g, uint32_t part, bool *same, annb_error *err) {
  uint32_t *map;
  uint64_t n_kept;
  char text[256];
  annb_status s = make_map(g, part, &map, same, &n_kept, err);
  if (s) return s;
  annb_fmt_part *p = &g->draft->parts[part];
  p->gene_map = ANNB_NONE;
  if (g->target && !*same) s = annb_join_write_array(g->target, g->draft, "gene_map", ANNB_U32, map, p->n_vars, &p->gene_map, err);
  free(map);
  label(g, part, text);
  if (!s && g->target && part >= g->first_new && n_kept < p->n_vars)
    annb_join_note(g->join, "%s: %llu of its %llu genes are not among the store's and are left out of what readers get", text,
                   ULL(p->n_vars - n_kept), ULL(p->n_vars));
  if (!s && g->target && part >= g->first_new && n_kept < g->n_store)
    annb_join_note(g->join, "%s has no values for %llu of the store's %llu genes: they are zero in its cells", text,
                   ULL(g->n_store - n_kept), ULL(g->n_store));
  return s;
}

/* ---- the list as an object of its own ---- */

static annb_status write_strings(const genes *g, annb_arrays_writer *w, const char *name, uint8_t flags, bool keys, annb_error *err) {
  annb_string_writer *strings;
  annb_column_spec spec = {.name = name,
                           .length = g->n_store,
                           .axis = ANNB_AXIS_VAR,
                           .kind = ANNB_COLUMN_STRING,
                           .flags = flags,
                           .values = ANNB_NONE,
                           .bytes = ANNB_NONE,
                           .mask = ANNB_NONE,
                           .categories = ANNB_NONE};
  uint32_t column;
  annb_status s = annb_strings_begin(w, &strings, err);
  for (uint32_t i = 0; !s && i < g->table.n; i++) {
    if (g->store_gene[i] == ANNB_NONE) continue;
    const gene_list *from = &g->lists[g->origin_list[i]];
    annb_key text = annb_keys_at(keys ? &from->keys : &from->names, g->origin_row[i]);
    if ((keys ? &from->keys : &from->names)->column.kind == ANNB_COLUMN_FIXED)
      return annb_fail(err, ANNB_EUNSUPPORTED, NULL, "genes whose names are numbers cannot be joined");
    s = annb_strings_append(strings, text.bytes ? (const char *)text.bytes : "", text.length, err);
  }
  if (!s) s = annb_strings_end(strings, &spec.values, &spec.bytes, err);
  return s ? s : annb_arrays_add_column(w, &spec, &column, err);
}

static annb_status write_list(genes *g, annb_error *err) {
  annb_arrays_writer *w;
  annb_keys *first = &g->lists[g->base].names;
  char *name = annb_join_column_name(first->arrays, &first->column);
  if (!name) return annb_fail_memory(err);
  annb_status s = annb_join_writer_open(g->target, &w, err);
  if (!s) {
    s = write_strings(g, w, name, ANNB_COLUMN_INDEX, false, err);
    if (!s && g->join->key) s = write_strings(g, w, g->join->key, 0, true, err);
    if (s) annb_arrays_writer_abort(w);
    else s = annb_join_writer_close(g->target, w, g->draft, &g->draft->store.var_object, err);
  }
  free(name);
  g->draft->store.var_part = ANNB_NONE;
  return s;
}

/* ---- all of it ---- */

static annb_status join(genes *g, annb_error *err) {
  uint64_t n_before = g->lists[g->base].keys.n;
  annb_status s = collect(g, err);
  bool changed = !g->first_new || (!s && g->n_store != n_before), same = false;
  uint32_t var_part = ANNB_NONE;
  for (uint32_t i = changed ? 0 : g->first_new; !s && i < g->n; i++) {
    s = set_map(g, i, &same, err);
    if (same && var_part == ANNB_NONE) var_part = i;
  }
  if (s || !g->target) return s;
  g->draft->store.n_vars = g->n_store;
  if (!changed) return ANNB_OK;
  g->draft->store.var_part = var_part;
  g->draft->store.var_object = ANNB_NONE;
  return var_part == ANNB_NONE ? write_list(g, err) : ANNB_OK;
}

annb_status annb_join_genes(const annb_join *how, const annb_join_target *target, const annb_join_files *files, uint32_t first_new,
                            annb_manifest *draft, annb_error *err) {
  genes g = {.join = how, .target = target, .draft = draft, .n = files->n, .first_new = first_new};
  g.wrong = how->stores ? ANNB_EINVAL : ANNB_EINPUT;
  annb_status s = open_lists(&g, files, err);
  if (!s && !all_match(&g)) {
    s = how->how == ANNB_JOIN_NONE ? refuse(&g, err) : join(&g, err);
  } else if (!s && !first_new) {
    draft->store.var_part = 0;
    draft->store.n_vars = draft->parts[0].n_vars;
  }
  close_genes(&g);
  return s;
}
