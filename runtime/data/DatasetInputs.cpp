#include "runtime/data/DatasetInputs.h"

#include "runtime/base/Random.h"
#include "runtime/facts/IndexCheck.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dpc::rt {

int64_t SampleOrder::at(int64_t epoch, int64_t position) {
  if (!seed)
    return position;
  if (shuffledEpoch != epoch)
    shuffle(epoch);
  return order[position];
}

/// Fisher-Yates shuffle by Durstenfeld (Algorithm 235, CACM 1964). A random
/// number below n is the upper half of the 128-bit product of n and a random
/// 64-bit number. Its bias is at most n / 2^64.
void SampleOrder::shuffle(int64_t epoch) {
  order.resize(samples);
  std::iota(order.begin(), order.end(), 0u);
  RandomStream stream(*seed, "epoch " + std::to_string(epoch));
  for (int64_t last = samples - 1; last > 0; --last) {
    auto wide = static_cast<unsigned __int128>(stream.bits(last)) *
                static_cast<uint64_t>(last + 1);
    std::swap(order[last], order[static_cast<uint64_t>(wide >> 64)]);
  }
  shuffledEpoch = epoch;
}

static bool isLabel(const Port &port) {
  return port.dtype == DType::I64 || port.dtype == DType::I32;
}

std::optional<IgnoredLabels> usualLabels(const Plan &plan) {
  std::vector<const Port *> ignoring, named;
  for (const Port &port : plan.inputs) {
    if (!isLabel(port))
      continue;
    if (port.ignored)
      ignoring.push_back(&port);
    if (port.name == "labels" || port.name == "label")
      named.push_back(&port);
  }
  if (ignoring.size() == 1)
    named = ignoring;
  if (named.empty())
    return std::nullopt;
  auto best = std::find_if(named.begin(), named.end(), [](const Port *port) {
    return port->ignored.has_value();
  });
  const Port &port = **(best == named.end() ? named.begin() : best);
  IgnoredLabels labels{port.name};
  labels.value = port.ignored.value_or(labels.value);
  return labels;
}

Status checkLabels(const Plan &plan, const IgnoredLabels &ignored) {
  std::string names;
  for (const Port &port : plan.inputs) {
    if (port.name == ignored.input && isLabel(port)) {
      // A loss may mask a valid class; MaskCheck tests this with numbers.
      if (!acceptsIndex(port, ignored.value))
        return Status::invalid(
            "input '", port.name, "': the ignored label is ", ignored.value,
            ", but the loss of the plan ignores ",
            port.ignored ? std::to_string(*port.ignored) : "no label",
            "; expected ", expectedIndexes(port));
      return Status::success();
    }
    if (isLabel(port))
      names += (names.empty() ? "" : ", ") + port.name;
  }
  return Status::invalid("the plan has no integer input '", ignored.input,
                         "' with labels; ",
                         (names.empty() ? "it has no integer input"
                                        : "its integer inputs are " + names));
}

Expected<std::unique_ptr<InputSource>>
DatasetInputs::open(const Plan &plan, std::unique_ptr<Dataset> dataset,
                    const DataOptions &options) {
  int64_t samples = dataset->samples(), perStep = samplesPerStep(plan);
  if (options.last == LastBatch::Drop && samples < perStep)
    return Status::invalid("there are ", samples, " samples, a step takes ",
                           perStep,
                           ": without the last batch, no step is left");
  if (options.shuffle && samples > SampleOrder::kMostShuffled)
    return Status::unsupported("there are ", samples, " samples; at most ",
                               SampleOrder::kMostShuffled, " can be shuffled");
  if (options.last == LastBatch::Mask)
    DPC_TRY(checkLabels(plan, options.ignored));
  return std::unique_ptr<InputSource>(
      new DatasetInputs(plan, std::move(dataset), options));
}

DatasetInputs::DatasetInputs(const Plan &plan, std::unique_ptr<Dataset> data,
                             const DataOptions &options)
    : dataset(std::move(data)), options(options), samples(dataset->samples()),
      perStep(samplesPerStep(plan)), ports(plan.inputs),
      order(samples, options.shuffle) {
  for (const Port &port : plan.inputs) {
    current.arrays.push_back(HostTensor::zeros(port.dtype, port.globalShape));
    next.arrays.push_back(HostTensor::zeros(port.dtype, port.globalShape));
    sampleBytes.push_back(
        static_cast<int64_t>(current.arrays.back().data.size()) / perStep);
    if (port.name == options.ignored.input) {
      labels = sampleBytes.size() - 1;
      labelType = port.dtype;
    }
  }
  thread = std::thread([this] { prefetch(); });
}

DatasetInputs::~DatasetInputs() {
  {
    std::lock_guard lock(mutex);
    stops = true;
  }
  changed.notify_all();
  thread.join();
}

/// Returns the number of steps for the last `count` samples of an epoch.
int64_t DatasetInputs::stepsFor(int64_t count) const {
  int64_t whole = count / perStep;
  bool isUneven = count % perStep != 0 && options.last != LastBatch::Drop;
  return whole + (isUneven ? 1 : 0);
}

DatasetInputs::Place DatasetInputs::placeOf(int64_t step) const {
  int64_t ahead = step - firstStep;
  if (options.last == LastBatch::Wrap) {
    // Steps times samples could overflow, so whole epochs are removed first.
    int64_t position = firstPlace.position + ahead % samples * perStep;
    return {firstPlace.epoch + ahead / samples * perStep + position / samples,
            position % samples};
  }
  int64_t left = stepsFor(samples - firstPlace.position);
  if (ahead < left)
    return {firstPlace.epoch, firstPlace.position + ahead * perStep};
  ahead -= left;
  return {firstPlace.epoch + 1 + ahead / steps(), ahead % steps() * perStep};
}

int64_t DatasetInputs::samplesIn(int64_t step) const {
  if (!repeatsLast())
    return perStep;
  return std::min(perStep, samples - placeOf(step).position);
}

int64_t DatasetInputs::lastStepOf(int64_t epochs) const {
  int64_t before = firstStep - 1, whole = epochs - firstPlace.epoch - 1;
  if (whole < 0)
    return before;
  int64_t left = samples - firstPlace.position;
  return before + (options.last == LastBatch::Wrap
                       ? stepsFor(left + whole * samples)
                       : stepsFor(left) + whole * steps());
}

static const char *nameOf(LastBatch last) {
  switch (last) {
  case LastBatch::Wrap:
    return "wrap";
  case LastBatch::Drop:
    return "drop";
  case LastBatch::Pad:
    return "pad";
  case LastBatch::Mask:
    return "mask";
  }
  return "";
}

std::string DatasetInputs::orderName() const {
  return options.shuffle
             ? "shuffled by seed " + std::to_string(*options.shuffle)
             : "as they lie";
}

DataPosition DatasetInputs::positionAfter(int64_t step) const {
  Place place = placeOf(step + 1);
  return {place.epoch, place.position, samples,
          orderName(), contentHash(),  nameOf(options.last)};
}

/// Hashes evenly spaced samples, the first and the last among them.
std::string DatasetInputs::contentHash() const {
  constexpr int64_t kMostSamples = 1024, kMostBytes = int64_t(16) << 20;
  if (!hash.empty())
    return hash;
  int64_t bytes = std::reduce(sampleBytes.begin(), sampleBytes.end());
  int64_t most = std::clamp(kMostBytes / std::max<int64_t>(bytes, 1),
                            int64_t(2), kMostSamples);
  int64_t count = std::min(samples, most);
  std::string all = std::to_string(samples), sample(bytes, '\0');
  std::vector<std::byte *> to;
  auto *place = reinterpret_cast<std::byte *>(sample.data());
  for (int64_t size : sampleBytes) {
    to.push_back(place);
    place += size;
  }
  for (int64_t i = 0; i < count; ++i) {
    Status status = dataset->read(evenRow(i, count, samples), to);
    // load() and scan() report the error.
    all += status.ok() ? hashText(sample) : "unreadable";
  }
  return hash = hashText(all);
}

Expected<DataFacts> DatasetInputs::scan(const ScanLimits &limits) const {
  std::vector<int64_t> perRow;
  perRow.reserve(ports.size());
  for (const Port &port : ports)
    perRow.push_back(numElements(port.globalShape) / perStep);
  auto read = [&](int64_t first, int64_t count,
                  const std::vector<std::byte *> &to) {
    return dataset->read(first, count, to);
  };
  return scanRows(ports, perRow, "sample", samples, read, limits);
}

/// Looks at the steps of one epoch at most: later ones have the same samples.
int64_t DatasetInputs::ignoredStep(const DataFacts &facts, int64_t first,
                                   int64_t last) {
  SampleOrder own(samples, options.shuffle); // the thread uses `order`
  auto isIgnored = [&](const ArrayFacts &input, int64_t step) {
    Place place = placeOf(step);
    int64_t end = place.position + samplesIn(step);
    for (int64_t position = place.position; position < end; ++position) {
      int64_t sample =
          own.at(place.epoch + position / samples, position % samples);
      if (!std::binary_search(input.ignoredRows.begin(),
                              input.ignoredRows.end(), sample))
        return false;
    }
    return true;
  };
  for (const ArrayFacts &input : facts.inputs)
    if (!input.ignoredRows.empty())
      for (int64_t step = first; step <= std::min(last, first + steps());
           ++step)
        if (isIgnored(input, step))
          return step;
  return 0;
}

Status DatasetInputs::resumeAt(int64_t step, const DataPosition &position) {
  firstStep = step;
  if (position.samples == 0) // the data had steps, not samples
    return Status::success();
  if (position.samples != samples || position.order != orderName())
    return Status::invalid("the previous run read its data from ",
                           position.samples, " samples, ", position.order,
                           "; now there are ", samples, ", ", orderName(),
                           "; --new-data starts with the first sample");
  if (!position.hash.empty() && position.hash != contentHash())
    return Status::invalid("the previous run read as many samples, but with "
                           "other contents; --new-data starts with the first "
                           "sample");
  firstPlace = {position.epoch, position.position};
  return Status::success();
}

void DatasetInputs::fill(Batch &batch) {
  Place place = placeOf(batch.step);
  std::vector<std::byte *> to(batch.arrays.size());
  for (int64_t i = 0; i < perStep; ++i) {
    for (size_t input = 0; input < to.size(); ++input)
      to[input] = batch.arrays[input].data.data() + i * sampleBytes[input];
    int64_t position = place.position + i;
    bool isRepeated = repeatsLast() && position >= samples;
    if (isRepeated)
      position = samples - 1;
    batch.status = dataset->read(
        order.at(place.epoch + position / samples, position % samples), to);
    if (!batch.status.ok())
      return;
    if (isRepeated && options.last == LastBatch::Mask)
      mask(to[labels]);
  }
}

void DatasetInputs::mask(std::byte *sample) const {
  int64_t count = sampleBytes[labels] / sizeOf(labelType);
  for (int64_t i = 0; i < count; ++i)
    storeFromDouble(sample, labelType, i,
                    static_cast<double>(options.ignored.value));
}

Expected<std::vector<const void *>> DatasetInputs::load(int64_t step) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return wanted == 0; });
  if (next.step != step) {
    next.step = step;
    fill(next);
  }
  std::swap(current, next);
  if (!current.status.ok()) {
    next.step = -1;
    return current.status;
  }
  wanted = step + 1;
  changed.notify_all();
  std::vector<const void *> arrays;
  arrays.reserve(current.arrays.size());
  for (const HostTensor &array : current.arrays)
    arrays.push_back(array.data.data());
  return arrays;
}

void DatasetInputs::prefetch() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stops || wanted > 0; });
    if (stops)
      return;
    next.step = wanted;
    lock.unlock();
    fill(next);
    lock.lock();
    wanted = 0;
    changed.notify_all();
  }
}

} // namespace dpc::rt
