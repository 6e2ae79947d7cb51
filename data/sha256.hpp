#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace trainbench {

// SHA-256 (FIPS 180-4) of `bytes` as 64 hexadecimal digits, as sha256sum prints it.
std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace trainbench
