/* Predicates over obs: each operator on each kind of column, missing values, exact numbers, several parts, and text that is none. */
#include "column_maker.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[256];
static annb_store *store;

/* ---- writing ---- */

static void fixed(annb_arrays_writer *w, const char *name, annb_dtype dtype, const void *values, uint64_t n, uint32_t mask) {
  add(w, (annb_column_spec){name, n, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED, 0, vector(w, dtype, values, n), ANNB_NONE, mask, ANNB_NONE});
}

static void categorical(annb_arrays_writer *w, const char *name, uint8_t flags, const int8_t *codes, uint64_t n, uint32_t categories) {
  add(w, (annb_column_spec){name, n, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, flags, vector(w, ANNB_I8, codes, n), ANNB_NONE, ANNB_NONE,
                            categories});
}

/* Six cells; of "masked" ones the second and fifth are missing. */
enum { CELLS = 6 };
static const uint8_t mask[] = {0, 1, 0, 0, 1, 0};
static const char *const names[] = {"c0", "c1", "zelle-\xC3\xA4", "it's", "", "c5"};
static const char *const labels[] = {"B cell", "T cell", "na\"ive"};
static const char *const stages[] = {"late", "early", "adult"};

static void add_numbers(annb_arrays_writer *w) {
  const float nan = strtof("nan", NULL), inf = strtof("inf", NULL);
  fixed(w, "i8", ANNB_I8, (int8_t[]){-128, -1, 0, 1, 2, 127}, CELLS, ANNB_NONE);
  fixed(w, "i16", ANNB_I16, (int16_t[]){-32768, -1, 0, 1, 2, 32767}, CELLS, ANNB_NONE);
  fixed(w, "i32", ANNB_I32, (int32_t[]){INT32_MIN, -1, 0, 1, 2, INT32_MAX}, CELLS, ANNB_NONE);
  fixed(w, "i64", ANNB_I64, (int64_t[]){INT64_MIN, 9007199254740992, 9007199254740993, -1, 0, INT64_MAX}, CELLS, ANNB_NONE);
  fixed(w, "u8", ANNB_U8, (uint8_t[]){0, 1, 2, 3, 4, 255}, CELLS, ANNB_NONE);
  fixed(w, "u16", ANNB_U16, (uint16_t[]){0, 1, 2, 3, 4, 65535}, CELLS, ANNB_NONE);
  fixed(w, "u32", ANNB_U32, (uint32_t[]){0, 1, 2, 3, 4, UINT32_MAX}, CELLS, ANNB_NONE);
  fixed(w, "u64", ANNB_U64, (uint64_t[]){0, 1, INT64_MAX, UINT64_C(9223372036854775808), UINT64_MAX - 1, UINT64_MAX}, CELLS, ANNB_NONE);
  fixed(w, "f16", ANNB_F16, (uint16_t[]){0x2E66 /* 0.1 */, 0x7C00 /* inf */, 0x7E00 /* nan */, 0x8000, 0x3C00, 0x7BFF}, CELLS, ANNB_NONE);
  fixed(w, "f32", ANNB_F32, (float[]){0.1f, inf, nan, -0.0f, 1, 0.7f}, CELLS, ANNB_NONE);
  fixed(w, "f64", ANNB_F64, (double[]){0.1, -(double)inf, (double)nan, 0, 1e308, 5e-324}, CELLS, ANNB_NONE);
  fixed(w, "masked", ANNB_I32, (int32_t[]){5, 5, 6, 7, 8, 5}, CELLS, vector(w, ANNB_BOOL, mask, CELLS));
  fixed(w, "flag", ANNB_BOOL, (uint8_t[]){0, 1, 0, 2, 1, 0}, CELLS, ANNB_NONE);
  fixed(w, "maybe", ANNB_BOOL, (uint8_t[]){0, 1, 1, 0, 1, 1}, CELLS, vector(w, ANNB_BOOL, mask, CELLS));
}

static uint32_t columns(annb_txn *txn, uint32_t part, void *user) {
  annb_arrays_writer *w;
  uint32_t object;
  (void)user;
  (void)part;
  OK(annb_arrays_writer_open(txn, &w, &err));
  strings(w, "barcode", ANNB_AXIS_OBS, ANNB_COLUMN_INDEX, names, CELLS, ANNB_NONE);
  add_numbers(w);
  strings(w, "note", ANNB_AXIS_OBS, 0, names, CELLS, vector(w, ANNB_BOOL, mask, CELLS));
  strings(w, "odd `name`", ANNB_AXIS_OBS, 0, names, CELLS, ANNB_NONE);
  fixed(w, "index", ANNB_U8, (uint8_t[]){0, 1, 2, 3, 4, 5}, CELLS, ANNB_NONE);
  categorical(w, "cell_type", 0, (int8_t[]){0, -1, 1, 2, 0, 1}, CELLS, strings(w, "", ANNB_AXIS_NONE, 0, labels, 3, ANNB_NONE));
  categorical(w, "stage", ANNB_COLUMN_ORDERED, (int8_t[]){0, 1, 2, -1, 1, 0}, CELLS,
              strings(w, "", ANNB_AXIS_NONE, 0, stages, 3, ANNB_NONE));
  uint32_t doses = vector(w, ANNB_F64, (double[]){10, 0.5, 2}, 3), yes = vector(w, ANNB_BOOL, (uint8_t[]){1, 0}, 2);
  doses = add(w, (annb_column_spec){"", 3, ANNB_AXIS_NONE, ANNB_COLUMN_FIXED, 0, doses, ANNB_NONE, ANNB_NONE, ANNB_NONE});
  categorical(w, "dose", ANNB_COLUMN_ORDERED, (int8_t[]){0, 1, 2, -1, 2, 0}, CELLS, doses);
  yes = add(w, (annb_column_spec){"", 2, ANNB_AXIS_NONE, ANNB_COLUMN_FIXED, 0, yes, ANNB_NONE, ANNB_NONE, ANNB_NONE});
  categorical(w, "doublet", 0, (int8_t[]){0, 1, 1, -1, 0, 1}, CELLS, yes);
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

static void setup(void) {
  static const uint64_t rows = CELLS;
  maker_tmpdir(dir);
  const char *path = maker_join(dir, "store");
  maker_store(&(maker_spec){.path = path, .n_vars = 0, .n_parts = 1, .part_rows = &rows, .columns = columns});
  OK(annb_store_open(path, NULL, &store, &err));
}

static void teardown(void) {
  annb_store_close(store);
  store = NULL;
  maker_remove(dir);
}

/* ---- asking ---- */

static void is(const char *text, const char *expected) {
  uint64_t bits[2] = {UINT64_MAX, UINT64_C(0xA5A5)}, n = 99, counted = 99, ones = 0;
  annb_status s = annb_where(store, text, bits, &n, &err);
  ck_assert_msg(s == ANNB_OK, "%s: %s", text, err.message);
  char found[CELLS + 1] = "";
  for (int i = 0; i < CELLS; i++) {
    found[i] = bits[0] >> i & 1 ? '1' : '0';
    ones += bits[0] >> i & 1;
  }
  ck_assert_msg(!strcmp(found, expected), "%s: %s, expected %s", text, found, expected);
  ck_assert_msg(bits[0] >> CELLS == 0 && bits[1] == 0xA5A5, "%s: bits behind the last row", text);
  OK(annb_where(store, text, NULL, &counted, &err));
  ck_assert_uint_eq(n, ones);
  ck_assert_uint_eq(counted, ones);
}

static void fails(const char *text, annb_status status, const char *says) {
  uint64_t bits[1];
  err.message[0] = 0;
  annb_status s = annb_where(store, text, bits, NULL, &err);
  ck_assert_msg(s == status && strstr(err.message, says), "%.80s: %s: %s; expected: %s", text, annb_status_name(s), err.message, says);
  ck_assert_int_eq(annb_where(store, text, NULL, NULL, NULL), status);
}

/* ---- tests ---- */

START_TEST(test_integers) {
  static const char *const types[] = {"i8", "i16", "i32"};
  char text[64];
  for (int t = 0; t < 3; t++) {
    static const struct {
      const char *what, *expected;
    } cases[] = {{"== 1", "000100"},           {"!= 1", "111011"},        {"< 1", "111000"},         {"<= 1", "111100"},
                 {"> 1", "000011"},            {">= 1", "000111"},        {"< 0.5", "111000"},       {"<= 0.5", "111000"},
                 {"> 0.5", "000111"},          {">= 0.5", "000111"},      {"== 0.5", "000000"},      {"!= 0.5", "111111"},
                 {"> -1", "001111"},           {"> -1.5", "011111"},      {"<= -1.5", "100000"},     {"in (1, -1, 7)", "010100"},
                 {"not in [1, -1]", "101011"}, {"== 10e-1", "000100"},    {"== 0.01e2", "000100"},   {"< 1e99", "111111"},
                 {"> 1e99", "000000"},         {"> -1e99", "111111"},     {"== 1e99", "000000"},     {"!= 1e99", "111111"},
                 {"is null", "000000"},        {"is not null", "111111"}, {"in ()", "000000"},       {"not in ()", "111111"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      snprintf(text, sizeof text, "%s %s", types[t], cases[i].what);
      is(text, cases[i].expected);
    }
  }
  is("u8 == 255", "000001");
  is("u16 == 65535", "000001");
  is("u32 >= 4294967295", "000001");
  is("u8 > -0.5", "111111");
  is("u8 < -0.5", "000000");
  is("u8 == -0", "100000");
  is("u8 > 255", "000000");
  is("u8 <= 2.999999999999999999999999999", "111000");
  is("u8 < 3.000000000000000000000000001", "111100");
}
END_TEST

START_TEST(test_integers_exact) {
  is("i64 == 9007199254740993", "001000");
  is("i64 == 9007199254740992", "010000");
  is("i64 > 9007199254740992", "001001");
  is("i64 > 9007199254740992.5", "001001");
  is("i64 < 9007199254740993", "110110");
  is("i64 in (9007199254740993, -1)", "001100");
  is("i64 == -9223372036854775808", "100000");
  is("i64 < -9223372036854775808", "000000");
  is("i64 <= -9223372036854775808", "100000");
  is("i64 >= -9223372036854775808.5", "111111");
  is("i64 < -9223372036854775807.5", "100000");
  is("i64 < -9223372036854775808.5", "000000");
  is("i64 == 9223372036854775807", "000001");
  is("i64 > 9223372036854775807", "000000");
  is("i64 >= 9223372036854775808", "000000");
  is("i64 < 9223372036854775808", "111111");
  is("u64 == 9223372036854775808", "000100");
  is("u64 > 9223372036854775807", "000111");
  is("u64 == 18446744073709551615", "000001");
  is("u64 == 18446744073709551614", "000010");
  is("u64 < 18446744073709551615", "111110");
  is("u64 > 18446744073709551615", "000000");
  is("u64 < 18446744073709551616", "111111");
  is("u64 >= 18446744073709551616", "000000");
  is("u64 < -1", "000000");
  is("u64 > -1", "111111");
}
END_TEST

/* 0.1, inf, nan, −0.0, 1, 65504 or 0.7 */
START_TEST(test_floats) {
  is("f32 == 0.1", "100000");
  is("f64 == 0.1", "100000");
  is("f16 == 0.1", "100000");
  is("f32 == 0.7", "000001");
  is("f32 < 0.7", "100100");
  is("f32 <= 0.7", "100101");
  is("f32 > 0.7", "010010");
  is("f32 >= 0.7", "010011");
  is("f32 != 0.1", "011111");
  is("f32 == 0", "000100");
  is("f32 == -0.0", "000100");
  is("f32 < 1e39", "100111");
  is("f32 >= 1e39", "010000");
  is("f32 == 1e39", "000000");
  is("f32 > -1e39", "110111");
  is("f32 < -1e39", "000000");
  is("f32 in (0.1, 1)", "100010");
  is("f32 not in (0.1, 1)", "011101");
  is("f32 is null", "001000");
  is("f32 is not null", "110111");
  is("f64 < -1e400", "010000");
  is("f64 > -1e400", "100111");
  is("f64 == 1e308", "000010");
  is("f64 == 5e-324", "000001");
  is("f64 > 0", "100011");
  is("f64 == 0.1000000000000000055511151231257827", "100000");
  is("f16 == 65504", "000001");
  is("f16 > 65504", "010000");
  is("f16 > 65519", "010000");
  is("f16 > 70000", "010000");
  is("f16 < 70000", "100111");
  is("f16 is null", "001000");
}
END_TEST

START_TEST(test_missing) {
  is("masked == 5", "100001");
  is("masked != 5", "011110");
  is("not masked == 5", "011110");
  is("masked < 7", "101001");
  is("not masked < 7", "010110");
  is("masked in (5, 6)", "101001");
  is("masked not in (5, 6)", "010110");
  is("masked is null", "010010");
  is("masked is not null", "101101");
  is("note is null", "010010");
  is("note == ''", "000000");
  is("note != ''", "111111");
  is("cell_type is null", "010000");
  is("cell_type != 'B cell'", "011101");
  is("cell_type not in ('B cell', 'T cell')", "010100");
  is("stage is not null", "111011");
}
END_TEST

START_TEST(test_booleans) {
  is("flag", "010110");
  is("not flag", "101001");
  is("flag == true", "010110");
  is("flag == false", "101001");
  is("flag != true", "101001");
  is("flag in (true, false)", "111111");
  is("maybe", "001001");
  is("not maybe", "110110");
  is("maybe != true", "110110");
  is("maybe == false", "100100");
  is("maybe is null", "010010");
  is("doublet", "100010");
  is("doublet == false", "011001");
  is("doublet is null", "000100");
  is("flag and maybe or doublet", "100010");
}
END_TEST

START_TEST(test_strings) {
  is("index == 'c0'", "100000");
  is("barcode == \"c0\"", "100000");
  is("index in ('c5', 'c1', 'c1', 'none')", "010001");
  is("index == 'zelle-\xC3\xA4'", "001000");
  is("index == 'zelle-\\u00e4'", "001000");
  is("index == 'zelle-\\xc3\\xA4'", "001000");
  is("index == 'it\\'s'", "000100");
  is("index == \"it's\"", "000100");
  is("index == ''", "000010");
  is("index < 'c1'", "100010");
  is("index <= 'c1'", "110010");
  is("index > 'c1'", "001101");
  is("index >= 'c1'", "011101");
  is("index < 'c'", "000010");
  is("`odd ``name``` == 'c5'", "000001");
  is("`index` >= 4", "000011");
  is("index != 'c0' and `index` < 3", "011000");
}
END_TEST

START_TEST(test_categories) {
  is("cell_type == 'B cell'", "100010");
  is("cell_type == 'b cell'", "000000");
  is("cell_type in ['B cell', 'na\"ive']", "100110");
  is("cell_type == 'na\\\"ive'", "000100");
  is("stage < 'adult'", "110011"); /* late, early, adult is their order */
  is("stage <= 'late'", "100001");
  is("stage > 'late'", "011010");
  is("stage >= 'early'", "011010");
  is("stage > 'adult'", "000000");
  is("not stage > 'late'", "100101");
  is("dose == 0.5", "010000");
  is("dose > 10", "011010");
  is("dose in (10, 2)", "101011");
  fails("cell_type < 'T cell'", ANNB_EINVAL, "character 1: column 'cell_type' of part 0 is categorical and its categories have no order");
  fails("stage < 'old'", ANNB_EINVAL, "character 9: column 'stage' of part 0 is ordered by its categories and has no such category");
  fails("dose < 3", ANNB_EINVAL, "no such category");
}
END_TEST

START_TEST(test_joining) {
  is("u8 < 2 or u8 == 3 or u8 == 255", "110101");
  is("u8 < 3 and u8 > 0 and u8 != 2", "010000");
  is("u8 == 0 or u8 == 1 and flag", "110000");
  is("(u8 == 0 or u8 == 1) and flag", "010000");
  is("not u8 == 0 and flag", "010110");
  is("not (u8 == 0 or flag)", "001001");
  is("not not flag", "010110");
  is("\tnot\n(((flag)))\r", "101001");
  is("flag or (u8 > 100 and (maybe or u8 == 4))", "010111");
  is("u8 >= 0 or flag", "111111");
  is("u8 < 0 and flag", "000000");
}
END_TEST

START_TEST(test_bad_text) {
  fails("", ANNB_EINVAL, "the predicate is empty");
  fails("  \n", ANNB_EINVAL, "the predicate is empty");
  fails("flag == True", ANNB_EINVAL, "character 9: truth is written in small letters");
  fails("u8 == nan", ANNB_EINVAL, "character 7: nothing equals what is missing: write 'is null'");
  fails("u8 in (3, None)", ANNB_EINVAL, "write 'is null'");
  fails("u8 > 2024-01-01", ANNB_EINVAL, "a date is text: put it in quotes");
  fails("u8 == 3 and", ANNB_EINVAL, "it ends where");
  fails("u8 = 3", ANNB_EINVAL, "character 4: write == to compare");
  fails("flag & maybe", ANNB_EINVAL, "character 6: write 'and'");
  fails("flag | maybe", ANNB_EINVAL, "write 'or'");
  fails("!flag", ANNB_EINVAL, "character 1: write 'not'");
  fails("u8 ==", ANNB_EINVAL, "it ends where a number, text in quotes, true or false should stand");
  fails("u8 == c0", ANNB_EINVAL, "put text in quotes, like \"c0\"");
  fails("u8 == null", ANNB_EINVAL, "write 'is null'");
  fails("u8 is 3", ANNB_EINVAL, "expected 'null' or 'not null', found '3'");
  fails("u8 in 3", ANNB_EINVAL, "a list of values in brackets");
  fails("u8 in (3, 4", ANNB_EINVAL, "it ends where ',' or ')'");
  fails("u8 in (3, 4]", ANNB_EINVAL, "expected ',' or ')', found ']'");
  fails("u8 in (3,)", ANNB_EINVAL, "found ')'");
  fails("u8 not 3", ANNB_EINVAL, "expected 'in' after 'not'");
  fails("(u8 == 3", ANNB_EINVAL, "it ends where 'and', 'or' or ')'");
  fails("u8 == 3)", ANNB_EINVAL, "character 8: expected 'and', 'or' or the end, found ')'");
  fails("u8 == 3 flag", ANNB_EINVAL, "character 9");
  fails("u8 == 3x", ANNB_EINVAL, "character 7: this is not a number");
  fails("u8 == 1.2.3", ANNB_EINVAL, "not a number");
  fails("u8 == 1e", ANNB_EINVAL, "not a number");
  fails("u8 == -", ANNB_EINVAL, "not a number");
  fails("u8 == .", ANNB_EINVAL, "not a number");
  fails("index == 'open", ANNB_EINVAL, "character 10: the quote ' is not closed");
  fails("index == 'c\\q'", ANNB_EINVAL, "character 12: no such escape");
  fails("index == 'c\\", ANNB_EINVAL, "no such escape");
  fails("index == '\\ud800'", ANNB_EINVAL, "no such escape");
  fails("'c0' == index", ANNB_EINVAL, "put its name in `backticks`");
  fails("and", ANNB_EINVAL, "expected the name of a column, found 'and'");
  fails("5 < u8", ANNB_EINVAL, "expected the name of a column, found '5'");
  fails("index == '\xC3\xA4' @", ANNB_EINVAL, "character 14");
  fails("u8 == 3 and", ANNB_EINVAL, "it ends where the name of a column");
  fails(NULL, ANNB_EINVAL, "the predicate is missing");
}
END_TEST

START_TEST(test_bad_columns) {
  fails("celltype == 'B cell'", ANNB_ENOTFOUND, "character 1: obs has no column 'celltype'");
  fails("celltype == 'B cell'", ANNB_ENOTFOUND, "did you mean 'cell_type'");
  fails("flag and Flags", ANNB_ENOTFOUND, "character 10");
  fails("nothing_like_it is null", ANNB_ENOTFOUND, "obs has no column 'nothing_like_it'");
  fails("u8 == '3'", ANNB_EINVAL, "character 7: column 'u8' of part 0 holds numbers, which cannot be compared with text");
  fails("u8 in (1, true)", ANNB_EINVAL, "character 11: column 'u8' of part 0 holds numbers, which cannot be compared with true or false");
  fails("index == 3", ANNB_EINVAL, "column 'index' of part 0 holds text, which cannot be compared with a number");
  fails("cell_type == 3", ANNB_EINVAL, "holds text");
  fails("dose == 'x'", ANNB_EINVAL, "holds numbers");
  fails("flag == 1", ANNB_EINVAL, "holds booleans, which cannot be compared with a number");
  fails("flag < true", ANNB_EINVAL, "holds booleans, which have no order");
  fails("u8", ANNB_EINVAL, "holds no booleans: compare it with a value");
  fails("cell_type", ANNB_EINVAL, "holds no booleans");
  fails("flag or u8 == 'x'", ANNB_EINVAL, "holds numbers");
}
END_TEST

START_TEST(test_limits) {
  char *text = malloc((size_t)ANNB_WHERE_MAX_TEXT + 16), *at = text;
  ck_assert_ptr_nonnull(text);
  for (int i = 0; i < ANNB_WHERE_MAX_DEPTH; i++) *at++ = '(';
  at = strcpy(at, "flag") + 4;
  for (int i = 0; i < ANNB_WHERE_MAX_DEPTH; i++) *at++ = ')';
  *at = 0;
  is(text, "010110");
  memset(text, '(', 5000);
  strcpy(text + 5000, "flag");
  fails(text, ANNB_EINVAL, "character 201: brackets and 'not' are nested more than 200 deep");
  at = text;
  for (int i = 0; i < 20000; i++) at = strcpy(at, "not ") + 4;
  fails(text, ANNB_EINVAL, "nested more than 200 deep");
  at = strcpy(text, "flag") + 4; /* a long chain is not deep */
  for (int i = 0; i < 50000; i++) at = strcpy(at, i & 1 ? " or u8==3" : " or u8==9") + 9;
  is(text, "010110");
  at = strcpy(text, "i32 in (-1") + 10;
  for (int i = 3; i < 50000; i++) at += sprintf(at, ",%d", i);
  strcpy(at, ")");
  is(text, "010000");
  at = strcpy(text, "u8 == 3.") + 8;
  for (int i = 0; i < 100000; i++) *at++ = '0';
  strcpy(at, "1");
  is(text, "000000");
  strcpy(at, "0");
  is(text, "000100");
  memset(text, ' ', (size_t)ANNB_WHERE_MAX_TEXT + 1);
  text[ANNB_WHERE_MAX_TEXT + 1] = 0;
  fails(text, ANNB_EINVAL, "longer than 1048576 bytes");
  free(text);
}
END_TEST

/* ---- several parts ---- */

static const uint64_t part_rows[] = {70, 5000, 0, 1};

static uint32_t part_columns(annb_txn *txn, uint32_t part, void *user) {
  static const char *const two[][2] = {{"A", "B"}, {"B", "C"}, {"C", "D"}, {"B", "A"}};
  const uint64_t n = part_rows[part];
  annb_arrays_writer *w;
  uint32_t object;
  int32_t *row = malloc(n * sizeof *row + 1);
  int8_t *code = malloc(n + 1);
  (void)user;
  for (uint64_t i = 0; i < n; i++) row[i] = (int32_t)i, code[i] = (int8_t)(i % 3) - 1;
  OK(annb_arrays_writer_open(txn, &w, &err));
  fixed(w, "row", ANNB_I32, row, n, ANNB_NONE);
  if (part == 1) fixed(w, "only1", ANNB_I32, row, n, ANNB_NONE);
  categorical(w, "label", 0, code, n, strings(w, "", ANNB_AXIS_NONE, 0, two[part], 2, ANNB_NONE));
  OK(annb_arrays_writer_close(w, &object, &err));
  free(row);
  free(code);
  return object;
}

/* Whether the rows that are 1 are those for which `expected` says so. */
static void all_rows(const annb_store *parts, const char *text, bool (*expected)(uint32_t part, uint64_t row)) {
  uint64_t bits[80], n, ones = 0, at = 0;
  OK(annb_where(parts, text, bits, &n, &err));
  for (uint32_t p = 0; p < 4; p++)
    for (uint64_t i = 0; i < part_rows[p]; i++, at++) {
      bool bit = bits[at / 64] >> at % 64 & 1;
      ck_assert_msg(bit == expected(p, i), "%s: part %u, row %llu", text, p, (unsigned long long)i);
      ones += bit;
    }
  ck_assert_uint_eq(n, ones);
  ck_assert_uint_eq(bits[at / 64] >> at % 64, 0);
}

static bool row_in(uint32_t part, uint64_t row) { return (void)part, row >= 3 && row < 4200; }
static bool label_b(uint32_t part, uint64_t row) { return (part == 0 && row % 3 == 2) || (part == 1 && row % 3 == 1); }
static bool only1_absent(uint32_t part, uint64_t row) { return (void)row, part != 1; }
static bool only1_not_7(uint32_t part, uint64_t row) { return part != 1 || row != 7; }
static bool only1_less(uint32_t part, uint64_t row) { return part == 1 && row < 4100; }

START_TEST(test_parts) {
  annb_store *parts;
  const char *path = maker_join(dir, "parts");
  maker_store(&(maker_spec){.path = path, .n_vars = 0, .n_parts = 4, .part_rows = part_rows, .columns = part_columns});
  OK(annb_store_open(path, NULL, &parts, &err));
  all_rows(parts, "row >= 3 and row < 4200", row_in);
  all_rows(parts, "label == 'B'", label_b);
  all_rows(parts, "only1 is null", only1_absent);
  all_rows(parts, "only1 != 7", only1_not_7);
  all_rows(parts, "only1 < 4100", only1_less);
  FAILS(annb_where(parts, "only2 == 3", NULL, NULL, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "did you mean 'only1'"));
  FAILS(annb_where(parts, "index == 'a'", NULL, NULL, &err), ANNB_ENOTFOUND);
  annb_store_close(parts);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("where");
  TCase *c = tcase_create("where");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_set_timeout(c, 60);
  tcase_add_test(c, test_integers);
  tcase_add_test(c, test_integers_exact);
  tcase_add_test(c, test_floats);
  tcase_add_test(c, test_missing);
  tcase_add_test(c, test_booleans);
  tcase_add_test(c, test_strings);
  tcase_add_test(c, test_categories);
  tcase_add_test(c, test_joining);
  tcase_add_test(c, test_bad_text);
  tcase_add_test(c, test_bad_columns);
  tcase_add_test(c, test_limits);
  tcase_add_test(c, test_parts);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
