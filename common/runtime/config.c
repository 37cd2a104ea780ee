#include "common/runtime/config.h"

#include "common/base/str.h"
#include "common/runtime/config_internal.h"
#include "common/runtime/log.h"
#include "common/runtime/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { HOST_MAX_BYTES = 256 }; /* a DNS name has at most 253 characters */

static enum fg_code set_defaults(struct fg_conf *conf, struct fg_err *err)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        const struct fg_conf_section *section = &conf->sections[i];

        for (size_t k = 0; k < section->n_fields; k++) {
            struct fg_conf_at at = {section, &section->fields[k]};
            const char *def = at.field->def == NULL ? "" : at.field->def;

            if (fg_conf_set(&at, fg_cstr(def), "the default", err) != FG_OK)
                return err->code;
        }
    }
    return FG_OK;
}

enum { READ_BYTES = 4096 }; /* a page: most files of settings are smaller */

static enum fg_code read_all(int fd, const char *path, struct fg_buf *out, struct fg_err *err)
{
    for (;;) {
        ssize_t n;

        if (!fg_buf_reserve(out, READ_BYTES))
            return FG_OK; /* longer than the parser accepts, which says so */
        n = read(fd, out->ptr + out->len, out->cap - out->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fg_fail_errno(err, errno, "%s", path);
        if (n == 0)
            return FG_OK;
        out->len += (size_t)n;
    }
}

enum fg_code fg_conf_read_file(const char *path, struct fg_buf *out, struct fg_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum fg_code code;

    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", path);
    code = read_all(fd, path, out, err);
    (void)close(fd);
    return code;
}

static enum fg_code set_from_file(struct fg_conf *conf, const char *path, struct fg_err *err)
{
    struct fg_buf yaml;
    enum fg_code code;

    fg_buf_init(&yaml, FG_YAML_MAX_BYTES + READ_BYTES);
    code = fg_conf_read_file(path, &yaml, err);
    if (code == FG_OK)
        code = fg_conf_parse_yaml(conf, fg_buf_slice(&yaml), path, err);
    fg_buf_done(&yaml);
    return code;
}

static bool is_env_name(struct fg_slice name, const struct fg_conf_at *at)
{
    struct fg_buf known;
    bool same;

    fg_buf_init(&known, FG_CONF_PATH_MAX_BYTES);
    fg_conf_styled_path(at, FG_CONF_STYLE_ENV, &known);
    same = fg_slice_eq(fg_buf_slice(&known), name);
    fg_buf_done(&known);
    return same;
}

static bool find_env(const struct fg_conf *conf, struct fg_slice name, struct fg_conf_at *ret_at)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        for (size_t k = 0; k < conf->sections[i].n_fields; k++) {
            *ret_at = (struct fg_conf_at){&conf->sections[i], &conf->sections[i].fields[k]};
            if (is_env_name(name, ret_at))
                return true;
        }
    }
    return false;
}

static enum fg_code set_from_variable(struct fg_conf *conf, struct fg_slice variable,
                                      struct fg_err *err)
{
    size_t prefix = strlen(FG_CONF_ENV_PREFIX);
    size_t equals = FG_MIN(fg_slice_find(variable, '='), variable.len);
    struct fg_slice name = fg_slice_sub(variable, 0, equals);
    struct fg_slice value = fg_slice_sub(variable, equals + 1, variable.len);
    struct fg_slice path = fg_slice_sub(name, prefix, name.len);
    char where[FG_CONF_PATH_MAX_BYTES];
    struct fg_conf_at at;

    if (!find_env(conf, path, &at)) {
        /* Told, but no reason not to start: Kubernetes puts a variable there for every service. */
        (void)fg_conf_unknown(conf, path, FG_CONF_STYLE_ENV, " in the environment", err);
        fg_log_warn("environment variable ignored", fg_ls("why", err->msg));
        return FG_OK;
    }
    (void)snprintf(where, sizeof where, "%.*s", FG_S(name));
    return fg_conf_set(&at, value, where, err);
}

/* name is without the dashes in front. */
static enum fg_code find_flag(struct fg_conf *conf, struct fg_slice name, struct fg_conf_at *ret_at,
                              struct fg_err *err)
{
    char path[FG_CONF_PATH_MAX_BYTES];

    if (name.len >= sizeof path)
        return fg_fail(err, FG_E_INVALID, "a flag of %zu bytes", name.len);
    /* --log-level and --log_level are the same flag. */
    for (size_t i = 0; i < name.len; i++)
        path[i] = (char)(name.ptr[i] == '-' ? '_' : name.ptr[i]);
    if (!fg_conf_find(conf, fg_bytes(path, name.len), ret_at))
        return fg_conf_unknown(conf, name, FG_CONF_STYLE_FLAG, "", err);
    return FG_OK;
}

static enum fg_code set_from_flags(struct fg_conf *conf, char *const *flags, size_t n_flags,
                                   struct fg_err *err)
{
    for (size_t i = 0; i < n_flags; i++) {
        struct fg_slice flag = fg_cstr(flags[i]);
        struct fg_slice text = fg_slice_sub(flag, 2, flag.len), value;
        size_t equals = fg_slice_find(text, '=');
        struct fg_slice name = fg_slice_sub(text, 0, equals);
        char where[FG_CONF_PATH_MAX_BYTES];
        struct fg_conf_at at;

        if (!fg_slice_starts(flag, "--") || flag.len == 2)
            return fg_fail(err, FG_E_INVALID, "unexpected argument \"%.100s\"", flags[i]);
        if (find_flag(conf, name, &at, err) != FG_OK)
            return err->code;
        if (equals != SIZE_MAX) {
            value = fg_slice_sub(text, equals + 1, text.len);
        } else if (i + 1 < n_flags && !fg_slice_starts(fg_cstr(flags[i + 1]), "--")) {
            value = fg_cstr(flags[++i]);
        } else {
            return fg_fail(err, FG_E_INVALID, "flag %.100s needs a value", flags[i]);
        }
        (void)snprintf(where, sizeof where, "--%.*s", FG_S(name));
        if (fg_conf_set(&at, value, where, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

enum fg_code fg_conf_load(struct fg_conf *conf, const char *yaml_path, char *const *env,
                          char *const *flags, size_t n_flags, struct fg_err *err)
{
    /* Each source overrides the ones before: defaults, file, environment, flags. */
    if (set_defaults(conf, err) != FG_OK)
        return err->code;
    if (yaml_path != NULL && yaml_path[0] != '\0' && set_from_file(conf, yaml_path, err) != FG_OK)
        return err->code;
    for (; env != NULL && *env != NULL; env++) {
        struct fg_slice variable = fg_cstr(*env);

        if (fg_slice_starts(variable, FG_CONF_ENV_PREFIX) &&
            set_from_variable(conf, variable, err) != FG_OK)
            return err->code;
    }
    return set_from_flags(conf, flags, n_flags, err);
}

void fg_conf_done(struct fg_conf *conf)
{
    for (size_t i = 0; i < conf->n_sections; i++) {
        const struct fg_conf_section *section = &conf->sections[i];

        for (size_t k = 0; k < section->n_fields; k++) {
            struct fg_conf_at at = {section, &section->fields[k]};

            fg_conf_free(&at);
        }
    }
}

enum fg_code fg_conf_default_host(char **value, const char *setting, struct fg_err *err)
{
    char host[HOST_MAX_BYTES];

    if ((*value)[0] != '\0')
        return FG_OK;
    if (gethostname(host, sizeof host) != 0 || memchr(host, '\0', sizeof host) == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "the name of this host cannot be determined: set %s",
                       setting);
    free(*value);
    *value = fg_malloc(strlen(host) + 1);
    memcpy(*value, host, strlen(host) + 1);
    return FG_OK;
}

void fg_conf_copy(const struct fg_conf_section *section, void *values)
{
    struct fg_conf_section copy = *section;
    struct fg_buf text;

    copy.values = values;
    fg_buf_init(&text, SIZE_MAX);
    for (size_t k = 0; k < section->n_fields; k++) {
        struct fg_conf_at from = {section, &section->fields[k]}, to = {&copy, &section->fields[k]};
        struct fg_err err;

        /* Through its text, which is what each type knows how to do. */
        fg_buf_clear(&text);
        fg_conf_print(&from, &text);
        fg_assert(fg_conf_set(&to, fg_buf_slice(&text), "copy", &err) == FG_OK);
    }
    fg_buf_done(&text);
}
