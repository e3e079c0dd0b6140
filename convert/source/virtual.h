/* Datasets whose values are elsewhere: virtual ones, which are views of other datasets, and those with raw external storage. */
#ifndef ANNB_CONVERT_VIRTUAL_H
#define ANNB_CONVERT_VIRTUAL_H

#include <annblock/status.h>
#include <hdf5.h>

/* Every source of `dataset`, if it is virtual, is there: HDF5 delivers fill values for one that is missing, without a word. `creation` is
 * its creation property list. ANNB_EINPUT names what is missing. Sources named by a pattern are not looked for: they may be any number. */
annb_status annb_virtual_check(hid_t dataset, const char *file, const char *object, hid_t creation, annb_error *err);

/* Every file with the raw values of a dataset, if they are in files of their own, is there, else ANNB_EINPUT names what is missing. */
annb_status annb_external_check(const char *file, const char *object, hid_t creation, annb_error *err);

#endif
