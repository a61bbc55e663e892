#include "runtime/io/Npy.h"

#include "runtime/base/OneLine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

namespace dpc::rt {

namespace {

struct DescrName {
  const char *descr;
  DType type;
};
constexpr DescrName kDescrs[] = {
    {"<f4", DType::F32}, {"<f8", DType::F64}, {"<f2", DType::F16},
    {"<i8", DType::I64}, {"<i4", DType::I32}, {"<i2", DType::I16},
    {"|i1", DType::I8},  {"|u1", DType::U8},  {"|b1", DType::Bool},
    {"<u8", DType::U64}, {"<u4", DType::U32}, {"<u2", DType::U16}};

std::optional<DType> typeOfDescr(const std::string &descr) {
  for (const DescrName &entry : kDescrs)
    if (descr == entry.descr)
      return entry.type;
  return std::nullopt;
}

/// Returns the text between `begin` and `end` that follows `key` in a header.
std::optional<std::string> valueOf(const std::string &header,
                                   const std::string &key, char begin,
                                   char end) {
  size_t at = header.find('\'' + key + '\'');
  if (at == std::string::npos)
    return std::nullopt;
  at = header.find(begin, header.find(':', at));
  size_t stop = header.find(end, at + 1);
  if (at == std::string::npos || stop == std::string::npos)
    return std::nullopt;
  return header.substr(at + 1, stop - at - 1);
}

std::optional<std::vector<int64_t>> parseShape(const std::string &text) {
  std::vector<int64_t> shape;
  int64_t value = -1;
  for (char c : text + ",") {
    if (c >= '0' && c <= '9') {
      value = std::max<int64_t>(value, 0) * 10 + (c - '0');
      if (value > (int64_t(1) << 48))
        return std::nullopt;
    } else if (c == ',') {
      if (value >= 0)
        shape.push_back(value);
      value = -1;
    } else if (c != ' ') {
      return std::nullopt;
    }
  }
  return shape;
}

Status parseHeader(const std::string &header, NpyArray &array) {
  auto descr = valueOf(header, "descr", '\'', '\'');
  auto order = valueOf(header, "fortran_order", ' ', ',');
  auto shapeText = valueOf(header, "shape", '(', ')');
  if (!descr || !order || !shapeText)
    return Status::invalid("header is malformed");
  auto type = typeOfDescr(*descr);
  if (!type)
    return Status::invalid("element type '", *descr,
                           "' is not supported (little-endian floats, "
                           "integers and bool are)");
  if (order->find("False") == std::string::npos)
    return Status::invalid("Fortran order is not supported; save "
                           "numpy.ascontiguousarray(x)");
  auto shape = parseShape(*shapeText);
  if (!shape)
    return Status::invalid("shape (", *shapeText, ") is malformed");
  array.dtype = *type;
  array.shape = *shape;
  return Status::success();
}

Status parseFile(const MappedFile &file, NpyArray &array) {
  const char *data = file.data();
  if (file.size() < 12 || std::memcmp(data, "\x93NUMPY", 6) != 0)
    return Status::invalid("is not a .npy file");
  bool isLong = data[6] >= 2;
  uint32_t length = 0;
  std::memcpy(&length, data + 8, isLong ? 4 : 2);
  int64_t begin = isLong ? 12 : 10;
  if (length > file.size() - begin)
    return Status::invalid("header is cut off");
  DPC_TRY(parseHeader(std::string(data + begin, length), array));
  int64_t bytes = sizeOf(array.dtype);
  for (int64_t extent : array.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      return Status::invalid("shape is too large");
  int64_t have = file.size() - begin - length;
  if (have < bytes)
    return Status::invalid(
        "data is cut off: ", describe(array.dtype, array.shape), " needs ",
        bytes, " bytes, the file has ", have);
  if (have > bytes)
    return Status::invalid(have - bytes, " bytes follow the array ",
                           describe(array.dtype, array.shape),
                           ", expected one array and nothing else");
  array.data = data + begin + length;
  return Status::success();
}

} // namespace

Expected<NpyArray> openNpy(const std::string &path) {
  DPC_ASSIGN(MappedFile file, MappedFile::open(path));
  NpyArray array;
  array.file = file;
  if (Status status = parseFile(file, array); !status.ok())
    return Status(status.code(), path + ": " + oneLine(status.message()));
  return array;
}

std::string npyFile(const std::string &dir, const Port &port) {
  std::string name = port.name;
  std::replace(name.begin(), name.end(), '/', '_');
  return dir + "/" + name + ".npy";
}

std::vector<std::string> otherArrayFiles(const std::string &dir,
                                         const std::vector<Port> &ports) {
  static const std::set<std::string> kArrays = {".npy", ".npz", ".safetensors"};
  std::vector<std::string> names;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(dir, error)) {
    bool isRead = std::any_of(ports.begin(), ports.end(), [&](const Port &p) {
      return std::filesystem::path(npyFile(dir, p)).filename() ==
             entry.path().filename();
    });
    if (!isRead && kArrays.contains(entry.path().extension().string()))
      names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status StoredArray::read(int64_t first, int64_t count, DType as,
                         void *to) const {
  int64_t width = sizeOf(dtype), offset = begin + first * width;
  if (dtype == as)
    return file.read(offset, count * width, to);
  std::vector<char> stored(count * width);
  DPC_TRY(file.read(offset, count * width, stored.data()));
  convertElements(stored.data(), dtype, to, as, count);
  return Status::success();
}

/// Returns the type of the elements in the file, for types that NumPy lacks.
static DType heldAs(DType type) {
  switch (type) {
  case DType::I4:
  case DType::I2:
    return DType::I8;
  case DType::U4:
  case DType::U2:
    return DType::U8;
  default:
    return type == DType::BF16 || narrowFloatOf(type) ? DType::F32 : type;
  }
}

Status NpyWriter::start(const std::string &to, DType type,
                        const std::vector<int64_t> &shape) {
  path = to;
  dtype = heldAs(type);
  missing = numElements(shape);
  std::string descr;
  for (const DescrName &entry : kDescrs)
    if (entry.type == dtype)
      descr = entry.descr;
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : shape)
    header += std::to_string(extent) + ", ";
  header += "), }";
  // Pads the header, so that the data begins at a multiple of 64 bytes.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  out.open(path + ".new", std::ios::binary);
  auto length = static_cast<uint16_t>(header.size());
  out.write("\x93NUMPY\x01\x00", 8);
  out.write(reinterpret_cast<const char *>(&length), 2);
  out << header;
  return out ? Status::success() : Status::io(path, ": cannot be written");
}

Status NpyWriter::append(const HostTensor &tensor, int64_t count) {
  const std::byte *bytes = tensor.data.data();
  HostTensor wide;
  if (tensor.dtype != dtype) {
    wide = HostTensor::zeros(dtype, tensor.shape);
    convertElements(bytes, tensor.dtype, wide.data.data(), dtype, count);
    bytes = wide.data.data();
  }
  out.write(reinterpret_cast<const char *>(bytes), count * sizeOf(dtype));
  missing -= count;
  return out ? Status::success() : Status::io(path, ": cannot be written");
}

NpyWriter::~NpyWriter() {
  if (!out.is_open()) // finished, not started, or moved from
    return;
  out.close();
  std::remove((path + ".new").c_str());
}

Status NpyWriter::finish() {
  if (missing != 0)
    return Status::io(path, ": ", missing, " elements are missing");
  out.close();
  if (!out || std::rename((path + ".new").c_str(), path.c_str()) != 0) {
    std::remove((path + ".new").c_str());
    return Status::io(path, ": cannot be written");
  }
  return Status::success();
}

Status writeNpy(const std::string &path, const HostTensor &tensor) {
  NpyWriter writer;
  DPC_TRY(writer.start(path, tensor.dtype, tensor.shape));
  DPC_TRY(writer.append(tensor, tensor.elements()));
  return writer.finish();
}

} // namespace dpc::rt
