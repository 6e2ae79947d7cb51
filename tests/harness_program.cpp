// A bench_* program whose rows and backends do what real ones should not.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <thread>

#include "harness/run/bench_main.hpp"
#include "kernels/core/host_backend.hpp"
#include "kernels/core/stop.hpp"

namespace trainbench {
namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class FakeBackend final : public HostBackend {
 public:
  FakeBackend(std::string name, bool in_child, std::function<Probe()> probe)
      : name_(std::move(name)), in_child_(in_child), probe_(std::move(probe)) {}
  std::string_view name() const override { return name_; }
  OpTable ops() const override { return {}; }
  bool probe_in_child() const override { return in_child_; }
  Probe probe() const override {
    // Tells tests which backends were probed.
    if (const char* log = std::getenv("PROBE_LOG")) {
      std::FILE* file = std::fopen(log, "a");
      std::fprintf(file, "%s\n", name_.c_str());
      std::fclose(file);
    }
    return probe_();
  }

 private:
  std::string name_;
  bool in_child_;
  std::function<Probe()> probe_;
};

Probe available(const std::string& version) {
  return {.available = true, .reason = "", .version = version, .context = {{"fine_core", "x86"}}};
}

}  // namespace

std::vector<std::unique_ptr<Backend>> make_backends() {
  const auto make = [](const char* name, bool in_child, std::function<Probe()> probe) {
    return std::make_unique<FakeBackend>(name, in_child, std::move(probe));
  };
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make("aborts", true, []() -> Probe { std::abort(); }));
  backends.push_back(make("away", false, [] {
    return Probe{.available = false, .reason = "no device", .version = "", .context = {}};
  }));
  backends.push_back(make("chatty", true, [] {
    std::printf("{\"hello\": 1}\n");
    std::fflush(stdout);
    Probe probe = available("chatty 2.0");
    probe.lacking = {{Precision::kBf16, "its chip is too old"}};
    return probe;
  }));
  backends.push_back(make("crashes", true, []() -> Probe {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    std::abort();
  }));
  backends.push_back(make("exits", true, []() -> Probe { std::exit(3); }));
  backends.push_back(make("fine", false, [] { return available("fine 1.0"); }));
  backends.push_back(make("hangs", true, []() -> Probe {
    while (true) pause();
  }));
  backends.push_back(make("reference", false, [] { return available("loops"); }));
  backends.push_back(
      make("throws", false, []() -> Probe { throw std::runtime_error("driver too old"); }));
  return backends;
}

std::vector<std::string> absent_backends() { return {"nowhere: libnowhere was not found"}; }

namespace {

void run_loop(benchmark::State& state, double seconds) {
  while (state.KeepRunning()) {
    check_stop();
    sleep_for(seconds);
    state.SetIterationTime(seconds);
  }
}

Row make_row(const std::string& name, Tier tier, const std::string& backend,
             std::function<void(benchmark::State&, Session&)> body) {
  return {.name = name,
          .tier = tier,
          .backend = backend,
          .precision = Precision::kFp32,
          .body = std::move(body)};
}

void failing_rows(std::vector<Row>& rows) {
  const auto add = [&rows](const std::string& name, auto body) {
    rows.push_back(make_row(name, Tier::kFull, "fine", body));
  };
  add("op/wrong/forward/fine/fp32/batch:1",
      [](benchmark::State&, Session&) { throw std::runtime_error("element 3 is 1, not \"2\""); });
  add("op/big/forward/fine/fp32/batch:1",
      [](benchmark::State&, Session&) { throw OutOfMemory("64 bytes needed, 8 available"); });
  add("op/unlooped/forward/fine/fp32/batch:1", [](benchmark::State&, Session&) {});
  add("op/late/forward/fine/fp32/batch:1",
      [entries = 0](benchmark::State& state, Session&) mutable {
        // Three calls per entry are no divisor of the iterations asked for.
        while (state.KeepRunningBatch(3)) state.SetIterationTime(0.002);
        if (state.max_iterations > 1 && ++entries == 3) throw std::runtime_error("late failure");
      });
  add("op/later/forward/fine/fp32/batch:1",
      [entries = 0](benchmark::State& state, Session&) mutable {
        if (state.max_iterations > 1 && ++entries == 3) throw std::runtime_error("late failure");
        while (state.KeepRunningBatch(3)) state.SetIterationTime(0.002);
      });
  add("op/untimed/forward/fine/fp32/batch:1", [](benchmark::State& state, Session&) {
    while (state.KeepRunning()) {
      sleep_for(0.7);
      state.SetIterationTime(1e-9);
    }
  });
}

std::vector<Row> make_rows(const Session&) {
  std::vector<Row> rows;
  for (const char* backend : {"fine", "away", "hangs", "chatty"}) {
    rows.push_back(make_row(row_name("op", "good", "forward", backend, "fp32", {"batch:1"}),
                            Tier::kSmoke, backend, [](benchmark::State& state, Session&) {
                              run_loop(state, 0.001);
                              state.counters["first"] = 1;
                            }));
  }
  rows.push_back(make_row("op/good/forward/chatty/bf16/batch:1", Tier::kSmoke, "chatty",
                          [](benchmark::State& state, Session&) { run_loop(state, 0.001); }));
  rows.back().precision = Precision::kBf16;
  rows.push_back(make_row("op/odd/forward/fine/fp32/batch:1", Tier::kFull, "fine",
                          [](benchmark::State& state, Session& session) {
                            run_loop(state, 0.001);
                            std::printf("chatter\n");
                            state.counters["not_a_number"] = std::nan("");
                            state.counters["endless"] = std::numeric_limits<double>::infinity();
                            state.counters["second"] = 2;
                            state.SetLabel(
                                "name=Gr\xc3\xb6\xc3\x9f"
                                "e \"quoted\", \xff");
                            session.add_context("data_set", "fashion");
                          }));
  rows.push_back(make_row("epoch/net/train/fine/fp32/batch:1", Tier::kDefault, "fine",
                          [](benchmark::State& state, Session&) { run_loop(state, 0.01); }));
  rows.push_back(make_row("epoch/net/train/fine/fp32/batch:1/steps:50", Tier::kFull, "fine",
                          [](benchmark::State& state, Session&) { run_loop(state, 0.01); }));
  for (int batch = 1; batch <= 20; ++batch) {
    rows.push_back(make_row("step/slow/train/fine/fp32/batch:" + std::to_string(batch), Tier::kFull,
                            "fine",
                            [](benchmark::State& state, Session&) { run_loop(state, 0.05); }));
  }
  rows.push_back(make_row("step/deaf/train/fine/fp32/batch:1", Tier::kFull, "fine",
                          [](benchmark::State& state, Session&) {
                            while (state.KeepRunning()) sleep_for(20);
                          }));
  failing_rows(rows);
  return rows;
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  return trainbench::run_benchmarks(argc, argv,
                                    {.name = "harness_program",
                                     .description = "Rows that do what real ones should not",
                                     .examples = {"harness_program --tier=smoke"}},
                                    trainbench::make_rows);
}
