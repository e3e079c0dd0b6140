/* A run of packing, in the process of the caller. */
#ifndef ANNB_CONVERT_PACK_H
#define ANNB_CONVERT_PACK_H

#include <annblock/convert.h>

/* As annb_pack_many, or annb_append. */
annb_status annb_pack_files(const char *const *inputs, size_t n, const char *output, bool append, const annb_pack_options *options,
                            annb_pack_result *result, annb_error *err);

#endif
