#include "tests/lib/seeds.h"

#include <stdlib.h>

uint64_t test_seeds(uint64_t otherwise)
{
    const char *text = getenv("FG_TEST_SEEDS");

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}
