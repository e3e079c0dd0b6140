/* Draws by weight with locality (annblock/sampler.h, WEIGHTED). */
#ifndef ANNB_SAMPLER_WEIGHTS_H
#define ANNB_SAMPLER_WEIGHTS_H

#include <annblock/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct annb_weights annb_weights;

/* Weights of n members, by `weights` or, when that is NULL, by `codes`. Both are copied. */
annb_status annb_weights_open(const double *weights, const int32_t *codes, uint64_t n, uint64_t block_size, annb_weights **out,
                              annb_error *err);
void annb_weights_close(annb_weights *weights); /* NULL is allowed */
/* The member at position x, `key` that of slot x / annb_weights_slot. */
uint64_t annb_weights_draw(const annb_weights *weights, uint64_t key, uint64_t x);
uint64_t annb_weights_slot(const annb_weights *weights); /* g */
uint64_t annb_weights_hash(const annb_weights *weights);
uint64_t annb_weights_bytes(const annb_weights *weights);

#endif
