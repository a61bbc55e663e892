#include "passes/local/Passes.h"
