//===- Options.cpp - Import options that the user sets --------------------===//
#include "frontends/emit/Options.h"

#include "llvm/ADT/STLExtras.h"

namespace dpc::frontend {

llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// "; names are like 'a', 'b'", or "".
static std::string listed(llvm::ArrayRef<std::string> examples) {
  std::string text;
  for (const std::string &name : examples.take_front(4))
    text += (text.empty() ? "; names are like '" : "', '") + name;
  return text.empty() ? text : text + "'";
}

llvm::Expected<NameFilter> NameFilter::create(
    llvm::StringRef option, const std::vector<std::string> &patterns,
    llvm::StringRef file, llvm::StringRef what,
    llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> examples) {
  NameFilter filter;
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob) {
      llvm::consumeError(glob.takeError());
      return makeError(option + "=" + pattern + ": not a valid glob");
    }
    if (llvm::none_of(names, [&](const std::string &name) {
          return pattern == name || glob->match(name);
        }))
      return makeError(option + "=" + pattern + ": no " + what + " of " + file +
                       " has such a name" + listed(examples));
    filter.names.push_back(pattern);
    filter.globs.push_back(std::move(*glob));
  }
  return filter;
}

bool NameFilter::matches(llvm::StringRef name) const {
  return llvm::is_contained(names, name) ||
         llvm::any_of(globs, [&](const llvm::GlobPattern &glob) {
           return glob.match(name);
         });
}

} // namespace dpc::frontend
