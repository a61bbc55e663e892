//===- NodeContext.h - Conversion context of one ONNX node ------*- C++ -*-===//
#pragma once

#include "frontends/emit/Handler.h"
#include "frontends/onnx/Flatten.h"

#include "llvm/ADT/StringMap.h"

namespace dpc::frontend {

/// A converter's view of its node. If the node lacks a requested item,
/// accessors note a failure and return null or a default, so that callers need
/// not check.
class NodeContext {
public:
  NodeContext(Emitter &emit, const ModelFile &file, const FlatNode &node,
              llvm::SmallVector<Val> inputs)
      : emit(emit), file(file), node(node), inputs(std::move(inputs)),
        outputs(node.proto.output_size()) {}

  Emitter &emit;
  const ModelFile &file;
  const FlatNode &node;

  int64_t opset() const { return node.opset; }
  llvm::StringRef opType() const { return node.proto.op_type(); }
  mlir::MLIRContext *context() const { return emit.builder.getContext(); }
  template <typename... Args> Val fail(const Args &...args) {
    return emit.fail(args...);
  }

  int64_t numInputs() const { return static_cast<int64_t>(inputs.size()); }
  bool has(int64_t i) const { return i < numInputs() && inputs[i]; }
  /// Returns input `i`, which must exist.
  Val in(int64_t i);
  template <typename First> Val required(int64_t i) { return in(i); }
  /// Returns all inputs, none of which may be missing.
  llvm::SmallVector<Val> allIn();
  /// Returns the elements of input `i`, which must be known at import time.
  Shape intsIn(int64_t i);
  /// Returns the only element of input `i`, which must be known at import time.
  double numberIn(int64_t i);

  bool hasAttr(llvm::StringRef name) const { return findAttr(name); }
  int64_t intAttr(llvm::StringRef name, int64_t fallback) const;
  double floatAttr(llvm::StringRef name, double fallback) const;
  llvm::StringRef stringAttr(llvm::StringRef name,
                             llvm::StringRef fallback) const;
  Shape intsAttr(llvm::StringRef name) const;
  const ::onnx::AttributeProto *findAttr(llvm::StringRef name) const;

  /// Returns integers that are in attribute `name` in older operator sets and
  /// in input `i` in newer ones, or nullopt if both are missing.
  std::optional<Shape> intsAttrOrIn(llvm::StringRef name, int64_t i);

  /// Returns input `i`, which is broadcast to input 0. Before operator set 7,
  /// attribute `axis` says with which dimension of input 0 it is aligned.
  Val secondIn(int64_t i);

  /// Returns `value`, counted from the end if negative; fails if out of range.
  int64_t axis(int64_t value, int64_t rank);

  /// Whether output `i` has a name, so that nodes can read it.
  bool wants(int64_t i) const {
    return i < node.proto.output_size() && !node.proto.output(i).empty();
  }
  void out(int64_t i, Val value) {
    if (i < static_cast<int64_t>(outputs.size()))
      outputs[i] = std::move(value);
  }
  void out(Val value) { out(0, std::move(value)); }

  llvm::SmallVector<Val> inputs;
  llvm::SmallVector<Val> outputs;
};

/// Converters of the default operator set, by operator.
using OpTable = llvm::StringMap<Handler<NodeContext>>;

// One function per file of ops/ registers its converters.
void addAttentionOps(OpTable &table);
void addElementwiseOps(OpTable &table);
void addIndexingOps(OpTable &table);
void addMovementOps(OpTable &table);
void addQuantizedOps(OpTable &table);
void addRecurrentOps(OpTable &table);
void addResizeOps(OpTable &table);
void addRowOps(OpTable &table);
void addShapeOps(OpTable &table);
void addSpatialOps(OpTable &table);

/// Emits a convolution with the node's strides, pads, dilations and groups.
Val convolution(NodeContext &c, Val x, Val w);

/// Whether `op` accepts sequences of tensors as inputs.
bool takesSequences(llvm::StringRef op);

} // namespace dpc::frontend
