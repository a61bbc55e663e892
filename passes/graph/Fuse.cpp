#include "passes/graph/Match.h"
#include "passes/graph/Passes.h"
namespace dpc {
#define GEN_PASS_DEF_DPCFUSE
#include "passes/graph/Passes.h.inc"
struct FusePass : impl::DpcFuseBase<FusePass> { void runOnOperation() override {} };
}
