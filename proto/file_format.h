/*
 * The formats of files with profiles: their names, and which one a file has. /ingest reads all but
 * the last two, which are for looking at.
 *
 * Pure. Thread: any.
 */
#ifndef FG_PROTO_FILE_FORMAT_H
#define FG_PROTO_FILE_FORMAT_H

#include "common/base/slice.h"

enum fg_file_format {
    FG_FILE_PPROF,
    FG_FILE_FOLDED,
    FG_FILE_LINES,
    FG_FILE_JFR,
    FG_FILE_TRIE,
    FG_FILE_TREE,
    FG_FILE_SPEEDSCOPE,
    FG_FILE_FLAMEBEARER,
    FG_FILE_PERF_SCRIPT,
};

/* Returns the name, which is the value of the parameter `format` of /ingest, if that reads it. */
const char *fg_file_format_name(enum fg_file_format format);

/* Returns whether /ingest reads the format. */
bool fg_file_format_is_ingested(enum fg_file_format format);

/* Finds a format by its name, or by "groups" or "collapsed". Returns false if there is none. */
bool fg_file_format_parse(struct fg_slice name, enum fg_file_format *ret_format) fg_must_check;

/*
 * Returns the format of a file. The first bytes of a JFR recording decide, then the end of the
 * name, in front of ".gz" or ".zst": .pb and .pprof, .jfr, .folded, .collapsed and .txt, .lines,
 * .trie, .tree, .json, .perf_script. Else the content decides: a JSON object is speedscope's; bytes
 * that are no text are pprof, and so is a compressed file; all else is folded. JSON with a member
 * `flamebearer` is flamebearer JSON, and .txt, or text without an ending, that begins with a sample
 * of perf is perf script.
 */
enum fg_file_format fg_file_format_find(struct fg_slice name, struct fg_slice content);

#endif
