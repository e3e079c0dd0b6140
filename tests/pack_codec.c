/* Pack with some codecs only, which the command does not offer: pack_codec INPUT STORE MASK [MATRIX…], bit i of MASK allows codec i. */
#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  annb_error error;
  char *end;
  if (argc < 4) return 2;
  annb_pack_options options = {.n_threads = 1, .codecs = strtoull(argv[3], &end, 0)};
  options.n_matrices = (size_t)argc - 4;
  if (argc > 4) options.matrices = (const char *const *)(argv + 4);
  if (*end || !options.codecs) return 2;
  if (!annb_pack(argv[1], argv[2], &options, NULL, &error)) return 0;
  fprintf(stderr, "pack_codec: %s\n", error.message);
  return 1;
}
