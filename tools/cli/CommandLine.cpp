#include "tools/cli/CommandLine.h"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <vector>

namespace dpc {

size_t editDistance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      size_t changed = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

static std::vector<std::string> optionsOf(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  for (const CLI::App *part : app.get_subcommands(nullptr))
    for (std::string &name : optionsOf(*part))
      names.push_back(std::move(name));
  return names;
}

static std::string nearest(const std::string &word,
                           const std::vector<std::string> &names) {
  // At most a third of the letters may be wrong.
  size_t least = word.size() / 3 + 1;
  std::string found;
  for (const std::string &name : names) {
    size_t distance = editDistance(word, name);
    if (distance < least) {
      least = distance;
      found = name;
    }
  }
  return found;
}

std::string errorText(const CLI::App &app, const CLI::Error &error, int argc,
                      const char *const *argv) {
  std::string text = error.what();
  if (!dynamic_cast<const CLI::ExtrasError *>(&error))
    return text;
  std::vector<std::string> names = optionsOf(app);
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    word = word.substr(0, word.find('='));
    bool isUnknown = word.starts_with("--") && word.size() > 2 &&
                     std::find(names.begin(), names.end(), word) == names.end();
    std::string near = isUnknown ? nearest(word, names) : "";
    if (!near.empty())
      return text + "; did you mean " + near + "?";
  }
  return text;
}

int fail(const std::string &program, const std::string &message) {
  std::cerr << program << ": error: " << message << "\n";
  return 1;
}

int runProgram(CLI::App &app, int argc, const char *const *argv,
               const std::function<int()> &run) {
  std::string shell;
  bool showsVersion = false;
  app.add_flag("--version", showsVersion, "Print the version of dpc");
  app.add_option("--completion", shell,
                 "Print a completion script for this shell")
      ->check(CLI::IsMember({"bash", "zsh"}));
  try {
    refuseEmptyValues(argc, argv);
    app.parse(argc, argv);
    if (showsVersion)
      std::cout << app.get_name() << " " << DPC_VERSION << "\n";
    else if (!shell.empty())
      std::cout << completionScript(app, app.get_name(), shell);
    else
      return run();
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
  } catch (const CLI::Error &error) {
    return fail(app.get_name(), errorText(app, error, argc, argv));
  }
  return 0;
}

void refuseEmptyValues(int argc, const char *const *argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--")
      return;
    if (word.size() > 3 && word.rfind("--", 0) == 0 &&
        word.find('=') == word.size() - 1)
      throw CLI::ValidationError(word + ": its value is missing");
  }
}

} // namespace dpc
