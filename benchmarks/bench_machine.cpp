// The machine's limits: what its multiply-add pipes, its caches, its memory and a fork with a join
// of our threads reach at most.
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/rows/timing.hpp"
#include "harness/run/bench_main.hpp"
#include "kernels/machine/memory_levels.hpp"
#include "kernels/machine/peak.hpp"
#include "kernels/machine/streams.hpp"

namespace trainbench {
namespace {

// The host with the threads of one row: the session's device where the numbers agree.
class RowHost {
 public:
  RowHost(Session& session, int threads) {
    if (threads == session.options().threads) {
      device_ = &as_host(session.device(session.reference()));
    } else {
      own_ = std::make_unique<HostDevice>(threads);
      device_ = own_.get();
    }
  }
  HostDevice& device() { return *device_; }

 private:
  std::unique_ptr<HostDevice> own_;
  HostDevice* device_ = nullptr;
};

std::string threads_axis(int threads) { return "threads:" + std::to_string(threads); }

// One thread, which no other disturbs, and all of them together.
std::set<int> thread_counts(const Session& session) { return {1, session.options().threads}; }

// Rows of one thread are for the full tier; those of all threads are roofs of other rows.
Tier tier_of(int threads, const Session& session, Tier tier) {
  return threads == session.options().threads ? tier : Tier::kFull;
}

struct PeakRow {
  PeakRow(Session& session, int threads, const PeakKernel& kernel)
      : host(session, threads), peak(host.device().team(), kernel) {
    call_seconds = warm_up(host.device(), [&] { run(); });
  }

  void run() { peak.run(kRounds); }

  static constexpr std::int64_t kRounds = 1 << 18;  // Some 0.5 ms.
  RowHost host;
  Peak peak;
  double call_seconds;
};

void time_peak(benchmark::State& state, Session& session, const std::string& name, int threads,
               const PeakKernel& kernel) {
  auto& row = session.prepared<PeakRow>(
      name, [&] { return std::make_unique<PeakRow>(session, threads, kernel); });
  session.hygiene().restart();
  const double seconds = time_calls(state, row.host.device(), row.call_seconds, [&] { row.run(); });
  row.peak.check();
  state.counters["flops"] = row.peak.flops(PeakRow::kRounds) / seconds;
  state.SetLabel("chains=" + std::to_string(kernel.chains) +
                 ";lanes=" + std::to_string(kernel.lanes));
}

void add_peak_rows(const Session& session, std::vector<Row>& rows) {
  const std::vector<PeakKernel> kernels = peak_kernels();
  for (const PeakKernel& kernel : kernels) {
    const bool widest = kernel.isa == kernels.back().isa;
    for (const int threads : thread_counts(session)) {
      const std::string name =
          row_name("machine", "fma", "peak", std::string(kernel.isa),
                   std::string(to_string(kernel.precision)), {threads_axis(threads)});
      const Tier tier = tier_of(threads, session, widest ? Tier::kSmoke : Tier::kDefault);
      rows.push_back({name, tier, "", kernel.precision, [=](benchmark::State& state, Session& at) {
                        time_peak(state, at, name, threads, kernel);
                      }});
    }
  }
}

struct SweepCase {
  Stream stream;
  Stores stores;
  MemoryLevel level;
  int threads;
};

struct SweepRow {
  SweepRow(Session& session, const SweepCase& of)
      : host(session, of.threads),
        sweep(host.device(), of.stream, of.level.working_set, of.stores),
        passes(sweep.passes_per_call()) {
    call_seconds = warm_up(host.device(), [&] { run(); });
    sweep.check();
  }

  void run() { sweep.run(passes); }

  RowHost host;
  StreamSweep sweep;
  std::int64_t passes;
  double call_seconds;
};

void time_sweep(benchmark::State& state, Session& session, const std::string& name,
                const SweepCase& sweep_case) {
  auto& row = session.prepared<SweepRow>(
      name, [&] { return std::make_unique<SweepRow>(session, sweep_case); });
  session.hygiene().restart();
  const double seconds = time_calls(state, row.host.device(), row.call_seconds, [&] { row.run(); });
  row.sweep.check();
  const double bytes = row.sweep.bytes_per_pass() * static_cast<double>(row.passes);
  state.counters["bytes_per_second"] = bytes / seconds;
  state.counters["working_set_bytes"] = static_cast<double>(row.sweep.working_set());
}

void add_sweep_row(const SweepCase& sweep_case, Tier tier, std::vector<Row>& rows) {
  std::vector<std::string> axes = {threads_axis(sweep_case.threads)};
  if (sweep_case.stores == Stores::kNonTemporal) axes.push_back("algo:non_temporal");
  const std::string name = row_name("machine", "memory", std::string(to_string(sweep_case.stream)),
                                    sweep_case.level.name, "fp32", axes);
  rows.push_back({name, tier, "", Precision::kFp32, [=](benchmark::State& state, Session& session) {
                    time_sweep(state, session, name, sweep_case);
                  }});
}

// The CPUs that a team of so many threads is pinned to.
std::vector<int> team_cpus(int threads) {
  std::vector<int> cpus = allowed_cpus();
  if (static_cast<std::size_t>(threads) < cpus.size())
    cpus.resize(static_cast<std::size_t>(threads));
  return cpus;
}

void add_sweep_rows(const Session& session, std::vector<Row>& rows) {
  for (const int threads : thread_counts(session)) {
    for (const MemoryLevel& level : memory_levels(team_cpus(threads))) {
      for (const Stream stream : {Stream::kRead, Stream::kTriad, Stream::kCopy}) {
        const bool in_memory = level.name == "memory";
        const bool smoke = stream == Stream::kRead && (in_memory || level.name == "l1");
        const Tier tier = tier_of(threads, session, smoke ? Tier::kSmoke : Tier::kDefault);
        add_sweep_row({stream, Stores::kOrdinary, level, threads}, tier, rows);
        if (!in_memory || stream == Stream::kRead) continue;
        add_sweep_row({stream, Stores::kNonTemporal, level, threads},
                      tier_of(threads, session, Tier::kDefault), rows);
      }
    }
  }
}

// Counts the calls that each thread sees.
struct ForkJoinRow {
  ForkJoinRow(Session& session, int threads)
      : host(session, threads), calls(static_cast<std::size_t>(threads)) {
    call_seconds = warm_up(host.device(), [&] { run(); });
    check();
  }

  void run() {
    ++runs;
    host.device().team().run([&](int thread) { ++calls[static_cast<std::size_t>(thread)].count; });
  }
  void check() const {
    for (const Calls& of_thread : calls) {
      if (of_thread.count == runs) continue;
      throw std::runtime_error("fork and join: a thread took part in " +
                               std::to_string(of_thread.count) + " of " + std::to_string(runs) +
                               " calls");
    }
  }

  struct alignas(64) Calls {
    std::int64_t count = 0;
  };
  RowHost host;
  std::vector<Calls> calls;
  std::int64_t runs = 0;
  double call_seconds;
};

void time_fork_join(benchmark::State& state, Session& session, const std::string& name,
                    int threads) {
  auto& row = session.prepared<ForkJoinRow>(
      name, [&] { return std::make_unique<ForkJoinRow>(session, threads); });
  session.hygiene().restart();
  const double seconds = time_calls(state, row.host.device(), row.call_seconds, [&] { row.run(); });
  row.check();
  state.counters["nanoseconds"] = seconds * 1e9;
}

void add_fork_join_rows(const Session& session, std::vector<Row>& rows) {
  for (const int threads : thread_counts(session)) {
    const std::string name =
        row_name("machine", "fork_join", "team", "host", "none", {threads_axis(threads)});
    rows.push_back(
        {name, tier_of(threads, session, Tier::kSmoke), "", Precision::kFp32,
         [=](benchmark::State& state, Session& at) { time_fork_join(state, at, name, threads); }});
  }
}

std::vector<Row> machine_rows(const Session& session) {
  std::vector<Row> rows;
  add_peak_rows(session, rows);
  add_sweep_rows(session, rows);
  add_fork_join_rows(session, rows);
  return rows;
}

}  // namespace
}  // namespace trainbench

int main(int argc, char** argv) {
  const trainbench::ProgramInfo info = {
      "bench_machine",
      "The machine's limits: multiply-add peak, cache and memory bandwidth, fork and join.",
      {"bench_machine --tier=full --benchmark_out=machine.json",
       "bench_machine --benchmark_filter=machine/memory/triad"}};
  return trainbench::run_benchmarks(argc, argv, info, trainbench::machine_rows);
}
