#include "common/base/str.h"
#include "common/runtime/config_internal.h"

#include <stdlib.h>

/* True if a section before this one has its name: then that has written this one as well. */
static bool is_repeated(const struct fg_conf *conf, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(conf->sections[k].name, conf->sections[i].name) == 0)
            return true;
    return false;
}

/* Called for each setting of all sections of one name. */
typedef void fg_conf_visit(const struct fg_conf_at *at, struct fg_buf *out);

static void visit(const struct fg_conf *conf, const char *name, fg_conf_visit *each,
                  struct fg_buf *out)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        if (strcmp(conf->sections[i].name, name) != 0)
            continue;
        for (size_t k = 0; k < conf->sections[i].n_fields; k++) {
            struct fg_conf_at at = {&conf->sections[i], &conf->sections[i].fields[k]};

            each(&at, out);
        }
    }
}

/* ---- YAML ---- */

/* The code point at the front of valid UTF-8, and how long it is. */
static uint32_t code_point(struct fg_slice text, size_t *ret_len)
{
    fg_assert(text.ptr != NULL);
    uint8_t first = text.ptr[0];
    size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t point = len == 1 ? first : first & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++)
        point = point << 6 | (text.ptr[i] & 0x3fu);
    *ret_len = len;
    return point;
}

/* Only plain ASCII stays as it is: YAML takes some of the rest for line ends, some for nothing. */
static void write_quoted(struct fg_slice text, struct fg_buf *out)
{
    size_t len;

    fg_buf_putc(out, '"');
    for (size_t at = 0; at < text.len; at += len) {
        uint32_t point = code_point(fg_slice_sub(text, at, text.len), &len);

        if (point == '"' || point == '\\')
            fg_buf_printf(out, "\\%c", (int)point);
        else if (point >= 0x20 && point < 0x7f)
            fg_buf_putc(out, (uint8_t)point);
        else
            fg_buf_printf(out, point > 0xffff ? "\\U%08x" : "\\u%04x", point);
    }
    fg_buf_putc(out, '"');
}

static void write_text(const struct fg_conf_at *at, struct fg_buf *out)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    fg_conf_print(at, &text);
    /* That none is set may be seen. */
    if (at->field->type == FG_CONF_SECRET && text.len > 0)
        fg_buf_puts(out, "\"***\"");
    else
        write_quoted(fg_buf_slice(&text), out);
    fg_buf_done(&text);
}

static void write_setting(const struct fg_conf_at *at, struct fg_buf *out)
{
    fg_buf_printf(out, "%s%s: ", at->section->name[0] == '\0' ? "" : "  ", at->field->key);
    if (fg_conf_is_text(at->field))
        write_text(at, out);
    else
        fg_conf_print(at, out);
    fg_buf_putc(out, '\n');
}

void fg_conf_write_yaml(const struct fg_conf *conf, struct fg_buf *out)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        if (is_repeated(conf, i))
            continue;
        if (conf->sections[i].name[0] != '\0')
            fg_buf_printf(out, "%s:\n", conf->sections[i].name);
        visit(conf, conf->sections[i].name, write_setting, out);
    }
}

void fg_conf_write_value(const struct fg_conf_field *field, const void *values, struct fg_buf *out)
{
    union { /* nobody writes through it */
        const void *read;
        void *values;
    } given = {.read = values};
    struct fg_conf_section section = {.name = "", .values = given.values};

    if (field->type == FG_CONF_SECRET)
        fg_buf_puts(out, "***");
    else
        fg_conf_print(&(struct fg_conf_at){&section, field}, out);
}

/* ---- one at a time ---- */

/* Prints the default as the value would be: "1024MiB" and "1GiB" are the same. */
static void print_default(const struct fg_conf_at *at, struct fg_buf *out)
{
    const char *def = at->field->def == NULL ? "" : at->field->def;
    struct fg_conf_section scratch = {
        .name = at->section->name,
        .values = fg_calloc(1, at->field->offset + FG_CONF_VALUE_MAX_BYTES)};
    const struct fg_conf_at copy = {&scratch, at->field};
    struct fg_err err;

    /* It was set from this default when the program began, so it is good. */
    fg_assert(fg_conf_set(&copy, fg_cstr(def), "the default", &err) == FG_OK);
    fg_conf_print(&copy, out);
    fg_conf_free(&copy);
    free(scratch.values);
}

void fg_conf_each(const struct fg_conf *conf,
                  void (*each)(void *arg, const struct fg_conf_setting *setting), void *arg)
{
    struct fg_buf name, value, def;

    fg_buf_init(&name, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    fg_buf_init(&def, SIZE_MAX);
    for (size_t i = 0; i < conf->n_sections; i++)
        for (size_t k = 0; k < conf->sections[i].n_fields; k++) {
            struct fg_conf_at at = {&conf->sections[i], &conf->sections[i].fields[k]};
            struct fg_conf_setting setting = {.field = at.field};

            fg_buf_clear(&name);
            fg_buf_clear(&value);
            fg_buf_clear(&def);
            fg_conf_path(&at, &name);
            fg_conf_print(&at, &value);
            print_default(&at, &def);
            setting.name = fg_buf_slice(&name);
            setting.value = fg_buf_slice(&value);
            setting.differs = !fg_slice_eq(setting.value, fg_buf_slice(&def));
            if (at.field->type == FG_CONF_SECRET && value.len > 0)
                setting.value = FG_LIT("***");
            each(arg, &setting);
        }
    fg_buf_done(&def);
    fg_buf_done(&value);
    fg_buf_done(&name);
}

/* ---- Markdown ---- */

/* A bar would end the table's cell. */
static void write_cell(const char *text, struct fg_buf *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            fg_buf_putc(out, '\\');
        fg_buf_putc(out, (uint8_t)*text);
    }
}

static void write_bounds(const struct fg_conf_field *field, struct fg_buf *out)
{
    const char *unit = fg_conf_is_text(field) ? " bytes" : "";

    if (field->min != NULL)
        fg_buf_printf(out, ", at least %s%s", field->min, unit);
    if (field->max != NULL)
        fg_buf_printf(out, ", at most %s%s", field->max, unit);
}

static void write_row(const struct fg_conf_at *at, struct fg_buf *out)
{
    const struct fg_conf_field *field = at->field;

    fg_buf_puts(out, "| `");
    fg_conf_path(at, out);
    fg_buf_puts(out, "` | ");
    if (field->def != NULL && field->def[0] != '\0')
        fg_buf_printf(out, "`%s`", field->def);
    fg_buf_puts(out, " | ");
    write_cell(fg_conf_type_name(field), out);
    write_bounds(field, out);
    fg_buf_puts(out, " | ");
    write_cell(field->doc == NULL ? "" : field->doc, out);
    fg_buf_puts(out, " |\n");
}

void fg_conf_write_docs(const struct fg_conf *conf, struct fg_buf *out)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        const char *name = conf->sections[i].name;

        if (is_repeated(conf, i))
            continue;
        fg_buf_printf(out,
                      "%s## %s\n\n| Setting | Default | Values | Meaning |\n|---|---|---|---|\n",
                      i == 0 ? "" : "\n", name[0] == '\0' ? "Top level" : name);
        visit(conf, name, write_row, out);
    }
}

/* ---- --help ---- */

static void write_flag(const struct fg_conf_at *at, struct fg_buf *out)
{
    const struct fg_conf_field *field = at->field;

    fg_buf_puts(out, "  --");
    fg_conf_path(at, out);
    fg_buf_printf(out, "  %s", fg_conf_type_name(field));
    write_bounds(field, out);
    if (field->def != NULL && field->def[0] != '\0')
        fg_buf_printf(out, " (default %s)", field->def);
    fg_buf_printf(out, "\n      %s\n", field->doc == NULL ? "" : field->doc);
}

void fg_conf_write_help(const struct fg_conf *conf, struct fg_buf *out)
{
    for (size_t i = 0; i < conf->n_sections; i++)
        if (!is_repeated(conf, i))
            visit(conf, conf->sections[i].name, write_flag, out);
}
