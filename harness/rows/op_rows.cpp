#include "harness/rows/op_rows.hpp"

#include <chrono>
#include <optional>

#include "harness/check/op_case.hpp"
#include "harness/check/row_checks.hpp"
#include "harness/rows/roof_share.hpp"
#include "harness/rows/timing.hpp"
#include "harness/run/session.hpp"

namespace trainbench {
namespace {

struct PreparedOp {
  std::optional<OpCase> op_case;
  double setup_seconds = 0, call_seconds = 0;
};

std::unique_ptr<PreparedOp> prepare(Session& session, const OpRow& row, const Backend& backend,
                                    Precision precision) {
  auto prepared = std::make_unique<PreparedOp>();
  Device& device = session.device(backend);
  // Set-up comes before the checks, which would otherwise pay for what is compiled or loaded once.
  CaseOptions options;
  if (row.options) options = row.options(session, backend, precision);
  options.precision = precision;
  prepared->op_case.emplace(backend.ops(), device, row.problem, row.pass, options);
  const auto start = std::chrono::steady_clock::now();
  prepared->op_case->run();
  device.synchronize();
  const std::chrono::duration<double> first_call = std::chrono::steady_clock::now() - start;
  prepared->setup_seconds = prepared->op_case->creation_seconds() + first_call.count();
  if (row.check) row.check(session);
  check_case(session, *prepared->op_case);
  prepared->call_seconds = warm_up(device, [&] { prepared->op_case->run(); });
  return prepared;
}

// Whether the time includes reorders of activations, or leaves them out: operands in forms of the
// backend's own. A row of plain activations may need none; its weights lie as the op wants them.
std::string reorder_label(const OpCase& op_case) {
  if (op_case.plain()) return op_case.includes_reorder() ? ";included=reorder" : "";
  for (const Operand& operand : op_case.problem().operands(op_case.pass())) {
    if (!layout_of(op_case.op(), operand.name).canonical()) return ";excluded=reorder";
  }
  return "";
}

void run_op_row(benchmark::State& state, Session& session, const OpRow& row,
                const std::string& name, const Backend& backend, Precision precision) {
  auto& prepared =
      session.prepared<PreparedOp>(name, [&] { return prepare(session, row, backend, precision); });
  OpCase& op_case = *prepared.op_case;
  op_case.reset();
  if (backend.on_host()) session.roofs();  // Measured before the clock starts.
  session.hygiene().restart();
  const double seconds =
      time_calls(state, session.device(backend), prepared.call_seconds, [&] { op_case.run(); });
  const Work work = row.problem->work(row.pass);
  if (work.flops > 0) state.counters["flops"] = work.flops / seconds;
  state.counters["bytes_per_second"] = work.bytes / seconds;
  if (row.batch > 0)
    state.counters["examples_per_second"] = static_cast<double>(row.batch) / seconds;
  state.counters["setup_ms"] = 1e3 * prepared.setup_seconds;
  std::string label = "impl=" + op_case.op().implementation(row.pass) + reorder_label(op_case);
  if (op_case.copies() > 1) label += ";copies=" + std::to_string(op_case.copies());
  const std::string device_label = session.device(backend).label();
  if (!device_label.empty()) label += ";" + device_label;
  if (backend.on_host()) {
    const RoofShare share = roof_share(session.roofs(), precision, op_case.executed_flops(),
                                       work.bytes, op_case.working_set(), seconds);
    state.counters["percent_of_peak"] = share.percent;
    label += ";roof=" + share.roof;
    if (share.suspect) label += ";warning=suspect: above its roof";
  }
  state.SetLabel(label);
}

}  // namespace

Row make_op_row(OpRow row, const Backend& backend, Precision precision) {
  std::string name =
      row_name(row.family, row.subject, std::string(to_string(row.pass)),
               std::string(backend.name()), std::string(to_string(precision)), row.axes);
  return {.name = name,
          .tier = row.tier,
          .backend = std::string(backend.name()),
          .precision = precision,
          .body = [row = std::move(row), name, &backend, precision](benchmark::State& state,
                                                                    Session& session) {
            run_op_row(state, session, row, name, backend, precision);
          }};
}

}  // namespace trainbench
