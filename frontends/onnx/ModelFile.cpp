//===- ModelFile.cpp - An .onnx file and its weights ----------------------===//
#include "frontends/onnx/ModelFile.h"
#include "frontends/onnx/WireScanner.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using ::onnx::TensorProto;

namespace dpc::frontend {

/// MLIR types: unsigned integers are unsigned, signed integers are signless.
static Type integerTypeOf(int32_t onnxType, MLIRContext *context) {
  auto natural = [&](unsigned width) {
    return IntegerType::get(context, width, IntegerType::Unsigned);
  };
  switch (onnxType) {
  case TensorProto::INT64:
    return IntegerType::get(context, 64);
  case TensorProto::INT32:
    return IntegerType::get(context, 32);
  case TensorProto::INT16:
    return IntegerType::get(context, 16);
  case TensorProto::INT8:
    return IntegerType::get(context, 8);
  case TensorProto::INT4:
    return IntegerType::get(context, 4);
  case TensorProto::INT2:
    return IntegerType::get(context, 2);
  case TensorProto::UINT64:
    return natural(64);
  case TensorProto::UINT32:
    return natural(32);
  case TensorProto::UINT16:
    return natural(16);
  case TensorProto::UINT8:
    return natural(8);
  case TensorProto::UINT4:
    return natural(4);
  case TensorProto::UINT2:
    return natural(2);
  case TensorProto::BOOL:
    return IntegerType::get(context, 1);
  default:
    return {};
  }
}

Type elementTypeOf(int32_t onnxType, MLIRContext *context) {
  switch (onnxType) {
  case TensorProto::FLOAT:
    return Float32Type::get(context);
  case TensorProto::FLOAT16:
    return Float16Type::get(context);
  case TensorProto::BFLOAT16:
    return BFloat16Type::get(context);
  case TensorProto::DOUBLE:
    return Float64Type::get(context);
  case TensorProto::FLOAT8E4M3FN:
    return Float8E4M3FNType::get(context);
  case TensorProto::FLOAT8E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case TensorProto::FLOAT8E5M2:
    return Float8E5M2Type::get(context);
  case TensorProto::FLOAT8E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  case TensorProto::FLOAT4E2M1:
    return Float4E2M1FNType::get(context);
  default:
    return integerTypeOf(onnxType, context);
  }
}

std::string onnxTypeName(int32_t onnxType) {
  if (!::onnx::TensorProto_DataType_IsValid(onnxType))
    return std::to_string(onnxType);
  return ::onnx::TensorProto_DataType_Name(
      static_cast<::onnx::TensorProto_DataType>(onnxType));
}

/// Keeps the byte size of a tensor below 2^63.
static constexpr int64_t kMaxElements = int64_t(1) << 59;

// Field numbers in onnx-ml.proto.
static constexpr uint32_t kModelGraph = 7;
static constexpr uint32_t kGraphInitializer = 5;
static constexpr uint32_t kTensorFloatData = 4;
static constexpr uint32_t kTensorRawData = 9;
static constexpr uint32_t kTensorDoubleData = 10;

static llvm::Error checkName(llvm::StringRef path, llvm::StringRef what,
                             const std::string &name) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(name.data());
  if (llvm::isLegalUTF8String(&begin, begin + name.size()))
    return llvm::Error::success();
  std::string shown;
  for (unsigned char c : name)
    shown += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  return makeError("{0}: the name of {1} '{2}' is not UTF-8", path, what,
                   shown);
}

/// Fails if a name is not UTF-8, which protobuf does not check. Ignores names
/// inside branches and functions, which never reach plans or weight files.
static llvm::Error checkNames(llvm::StringRef path,
                              const ::onnx::GraphProto &graph) {
  for (const TensorProto &tensor : graph.initializer())
    if (llvm::Error error = checkName(path, "initializer", tensor.name()))
      return error;
  for (const auto &input : graph.input())
    if (llvm::Error error = checkName(path, "input", input.name()))
      return error;
  for (const auto &output : graph.output())
    if (llvm::Error error = checkName(path, "output", output.name()))
      return error;
  for (const auto &node : graph.node()) {
    if (llvm::Error error = checkName(path, "node", node.name()))
      return error;
    for (const std::string &name : node.output())
      if (llvm::Error error = checkName(path, "the tensor", name))
        return error;
  }
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<ModelFile>>
ModelFile::open(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError("{0}: cannot read: {1}", path,
                     buffer.getError().message());
  return parse(std::move(*buffer), path);
}

llvm::Expected<std::unique_ptr<ModelFile>>
ModelFile::parse(std::unique_ptr<llvm::MemoryBuffer> buffer,
                 llvm::StringRef path) {
  std::unique_ptr<ModelFile> result(new ModelFile);
  result->file = path.str();
  result->buffer = std::move(buffer);
  llvm::StringRef bytes = result->buffer->getBuffer();
  if (bytes.size() >= (uint64_t(1) << 31))
    return makeError("{0}: {1} bytes, but an ONNX file holds less than 2 GiB; "
                     "larger weights must be stored as external data",
                     path, bytes.size());
  ::google::protobuf::SetLogHandler(nullptr);
  if (!result->proto.ParseFromArray(bytes.data(),
                                    static_cast<int>(bytes.size())))
    return makeError(
        "{0}: not a valid ONNX file (truncated, damaged or in another format)",
        path);
  if (!result->proto.has_graph() || result->proto.opset_import_size() == 0)
    return makeError("{0}: not an ONNX model: it has no {1}", path,
                     (result->proto.has_graph() ? "opset_import" : "graph"));
  if (llvm::Error error = checkNames(path, result->proto.graph()))
    return std::move(error);
  if (llvm::Error error = result->scanInitializers())
    return std::move(error);
  return result;
}

llvm::Error ModelFile::scanInitializers() {
  auto visitTensor = [&](const WireField &tensor) {
    if (tensor.number != kGraphInitializer)
      return;
    Span span;
    scanFields(tensor.payload, [&](const WireField &field) {
      if (field.number != kTensorRawData && field.number != kTensorFloatData &&
          field.number != kTensorDoubleData)
        return;
      span.scattered |= span.offset >= 0 || field.wireType != 2;
      span.offset = field.payload.data() - buffer->getBufferStart();
      span.bytes = static_cast<int64_t>(field.payload.size());
    });
    spans.push_back(span);
  };
  bool ok = scanFields(buffer->getBuffer(), [&](const WireField &field) {
    if (field.number == kModelGraph)
      scanFields(field.payload, visitTensor);
  });
  if (!ok || static_cast<int>(spans.size()) != proto.graph().initializer_size())
    return makeError("{0}: damaged: initializers cannot be located", file);
  return llvm::Error::success();
}

static std::string describe(const TensorProto &tensor) {
  return "initializer '" + tensor.name() + "'";
}

llvm::Error checkDims(const TensorProto &tensor) {
  int64_t elements = 1;
  for (int64_t d : tensor.dims())
    if (d < 0 || llvm::MulOverflow(elements, d, elements) ||
        elements > kMaxElements)
      return makeError("{0} has impossible dimensions", describe(tensor));
  return llvm::Error::success();
}

static bool isExternal(const TensorProto &tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL;
}

llvm::Expected<std::optional<DataLocation>>
ModelFile::locateExternal(const TensorProto &tensor, int64_t bytes) const {
  std::string location;
  int64_t offset = 0, length = bytes;
  for (const auto &entry : tensor.external_data()) {
    llvm::StringRef value = entry.value();
    bool bad = false;
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset")
      bad = value.getAsInteger(10, offset) || offset < 0;
    else if (entry.key() == "length")
      bad = value.getAsInteger(10, length);
    if (bad)
      return makeError(
          "{0}: {1}: external data {2} '{3}' is not a valid number", file,
          describe(tensor), entry.key(), value);
  }
  bool leaves = llvm::sys::path::is_absolute(location);
  for (auto part = llvm::sys::path::begin(location);
       part != llvm::sys::path::end(location); ++part)
    leaves |= *part == "..";
  if (location.empty() || leaves)
    return makeError("{0}: {1}: external data location '{2}' must be a path "
                     "inside the model's folder",
                     file, describe(tensor), location);
  if (length != bytes)
    return makeError(
        "{0}: {1}: external data has {2} bytes, its shape needs {3}", file,
        describe(tensor), length, bytes);
  llvm::SmallString<128> path(llvm::sys::path::parent_path(file));
  llvm::sys::path::append(path, location);
  uint64_t size = 0;
  if (llvm::sys::fs::file_size(path, size))
    return std::nullopt;
  if (static_cast<int64_t>(size) < offset + bytes)
    return makeError("{0}: holds {1} bytes, {2} ends at byte {3}", path, size,
                     describe(tensor), offset + bytes);
  return DataLocation{path.str().str(), offset, bytes};
}

llvm::Expected<std::optional<DataLocation>>
ModelFile::locateInitializer(int index, Type element) const {
  const TensorProto &tensor = proto.graph().initializer(index);
  int64_t bytes = elementBytes(element);
  for (int64_t d : tensor.dims())
    bytes *= d;
  if (isExternal(tensor))
    return locateExternal(tensor, bytes);
  const Span &span = spans[index];
  if (bytes > 0 && (span.offset < 0 || span.scattered))
    return makeError(
        "{0}: {1} stores {2} as variable-length integers; save it as raw data",
        file, describe(tensor), onnxTypeName(tensor.data_type()));
  if (bytes > 0 && span.bytes != bytes)
    return makeError("{0}: {1} has {2} bytes of data, its shape needs {3}",
                     file, describe(tensor), span.bytes, bytes);
  return DataLocation{file, std::max<int64_t>(span.offset, 0), bytes};
}

static Scalar decodeBits(uint64_t bits, Type element) {
  Scalar s;
  if (auto type = dyn_cast<FloatType>(element)) {
    bool lost;
    llvm::APFloat number(
        type.getFloatSemantics(),
        llvm::APInt(type.getWidth(), bits, false, /*implicitTrunc=*/true));
    number.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
    s.f = number.convertToDouble();
    return s;
  }
  s.i = static_cast<int64_t>(bits);
  return coerce(s, element);
}

static Scalar readElement(const char *data, Type element) {
  if (element.isF32()) {
    Scalar s;
    s.f = llvm::bit_cast<float>(llvm::support::endian::read32le(data));
    return s;
  }
  uint64_t bits = 0;
  for (int64_t n = elementBytes(element); n-- > 0;)
    bits = bits << 8 | static_cast<unsigned char>(data[n]);
  return decodeBits(bits, element);
}

/// Returns the width of elements that share a byte (the first element has the
/// lowest bits), or 0 for types of a byte or more.
static unsigned packedWidth(Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  return width > 1 && width < 8 ? width : 0;
}

/// Reads at most `count` elements; the last byte can end with padding bits.
static std::vector<Scalar> readElements(llvm::StringRef bytes, Type element,
                                        int64_t count) {
  std::vector<Scalar> values;
  if (unsigned width = packedWidth(element)) {
    for (int64_t n = 0, all = static_cast<int64_t>(bytes.size()) * 8 / width;
         n < std::min(count, all); ++n)
      values.push_back(decodeBits(
          static_cast<unsigned char>(bytes[n * width / 8]) >> (n * width % 8),
          element));
    return values;
  }
  int64_t step = elementBytes(element);
  values.resize(bytes.size() / step);
  for (size_t n = 0; n < values.size(); ++n)
    values[n] = readElement(bytes.data() + n * step, element);
  return values;
}

static std::vector<Scalar> readTyped(const TensorProto &tensor, Type element,
                                     int64_t count) {
  std::vector<Scalar> values;
  auto take = [&](const auto &numbers, auto convert) {
    for (auto number : numbers)
      values.push_back(convert(number));
  };
  auto asFloat = [](double v) {
    Scalar s;
    s.f = v;
    return s;
  };
  auto asBits = [&](auto v) {
    return decodeBits(static_cast<uint64_t>(v), element);
  };
  if (element.isF32())
    take(tensor.float_data(), asFloat);
  else if (element.isF64())
    take(tensor.double_data(), asFloat);
  else if (element.isUnsignedInteger(64) || element.isUnsignedInteger(32))
    take(tensor.uint64_data(), asBits);
  else if (element.isInteger(64))
    take(tensor.int64_data(), asBits);
  else if (!packedWidth(element)) // includes 16-bit floats, as bits
    take(tensor.int32_data(), asBits);
  else {
    std::string bytes;
    for (int32_t word : tensor.int32_data())
      bytes += static_cast<char>(word);
    values = readElements(bytes, element, count);
  }
  return values;
}

llvm::Expected<ConstTensor> ModelFile::decode(const TensorProto &tensor,
                                              MLIRContext *context) const {
  Type element = elementTypeOf(tensor.data_type(), context);
  if (!element)
    return makeError("element type {0} is not supported; accepted: floats, "
                     "integers and booleans",
                     onnxTypeName(tensor.data_type()));
  if (llvm::Error error = checkDims(tensor))
    return std::move(error);
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  std::vector<Scalar> values;
  if (isExternal(tensor)) {
    auto place =
        locateExternal(tensor, numElements(shape) * elementBytes(element));
    if (!place)
      return place.takeError();
    if (!*place)
      return makeError("{0} has no data on disk", describe(tensor));
    auto data = llvm::MemoryBuffer::getFileSlice(
        (*place)->file, (*place)->bytes, (*place)->offset);
    if (!data)
      return makeError("{0}: cannot read: {1}", (*place)->file,
                       data.getError().message());
    values = readElements((*data)->getBuffer(), element, numElements(shape));
  } else if (tensor.has_raw_data()) {
    values = readElements(tensor.raw_data(), element, numElements(shape));
  } else {
    values = readTyped(tensor, element, numElements(shape));
  }
  if (static_cast<int64_t>(values.size()) != numElements(shape))
    return makeError("tensor '{0}' holds {1} elements, its shape needs {2}",
                     tensor.name(), values.size(), numElements(shape));
  return ConstTensor::dense(element, shape, std::move(values));
}

} // namespace dpc::frontend
