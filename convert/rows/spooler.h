/* Blocks appended to an anonymous temporary file by a thread of its own. */
#ifndef ANNB_CONVERT_SPOOLER_H
#define ANNB_CONVERT_SPOOLER_H

#include <annblock/status.h>
#include <stddef.h>
#include <stdint.h>

enum { ANNB_SPOOLER_SPARES = 8 };

typedef struct annb_spooler annb_spooler;

/* The file is made in the directory `dir` when the first block is written. */
annb_status annb_spooler_open(const char *dir, annb_spooler **out, annb_error *err);
void annb_spooler_close(annb_spooler *spooler); /* NULL is allowed; what waits is given up, the file is gone */

/* Blocks to hand out instead of those that are being written: up to ANNB_SPOOLER_SPARES, which the caller keeps alive until wait. Those of
 * before are forgotten. Nothing may be waiting. */
void annb_spooler_set_spares(annb_spooler *spooler, uint8_t *const *spares, size_t n);
/* Write block[0 … bytes) to the end of the file, at *offset, some time before wait returns; *block becomes another one to go on with. */
annb_status annb_spooler_write(annb_spooler *spooler, uint8_t **block, size_t bytes, uint64_t *offset, annb_error *err);
/* Until all is written. */
annb_status annb_spooler_wait(annb_spooler *spooler, annb_error *err);
/* Bytes that were written before the last wait. */
annb_status annb_spooler_read(const annb_spooler *spooler, void *out, size_t bytes, uint64_t offset, annb_error *err);

#endif
