//===- StartedRun.h - dpc-run as a child process ----------------*- C++ -*-===//
#pragma once

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace dpc::rt::test {

/// dpc-run as a child process that writes stdout and stderr to a pipe. It ends
/// after a minute at the latest.
class Started {
public:
  Started(const std::string &folder, const std::vector<std::string> &words) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
      std::vector<char *> argv{const_cast<char *>(DPC_RUN)};
      for (const std::string &word : words)
        argv.push_back(const_cast<char *>(word.c_str()));
      argv.push_back(nullptr);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      alarm(60);
      if (chdir(folder.c_str()) == 0)
        execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    out = ends[0];
  }
  Started(const Started &) = delete;
  Started &operator=(const Started &) = delete;
  ~Started() { closeOutput(); }

  /// Reads until `part` has come. Returns false if the output ends before.
  bool await(const std::string &part) {
    while (text.find(part) == std::string::npos)
      if (!readSome())
        return false;
    return true;
  }
  /// Waits until the process handles `signal`.
  void awaitHandlerOf(int signal) const {
    std::string word;
    for (unsigned long long caught = 0; !(caught >> (signal - 1) & 1);) {
      std::ifstream in("/proc/" + std::to_string(pid) + "/status");
      while (in >> word && word != "SigCgt:")
        continue;
      ASSERT_TRUE(in >> std::hex >> caught) << "it has ended";
      usleep(1000);
    }
  }
  void closeOutput() {
    if (out >= 0)
      close(out);
    out = -1;
  }
  void send(int signal) const { kill(pid, signal); }
  /// Waits for the end and returns the exit code, or -1 if a signal killed it.
  int exitCode() {
    while (out >= 0 && readSome())
      continue;
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string &output() const { return text; }

private:
  bool readSome() {
    char bytes[4096];
    ssize_t count = ::read(out, bytes, sizeof bytes);
    if (count > 0)
      text.append(bytes, count);
    return count > 0;
  }

  pid_t pid = -1;
  int out = -1;
  std::string text;
};

} // namespace dpc::rt::test
