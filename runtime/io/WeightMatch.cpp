#include "runtime/io/WeightMatch.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/NameList.h"
#include "runtime/base/Nearest.h"
#include "runtime/io/WeightValues.h"

#include <algorithm>
#include <set>

namespace dpc::rt {

/// The largest number of names in one list of an error.
static constexpr size_t kMaxListed = 8;

const WeightFiles::Weight *findWeight(const WeightFiles &files,
                                      const Tensor &tensor) {
  if (const WeightFiles::Weight *weight = files.find(tensor.name))
    return weight;
  for (const std::string &alias : tensor.aliases)
    if (const WeightFiles::Weight *weight = files.find(alias))
      return weight;
  return nullptr;
}

static bool fits(const SafetensorsEntry &entry, const Tensor &tensor) {
  return entry.shape == tensor.globalShape &&
         isFloat(entry.dtype) == isFloat(tensor.dtype);
}

/// Returns the name in `files` that has another value than the name which fills
/// `tensor`: "'a' and 'b'". Returns "" if there is none.
static std::string differingNames(const WeightFiles &files,
                                  const Tensor &tensor) {
  std::vector<std::string> names = tensor.aliases;
  names.insert(names.begin(), tensor.name);
  std::string first;
  for (const std::string &name : names) {
    if (!files.find(name))
      continue;
    if (first.empty())
      first = name;
    else if (!isEqual(*files.find(first), *files.find(name)))
      return concat("'", first, "' and '", name, "'");
  }
  return "";
}

static std::vector<TrainedWeight> trainedWeights(const Plan &plan,
                                                 const WeightFiles &files) {
  std::vector<TrainedWeight> weights;
  for (const Tensor &tensor : plan.tensors)
    if (const WeightFiles::Weight *weight = findWeight(files, tensor);
        weight && tensor.role == TensorRole::Parameter)
      weights.emplace_back(tensor.name, *weight);
  return weights;
}

/// Adds the running variances that have a negative value in `files`, and those
/// that are all zeros.
static void matchVariances(const Plan &plan, const WeightFiles &files,
                           WeightMatch &match) {
  constexpr std::string_view kName = "running_var";
  for (const Tensor &tensor : plan.tensors) {
    if (tensor.name.substr(tensor.name.rfind('.') + 1) != kName)
      continue;
    const WeightFiles::Weight *weight = findWeight(files, tensor);
    if (!weight)
      continue;
    int64_t count = weight->entry.bytes / sizeOf(weight->entry.dtype);
    bool isNegative = false, isZero = count > 0;
    for (int64_t i = 0; i < count; ++i) {
      double value = loadAsDouble(weight->data(), weight->entry.dtype, i);
      isNegative |= value < 0;
      isZero &= value == 0;
    }
    if (isNegative)
      match.negativeVariances.push_back(tensor.name);
    if (isZero)
      match.zeroVariances.push_back(tensor.name);
  }
}

WeightMatch matchWeights(const Plan &plan, const WeightFiles &files) {
  WeightMatch match;
  match.path = files.path();
  match.isForeign = true;
  std::set<std::string> known(plan.unreadWeights.begin(),
                              plan.unreadWeights.end());
  for (const Tensor &tensor : plan.tensors) {
    known.insert(tensor.name);
    known.insert(tensor.aliases.begin(), tensor.aliases.end());
    if (tensor.role == TensorRole::Parameter && match.example.empty())
      match.example = tensor.name;
    const WeightFiles::Weight *weight = findWeight(files, tensor);
    match.isForeign &= !weight;
    if (!weight && tensor.isWeight()) {
      match.missing.push_back(tensor.name);
      if (!tensor.source && tensor.init == InitKind::Source)
        match.valueless.push_back(tensor.name);
    }
    if (std::string names = differingNames(files, tensor); !names.empty())
      match.untied.push_back(names);
    if (weight && tensor.isWeight() && weight->entry.dtype != tensor.dtype)
      ++match.conversions[concat(nameOf(weight->entry.dtype), " to ",
                                 nameOf(tensor.dtype))];
    if (weight && !fits(weight->entry, tensor))
      match.misfits.push_back(concat(
          "'", tensor.name, "' (",
          describe(weight->entry.dtype, weight->entry.shape), ", expected ",
          describe(tensor.dtype, tensor.globalShape), ")"));
  }
  if (plan.trains) {
    std::vector<TrainedWeight> trained = trainedWeights(plan, files);
    match.equal = equalMatrices(trained);
    match.zeros = zeroMatrices(trained);
  }
  matchVariances(plan, files, match);
  match.unreadFiles = files.unreadFiles();
  for (const auto &[name, weight] : files.all())
    if (!known.count(name))
      match.unknown.push_back(name);
  return match;
}

/// Adds the most similar one of `names` to each of `texts`, which quote `own`.
static std::vector<std::string>
withSimilar(const std::vector<std::string> &own,
            const std::vector<std::string> &names) {
  std::vector<std::string> texts = quoted(own);
  for (size_t i = 0; i < std::min(kMaxListed, own.size()); ++i)
    if (std::string similar = nearest(own[i], names); !similar.empty())
      texts[i] += " (similar: '" + similar + "')";
  return texts;
}

static std::string counted(size_t count, const char *what) {
  return concat(count, " ", what, count == 1 ? "" : "s");
}

/// Returns the beginning, such as "model.", that makes each of `names` one of
/// `longer`, or "".
static std::string commonPrefix(const std::vector<std::string> &names,
                                const std::vector<std::string> &longer) {
  if (names.empty())
    return "";
  const std::set<std::string> all(longer.begin(), longer.end());
  for (const std::string &name : longer) {
    if (!name.ends_with("." + names.front()))
      continue;
    std::string prefix = name.substr(0, name.size() - names.front().size());
    if (std::ranges::all_of(names, [&](const std::string &other) {
          return all.count(prefix + other) > 0;
        }))
      return prefix;
  }
  return "";
}

std::string WeightMatch::prefixText() const {
  if (std::string more = commonPrefix(missing, unknown); !more.empty())
    return "; without '" + more + "', its names are those of the plan";
  if (std::string less = commonPrefix(unknown, missing); !less.empty())
    return "; with '" + less + "' before them, its names are those of the plan";
  return "";
}

Status WeightMatch::check(bool isPartial) const {
  if (isForeign)
    return Status::notFound(
        "--init: ", path, " has no tensor of the plan",
        example.empty() ? "" : ", such as '" + example + "'", prefixText());
  const std::vector<std::string> &lost = isPartial ? valueless : missing;
  std::string text;
  auto add = [&](const std::string &part) {
    text += (text.empty() ? " " : "; it ") + part;
  };
  if (!lost.empty())
    add(concat("lacks ", counted(lost.size(), "weight"),
               isPartial ? " for which the plan has no value: "
                         : " of the plan: ",
               listed(withSimilar(lost, unknown), kMaxListed)));
  if (!unknown.empty() && !isPartial)
    add(concat("has ", counted(unknown.size(), "tensor"),
               " that the model lacks: ", listed(quoted(unknown), kMaxListed)));
  if (!misfits.empty())
    add(concat("has ", counted(misfits.size(), "tensor"),
               " of another shape or type: ", listed(misfits, kMaxListed)));
  if (!untied.empty())
    add(concat("has different values for the names of ",
               counted(untied.size(), "tied weight"), ": ",
               listed(untied, kMaxListed)));
  if (text.empty())
    return Status::success();
  text += prefixText();
  // A partial start would be refused as well.
  if (!isPartial && misfits.empty() && untied.empty() && valueless.empty())
    text += "; --init-partial accepts missing and unknown names";
  return Status::invalid("--init: ", path, text);
}

/// Returns pairs of similar names: "'l1.weight' and 'l1.base.weight'".
static std::vector<std::string>
similarPairs(const std::vector<std::string> &missing,
             const std::vector<std::string> &unknown) {
  constexpr size_t kMostCompared = 64; // each takes time
  std::vector<std::string> pairs;
  for (size_t i = 0; i < std::min(kMostCompared, missing.size()); ++i)
    if (std::string similar = nearest(missing[i], unknown); !similar.empty())
      pairs.push_back(concat("'", similar, "' and '", missing[i], "'"));
  return pairs;
}

std::vector<std::string> WeightMatch::remarks() const {
  std::vector<std::string> lines;
  auto all = [](const std::vector<std::string> &names) {
    return listed(quoted(names), names.size());
  };
  if (!missing.empty())
    lines.push_back(
        concat("--init-partial: ", counted(missing.size(), "weight"), " that ",
               path, " lacks keep", missing.size() == 1 ? "s" : "",
               " the values of the plan: ", all(missing)));
  if (!unknown.empty())
    lines.push_back(
        concat("--init-partial: ", counted(unknown.size(), "tensor"), " of ",
               path, " that the model lacks ",
               unknown.size() == 1 ? "is" : "are", " ignored: ", all(unknown)));
  if (std::vector<std::string> pairs = similarPairs(missing, unknown);
      !pairs.empty())
    lines.push_back(concat("--init-partial: names that may mean the same: ",
                           listed(pairs, kMaxListed),
                           "; a weight is only read under its own name"));
  for (const auto &[types, count] : conversions)
    lines.push_back(concat("--init: ", counted(count, "weight"),
                           count == 1 ? " is" : " are", " converted from ",
                           types));
  if (!zeros.empty())
    lines.push_back("--init: " + textOnZeros(zeros, path));
  if (!negativeVariances.empty())
    lines.push_back(
        concat("--init: ", listed(quoted(negativeVariances), kMaxListed), " ",
               negativeVariances.size() == 1 ? "has" : "have",
               " negative values in ", path, ": a variance is never negative"));
  if (!zeroVariances.empty())
    lines.push_back(
        concat("--init: ", listed(quoted(zeroVariances), kMaxListed), " ",
               zeroVariances.size() == 1 ? "is" : "are", " all zeros in ", path,
               ": values that vary have no variance of zero"));
  if (!unreadFiles.empty())
    lines.push_back(concat("--init: ", path, " also has ",
                           listed(quoted(unreadFiles), kMaxListed),
                           ", which the run does not read"));
  if (!equal.empty())
    lines.push_back("--init: " + textOnEqual(equal, path));
  return lines;
}

} // namespace dpc::rt
