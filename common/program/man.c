#include "common/program/man.h"

#include <ctype.h>

void fg_man_text(const char *text, struct fg_buf *out)
{
    bool first = true; /* of its line, where '.' and '\'' begin a request */

    for (const char *c = text; *c != '\0'; c++) {
        if (first && (*c == '.' || *c == '\''))
            fg_buf_puts(out, "\\&");
        if (*c == '-')
            /* A plain "-" may become a typographic hyphen, which cannot be copied into a shell. */
            fg_buf_puts(out, "\\-");
        else if (*c == '\\')
            fg_buf_puts(out, "\\e");
        else
            fg_buf_putc(out, (uint8_t)*c);
        first = *c == '\n';
    }
}

void fg_man_section(const char *title, const char *text, struct fg_buf *out)
{
    /* .nf keeps the line ends: texts are laid out for --help. */
    fg_buf_printf(out, ".SH %s\n.nf\n", title);
    fg_man_text(text, out);
    fg_buf_puts(out, ".fi\n");
}

static void put_bound(const char *what, const char *bound, struct fg_buf *out)
{
    if (bound == NULL || bound[0] == '\0')
        return;
    fg_buf_printf(out, " %s: ", what);
    fg_man_text(bound, out);
    fg_buf_putc(out, '.');
}

static void put_setting(const struct fg_conf_section *section, const struct fg_conf_field *field,
                        struct fg_buf *out)
{
    fg_buf_puts(out, ".TP\n.BR \\-\\-");
    fg_man_text(section->name, out);
    if (section->name[0] != '\0')
        fg_buf_putc(out, '.');
    fg_man_text(field->key, out);

    static const char *const names[] = {
        [FG_CONF_BOOL] = "true|false", [FG_CONF_UINT] = "NUMBER",  [FG_CONF_BYTES] = "BYTES",
        [FG_CONF_NS] = "DURATION",     [FG_CONF_FLOAT] = "NUMBER", [FG_CONF_STRING] = "TEXT",
        [FG_CONF_SECRET] = "TEXT",     [FG_CONF_ENUM] = "",        [FG_CONF_YAML] = "YAML",
    };

    fg_buf_printf(out, " =\\fI%s\\fR\n",
                  field->type == FG_CONF_ENUM ? field->choices : names[field->type]);
    fg_man_text(field->doc, out);
    /* An empty default is left out by put_bound(). */
    put_bound("Default", field->def, out);
    /* The bounds of a text are of its length, which no reader of a page needs. */
    if (field->type != FG_CONF_STRING && field->type != FG_CONF_SECRET &&
        field->type != FG_CONF_YAML) {
        put_bound("Minimum", field->min, out);
        put_bound("Maximum", field->max, out);
    }
    fg_buf_putc(out, '\n');
}

void fg_man_head(const char *name, int section, const char *what, struct fg_buf *out)
{
    fg_buf_puts(out, ".TH ");
    for (const char *c = name; *c != '\0'; c++)
        fg_buf_putc(out, *c == ' ' ? '-' : (uint8_t)toupper((unsigned char)*c));
    fg_buf_printf(out, " %d\n.SH NAME\n", section);
    for (const char *c = name; *c != '\0'; c++) /* apropos(1) wants one word */
        if (*c == ' ' || *c == '-')
            fg_buf_puts(out, "\\-");
        else
            fg_buf_putc(out, (uint8_t)*c);
    fg_buf_puts(out, " \\- ");
    fg_man_text(what, out);
    fg_buf_putc(out, '\n');
}

void fg_man_program(const char *name, const char *what, const struct fg_conf *conf,
                    struct fg_buf *out)
{
    fg_man_head(name, 8, what, out);
    fg_buf_puts(out, ".SH SYNOPSIS\n.B ");
    fg_man_text(name, out);
    fg_buf_puts(out, "\n[\\-\\-config \\fIFILE\\fR] [\\-\\-\\fIKEY\\fR=\\fIVALUE\\fR ...]\n");
    fg_man_section("DESCRIPTION",
                   "Runs until SIGTERM or SIGINT, then answers what it has received and ends.\n"
                   "Settings come from the YAML file, from FG_... variables of the environment\n"
                   "(FG_LOG_LEVEL for --log_level), and from flags, which win.\n",
                   out);
    fg_buf_puts(out, ".SH OPTIONS\n.TP\n.BR \\-\\-config \" \\fIFILE\\fR\"\nThe YAML file.\n"
                     ".TP\n.B \\-\\-help\nShows the settings.\n");
    for (size_t i = 0; i < conf->n_sections; i++)
        for (size_t k = 0; k < conf->sections[i].n_fields; k++)
            put_setting(&conf->sections[i], &conf->sections[i].fields[k], out);
    fg_man_section("EXIT STATUS",
                   "0  it was told to stop\n"
                   "1  it could not start\n"
                   "2  a setting is wrong; nothing was done\n",
                   out);
}
