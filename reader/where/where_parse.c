#include "where.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct parser {
  annb_where_tree *tree;
  annb_where_token token; /* that comes next */
  uint32_t depth;
} parser;

static annb_status parse_or(parser *p, uint32_t *node, annb_error *err);

/* ---- the tree ---- */

static annb_status add_node(annb_where_tree *t, annb_where_op op, uint32_t *out, annb_error *err) {
  if (t->n_nodes == t->nodes_room) {
    uint32_t room = t->nodes_room ? 2 * t->nodes_room : 16;
    annb_where_node *nodes = realloc(t->nodes, room * sizeof *nodes);
    if (!nodes) return annb_fail_memory(err);
    t->nodes = nodes;
    t->nodes_room = room;
  }
  t->nodes[t->n_nodes] = (annb_where_node){.op = op, .child = ANNB_NONE, .next = ANNB_NONE};
  *out = t->n_nodes++;
  return ANNB_OK;
}

static annb_status add_value(annb_where_tree *t, const annb_where_value *value, annb_error *err) {
  if (t->n_values == t->values_room) {
    uint32_t room = t->values_room ? 2 * t->values_room : 16;
    annb_where_value *values = realloc(t->values, room * sizeof *values);
    if (!values) return annb_fail_memory(err);
    t->values = values;
    t->values_room = room;
  }
  t->values[t->n_values++] = *value;
  return ANNB_OK;
}

void annb_where_tree_free(annb_where_tree *tree) {
  free(tree->nodes);
  free(tree->values);
  free(tree->strings);
  *tree = (annb_where_tree){0};
}

/* ---- tokens ---- */

static annb_status advance(parser *p, annb_error *err) { return annb_where_next(p->tree, p->token.end, &p->token, err); }

static bool is_word(const annb_where_token *t, const char *word) { return t->kind == ANNB_TOKEN_NAME && !strcmp(t->bytes, word); }
static bool is_sign(const annb_where_token *t, const char *text) {
  return t->kind == ANNB_TOKEN_SIGN && t->length == strlen(text) && !memcmp(t->bytes, text, t->length);
}

static bool is_reserved(const annb_where_token *t) {
  static const char *const words[] = {"and", "or", "not", "in", "is", "null", "true", "false"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is_word(t, words[i])) return true;
  return false;
}

static annb_status expected(const parser *p, const char *what, annb_error *err) {
  const annb_where_token *t = &p->token;
  if (t->kind == ANNB_TOKEN_END) return annb_where_fail(err, ANNB_EINVAL, p->tree->text, t->at, "it ends where %s should stand", what);
  return annb_where_fail(err, ANNB_EINVAL, p->tree->text, t->at, "expected %s, found '%.*s'", what,
                         (int)(t->end - t->at < 60 ? t->end - t->at : 60), p->tree->text + t->at);
}

static annb_status take_sign(parser *p, const char *sign, const char *what, annb_error *err) {
  return is_sign(&p->token, sign) ? advance(p, err) : expected(p, what, err);
}

/* ---- tests ---- */

/* A name where a value belongs: what other languages call some values, or text without quotes. */
static annb_status not_a_value(const parser *p, const annb_where_token *t, annb_error *err) {
  const char *text = p->tree->text, *name = t->bytes;
  if (!strcasecmp(name, "true") || !strcasecmp(name, "false"))
    return annb_where_fail(err, ANNB_EINVAL, text, t->at, "truth is written in small letters, true or false, not '%s'; text in quotes",
                           name);
  if (!strcasecmp(name, "nan") || !strcasecmp(name, "none") || !strcasecmp(name, "na"))
    return annb_where_fail(err, ANNB_EINVAL, text, t->at,
                           "nothing equals what is missing: write 'is null' or 'is not null' (true of NaN too), or put text in quotes");
  return annb_where_fail(err, ANNB_EINVAL, text, t->at, "a column is compared with a value: put text in quotes, like \"%.60s\"", name);
}

static annb_status parse_value(parser *p, annb_where_node *test, annb_error *err) {
  const annb_where_token t = p->token;
  annb_where_value value = {.bytes = t.bytes, .length = t.length, .at = t.at};
  if (t.kind == ANNB_TOKEN_NUMBER) {
    value.kind = ANNB_WHERE_NUMBER;
  } else if (t.kind == ANNB_TOKEN_STRING) {
    value.kind = ANNB_WHERE_STRING;
  } else if (is_word(&t, "true") || is_word(&t, "false")) {
    value.kind = ANNB_WHERE_BOOL;
    value.truth = is_word(&t, "true");
  } else if (is_word(&t, "null")) {
    return annb_where_fail(err, ANNB_EINVAL, p->tree->text, t.at, "null cannot be compared: write 'is null' or 'is not null'");
  } else if (t.kind == ANNB_TOKEN_NAME || t.kind == ANNB_TOKEN_QUOTED) {
    return not_a_value(p, &t, err);
  } else {
    return expected(p, "a number, text in quotes, true or false", err);
  }
  test->n_values++;
  annb_status s = add_value(p->tree, &value, err);
  return s ? s : advance(p, err);
}

/* What follows the year of a date without quotes. */
static bool is_date_rest(const annb_where_token *t, const char *text) {
  return t->kind == ANNB_TOKEN_NUMBER && text[t->at] == '-' && t->at > 0 && text[t->at - 1] >= '0' && text[t->at - 1] <= '9';
}

/* The values of `in`, in round or square brackets. */
static annb_status parse_list(parser *p, annb_where_node *test, annb_error *err) {
  const char *close = is_sign(&p->token, "[") ? "]" : ")";
  annb_status s = is_sign(&p->token, "[") ? advance(p, err) : take_sign(p, "(", "a list of values in brackets", err);
  bool more = !s && !is_sign(&p->token, close);
  while (!s && more) {
    s = parse_value(p, test, err);
    more = !s && is_sign(&p->token, ",");
    if (more) s = advance(p, err);
  }
  return s ? s : take_sign(p, close, *close == ')' ? "',' or ')'" : "',' or ']'", err);
}

static annb_status parse_null(parser *p, annb_where_node *test, annb_error *err) {
  annb_status s = advance(p, err);
  test->test = ANNB_WHERE_NULL;
  if (!s && is_word(&p->token, "not")) {
    test->negate = true;
    s = advance(p, err);
  }
  if (s) return s;
  return is_word(&p->token, "null") ? advance(p, err) : expected(p, "'null' or 'not null'", err);
}

static annb_status parse_comparison(parser *p, annb_where_node *test, annb_error *err) {
  static const struct {
    const char *sign;
    annb_where_test test;
    bool negate;
  } known[] = {{"==", ANNB_WHERE_SET, false},          {"!=", ANNB_WHERE_SET, true},
               {"<", ANNB_WHERE_LESS, false},          {"<=", ANNB_WHERE_LESS_EQUAL, false},
               {">", ANNB_WHERE_GREATER, false},       {">=", ANNB_WHERE_GREATER_EQUAL, false}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (!is_sign(&p->token, known[i].sign)) continue;
    test->test = known[i].test;
    test->negate = known[i].negate;
    annb_status s = advance(p, err);
    return s ? s : parse_value(p, test, err);
  }
  return expected(p, "a comparison", err);
}

/* What follows the column. */
static annb_status parse_condition(parser *p, annb_where_node *test, annb_error *err) {
  annb_status s = ANNB_OK;
  test->value = p->tree->n_values;
  if (is_word(&p->token, "is")) return parse_null(p, test, err);
  if (is_word(&p->token, "not")) {
    test->negate = true;
    s = advance(p, err);
    if (!s && !is_word(&p->token, "in")) return expected(p, "'in' after 'not'", err);
  }
  if (s) return s;
  if (is_word(&p->token, "in")) {
    test->test = ANNB_WHERE_SET;
    s = advance(p, err);
    return s ? s : parse_list(p, test, err);
  }
  if (p->token.kind == ANNB_TOKEN_SIGN && strchr("=!<>", p->token.bytes[0])) return parse_comparison(p, test, err);
  test->test = ANNB_WHERE_TRUTH;
  return ANNB_OK;
}

static annb_status parse_test(parser *p, uint32_t *node, annb_error *err) {
  const annb_where_token t = p->token;
  annb_where_node test = {.op = ANNB_WHERE_TEST, .child = ANNB_NONE, .next = ANNB_NONE, .name = t.bytes, .at = t.at};
  if (t.kind == ANNB_TOKEN_STRING)
    return annb_where_fail(err, ANNB_EINVAL, p->tree->text, t.at, "a column stands here: put its name in `backticks`, not in quotes");
  if ((t.kind != ANNB_TOKEN_NAME && t.kind != ANNB_TOKEN_QUOTED) || is_reserved(&t)) return expected(p, "the name of a column", err);
  test.is_index = is_word(&t, "index");
  test.number = p->tree->n_tests++;
  annb_status s = add_node(p->tree, ANNB_WHERE_TEST, node, err);
  if (!s) s = advance(p, err);
  if (!s) s = parse_condition(p, &test, err);
  if (!s) p->tree->nodes[*node] = test;
  return s;
}

/* ---- joining them ---- */

static annb_status deeper(parser *p, annb_error *err) {
  if (++p->depth <= ANNB_WHERE_MAX_DEPTH) return ANNB_OK;
  return annb_where_fail(err, ANNB_EINVAL, p->tree->text, p->token.at, "brackets and 'not' are nested more than %d deep",
                         ANNB_WHERE_MAX_DEPTH);
}

static annb_status parse_not(parser *p, uint32_t *node, annb_error *err) {
  bool is_not = is_word(&p->token, "not"), is_group = is_sign(&p->token, "(");
  if (!is_not && !is_group) return parse_test(p, node, err);
  annb_status s = deeper(p, err);
  if (!s) s = advance(p, err);
  if (is_group) {
    if (!s) s = parse_or(p, node, err);
    if (!s) s = take_sign(p, ")", "'and', 'or' or ')'", err);
  } else {
    uint32_t child = ANNB_NONE;
    if (!s) s = add_node(p->tree, ANNB_WHERE_NOT, node, err);
    if (!s) s = parse_not(p, &child, err);
    if (!s) p->tree->nodes[*node].child = child;
  }
  p->depth--;
  return s;
}

/* One or more of what `parse` takes, with `word` between; a chain of any length is one node. */
static annb_status parse_chain(parser *p, annb_where_op op, const char *word, annb_status (*parse)(parser *, uint32_t *, annb_error *),
                               uint32_t *node, annb_error *err) {
  uint32_t last;
  annb_status s = parse(p, &last, err);
  *node = last;
  if (s || !is_word(&p->token, word)) return s;
  s = add_node(p->tree, op, node, err);
  if (!s) p->tree->nodes[*node].child = last;
  while (!s && is_word(&p->token, word)) {
    uint32_t next;
    s = advance(p, err);
    if (!s) s = parse(p, &next, err);
    if (!s) p->tree->nodes[last].next = next;
    if (!s) last = next;
  }
  return s;
}

static annb_status parse_and(parser *p, uint32_t *node, annb_error *err) {
  return parse_chain(p, ANNB_WHERE_AND, "and", parse_not, node, err);
}

static annb_status parse_or(parser *p, uint32_t *node, annb_error *err) {
  return parse_chain(p, ANNB_WHERE_OR, "or", parse_and, node, err);
}

annb_status annb_where_parse(const char *text, annb_where_tree *tree, annb_error *err) {
  if (!text) return annb_fail(err, ANNB_EINVAL, NULL, "the predicate is missing");
  size_t length = strnlen(text, ANNB_WHERE_MAX_TEXT + 1);
  if (length > ANNB_WHERE_MAX_TEXT) return annb_fail(err, ANNB_EINVAL, NULL, "the predicate is longer than %u bytes", ANNB_WHERE_MAX_TEXT);
  parser p = {.tree = tree};
  tree->text = text;
  tree->strings = malloc(2 * length + 8); /* a name of one letter needs two bytes */
  if (!tree->strings) return annb_fail_memory(err);
  annb_status s = annb_where_next(tree, 0, &p.token, err);
  if (!s && p.token.kind == ANNB_TOKEN_END) return annb_fail(err, ANNB_EINVAL, NULL, "the predicate is empty");
  if (!s) s = parse_or(&p, &tree->root, err);
  if (!s && p.token.kind != ANNB_TOKEN_END)
    s = expected(&p, is_date_rest(&p.token, text) ? "'and', 'or' or the end (a date is text: put it in quotes)" : "'and', 'or' or the end",
                 err);
  return s;
}
