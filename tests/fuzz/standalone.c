/* Drives a record fuzz target without libFuzzer: valid records of many kinds with random changes. Arguments: number of inputs, seed, and
 * the codec of the records (plain, lz4, count, dict), without which they are of all. */
#include "../../store/codec/codec.h"

#include <annblock/annblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NNZ = 1024, HEAD = 8, ROOM = 16384, CHANGES = 200 /* inputs from one record */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t next(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* A row that some codec takes, with its head for the target; returns the whole size. */
static size_t make_input(uint64_t *state, const char *codec, annb_scratch *scratch, uint8_t *input) {
  static const uint32_t columns[] = {1000, 40, 300, 30000, 65534, 65535, 65536, 2147483647};
  static uint32_t ids[MAX_NNZ];
  static uint8_t values[8 * MAX_NNZ];
  uint8_t which = next(state) % 3 ? 0 : (uint8_t)(next(state) % 8), dtype = next(state) % 2 ? 11 : (uint8_t)(1 + next(state) % 12);
  annb_row_shape shape = {columns[which], 1, (annb_dtype)dtype};
  uint32_t most = shape.n_cols < MAX_NNZ ? (uint32_t)shape.n_cols : MAX_NNZ, spread = (uint32_t)(next(state) % 5),
           vw = annb_dtype_size(shape.dtype);
  uint64_t id = next(state) % 3;
  shape.nnz = (uint32_t)(1 + next(state) % most);
  bool repeat = next(state) % 8 == 0;
  for (uint32_t i = 0; i < shape.nnz; i++) {
    uint64_t left = shape.n_cols - 1 - (shape.nnz - i - 1),
             step = next(state) % 4 ? next(state) & ((1u << spread) - 1) : next(state) % (1 + shape.n_cols / shape.nnz);
    id += (i && !repeat) + step;
    if (id > left) id = left;
    ids[i] = (uint32_t)id;
    uint64_t bits = next(state) % 8 ? next(state) % 3 : next(state) % (UINT64_C(1) << next(state) % 20);
    float whole = (float)bits;
    double wide = (double)bits;
    if (shape.dtype == ANNB_F32) memcpy(values + i * vw, &whole, vw);
    else if (shape.dtype == ANNB_F64) memcpy(values + i * vw, &wide, vw);
    else memcpy(values + i * vw, &bits, vw);
    if (repeat && i && ids[i] < ids[i - 1]) ids[i] = ids[i - 1];
  }
  size_t n, length = 0;
  const annb_codec *codecs = annb_codecs(&n);
  for (int tries = 0; tries < 16 && length == 0; tries++) {
    const annb_codec *c = &codecs[next(state) % n];
    if (!codec || !strcmp(c->name, codec)) length = c->encode(&shape, ids, values, input + HEAD, ROOM - HEAD, scratch);
  }
  uint16_t nnz = (uint16_t)(shape.nnz - 1);
  memset(input, 0, HEAD);
  memcpy(input, &nnz, 2);
  input[2] = which;
  input[3] = (uint8_t)(dtype - 1);
  return HEAD + length;
}

/* A few bytes changed, added or taken away. */
static size_t change(uint64_t *state, uint8_t *input, size_t size) {
  size_t body = size - HEAD;
  input[4] = (uint8_t)next(state);
  for (uint64_t n = next(state) % 4; n > 0 && body > 0; n--) {
    size_t near = next(state) % 2 ? 16 : body, at = HEAD + next(state) % (near < body ? near : body);
    if (next(state) % 2) input[at] ^= (uint8_t)(1u << next(state) % 8);
    else input[at] = (uint8_t)next(state);
  }
  uint64_t kind = next(state) % 16;
  if (kind == 0 && body > 0) return HEAD + next(state) % body;
  if (kind == 1) {
    for (size_t i = 0; i < 9; i++) input[size + i] = (uint8_t)(next(state) & next(state));
    return size + next(state) % 9;
  }
  if (kind == 2) input[0] = (uint8_t)next(state);
  return size;
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  const char *codec = argc > 3 ? argv[3] : NULL;
  annb_scratch scratch = {.kernel = NULL};
  static uint8_t input[ROOM + 16], changed[ROOM + 16];
  size_t size = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (i % CHANGES == 0) {
      size = make_input(&state, codec, &scratch, input);
      LLVMFuzzerTestOneInput(input, size);
    }
    memcpy(changed, input, size);
    LLVMFuzzerTestOneInput(changed, change(&state, changed, size));
  }
  annb_scratch_free(&scratch);
  printf("%llu inputs%s%s\n", (unsigned long long)n, codec ? " of codec " : "", codec ? codec : "");
  return 0;
}
