#include "runtime/io/WeightValues.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/NameList.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dpc::rt {

/// The largest number of names in a text.
static constexpr size_t kMaxListed = 8;

std::vector<TrainedWeight> trainedSources(const Plan &plan,
                                          const std::string &planDir) {
  std::map<std::string, Expected<MappedFile>> files;
  std::vector<TrainedWeight> weights;
  for (const Tensor &tensor : plan.tensors) {
    if (tensor.role != TensorRole::Parameter || !tensor.source)
      continue;
    const TensorSource &source = *tensor.source;
    auto file = files.find(source.file);
    if (file == files.end())
      file = files
                 .emplace(source.file,
                          MappedFile::open(sourcePath(planDir, source.file)))
                 .first;
    // Others are reported when they are read.
    int64_t bytes = numElements(tensor.globalShape) * sizeOf(source.dtype);
    if (file->second && source.bytes == bytes &&
        bytes <= file->second->size() &&
        source.offset <= file->second->size() - bytes)
      weights.emplace_back(
          tensor.name, WeightFiles::Weight{*file->second,
                                           {source.dtype, tensor.globalShape,
                                            source.offset, source.bytes}});
  }
  return weights;
}

/// Returns whether all elements are equal, as in new biases.
static bool isConstant(const WeightFiles::Weight &weight) {
  int64_t size = sizeOf(weight.entry.dtype);
  return std::equal(weight.data(), weight.data() + weight.entry.bytes - size,
                    weight.data() + size);
}

static std::string lastPart(const std::string &name) {
  return name.substr(name.rfind('.') + 1);
}

std::vector<std::string>
zeroMatrices(const std::vector<TrainedWeight> &weights) {
  std::vector<std::string> names;
  for (const auto &[name, weight] : weights)
    if (lastPart(name) != "bias" && weight.entry.shape.size() >= 2 &&
        weight.entry.bytes > 0 &&
        loadAsDouble(weight.data(), weight.entry.dtype, 0) == 0 &&
        isConstant(weight))
      names.push_back(name);
  return names;
}

std::vector<std::string>
constantMatrices(const std::vector<TrainedWeight> &weights) {
  std::vector<std::string> names;
  for (const auto &[name, weight] : weights) {
    if (lastPart(name) == "bias" || weight.entry.shape.size() < 2 ||
        numElements(weight.entry.shape) < 2 || !isConstant(weight))
      continue;
    const double value = loadAsDouble(weight.data(), weight.entry.dtype, 0);
    if (value != 0 && value != 1)
      names.push_back(name);
  }
  return names;
}

std::vector<std::string>
equalMatrices(const std::vector<TrainedWeight> &weights) {
  constexpr int64_t kBegin = 64;
  std::map<std::string, std::vector<const TrainedWeight *>> byBegin;
  std::vector<std::string> pairs;
  for (const TrainedWeight &trained : weights) {
    const WeightFiles::Weight &weight = trained.second;
    if (weight.entry.shape.size() < 2 || weight.entry.bytes <= kBegin ||
        isConstant(weight))
      continue;
    auto &others = byBegin[std::string(weight.data(), kBegin)];
    for (const TrainedWeight *other : others)
      if (isEqual(other->second, weight)) {
        pairs.push_back(
            concat("'", other->first, "' and '", trained.first, "'"));
        break;
      }
    others.push_back(&trained);
  }
  return pairs;
}

/// Whether the absolute values of all elements are at least `low` and at most
/// `high`.
static bool isWithin(const WeightFiles::Weight &weight, double low,
                     double high) {
  int64_t count = numElements(weight.entry.shape);
  for (int64_t i = 0; i < count; ++i) {
    const double value =
        std::fabs(loadAsDouble(weight.data(), weight.entry.dtype, i));
    if (value < low || value > high)
      return false;
  }
  return true;
}

std::vector<std::string> lostScales(const Plan &plan,
                                    const std::vector<TrainedWeight> &sources,
                                    const WeightFiles &files) {
  std::vector<std::string> names;
  for (const auto &[name, source] : sources) {
    auto tensor = std::ranges::find(plan.tensors, name, &Tensor::name);
    const WeightFiles::Weight *weight = findWeight(files, *tensor);
    bool isScale = lastPart(name) == "weight" &&
                   source.entry.shape.size() == 1 && source.entry.shape[0] > 1;
    // New scales are 1 (LayerNorm), and trained ones are near it.
    constexpr double kSmall = 0.2, kLarge = 0.8, kLargest = 1.2;
    if (isScale && weight && isWithin(*weight, 0, kSmall) &&
        isWithin(source, kLarge, kLargest))
      names.push_back(name);
  }
  return names;
}

bool haveValuesOf(const WeightFiles &files, const Plan &plan,
                  const std::vector<TrainedWeight> &sources) {
  constexpr int64_t kMostBytes = int64_t(1) << 16;
  for (const auto &[name, source] : sources) {
    auto tensor = std::ranges::find(plan.tensors, name, &Tensor::name);
    const WeightFiles::Weight *weight = findWeight(files, *tensor);
    if (!weight || weight->entry.dtype != source.entry.dtype ||
        weight->entry.bytes != source.entry.bytes ||
        !std::equal(source.data(),
                    source.data() + std::min(source.entry.bytes, kMostBytes),
                    weight->data()))
      return false;
  }
  return !sources.empty();
}

std::string textOnScales(const std::vector<std::string> &names,
                         const std::string &file) {
  return concat("all values of ", listed(quoted(names), kMaxListed),
                " are near 0 in ", file,
                ", but near 1 in the model file: does the model of these "
                "weights add 1 to them?");
}

std::string textOnZeros(const std::vector<std::string> &names,
                        const std::string &file) {
  return concat("all values of ", names.size(), " trained weight",
                names.size() == 1 ? "" : "s", " are zero in ", file, ": ",
                listed(quoted(names), kMaxListed));
}

std::string textOnEqual(const std::vector<std::string> &pairs,
                        const std::string &file) {
  return concat("the values of ", listed(pairs, kMaxListed), " are equal in ",
                file, ", but the plan trains them separately");
}

} // namespace dpc::rt
