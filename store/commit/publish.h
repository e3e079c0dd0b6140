/* Giving finished files their final names (SPEC.md, section 7, steps 3 and 5). */
#ifndef ANNB_STORE_PUBLISH_H
#define ANNB_STORE_PUBLISH_H

#include <annblock/format.h>
#include <annblock/status.h>
#include <stdbool.h>

/* Name `source` as `object` in the directory `store`; *linked says whether the name was made here. A file that has the name already
 * must have the same content (ANNB_ECORRUPT), as far as size and trailer show. */
annb_status annb_publish_object(const char *store, const char *source, const annb_fmt_object *object, bool *linked, annb_error *err);

/* Name the manifest `source` as `target`. ANNB_EEXIST when another file has that name, whatever it holds. */
annb_status annb_publish_manifest(const char *source, const char *target, annb_error *err);

#endif
