#include "common/model/selector.h"

#include "common/model/regex.h"
#include "common/model/selector_lex.h"

/* ---- adding ---- */

/* Room for one more. The array doubles whenever the number is a power of two, so it needs no
 * capacity. */
static bool matchers_grow(struct fg_selector *selector, struct fg_arena *arena)
{
    size_t count = selector->n_matchers;
    struct fg_matcher *grown;

    if ((count & (count - 1)) != 0)
        return true;
    grown = fg_arena_new(arena, struct fg_matcher, FG_MAX(2 * count, (size_t)1));
    if (grown == NULL)
        return false;
    if (count > 0)
        memcpy(grown, selector->matchers, count * sizeof *grown);
    selector->matchers = grown;
    return true;
}

/* Name and value live as long as the arena already. */
static enum fg_code add_matcher(struct fg_selector *selector, struct fg_arena *arena,
                                struct fg_matcher matcher, struct fg_err *err)
{
    char problem[FG_ERR_MSG_MAX_BYTES / 2];

    if (selector->n_matchers == FG_SELECTOR_MATCHERS_MAX)
        return fg_fail(err, FG_E_INVALID, "more than %d label matchers", FG_SELECTOR_MATCHERS_MAX);
    if (!matchers_grow(selector, arena))
        return fg_fail(err, FG_E_LIMIT, "%zu label matchers", selector->n_matchers + 1);
    if (matcher.op == FG_MATCH_RE || matcher.op == FG_MATCH_NRE) {
        matcher.regex =
            fg_regex_create(matcher.value.ptr, matcher.value.len, problem, sizeof problem);
        if (matcher.regex == NULL)
            return fg_fail(err, FG_E_INVALID, "error parsing regexp: %s", problem);
    }
    selector->matchers[selector->n_matchers++] = matcher;
    return FG_OK;
}

enum fg_code fg_selector_add(struct fg_selector *selector, struct fg_arena *arena,
                             enum fg_match_op op, struct fg_slice name, struct fg_slice value,
                             struct fg_err *err)
{
    struct fg_matcher matcher = {
        .op = op, .name = fg_arena_copy(arena, name), .value = fg_arena_copy(arena, value)};

    if (matcher.name.ptr == NULL || matcher.value.ptr == NULL)
        return fg_fail(err, FG_E_LIMIT, "label matcher of %zu bytes", name.len + value.len);
    return add_matcher(selector, arena, matcher, err);
}

static void drop_from(struct fg_selector *selector, size_t first)
{
    for (size_t i = first; i < selector->n_matchers; i++)
        fg_regex_destroy(selector->matchers[i].regex);
    selector->n_matchers = first;
}

void fg_selector_done(struct fg_selector *selector)
{
    drop_from(selector, 0);
    *selector = (struct fg_selector){0};
}

/* ---- parsing ---- */

/*
 *   selector = metric | [metric] "{" [matcher {"," matcher} [","]] "}"
 *   matcher  = name op string | string op string | string        (the last is the metric's name)
 *
 * A metric's name is a matcher of __name__ like others, and there may be several: that PromQL wants
 * one is no part of its grammar of selectors, and Pyroscope does not look.
 */
struct selector_parser {
    struct fg_lexer lexer;
    struct fg_selector_token token; /* the one to look at */
    struct fg_selector *selector;
};

static enum fg_code next(struct selector_parser *parser, struct fg_err *err)
{
    return fg_lexer_next(&parser->lexer, &parser->token, err);
}

/* "unexpected <token><where>" */
static enum fg_code unexpected(const struct selector_parser *parser, const char *where,
                               struct fg_err *err)
{
    const struct fg_selector_token *token = &parser->token;
    struct fg_slice text = fg_slice_sub(token->text, 0, FG_ERR_MSG_MAX_BYTES / 4);
    const char *kind = token->kind == FG_TOKEN_IDENT    ? "identifier "
                       : token->kind == FG_TOKEN_STRING ? "string "
                                                        : "";

    if (token->kind == FG_TOKEN_END && token->at == 0)
        return fg_fail(err, FG_E_INVALID, "unknown position: parse error: unexpected end of input");
    if (token->kind == FG_TOKEN_END)
        return fg_lexer_fail(&parser->lexer, token->at, err, "unexpected end of input%s", where);
    if (token->kind == FG_TOKEN_STRING) /* has its quotes */
        return fg_lexer_fail(&parser->lexer, token->at, err, "unexpected %s%.*s%s", kind,
                             FG_S(text), where);
    return fg_lexer_fail(&parser->lexer, token->at, err, "unexpected %s\"%.*s\"%s", kind,
                         FG_S(text), where);
}

static enum fg_code parser_add(struct selector_parser *parser, size_t at, struct fg_matcher matcher,
                               struct fg_err *err)
{
    enum fg_code code = add_matcher(parser->selector, parser->lexer.arena, matcher, err);

    if (code == FG_E_INVALID) {
        struct fg_err cause = *err;

        return fg_lexer_fail(&parser->lexer, at, err, "%s", cause.msg);
    }
    return code;
}

static enum fg_code add_metric(struct selector_parser *parser, size_t at, struct fg_slice name,
                               struct fg_err *err)
{
    struct fg_matcher matcher = {FG_MATCH_EQ, FG_LIT(FG_LABEL_NAME), name, NULL};

    return parser_add(parser, at, matcher, err);
}

static bool match_op(enum fg_token_kind kind, enum fg_match_op *ret_op)
{
    switch (kind) {
    case FG_TOKEN_EQ:
        *ret_op = FG_MATCH_EQ;
        return true;
    case FG_TOKEN_NE:
        *ret_op = FG_MATCH_NE;
        return true;
    case FG_TOKEN_RE:
        *ret_op = FG_MATCH_RE;
        return true;
    case FG_TOKEN_NRE:
        *ret_op = FG_MATCH_NRE;
        return true;
    default:
        return false;
    }
}

static enum fg_code parse_matcher(struct selector_parser *parser, struct fg_err *err)
{
    struct fg_selector_token left = parser->token;
    struct fg_matcher matcher = {0};

    if (left.kind != FG_TOKEN_IDENT && left.kind != FG_TOKEN_STRING)
        return unexpected(parser, " in label matching, expected identifier or \"}\"", err);
    matcher.name = left.kind == FG_TOKEN_IDENT ? left.text : left.value;
    if (matcher.name.len == 0)
        return fg_lexer_fail(&parser->lexer, left.at, err, "empty label name");
    if (next(parser, err) != FG_OK)
        return err->code;
    if (!match_op(parser->token.kind, &matcher.op)) {
        if (left.kind == FG_TOKEN_STRING)
            return add_metric(parser, left.at, matcher.name, err);
        return unexpected(parser, " in label matching, expected label matching operator", err);
    }
    if (next(parser, err) != FG_OK)
        return err->code;
    if (parser->token.kind != FG_TOKEN_STRING)
        return unexpected(parser, " in label matching, expected string", err);
    matcher.value = parser->token.value;
    if (parser_add(parser, left.at, matcher, err) != FG_OK)
        return err->code;
    return next(parser, err);
}

/* Behind the opening brace; leaves behind the closing one. */
static enum fg_code parse_matchers(struct selector_parser *parser, struct fg_err *err)
{
    while (parser->token.kind != FG_TOKEN_CLOSE) {
        if (parse_matcher(parser, err) != FG_OK)
            return err->code;
        if (parser->token.kind == FG_TOKEN_CLOSE)
            break;
        if (parser->token.kind != FG_TOKEN_COMMA)
            return unexpected(parser, " in label matching, expected \",\" or \"}\"", err);
        if (next(parser, err) != FG_OK)
            return err->code;
    }
    parser->lexer.in_braces = false;
    return next(parser, err);
}

static enum fg_code parse(struct selector_parser *parser, struct fg_err *err)
{
    struct fg_selector_token metric;

    if (next(parser, err) != FG_OK)
        return err->code;
    metric = parser->token;
    if (metric.kind != FG_TOKEN_IDENT && metric.kind != FG_TOKEN_OPEN)
        return unexpected(parser, "", err);
    if (metric.kind == FG_TOKEN_IDENT &&
        (add_metric(parser, metric.at, metric.text, err) != FG_OK || next(parser, err) != FG_OK))
        return err->code;
    if (parser->token.kind == FG_TOKEN_OPEN) {
        parser->lexer.in_braces = true;
        if (next(parser, err) != FG_OK || parse_matchers(parser, err) != FG_OK)
            return err->code;
    }
    if (parser->token.kind != FG_TOKEN_END)
        return unexpected(parser, "", err);
    return FG_OK;
}

enum fg_code fg_selector_parse(struct fg_slice text, struct fg_arena *arena,
                               struct fg_selector *selector, struct fg_err *err)
{
    struct selector_parser parser = {.selector = selector};
    size_t first = selector->n_matchers;

    if (text.len > FG_SELECTOR_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "label selector of %zu bytes is longer than %d", text.len,
                       FG_SELECTOR_MAX_BYTES);
    parser.lexer.arena = arena;
    parser.lexer.in = fg_arena_copy(arena, text); /* names and values point into it */
    if (parser.lexer.in.ptr == NULL)
        return fg_fail(err, FG_E_LIMIT, "label selector of %zu bytes", text.len);
    if (parse(&parser, err) != FG_OK) {
        drop_from(selector, first);
        return err->code;
    }
    return FG_OK;
}

/* ---- matching ---- */

bool fg_matcher_matches(const struct fg_matcher *matcher, struct fg_slice value)
{
    switch (matcher->op) {
    case FG_MATCH_EQ:
        return fg_slice_eq(value, matcher->value);
    case FG_MATCH_NE:
        return !fg_slice_eq(value, matcher->value);
    case FG_MATCH_RE:
        return fg_regex_matches(matcher->regex, value.ptr, value.len);
    case FG_MATCH_NRE:
        return !fg_regex_matches(matcher->regex, value.ptr, value.len);
    }
    fg_assert(false);
}

static struct fg_slice value_of(const struct fg_labels *labels, struct fg_slice name)
{
    for (size_t i = 0; i < labels->count; i++)
        if (fg_slice_eq(labels->items[i].name, name))
            return labels->items[i].value;
    return fg_bytes(NULL, 0);
}

/* A label that a series lacks has the empty value, as in PromQL: a="" matches it. */
bool fg_selector_matches(const struct fg_selector *selector, const struct fg_labels *labels)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (!fg_matcher_matches(matcher, value_of(labels, matcher->name)))
            return false;
    }
    return true;
}

bool fg_selector_may_match_service(const struct fg_selector *selector, struct fg_slice service)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (fg_slice_is(matcher->name, FG_LABEL_SERVICE) && !fg_matcher_matches(matcher, service))
            return false;
    }
    return true;
}

/* ---- writing ---- */

void fg_selector_write(const struct fg_selector *selector, struct fg_buf *out)
{
    static const char *const ops[] = {
        [FG_MATCH_EQ] = "=", [FG_MATCH_NE] = "!=", [FG_MATCH_RE] = "=~", [FG_MATCH_NRE] = "!~"};

    fg_buf_putc(out, '{');
    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (i > 0)
            fg_buf_putc(out, ',');
        if (fg_lexer_is_name(matcher->name))
            fg_buf_put(out, matcher->name);
        else
            fg_labels_quote(matcher->name, out);
        fg_buf_puts(out, ops[matcher->op]);
        fg_labels_quote(matcher->value, out);
    }
    fg_buf_putc(out, '}');
}
