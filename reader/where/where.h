/* Inside of annb_where: text → tree (where_lex.c, where_parse.c) → tests on one part's columns (where_bind.c, where_number.c) → bits
 * (where_eval.c). where.c joins them. */
#ifndef ANNB_READER_WHERE_H
#define ANNB_READER_WHERE_H

#include <annblock/format.h>
#include <annblock/where.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- the tree ---- */

typedef enum annb_where_kind { ANNB_WHERE_NUMBER, ANNB_WHERE_STRING, ANNB_WHERE_BOOL } annb_where_kind;

/* A literal. Numbers stay text: what they are is decided by the column that they meet. */
typedef struct annb_where_value {
  annb_where_kind kind;
  const char *bytes; /* number, string */
  size_t length, at; /* at: offset in the predicate */
  bool truth;
} annb_where_value;

typedef enum annb_where_op { ANNB_WHERE_AND, ANNB_WHERE_OR, ANNB_WHERE_NOT, ANNB_WHERE_TEST } annb_where_op;
/* SET: equal to one of the values. TRUTH: a column of booleans by itself. */
typedef enum annb_where_test {
  ANNB_WHERE_SET,
  ANNB_WHERE_LESS,
  ANNB_WHERE_LESS_EQUAL,
  ANNB_WHERE_GREATER,
  ANNB_WHERE_GREATER_EQUAL,
  ANNB_WHERE_NULL,
  ANNB_WHERE_TRUTH
} annb_where_test;

typedef struct annb_where_node {
  annb_where_op op;
  uint32_t child, next; /* first child; next child of the same parent; or ANNB_NONE */
  /* of a test */
  annb_where_test test;
  bool negate;        /* !=, not in, is not null */
  bool is_index;      /* of obs; else the column `name` */
  const char *name;
  size_t at;          /* of the column */
  uint32_t value, n_values;
  uint32_t number;    /* counts the tests */
} annb_where_node;

typedef struct annb_where_tree {
  const char *text;
  annb_where_node *nodes;
  annb_where_value *values;
  char *strings; /* names and strings, without quotes and escapes */
  size_t strings_used;
  uint32_t n_nodes, nodes_room, n_values, values_room, n_tests, root;
} annb_where_tree;

/* `tree` is zeroed before; free it in any case. */
annb_status annb_where_parse(const char *text, annb_where_tree *tree, annb_error *err);
void annb_where_tree_free(annb_where_tree *tree);

/* "the predicate is wrong at character N: …"; `at` is an offset in the text. */
annb_status annb_where_fail(annb_error *err, annb_status status, const char *text, size_t at, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- tokens ---- */

typedef enum annb_where_token_kind {
  ANNB_TOKEN_END,
  ANNB_TOKEN_NAME,   /* a bare word */
  ANNB_TOKEN_QUOTED, /* a column in backticks */
  ANNB_TOKEN_STRING,
  ANNB_TOKEN_NUMBER,
  ANNB_TOKEN_SIGN /* ( ) [ ] , == != < <= > >= */
} annb_where_token_kind;

typedef struct annb_where_token {
  annb_where_token_kind kind;
  size_t at, end;    /* in the text */
  const char *bytes; /* name, string, number: terminated where it is not a number */
  size_t length;
} annb_where_token;

/* The token that starts at or behind `at`. */
annb_status annb_where_next(annb_where_tree *tree, size_t at, annb_where_token *out, annb_error *err);

/* ---- numbers as keys ---- */

/* Every number of a column has a key, a uint64_t that orders as the numbers do; −0.0 has that of 0. Keys of NaN are below or above all. */
typedef struct annb_where_place {
  uint64_t floor;            /* key of the largest number of the type that is not above the literal */
  bool exact;                /* it is the literal */
  bool below_all, above_all; /* the literal is below or above all numbers of the type: floor says nothing */
} annb_where_place;

/* Where the decimal number stands among those of `dtype`: integers exactly; floats after rounding to the type, as its own literals are. */
annb_where_place annb_where_find(annb_dtype dtype, const char *number, size_t length);
/* Least and largest key of a number that is not NaN. */
void annb_where_limits(annb_dtype dtype, uint64_t *least, uint64_t *most);
/* Keys of n values, any alignment. */
void annb_where_keys(annb_dtype dtype, const void *values, size_t n, uint64_t *keys);

/* ---- tests on a part ---- */

typedef struct annb_where_string {
  const char *bytes;
  uint64_t length;
} annb_where_string;

/* What the values of one column are compared with. */
typedef struct annb_where_match {
  annb_where_test test;
  annb_column_kind kind; /* fixed or string */
  annb_dtype dtype;
  bool is_range;         /* of keys; else a set */
  uint64_t least, most;  /* keys of all numbers but NaN */
  uint64_t low, high;    /* range; empty when low > high */
  uint64_t *keys;        /* set, ascending */
  annb_where_string *strings; /* set, ascending; or the one that strings are compared with */
  size_t n;
} annb_where_match;

typedef struct annb_where_bound {
  const annb_column *column; /* NULL: the part has no such column, all its values are missing */
  annb_column_info info;
  annb_where_match match;    /* not categorical */
  uint8_t *table;            /* categorical: the answer for code −1, then for each category */
  bool negate;
} annb_where_bound;

/* Bind a test to a part's column. Free in any case; a zeroed one may be freed. */
annb_status annb_where_bind(const annb_store *store, uint32_t part, const annb_where_tree *tree, const annb_where_node *test,
                            annb_where_bound *out, annb_error *err);
void annb_where_bound_free(annb_where_bound *bound);
/* The column of a test in a part, NULL when it has none. */
annb_status annb_where_column(const annb_store *store, uint32_t part, const annb_where_node *test, const annb_column **column,
                              annb_error *err);

/* Whether each of n rows from `first` on matches: 1 or 0 in `out`. Categories are such a column too. `keys`: room for n. */
annb_status annb_where_match_rows(const annb_where_match *match, const annb_column *column, uint64_t first, size_t n, uint64_t *keys,
                                  uint8_t *out, annb_error *err);

/* ---- bits ---- */

#define ANNB_WHERE_ROWS 4096 /* evaluated at a time; a multiple of 64 */

typedef struct annb_where_run {
  const annb_where_tree *tree;
  const annb_where_bound *bound; /* by number of the test */
  uint64_t first;                /* row of the part */
  size_t n;                      /* rows, at most ANNB_WHERE_ROWS */
  uint64_t *words;               /* ANNB_WHERE_ROWS / 64 for each level */
  uint64_t keys[ANNB_WHERE_ROWS];
  uint8_t matched[ANNB_WHERE_ROWS];
} annb_where_run;

/* Levels of words that a tree needs. */
uint32_t annb_where_levels(const annb_where_tree *tree, uint32_t node);
/* Evaluate the rows: bit i of `words` is row first + i; bits past the last are undefined. */
annb_status annb_where_eval(annb_where_run *run, annb_error *err);

/* ---- names ---- */

/* No part has the column: ANNB_ENOTFOUND, with names that are near. */
annb_status annb_where_unknown(const annb_store *store, const annb_where_tree *tree, const annb_where_node *test, annb_error *err);

#endif
