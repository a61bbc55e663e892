//===- SmallModel.cpp - A small version of a model that runs --------------===//
#include "tools/driver/SmallModel.h"

#include "ir/Dialect.h"
#include "ir/StopGradient.h"
#include "ir/TensorUtils.h"
#include "passes/shard/Passes.h"
#include "passes/shrink/Shrink.h"
#include "runtime/base/Random.h"
#include "runtime/exec/RunPlan.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"
#include "tools/driver/WeightFacts.h"

#include <cmath>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

static double fanIn(llvm::ArrayRef<int64_t> shape) {
  double elements = 1, largest = 1;
  for (int64_t size : shape) {
    elements *= size;
    largest = std::max<double>(largest, size);
  }
  return elements / largest;
}

NamedTensors weightsFor(const rt::Plan &plan, uint64_t seed) {
  constexpr double kMiddle = 0.5, kSpread = 0.1;
  NamedTensors weights;
  for (const rt::Tensor &tensor : plan.tensors) {
    bool isFolded = tensor.isConstant();
    if (tensor.role == rt::TensorRole::State || isFolded ||
        !rt::isFloat(tensor.dtype))
      continue;
    rt::HostTensor value =
        rt::HostTensor::zeros(tensor.dtype, tensor.globalShape);
    bool isMatrix = tensor.globalShape.size() > 1;
    double deviation =
        isMatrix ? 1 / std::sqrt(fanIn(tensor.globalShape)) : kSpread;
    rt::fillRandom(value, rt::RandomStream(seed, tensor.name), deviation, 0);
    for (int64_t i = 0, e = isMatrix ? 0 : value.elements(); i < e; ++i)
      value.set(i, value.at(i) + kMiddle);
    weights[tensor.name] = std::move(value);
  }
  return weights;
}

static void replaceByConstant(func::FuncOp forward, unsigned index,
                              DenseElementsAttr values) {
  BlockArgument argument = forward.getArgument(index);
  OpBuilder builder(&forward.front(), forward.front().begin());
  argument.replaceAllUsesWith(
      ConstantOp::create(builder, forward.getLoc(), argument.getType(), values)
          .getResult());
  (void)forward.eraseArgument(index);
}

/// Makes all elements pass each dropout: replaces the booleans that follow from
/// the number of the step.
static void turnOffDropout(func::FuncOp forward) {
  for (unsigned i = forward.getNumArguments(); i-- > 0;) {
    BlockArgument step = forward.getArgument(i);
    if (roleOf(step) != role::kScalar)
      continue;
    llvm::SetVector<Value> drawn;
    drawn.insert(step);
    for (size_t k = 0; k < drawn.size(); ++k)
      for (Operation *user : llvm::make_early_inc_range(drawn[k].getUsers()))
        for (Value result : user->getResults()) {
          RankedTensorType type = tensorType(result);
          if (!type.getElementType().isInteger(1)) {
            drawn.insert(result);
            continue;
          }
          OpBuilder builder(user);
          result.replaceAllUsesWith(
              ConstantOp::create(builder, user->getLoc(), type,
                                 DenseElementsAttr::get(type, /*value=*/true)));
        }
    RankedTensorType type = tensorType(step);
    replaceByConstant(
        forward, i,
        DenseElementsAttr::get(
            type,
            Builder(type.getContext()).getZeroAttr(type.getElementType())));
  }
}

/// Whether a fourth of the elements are equal, and some are not, as in a mask.
static bool isMaskLike(DenseElementsAttr values) {
  if (values.isSplat())
    return false;
  std::map<double, int64_t> counts;
  int64_t most = 0;
  auto count = [&](double value) {
    if (!std::isnan(value))
      most = std::max(most, ++counts[value]);
  };
  if (isa<FloatType>(values.getElementType()))
    for (const APFloat &value : values.getValues<APFloat>())
      count(value.convertToDouble());
  else
    for (const APInt &value : values.getValues<APInt>())
      count(static_cast<double>(value.getSExtValue()));
  return 4 * most >= values.getNumElements();
}

/// Whether a weight of this type may be a mask over positions.
static bool isSquare(RankedTensorType type) {
  int64_t rank = type.getRank();
  return rank >= 2 && type.getDimSize(rank - 1) == type.getDimSize(rank - 2);
}

/// Replaces buffers, and trained masks, by their values in the model file:
/// random ones would hide other positions. Fails with one diagnostic if the
/// values of a buffer are not known.
static LogicalResult fixMasks(func::FuncOp forward) {
  constexpr int64_t kMostElements = int64_t(1) << 22;
  for (unsigned i = forward.getNumArguments(); i-- > 0;) {
    BlockArgument argument = forward.getArgument(i);
    RankedTensorType type = tensorType(argument);
    bool isBuffer = roleOf(argument) == role::kBuffer;
    if (argument.use_empty() ||
        (!isBuffer &&
         !(roleOf(argument) == role::kParameter && isSquare(type))))
      continue;
    DenseElementsAttr values = type.getNumElements() <= kMostElements
                                   ? elementsInFile(argument)
                                   : DenseElementsAttr();
    // A vector, such as a mean of a batch norm, is no mask over positions.
    if (isBuffer && !values && (type.getRank() > 1 || !isFloatTensor(type)))
      return forward.emitError("the values of buffer '")
             << nameOf(argument) << "' are not known";
    if (values && (isBuffer || isMaskLike(values)))
      replaceByConstant(forward, i, values);
  }
  return success();
}

/// Returns a number of samples, of which one may differ from the others, that
/// is no number of classes: otherwise scores could be between samples.
static int64_t fewSamples(func::FuncOp forward) {
  int64_t samples = 3;
  auto isTaken = [&](const Comparison &comparison) {
    llvm::ArrayRef<int64_t> shape = shapeOf(comparison.scores);
    return !shape.empty() && shape.back() == samples;
  };
  while (llvm::any_of(comparisonsOf(forward), isTaken))
    samples += 2;
  return samples;
}

/// Shrinks `module` to few samples. If its batch is tied to other sizes, this
/// is one more of its dimensions.
static OwningOpRef<ModuleOp> shrink(OwningOpRef<ModuleOp> module) {
  OwningOpRef<ModuleOp> other(cast<ModuleOp>((*module)->clone()));
  {
    SilencedErrors quiet(other->getContext());
    ShrinkOptions options;
    options.batch = fewSamples(findProgram(*module));
    if (succeeded(shrinkProgram(findProgram(*other), options)))
      return other;
  }
  return succeeded(shrinkProgram(findProgram(*module), {}))
             ? std::move(module)
             : OwningOpRef<ModuleOp>();
}

SmallModel::SmallModel(ModuleOp fused, const PlanSettings &settings,
                       fs::path dir)
    : settings(settings), dir(std::move(dir)) {
  this->settings.onCpu = true;
  this->settings.places.clear();
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(fused->clone()));
  func::FuncOp forward = findProgram(*module);
  removeGradientStops(forward);
  turnOffDropout(forward);
  if (succeeded(fixMasks(forward)))
    program = shrink(std::move(module));
}

func::FuncOp SmallModel::forward() const { return findProgram(*program); }

double SmallModel::flops() const {
  double flops = 0;
  forward().walk([&](CostOpInterface op) { flops += op.getFlops(); });
  return flops;
}

bool SmallModel::compile(
    llvm::function_ref<std::map<std::string, Value>(func::FuncOp)> choose) {
  OwningOpRef<ModuleOp> module(cast<ModuleOp>((*program)->clone()));
  func::FuncOp forward = findProgram(*module);
  Builder builder(forward.getContext());
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attrs;
  for (const auto &[name, value] : choose(forward)) {
    values.push_back(value);
    attrs.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(attr::kName, builder.getStringAttr(name))));
  }
  forward.front().getTerminator()->setOperands(values);
  forward.setFunctionType(builder.getFunctionType(
      forward.getArgumentTypes(), ValueRange(values).getTypes()));
  forward.setAllResultAttrs(attrs);
  if (failed(runPasses(*module, [&](OpPassManager &pm) {
        pm.addNestedPass<func::FuncOp>(createDpcSimplify());
        graphPasses(settings.options, /*trains=*/false)(pm);
      })))
    return false;
  std::error_code code;
  fs::create_directories(dir, code);
  plan = buildForOneDevice(settings, *module, LoweringSpec{}, dir);
  return plan.has_value();
}

std::vector<NamedTensors>
SmallModel::run(const std::vector<NamedTensors> &inputs) {
  rt::RunRequest request;
  request.steps = static_cast<int64_t>(inputs.size());
  request.inputs = inputs;
  request.tensors = weightsFor(*plan, 1);
  request.init.kind = rt::InitChoice::Kind::Random;
  auto result = rt::runPlan(*plan, dir.string(), request);
  if (!result) {
    program->emitError(result.message());
    return {};
  }
  return std::move(result->outputs);
}

} // namespace dpc
