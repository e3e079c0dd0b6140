/* Values from one dtype to another.
 *
 * A value is exact when the target holds the same number; NaN counts as exact between floating-point types, −0.0 as 0 in integers, any
 * byte but 0 of a bool as 1. With `allow_lossy` what does not fit is converted as C does, after clamping to the range of the target:
 * fractions are cut, NaN becomes 0 in integers, finite values stay finite, anything but 0 becomes 1 in bool. */
#ifndef ANNB_READER_CONVERT_VALUES_H
#define ANNB_READER_CONVERT_VALUES_H

#include <annblock/format.h>
#include <stdbool.h>
#include <stddef.h>

/* Convert `n` values; any alignment, no overlap; equal dtypes are copied bit by bit. False when a value is not exact and lossy results
 * are not allowed: `bad` is the first of them, `out` is then undefined. */
bool annb_convert_values(annb_dtype from, annb_dtype to, bool allow_lossy, const void *in, size_t n, void *out, size_t *bad);

/* The smallest dtype that holds every value of both exactly, 0 when there is none: widths of one kind join, unsigned integers fit into
 * wider signed ones, integers of up to 16 bits into f32 and of up to 32 bits into f64. Bool joins with bool alone. */
annb_dtype annb_common_dtype(annb_dtype a, annb_dtype b);

/* *sum += *value in arithmetic of `dtype`: integers wrap, bool is "or". Any alignment. */
void annb_add_value(annb_dtype dtype, void *sum, const void *value);

/* The value for a person. */
void annb_value_text(annb_dtype dtype, const void *value, char text[32]);

#endif
