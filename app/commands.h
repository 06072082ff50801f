// The commands of the `quire` executable. Each adds its flags to a CLI11 subcommand and returns
// what runs it: an exit code, after its own output.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace quire {

using Command = std::function<int()>;

Command add_serve(CLI::App& command);
Command add_generate(CLI::App& command);
Command add_chat(CLI::App& command);
Command add_inspect(CLI::App& command);
Command add_pull(CLI::App& command);
Command add_list(CLI::App& command);
Command add_rm(CLI::App& command);
Command add_run_batch(CLI::App& command);
Command add_openapi(CLI::App& command);
Command add_simulate(CLI::App& command);
Command add_bench_engine(CLI::App& command);
Command add_bench_logits(CLI::App& command);

// Prints "quire: error: ..." to stderr; returns 1.
struct Error;
int fail(const Error& error);

}  // namespace quire
