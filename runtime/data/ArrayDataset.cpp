//===- ArrayDataset.cpp - samples in one array per input ------------------===//
#include "runtime/data/Dataset.h"

#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"

#include <algorithm>

namespace dpc::rt {

namespace {

struct Column {
  StoredArray array;
  std::string place; ///< path, or path and name, for messages
  std::vector<int64_t> shape;
};

class ArrayDataset : public Dataset {
public:
  Status add(const Port &port, Column column) {
    std::vector<int64_t> sample(port.globalShape.begin() + 1,
                                port.globalShape.end());
    bool fits = !column.shape.empty() && column.shape.front() > 0 &&
                std::equal(column.shape.begin() + 1, column.shape.end(),
                           sample.begin(), sample.end()) &&
                (column.array.dtype == port.dtype ||
                 widens(column.array.dtype, port.dtype));
    if (!fits)
      return Status::invalid(column.place, ": found ",
                             describe(column.array.dtype, column.shape),
                             ", expected ", expected(port));
    if (!columns.empty() && column.shape.front() != count)
      return Status::invalid(column.place, ": holds ", column.shape.front(),
                             " samples, the other inputs ", count);
    count = column.shape.front();
    columns.push_back(std::move(column));
    ports.push_back(port);
    sizes.push_back(numElements(sample));
    return Status::success();
  }

  int64_t samples() const override { return count; }

  Status read(int64_t index,
              const std::vector<std::byte *> &to) const override {
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column &column = columns[i];
      DPC_TRY(
          column.array.read(index * sizes[i], sizes[i], ports[i].dtype, to[i]));
      int64_t bad = firstBeyond(ports[i], to[i], sizes[i]);
      if (bad >= 0)
        return Status::invalid(
            column.place, ": element ", bad, " of sample ", index, " is ",
            static_cast<int64_t>(loadAsDouble(to[i], ports[i].dtype, bad)),
            ", expected less than ", ports[i].limit);
    }
    return Status::success();
  }

private:
  /// "f32[samples, 64]"
  static std::string expected(const Port &port) {
    std::string text = describe(port.dtype, port.globalShape);
    size_t begin = text.find('[') + 1;
    return text.replace(begin, text.find_first_of(",]", begin) - begin,
                        "samples");
  }

  /// columns, ports and sizes have an element per input
  std::vector<Column> columns;
  std::vector<Port> ports;
  std::vector<int64_t> sizes; ///< elements per sample
  int64_t count = 0;
};

} // namespace

int64_t firstBeyond(const Port &port, const std::byte *data, int64_t count) {
  // Negative values are allowed: a loss may ignore negative labels.
  auto find = [&](auto zero) {
    auto value = reinterpret_cast<const decltype(zero) *>(data);
    const auto *end = value + count;
    const auto *bad = std::find_if(value, end, [&](auto v) {
      return v > 0 &&
             static_cast<uint64_t>(v) >= static_cast<uint64_t>(port.limit);
    });
    return bad == end ? int64_t(-1) : static_cast<int64_t>(bad - value);
  };
  if (port.limit == 0 || !isInteger(port.dtype))
    return -1;
  switch (port.dtype) {
  case DType::I64:
    return find(int64_t());
  case DType::I32:
    return find(int32_t());
  default:
    for (int64_t i = 0; i < count; ++i)
      if (loadAsDouble(data, port.dtype, i) >= static_cast<double>(port.limit))
        return i;
    return -1;
  }
}

Expected<std::unique_ptr<Dataset>> openNpyDataset(const Plan &plan,
                                                  const std::string &dir) {
  auto dataset = std::make_unique<ArrayDataset>();
  for (const Port &port : plan.inputs) {
    std::string path = npyFile(dir, port);
    DPC_ASSIGN(NpyArray array, openNpy(path).in("input '" + port.name + "'"));
    DPC_ASSIGN(InputFile file, InputFile::open(path));
    DPC_TRY(
        dataset->add(port, {{file, array.data - array.file.data(), array.dtype},
                            path,
                            array.shape}));
  }
  return std::unique_ptr<Dataset>(std::move(dataset));
}

Expected<std::unique_ptr<Dataset>>
openSafetensorsDataset(const Plan &plan, const std::string &path) {
  DPC_ASSIGN(SafetensorsFile file, openSafetensors(path));
  DPC_ASSIGN(InputFile samples, InputFile::open(path));
  auto dataset = std::make_unique<ArrayDataset>();
  for (const Port &port : plan.inputs) {
    auto it = file.entries.find(port.name);
    if (it == file.entries.end()) {
      std::string name = port.name;
      std::replace(name.begin(), name.end(), '/', '_');
      it = file.entries.find(name);
    }
    if (it == file.entries.end())
      return Status::notFound(path, ": has no tensor '", port.name,
                              "', an input of the plan");
    const SafetensorsEntry &entry = it->second;
    DPC_TRY(dataset->add(port, {{samples, entry.offset, entry.dtype},
                                path + ": '" + it->first + "'",
                                entry.shape}));
  }
  return std::unique_ptr<Dataset>(std::move(dataset));
}

} // namespace dpc::rt
