#include "common/model/pattern.h"

/* ---- patterns ---- */

/* A literal, and behind it nothing, .*, .+, or one of these in parentheses. */
static bool read_plain(struct fg_slice text, struct fg_pattern *pattern)
{
    /* Up to the first character that means something in a regular expression. */
    static const char special[] = "\\.+*?()|[]{}^$";
    size_t len = 0;

    while (len < text.len && memchr(special, text.ptr[len], sizeof special - 1) == NULL)
        len++;

    struct fg_slice rest = fg_slice_sub(text, len, text.len);
    bool is_group = fg_slice_is(rest, "(.*)") || fg_slice_is(rest, "(.+)");

    if (is_group)
        rest = fg_slice_sub(rest, 1, 2);
    *pattern = (struct fg_pattern){
        .start = fg_slice_sub(text, 0, len),
        .open = rest.len > 0,
        /* '.' also matches a line end (set_dot_nl() in regex.cc), so ".*" is any rest. */
        .rest_min = fg_slice_is(rest, ".+"),
        .rest_is_group = is_group,
    };
    return rest.len == 0 || fg_slice_is(rest, ".*") || fg_slice_is(rest, ".+");
}

enum fg_code fg_pattern_init(struct fg_pattern *pattern, struct fg_slice text,
                             struct fg_arena *arena, struct fg_err *err)
{
    char problem[FG_ERR_MSG_MAX_BYTES / 2];

    if (read_plain(text, pattern)) {
        pattern->start = fg_arena_copy(arena, pattern->start);
        return pattern->start.ptr != NULL
                   ? FG_OK
                   : fg_fail(err, FG_E_LIMIT, "pattern of %zu bytes", text.len);
    }
    *pattern = (struct fg_pattern){
        .regex = fg_regex_create(text.ptr, text.len, problem, sizeof problem),
    };
    return pattern->regex != NULL ? FG_OK : fg_fail(err, FG_E_INVALID, "%s", problem);
}

void fg_pattern_done(struct fg_pattern *pattern)
{
    fg_regex_destroy(pattern->regex);
    *pattern = (struct fg_pattern){0};
}

static bool match_plain(const struct fg_pattern *pattern, struct fg_slice text,
                        struct fg_slice *groups, size_t n)
{
    struct fg_slice rest = fg_slice_sub(text, pattern->start.len, text.len);

    if (!fg_slice_eq(fg_slice_sub(text, 0, pattern->start.len), pattern->start) ||
        rest.len < pattern->rest_min || (rest.len > 0 && !pattern->open))
        return false;
    for (size_t i = 0; i < n; i++)
        groups[i] = i == 0 ? text : i == 1 && pattern->rest_is_group ? rest : FG_LIT("");
    return true;
}

static bool match_regex(const struct fg_pattern *pattern, struct fg_slice text,
                        struct fg_slice *groups, size_t n)
{
    struct fg_regex_group found[FG_REGEX_GROUPS_MAX];

    if (n <= 1) { /* the whole is the text */
        if (n == 1)
            groups[0] = text;
        return fg_regex_matches(pattern->regex, text.ptr, text.len);
    }
    if (!fg_regex_groups(pattern->regex, text.ptr, text.len, found, n))
        return false;
    for (size_t i = 0; i < n; i++)
        groups[i] = fg_bytes(found[i].ptr, found[i].len);
    return true;
}

bool fg_pattern_match(const struct fg_pattern *pattern, struct fg_slice text,
                      struct fg_slice *groups, size_t n)
{
    return pattern->regex == NULL ? match_plain(pattern, text, groups, n)
                                  : match_regex(pattern, text, groups, n);
}

/* ---- templates ---- */

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/*
 * The name at the start of what follows a $, with its braces if it has any; as long as possible, so
 * that $1x is a group called 1x. Returns how many bytes it takes; 0: it is none.
 */
static size_t read_name(struct fg_slice text, struct fg_slice *ret_name)
{
    bool brace = text.len > 0 && text.ptr[0] == '{';
    size_t len = 0;

    if (brace)
        text = fg_slice_sub(text, 1, text.len);
    while (len < text.len && is_word(text.ptr[len]))
        len++;
    *ret_name = fg_slice_sub(text, 0, len);
    if (len == 0 || (brace && (len == text.len || text.ptr[len] != '}')))
        return 0;
    return brace ? len + 2 : len;
}

/* Digits that do not begin with a needless 0. Very many are a number beyond all groups. */
static bool read_number(struct fg_slice name, size_t *ret_number)
{
    size_t number = 0;

    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] < '0' || name.ptr[i] > '9')
            return false;
        number = FG_MIN(number * 10 + (size_t)(name.ptr[i] - '0'), (size_t)UINT32_MAX);
    }
    *ret_number = number;
    return name.len == 1 || name.ptr[0] != '0';
}

/* The pattern's group of that name or number; false: it has none. */
static bool find_group(const struct fg_pattern *pattern, struct fg_slice name, size_t *ret_group)
{
    size_t count =
        pattern->regex == NULL ? pattern->rest_is_group : fg_regex_group_count(pattern->regex);

    if (read_number(name, ret_group))
        return *ret_group <= count;
    if (pattern->regex == NULL)
        return false;
    *ret_group = fg_regex_group_number(pattern->regex, name.ptr, name.len);
    return *ret_group != 0;
}

static void add_literal(struct fg_template *template, struct fg_slice text)
{
    if (text.len > 0)
        template->parts[template->n_parts++] = (struct fg_template_part){text, FG_TEMPLATE_LITERAL};
}

/* Adds what follows a $. Returns how many bytes of it the reference takes. */
static enum fg_code add_reference(struct fg_template *template, struct fg_slice after,
                                  const struct fg_pattern *pattern, size_t *ret_len,
                                  struct fg_err *err)
{
    struct fg_slice name;
    size_t group;

    if (after.len > 0 && after.ptr[0] == '$') {
        add_literal(template, fg_slice_sub(after, 0, 1));
        *ret_len = 1;
        return FG_OK;
    }
    *ret_len = read_name(after, &name);
    if (*ret_len == 0) {
        add_literal(template, FG_LIT("$"));
        /* An unknown group is empty text, and a $ without a name is itself: Go's Regexp.Expand().
         */
    } else if (find_group(pattern, name, &group)) {
        if (group >= FG_REGEX_GROUPS_MAX)
            return fg_fail(err, FG_E_INVALID, "group %zu is beyond %d", group,
                           FG_REGEX_GROUPS_MAX - 1);
        template->parts[template->n_parts++] = (struct fg_template_part){.group = group};
        template->n_groups = FG_MAX(template->n_groups, group + 1);
    }
    return FG_OK;
}

enum fg_code fg_template_init(struct fg_template *template, struct fg_slice text,
                              const struct fg_pattern *pattern, struct fg_arena *arena,
                              struct fg_err *err)
{
    struct fg_slice rest = fg_arena_copy(arena, text);
    size_t dollars = 0;

    for (size_t i = 0; i < text.len; i++)
        dollars += text.ptr[i] == '$';
    /* A part for each $, and one for what is between them. */
    *template = (struct fg_template){
        .parts = fg_arena_new(arena, struct fg_template_part, 2 * dollars + 1)};
    if (rest.ptr == NULL || template->parts == NULL)
        return fg_fail(err, FG_E_LIMIT, "template of %zu bytes", text.len);
    for (;;) {
        size_t dollar = fg_slice_find(rest, '$'), len;

        add_literal(template, fg_slice_sub(rest, 0, dollar));
        if (dollar == SIZE_MAX)
            return FG_OK;
        rest = fg_slice_sub(rest, dollar + 1, rest.len);
        if (add_reference(template, rest, pattern, &len, err) != FG_OK)
            return err->code;
        rest = fg_slice_sub(rest, len, rest.len);
    }
}

static struct fg_slice part_text(const struct fg_template_part *part, const struct fg_slice *groups)
{
    return part->group == FG_TEMPLATE_LITERAL ? part->literal : groups[part->group];
}

struct fg_slice fg_template_expand(const struct fg_template *template,
                                   const struct fg_slice *groups, struct fg_arena *arena)
{
    size_t len = 0;
    uint8_t *out;

    /* The default, "$1" alone, needs no copy: the group is a part of the text it was found in. */
    if (template->n_parts == 1 && template->parts[0].group != FG_TEMPLATE_LITERAL &&
        groups[template->parts[0].group].len > 0)
        return groups[template->parts[0].group];
    for (size_t i = 0; i < template->n_parts; i++)
        len += part_text(&template->parts[i], groups).len;
    out = fg_arena_alloc(arena, len);
    if (out == NULL)
        return fg_bytes(NULL, 0);
    len = 0;
    for (size_t i = 0; i < template->n_parts; i++) {
        struct fg_slice text = part_text(&template->parts[i], groups);

        if (text.len > 0)
            memcpy(out + len, text.ptr, text.len);
        len += text.len;
    }
    return fg_bytes(out, len);
}
