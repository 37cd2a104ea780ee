#include "common/model/selector_lex.h"

#include "common/base/str.h"

#include <stdarg.h>

enum { RUNE_MAX = 0x10ffff };

enum fg_code fg_lexer_fail(const struct fg_lexer *lexer, size_t at, struct fg_err *err,
                           const char *fmt, ...)
{
    /* Counted only for errors, so that tokens need no positions by line. */
    size_t line = 1, column = 1;
    char text[FG_ERR_MSG_MAX_BYTES];
    va_list args;

    for (size_t i = 0; i < FG_MIN(at, lexer->in.len); i++) {
        bool line_end = lexer->in.ptr[i] == '\n';

        line += line_end;
        column = line_end ? 1 : column + 1;
    }
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fg_fail(err, FG_E_INVALID, "%zu:%zu: parse error: %s", line, column, text);
}

/* The byte at a position; 0 behind the end, which no token begins with. */
static uint8_t peek(const struct fg_lexer *lexer, size_t at)
{
    return at < lexer->in.len ? lexer->in.ptr[at] : 0;
}

static bool is_name_start(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(uint8_t c)
{
    return is_name_start(c) || (c >= '0' && c <= '9');
}

bool fg_lexer_is_name(struct fg_slice text)
{
    if (text.len == 0 || !is_name_start(text.ptr[0]))
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (!is_name(text.ptr[i]))
            return false;
    return true;
}

static void skip_blanks(struct fg_lexer *lexer)
{
    for (; lexer->at < lexer->in.len; lexer->at++) {
        uint8_t c = peek(lexer, lexer->at);

        if (c == '#') {
            while (lexer->at + 1 < lexer->in.len && peek(lexer, lexer->at + 1) != '\n')
                lexer->at++;
        } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
    }
}

/* ---- strings ---- */

static uint32_t digit_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - (uint32_t)'0';
    if (c >= 'a' && c <= 'f')
        return c - (uint32_t)'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - (uint32_t)'A' + 10;
    return UINT32_MAX;
}

/* A number of exactly count digits; UINT32_MAX when they are not all there. */
static uint32_t digits(const struct fg_lexer *lexer, size_t at, size_t count, uint32_t base)
{
    uint32_t value = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t digit = digit_value(peek(lexer, at + i));

        if (digit >= base)
            return UINT32_MAX;
        value = value * base + digit;
    }
    return value;
}

/* The escapes that stand for one byte by a letter; -1: none of them. */
static int escape_letter(uint8_t c)
{
    static const char letters[] = "abfnrtv\\\"'", bytes[] = "\a\b\f\n\r\t\v\\\"'";
    const char *hit = c == 0 ? NULL : strchr(letters, c);

    return hit == NULL ? -1 : bytes[hit - letters];
}

/*
 * The escape whose backslash is at lexer->at: puts its bytes, at most FG_UTF8_RUNE_MAX_BYTES and
 * never more than it takes in the text, and moves behind it.
 */
static enum fg_code escape(struct fg_lexer *lexer, uint8_t *out, size_t *ret_len,
                           struct fg_err *err)
{
    size_t at = lexer->at + 1;
    uint8_t c = peek(lexer, at);
    size_t count = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t value;

    *ret_len = 1;
    if (escape_letter(c) >= 0) {
        out[0] = (uint8_t)escape_letter(c);
        lexer->at = at + 1;
        return FG_OK;
    }
    if (count == 0 && (c < '0' || c > '7'))
        return fg_lexer_fail(lexer, lexer->at, err, "unknown escape sequence in quoted string");
    value = count > 0 ? digits(lexer, at + 1, count, 16) : digits(lexer, at, 3, 8);
    /* Surrogates are no characters, and three octal digits can exceed a byte: both as Go refuses
     * them. */
    if (value > RUNE_MAX || (count == 0 && value > UINT8_MAX) ||
        (value >= 0xd800 && value < 0xe000))
        return fg_lexer_fail(lexer, lexer->at, err, "invalid escape sequence in quoted string");
    if (count > 2)
        *ret_len = fg_utf8_put(value, out);
    else
        out[0] = (uint8_t)value;
    lexer->at = count > 0 ? at + 1 + count : at + 3;
    return FG_OK;
}

/* Returns where the string that begins at `at` ends, which is its last quote; SIZE_MAX: none. */
static size_t string_end(const struct fg_lexer *lexer, size_t at)
{
    uint8_t quote = peek(lexer, at);

    for (size_t i = at + 1; i < lexer->in.len; i++) {
        uint8_t c = lexer->in.ptr[i];

        if (c == quote)
            return i;
        if (quote != '`' && c == '\n')
            return SIZE_MAX;
        if (quote != '`' && c == '\\')
            i++;
    }
    return SIZE_MAX;
}

static enum fg_code unescape(struct fg_lexer *lexer, size_t end, struct fg_slice *ret_value,
                             struct fg_err *err)
{
    /* No escape is shorter than what it stands for, so the text's own length is enough. */
    uint8_t *out = fg_arena_alloc(lexer->arena, end - lexer->at);
    size_t len = 0, more;

    if (out == NULL)
        return fg_fail(err, FG_E_LIMIT, "string of %zu bytes", end - lexer->at);
    while (lexer->at < end) {
        if (lexer->in.ptr[lexer->at] != '\\') {
            out[len++] = lexer->in.ptr[lexer->at++];
            continue;
        }
        if (escape(lexer, out + len, &more, err) != FG_OK)
            return err->code;
        len += more;
    }
    *ret_value = fg_bytes(out, len);
    return FG_OK;
}

/* Strings of PromQL: '...' and "..." with escapes and without line ends, `...` without escapes. */
static enum fg_code lex_string(struct fg_lexer *lexer, struct fg_selector_token *token,
                               struct fg_err *err)
{
    size_t end = string_end(lexer, token->at);
    bool raw = peek(lexer, token->at) == '`';

    if (end == SIZE_MAX)
        return fg_lexer_fail(lexer, token->at, err, "unterminated %s string",
                             raw ? "raw" : "quoted");
    token->kind = FG_TOKEN_STRING;
    token->text = fg_slice_sub(lexer->in, token->at, end + 1 - token->at);
    token->value = fg_slice_sub(token->text, 1, token->text.len - 2);
    if (!fg_utf8_valid(token->value))
        return fg_lexer_fail(lexer, token->at, err, "invalid UTF-8 in quoted string");
    lexer->at = token->at + 1;
    if (!raw && fg_slice_find(token->value, '\\') != SIZE_MAX &&
        unescape(lexer, end, &token->value, err) != FG_OK)
        return err->code;
    lexer->at = end + 1;
    return FG_OK;
}

/* ---- the rest ---- */

static void set_token(struct fg_lexer *lexer, struct fg_selector_token *token,
                      enum fg_token_kind kind, size_t len)
{
    token->kind = kind;
    token->text = fg_slice_sub(lexer->in, token->at, len);
    lexer->at = token->at + len;
}

static void lex_ident(struct fg_lexer *lexer, struct fg_selector_token *token)
{
    size_t end = token->at;

    /* Names of metrics may have colons, names of labels may not. */
    while (is_name(peek(lexer, end)) || (!lexer->in_braces && peek(lexer, end) == ':'))
        end++;
    set_token(lexer, token, FG_TOKEN_IDENT, end - token->at);
}

/* A character of one or more bytes, for an error text. */
static struct fg_slice character(const struct fg_lexer *lexer, size_t at)
{
    size_t len = at < lexer->in.len;

    while (len > 0 && (peek(lexer, at + len) & 0xc0) == 0x80)
        len++;
    return fg_slice_sub(lexer->in, at, len);
}

static enum fg_code lex_in_braces(struct fg_lexer *lexer, struct fg_selector_token *token,
                                  struct fg_err *err)
{
    uint8_t c = peek(lexer, token->at);

    if (token->at == lexer->in.len)
        return fg_lexer_fail(lexer, token->at, err, "unexpected end of input inside braces");
    if (is_name_start(c))
        lex_ident(lexer, token);
    else if (c == '"' || c == '\'' || c == '`')
        return lex_string(lexer, token, err);
    else if (c == '!') {
        uint8_t second = peek(lexer, token->at + 1);

        if (second != '=' && second != '~')
            return fg_lexer_fail(lexer, token->at, err,
                                 "unexpected character after '!' inside braces: '%.*s'",
                                 FG_S(character(lexer, token->at + 1)));
        set_token(lexer, token, second == '=' ? FG_TOKEN_NE : FG_TOKEN_NRE, 2);
        return FG_OK;
    } else if (c == '=' && peek(lexer, token->at + 1) == '~')
        set_token(lexer, token, FG_TOKEN_RE, 2);
    else if (c == '=')
        set_token(lexer, token, FG_TOKEN_EQ, 1);
    else if (c == ',')
        set_token(lexer, token, FG_TOKEN_COMMA, 1);
    else if (c == '}')
        set_token(lexer, token, FG_TOKEN_CLOSE, 1);
    else
        return fg_lexer_fail(lexer, token->at, err, "unexpected character inside braces: '%.*s'",
                             FG_S(character(lexer, token->at)));
    return FG_OK;
}

enum fg_code fg_lexer_next(struct fg_lexer *lexer, struct fg_selector_token *ret_token,
                           struct fg_err *err)
{
    uint8_t c;

    skip_blanks(lexer);
    *ret_token = (struct fg_selector_token){.kind = FG_TOKEN_END, .at = lexer->at};
    if (lexer->in_braces)
        return lex_in_braces(lexer, ret_token, err);
    c = peek(lexer, lexer->at);
    if (lexer->at == lexer->in.len)
        return FG_OK;
    if (is_name_start(c) || c == ':')
        lex_ident(lexer, ret_token);
    else if (c == '{')
        set_token(lexer, ret_token, FG_TOKEN_OPEN, 1);
    else
        set_token(lexer, ret_token, FG_TOKEN_OTHER, character(lexer, lexer->at).len);
    return FG_OK;
}
