#include "plugins.h"

#include "../guard/guard.h"
#include "h5.h"

#include <stdlib.h>
#include <string.h>

/* The filters of the Python package hdf5plugin. */
static const struct {
  int filter;
  const char *name;
} in_wheel[] = {{307, "bzip2"}, {32001, "blosc"},     {32004, "lz4"}, {32008, "bitshuffle"}, {32013, "zfp"},  {32015, "zstd"},
                {32017, "sz"},  {32018, "fcidecomp"}, {32024, "sz3"}, {32026, "blosc2"},     {32028, "sperr"}};

annb_status annb_plugins_fail(const char *file, const char *object, int filter, const char *name_in_file, annb_error *err) {
  for (size_t i = 0; i < sizeof in_wheel / sizeof *in_wheel; i++)
    if (in_wheel[i].filter == filter)
      return annb_h5_fail(err, ANNB_EUNSUPPORTED, file, object,
                          "needs the HDF5 filter %s (number %d), which is not here. Install it with `pip install hdf5plugin`: the command "
                          "annblock finds it in the package of the first python3; else name its plugins folder in HDF5_PLUGIN_PATH",
                          in_wheel[i].name, filter);
  return annb_h5_fail(
      err, ANNB_EUNSUPPORTED, file, object,
      "needs the HDF5 filter %s (number %d), which is not here: name the folder of its plugin in HDF5_PLUGIN_PATH, or write the "
      "file again with gzip",
      filter == H5Z_FILTER_SZIP       ? "szip"
      : name_in_file && *name_in_file ? name_in_file
                                      : "without a name",
      filter);
}

static bool lacks_filter(hid_t dataset) {
  hid_t creation = H5Dget_create_plist(dataset);
  int n = H5Pget_nfilters(creation);
  bool lacks = false;
  for (int i = 0; i < n && !lacks; i++) {
    unsigned flags, config;
    size_t n_values = 0;
    char name[8];
    lacks = H5Zfilter_avail(H5Pget_filter2(creation, (unsigned)i, &flags, &n_values, NULL, sizeof name, name, &config)) <= 0;
  }
  annb_h5_close(&creation);
  return lacks;
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *info, void *found) {
  hid_t dataset = info->type == H5O_TYPE_DATASET ? H5Dopen2(root, name, H5P_DEFAULT) : -1;
  if (dataset < 0) return 0;
  bool *missing = found;
  *missing = lacks_filter(dataset);
  annb_h5_close(&dataset);
  return *missing;
}

static annb_status look(void *path, annb_guard *guard, void *missing, annb_error *err) {
  hid_t file = -1;
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_status s = annb_h5_open(path, &file, err);
  if (!s) H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, missing, H5O_INFO_BASIC);
  (void)guard;
  annb_h5_close(&file);
  H5Eclear2(H5E_DEFAULT);
  annb_h5_quiet_end(quiet);
  return s;
}

bool annb_plugins_missing(const char *path) {
  bool missing = false;
  char *name = strdup(path);
  const annb_guarded what = {.work = look, .arg = name, .result = &missing, .result_size = sizeof missing};
  const bool read = name && !annb_guard_run(&what, NULL);
  free(name);
  return read && missing;
}

bool annb_plugins_add(const char *folder) {
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  bool added = H5PLprepend(folder) >= 0;
  annb_h5_quiet_end(quiet);
  return added;
}
