#include "tools/cli/CommandLine.h"

#include "runtime/base/Nearest.h"

#include <algorithm>
#include <iostream>
#include <vector>

namespace dpc {

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

std::string errorText(const CLI::App &app, const CLI::Error &error, int argc,
                      const char *const *argv, const OtherOptions &others) {
  std::string text = error.what();
  if (!dynamic_cast<const CLI::ExtrasError *>(&error))
    return text;
  std::vector<std::string> names = optionsOf(app);
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    word = word.substr(0, word.find('='));
    bool isUnknown = word.starts_with("--") && word.size() > 2 &&
                     std::find(names.begin(), names.end(), word) == names.end();
    if (isUnknown && std::find(others.names.begin(), others.names.end(),
                               word) != others.names.end())
      return text + "; " + word + " is an option of " + others.program;
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
