// Writes the inputs of the golden files, as the suite's own generator defines them: for each
// setting FOLDER/<setting>.safetensors with samples, weights and dropout masks.
// tools/golden/with_pytorch.py adds what PyTorch computes from them.

#include <iostream>

#include "data/model_file.hpp"
#include "harness/report/result_file.hpp"
#include "tests/golden.hpp"

int main(int argc, char** argv) {
  using namespace trainbench;
  if (argc != 2) {
    std::cerr << "usage: golden_inputs FOLDER\n";
    return 1;
  }
  try {
    for (const golden::Setting& setting : golden::settings()) {
      const std::string path = std::string(argv[1]) + "/" + setting.name + ".safetensors";
      ResultFile(path).finish(tensor_file_bytes(golden::inputs(setting)));
      std::cout << path << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << "golden_inputs: " << error.what() << "\n";
    return 1;
  }
}
