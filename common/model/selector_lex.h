/*
 * Splits label selectors into tokens; private to selector.c. The tokens differ inside and outside
 * of braces: colons are part of metric names, operators and strings of matchers only.
 */
#ifndef FG_COMMON_MODEL_SELECTOR_LEX_H
#define FG_COMMON_MODEL_SELECTOR_LEX_H

#include "common/base/arena.h"
#include "common/base/err.h"

enum fg_token_kind {
    FG_TOKEN_END,
    FG_TOKEN_IDENT,
    FG_TOKEN_STRING,
    FG_TOKEN_OPEN,
    FG_TOKEN_CLOSE,
    FG_TOKEN_COMMA,
    FG_TOKEN_EQ,
    FG_TOKEN_NE,
    FG_TOKEN_RE,
    FG_TOKEN_NRE,
    FG_TOKEN_OTHER, /* any other character */
};

struct fg_selector_token {
    enum fg_token_kind kind;
    size_t at;            /* where it begins, bytes */
    struct fg_slice text; /* as written, quotes included */
    struct fg_slice
        value; /* of a string: without quotes and escapes; in the arena if it had escapes */
};

struct fg_lexer {
    struct fg_slice in;
    size_t at;
    bool in_braces;
    struct fg_arena *arena;
};

/* Reads the next token. FG_E_INVALID, FG_E_LIMIT: the arena is full. */
enum fg_code fg_lexer_next(struct fg_lexer *lexer, struct fg_selector_token *ret_token,
                           struct fg_err *err) fg_must_check;

/* Sets FG_E_INVALID: "line:column: parse error: ...", for byte `at` of the text. */
enum fg_code fg_lexer_fail(const struct fg_lexer *lexer, size_t at, struct fg_err *err,
                           const char *fmt, ...) fg_printf(4, 5);

/* Returns whether the text is a name that needs no quotes: [a-zA-Z_][a-zA-Z0-9_]*. */
bool fg_lexer_is_name(struct fg_slice text);

#endif
