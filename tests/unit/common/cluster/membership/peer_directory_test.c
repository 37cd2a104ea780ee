/* Peers by address, as their names come to mean other addresses, or none. */
#include "common/cluster/membership/peer_directory.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { NAMES = 2, ADDRESSES = 2 };

/* What names mean: the last number of 127.0.0.x each, 0: no further one. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER; /* of the next */
static uint8_t names[NAMES][ADDRESSES];
static _Atomic unsigned look_ups;

struct found {
    struct addrinfo info;
    struct sockaddr_in address;
};

static struct found *new_found(uint8_t number)
{
    struct found *found = fg_new(struct found);

    found->address.sin_family = AF_INET;
    found->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number);
    found->info.ai_family = AF_INET;
    found->info.ai_addr = (struct sockaddr *)&found->address;
    found->info.ai_addrlen = sizeof found->address;
    return found;
}

/* "a" is the first name, "b" the second one. The linker gives our libraries this one. There is
 * nobody to be called, so nng's own look-ups find nothing. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    struct addrinfo *list = NULL;
    unsigned name = (unsigned)(node[0] - 'a');

    (void)service, (void)hints;
    if (name >= NAMES)
        return EAI_NONAME;
    (void)pthread_mutex_lock(&names_lock);
    for (unsigned i = 0; i < ADDRESSES && names[name][i] != 0; i++) {
        struct found *found = new_found(names[name][i]);

        found->info.ai_next = list;
        list = &found->info;
    }
    (void)pthread_mutex_unlock(&names_lock);
    (void)atomic_fetch_add(&look_ups, 1);
    *result = list;
    return list == NULL ? EAI_NONAME : 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list != NULL) {
        struct addrinfo *next = list->ai_next;

        free(fg_container(list, struct found, info));
        list = next;
    }
}

struct fixture {
    struct fg_peers *peers;
    struct fg_peer_directory *directory;
};

static void say(unsigned name, uint8_t first, uint8_t second)
{
    (void)pthread_mutex_lock(&names_lock);
    names[name][0] = first;
    names[name][1] = second;
    (void)pthread_mutex_unlock(&names_lock);
}

/* Waits until all names were looked up at least once since the call, and returns what is known as
 * bits: 1 << x for the address 127.0.0.(1 + x). */
static unsigned known(struct fixture *f)
{
    unsigned until = atomic_load(&look_ups) + 2 * NAMES + 1, bits = 0;
    struct fg_peer_set *set;

    while (atomic_load(&look_ups) < until)
        (void)usleep(1000);
    set = fg_peer_directory_get(f->directory);
    for (uint32_t i = 0; i < set->n; i++) {
        unsigned number = 0;

        assert_int_equal(sscanf(set->members[i].url, "tcp://127.0.0.%u:9", &number), 1);
        assert_in_range(number, 2, 30);
        assert_int_equal(bits & 1u << (number - 1), 0); /* each address once */
        bits |= 1u << (number - 1);
    }
    fg_peer_set_unref(set);
    return bits;
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    const struct fg_peer_directory_config config = {
        .addresses = "tcp://a:9, tcp://b:9", .kind = "querier", .every_ns = 5 * FG_MS_NS};
    struct fg_peer_directory_config own = config;
    struct fg_err err;

    say(0, 1, 2);
    say(1, 3, 0);
    f->peers = fg_peers_create(&(struct fg_peers_config){.calls_max = 1, .peers_max = 16});
    own.peers = f->peers;
    assert_int_equal(fg_peer_directory_create(&own, &f->directory, &err), FG_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_peer_directory_destroy(f->directory);
    fg_peers_destroy(f->peers);
    free(f);
    return 0;
}

static void members_follow_their_names(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(known(f), 1 << 1 | 1 << 2 | 1 << 3);
    say(0, 2, 4);
    assert_int_equal(known(f), 1 << 2 | 1 << 3 | 1 << 4);
    say(1, 2, 0); /* both names have it */
    assert_int_equal(known(f), 1 << 2 | 1 << 4);
}

static void a_name_that_does_not_resolve_keeps_its_members(void **state)
{
    struct fixture *f = *state;

    (void)known(f);
    say(0, 0, 0);
    say(1, 0, 0);
    assert_int_equal(known(f), 1 << 1 | 1 << 2 | 1 << 3);
    say(0, 4, 0);
    assert_int_equal(known(f), 1 << 3 | 1 << 4);
}

static void a_name_that_does_not_resolve_keeps_no_members_of_other_names(void **state)
{
    struct fixture *f = *state;

    say(0, 1, 3); /* 3 is also a member of the name that is lost */
    (void)known(f);
    say(1, 0, 0);
    for (uint8_t number = 4; number < 9; number++) {
        say(0, number, 0);
        assert_int_equal(known(f), 1 << 3 | 1 << number);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(members_follow_their_names),
        TEST(a_name_that_does_not_resolve_keeps_its_members),
        TEST(a_name_that_does_not_resolve_keeps_no_members_of_other_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
