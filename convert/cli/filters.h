/* HDF5 filters of the Python package hdf5plugin, for files that need one. */
#ifndef ANNB_CLI_FILTERS_H
#define ANNB_CLI_FILTERS_H

/* When the HDF5 file `path`, or one in the store `path`, needs a filter that is not there: look into the plugins folder of hdf5plugin, if
 * python3 has it. What is still missing then is an error of the command that reads. */
void cli_find_filters(const char *path);

#endif
