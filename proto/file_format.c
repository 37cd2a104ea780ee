#include "proto/file_format.h"

#include "common/base/str.h"
#include "proto/flamebearer.h"
#include "proto/perf_script.h"

/* A page: stacks as text show in their first lines what they are. */
enum { LOOK_BYTES = 4096 };

static const char *const names[] = {
    [FG_FILE_PPROF] = "pprof",
    [FG_FILE_FOLDED] = "folded",
    [FG_FILE_LINES] = "lines",
    [FG_FILE_JFR] = "jfr",
    [FG_FILE_TRIE] = "trie",
    [FG_FILE_TREE] = "tree",
    [FG_FILE_SPEEDSCOPE] = "speedscope",
    [FG_FILE_FLAMEBEARER] = "flamebearer",
    [FG_FILE_PERF_SCRIPT] = "perf_script",
};

static const struct {
    const char *ending;
    enum fg_file_format format;
} endings[] = {
    {".pb", FG_FILE_PPROF},
    {".pprof", FG_FILE_PPROF},
    {".jfr", FG_FILE_JFR},
    {".folded", FG_FILE_FOLDED},
    {".txt", FG_FILE_FOLDED},
    {".lines", FG_FILE_LINES},
    {".collapsed", FG_FILE_FOLDED},
    {".trie", FG_FILE_TRIE},
    {".tree", FG_FILE_TREE},
    {".json", FG_FILE_SPEEDSCOPE},
    {".perf_script", FG_FILE_PERF_SCRIPT},
};

const char *fg_file_format_name(enum fg_file_format format)
{
    fg_assert(format < FG_COUNT(names));
    return names[format];
}

bool fg_file_format_is_ingested(enum fg_file_format format)
{
    return format != FG_FILE_FLAMEBEARER && format != FG_FILE_PERF_SCRIPT;
}

bool fg_file_format_parse(struct fg_slice name, enum fg_file_format *ret_format)
{
    /* Names that /ingest takes for the same format. */
    if (fg_slice_is(name, "groups") || fg_slice_is(name, "collapsed"))
        name = FG_LIT("folded");
    for (size_t i = 0; i < FG_COUNT(names); i++)
        if (fg_slice_is(name, names[i])) {
            *ret_format = (enum fg_file_format)i;
            return true;
        }
    return false;
}

/* In any case of letters: CPU.JFR is a recording, too. */
static bool ends_with(struct fg_slice name, const char *ending)
{
    size_t len = strlen(ending);

    return name.len >= len && fg_slice_is_nocase(fg_slice_sub(name, name.len - len, len), ending);
}

static struct fg_slice without_ending(struct fg_slice name, const char *ending)
{
    return ends_with(name, ending) ? fg_slice_sub(name, 0, name.len - strlen(ending)) : name;
}

/* A plain pprof begins with messages that are full of small numbers; stacks as text have none. */
static bool is_text(struct fg_slice content)
{
    struct fg_slice head = fg_slice_sub(content, 0, LOOK_BYTES);

    fg_assert(head.len == 0 || head.ptr != NULL);
    for (size_t i = 0; i < head.len; i++)
        if (head.ptr[i] < ' ' && head.ptr[i] != '\t' && head.ptr[i] != '\n' && head.ptr[i] != '\r')
            return false;
    return true;
}

/* Tells formats apart that have the same ending, or none. */
static enum fg_file_format look_closer(enum fg_file_format format, struct fg_slice content)
{
    if (format == FG_FILE_SPEEDSCOPE && fg_flamebearer_is(content))
        return FG_FILE_FLAMEBEARER;
    if (format == FG_FILE_FOLDED && fg_perf_script_is(content))
        return FG_FILE_PERF_SCRIPT;
    return format;
}

enum fg_file_format fg_file_format_find(struct fg_slice name, struct fg_slice content)
{
    /* Endings of compression say nothing of what is inside. */
    struct fg_slice plain = without_ending(without_ending(name, ".gz"), ".zst");

    /* The magic number comes before any name: nothing else begins with it. */
    if (content.len >= 4 && memcmp(content.ptr, "FLR\0", 4) == 0)
        return FG_FILE_JFR;
    for (size_t i = 0; i < FG_COUNT(endings); i++)
        if (ends_with(plain, endings[i].ending))
            return ends_with(plain, ".txt") || endings[i].format == FG_FILE_SPEEDSCOPE
                       ? look_closer(endings[i].format, content)
                       : endings[i].format;
    if (!is_text(content)) /* which also says that it is compressed */
        return FG_FILE_PPROF;
    return look_closer(fg_slice_starts(fg_trim(content), "{") ? FG_FILE_SPEEDSCOPE : FG_FILE_FOLDED,
                       content);
}
