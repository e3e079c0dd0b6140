/* annblock: an immutable, block-aligned store for AnnData matrices. This header brings in the whole store and reader API;
 * the converter, which needs HDF5, is in <annblock/convert.h>. */
#ifndef ANNBLOCK_ANNBLOCK_H
#define ANNBLOCK_ANNBLOCK_H

#include <annblock/format.h>
#include <annblock/loader.h>
#include <annblock/reader.h>
#include <annblock/sampler.h>
#include <annblock/status.h>
#include <annblock/store.h>
#include <annblock/where.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": the version of the library. */
const char *annb_version(void);

/* Bytes of one value of `dtype`, or 0 when it is not a dtype; its name ("f32"), or NULL. */
uint32_t annb_dtype_size(annb_dtype dtype);
const char *annb_dtype_name(annb_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
