//===- NodeContext.h - Conversion context of one ONNX node ------*- C++ -*-===//
#ifndef DPC_FRONTENDS_ONNX_NODECONTEXT_H
#define DPC_FRONTENDS_ONNX_NODECONTEXT_H

#include "frontends/emit/Handler.h"
#include "frontends/onnx/Flatten.h"

#include "llvm/ADT/StringMap.h"

namespace dpc::frontend {

/// The view that an operator's converter has of its node: inputs, attributes
/// and outputs. Accessors note a failure and return null or a default if the
/// node lacks the requested item, so callers need not check.
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
  /// Whether optional input `i` is given.
  bool has(int64_t i) const { return i < numInputs() && inputs[i]; }
  /// Input `i`, which must exist.
  Val in(int64_t i);
  template <typename First> Val required(int64_t i) { return in(i); }
  /// All inputs, each of which must exist.
  llvm::SmallVector<Val> allIn();
  /// Input `i` as numbers known at import time. Fails with the value's name if
  /// it is computed from data.
  Shape intsIn(int64_t i);
  /// The single element of constant input `i`.
  double numberIn(int64_t i);

  bool hasAttr(llvm::StringRef name) const { return findAttr(name); }
  int64_t intAttr(llvm::StringRef name, int64_t fallback) const;
  double floatAttr(llvm::StringRef name, double fallback) const;
  llvm::StringRef stringAttr(llvm::StringRef name,
                             llvm::StringRef fallback) const;
  Shape intsAttr(llvm::StringRef name) const;
  const ::onnx::AttributeProto *findAttr(llvm::StringRef name) const;

  /// Integers that older operator sets store in attribute `name` and newer ones
  /// in input `i`; nullopt if neither exists.
  std::optional<Shape> intsAttrOrIn(llvm::StringRef name, int64_t i);

  /// Input `i`, a second operand that is broadcast to the first. Before
  /// operator set 7, attribute `axis` gives the position of its first
  /// dimension.
  Val secondIn(int64_t i);

  /// Normalizes an axis; negative values count from the end. Fails if it is out
  /// of range.
  int64_t axis(int64_t value, int64_t rank);

  /// Whether a node reads output `i`; an output called "" is unused.
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

/// Converters of the default domain by operator name.
using OpTable = llvm::StringMap<Handler<NodeContext>>;

// Each function registers the converters of one file of ops/.
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

/// A convolution with the attributes of the node (strides, pads, groups, ..).
Val convolution(NodeContext &c, Val x, Val w);

/// Whether `op` accepts sequences of tensors; all others accept only tensors.
bool takesSequences(llvm::StringRef op);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_NODECONTEXT_H
