//===- Attrs.cpp - Syntax and verifiers of mesh and sharding --------------===//
#include "ir/Dialect.h"
#include "ir/Sharding.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace dpc;

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    StringRef name;
    int64_t size = 0;
    if (parser.parseKeyword(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseAxis))
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(),
                                     ArrayRef<StringAttr>(names),
                                     ArrayRef<int64_t>(sizes));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(
      llvm::zip(getNames(), getSizes()), printer, [&](auto axis) {
        printer << std::get<0>(axis).getValue() << "=" << std::get<1>(axis);
      });
  printer << ">";
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  llvm::SmallDenseSet<StringAttr> seen;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    if (size < 1)
      return emitError() << "(C1) mesh axis '" << name.getValue()
                         << "' has size " << size << ", must be at least 1";
    if (!seen.insert(name).second)
      return emitError() << "(C2) mesh axis '" << name.getValue()
                         << "' occurs twice";
  }
  return success();
}

std::optional<int64_t> MeshAttr::findAxis(StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(getNames()))
    if (axis.getValue() == name)
      return i;
  return std::nullopt;
}

int64_t MeshAttr::axisSize(StringRef name) const {
  std::optional<int64_t> axis = findAxis(name);
  return axis ? getSizes()[*axis] : 1;
}

int64_t MeshAttr::numRanks() const {
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip(getNames(), getSizes()))
    if (name.getValue() != kMicroBatchAxis)
      ranks *= size;
  return ranks;
}

namespace {

ParseResult parseAxisName(AsmParser &parser, MeshAttr mesh, int64_t &axis) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<int64_t> found = mesh.findAxis(name);
  if (!found)
    return parser.emitError(loc)
           << "(C1) axis '" << name << "' is not in " << mesh;
  axis = *found;
  return success();
}

/// Parses `{}`, `{dp, tp}` or factors such as `{3, 4:tp, 8:(dp, cp)}`.
ParseResult parseDim(AsmParser &parser, MeshAttr mesh,
                     SmallVectorImpl<DimShardingAttr> &dims) {
  SmallVector<int64_t> sizes, counts, axes;
  auto parseAxis = [&]() {
    return parseAxisName(parser, mesh, axes.emplace_back());
  };
  auto parseFactor = [&](int64_t size) -> ParseResult {
    size_t before = axes.size();
    if (succeeded(parser.parseOptionalColon())) {
      if (succeeded(parser.parseOptionalLParen())) {
        if (parser.parseCommaSeparatedList(parseAxis) || parser.parseRParen())
          return failure();
      } else if (parseAxis()) {
        return failure();
      }
    }
    sizes.push_back(size);
    counts.push_back(axes.size() - before);
    return success();
  };
  if (parser.parseLBrace())
    return failure();
  int64_t size = 0;
  if (OptionalParseResult number = parser.parseOptionalInteger(size);
      number.has_value()) {
    if (*number || parseFactor(size))
      return failure();
    while (succeeded(parser.parseOptionalComma()))
      if (parser.parseInteger(size) || parseFactor(size))
        return failure();
    if (parser.parseRBrace())
      return failure();
  } else {
    if (failed(parser.parseOptionalRBrace()) &&
        (parser.parseCommaSeparatedList(parseAxis) || parser.parseRBrace()))
      return failure();
    sizes.push_back(0);
    counts.push_back(axes.size());
  }
  dims.push_back(
      DimShardingAttr::get(parser.getContext(), sizes, counts, axes));
  return success();
}

ParseResult parsePartial(AsmParser &parser, MeshAttr mesh,
                         SmallVectorImpl<int64_t> &axes,
                         SmallVectorImpl<int64_t> &kinds) {
  if (parser.parseKeyword("partial") || parser.parseEqual())
    return failure();
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Braces, [&]() -> ParseResult {
        StringRef name;
        if (parseAxisName(parser, mesh, axes.emplace_back()) ||
            parser.parseColon())
          return failure();
        SMLoc loc = parser.getCurrentLocation();
        if (parser.parseKeyword(&name))
          return failure();
        if (name == partialKindName(kRoutedKind)) {
          kinds.push_back(kRoutedKind);
          return success();
        }
        std::optional<ReduceKind> kind = symbolizeReduceKind(name);
        if (!kind)
          return parser.emitError(loc)
                 << "unknown reduction '" << name
                 << "', expected sum, max, min, prod or routed";
        kinds.push_back(static_cast<int64_t>(*kind));
        return success();
      });
}

} // namespace

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  MeshAttr mesh;
  SmallVector<DimShardingAttr> dims;
  SmallVector<int64_t> axes, kinds;
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        return parseDim(parser, mesh, dims);
      }))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      parsePartial(parser, mesh, axes, kinds))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(
      parser.getContext(), mesh, ArrayRef<DimShardingAttr>(dims),
      ArrayRef<int64_t>(axes), ArrayRef<int64_t>(kinds));
}

static void printDim(AsmPrinter &printer, MeshAttr mesh, DimShardingAttr dim) {
  auto printAxes = [&](ArrayRef<int64_t> axes) {
    llvm::interleaveComma(axes, printer, [&](int64_t axis) {
      printer << mesh.getNames()[axis].getValue();
    });
  };
  printer << "{";
  ArrayRef<int64_t> axes = dim.getAxes();
  if (dim.getSizes() == ArrayRef<int64_t>{0})
    printAxes(axes);
  else
    llvm::interleaveComma(llvm::zip(dim.getSizes(), dim.getAxisCounts()),
                          printer, [&](auto factor) {
                            auto [size, count] = factor;
                            printer << size << (count > 0 ? ":" : "")
                                    << (count > 1 ? "(" : "");
                            printAxes(axes.take_front(count));
                            printer << (count > 1 ? ")" : "");
                            axes = axes.drop_front(count);
                          });
  printer << "}";
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", [";
  llvm::interleaveComma(getDims(), printer, [&](DimShardingAttr dim) {
    printDim(printer, getMesh(), dim);
  });
  printer << "]";
  if (!getPartialAxes().empty()) {
    printer << ", partial = {";
    llvm::interleaveComma(
        llvm::zip(getPartialAxes(), getPartialKinds()), printer, [&](auto p) {
          printer << getMesh().getNames()[std::get<0>(p)].getValue() << " : "
                  << partialKindName(std::get<1>(p));
        });
    printer << "}";
  }
  printer << ">";
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   MeshAttr mesh,
                                   ArrayRef<DimShardingAttr> dims,
                                   ArrayRef<int64_t> partialAxes,
                                   ArrayRef<int64_t> partialKinds) {
  SmallVector<int64_t> axes;
  for (DimShardingAttr dim : dims)
    llvm::append_range(axes, dim.getAxes());
  llvm::append_range(axes, partialAxes);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis < 0 || axis >= static_cast<int64_t>(mesh.getNames().size()))
      return emitError() << "(C1) axis number " << axis << " is not in "
                         << mesh;
    if (llvm::is_contained(ArrayRef(axes).take_front(i), axis))
      return emitError() << "(C2) axis '" << mesh.getNames()[axis].getValue()
                         << "' is used twice";
  }
  return success();
}

LogicalResult ShardingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getDims().size())
    return emitError() << "(C3) sharding has " << getDims().size()
                       << " dimensions, the tensor " << shape.size();
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    ArrayRef<int64_t> sizes = dim.getSizes();
    if (sizes.size() == 1 && sizes[0] == 0)
      continue;
    int64_t product = 1;
    for (int64_t size : sizes) {
      if (size < 1)
        return emitError() << "(C4) dimension " << i << " has a factor of size "
                           << size << ", must be at least 1";
      if (llvm::MulOverflow(product, size, product))
        return emitError() << "(C4) factors of dimension " << i
                           << " multiply to more than 2^63 - 1, its size is "
                           << shape[i];
    }
    if (product != shape[i])
      return emitError() << "(C4) factors of dimension " << i << " multiply to "
                         << product << ", its size is " << shape[i];
  }
  ShardingAttr canonical = ShardingSpec::get(*this, shape).toAttr();
  if (canonical != *this)
    return emitError() << "(C5) sharding is not canonical, write " << canonical;
  return success();
}
