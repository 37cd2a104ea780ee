#include "proto/jfr/names.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* want NULL: stays as it is */
static const struct {
    const char *name, *want;
} cases[] = {
    {"", NULL},
    {"java/lang/Thread", NULL},
    {"$$", NULL},

    {"jdk/internal/reflect/GeneratedMethodAccessor31",
     "jdk/internal/reflect/GeneratedMethodAccessor_"},
    {"jdk/internal/reflect/GeneratedMethodAccessor", NULL},
    {"jdk/internal/reflect/GeneratedMethodAccessor31a", NULL},
    {"my/jdk/internal/reflect/GeneratedMethodAccessor31", NULL},

    {"org/example/OrderService$$Lambda$669.0x0000000800fd7318",
     "org/example/OrderService$$Lambda_"},
    {"Fib$$Lambda.0x00007ffa600c4da0", "Fib$$Lambda_"},
    {"Fib$$Lambda/0x00007ffa600c4da0", "Fib$$Lambda_"},
    {"Fib$$Lambda$14/1408974251", "Fib$$Lambda_"},
    {"Fib$$Lambda$14/0x0000000800066840", "Fib$$Lambda_"},
    {"Fib$$Lambda27", "Fib$$Lambda_"},
    {"java.lang.Foo$$Lambda$83+0x00007f39a8034a70/102065302", "java.lang.Foo$$Lambda_"},
    {"Fib$$Lambda", NULL},
    {"Fib$$Lambda$14", NULL},
    {"Fib$$Lambda$", NULL},
    {"Fib$$Lambda$/12", NULL},
    {"Fib$$Lambda$14/", NULL},
    {"Fib$$Lambda$14/0x12xyz", NULL},
    {"Fib$$LambdaForm", NULL},
    {"$$Lambda$14/1408974251", NULL},

    {"a/B$$EnhancerBySpringCGLIB$$9c5f1f6a", "a/B$$EnhancerBySpringCGLIB$$_"},
    {"a/B$$EnhancerBySpringCGLIB$$", "a/B$$EnhancerBySpringCGLIB$$_"},
    {"a/B$$EnhancerBySpringCGLIB$$1$$FastClassBySpringCGLIB$$2", "a/B$$EnhancerBySpringCGLIB$$_"},
    {"a/B$$FastClassBySpringCGLIB$$2", NULL},

    {"libzstd-jni-1.5.1-16931311898282279136.so", "libzstd-jni-_.so"},
    {"./tmp/libzstd-jni-1.5.1-16931311898282279136.so", "libzstd-jni-_.so"},
    {"/tmp/libzstd-jni-1.5.1-16931311898282279136.so (deleted)", "libzstd-jni-_.so"},
    {"libzstd-jni-1.5.1.so", NULL},
    {"libzstd-jni-1.5.1-12a.so", NULL},
    {"libzstd-jni-1.5-12.so", NULL},
    {"/opt/libzstd-jni-1.5.1-12.so", NULL},

    {"libamazonCorrettoCryptoProvider109b39cf33c563eb.so", "libamazonCorrettoCryptoProvider_.so"},
    {"./tmp/libamazonCorrettoCryptoProvider109b39cf33c563eb.so (deleted)",
     "libamazonCorrettoCryptoProvider_.so"},
    {"./tmp/amazonCorrettoCryptoProviderNativeLibraries.7382c2f79097f415/libcrypto.so (deleted)",
     "libamazonCorrettoCryptoProvider_.so"},
    {"/tmp/amazonCorrettoCryptoProviderNativeLibraries.7382c2f79097f415/"
     "libamazonCorrettoCryptoProvider.so",
     "libamazonCorrettoCryptoProvider_.so"},
    {"libamazonCorrettoCryptoProvider109b39cf33c563e.so", NULL},
    {"libamazonCorrettoCryptoProvider109b39cf33c563ebff.so", NULL},
    {"libamazonCorrettoCryptoProvider.so", NULL},

    {"libasyncProfiler-linux-arm64-17b9a1d8156277a98ccc871afa9a8f69215f92.so",
     "libasyncProfiler-_.so"},
    {"/tmp/libasyncProfiler-linux-musl-x64-17b9a1d8156277a98ccc871afa9a8f69215f92.so",
     "libasyncProfiler-_.so"},
    {"libasyncProfiler-linux-x64-00b9a1d8156277a98ccc871afa9a8f69215f92.so", NULL},
    {"libasyncProfiler.so", NULL},
    {"libc.so", NULL},
    {"x (deleted)", NULL},
};

static void generated_names_become_one(void **state)
{
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, 1024);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        const char *want = cases[i].want == NULL ? cases[i].name : cases[i].want;

        print_message("  %s\n", cases[i].name);
        fg_buf_clear(&text);
        fg_buf_puts(&text, "A$$Lambda$1/2."); /* what stands before is not looked at */
        fg_buf_puts(&text, cases[i].name);
        fg_jfr_name_clean(&text, strlen("A$$Lambda$1/2."));
        assert_true(fg_slice_starts(fg_buf_slice(&text), "A$$Lambda$1/2."));
        fg_buf_putc(&text, '\0');
        assert_string_equal((char *)text.ptr + strlen("A$$Lambda$1/2."), want);
    }
    fg_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_names_become_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
