//===- CompilerFixture.h - What tests of the compiler need ------*- C++ -*-===//
#pragma once

#include "frontends/onnx/Import.h"
#include "runtime/io/InitialValues.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace dpc {

/// Provides a temporary folder, a context with all dialects and passes, and the
/// models of test/fixtures.
class CompilerFixture : public testing::Test {
protected:
  std::filesystem::path root;
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  CompileOptions options;
  rt::InitChoice init;

  void SetUp() override {
    std::string name = testing::TempDir() + "dpc-tools-XXXXXX"; // for mkdtemp
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    registerEverything(registry);
    context = std::make_unique<mlir::MLIRContext>(registry);
    context->loadAllAvailableDialects();
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  mlir::OwningOpRef<mlir::ModuleOp> importAndRun(const std::string &model,
                                                 int64_t batch,
                                                 const PassList &passes) {
    options.model = DPC_FIXTURES "/models/" + model + "/model.onnx";
    ImportOptions import;
    import.globalBatch = batch;
    auto module = importOnnx(options.model, *context, import);
    EXPECT_TRUE(succeeded(module));
    makeSourcesAbsolute(**module);
    EXPECT_TRUE(succeeded(runPasses(**module, passes)));
    return std::move(*module);
  }

  static cost::Strategy strategyOf(const std::string &text, int64_t ranks,
                                   int64_t batch) {
    auto request = cost::parseStrategy(text, ranks);
    EXPECT_TRUE(request) << request.message();
    cost::StrategySpace space;
    space.ranks = ranks;
    space.globalBatch = batch;
    return cost::enumerateStrategies(*request, space)[0];
  }
};

} // namespace dpc
