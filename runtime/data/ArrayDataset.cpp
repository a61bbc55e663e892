//===- ArrayDataset.cpp - samples in one array per input ------------------===//
#include "runtime/data/Dataset.h"

#include "runtime/facts/IndexCheck.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <set>

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
  std::vector<std::string> unread() const override { return others; }
  void setUnread(std::vector<std::string> names) { others = std::move(names); }

  std::vector<DType> storedTypes() const override {
    std::vector<DType> types;
    types.reserve(columns.size());
    for (const Column &column : columns)
      types.push_back(column.array.dtype);
    return types;
  }

  Status read(int64_t first, int64_t many,
              const std::vector<std::byte *> &to) const override {
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column &column = columns[i];
      DType type = ports[i].dtype;
      int64_t size = sizes[i];
      DPC_TRY(column.array.read(first * size, many * size, type, to[i]));
      auto bad = findInvalidIndex(ports[i], type, to[i], many * size);
      if (!bad)
        continue;
      int64_t sample = bad->position / size;
      return checkIndexes(ports[i], type, to[i] + sample * size * sizeOf(type),
                          size,
                          concat(column.place, ": sample ", first + sample));
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
  std::vector<std::string> others; ///< see unread()
};

} // namespace

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
  dataset->setUnread(otherArrayFiles(dir, plan.inputs));
  return std::unique_ptr<Dataset>(std::move(dataset));
}

Expected<std::unique_ptr<Dataset>>
openSafetensorsDataset(const Plan &plan, const std::string &path) {
  DPC_ASSIGN(SafetensorsFile file, openSafetensors(path));
  DPC_ASSIGN(InputFile samples, InputFile::open(path));
  auto dataset = std::make_unique<ArrayDataset>();
  std::set<std::string> read;
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
    read.insert(it->first);
    DPC_TRY(dataset->add(port, {{samples, entry.offset, entry.dtype},
                                path + ": '" + it->first + "'",
                                entry.shape}));
  }
  std::vector<std::string> others;
  for (const auto &[name, entry] : file.entries)
    if (!read.count(name))
      others.push_back(name);
  dataset->setUnread(std::move(others));
  return std::unique_ptr<Dataset>(std::move(dataset));
}

} // namespace dpc::rt
