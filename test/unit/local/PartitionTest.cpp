#include "test/unit/local/LocalTest.h"
