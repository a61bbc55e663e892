#include "runtime/io/WeightValues.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/NameList.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"

#include <algorithm>
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

static bool has(const WeightFiles::Weight &weight, bool isZero) {
  int64_t count = numElements(weight.entry.shape);
  for (int64_t i = 0; i < count; ++i)
    if ((loadAsDouble(weight.data(), weight.entry.dtype, i) == 0) == isZero)
      return true;
  return false;
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
    if (isScale && weight && !has(*weight, /*isZero=*/false) &&
        !has(source, /*isZero=*/true))
      names.push_back(name);
  }
  return names;
}

std::string textOnScales(const std::vector<std::string> &names,
                         const std::string &file) {
  return concat("all values of ", listed(quoted(names), kMaxListed),
                " are zero in ", file, ", but none in the model file");
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
