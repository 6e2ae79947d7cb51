#pragma once

#include <stdexcept>
#include <string>

#include "kernels/core/device.hpp"
#include "kernels/core/op.hpp"
#include "kernels/core/stop.hpp"

namespace trainbench {

// Calls f(); the message of what it throws gets "name: " in front, its kind is kept. A request to
// stop passes as it is.
template <class F>
decltype(auto) naming(const std::string& name, F&& f) {
  const auto named = [&name](const std::exception& error) { return name + ": " + error.what(); };
  try {
    return f();
  } catch (const Interrupted&) {
    throw;
  } catch (const Unsupported& error) {
    throw Unsupported(named(error));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(named(error));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(named(error));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(named(error));
  }
}

}  // namespace trainbench
