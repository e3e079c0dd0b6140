#include "filters.h"

#include "../../store/io.h"
#include "../source/plugins.h"
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the package is, without importing it. */
#define ASK                                                                                                                                \
  "python3 -c 'import importlib.util as u; s = u.find_spec(\"hdf5plugin\"); print(s.submodule_search_locations[0])' 2>/dev/null "          \
  "</dev/null"

static void add_wheel(void) {
  char folder[4096] = "";
  FILE *python = popen(ASK, "r");
  if (!python) return;
  bool told = fgets(folder, sizeof folder, python) != NULL;
  if (pclose(python) || !told) return;
  folder[strcspn(folder, "\n")] = 0;
  char *plugins = cli_format("%s/plugins", folder);
  annb_plugins_add(plugins);
  free(plugins);
}

static bool is_hdf5_name(const char *name) {
  const char *end = strrchr(name, '.');
  return end && (!strcmp(end, ".h5ad") || !strcmp(end, ".h5"));
}

static bool missing_in_store(const char *path) {
  char *objects = annb_io_join(path, "objects"), **names = NULL;
  size_t n = 0;
  bool missing = false;
  if (objects && !annb_io_list(objects, &names, &n, NULL)) {
    for (size_t i = 0; i < n && !missing; i++) {
      char *file = is_hdf5_name(names[i]) ? annb_io_join(objects, names[i]) : NULL;
      missing = file && annb_plugins_missing(file);
      free(file);
    }
    annb_io_free_names(names, n);
  }
  free(objects);
  return missing;
}

void cli_find_filters(const char *path) {
  annb_path_kind kind;
  if (annb_io_kind(path, &kind, NULL)) return;
  if (kind == ANNB_PATH_FILE ? annb_plugins_missing(path) : kind == ANNB_PATH_DIR && missing_in_store(path)) add_wheel();
}
