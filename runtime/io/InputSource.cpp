#include "runtime/io/InputSource.h"

#include "runtime/base/OneLine.h"
#include "runtime/facts/IndexCheck.h"
#include "runtime/io/Npy.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

namespace {

/// Returns "f32[steps, 8, 64]", or without `perStep` "f32[8, 64]".
std::string expectedShape(const Port &port, bool perStep) {
  std::string text = describe(port.dtype, port.globalShape);
  if (perStep)
    text.insert(text.find('[') + 1,
                port.globalShape.empty() ? "steps" : "steps, ");
  return text;
}

class NpyInputs : public InputSource {
public:
  Status open(const Plan &plan, const std::string &dir, bool perStep) {
    for (const Port &port : plan.inputs)
      DPC_TRY(openOne(port, dir, perStep));
    ports = plan.inputs;
    others = otherArrayFiles(dir, ports);
    return Status::success();
  }

  int64_t steps() const override { return stepCount; }
  std::string contentHash() const override { return hashText(hashes); }
  DataPosition positionAfter(int64_t /*step*/) const override {
    return {0, 0, 0, "", contentHash(), ""};
  }
  std::vector<std::string> unread() const override { return others; }

  std::vector<DType> storedTypes() const override {
    std::vector<DType> types;
    types.reserve(files.size());
    for (const File &file : files)
      types.push_back(file.array.dtype);
    return types;
  }

  Expected<DataFacts> scan(const ScanLimits &limits) const override {
    std::vector<int64_t> perRow;
    perRow.reserve(files.size());
    for (const File &file : files)
      perRow.push_back(file.elements);
    auto read = [&](int64_t first, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (size_t i = 0; i < files.size(); ++i)
        DPC_TRY(files[i].array.read(first * perRow[i], count * perRow[i],
                                    ports[i].dtype, to[i]));
      return Status::success();
    };
    return scanRows(ports, perRow, "step", stepCount, read, limits);
  }

  int64_t ignoredStep(const DataFacts &facts, int64_t first,
                      int64_t last) override {
    int64_t found = 0;
    for (const ArrayFacts &input : facts.inputs)
      for (int64_t row : input.ignoredRows) {
        int64_t ahead = (row - (first - 1) % stepCount + stepCount) % stepCount;
        int64_t step = first + ahead;
        if (step <= last && (found == 0 || step < found))
          found = step;
      }
    return found;
  }

  Expected<std::vector<const void *>> load(int64_t step) override {
    std::vector<const void *> pointers;
    for (File &file : files) {
      int64_t first =
          file.elements * ((step - 1) % std::max<int64_t>(1, stepCount));
      DPC_TRY(file.array.read(first, file.elements, file.values.dtype,
                              file.values.data.data()));
      pointers.push_back(file.values.data.data());
    }
    return pointers;
  }

private:
  struct File {
    StoredArray array;
    HostTensor values;    ///< of one step
    int64_t elements = 0; ///< of one step
  };

  Status openOne(const Port &port, const std::string &dir, bool perStep) {
    std::string path = npyFile(dir, port);
    DPC_ASSIGN(NpyArray array, openNpy(path).in("input '" + port.name + "'"));
    std::vector<int64_t> shape = array.shape;
    bool fits = !perStep || !shape.empty();
    int64_t count = 1;
    if (perStep && fits) {
      count = shape.front();
      shape.erase(shape.begin());
    }
    fits = fits && shape == port.globalShape && count > 0 &&
           (array.dtype == port.dtype || widens(array.dtype, port.dtype));
    if (!fits && perStep && !array.shape.empty() && array.shape.front() == 0)
      return Status::invalid(path, ": has no steps; expected ",
                             expectedShape(port, perStep));
    if (!fits)
      return Status::invalid(path, ": found ",
                             describe(array.dtype, array.shape), ", expected ",
                             expectedShape(port, perStep));
    if (!files.empty() && perStep && count != stepCount)
      return Status::invalid(path, ": holds ", count,
                             " steps, the other inputs ", stepCount);
    stepCount = count;
    DPC_TRY(checkIndexes(port, array.dtype, array.data,
                         numElements(array.shape), path));
    hashes +=
        sampleHash(array.data, numElements(array.shape) * sizeOf(array.dtype));
    DPC_ASSIGN(InputFile file, InputFile::open(path));
    files.push_back({{file, array.data - array.file.data(), array.dtype},
                     HostTensor::zeros(port.dtype, port.globalShape),
                     numElements(port.globalShape)});
    return Status::success();
  }

  std::vector<File> files;
  std::vector<Port> ports;         ///< of each file
  std::vector<std::string> others; ///< see unread()
  std::string hashes;              ///< sampleHash() of each array
  int64_t stepCount = 0;
};

class RandomInputs : public InputSource {
public:
  RandomInputs(const Plan &plan, uint64_t seed)
      : ports(plan.inputs), seed(seed) {
    for (const Port &port : ports)
      arrays.push_back(HostTensor::zeros(port.dtype, port.globalShape));
  }

  int64_t steps() const override { return 0; }

  Expected<std::vector<const void *>> load(int64_t step) override {
    std::vector<const void *> pointers;
    for (size_t i = 0; i < ports.size(); ++i) {
      RandomStream stream(seed + static_cast<uint64_t>(step), ports[i].name);
      fillInput(arrays[i], stream, ports[i]);
      pointers.push_back(arrays[i].data.data());
    }
    return pointers;
  }

private:
  std::vector<Port> ports;
  uint64_t seed;
  std::vector<HostTensor> arrays;
};

class FixedInputs : public InputSource {
public:
  std::vector<std::vector<HostTensor>> arrays; ///< by step, by input

  int64_t steps() const override { return static_cast<int64_t>(arrays.size()); }
  Expected<std::vector<const void *>> load(int64_t step) override {
    std::vector<const void *> pointers;
    if (!arrays.empty())
      for (const HostTensor &array : arrays[(step - 1) % steps()])
        pointers.push_back(array.data.data());
    return pointers;
  }
};

} // namespace

void fillInput(HostTensor &tensor, const RandomStream &stream,
               const Port &port) {
  fillRandom(tensor, stream, 1, port.limit - port.first);
  if (port.use == InputUse::Positive)
    for (int64_t i = 0, count = tensor.elements(); i < count; ++i)
      tensor.set(i, std::fabs(tensor.at(i)) + 0.01);
  if (!isIndex(port) || port.first == 0)
    return;
  for (int64_t i = 0, count = tensor.elements(); i < count; ++i)
    tensor.set(i, tensor.at(i) + static_cast<double>(port.first));
}

std::string unreadText(const std::string &input, bool hasTwin) {
  return "input '" + oneLine(input) + "' is not read by the model" +
         (hasTwin ? "; was it exported with one tensor for two inputs?" : "");
}

std::vector<std::string> unreadTexts(const Plan &plan) {
  std::vector<std::string> texts;
  for (const Port &port : plan.inputs)
    if (port.use == InputUse::Unread)
      texts.push_back(unreadText(
          port.name, std::ranges::any_of(plan.inputs, [&](const Port &other) {
            return other.use != InputUse::Unread && other.dtype == port.dtype &&
                   other.globalShape == port.globalShape;
          })));
  return texts;
}

Status InputSource::resumeAt(int64_t /*step*/,
                             const DataPosition & /*position*/) {
  return Status::success();
}

Expected<std::unique_ptr<InputSource>>
openNpyInputs(const Plan &plan, const std::string &dir, bool perStep) {
  auto source = std::make_unique<NpyInputs>();
  DPC_TRY(source->open(plan, dir, perStep));
  return std::unique_ptr<InputSource>(std::move(source));
}

std::unique_ptr<InputSource> randomInputs(const Plan &plan, uint64_t seed) {
  return std::make_unique<RandomInputs>(plan, seed);
}

Expected<std::unique_ptr<InputSource>>
fixedInputs(const Plan &plan,
            std::vector<std::map<std::string, HostTensor>> steps) {
  auto source = std::make_unique<FixedInputs>();
  for (size_t s = 0; s < steps.size(); ++s) {
    auto &row = source->arrays.emplace_back();
    for (const Port &port : plan.inputs) {
      auto it = steps[s].find(port.name);
      std::string place = concat("step ", s + 1, ": input '", port.name, "': ");
      if (it == steps[s].end())
        return Status::notFound(place, "is not given");
      if (it->second.dtype != port.dtype ||
          it->second.shape != port.globalShape)
        return Status::invalid(
            place, "found ", describe(it->second.dtype, it->second.shape),
            ", expected ", describe(port.dtype, port.globalShape));
      DPC_TRY(checkIndexes(port, port.dtype, it->second.data.data(),
                           numElements(port.globalShape),
                           concat("step ", s + 1)));
      row.push_back(std::move(it->second));
    }
  }
  if (source->arrays.empty() && !plan.inputs.empty())
    return Status::notFound("no inputs are given");
  return std::unique_ptr<InputSource>(std::move(source));
}

} // namespace dpc::rt
