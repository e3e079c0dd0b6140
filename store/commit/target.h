/* Whether a directory may become a store: it holds nothing but what an unfinished one does. */
#ifndef ANNB_STORE_TARGET_H
#define ANNB_STORE_TARGET_H

#include <annblock/status.h>

typedef enum annb_target_dir { ANNB_TARGET_STORE, ANNB_TARGET_OBJECTS, ANNB_TARGET_MANIFESTS } annb_target_dir;

/* ANNB_EEXIST when `dir` holds a name that is not one of that kind of directory. A directory that is missing holds none. */
annb_status annb_target_check_names(const char *dir, annb_target_dir kind, annb_error *err);

/* ANNB_EINVAL when `path`, which need not exist, lies in a store at any depth: what is in there would be taken for the store's. */
annb_status annb_target_check_outside(const char *path, annb_error *err);

#endif
