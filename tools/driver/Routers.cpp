//===- Routers.cpp - How tokens reach experts in a program ----------------===//
#include "tools/driver/Routers.h"

#include "ir/Dialect.h"
#include "ir/ExpertLoads.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Passes.h"
#include "tools/driver/ModelShape.h"

using namespace mlir;

namespace dpc {

namespace {

struct Router {
  /// Of the largest mixture whose products pick matrices by ids; 0: none.
  int64_t experts = 0;
  int64_t perToken = 0; ///< 0: not recognized
  double slotsPerChoice = 0;
};

/// Products by ids compute every choice. Other mixtures have slots.
Router routerOf(func::FuncOp func) {
  Router router;
  func.walk([&](ExpertMatmulOp product) {
    int64_t experts = shapeOf(product.getW()).front();
    ArrayRef<int64_t> ids = shapeOf(product.getIds());
    if (experts < router.experts)
      return;
    router.experts = experts;
    router.perToken =
        std::max(router.perToken, ids.size() > 1 ? ids.back() : 1);
  });
  if (router.experts == 0) {
    exports::ModelShape shape = modelShapeOf(func);
    router.perToken = shape.expertsPerToken;
    router.slotsPerChoice = shape.slotsPerChoice;
  }
  return router;
}

} // namespace

std::string storeRouting(ModuleOp model, const cost::Routing &routing) {
  if (routing.isBalanced())
    return "";
  Router router = routerOf(model.lookupSymbol<func::FuncOp>(kForwardFunction));
  if (router.perToken == 0)
    return "--routing=" + routing.name() +
           ": the model has no experts; accepted: models with experts";
  if (router.experts == 0)
    return ""; // Slots take the same time under any routing.
  std::string why = routing.whyNotFor(router.experts);
  if (why.empty())
    setExpertLoads(model, routing.loads(router.experts, router.perToken));
  return why;
}

std::vector<double> loadsOfRouting(func::FuncOp program,
                                   const cost::Routing &routing) {
  Router router = routerOf(program);
  bool isTimed = !routing.isBalanced() && router.perToken > 0 &&
                 router.experts > 0 &&
                 routing.whyNotFor(router.experts).empty();
  return isTimed ? routing.loads(router.experts, router.perToken)
                 : std::vector<double>();
}

std::optional<cost::ExpertLoads> expertLoadsOf(func::FuncOp program,
                                               int64_t experts, int64_t ranks,
                                               const cost::Routing &routing) {
  if (experts <= 1)
    return std::nullopt;
  Router router = routerOf(program);
  if (router.perToken == 0)
    return std::nullopt;
  return cost::ExpertLoads{.experts = experts,
                           .perToken = router.perToken,
                           .ranks = ranks,
                           .slotsPerChoice = router.slotsPerChoice,
                           .assumed = routing};
}

} // namespace dpc
