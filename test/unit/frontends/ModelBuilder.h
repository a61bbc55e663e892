//===- ModelBuilder.h - ONNX models for tests -------------------*- C++ -*-===//
//
// Tests build their model beside the results that they expect:
//
//   ModelBuilder m;
//   m.input("x", "f32[2,3]").node("Relu x -> y").output("y");
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_FRONTENDS_MODELBUILDER_H
#define DPC_TEST_UNIT_FRONTENDS_MODELBUILDER_H

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

  /// `type`: "f32[batch,3]", "i64[]", "i1[2]"; sizes or symbols.
  ModelBuilder &input(const std::string &name, const std::string &type);
  /// A float initializer as raw data; `values` repeat as needed.
  ModelBuilder &floats(const std::string &name, std::vector<int64_t> dims,
                       std::vector<float> values);
  /// An i64 initializer of rank 1, or rank 0 for `scalar`.
  ModelBuilder &ints(const std::string &name, std::vector<int64_t> values);
  ModelBuilder &scalar(const std::string &name, int64_t value);
  /// An f32 initializer in `file`, which need not exist.
  ModelBuilder &external(const std::string &name, std::vector<int64_t> dims,
                         const std::string &file, int64_t offset);
  /// "Op a b -> y z"; "_" is an omitted input or output.
  ModelBuilder &node(const std::string &text, Attrs attrs = {},
                     const std::string &domain = "");
  ModelBuilder &output(const std::string &name);

  /// A graph of the nodes so far, for a branch of an If.
  ::onnx::GraphProto graph() const { return model.graph(); }

  /// Writes the model to a new file and returns its path.
  std::string write() const;

  ::onnx::ModelProto model;

private:
  ::onnx::TensorProto &initializer(const std::string &name,
                                   const std::vector<int64_t> &dims,
                                   int32_t type);
};

/// The result of an import: a module or a message.
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

/// An array of the given shape and elements.
HostArray array(std::vector<int64_t> shape, std::vector<double> data);

/// Imports and runs a model without weights on `inputs`. If the import fails,
/// the test fails and the result is empty.
std::vector<HostArray> evaluate(const ModelBuilder &builder,
                                const std::vector<HostArray> &inputs);

/// Checks the shape and the elements of an array.
void expectNear(const HostArray &got, const HostArray &want,
                double tolerance = 1e-6);

} // namespace dpc::test

#endif // DPC_TEST_UNIT_FRONTENDS_MODELBUILDER_H
