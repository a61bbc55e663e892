#include "runtime/facts/DataFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/base/Wait.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/IndexCheck.h"
#include "runtime/facts/LabelTexts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpc::rt {

/// "input 'x' holds nan in sample 3, element 5"
static std::string badText(const ArrayFacts &facts, const std::string &unit) {
  return concat("input '", oneLine(facts.port.name), "' holds ",
                std::isnan(facts.bad->value) ? "nan" : "inf", " in ", unit, " ",
                facts.bad->row + (unit == "step" ? 1 : 0), ", element ",
                facts.bad->element);
}

Status DataFacts::check(bool acceptsNan) const {
  for (const ArrayFacts &facts : inputs) {
    if (facts.port.use == InputUse::Unread)
      continue;
    if (facts.bad && !acceptsNan)
      return Status::invalid(badText(facts, unit),
                             ", expected finite numbers; --on-nan=go-on "
                             "accepts them");
    // Rows that were not read may have labels.
    if (seen == rows && facts.ignored > 0 && facts.ignored == facts.elements)
      return Status::invalid("all labels of input '", oneLine(facts.port.name),
                             "' are ", *facts.port.ignored,
                             ", which the loss ignores; expected others");
  }
  return Status::success();
}

/// Whether an input says which of the labels the loss counts.
bool DataFacts::hasWeightsLike(const PaddingFacts &padding) const {
  const Port &labels = inputs[padding.other].port;
  return std::ranges::any_of(inputs, [&](const ArrayFacts &facts) {
    return facts.port.dependence.weighsLoss &&
           facts.port.globalShape == labels.globalShape;
  });
}

/// Whether the labels belong to other samples in every input of ids of the same
/// vocabulary.
bool DataFacts::areForeign(const ForeignLabels &labels) const {
  const Port &port = inputs[labels.labels].port;
  auto count = std::ranges::count_if(inputs, [&](const ArrayFacts &facts) {
    return facts.port.use == InputUse::Ids &&
           facts.port.globalShape.size() == 2 && facts.port.limit == port.limit;
  });
  for (const ForeignLabels &one : foreigners)
    count -= one.labels == labels.labels && one.isProven() ? 1 : 0;
  return count == 0;
}

std::vector<std::string> DataFacts::sequenceTexts() const {
  std::vector<std::string> texts;
  std::vector<Port> ports;
  ports.reserve(inputs.size());
  for (const ArrayFacts &facts : inputs)
    ports.push_back(facts.port);
  texts.reserve(shifts.size());
  for (const ShiftFacts &one : shifts)
    texts.push_back(one.text(ports, shifts));
  for (const PaddingFacts &one : paddings)
    if (one.isOfMask(inputs[one.other].port) || !hasWeightsLike(one))
      texts.push_back(one.text(inputs[one.ids].port, inputs[one.other].port));
  for (const ForeignLabels &one : foreigners)
    if (areForeign(one))
      texts.push_back(one.text(inputs[one.ids].port, inputs[one.labels].port));
  for (const SequenceFacts &one : sequences)
    for (const std::string &text : {one.usedText(inputs[one.input].port),
                                    one.roundedText(inputs[one.input].port)})
      texts.push_back(text);
  std::erase(texts, "");
  return texts;
}

std::vector<std::string> DataFacts::texts() const {
  std::vector<std::string> texts;
  for (const ArrayFacts &facts : inputs) {
    texts.push_back(facts.text());
    if (facts.bad)
      texts.push_back(badText(facts, unit));
    for (const std::string &text :
         labelTexts(facts, samples.isPadding(facts.port)))
      texts.push_back(text);
    // With one label a row, the line above says the same.
    if (!facts.ignoredRows.empty() && facts.elements > seen)
      texts.push_back(
          concat("input '", oneLine(facts.port.name), "': all labels of ",
                 facts.ignoredRows.size(), " of ", seen, " ", unit,
                 "s are ignored, first ", unit, " ",
                 facts.ignoredRows.front() + (unit == "step" ? 1 : 0)));
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (const std::optional<DType> &type =
            inputs[i].port.dependence.convertedTo)
      texts.push_back(values[i].text(inputs[i].port.name, *type));
  std::erase(texts, "");
  for (const auto &[first, second] : equal)
    texts.push_back("inputs '" + oneLine(inputs[first].port.name) + "' and '" +
                    oneLine(inputs[second].port.name) + "' hold equal values");
  for (const std::string &text : sequenceTexts())
    texts.push_back(text);
  for (const std::string &text : samples.texts())
    texts.push_back(text);
  for (const std::unique_ptr<SampleCheck> &check : checks)
    for (std::string &text : check->texts())
      texts.push_back(std::move(text));
  if (seen < rows)
    texts.push_back(
        concat("the values are those of ", seen, " of ", rows, " ", unit, "s",
               ranOutOfTime ? ", which are slow to read" : ", evenly spaced",
               "; a step checks the others"));
  return texts;
}

DataProfile DataFacts::profile(const std::string &source) const {
  DataProfile result;
  result.source = source;
  for (size_t i = 0; i < builders.size(); ++i) {
    const ArrayFacts &facts = inputs[i];
    if (facts.port.use == InputUse::Unread || facts.counted == 0)
      continue;
    InputProfile &input = result.inputs.emplace_back(builders[i].finish());
    input.min = facts.min;
    input.max = facts.max;
    // All labels are counted, so that no rare class is missing.
    if (input.indexes > 0 && !facts.occurrences.empty()) {
      input.indexes = facts.counted;
      input.shares.clear();
      for (size_t k = 0; k < facts.occurrences.size(); ++k)
        if (facts.occurrences[k] > 0)
          input.shares[InputProfile::counterOf(facts.port.first +
                                               static_cast<int64_t>(k))] +=
              static_cast<double>(facts.occurrences[k]) /
              static_cast<double>(facts.counted);
    }
  }
  if (classes)
    result.classes = classes->finish();
  if (samplesPerRow > 0)
    result.samples = samples.sketch(rows * samplesPerRow);
  return result;
}

std::vector<std::string> DataFacts::orderTexts() const {
  std::vector<std::string> texts = samples.orderTexts();
  for (const SequenceFacts &one : sequences)
    texts.push_back(one.orderText(inputs[one.input].port));
  std::erase(texts, "");
  for (const std::unique_ptr<SampleCheck> &check : checks)
    for (std::string &text : check->orderTexts())
      texts.push_back(std::move(text));
  return texts;
}

int64_t evenRow(int64_t i, int64_t count, int64_t rows) {
  if (count == 1)
    return 0;
  return (rows - 1) / (count - 1) * i +
         (rows - 1) % (count - 1) * i / (count - 1);
}

/// Returns the pairs of ports that could hold equal values by mistake. A loss
/// that shifts its labels reads the ids as labels.
static std::vector<std::pair<size_t, size_t>>
comparable(const std::vector<Port> &ports) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t second = 0; second < ports.size(); ++second)
    for (size_t first = 0; first < second; ++first) {
      const Port &a = ports[first], &b = ports[second];
      if (a.dtype == b.dtype && a.globalShape == b.globalShape &&
          a.use != InputUse::ShiftedLabels && b.use != InputUse::ShiftedLabels)
        pairs.emplace_back(first, second);
    }
  return pairs;
}

int64_t samplesPerStep(const std::vector<Port> &inputs) {
  int64_t count = 0;
  for (const Port &port : inputs) {
    int64_t first = port.globalShape.empty() ? 0 : port.globalShape.front();
    if (first == 0 || (count > 0 && first != count))
      return 0;
    count = first;
  }
  return count;
}

/// Returns the samples in a row, or 0 if it is not clear what a sample is.
static int64_t samplesIn(const std::string &unit,
                         const std::vector<Port> &ports) {
  if (unit == "sample")
    return 1;
  bool isFirst = std::ranges::all_of(
      ports, [](const Port &port) { return port.batchDim == 0; });
  return isFirst ? samplesPerStep(ports) : 0;
}

/// Returns how many of `rows` rows of `bytes` bytes a pass reads. Rows with
/// gaps between them are slow to read.
static int64_t rowsToRead(int64_t rows, int64_t bytes, int64_t mostBytes) {
  constexpr int64_t kMostSpaced = int64_t(1) << 13;
  int64_t most = mostBytes / std::max<int64_t>(bytes, 1);
  return rows <= most
             ? rows
             : std::min(rows, std::clamp(most, int64_t(2), kMostSpaced));
}

static std::vector<int64_t> perSample(std::vector<int64_t> perRow,
                                      int64_t samplesPerRow) {
  for (int64_t &elements : perRow)
    elements /= samplesPerRow;
  return perRow;
}

/// Adds the samples of `count` rows, of which the first is read `number` of
/// `all`.
static void addSamples(DataFacts &facts, int64_t count,
                       const std::vector<std::byte *> &arrays,
                       const std::vector<int64_t> &rowBytes, int64_t number,
                       int64_t all) {
  constexpr int64_t kMostHashes = int64_t(4) << 20;
  const int64_t perRow = facts.samplesPerRow;
  const int64_t spacing = (all * perRow + kMostHashes - 1) / kMostHashes;
  std::vector<const std::byte *> sample(arrays.size());
  for (int64_t i = 0; i < count * perRow; ++i) {
    for (size_t k = 0; k < arrays.size(); ++k)
      sample[k] = arrays[k] + i * (rowBytes[k] / perRow);
    facts.samples.add(sample, (number * perRow + i) % spacing == 0);
    for (size_t k = 0; k < arrays.size(); ++k)
      facts.values[k].add(sample[k]);
    for (const std::unique_ptr<SampleCheck> &check : facts.checks)
      check->add(sample);
    facts.near.add(sample);
    constexpr int64_t kMostOfClasses = int64_t(1) << 14; // samples
    if (facts.classes &&
        (number * perRow + i) %
                ((all * perRow + kMostOfClasses - 1) / kMostOfClasses) ==
            0)
      facts.classes->add(sample);
    for (size_t k = 0; k < arrays.size(); ++k) {
      const int64_t most = facts.builders[k].mostSamples();
      if ((number * perRow + i) % ((all * perRow + most - 1) / most) == 0)
        facts.builders[k].add(sample[k]);
    }
  }
}

/// Adds the rows from `first` on, of which the first is read `number` of `all`.
static void addBlock(DataFacts &facts, int64_t first, int64_t count,
                     const std::vector<int64_t> &perRow,
                     const std::vector<std::byte *> &arrays, int64_t number,
                     int64_t all) {
  std::vector<int64_t> rowBytes;
  for (size_t k = 0; k < arrays.size(); ++k) {
    ArrayFacts &input = facts.inputs[k];
    rowBytes.push_back(perRow[k] * sizeOf(input.port.dtype));
    for (int64_t row = 0; row < count; ++row)
      input.add(first + row, arrays[k] + row * rowBytes[k], perRow[k]);
  }
  if (facts.samplesPerRow > 0)
    addSamples(facts, count, arrays, rowBytes, number, all);
  auto addTo = [&](auto &one) {
    one.add(facts.inputs[one.input].port, arrays[one.input],
            count * perRow[one.input]);
  };
  auto addPair = [&](auto &pair, size_t other) {
    pair.add(facts.inputs[pair.ids].port, arrays[pair.ids],
             facts.inputs[other].port, arrays[other], count * perRow[pair.ids]);
  };
  for (ShiftFacts &shift : facts.shifts)
    addPair(shift, shift.labels);
  for (PaddingFacts &padding : facts.paddings)
    addPair(padding, padding.other);
  for (ForeignLabels &labels : facts.foreigners)
    addPair(labels, labels.labels);
  for (SeriesFacts &series : facts.series)
    addTo(series);
  for (SequenceFacts &sequences : facts.sequences)
    addTo(sequences);
}

/// A row has `perRow` elements of each of `ports`.
static DataFacts emptyFacts(const std::vector<Port> &ports,
                            const std::vector<int64_t> &perRow,
                            const std::string &unit, int64_t rows,
                            bool comparesNumbers) {
  DataFacts facts;
  facts.unit = unit;
  facts.rows = rows;
  facts.equal = comparable(ports);
  facts.shifts = shiftsOf(ports);
  facts.paddings = paddingsOf(ports);
  facts.foreigners = foreignLabelsOf(ports);
  facts.sequences = sequencesOf(ports);
  if (comparesNumbers)
    facts.series = seriesOf(ports);
  facts.samplesPerRow = samplesIn(unit, ports);
  const bool hasSamples = facts.samplesPerRow > 0;
  const std::vector<int64_t> elements =
      perSample(perRow, hasSamples ? facts.samplesPerRow : 1);
  for (size_t i = 0; i < ports.size(); ++i) {
    facts.inputs.emplace_back().port = ports[i];
    facts.values.emplace_back(ports[i], elements[i]);
    if (hasSamples)
      facts.builders.emplace_back(ports[i], elements[i]);
  }
  if (hasSamples) {
    facts.samples = SampleFacts(ports, elements, comparesNumbers);
    facts.checks = sampleChecks({ports, elements});
    if (comparesNumbers)
      facts.near = NearSamples({ports, elements});
    facts.classes = ClassProfileBuilder::of(ports, elements);
  }
  return facts;
}

Expected<DataFacts> scanRows(const std::vector<Port> &ports,
                             const std::vector<int64_t> &perRow,
                             const std::string &unit, int64_t rows,
                             const ReadRows &read, const ScanLimits &limits) {
  constexpr int64_t kBlockBytes = int64_t(1) << 20;
  DataFacts facts =
      emptyFacts(ports, perRow, unit, rows, limits.comparesNumbers);
  int64_t bytes = 0; // of a row
  for (size_t i = 0; i < ports.size(); ++i)
    bytes += perRow[i] * sizeOf(ports[i].dtype);
  const int64_t toRead = rowsToRead(rows, bytes, limits.bytes);
  int64_t block = 1;
  if (toRead == rows)
    block = std::clamp(kBlockBytes / std::max<int64_t>(bytes, 1), int64_t(1),
                       std::max<int64_t>(rows, 1));
  std::vector<HostTensor> arrays;
  std::vector<std::byte *> to;
  arrays.reserve(ports.size());
  to.reserve(ports.size());
  for (size_t i = 0; i < ports.size(); ++i)
    arrays.push_back(HostTensor::zeros(ports[i].dtype, {block, perRow[i]}));
  for (HostTensor &array : arrays)
    to.push_back(array.data.data());
  const double end = nowSeconds() + limits.seconds;
  for (int64_t i = 0; i < toRead; i += block) {
    facts.ranOutOfTime = i > 0 && nowSeconds() > end;
    if (facts.ranOutOfTime)
      break;
    int64_t first = evenRow(i, toRead, rows);
    int64_t count = std::min(block, toRead - i);
    facts.seen += count;
    DPC_TRY(read(first, count, to));
    addBlock(facts, first, count, perRow, to, i, toRead);
    // After a last block of fewer rows, the rest is of a block that was equal.
    std::erase_if(facts.equal, [&](const auto &pair) {
      return arrays[pair.first].data != arrays[pair.second].data;
    });
  }
  // Inputs of one constant, such as two masks of ones, are no mistake.
  std::erase_if(facts.equal, [&](const auto &pair) {
    const ArrayFacts &first = facts.inputs[pair.first];
    return first.counted == 0 || first.min == first.max;
  });
  facts.samples.finish();
  for (SequenceFacts &sequences : facts.sequences)
    sequences.finish();
  for (SeriesFacts &series : facts.series)
    series.finish();
  return facts;
}

} // namespace dpc::rt
