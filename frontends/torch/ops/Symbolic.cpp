//===- Symbolic.cpp - Sizes and numbers of the graph ----------------------===//
//
// All sizes are known after symbolic dimensions are bound. A size is a constant
// of rank 0, so arithmetic on sizes is folded.
//
//===----------------------------------------------------------------------===//
#include "frontends/torch/Call.h"
#include "ir/StopGradient.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

bool reachesParameter(const Val &x) {
  if (!x || !x.value || !x.isFloat())
    return false;
  llvm::SmallVector<Value> work = {x.value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value v = work.pop_back_val();
    if (!seen.insert(v).second)
      continue;
    if (stopsGradient(v.getDefiningOp()))
      continue;
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      auto function =
          dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      auto role = function ? function.getArgAttrOfType<StringAttr>(
                                 argument.getArgNumber(), attr::kRole)
                           : StringAttr();
      if (role == role::kParameter)
        return true;
      continue;
    }
    llvm::append_range(work, v.getDefiningOp()->getOperands());
  }
  return false;
}

Val withoutGradient(Emitter &emit, Val x) {
  if (!reachesParameter(x))
    return x;
  auto stop = ConvertOp::create(emit.builder, emit.loc, x.type(), x.value);
  stop->setAttr(attr::kStopGradient, emit.builder.getUnitAttr());
  return Val(stop.getResult());
}

namespace {

Val size(Call &c, Val x) {
  int64_t dim = c.dimOf("dim", x.rank());
  return !c.emit.failed() && x.rank() > 0
             ? c.emit.scalar(static_cast<double>(x.dim(dim)), c.emit.i64())
             : Val();
}

Val numel(Call &c, Val x) {
  return c.emit.scalar(static_cast<double>(numElements(x.shape())),
                       c.emit.i64());
}

/// Returns the number in a tensor of one element, which must be known.
Val item(Call &c, Val x) {
  if (!x.constant || x.constant->size() != 1)
    return c.fail(
        "reads a number that depends on data, which is not supported; keep it "
        "a tensor (no .item(), no Python if on it)");
  return c.emit.reshape(x, {});
}

/// The operands of Python operators have no names, only positions.
std::pair<Val, Val> operands(Call &c) {
  if (c.node.inputs.size() != 2)
    return {c.fail("needs two operands"), Val()};
  Val a = c.operandAt(0), b = c.operandAt(1);
  if (a && b && (!a.constant || !b.constant))
    return {c.fail("operands must be known at compile time"), Val()};
  if (!a || !b)
    return {};
  Type common = commonType(a, true, b, true);
  return {c.emit.convert(a, common), c.emit.convert(b, common)};
}

template <BinaryKind kind> Val arithmetic(Call &c) {
  auto [a, b] = operands(c);
  return c.emit.binary(kind, a, b);
}

template <CompareKind kind> Val compare(Call &c) {
  auto [a, b] = operands(c);
  return c.emit.compare(kind, a, b);
}

/// a // b and a % b for sizes; b must be positive.
template <bool isRest> Val divide(Call &c) {
  auto [a, b] = operands(c);
  if (!a || !b)
    return {};
  if (a.isFloat() || b.constant->at(0).i < 1 || a.constant->at(0).i < 0)
    return c.fail(
        "operands must be integers of 0 or more, and divisors positive");
  return c.emit.binary(isRest ? BinaryKind::rem : BinaryKind::div, a, b);
}

Val trueDivide(Call &c) {
  auto [a, b] = operands(c);
  Type f64 = c.emit.f64();
  return c.emit.div(c.emit.convert(a, f64), c.emit.convert(b, f64));
}

Val toFloat(Call &c) { return c.emit.convert(c.operandAt(0), c.emit.f64()); }
Val toInteger(Call &c) { return c.emit.convert(c.operandAt(0), c.emit.i64()); }

Val negate(Call &c) { return c.emit.neg(c.operandAt(0)); }

/// Ignores assertions about shapes, because the import checks all shapes.
Val nothing(Call &) { return {}; }

Val detach(Call &c, Val x) { return c.trains ? withoutGradient(c.emit, x) : x; }

} // namespace

void addSymbolic(OperatorTable &t) {
  t["sym_size.int"] = {"self, dim", size};
  t["sym_numel.default"] = {"self", numel};
  t["item.default"] = {"self", item};
  t["_local_scalar_dense.default"] = {"self", item};
  t["detach.default"] = {"self", detach};
  for (const char *name :
       {"_assert_tensor_metadata.default", "_assert_scalar.default",
        "_assert_async.msg", "sym_constrain_range.default",
        "sym_constrain_range_for_size.default"})
    t[name] = {"*", nothing};
  t["_operator.add"] = {"*", arithmetic<BinaryKind::add>};
  t["_operator.sub"] = {"*", arithmetic<BinaryKind::sub>};
  t["_operator.mul"] = {"*", arithmetic<BinaryKind::mul>};
  t["torch.sym_max"] = {"*", arithmetic<BinaryKind::maximum>};
  t["torch.sym_min"] = {"*", arithmetic<BinaryKind::minimum>};
  t["_operator.floordiv"] = {"*", divide<false>};
  t["_operator.mod"] = {"*", divide<true>};
  t["_operator.truediv"] = {"*", trueDivide};
  t["_operator.pow"] = {"*", arithmetic<BinaryKind::pow>};
  t["torch.sym_float"] = {"*", toFloat};
  t["torch.sym_int"] = {"*", toInteger};
  t["_operator.neg"] = {"*", negate};
  t["_operator.eq"] = {"*", compare<CompareKind::eq>};
  t["_operator.ne"] = {"*", compare<CompareKind::ne>};
  t["_operator.lt"] = {"*", compare<CompareKind::lt>};
  t["_operator.le"] = {"*", compare<CompareKind::le>};
  t["_operator.gt"] = {"*", compare<CompareKind::gt>};
  t["_operator.ge"] = {"*", compare<CompareKind::ge>};
}

} // namespace dpc::frontend::pt2
