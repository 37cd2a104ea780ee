#include "proto/jfr/names.h"

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Without the longest prefix of such bytes; *ret_count: how many those were. */
static struct fg_slice pass(struct fg_slice text, bool (*is)(uint8_t), size_t *ret_count)
{
    size_t n = 0;

    while (n < text.len && is(text.ptr[n]))
        n++;
    *ret_count = n;
    return fg_slice_sub(text, n, SIZE_MAX);
}

/* Takes the prefix off, where it is one. */
static bool take(struct fg_slice *text, const char *prefix)
{
    if (!fg_slice_starts(*text, prefix))
        return false;
    *text = fg_slice_sub(*text, strlen(prefix), SIZE_MAX);
    return true;
}

/* Takes the suffix off, where it is one. */
static bool take_end(struct fg_slice *text, const char *suffix)
{
    if (!fg_slice_ends(*text, suffix))
        return false;
    *text = fg_slice_sub(*text, 0, text->len - strlen(suffix));
    return true;
}

static bool all(struct fg_slice text, bool (*is)(uint8_t))
{
    size_t n;

    return pass(text, is, &n).len == 0 && n > 0;
}

/*
 * Texts after "$$Lambda" (a number, an address, a hash), in the ways of the JVM's versions:
 *   $669.0x0000000800fd7318   .0x00007ffa600c4da0   /0x00007ffa600c4da0   $14/1408974251   27
 *   $83+0x00007f39a8034a70/102065302
 */
static bool is_lambda(struct fg_slice rest)
{
    struct fg_slice numbered = rest;
    size_t n, parts = 0;

    if (all(rest, is_digit))
        return true;
    if (take(&numbered, "$")) {
        rest = pass(numbered, is_digit, &n);
        if (n == 0)
            return false;
    }
    for (; take(&rest, ".") || take(&rest, "/") || take(&rest, "+"); parts++) {
        (void)take(&rest, "0x");
        rest = pass(rest, is_hex, &n);
        if (n == 0)
            return false;
    }
    return rest.len == 0 && parts > 0;
}

/* Returns how much of a generated class's name is the same for all of its kind; 0: it is none. */
static size_t class_stem(struct fg_slice name)
{
    static const char accessor[] = "jdk/internal/reflect/GeneratedMethodAccessor";
    static const char lambda[] = "$$Lambda", spring[] = "$$EnhancerBySpringCGLIB$$";
    struct fg_slice rest = name;
    size_t at;

    if (take(&rest, accessor) && all(rest, is_digit))
        return strlen(accessor);
    at = fg_slice_search(name, "$$");
    if (at == SIZE_MAX || at == 0)
        return 0;
    at = fg_slice_search(name, spring);
    if (at != SIZE_MAX && at > 0)
        return at + strlen(spring);
    at = fg_slice_search(name, lambda);
    if (at == SIZE_MAX || at == 0)
        return 0;
    at += strlen(lambda);
    return is_lambda(fg_slice_sub(name, at, SIZE_MAX)) ? at : 0;
}

static bool is_version(struct fg_slice *text)
{
    size_t n;

    for (unsigned part = 0; part < 3; part++) {
        *text = pass(*text, is_digit, &n);
        if (n == 0 || !take(text, part < 2 ? "." : "-"))
            return false;
    }
    return true;
}

/* libzstd-jni-1.5.1-16931311898282279136 */
static bool is_zstd(struct fg_slice name)
{
    return take(&name, "libzstd-jni-") && is_version(&name) && all(name, is_digit);
}

/* libamazonCorrettoCryptoProvider109b39cf33c563eb
 * amazonCorrettoCryptoProviderNativeLibraries.7382c2f79097f415/libcrypto */
static bool is_corretto(struct fg_slice name)
{
    (void)take(&name, "lib");
    if (!take(&name, "amazonCorrettoCryptoProvider"))
        return false;
    (void)take(&name, "NativeLibraries.");
    if (name.len < 16 || !all(fg_slice_sub(name, 0, 16), is_hex))
        return false;
    name = fg_slice_sub(name, 16, SIZE_MAX);
    return name.len == 0 || fg_slice_is(name, "/libcrypto") ||
           fg_slice_is(name, "/libamazonCorrettoCryptoProvider");
}

/* libasyncProfiler-linux-arm64-17b9a1d8156277a98ccc871afa9a8f69215f92 */
static bool is_profiler(struct fg_slice name)
{
    return take(&name, "libasyncProfiler-") &&
           take_end(&name, "-17b9a1d8156277a98ccc871afa9a8f69215f92") && name.len > 0;
}

/* Returns the name of a library that was unpacked into a temporary file; NULL: it is none. */
static const char *library(struct fg_slice name)
{
    (void)take_end(&name, " (deleted)");
    if (!take_end(&name, ".so"))
        return NULL;
    if (!take(&name, "./tmp/"))
        (void)take(&name, "/tmp/");
    if (is_zstd(name))
        return "libzstd-jni-_.so";
    if (is_corretto(name))
        return "libamazonCorrettoCryptoProvider_.so";
    return is_profiler(name) ? "libasyncProfiler-_.so" : NULL;
}

void fg_jfr_name_clean(struct fg_buf *text, size_t from)
{
    struct fg_slice name = fg_slice_sub(fg_buf_slice(text), from, SIZE_MAX);
    size_t stem = class_stem(name);
    const char *other;

    if (stem > 0) {
        text->len = from + stem;
        fg_buf_putc(text, '_');
        return;
    }
    other = library(name);
    if (other != NULL) {
        text->len = from;
        fg_buf_puts(text, other);
    }
}
