#include "graph.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CACHE (UINT64_C(1) << 20) /* HDF5's own, of chunks */
#define MAX_CACHE (UINT64_C(256) << 20)

void annb_graph_free(annb_graph *graph) {
  for (uint32_t i = 0; i < graph->n; i++) free(graph->nodes[i].name);
  free(graph->nodes);
  free(graph->slots);
  *graph = (annb_graph){0};
}

static uint32_t *slot_of(const annb_graph *graph, unsigned long fileno, haddr_t addr) {
  uint64_t hash = ((uint64_t)addr + fileno * UINT64_C(0xC2B2AE3D27D4EB4F)) * UINT64_C(0x9E3779B97F4A7C15);
  uint32_t mask = graph->n_slots - 1, at = (uint32_t)(hash >> 32) & mask;
  for (;; at = (at + 1) & mask) {
    uint32_t i = graph->slots[at];
    if (i == ANNB_NONE || (graph->nodes[i].addr == addr && graph->nodes[i].fileno == fileno)) return &graph->slots[at];
  }
}

uint32_t annb_graph_find(const annb_graph *graph, unsigned long fileno, haddr_t addr) {
  return graph->n_slots ? *slot_of(graph, fileno, addr) : ANNB_NONE;
}

static bool grow(annb_graph *graph) {
  if (graph->n == graph->room) {
    uint32_t room = graph->room ? 2 * graph->room : 64;
    annb_node *nodes = realloc(graph->nodes, room * sizeof *nodes);
    if (!nodes) return false;
    graph->nodes = nodes;
    graph->room = room;
  }
  if (2 * (graph->n + 1) <= graph->n_slots) return true;
  uint32_t n_slots = graph->n_slots ? 2 * graph->n_slots : 128;
  uint32_t *slots = malloc(n_slots * sizeof *slots);
  if (!slots) return false;
  memset(slots, 0xFF, n_slots * sizeof *slots);
  free(graph->slots);
  graph->slots = slots;
  graph->n_slots = n_slots;
  for (uint32_t i = 0; i < graph->n; i++) *slot_of(graph, graph->nodes[i].fileno, graph->nodes[i].addr) = i;
  return true;
}

annb_status annb_graph_add(annb_graph *graph, unsigned long fileno, haddr_t addr, uint32_t parent, const char *name, uint32_t *node,
                           annb_error *err) {
  uint32_t depth = parent == ANNB_NONE ? 0 : graph->nodes[parent].depth + 1;
  if (depth > ANNB_MAX_DEPTH) return annb_fail(err, ANNB_EUNSUPPORTED, NULL, "groups are nested more than %u deep", ANNB_MAX_DEPTH);
  if (graph->n >= UINT32_C(1) << 28) return annb_fail(err, ANNB_EUNSUPPORTED, NULL, "there are more than 2^28 objects");
  char *copy = name ? strdup(name) : NULL;
  if ((name && !copy) || !grow(graph)) {
    free(copy);
    return annb_fail_memory(err);
  }
  *node = graph->n++;
  graph->nodes[*node] = (annb_node){fileno, addr, HADDR_UNDEF, 0, parent, depth, copy};
  *slot_of(graph, fileno, addr) = *node;
  return ANNB_OK;
}

char *annb_graph_path(const annb_graph *graph, uint32_t node, const char *name) {
  size_t size = name ? strlen(name) + 1 : 0;
  for (uint32_t i = node; i != ANNB_NONE && graph->nodes[i].parent != ANNB_NONE; i = graph->nodes[i].parent)
    size += 1 + (graph->nodes[i].name ? strlen(graph->nodes[i].name) : 0);
  char *path = malloc((size ? size : 1) + 1);
  if (!path) return NULL;
  char *end = path + (size ? size : 1);
  *end = 0;
  if (!size) path[0] = '/';
  if (name) {
    end -= strlen(name);
    memcpy(end, name, strlen(name));
    *--end = '/';
  }
  for (uint32_t i = node; size && i != ANNB_NONE && graph->nodes[i].parent != ANNB_NONE; i = graph->nodes[i].parent) {
    size_t n = graph->nodes[i].name ? strlen(graph->nodes[i].name) : 0;
    end -= n;
    if (n) memcpy(end, graph->nodes[i].name, n);
    *--end = '/';
  }
  return path;
}

void annb_links_free(annb_links *links) {
  for (size_t i = 0; i < links->n; i++) {
    free(links->rows[i].name);
    free(links->rows[i].target);
    free(links->rows[i].file);
  }
  free(links->rows);
  *links = (annb_links){0};
}

static annb_link *add(annb_links *links, const char *name) {
  if (links->n == links->room) {
    size_t room = links->room ? 2 * links->room : 16;
    annb_link *rows = realloc(links->rows, room * sizeof *rows);
    if (!rows) return NULL;
    links->rows = rows;
    links->room = room;
  }
  char *copy = strdup(name);
  if (!copy) return NULL;
  annb_link *link = &links->rows[links->n++];
  *link = (annb_link){.name = copy};
  return link;
}

static bool read_value(hid_t group, const char *name, size_t size, annb_link *link) {
  char *value = calloc(1, size + 1);
  bool ok = value && H5Lget_val(group, name, value, size, H5P_DEFAULT) >= 0;
  if (ok && link->type == H5L_TYPE_SOFT) {
    ok = (link->target = strdup(value)) != NULL;
  } else if (ok) {
    const char *file = NULL, *target = NULL;
    ok = H5Lunpack_elink_val(value, size, NULL, &file, &target) >= 0 && (link->file = strdup(file)) && (link->target = strdup(target));
  }
  free(value);
  return ok;
}

static herr_t on_link(hid_t group, const char *name, const H5L_info_t *info, void *user) {
  annb_link *link = add(user, name);
  if (!link) return -1;
  link->type = info->type;
  link->cset = info->cset;
  if (info->type == H5L_TYPE_SOFT || info->type == H5L_TYPE_EXTERNAL) return read_value(group, name, info->u.val_size, link) ? 0 : -1;
  return 0;
}

annb_status annb_links_read(hid_t group, bool by_name, const char *file, const char *object, annb_links *out, annb_error *err) {
  *out = (annb_links){0};
  hid_t properties = H5Gget_create_plist(group);
  unsigned flags = 0;
  if (properties < 0 || H5Pget_link_creation_order(properties, &flags) < 0) flags = 0;
  annb_h5_close(&properties);
  out->tracked = flags & H5P_CRT_ORDER_TRACKED;
  H5_index_t index = out->tracked && !by_name ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  if (H5Literate(group, index, H5_ITER_INC, NULL, on_link, out) >= 0) return ANNB_OK;
  annb_links_free(out);
  return annb_h5_fail(err, ANNB_EINPUT, file, object, "the links of the group cannot be read");
}

static herr_t on_attr(hid_t object, const char *name, const H5A_info_t *info, void *user) {
  (void)object;
  (void)info;
  return add(user, name) ? 0 : -1;
}

/* Creation properties of an open group, dataset or committed datatype. */
static hid_t creation(hid_t object) {
  switch (H5Iget_type(object)) {
    case H5I_GROUP: return H5Gget_create_plist(object);
    case H5I_DATASET: return H5Dget_create_plist(object);
    case H5I_DATATYPE: return H5Tget_create_plist(object);
    default: return -1;
  }
}

annb_status annb_attrs_read(hid_t object, bool by_name, const char *file, const char *path, annb_links *out, annb_error *err) {
  *out = (annb_links){0};
  hid_t properties = creation(object);
  unsigned flags = 0;
  if (properties < 0 || H5Pget_attr_creation_order(properties, &flags) < 0) flags = 0;
  annb_h5_close(&properties);
  out->tracked = flags & H5P_CRT_ORDER_TRACKED;
  H5_index_t index = out->tracked && !by_name ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  if (H5Aiterate2(object, index, H5_ITER_INC, NULL, on_attr, out) >= 0) return ANNB_OK;
  annb_links_free(out);
  return annb_h5_fail(err, ANNB_EINPUT, file, path, "its attributes cannot be listed");
}

/* Bytes of one chunk; 0 when there are no chunks. */
static uint64_t chunk_bytes(hid_t dataset, hid_t properties) {
  hsize_t chunk[32];
  int rank = H5Pget_layout(properties) == H5D_CHUNKED ? H5Pget_chunk(properties, 32, chunk) : 0;
  if (rank <= 0) return 0;
  hid_t type = H5Dget_type(dataset);
  uint64_t bytes = H5Tget_size(type);
  annb_h5_close(&type);
  for (int i = 0; i < rank; i++)
    if (!annb_mul(bytes, chunk[i], &bytes)) return UINT64_MAX;
  return bytes;
}

hid_t annb_h5_open_dataset(hid_t group, const char *name) {
  hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT), properties = dataset < 0 ? -1 : H5Dget_create_plist(dataset);
  if (properties < 0) return dataset;
  bool external = H5Pget_layout(properties) == H5D_CONTIGUOUS && H5Pget_external_count(properties) > 0;
  uint64_t chunk = chunk_bytes(dataset, properties);
  annb_h5_close(&properties);
  if (!external && (chunk <= DEFAULT_CACHE || chunk > MAX_CACHE)) return dataset;
  annb_h5_close(&dataset);
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  if (external) H5Pset_efile_prefix(access, "${ORIGIN}");
  else H5Pset_chunk_cache(access, 521, chunk, 1.0);
  dataset = H5Dopen2(group, name, access);
  annb_h5_close(&access);
  /* open elsewhere already, without the prefix */
  return dataset >= 0 ? dataset : H5Dopen2(group, name, H5P_DEFAULT);
}
