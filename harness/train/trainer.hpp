#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "harness/train/step_sums.hpp"
#include "kernels/core/backend.hpp"
#include "kernels/core/program.hpp"
#include "kernels/ops/model_spec.hpp"

namespace trainbench {

struct TrainerOptions {
  std::int64_t epochs = 10;
  std::int64_t batch = 1;
  std::int64_t validate = 1000;  // First test images, after each epoch; 0: none.
  std::uint32_t seed = 1;        // Of weights, orders and dropout masks.
  Precision precision = Precision::kFp32;
  std::optional<ModelState> initial = {};  // To start from instead of the seed's weights.
};

struct EpochResult {
  double seconds = 0;  // Of training alone, without validation.
  double us_per_sample = 0;
  LossAccuracy training;      // While training, dropout active, as Keras reports it.
  LossAccuracy validation;    // When there are validation images.
  bool not_learning = false;  // The loss is still that of guessing.
};

struct TrainingResult {
  double setup_seconds = 0;  // Compiling the program and loading the data.
  std::vector<EpochResult> epochs;
  LossAccuracy test;  // Over all test images.
  double evaluate_seconds = 0;
  double total_seconds = 0;
  std::vector<std::int32_t> predicted;  // Class of every test image.
  ModelState state;                     // After the last complete epoch.
  std::string label;                    // How the program computes.
  double executed_flops = 0;            // Of one full-batch step.
};

// What a caller shows while training goes on.
struct TrainerEvents {
  // After set-up and before the first step: the place for checks, whose time counts nowhere.
  std::function<void()> set_up;
  // Steps done of an epoch, some ten times a second; the last call of an epoch has done == all.
  std::function<void(std::int64_t done, std::int64_t all, const LossAccuracy& so_far)> progress;
  std::function<void(std::int64_t epoch, const EpochResult&)> epoch_done;
};

// Trains a model for some epochs, or none, on one device, reshuffling for each, and evaluates it on
// all test images. Throws Interrupted when the user asks to stop, and std::runtime_error when the
// loss is no longer finite. `result` holds what was reached, also then.
void train_model(const Backend& backend, Device& device, const ModelSpec& spec,
                 const TrainTest& data, const TrainerOptions& options, const TrainerEvents& events,
                 TrainingResult& result);

}  // namespace trainbench
