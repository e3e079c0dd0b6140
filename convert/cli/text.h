/* Text for people: numbers, sizes, strings from files made safe for a terminal, aligned tables. All strings are fresh memory. */
#ifndef ANNB_CLI_TEXT_H
#define ANNB_CLI_TEXT_H

#include <annblock/format.h>
#include <stdbool.h>
#include <stdio.h>

char *cli_count(uint64_t n);                /* 1,234,567 */
char *cli_bytes(double n);                  /* 1.2 MiB */
char *cli_duration(double seconds);         /* 0.42 s, 3:07, 1:02:03 */
char *cli_hex(const uint8_t *bytes, int n); /* 0a1b… */

/* UTF-8 as it is; control characters and bytes that are not UTF-8 as \xNN. */
char *cli_safe(const char *bytes, uint64_t length);
/* UTF-8 with every wrong byte replaced by U+FFFD, for JSON. */
char *cli_utf8(const char *bytes, uint64_t length);

/* One value of a dtype: integers exactly, floats with the fewest digits that give the same bits back. */
char *cli_value(annb_dtype dtype, const void *value);

/* Rows of cells, columns separated by two spaces. `align` has one letter per column: l or r. */
typedef struct cli_table {
  const char *align;
  char **cells;
  size_t n;
} cli_table;
void cli_table_add(cli_table *table, char *cell);  /* takes the cell over */
void cli_table_print(cli_table *table, FILE *out); /* frees the cells too */

#endif
