//===- ModelBuilder.h - ONNX models for tests -------------------*- C++ -*-===//
//
// Builds a model in the code of a test, for example:
//
//   ModelBuilder m;
//   m.input("x", "f32[2,3]").node("Relu x -> y").output("y");
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Import.h"
#include "test/support/RankInterpreter.h"

#include "onnx-ml.pb.h"

#include <gtest/gtest.h>
#include <string>
#include <variant>
#include <vector>

namespace dpc::test {

/// An attribute of a node.
using AttrValue = std::variant<int64_t, double, std::string,
                               std::vector<int64_t>, ::onnx::GraphProto>;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

class ModelBuilder {
public:
  explicit ModelBuilder(int64_t opset = 17);

  /// `type` is "f32[batch,3]", "i64[]", "i1[2]", ..; sizes can be symbols.
  ModelBuilder &input(const std::string &name, const std::string &type);
  /// Adds a float initializer with raw data; `values` are repeated to fill it.
  ModelBuilder &floats(const std::string &name, std::vector<int64_t> dims,
                       std::vector<float> values);
  /// Adds an i64 initializer of rank 1; `scalar` adds one of rank 0.
  ModelBuilder &ints(const std::string &name, std::vector<int64_t> values);
  ModelBuilder &scalar(const std::string &name, int64_t value);
  /// Adds an f32 initializer with its data in `file`, which need not exist.
  ModelBuilder &external(const std::string &name, std::vector<int64_t> dims,
                         const std::string &file, int64_t offset);
  /// Adds a node: "Op a b -> y z", where "_" omits an input or output.
  ModelBuilder &node(const std::string &text, Attrs attrs = {},
                     const std::string &domain = "");
  ModelBuilder &output(const std::string &name);

  /// Returns the nodes so far as a graph, for the branch of an If.
  ::onnx::GraphProto graph() const { return model.graph(); }

  std::string write() const;

  ::onnx::ModelProto model;

private:
  ::onnx::TensorProto &initializer(const std::string &name,
                                   const std::vector<int64_t> &dims,
                                   int32_t type);
};

struct Imported {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string error; ///< one line, or empty
  std::vector<std::string> remarks;
  std::string text; ///< the printed module
  std::string path; ///< the model's path
  mlir::func::FuncOp function();
};

Imported import(const ModelBuilder &builder, const ImportOptions &options = {});
Imported importFile(const std::string &path, const ImportOptions &options = {});

/// Whether `text` contains `parts` in this order.
testing::AssertionResult inOrder(const std::string &text,
                                 const std::vector<std::string> &parts);

HostArray array(std::vector<int64_t> shape, std::vector<double> data);

/// Imports a model without weights and runs it on `inputs`. If the import
/// fails, the test fails and there are no results.
std::vector<HostArray> evaluate(const ModelBuilder &builder,
                                const std::vector<HostArray> &inputs);

void expectNear(const HostArray &got, const HostArray &want,
                double tolerance = 1e-6);

} // namespace dpc::test
