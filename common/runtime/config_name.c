/* Finds settings by name, and the nearest name for an unknown one. */
#include "common/base/str.h"
#include "common/runtime/config_internal.h"

void fg_conf_path(const struct fg_conf_at *at, struct fg_buf *out)
{
    if (at->section->name[0] != '\0') {
        fg_buf_puts(out, at->section->name);
        fg_buf_putc(out, '.');
    }
    fg_buf_puts(out, at->field->key);
}

/* The rest of the path below the section; ptr is NULL when it is not below. */
static struct fg_slice below(struct fg_slice path, const char *section)
{
    size_t len = strlen(section);

    if (len == 0)
        return path;
    if (path.len <= len || !fg_slice_starts(path, section) || path.ptr[len] != '.')
        return fg_bytes(NULL, 0);
    return fg_slice_sub(path, len + 1, path.len);
}

bool fg_conf_find(const struct fg_conf *conf, struct fg_slice path, struct fg_conf_at *ret_at)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        const struct fg_conf_section *section = &conf->sections[i];
        struct fg_slice key = below(path, section->name);

        for (size_t k = 0; key.len > 0 && k < section->n_fields; k++) {
            if (fg_slice_is(key, section->fields[k].key)) {
                *ret_at = (struct fg_conf_at){section, &section->fields[k]};
                return true;
            }
        }
    }
    return false;
}

bool fg_conf_is_section(const struct fg_conf *conf, struct fg_slice path)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        struct fg_slice name = fg_cstr(conf->sections[i].name);

        if (fg_slice_eq(name, path))
            return true;
        if (name.len > path.len && name.ptr[path.len] == '.' &&
            fg_slice_eq(fg_slice_sub(name, 0, path.len), path))
            return true;
    }
    return false;
}

/* ---- of other programs ---- */

static bool has_section(const struct fg_conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->n_sections; i++)
        if (strcmp(conf->sections[i].name, name) == 0)
            return true;
    return false;
}

static bool is_of(const struct fg_conf *conf, const struct fg_conf_other *other,
                  struct fg_slice path)
{
    struct fg_slice key = below(path, other->name);

    if (other->keys == NULL)
        return !has_section(conf, other->name) && (fg_slice_is(path, other->name) || key.len > 0);
    for (size_t i = 0; key.len > 0 && other->keys[i] != NULL; i++)
        if (fg_slice_is(key, other->keys[i]))
            return true;
    return !has_section(conf, other->name) && fg_slice_is(path, other->name);
}

bool fg_conf_is_other(const struct fg_conf *conf, struct fg_slice path)
{
    struct fg_conf_at at;

    if (fg_conf_find(conf, path, &at))
        return false;
    for (size_t i = 0; i < conf->n_others; i++)
        if (is_of(conf, &conf->others[i], path))
            return true;
    return false;
}

/* ---- the nearest known name ---- */

struct nearest {
    enum fg_conf_style style;
    struct fg_slice wanted;
    size_t distance;
    struct fg_buf name; /* empty: nothing is near */
};

/* ingester.head_max_bytes -> INGESTER_HEAD_MAX_BYTES */
static uint8_t env_letter(uint8_t c)
{
    if (c == '.' || c == '-')
        return '_';
    return c >= 'a' && c <= 'z' ? (uint8_t)(c - 'a' + 'A') : c;
}

static struct fg_slice last_part(struct fg_slice path)
{
    for (size_t i = path.len; i > 0; i--)
        if (path.ptr[i - 1] == '.')
            return fg_slice_sub(path, i, path.len);
    return path;
}

static void consider(struct nearest *nearest, struct fg_slice known)
{
    size_t distance = fg_edit_distance(nearest->wanted, known);

    /* The right key in the wrong section is as near as a typing error. */
    if (fg_slice_eq(last_part(nearest->wanted), last_part(known)))
        distance = FG_MIN(distance, 2);
    if (distance >= nearest->distance)
        return;
    nearest->distance = distance;
    fg_buf_clear(&nearest->name);
    fg_buf_put(&nearest->name, known);
}

void fg_conf_styled_path(const struct fg_conf_at *at, enum fg_conf_style style, struct fg_buf *out)
{
    size_t from = out->len;

    fg_conf_path(at, out);
    for (size_t i = from; style == FG_CONF_STYLE_ENV && i < out->len; i++)
        out->ptr[i] = env_letter(out->ptr[i]);
}

static void consider_section(struct nearest *nearest, const struct fg_conf_section *section)
{
    struct fg_buf path;

    fg_buf_init(&path, FG_CONF_PATH_MAX_BYTES);
    if (section->name[0] != '\0' && nearest->style == FG_CONF_STYLE_YAML)
        consider(nearest, fg_cstr(section->name));
    for (size_t k = 0; k < section->n_fields; k++) {
        struct fg_conf_at at = {section, &section->fields[k]};

        fg_buf_clear(&path);
        fg_conf_styled_path(&at, nearest->style, &path);
        consider(nearest, fg_buf_slice(&path));
    }
    fg_buf_done(&path);
}

enum fg_code fg_conf_unknown(const struct fg_conf *conf, struct fg_slice path,
                             enum fg_conf_style style, const char *where, struct fg_err *err)
{
    static const char *const what[] = {"key", "variable", "flag"};
    static const char *const prefix[] = {"", FG_CONF_ENV_PREFIX, "--"};
    struct nearest nearest = {
        .style = style, .wanted = path, .distance = fg_edit_distance_max(path.len) + 1};
    size_t len;

    fg_buf_init(&nearest.name, FG_CONF_PATH_MAX_BYTES);
    for (size_t i = 0; i < conf->n_sections; i++)
        consider_section(&nearest, &conf->sections[i]);
    (void)fg_fail(err, FG_E_INVALID, "unknown %s \"%s%.*s\"%.128s", what[style], prefix[style],
                  FG_S(fg_slice_sub(path, 0, 100)), where);
    len = strlen(err->msg);
    if (nearest.name.len > 0)
        (void)snprintf(err->msg + len, sizeof err->msg - len, "; did you mean \"%s%.*s\"?",
                       prefix[style], FG_S(fg_buf_slice(&nearest.name)));
    fg_buf_done(&nearest.name);
    return err->code;
}
