#include "common/model/regex.h"

#include <cstdio>
#include <re2/re2.h>
#include <string>

struct fg_regex {
    RE2 re2;
};

static RE2::Options options()
{
    RE2::Options options;

    /* RE2 compiles to automata; beyond this memory a pattern is refused, or matches more slowly. */
    options.set_max_mem(FG_REGEX_MEMORY_MAX_BYTES);
    options.set_log_errors(false); /* a bad pattern is the client's error, not an event of ours */
    /* As in Prometheus, whose patterns are "(?s:...)". */
    options.set_dot_nl(true);
    return options;
}

static re2::StringPiece piece(const void *ptr, size_t len)
{
    return re2::StringPiece(static_cast<const char *>(ptr), len);
}

fg_regex *fg_regex_create(const void *pattern, size_t len, char *error, size_t error_max)
{
    if (len > FG_REGEX_PATTERN_MAX_BYTES) {
        (void)std::snprintf(error, error_max, "pattern of %zu bytes is longer than %d", len,
                            static_cast<int>(FG_REGEX_PATTERN_MAX_BYTES));
        return nullptr;
    }
    auto *regex = new fg_regex{RE2(piece(pattern, len), options())};
    if (regex->re2.ok())
        return regex;
    (void)std::snprintf(error, error_max, "%s", regex->re2.error().c_str());
    delete regex;
    return nullptr;
}

void fg_regex_destroy(fg_regex *regex)
{
    delete regex;
}

bool fg_regex_matches(const fg_regex *regex, const void *text, size_t len)
{
    /* Anchored at both ends, as matchers of PromQL are. */
    return RE2::FullMatch(piece(text, len), regex->re2);
}

bool fg_regex_groups(const fg_regex *regex, const void *text, size_t len, fg_regex_group *groups,
                     size_t n)
{
    re2::StringPiece found[FG_REGEX_GROUPS_MAX];

    if (!regex->re2.Match(piece(text, len), 0, len, RE2::ANCHOR_BOTH, found, static_cast<int>(n)))
        return false;
    for (size_t i = 0; i < n; i++)
        groups[i] = {found[i].data(), found[i].size()};
    return true;
}

size_t fg_regex_group_count(const fg_regex *regex)
{
    return static_cast<size_t>(regex->re2.NumberOfCapturingGroups());
}

size_t fg_regex_group_number(const fg_regex *regex, const void *name, size_t len)
{
    const auto &numbers = regex->re2.NamedCapturingGroups();
    const auto found = numbers.find(std::string(static_cast<const char *>(name), len));

    /* Group 0 is the whole match, so no name can have it. */
    return found == numbers.end() ? 0 : static_cast<size_t>(found->second);
}
