/*
 * Man pages (man(7)), written from the tables that --help shows.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_PROGRAM_MAN_H
#define FG_COMMON_PROGRAM_MAN_H

#include "common/runtime/config.h"

/* Appends text so that troff prints it as it is: escapes backslashes, dashes, and dots and quotes
 * that begin a line. */
void fg_man_text(const char *text, struct fg_buf *out);

/* Appends a section whose lines stay as they are. */
void fg_man_section(const char *title, const char *text, struct fg_buf *out);

/* Appends the title and the section NAME, by which apropos(1) finds the page. name: as it is
 * called, "flamegrid push"; section: 1 to 8; what: one line that says what it does. */
void fg_man_head(const char *name, int section, const char *what, struct fg_buf *out);

/*
 * Appends the page of a program that has settings: synopsis, flags with types, defaults, bounds and
 * descriptions, files, signals and exit codes. name: as it is called, "flamegrid-ingester" or
 * "flamegrid server". what: one line that says what it does.
 */
void fg_man_program(const char *name, const char *what, const struct fg_conf *conf,
                    struct fg_buf *out);

#endif
