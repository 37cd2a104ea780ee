#include "common/block/verify.h"
