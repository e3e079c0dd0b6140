/* HDF5 filters that files need and that are not there, and folders with plugins. */
#ifndef ANNB_CONVERT_PLUGINS_H
#define ANNB_CONVERT_PLUGINS_H

#include <annblock/status.h>
#include <stdbool.h>

/* Does some dataset of the HDF5 file need a filter that HDF5 does not find? False too when the file cannot be read. */
bool annb_plugins_missing(const char *path);
/* Look for plugins in `folder` first (HDF5 gives up its search at a folder that is not there), for the rest of the process. */
bool annb_plugins_add(const char *folder);

/* ANNB_EUNSUPPORTED: "<file>: <object>: needs the HDF5 filter …", its name, its number, and how to get it. `name_in_file` may be empty. */
annb_status annb_plugins_fail(const char *file, const char *object, int filter, const char *name_in_file, annb_error *err);

#endif
