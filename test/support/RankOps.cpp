//===- RankOps.cpp - Elementwise ops, movement, contractions --------------===//
#include "test/support/RankOps.h"
#include "ir/ScalarSemantics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/RankRowOps.h"

#include <cmath>

using namespace mlir;

namespace dpc::test {

static std::vector<int64_t> shapeOf(Value value) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  return {shape.begin(), shape.end()};
}

/// Returns the position of each local index of one factor, or -1 for padding.
/// The formula (nested ceil) is repeated here so that tests do not depend on
/// the code under test.
static std::vector<int64_t> factorPositions(const ShardingSpec &spec,
                                            const Factor &factor,
                                            const Coordinates &coordinates) {
  int64_t begin = 0, length = factor.size, capacity = factor.size;
  for (int64_t axis : factor.axes) {
    int64_t ranks = spec.mesh.getSizes()[axis];
    int64_t part = (capacity + ranks - 1) / ranks;
    begin += coordinates[axis] * part;
    length = std::clamp<int64_t>(length - coordinates[axis] * part, 0, part);
    capacity = part;
  }
  std::vector<int64_t> result(capacity, -1);
  for (int64_t i = 0; i < length; ++i)
    result[i] = begin + i;
  return result;
}

std::vector<int64_t> globalPositions(const ShardingSpec &spec, int64_t dim,
                                     const Coordinates &coordinates) {
  std::vector<int64_t> result{0};
  for (const Factor &factor : spec.dims[dim]) {
    std::vector<int64_t> next;
    for (int64_t outer : result)
      for (int64_t inner : factorPositions(spec, factor, coordinates))
        next.push_back(outer < 0 || inner < 0 ? -1
                                              : outer * factor.size + inner);
    result = std::move(next);
  }
  return result;
}

std::vector<int64_t> positionsFor(Evaluation &e, int64_t dim, int64_t extent) {
  if (auto global = e.op->getAttrOfType<TypeAttr>("global"))
    return globalPositions(
        *ShardingSpec::get(cast<RankedTensorType>(global.getValue())), dim,
        e.coordinates);
  std::vector<int64_t> result(extent);
  for (int64_t i = 0; i < extent; ++i)
    result[i] = i;
  return result;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// Integer division truncates towards zero. Logical kinds are bitwise.
static double integerBinary(BinaryKind kind, double a, double b) {
  auto bits = [](double x) {
    return llvm::APInt(64, static_cast<uint64_t>(static_cast<int64_t>(x)));
  };
  switch (kind) {
  case BinaryKind::logical_and:
  case BinaryKind::logical_or:
  case BinaryKind::logical_xor:
    return evaluate(kind, bits(a), bits(b), /*isUnsigned=*/false)
        ->signedRoundToDouble();
  case BinaryKind::div:
    return std::trunc(a / b);
  default:
    return evaluate(kind, a, b);
  }
}

static void evalConstant(Evaluation &e) {
  HostArray &out = e.results[0];
  auto value = cast<DenseElementsAttr>(cast<ConstantOp>(e.op).getValue());
  int64_t i = 0;
  if (isa<FloatType>(value.getElementType()))
    for (const APFloat &x : value.getValues<APFloat>())
      out[i++] = x.convertToDouble();
  else
    for (const APInt &x : value.getValues<APInt>())
      out[i++] = x.roundToDouble(/*isSigned=*/x.getBitWidth() > 1 &&
                                 !value.getElementType().isUnsignedInteger());
}

/// Rounds `x` to a float type with less than 16 bits, or to an integer type
/// with less than 64 bits.
static double narrowed(double x, Type type) {
  if (auto floats = dyn_cast<FloatType>(type)) {
    if (floats.getWidth() >= 16)
      return x;
    if (std::isnan(x) && isa<Float4E2M1FNType>(type))
      return 0;
    bool lost;
    APFloat number(x);
    number.convert(floats.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &lost);
    return number.convertToDouble();
  }
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 64 || !std::isfinite(x))
    return std::trunc(x);
  APInt bits(width, static_cast<uint64_t>(static_cast<int64_t>(x)),
             /*isSigned=*/false, /*implicitTrunc=*/true);
  return bits.roundToDouble(/*isSigned=*/!type.isUnsignedInteger());
}

static void evalConvert(Evaluation &e) {
  auto type = cast<RankedTensorType>(e.op->getResult(0).getType());
  Type to = type.getElementType();
  for (int64_t i = 0; i < e.results[0].size(); ++i) {
    double x = (*e.operands[0])[i];
    e.results[0][i] = to.isInteger(1) ? x != 0 : narrowed(x, to);
  }
}

static void evalIota(Evaluation &e) {
  int64_t dim = cast<IotaOp>(e.op).getDim();
  HostArray &out = e.results[0];
  std::vector<int64_t> positions = positionsFor(e, dim, out.shape[dim]);
  int64_t i = 0;
  forEachIndex(out.shape, [&](const std::vector<int64_t> &index) {
    int64_t at = positions[index[dim]];
    out[i++] = at < 0 ? kPadding : static_cast<double>(at);
  });
}

static void addElementwise(std::map<std::string, Handler> &table) {
  table["dpc.constant"] = evalConstant;
  table["dpc.iota"] = evalIota;
  table["dpc.convert"] = evalConvert;
  table["dpc.unary"] = [](Evaluation &e) {
    for (int64_t i = 0; i < e.results[0].size(); ++i)
      e.results[0][i] =
          evaluate(cast<UnaryOp>(e.op).getKind(), (*e.operands[0])[i]);
  };
  table["dpc.binary"] = [](Evaluation &e) {
    bool integers = isa<IntegerType>(getElementTypeOrSelf(e.op->getResult(0)));
    BinaryKind kind = cast<BinaryOp>(e.op).getKind();
    for (int64_t i = 0; i < e.results[0].size(); ++i) {
      double a = (*e.operands[0])[i], b = (*e.operands[1])[i];
      e.results[0][i] =
          integers ? integerBinary(kind, a, b) : evaluate(kind, a, b);
    }
  };
  table["dpc.compare"] = [](Evaluation &e) {
    for (int64_t i = 0; i < e.results[0].size(); ++i)
      e.results[0][i] = evaluate(cast<CompareOp>(e.op).getKind(),
                                 (*e.operands[0])[i], (*e.operands[1])[i]);
  };
  table["dpc.select"] = [](Evaluation &e) {
    for (int64_t i = 0; i < e.results[0].size(); ++i)
      e.results[0][i] = (*e.operands[(*e.operands[0])[i] != 0 ? 1 : 2])[i];
  };
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

/// Sets each result element to the operand element at the offset that `map`
/// returns for its index.
template <typename Map> static void gatherInto(Evaluation &e, Map map) {
  int64_t i = 0;
  forEachIndex(e.results[0].shape, [&](const std::vector<int64_t> &index) {
    e.results[0][i++] = (*e.operands[0])[map(index)];
  });
}

static void evalPad(Evaluation &e) {
  auto pad = cast<PadOp>(e.op);
  std::vector<int64_t> strides = e.results[0].strides();
  int64_t i = 0;
  forEachIndex(e.operands[0]->shape, [&](const std::vector<int64_t> &index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += (pad.getLow()[d] + index[d] * pad.getStrides()[d]) * strides[d];
    e.results[0][at] = (*e.operands[0])[i++];
  });
}

static void evalConcat(Evaluation &e) {
  int64_t dim = cast<ConcatOp>(e.op).getDim(), offset = 0;
  std::vector<int64_t> strides = e.results[0].strides();
  for (const HostArray *part : e.operands) {
    int64_t i = 0;
    forEachIndex(part->shape, [&](const std::vector<int64_t> &index) {
      int64_t at = offset * strides[dim];
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * strides[d];
      e.results[0][at] = (*part)[i++];
    });
    offset += part->shape[dim];
  }
}

static void addMovement(std::map<std::string, Handler> &table) {
  auto copy = [](Evaluation &e) { e.results[0].data = e.operands[0]->data; };
  table["dpc.reshape"] = copy;
  table["dpc.reshard"] = copy;
  table["dpc.pad"] = evalPad;
  table["dpc.concat"] = evalConcat;
  table["dpc.transpose"] = [](Evaluation &e) {
    auto perm = cast<TransposeOp>(e.op).getPerm();
    std::vector<int64_t> strides = e.operands[0]->strides();
    gatherInto(e, [&](const std::vector<int64_t> &index) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * strides[perm[d]];
      return at;
    });
  };
  table["dpc.broadcast"] = [](Evaluation &e) {
    auto dims = cast<BroadcastOp>(e.op).getDims();
    std::vector<int64_t> strides = e.operands[0]->strides();
    gatherInto(e, [&](const std::vector<int64_t> &index) {
      int64_t at = 0;
      for (size_t d = 0; d < dims.size(); ++d)
        if (e.operands[0]->shape[d] != 1)
          at += index[dims[d]] * strides[d];
      return at;
    });
  };
  table["dpc.slice"] = [](Evaluation &e) {
    auto slice = cast<SliceOp>(e.op);
    std::vector<int64_t> strides = e.operands[0]->strides();
    gatherInto(e, [&](const std::vector<int64_t> &index) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d)
        at += (slice.getOffsets()[d] + index[d] * slice.getStrides()[d]) *
              strides[d];
      return at;
    });
  };
  table["dpc.mask"] = [](Evaluation &e) {
    auto mask = cast<MaskOp>(e.op);
    std::vector<std::vector<int64_t>> positions(e.results[0].rank());
    for (size_t d = 0; d < positions.size(); ++d)
      positions[d] = positionsFor(e, static_cast<int64_t>(d), 0);
    int64_t i = 0;
    forEachIndex(e.results[0].shape, [&](const std::vector<int64_t> &index) {
      bool padding = false;
      for (size_t d = 0; d < index.size(); ++d)
        padding |= positions[d][index[d]] < 0;
      e.results[0][i] =
          padding ? mask.getValue().convertToDouble() : (*e.operands[0])[i];
      ++i;
    });
  };
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

double combine(ReduceKind kind, double a, double b) {
  return evaluate(combinerOf(kind), a, b);
}

static void evalReduce(Evaluation &e) {
  auto reduce = cast<ReduceOp>(e.op);
  std::vector<bool> seen(e.results[0].size(), false);
  std::vector<int64_t> strides = e.results[0].strides();
  int64_t i = 0;
  forEachIndex(e.operands[0]->shape, [&](const std::vector<int64_t> &index) {
    int64_t at = 0, next = 0;
    for (size_t d = 0; d < index.size(); ++d)
      if (!llvm::is_contained(reduce.getDims(), static_cast<int64_t>(d)))
        at += index[d] * strides[next++];
    double x = (*e.operands[0])[i++];
    e.results[0][at] =
        seen[at] ? combine(reduce.getKind(), e.results[0][at], x) : x;
    seen[at] = true;
  });
}

static void evalMatmul(Evaluation &e) {
  auto op = cast<MatmulOp>(e.op);
  const HostArray &a = *e.operands[0], &b = *e.operands[1];
  HostArray &c = e.results[0];
  int64_t m = c.shape[c.rank() - 2], n = c.shape[c.rank() - 1];
  int64_t k = a.shape[a.rank() - (op.getTa() ? 2 : 1)];
  int64_t batches = m * n == 0 ? 0 : c.size() / (m * n);
  for (int64_t batch = 0; batch < batches; ++batch) {
    int64_t a0 = batch * m * k, b0 = b.rank() == 2 ? 0 : batch * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += a[a0 + (op.getTa() ? l * m + i : i * k + l)] *
                 b[b0 + (op.getTb() ? j * k + l : l * n + j)];
        c[(batch * m + i) * n + j] = sum;
      }
  }
}

//===----------------------------------------------------------------------===//
// Rank queries and kernels
//===----------------------------------------------------------------------===//

static void evalRankSlice(Evaluation &e) {
  auto func = e.op->getParentOfType<func::FuncOp>();
  auto mesh = func->getAttrOfType<MeshAttr>("dpc.mesh");
  int64_t piece = 0;
  for (auto name : cast<RankSliceOp>(e.op).getAxes().getAsRange<StringAttr>()) {
    int64_t axis = *mesh.findAxis(name.getValue());
    piece = piece * mesh.getSizes()[axis] + e.coordinates[axis];
  }
  HostArray &out = e.results[0];
  for (int64_t i = 0; i < out.size(); ++i)
    out[i] = (*e.operands[0])[piece * out.size() + i];
}

static void evalKernel(Evaluation &e) {
  llvm::DenseMap<Value, HostArray> values;
  Block &body = e.op->getRegion(0).front();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), e.operands))
    values[argument] = *operand;
  evaluateBody(body, e.coordinates, values);
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    e.results[i] = values[value];
}

std::map<std::string, Handler> &handlers() {
  static std::map<std::string, Handler> table = [] {
    std::map<std::string, Handler> made;
    addElementwise(made);
    addMovement(made);
    made["dpc.reduce"] = evalReduce;
    made["dpc.matmul"] = evalMatmul;
    made["dpc.rank_slice"] = evalRankSlice;
    made["dpc.kernel"] = evalKernel;
    addRowOps(made);
    addSpatialOps(made);
    return made;
  }();
  return table;
}

void evaluate(Evaluation &e) {
  auto it = handlers().find(e.op->getName().getStringRef().str());
  if (it == handlers().end())
    llvm::report_fatal_error(llvm::Twine("test interpreter: no handler for ") +
                             e.op->getName().getStringRef());
  e.results.clear();
  for (Value result : e.op->getResults())
    e.results.emplace_back(shapeOf(result));
  it->second(e);
  for (auto [result, array] : llvm::zip(e.op->getResults(), e.results))
    roundTo(cast<RankedTensorType>(result.getType()).getElementType(), array);
}

void evaluateBody(Block &body, const Coordinates &coordinates,
                  llvm::DenseMap<Value, HostArray> &values) {
  for (Operation &op : body.without_terminator()) {
    Evaluation inner{&op, {}, coordinates, {}};
    for (Value operand : op.getOperands())
      inner.operands.push_back(&values[operand]);
    evaluate(inner);
    for (auto [value, array] : llvm::zip(op.getResults(), inner.results))
      values[value] = std::move(array);
  }
}

void roundTo(Type type, HostArray &array) {
  if (!type.isBF16() && !type.isF16())
    return;
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type).getFloatSemantics();
  for (double &x : array.data) {
    llvm::APFloat value(x);
    bool isInexact = false;
    value.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &isInexact);
    value.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &isInexact);
    x = value.convertToDouble();
  }
}

} // namespace dpc::test
